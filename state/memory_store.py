"""A store in memory: for tests, simulations, and what-if on a copy. It keeps nothing.

The committed rows of a table are one sorted dict, the base. Each transaction lays an overlay over
it, a second sorted dict in which None stands for "no row":

    write transaction    overlay = its own writes; a commit moves them into the base
    read transaction     overlay = the base's older values, which each later commit adds before it
                         changes them: so a snapshot costs nothing until somebody writes

    what a transaction sees = the overlay where it has the key, else the base

Readers in other threads are safe: a commit and each step of a reader hold one lock.
"""

import heapq
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Self

from sortedcontainers import SortedDict

from frontlog.state.gate import Gate
from frontlog.state.store import KEY_BYTES_MAX, Durability, Item

_SCAN_ROWS_MIN = 8
_SCAN_ROWS_MAX = 512

_Base = SortedDict[bytes, bytes]
_Overlay = SortedDict[bytes, bytes | None]
_NOTHING: _Overlay = SortedDict()


class MemoryTxn:
    """A transaction of a `MemoryStore`; see `frontlog.state.store.Txn`."""

    def __init__(self, store: "MemoryStore", tables: dict[str, _Base], *, write: bool) -> None:
        self._store = store
        self._tables = tables
        self._write = write
        self._overlays: dict[str, _Overlay] = {}
        self._counts = {name: len(rows) for name, rows in tables.items()}
        self._writes = dict.fromkeys(tables, 0)
        self._thread = threading.get_ident()
        self._open = True
        # The writer is the only one who changes the base, so it needs no lock against itself.
        self._guard: AbstractContextManager[object] = nullcontext() if write else store.lock

    def get(self, table: str, key: bytes) -> bytes | None:
        self._assert_usable(key)
        with self._guard:
            base, overlay = self._tables[table], self._overlays.get(table, _NOTHING)
            return overlay[key] if key in overlay else base.get(key)

    def get_many(self, table: str, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        found = ((key, self.get(table, key)) for key in keys)
        return {key: value for key, value in found if value is not None}

    def put(self, table: str, key: bytes, value: bytes) -> None:
        self._set(table, key, value)

    def put_many(self, table: str, items: Sequence[Item]) -> None:
        for key, value in items:
            self._set(table, key, value)

    def append_many(self, table: str, items: Sequence[Item]) -> None:
        newest = self.last(table)
        before = newest[0] if newest is not None else b""
        for key, value in items:
            if key <= before:
                raise AssertionError(f"append_many: {key!r} is not behind {before!r} in {table}")
            self._set(table, key, value)
            before = key

    def delete(self, table: str, key: bytes) -> bool:
        return self._set(table, key, None)

    def scan(self, table: str, start: bytes = b"", stop: bytes | None = None) -> Iterator[Item]:
        return self._scan(table, start, stop, reverse=False)

    def scan_reverse(self, table: str, start: bytes = b"", stop: bytes | None = None) -> Iterator[Item]:
        return self._scan(table, start, stop, reverse=True)

    def first(self, table: str, start: bytes = b"", stop: bytes | None = None) -> Item | None:
        if not self._overlays.get(table):
            with self._guard:
                base = self._usable(table)
                return _within(base, base.bisect_left(start), start, stop)
        return next(iter(self._rows(table, start, stop, reverse=False, rows_max=1)), None)

    def last(self, table: str, start: bytes = b"", stop: bytes | None = None) -> Item | None:
        if not self._overlays.get(table):
            with self._guard:
                base = self._usable(table)
                return _within(base, (len(base) if stop is None else base.bisect_left(stop)) - 1, start, stop)
        return next(iter(self._rows(table, start, stop, reverse=True, rows_max=1)), None)

    def count(self, table: str) -> int:
        self._assert_usable()
        return self._counts[table]

    def clear(self, table: str) -> None:
        self._assert_writable()
        overlay: _Overlay = SortedDict(dict.fromkeys(self._tables[table]))
        self._overlays[table] = overlay
        self._counts[table] = 0
        self._writes[table] += 1

    def commit(self) -> None:
        self._assert_usable()
        if self._write:
            self._assert_writable()
            self._store.merge(self._overlays)
        self._end()

    def abort(self) -> None:
        if self._open:
            if self._write:
                self._assert_writable()
            self._end()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.abort()

    def keep(self, table: str, key: bytes, value: bytes | None) -> None:
        """A commit is about to change this row: remember what this snapshot saw."""
        self._over(table).setdefault(key, value)

    def _set(self, table: str, key: bytes, value: bytes | None) -> bool:
        self._assert_writable()
        if len(key) > KEY_BYTES_MAX and value is not None:
            raise AssertionError(f"a key of {len(key)} bytes in {table}: 1 to {KEY_BYTES_MAX} are allowed")
        existed = self.get(table, key) is not None
        self._over(table)[key] = value
        self._counts[table] += (value is not None) - existed
        self._writes[table] += 1
        return existed

    def _scan(self, table: str, start: bytes, stop: bytes | None, *, reverse: bool) -> Iterator[Item]:
        writes = self._writes[table]
        rows_max = _SCAN_ROWS_MIN
        while rows := self._rows(table, start, stop, reverse=reverse, rows_max=rows_max):
            for row in rows:
                yield row
                self._assert_usable()
                if self._writes[table] != writes:
                    raise AssertionError(f"{table} was written while a scan of it ran; use scan_chunks")
            rows_max = min(2 * rows_max, _SCAN_ROWS_MAX)
            if reverse:
                stop = rows[-1][0]
            else:
                start = rows[-1][0] + b"\0"

    def _rows(
        self, table: str, start: bytes, stop: bytes | None, *, reverse: bool, rows_max: int
    ) -> list[Item]:
        """The next rows of a range, overlay over base."""
        self._assert_usable()
        base = self._tables[table]
        if stop is not None and start >= stop:
            return []
        rows: list[Item] = []
        before: bytes | None = None
        with self._guard:
            overlay = self._overlays.get(table, _NOTHING)
            keys: Iterable[bytes] = base.irange(start, stop, (True, False), reverse)
            if overlay:
                above = overlay.irange(start, stop, (True, False), reverse)
                keys = heapq.merge(keys, above, reverse=reverse)
            for key in keys:
                if key == before:
                    continue
                before = key
                value = overlay[key] if key in overlay else base[key]
                if value is not None:
                    rows.append((key, value))
                    if len(rows) == rows_max:
                        break
        return rows

    def _over(self, table: str) -> _Overlay:
        overlay = self._overlays.get(table)
        if overlay is None:
            overlay = self._overlays[table] = SortedDict()
        return overlay

    def _usable(self, table: str) -> _Base:
        """The base of a table of which this transaction sees nothing else."""
        self._assert_usable()
        return self._tables[table]

    def _assert_usable(self, key: bytes = b"-") -> None:
        if not self._open:
            raise AssertionError("the transaction has ended")
        if not key:
            raise AssertionError("an empty key")

    def _assert_writable(self) -> None:
        self._assert_usable()
        if not self._write:
            raise AssertionError("a write in a read transaction")
        if threading.get_ident() != self._thread:
            raise AssertionError("a write transaction belongs to the thread that began it")

    def _end(self) -> None:
        self._open = False
        self._store.ended(self, self._thread, write=self._write)


def _within(base: _Base, index: int, start: bytes, stop: bytes | None) -> Item | None:
    """The row at a place, if there is one and it lies in the range."""
    if not 0 <= index < len(base):
        return None
    key, value = base.peekitem(index)
    return (key, value) if start <= key and (stop is None or key < stop) else None


class MemoryStore:
    """Tables in this process's memory; see `frontlog.state.store.Store`."""

    def __init__(self, tables: Sequence[str]) -> None:
        self.lock = threading.Lock()
        self._tables: dict[str, _Base] = {name: SortedDict() for name in tables}
        self._snapshots: set[MemoryTxn] = set()
        self._gate = Gate()
        self._closed = False

    @property
    def path(self) -> Path | None:
        return None

    @property
    def durability(self) -> Durability:
        return "none"

    def begin(self, *, write: bool = False) -> MemoryTxn:
        if self._closed:
            raise AssertionError("the store is closed")
        self._gate.enter(write=write)
        with self.lock:
            txn = MemoryTxn(self, self._tables, write=write)
            if not write:
                self._snapshots.add(txn)
        return txn

    def size_bytes(self) -> int:
        return self.used_bytes()

    def used_bytes(self) -> int:
        with self.lock:
            return sum(len(k) + len(v) for rows in self._tables.values() for k, v in rows.items())

    def close(self) -> None:
        if self._gate.inside():
            raise AssertionError("close: a transaction is still open")
        self._closed = True

    def merge(self, overlays: dict[str, _Overlay]) -> None:
        """Make a writer's overlays part of the base, after every snapshot has kept what it saw."""
        with self.lock:
            for table, overlay in overlays.items():
                base = self._tables[table]
                for key, value in overlay.items():
                    for snapshot in self._snapshots:
                        snapshot.keep(table, key, base.get(key))
                    if value is None:
                        base.pop(key, None)
                    else:
                        base[key] = value

    def ended(self, txn: MemoryTxn, thread: int, *, write: bool) -> None:
        with self.lock:
            self._snapshots.discard(txn)
        self._gate.leave(thread, write=write)
