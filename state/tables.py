"""The tables of one shard inside one store transaction: typed rows, a write-back cache, running digests.

Rules. Rows are read and written through `RowTable`; they are frozen, a change is a `replace` and a `put`.
Within a transaction rows stay decoded; `flush` writes each changed row once, in key order, and moves the
digest from the row's old bytes to its new ones. Sets of keys (`due`, `ready`, `leases`) are written when somebody
looks, other indexes at once. Only `apply` of a machine may call a writing method.

What the caches can't hold: a scan sees the store, so `scan` flushes first.
"""

import struct
from collections.abc import Iterator, Sequence
from typing import Any, Generic, TypeVar

from frontlog.avro.errors import Corrupt
from frontlog.state import head as heads
from frontlog.state.catalogue import CONTENT_TABLES, FRONTIER_TABLES
from frontlog.state.digest import Digest
from frontlog.state.rows import (
    AddressRow,
    ContentRow,
    EvidenceRow,
    HostRow,
    MarksRow,
    OriginRow,
    PatternRow,
    PolicyRow,
    Row,
    SitemapRow,
    SiteRow,
    TallyRow,
    UrlContentRow,
    UrlRow,
    UrlRuleRow,
)
from frontlog.state.store import Txn

R = TypeVar("R", bound=Row)
KEPT_ROWS_MAX = 8_192
"""Rows of a table that are kept between transactions; with more, all are let go."""
KEPT_ROW_BYTES_MAX = 8_192
"""A larger row (a long robots.txt) is read again each time."""


def _decoded(row: type[R], table: str, key: bytes, data: bytes) -> R:
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
        self._cache: dict[bytes, R | None] = {}
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
            return self._cache[key]
        except KeyError:
            pass
        data = self._txn.get(self.name, key)
        row = None if data is None else _decoded(self._row, self.name, key, data)
        if data is None or len(data) <= KEPT_ROW_BYTES_MAX:
            self._cache[key] = row
            self._old[key] = data
        return row

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
                found[key] = row.encode()[:size_bytes]
        stored = self._txn.get_many(self.name, unread)
        for key in unread:
            data = stored.get(key)
            if data is None:
                cache[key] = self._old[key] = None
            else:
                found[key] = data[:size_bytes]
        return found

    def put(self, key: bytes, row: R) -> None:
        """Write a row."""
        if key not in self._cache:
            self._old[key] = self._txn.get(self.name, key)
        self._cache[key] = row
        self._dirty.add(key)

    def scan(self, start: bytes = b"", stop: bytes | None = None) -> Iterator[tuple[bytes, R]]:
        """Rows with start <= key < stop in key order. Do not write this table while iterating."""
        self.flush()
        for key, data in self._txn.scan(self.name, start, stop):
            yield key, _decoded(self._row, self.name, key, data)

    def flush(self) -> None:
        """Write the changed rows to the store and move the digest."""
        if not self._dirty:
            return
        out: list[tuple[bytes, bytes]] = []
        for key in sorted(self._dirty):
            row, old = self._cache[key], self._old[key]
            assert row is not None
            data = row.encode()
            if data == old:
                continue
            if old is not None:
                self._digest.remove(key, old)
            self._digest.add(key, data)
            self._old[key] = data
            out.append((key, data))
        self._dirty.clear()
        if out:
            self._txn.put_many(self.name, out)
        for key, data in out:
            if len(data) > KEPT_ROW_BYTES_MAX:
                del self._cache[key], self._old[key]


class IndexTable:
    """A table of plain keys and values, written through."""

    __slots__ = ("_digest", "_txn", "name")

    def __init__(self, name: str, txn: Txn, digest: Digest) -> None:
        self.name = name
        self._txn = txn
        self._digest = digest

    def get(self, key: bytes) -> bytes | None:
        """The value under a key, or None."""
        return self._txn.get(self.name, key)

    def put(self, key: bytes, value: bytes = b"") -> None:
        """Write a row."""
        old = self._txn.get(self.name, key)
        if old == value:
            return
        if old is not None:
            self._digest.remove(key, old)
        self._digest.add(key, value)
        self._txn.put(self.name, key, value)

    def delete(self, key: bytes) -> None:
        """Take a row away; nothing happens when it is not there."""
        old = self._txn.get(self.name, key)
        if old is not None:
            self._digest.remove(key, old)
            self._txn.delete(self.name, key)

    def first(self, start: bytes = b"", stop: bytes | None = None) -> tuple[bytes, bytes] | None:
        """The first row with start <= key < stop, or None."""
        return self._txn.first(self.name, start, stop)

    def scan(self, start: bytes = b"", stop: bytes | None = None) -> Iterator[tuple[bytes, bytes]]:
        """Rows with start <= key < stop in key order. Do not write this table while iterating."""
        return self._txn.scan(self.name, start, stop)


class KeySet:
    """A table of keys without values. What comes and goes is written when somebody looks, or at a flush, in key order:
    most of what a batch puts in comes in no order."""

    __slots__ = ("_come", "_digest", "_gone", "_txn", "name")

    def __init__(self, name: str, txn: Txn, digest: Digest) -> None:
        self.name = name
        self._txn = txn
        self._digest = digest
        self._come: set[bytes] = set()
        self._gone: set[bytes] = set()

    def put(self, key: bytes) -> None:
        """Add a key; nothing happens when it is there."""
        self._gone.discard(key)
        self._come.add(key)

    def delete(self, key: bytes) -> None:
        """Take a key away; nothing happens when it is not there."""
        self._come.discard(key)
        self._gone.add(key)

    def first(self, start: bytes = b"", stop: bytes | None = None) -> tuple[bytes, bytes] | None:
        """The first key with start <= key < stop and an empty value, or None."""
        self.flush()
        return self._txn.first(self.name, start, stop)

    def scan(self, start: bytes = b"", stop: bytes | None = None) -> Iterator[tuple[bytes, bytes]]:
        """Keys with start <= key < stop in their order, with empty values. Do not write this table while iterating."""
        self.flush()
        return self._txn.scan(self.name, start, stop)

    def flush(self) -> None:
        """Write what changed to the store and move the digest."""
        digest, txn, name = self._digest, self._txn, self.name
        for key in sorted(self._gone):
            if txn.delete(name, key):
                digest.remove(key, b"")
        self._gone.clear()
        if not self._come:
            return
        come = sorted(self._come)
        self._come.clear()
        there = txn.get_many(name, come)
        fresh = [(key, b"") for key in come if key not in there]
        for key, value in fresh:
            digest.add(key, value)
        if fresh:
            txn.put_many(name, fresh)


class Tables:
    """Every table of a shard, in one transaction. `head` is replaced by the host at the end of a batch."""

    def __init__(self, txn: Txn, head: heads.Head | None = None, kept: Kept | None = None) -> None:
        self.txn = txn
        self.head = heads.load(txn) if head is None else head
        self.digests = self.head.table_digests()
        digest = self.digests.__getitem__
        self.urls = RowTable("urls", UrlRow, txn, digest("urls"))
        self.origins = RowTable("origins", OriginRow, txn, digest("origins"), kept)
        self.hosts = RowTable("hosts", HostRow, txn, digest("hosts"), kept)
        self.addresses = RowTable("addresses", AddressRow, txn, digest("addresses"))
        self.policies = RowTable("policies", PolicyRow, txn, digest("policies"), kept)
        self.url_rules = RowTable("url_rules", UrlRuleRow, txn, digest("url_rules"))
        self.evidence = RowTable("evidence", EvidenceRow, txn, digest("evidence"))
        self.tallies = RowTable("tallies", TallyRow, txn, digest("tallies"))
        self.patterns = RowTable("patterns", PatternRow, txn, digest("patterns"))
        self.inlinks = IndexTable("inlinks", txn, digest("inlinks"))
        self.sites = RowTable("sites", SiteRow, txn, digest("sites"), kept)
        self.sitemaps = RowTable("sitemaps", SitemapRow, txn, digest("sitemaps"))
        self.content = RowTable("content", ContentRow, txn, digest("content"))
        self.url_content = RowTable("url_content", UrlContentRow, txn, digest("url_content"))
        self.due = KeySet("due", txn, digest("due"))
        self.ready = KeySet("ready", txn, digest("ready"))
        self.leases = KeySet("leases", txn, digest("leases"))
        self.errands = IndexTable("errands", txn, digest("errands"))
        self.marks = IndexTable("marks", txn, digest("marks"))
        self.touched: set[bytes] = set()
        """Ids of hosts whose turn must be worked out again before the next claim or the batch's end."""
        self._rows = (
            self.urls, self.origins, self.hosts, self.addresses, self.policies, self.url_rules, self.evidence, self.tallies,
            self.patterns,
            self.sites, self.sitemaps, self.content, self.url_content,
        )  # fmt: skip
        self._marks: MarksRow | None = None

    @property
    def crawl(self) -> MarksRow:
        """What holds for the whole partition."""
        if self._marks is None:
            data = self.marks.get(b"crawl")
            self._marks = MarksRow() if data is None else _decoded(MarksRow, self.marks.name, b"crawl", data)
        return self._marks

    def put_crawl(self, row: MarksRow) -> None:
        """Write what holds for the whole partition."""
        self._marks = row
        self.marks.put(b"crawl", row.encode())

    def flush(self) -> None:
        """Write every changed row to the store, so that digests are exact."""
        for table in (*self._rows, self.due, self.ready, self.leases):
            table.flush()

    def digest_values(self) -> dict[str, tuple[bytes, int]]:
        """Table → (digest, rows) after a flush."""
        self.flush()
        return {name: (digest.value(), digest.rows) for name, digest in self.digests.items()}


TABLE_NAMES = tuple(t.name for t in (*FRONTIER_TABLES, *CONTENT_TABLES))
