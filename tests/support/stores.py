"""The implementations of stores and logs that the contract suites run against, and processes to kill."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Protocol

from frontlog.state.lmdb_store import LmdbStore
from frontlog.state.memory_store import MemoryStore
from frontlog.state.store import Item, Store
from frontlog.streams.embedded_log import TABLE, EmbeddedLog
from frontlog.streams.kafka_client import admin
from frontlog.streams.kafka_log import KafkaLog
from frontlog.streams.kafka_topics import make
from frontlog.streams.log import Log

TABLES = ("a", "b", TABLE)
TOPICS = {"discoveries": 1, "control": 3}


class Child:
    """A process of its own that runs a piece of Python, to be killed."""

    def __init__(self, code: str, *args: str) -> None:
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        self._process = subprocess.Popen(
            [sys.executable, "-c", code, *args], stdout=subprocess.PIPE, text=True, env=env
        )

    def line(self) -> str:
        """The next line that it prints; "" when it has ended."""
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def kill(self) -> None:
        self._process.send_signal(signal.SIGKILL)
        self.wait()

    def wait(self) -> int:
        code = self._process.wait(30)
        assert self._process.stdout is not None
        self._process.stdout.close()
        return code


class Stores(Protocol):
    """One store, which can be opened again and again when it is durable."""

    def open(self) -> Store: ...

    def child(self, code: str) -> Child:
        """A process that has the store as `store` and runs the code."""
        ...

    def close(self) -> None: ...


class MemoryStores:
    def __init__(self, folder: Path) -> None:
        self._store: MemoryStore | None = None

    def open(self) -> Store:
        self._store = MemoryStore(TABLES)
        return self._store

    def child(self, code: str) -> Child:
        raise NotImplementedError

    def close(self) -> None:
        if self._store is not None:
            self._store.close()


class LmdbStores:
    prelude = (
        "import sys, time\n"
        "from frontlog.state.lmdb_store import LmdbStore\n"
        f"store = LmdbStore(sys.argv[1], {TABLES!r})\n"
    )

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._store: LmdbStore | None = None

    def open(self) -> Store:
        self.close()
        self._store = LmdbStore(self._folder / "store", TABLES)
        return self._store

    def child(self, code: str) -> Child:
        return Child(self.prelude + code, str(self._folder / "store"))

    def close(self) -> None:
        if self._store is not None:
            self._store.close()
            self._store = None


class Logs(Protocol):
    """One log with the topics TOPICS of at least two partitions each."""

    def open(self) -> Log:
        """The log, as a process sees it that starts now."""
        ...

    def child(self, code: str) -> Child:
        """A process that has the log as `log` and runs the code."""
        ...

    def close(self) -> None: ...


class EmbeddedLogs:
    def __init__(self, stores: Stores) -> None:
        self._stores = stores

    def open(self) -> Log:
        return EmbeddedLog(self._stores.open(), TOPICS)

    def child(self, code: str) -> Child:
        opening = (
            f"from frontlog.streams.embedded_log import EmbeddedLog\nlog = EmbeddedLog(store, {TOPICS!r})\n"
        )
        return self._stores.child(opening + code)

    def close(self) -> None:
        self._stores.close()


_prefixes = count()


class KafkaLogs:
    """New topics on a broker that is there. A child is killed inside a transaction, so that those end soon."""

    timeout_ms = 2_000

    def __init__(self, servers: str) -> None:
        self._servers = servers
        self._prefix = f"t{os.getpid()}.{next(_prefixes)}."
        self._log: KafkaLog | None = None
        client = admin(servers, "tests")  # a client that is collected fails its own calls
        make(client, self._prefix, dict.fromkeys(TOPICS, 2), replication=1)

    def open(self) -> Log:
        self.close()
        self._log = KafkaLog(
            self._servers, TOPICS, prefix=self._prefix, writer=f"{self._prefix}tests", timeout_ms=self.timeout_ms
        )  # fmt: skip
        return self._log

    def child(self, code: str) -> Child:
        opening = (
            "from frontlog.streams.kafka_log import KafkaLog\n"
            f"log = KafkaLog({self._servers!r}, {list(TOPICS)!r}, prefix={self._prefix!r}, "
            f"writer='{self._prefix}child', timeout_ms={self.timeout_ms})\n"
        )
        return Child(opening + code)

    def close(self) -> None:
        if self._log is not None:
            self._log.close()
            self._log = None


STORES: dict[str, Callable[[Path], Stores]] = {"memory": MemoryStores, "lmdb": LmdbStores}
LOGS: dict[str, Callable[[Path], Logs]] = {
    "embedded-memory": lambda folder: EmbeddedLogs(MemoryStores(folder)),
    "embedded-lmdb": lambda folder: EmbeddedLogs(LmdbStores(folder)),
}
# Those that outlive a process, and that other processes can write.
DURABLE_STORES = ["lmdb"]
SHARED_LOGS = ["embedded-lmdb"]
KAFKA = "kafka"
"""The log that needs a broker, which a fixture starts."""


def fill(store: Store, table: str = "a", count: int = 10) -> list[Item]:
    """Rows b"k00", b"k01" …, committed."""
    rows = [(b"k%02d" % n, b"v%d" % n) for n in range(count)]
    with store.begin(write=True) as txn:
        txn.put_many(table, rows)
        txn.commit()
    return rows


def rows_of(store: Store, table: str = "a") -> list[Item]:
    with store.begin() as txn:
        return list(txn.scan(table))


def wait_until(condition: Callable[[], bool], *, seconds: float = 10.0) -> None:
    """Until a callable says yes; the suite must not depend on how fast the machine is."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.005)
