"""The disk of the simulated machine: stores and archive files that outlive a process, and what can go wrong with them.

    Damage       what is wrong at the moment: no room, slow, the operation at which the process dies
    SimStore     a store as one process has it open; every operation of a transaction may be the last
    SimFiles     the archive's folder as one process has it open; a write may get half through

A commit is all or nothing, as the real stores promise (`tests/contract/test_store.py`); a process dies before it or after.
"""

import errno
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Self

from frontlog.avro.errors import StoreFull
from frontlog.fetch.files import Files, MemoryFiles, Out
from frontlog.state.catalogue import STORE_TABLES
from frontlog.state.lmdb_store import LmdbStore
from frontlog.state.memory_store import MemoryStore
from frontlog.state.store import Durability, Item, Store, Txn
from simulation.loop import Crashed

MAP_BYTES = 1 << 19
"""Small, so that maps fill and grow."""


ARCHIVE_WRITES = (
    "within a write of the archive", "before a sync of the archive", "before a segment is made",
)  # fmt: skip
STORE_WRITES = ("before a transaction", "between two writes of a batch", "before a commit", "after a commit")
CUT = "before a cut of the archive"
"""Where a process may die."""


class Damage:
    """What one process meets. `now` gives seconds, `block` lets them pass."""

    def __init__(
        self, now: Callable[[], float], block: Callable[[float], None], happened: Counter[str]
    ) -> None:
        self.happened = happened
        self._now = now
        self._block = block
        self.dead = False
        self.operations = 0
        self.dies_in = 0
        """Operations until the process dies; 0: it doesn't."""
        self.dies_at = ""
        self.power_fails = False
        self.full_until_s = self.archive_full_until_s = self.slow_until_s = 0.0
        self.full_at_put = 0
        self.slow_s = 0.0
        self.commits = 0

    def die(self, count: int, at: str = "", *, power: bool = False) -> None:
        """Have the process die at the `count`-th operation of a kind, or of any; `power`: the machine with it."""
        self.dies_in, self.dies_at, self.power_fails = count, at, power

    def full_as(self, before: "Damage") -> None:
        """The disk is as full as it was for another process."""
        self.full_until_s, self.full_at_put = before.full_until_s, before.full_at_put
        self.archive_full_until_s = before.archive_full_until_s

    def operation(self, what: str) -> None:
        """One operation on the disk; `what` it is tells where a process died."""
        if self.dead:
            raise Crashed
        self.operations += 1
        if self.dies_in and self.dies_at in ("", what):
            self.dies_in -= 1
            if self.dies_in == 0:
                self.dead = True
                self.happened[f"{'power' if self.power_fails else 'crash_write'}: {what}"] += 1
                raise Crashed

    def put(self, number: int) -> None:
        """One write of a transaction, its `number`-th."""
        self.operation("between two writes of a batch")
        if self.full_at_put and number >= self.full_at_put and self._now() < self.full_until_s:
            self.happened["full_log: a write"] += 1
            raise StoreFull("no room for a page")

    def commit(self) -> None:
        """A commit is about to happen."""
        self.operation("before a commit")
        if self._now() < self.slow_until_s:
            self.happened["slow_store"] += 1
            self._block(self.slow_s)
        if self._now() < self.full_until_s:
            self.happened["full_log: a commit"] += 1
            raise StoreFull("no room for a commit")

    def archive_full(self) -> bool:
        return self._now() < self.archive_full_until_s


class SimTxn:
    """A transaction; see `frontlog.state.store.Txn`."""

    def __init__(self, inner: Txn, damage: Damage, committed: Callable[[], None], *, write: bool) -> None:
        self._inner = inner
        self._damage = damage
        self._committed = committed
        self._write = write
        self._puts = 0

    def get(self, table: str, key: bytes) -> bytes | None:
        return self._inner.get(table, key)

    def get_many(self, table: str, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        return self._inner.get_many(table, keys)

    def put(self, table: str, key: bytes, value: bytes) -> None:
        self._count()
        self._inner.put(table, key, value)

    def put_many(self, table: str, items: Sequence[Item]) -> None:
        self._count()
        self._inner.put_many(table, items)

    def append_many(self, table: str, items: Sequence[Item]) -> None:
        self._count()
        self._inner.append_many(table, items)

    def delete(self, table: str, key: bytes) -> bool:
        self._count()
        return self._inner.delete(table, key)

    def scan(self, table: str, start: bytes = b"", stop: bytes | None = None) -> Iterator[Item]:
        return self._inner.scan(table, start, stop)

    def scan_reverse(self, table: str, start: bytes = b"", stop: bytes | None = None) -> Iterator[Item]:
        return self._inner.scan_reverse(table, start, stop)

    def first(self, table: str, start: bytes = b"", stop: bytes | None = None) -> Item | None:
        return self._inner.first(table, start, stop)

    def last(self, table: str, start: bytes = b"", stop: bytes | None = None) -> Item | None:
        return self._inner.last(table, start, stop)

    def count(self, table: str) -> int:
        return self._inner.count(table)

    def clear(self, table: str) -> None:
        self._count()
        self._inner.clear(table)

    def commit(self) -> None:
        if not self._write:
            self._inner.commit()
            return
        try:
            self._damage.commit()
        except StoreFull:
            self._inner.abort()
            raise
        self._inner.commit()
        self._damage.commits += 1
        self._committed()
        self._damage.operation("after a commit")

    def abort(self) -> None:
        self._inner.abort()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.abort()

    def _count(self) -> None:
        self._puts += 1
        self._damage.put(self._puts)


class SimStore:
    """A store as one process has it open; see `frontlog.state.store.Store`."""

    def __init__(self, inner: Store, damage: Damage, committed: Callable[[], None]) -> None:
        self.inner = inner
        self._damage = damage
        self._committed = committed

    @property
    def path(self) -> Path | None:
        return self.inner.path

    @property
    def durability(self) -> Durability:
        return self.inner.durability

    def begin(self, *, write: bool = False) -> SimTxn:
        self._damage.operation("before a transaction")
        return SimTxn(self.inner.begin(write=write), self._damage, self._committed, write=write)

    def size_bytes(self) -> int:
        return self.inner.size_bytes()

    def used_bytes(self) -> int:
        return self.inner.used_bytes()

    def close(self) -> None:
        """The disk closes it, when the machine starts the next process."""


class SimOut:
    """A file that a process writes; see `frontlog.fetch.files.Out`."""

    def __init__(self, inner: Out, damage: Damage) -> None:
        self._inner = inner
        self._damage = damage

    def write(self, offset: int, data: bytes) -> None:
        full = self._damage.archive_full()
        try:
            self._damage.operation("within a write of the archive")
        except Crashed:
            self._inner.write(offset, data[: len(data) // 2])
            raise
        if full:
            self._damage.happened["full_archive"] += 1
            self._inner.write(offset, data[: len(data) // 3])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._inner.write(offset, data)

    def sync(self) -> None:
        self._damage.operation("before a sync of the archive")
        if self._damage.archive_full():
            self._damage.happened["full_archive"] += 1
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._inner.sync()

    def truncate(self, size: int) -> None:
        self._damage.operation("before a cut of the archive")
        self._inner.truncate(size)

    def close(self) -> None:
        self._inner.close()


class SimFiles:
    """The archive's folder as a process has it; see `frontlog.fetch.files.Files`."""

    def __init__(self, inner: Files, damage: Damage) -> None:
        self._inner = inner
        self._damage = damage

    def names(self) -> list[str]:
        return self._inner.names()

    def size(self, name: str) -> int:
        return self._inner.size(name)

    def read(self, name: str, offset: int, length: int) -> bytes:
        return self._inner.read(name, offset, length)

    def create(self, name: str) -> SimOut:
        self._damage.operation("before a segment is made")
        return SimOut(self._inner.create(name), self._damage)

    def sync_folder(self) -> None:
        self._damage.operation("before a sync of the archive")
        self._inner.sync_folder()

    def cut(self, name: str, size: int) -> None:
        self._damage.operation("before a cut of the archive")
        self._inner.cut(name, size)

    def remove(self, name: str) -> None:
        self._damage.operation("before a cut of the archive")
        self._inner.remove(name)


class WatchedFiles(MemoryFiles):
    """An archive folder that tells what of it is durable."""

    def __init__(self) -> None:
        super().__init__()
        self._synced_bytes: dict[str, int] = {}
        self._named: set[str] = set()

    def sync(self, name: str) -> None:
        super().sync(name)
        self._synced_bytes[name] = self.size(name)

    def sync_folder(self) -> None:
        super().sync_folder()
        self._named = set(self.files)

    def lose(self, torn: int) -> bool:
        """The machine is without power: what was not synced is lost, but for `torn` bytes of each file; whether any was."""
        before = sum(map(len, self.files.values()))
        self.crash(torn)
        return sum(map(len, self.files.values())) < before

    def durable_bytes(self, name: str) -> int:
        """How many bytes of a file survive the machine."""
        return self._synced_bytes.get(name, 0) if name in self._named else 0


class Disk:
    """All that is durable. `folder` None: stores in memory."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self.files = WatchedFiles()
        self.stores: dict[str, Store] = {}

    def store(self, name: str) -> Store:
        """The store of a shard, opened when it isn't."""
        if name not in self.stores:
            self.stores[name] = (
                MemoryStore(STORE_TABLES)
                if self.folder is None
                else LmdbStore(self.folder / name, STORE_TABLES, durability="none", map_bytes=MAP_BYTES)
            )
        return self.stores[name]

    def close(self) -> None:
        """Close what can be opened again."""
        if self.folder is not None:
            for store in self.stores.values():
                store.close()
            self.stores.clear()
