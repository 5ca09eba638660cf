"""Tables of typed rows inside one store transaction: a write-back cache with a running digest.

Rules. Rows are frozen; a change is a `replace` and a `put`. Within a transaction rows stay decoded; `flush` writes each
changed row once, in key order, and moves the digest from the row's old bytes to its new ones. A row may be put as its
bytes, and what is looked up ahead stays bytes: both are decoded when somebody reads them.

What the cache can't hold: a scan sees the store, so `scan` flushes first.
"""

import struct
from collections.abc import Iterator, Sequence
from typing import Any, Generic, TypeVar

from msgspec.structs import replace

from frontlog.avro.errors import Corrupt
from frontlog.state.digest import Digest
from frontlog.state.rows import OriginRow, Row
from frontlog.state.store import Txn

R = TypeVar("R", bound=Row)
KEPT_ROWS_MAX = 8_192
"""Rows of a table that are kept between transactions; with more, all are let go."""
KEPT_ROW_BYTES_MAX = 8_192
"""A larger row (a long robots.txt) is read again each time."""


def decoded(row: type[R], table: str, key: bytes, data: bytes) -> R:
    """The row of its bytes; raises Corrupt."""
    try:
        return row.decode(data)
    except (struct.error, ValueError, IndexError) as exc:
        raise Corrupt(f"row {key.hex()} of table {table} cannot be read ({exc}); rebuild the tables") from exc


class Kept:
    """Decoded rows that outlive a transaction: those of hosts, origins, sites and policies, which most decisions read. They
    are good for the only writer of a store, as long as it committed what it changed: who keeps them drops them with a
    transaction that was aborted."""

    __slots__ = ("old", "rows")

    def __init__(self) -> None:
        self.rows: dict[str, dict[bytes, Any]] = {}
        self.old: dict[str, dict[bytes, bytes | None]] = {}


class RowTable(Generic[R]):
    """A table of typed rows with a write-back cache; it begins with the rows in `kept`, and leaves them there."""

    __slots__ = ("_cache", "_digest", "_dirty", "_old", "_row", "_txn", "name")

    def __init__(self, name: str, row: type[R], txn: Txn, digest: Digest, kept: Kept | None = None) -> None:
        self.name = name
        self._row = row
        self._txn = txn
        self._digest = digest
        self._cache: dict[bytes, R | bytes | None] = {}
        self._old: dict[bytes, bytes | None] = {}
        self._dirty: set[bytes] = set()
        if kept is not None:
            self._cache = kept.rows.setdefault(name, self._cache)
            self._old = kept.old.setdefault(name, self._old)
            if len(self._cache) > KEPT_ROWS_MAX:
                self._cache.clear()
                self._old.clear()

    def get(self, key: bytes) -> R | None:
        """The row under a key, or None."""
        try:
            row = self._cache[key]
        except KeyError:
            return self._read(key)
        if isinstance(row, bytes):
            row = self._cache[key] = decoded(self._row, self.name, key, row)
        return row

    def _read(self, key: bytes) -> R | None:
        data = self._txn.get(self.name, key)
        row = None if data is None else decoded(self._row, self.name, key, data)
        if data is None or len(data) <= KEPT_ROW_BYTES_MAX:
            self._cache[key] = row
            self._old[key] = data
        return row

    def look_up(self, keys: Sequence[bytes]) -> None:
        """Read rows that will be asked for, all at once; they are decoded when they are."""
        cache = self._cache
        unread = [key for key in keys if key not in cache]
        stored = self._txn.get_many(self.name, unread)
        for key in unread:
            cache[key] = self._old[key] = stored.get(key)

    def beginnings(self, wanted: Sequence[bytes], size_bytes: int) -> dict[bytes, bytes]:
        """Key → the first bytes of its row, without decoding it, for each key that has a row: most links of a page are
        known. What has none is remembered as such."""
        cache = self._cache
        found: dict[bytes, bytes] = {}
        unread: list[bytes] = []
        for key in wanted:
            if key not in cache:
                unread.append(key)
            elif (row := cache[key]) is not None:
                found[key] = (row if isinstance(row, bytes) else row.encode())[:size_bytes]
        stored = self._txn.get_many(self.name, unread)
        for key in unread:
            data = stored.get(key)
            if data is None:
                cache[key] = self._old[key] = None
            else:
                found[key] = data[:size_bytes]
        return found

    def put(self, key: bytes, row: R | bytes) -> None:
        """Write a row, or its bytes."""
        if key not in self._cache:
            self._old[key] = self._txn.get(self.name, key)
        self._cache[key] = row
        self._dirty.add(key)

    def scan(self, start: bytes = b"", stop: bytes | None = None) -> Iterator[tuple[bytes, R]]:
        """Rows with start <= key < stop in key order. Do not write this table while iterating."""
        self.flush()
        for key, data in self._txn.scan(self.name, start, stop):
            yield key, decoded(self._row, self.name, key, data)

    def flush(self) -> None:
        """Write the changed rows to the store and move the digest."""
        if not self._dirty:
            return
        cache, old_of, encode = self._cache, self._old, self._row.CODEC[0]
        out: list[tuple[bytes, bytes]] = []
        gone: list[tuple[bytes, bytes]] = []
        large: list[bytes] = []
        for key in sorted(self._dirty):
            row, old = cache[key], old_of[key]
            data = row if isinstance(row, bytes) else encode(row)
            if data == old:
                continue
            if old is not None:
                gone.append((key, old))
            old_of[key] = data
            out.append((key, data))
            if len(data) > KEPT_ROW_BYTES_MAX:
                large.append(key)
        self._dirty.clear()
        self._digest.remove_all(gone)
        self._digest.add_all(out)
        if out:
            self._txn.put_many(self.name, out)
        for key in large:
            del cache[key], old_of[key]


class Pending:
    """What an origin's counts are yet to be raised by. `states` and `due` are numbers whose digits are the counts;
    `known` is how many URLs it has by now."""

    __slots__ = ("due", "known", "pages", "states")

    def __init__(self, known: int) -> None:
        self.states = self.due = self.pages = 0
        self.known = known


class OriginTable(RowTable[OriginRow]):
    """The origins. Nearly every decision counts at one: counts wait beside its row until somebody reads that."""

    __slots__ = ("_pending",)

    def __init__(self, txn: Txn, digest: Digest, kept: Kept | None = None) -> None:
        super().__init__("origins", OriginRow, txn, digest, kept)
        self._pending: dict[bytes, Pending] = {}

    def pending(self, key: bytes) -> Pending | None:
        """Where to count at an origin; None: it has no row."""
        found = self._pending.get(key)
        if found is None and (row := super().get(key)) is not None:
            found = self._pending[key] = Pending(row.known)
        return found

    def get(self, key: bytes) -> OriginRow | None:
        """The row under a key, or None."""
        if key in self._pending:
            self._settle(key)
        return super().get(key)

    def beginnings(self, wanted: Sequence[bytes], size_bytes: int) -> dict[bytes, bytes]:
        """See `RowTable.beginnings`."""
        self._settle_all()
        return super().beginnings(wanted, size_bytes)

    def put(self, key: bytes, row: OriginRow | bytes) -> None:
        """Write a row that was read since something was counted."""
        assert key not in self._pending, "a row that is older than its counts"
        super().put(key, row)

    def flush(self) -> None:
        """Write the changed rows to the store and move the digest."""
        self._settle_all()
        super().flush()

    def _settle_all(self) -> None:
        for key in list(self._pending):
            self._settle(key)

    def _settle(self, key: bytes) -> None:
        more = self._pending.pop(key)
        row = super().get(key)
        assert row is not None
        if more.states or more.due or more.pages:
            states, due = _raised(row.states, more.states), _raised(row.due, more.due)
            super().put(key, replace(row, states=states, due=due, pages=row.pages + more.pages))


def _raised(counts: bytes, more: int) -> bytes:
    """A row of counts, of which none reaches 2^32, after some were raised and others lowered."""
    return (int.from_bytes(counts, "big") + more).to_bytes(len(counts), "big")
