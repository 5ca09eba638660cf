"""A store in an LMDB environment: one folder, one writer at a time. The only module that opens LMDB.

    FOLDER/data.mdb    pages; the newest of two meta pages names the root of the last commit
    FOLDER/lock.mdb    LMDB's reader table and writer mutex

How the traps of LMDB are kept shut:

- one environment a process: LMDB's locks are of the process, a second open would free the first's. A registry
  refuses it, also in a forked child, where the parent's map and locks are not valid;
- the map must never be resized under an open transaction, so `Gate` counts them. A full map aborts the transaction, grows
  the map (now, or at the next `begin` when readers are inside) and raises `MapFull`; one that another process grew is
  adopted by the next `begin`;
- slots of killed readers keep newer pages alive: they are cleared at the start and every READER_CHECK_EVERY writes;
- a failed commit (disk full) changes nothing: the meta page is written last; the environment stays usable.

Not seen: a data.mdb that is damaged while it is open (SIGBUS). One that was cut before is refused (`lmdb_pages.py`).
"""

import os
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Self

import lmdb

from frontlog.avro.errors import ConfigError, FrontlogError, Incompatible, MapFull, Retriable, StoreFull
from frontlog.state import lmdb_pages
from frontlog.state.folders import fsync_folder
from frontlog.state.gate import Gate, register, unregister
from frontlog.state.lmdb_errors import of_lmdb, of_opening, of_os
from frontlog.state.store import Durability, Item

MAP_BYTES = 1 << 30
MAP_BYTES_MAX = 1 << 40
MAP_WAIT_S = 30.0
READER_CHECK_EVERY = 256
_BEGIN_TRIES_MAX = 8
_NO_WRITES: dict[str, int] = {}
_ADOPT = 0  # set_mapsize(0) takes the size that the file says


class LmdbTxn:
    """A transaction of an `LmdbStore`; see `frontlog.state.store.Txn`."""

    def __init__(
        self, store: "LmdbStore", raw: "lmdb.Transaction[bytes]", thread: int, *, write: bool
    ) -> None:
        self._store = store
        self._raw = raw
        self._dbs = store.dbs
        self._write = write
        self._thread = thread
        self._open = True
        self._cursors: dict[str, lmdb.Cursor[bytes]] = {}
        self._writes = dict.fromkeys(store.dbs, 0) if write else _NO_WRITES

    def get(self, table: str, key: bytes) -> bytes | None:
        try:
            return self._raw.get(key, None, self._dbs[table])
        except lmdb.Error as exc:
            raise self._failed(exc, f"get from {table}") from exc

    def get_many(self, table: str, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        try:
            return dict(self._cursor(table).getmulti(keys))
        except lmdb.Error as exc:
            raise self._failed(exc, f"get_many from {table}") from exc

    def put(self, table: str, key: bytes, value: bytes) -> None:
        self._assert_thread()
        try:
            self._raw.put(key, value, db=self._dbs[table])
        except lmdb.Error as exc:
            raise self._failed(exc, f"put to {table}") from exc
        self._writes[table] += 1

    def put_many(self, table: str, items: Sequence[Item]) -> None:
        self._assert_thread()
        try:
            self._cursor(table).putmulti(items)
        except lmdb.Error as exc:
            raise self._failed(exc, f"put_many to {table}") from exc
        self._writes[table] += 1

    def append_many(self, table: str, items: Sequence[Item]) -> None:
        self._assert_thread()
        try:
            _, added = self._cursor(table).putmulti(items, append=True)
        except lmdb.Error as exc:
            raise self._failed(exc, f"append_many to {table}") from exc
        if added != len(items):
            raise AssertionError(f"append_many: {len(items) - added} keys not behind the last of {table}")
        self._writes[table] += 1

    def delete(self, table: str, key: bytes) -> bool:
        self._assert_thread()
        try:
            existed = self._raw.delete(key, db=self._dbs[table])
        except lmdb.Error as exc:
            raise self._failed(exc, f"delete from {table}") from exc
        self._writes[table] += 1
        return existed

    def scan(self, table: str, start: bytes = b"", stop: bytes | None = None) -> Iterator[Item]:
        return self._scan(table, start, stop, reverse=False)

    def scan_reverse(self, table: str, start: bytes = b"", stop: bytes | None = None) -> Iterator[Item]:
        return self._scan(table, start, stop, reverse=True)

    def first(self, table: str, start: bytes = b"", stop: bytes | None = None) -> Item | None:
        try:
            cursor = self._cursor(table)
            item = cursor.item() if cursor.set_range(start) else None
        except lmdb.Error as exc:
            raise self._failed(exc, f"first of {table}") from exc
        return item if item is not None and (stop is None or item[0] < stop) else None

    def last(self, table: str, start: bytes = b"", stop: bytes | None = None) -> Item | None:
        try:
            cursor = self._cursor(table)
            item = cursor.item() if _to_last(cursor, stop) else None
        except lmdb.Error as exc:
            raise self._failed(exc, f"last of {table}") from exc
        return item if item is not None and item[0] >= start else None

    def count(self, table: str) -> int:
        try:
            return self._raw.stat(self._dbs[table])["entries"]
        except lmdb.Error as exc:
            raise self._failed(exc, f"count of {table}") from exc

    def clear(self, table: str) -> None:
        self._assert_thread()
        try:
            self._raw.drop(self._dbs[table], delete=False)
        except lmdb.Error as exc:
            raise self._failed(exc, f"clear of {table}") from exc
        self._writes[table] += 1

    def commit(self) -> None:
        self._assert_thread()
        if not self._open:
            raise AssertionError("the transaction has ended")
        try:
            self._raw.commit()
        except lmdb.Error as exc:
            raise self._failed(exc, "commit") from exc
        self._end()

    def abort(self) -> None:
        if self._open:
            self._assert_thread()
            self._raw.abort()
            self._end()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.abort()

    def pages_bytes(self, table: str) -> int:
        """Bytes of the pages that hold a table's rows."""
        stat = self._raw.stat(self._dbs[table])
        return (stat["branch_pages"] + stat["leaf_pages"] + stat["overflow_pages"]) * stat["psize"]

    def _scan(self, table: str, start: bytes, stop: bytes | None, *, reverse: bool) -> Iterator[Item]:
        writes = self._writes.get(table)
        try:
            cursor = self._raw.cursor(self._dbs[table])
            if not (_to_last(cursor, stop) if reverse else cursor.set_range(start)):
                return
            for item in cursor.iterprev() if reverse else cursor.iternext():
                if item[0] < start or (stop is not None and item[0] >= stop):
                    return
                yield item
                if self._writes.get(table) != writes:
                    raise AssertionError(f"{table} was written while a scan of it ran; use scan_chunks")
        except lmdb.Error as exc:
            raise self._failed(exc, f"scan of {table}") from exc

    def _cursor(self, table: str) -> "lmdb.Cursor[bytes]":
        cursor = self._cursors.get(table)
        if cursor is None:
            cursor = self._cursors[table] = self._raw.cursor(self._dbs[table])
        return cursor

    def _assert_thread(self) -> None:
        if self._write and threading.get_ident() != self._thread:
            raise AssertionError("a write transaction belongs to the thread that began it")

    def _failed(self, exc: lmdb.Error, what: str) -> FrontlogError | AssertionError:
        """End the transaction, which LMDB lets do nothing more, and make room in a full map."""
        error = of_lmdb(exc, what, self._store.path)
        if isinstance(error, FrontlogError):
            self.abort()
            if isinstance(error, MapFull):
                self._store.grow()
        return error

    def _end(self) -> None:
        self._open = False
        self._cursors.clear()
        self._store.ended(self._thread, write=self._write)


def _to_last(cursor: "lmdb.Cursor[bytes]", stop: bytes | None) -> bool:
    """Move to the last row below `stop`; False when there is none."""
    if stop is not None and cursor.set_range(stop):
        return cursor.prev()
    return cursor.last()


class LmdbStore:
    """Tables in one LMDB environment; see `frontlog.state.store.Store`.

    `map_bytes` is address space, not memory or disk; it doubles when needed up to
    `map_bytes_max`, beyond which a write raises `StoreFull`. `readonly` needs an existing store
    that has all the tables. `readahead=False` is for tables much larger than memory, when single
    rows are read far more often than ranges.
    """

    def __init__(
        self,
        path: Path | str,
        tables: Sequence[str],
        *,
        durability: Durability = "fsync",
        map_bytes: int = MAP_BYTES,
        map_bytes_max: int = MAP_BYTES_MAX,
        readonly: bool = False,
        readahead: bool = True,
    ) -> None:
        self._path = Path(path).resolve()
        self._durability: Durability = durability
        self._map_bytes_max = map_bytes_max
        self._map_wanted: int | None = None
        self._gate = Gate()
        self._pid = os.getpid()
        self._begun = 0
        self._closed = False
        self.dbs: dict[str, lmdb._Database] = {}
        register(self._path)
        try:
            self._env = self._open_env(len(tables), map_bytes, readonly=readonly, readahead=readahead)
            try:
                lmdb_pages.check(self._env, self._path, only_if_short=True)
                self._open_tables(tables, readonly=readonly)
            except BaseException:
                self._env.close()
                raise
        except BaseException as exc:
            unregister(self._path)
            if isinstance(exc, lmdb.Error):
                raise of_opening(exc, self._path) from exc
            if isinstance(exc, OSError):
                raise of_os(exc, self._path) from exc
            raise

    @property
    def path(self) -> Path:
        return self._path

    @property
    def durability(self) -> Durability:
        return self._durability

    def begin(self, *, write: bool = False) -> LmdbTxn:
        self._assert_usable()
        for _ in range(_BEGIN_TRIES_MAX):
            if self._map_wanted is not None:
                self._remap(must=write or self._map_wanted == _ADOPT)
            thread = self._gate.enter(write=write)
            try:
                if write and self._begun % READER_CHECK_EVERY == 0:
                    self._env.reader_check()
                raw = self._env.begin(write=write)
            except BaseException as exc:
                self._gate.leave(thread, write=write)
                if isinstance(exc, lmdb.MapResizedError):
                    self._map_wanted = self._map_wanted or _ADOPT
                    continue
                if isinstance(exc, lmdb.Error):
                    raise of_lmdb(exc, "begin", self._path) from exc
                raise
            self._begun += write
            return LmdbTxn(self, raw, thread, write=write)
        raise Retriable(f"the map of {self._path} was resized by another process again and again")

    def grow(self) -> None:
        """Double the map: at once when no transaction of this process is open, else at the next begin."""
        now_bytes = self.map_bytes()
        if now_bytes >= self._map_bytes_max:
            raise StoreFull(
                f"{self._path} fills its map of {now_bytes} bytes, the most that map_bytes_max allows; "
                "nothing of the transaction was kept; raise the limit or cut the log"
            )
        self._map_wanted = min(2 * now_bytes, self._map_bytes_max)
        self._remap(must=False)

    def map_bytes(self) -> int:
        """Address space of the map; what is written must fit into it."""
        return self._env.info()["map_size"]

    def size_bytes(self) -> int:
        return (self._path / "data.mdb").stat().st_size

    def used_bytes(self) -> int:
        with self.begin() as txn:
            return sum(txn.pages_bytes(table) for table in self.dbs)

    def sync(self) -> None:
        """Make every commit so far durable, whatever `durability` says."""
        try:
            self._env.sync(True)
        except lmdb.Error as exc:
            raise of_lmdb(exc, "sync", self._path) from exc

    def close(self) -> None:
        if self._closed:
            return
        self._assert_usable()
        if self._gate.inside():
            raise AssertionError(f"close of {self._path}: a transaction is still open")
        if self._durability != "fsync" and not self._env.flags()["readonly"]:
            self.sync()
        self._closed = True
        self._env.close()
        unregister(self._path)

    def check_pages(self) -> None:
        """See `lmdb_pages.check`."""
        lmdb_pages.check(self._env, self._path)

    def ended(self, thread: int, *, write: bool) -> None:
        """A transaction of this store has ended."""
        self._gate.leave(thread, write=write)

    def _open_env(self, tables: int, map_bytes: int, *, readonly: bool, readahead: bool) -> lmdb.Environment:
        data = self._path / "data.mdb"
        if readonly and not data.exists():
            raise ConfigError(f"{self._path} holds no store: no data.mdb there; name the folder of a crawl")
        new = not data.exists()
        if not readonly:
            self._path.mkdir(parents=True, exist_ok=True)
        env = lmdb.open(
            str(self._path),
            map_size=map_bytes,
            max_dbs=tables,
            readonly=readonly,
            create=not readonly,
            sync=self._durability != "none",
            metasync=self._durability == "fsync",
            readahead=readahead,
        )
        env.reader_check()
        # LMDB makes a map that is too small just large enough for what the file holds.
        needed = 2 * (env.info()["last_pgno"] + 1) * os.sysconf("SC_PAGESIZE")
        while map_bytes < needed:
            map_bytes *= 2
        if map_bytes > env.info()["map_size"]:
            env.set_mapsize(map_bytes)
        if new:  # LMDB never does that
            for folder in (self._path, self._path.parent):
                fsync_folder(folder)
        return env

    def _open_tables(self, tables: Sequence[str], *, readonly: bool) -> None:
        if not readonly:
            with self._env.begin(write=True) as txn:  # who is killed meanwhile leaves all, or none
                self.dbs = {table: self._env.open_db(table.encode(), txn) for table in tables}
        elif not self._env.stat()["entries"]:
            raise ConfigError(f"{self._path} has no tables yet: the crawl has not begun; run it again")
        for table in tables if readonly else ():
            try:
                self.dbs[table] = self._env.open_db(table.encode(), create=False)
            except (lmdb.NotFoundError, lmdb.ReadonlyError) as exc:
                raise Incompatible(f"{self._path} has no table {table}; open it for writing once") from exc

    def _remap(self, *, must: bool) -> None:
        """Resize the map if that is still wanted. `must` waits for the transactions that are open."""
        with self._gate.alone(MAP_WAIT_S if must else 0.0) as alone:
            if alone and self._map_wanted is not None:
                wanted, self._map_wanted = self._map_wanted, None
                try:
                    self._env.set_mapsize(wanted)
                except lmdb.Error as exc:
                    raise of_lmdb(exc, "set_mapsize", self._path) from exc
            elif not alone and must:
                raise Retriable(
                    f"the map of {self._path} must be resized, but transactions of this process "
                    f"stayed open for {MAP_WAIT_S:.0f} s: end them and try again"
                )

    def _assert_usable(self) -> None:
        if self._closed:
            raise AssertionError(f"the store {self._path} is closed")
        if self._pid != os.getpid():
            raise AssertionError(f"{self._path} was opened before a fork: open it anew in a spawned process")
