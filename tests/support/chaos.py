"""Trouble for workers on Kafka, in turn, while they crawl; each process that ends is started again, as a supervisor would.

Judged at the end by `support.workers.prove` and by the site's own record. What is not looked at: brokers that differ.
"""

import random
import signal
import time
from collections.abc import Callable
from pathlib import Path

from frontlog.avro.codec import encode
from frontlog.avro.enums import SourceKind, Topic
from frontlog.avro.errors import Retriable
from frontlog.processors import canonical
from frontlog.processors.control import seed_discovery
from frontlog.streams.kafka_log import KafkaLog
from frontlog.streams.kafka_places import TOPICS, KafkaCrawl
from frontlog.streams.records import NewRecord
from support.broker import Broker
from support.workers import Worker

STOPPED_S = 9.0
"""Longer than a session: the group takes a stopped worker for dead."""
REST_S = 3.0
MISPLACED = 10_000

APPENDS_MAX = 50


def _append(log: KafkaLog, wanted: list[tuple[Topic, int, list[NewRecord]]]) -> None:
    """Append in one transaction, as often as it takes while workers write to the same partitions."""
    for attempt in range(APPENDS_MAX):
        try:
            with log.begin() as txn:
                for topic, partition, records in wanted:
                    txn.append(topic, partition, records)
                txn.commit()
        except Retriable:
            if attempt == APPENDS_MAX - 1:
                raise
            time.sleep(0.1)
        else:
            return


class Chaos:
    """Two workers and what befalls them. `worked` says whether anything is left to do."""

    def __init__(
        self, broker: Broker, crawl: KafkaCrawl, folder: Path, seed: int, settings: dict[str, object]
    ) -> None:
        self.broker = broker
        self.crawl = crawl
        self.folder = folder
        self.chance = random.Random(seed)
        self.settings = settings
        self.workers: dict[str, Worker] = {}
        self.folders: list[Path] = []
        self.story: list[str] = []
        self.ends: list[tuple[str, int, str]] = []
        """Which worker ended, with which code, and what it said last."""
        self._crashing: set[str] = set()

    def start(self, name: str, *, crash: bool = False) -> None:
        """Start a worker, or let it be one that ends by itself at random moments."""
        folder = self.folder / name
        if folder not in self.folders:
            self.folders.append(folder)
        (self._crashing.add if crash else self._crashing.discard)(name)
        self.workers[name] = Worker(self.crawl, folder, crash=crash, settings=self.settings, traced=False)

    def tend(self) -> None:
        """Start again what has ended."""
        for name, worker in list(self.workers.items()):
            if worker.code is not None:
                said = worker.errors.splitlines()
                self.ends.append((name, worker.code, said[-1][:300] if said else ""))
                self.start(name, crash=name in self._crashing)

    def rest(self, seconds: float, done: Callable[[], bool] = lambda: False) -> None:
        """Let them work, tended, for a while."""
        until = time.monotonic() + seconds
        while time.monotonic() < until and not done():
            self.tend()
            time.sleep(0.2)

    def end(self) -> None:
        """Stop all of them in good order."""
        for worker in self.workers.values():
            worker.send(signal.SIGTERM)
        for worker in self.workers.values():
            worker.wait(40)
        self.workers = {}

    def close(self) -> None:
        """Whatever happened, leave no process behind."""
        for worker in self.workers.values():
            if worker.is_running:
                worker.kill()

    # --- what befalls them ---------------------------------------------------------------------------------------

    def kill(self) -> None:
        """kill -9 of one worker."""
        name = self.chance.choice(sorted(self.workers))
        self.story.append(f"kill {name}")
        self.workers[name].kill()

    def stop(self) -> None:
        """A worker is stopped for longer than its session, and goes on: a zombie that must not write."""
        name = self.chance.choice(sorted(self.workers))
        self.story.append(f"stop {name}")
        self.workers[name].send(signal.SIGSTOP)
        self.rest(STOPPED_S)
        self.workers[name].send(signal.SIGCONT)

    def crash(self) -> None:
        """One worker ends between produce, Kafka's commit and its own, again and again."""
        name = self.chance.choice(sorted(self.workers))
        self.story.append(f"crash {name}")
        self.workers[name].kill()
        self.start(name, crash=True)
        self.rest(5 * REST_S)
        self.workers[name].kill()
        self.start(name)

    def lose_broker(self) -> None:
        """kill -9 of the broker, which comes back."""
        self.story.append("broker")
        self.broker.stop(signal.SIGKILL)
        self.rest(1)
        self.broker.start()

    def join(self) -> None:
        """A third worker comes and goes."""
        self.story.append("join")
        self.start("third")
        self.rest(4 * REST_S)
        third = self.workers.pop("third")
        third.send(signal.SIGTERM)
        third.wait(40)

    def poison(self) -> None:
        """Bytes that are no event on every topic of inputs, and inputs that lie in a wrong partition."""
        self.story.append("poison")
        log = KafkaLog(
            self.crawl.servers, TOPICS, prefix=self.crawl.prefix, writer=f"{self.crawl.name}.chaos"
        )
        now_ms = time.time_ns() // 1_000_000
        junk = [NewRecord(now_ms, b"", self.chance.randbytes(size)) for size in (0, 1, 9, 300)]
        partitions = range(2)
        wrong = [(Topic.CANDIDATES, 0, junk)]
        wrong.append((Topic.CONTROL, 0, [NewRecord(now_ms, b"ops", b'{"cmd": "dance"}')]))
        for topic in (Topic.DISCOVERIES, Topic.FETCH_RESULTS, Topic.CONTROL, Topic.CONTENT_VERDICTS):
            wrong += [(topic, number, junk) for number in partitions]
        _append(log, wrong)
        for number in partitions:
            _append(log, [(Topic.DISCOVERIES, number, self._misplaced(now_ms, MISPLACED // 2))])
        log.close()

    def _misplaced(self, now_ms: int, count: int) -> list[NewRecord]:
        """Discoveries of hosts that nobody serves, half of which belong to another partition."""
        found: list[NewRecord] = []
        for n in range(count):
            url = f"http://host{n}.invalid/{n}"
            known = canonical.canonicalize(url)
            assert isinstance(known, canonical.Identity)
            event = seed_discovery(f"chaos {url}", url, known, SourceKind.PAGE, now_ms)
            found.append(NewRecord(now_ms, known.origin_key.encode(), encode(event)))
        return found
