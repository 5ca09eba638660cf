"""The tables of one shard inside one store transaction: typed rows, a write-back cache, running digests.

Rules. Rows are read and written through `RowTable` (`row_tables.py`), which writes them at a flush. Sets of keys (`due`,
`ready`, `leases`) are written when somebody looks, other indexes at once. Only `apply` of a machine may call a writing
method.
"""

from collections.abc import Iterator

from frontlog.state import head as heads
from frontlog.state import keys
from frontlog.state.catalogue import CONTENT_TABLES, FRONTIER_TABLES
from frontlog.state.digest import Digest
from frontlog.state.row_tables import Kept, OriginTable, RowTable, decoded
from frontlog.state.rows import (
    AddressRow,
    ContentRow,
    EvidenceRow,
    HostRow,
    MarksRow,
    PatternRow,
    PolicyRow,
    SitemapRow,
    SiteRow,
    TallyRow,
    UrlContentRow,
    UrlRow,
    UrlRuleRow,
)
from frontlog.state.store import Txn


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
        if self._gone:
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
        if fresh:
            digest.add_all(fresh)
            txn.put_many(name, fresh)


class Tables:
    """Every table of a shard, in one transaction. `head` is replaced by the host at the end of a batch."""

    def __init__(self, txn: Txn, head: heads.Head | None = None, kept: Kept | None = None) -> None:
        self.txn = txn
        self.head = heads.load(txn) if head is None else head
        self.digests = self.head.table_digests()
        digest = self.digests.__getitem__
        self.urls = RowTable("urls", UrlRow, txn, digest("urls"))
        self.origins = OriginTable(txn, digest("origins"), kept)
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
        self.unsettled: dict[bytes, int] = {}
        """Of batches before, in a fold of many: id of a host → time of the batch that touched it last."""
        self._rows = (
            self.urls, self.origins, self.hosts, self.addresses, self.policies, self.url_rules, self.evidence, self.tallies,
            self.patterns,
            self.sites, self.sitemaps, self.content, self.url_content,
        )  # fmt: skip
        self._marks: MarksRow | None = None
        self._url_keys: dict[str, bytes] = {}

    def url_key(self, origin: bytes, identity: str) -> bytes:
        """Key of a URL of an origin; one that was asked for in this batch isn't hashed again."""
        key = self._url_keys.get(identity)
        if key is None or not key.startswith(origin):
            key = self._url_keys[identity] = keys.url_key(origin, identity)
        return key

    @property
    def crawl(self) -> MarksRow:
        """What holds for the whole partition."""
        if self._marks is None:
            data = self.marks.get(b"crawl")
            self._marks = MarksRow() if data is None else decoded(MarksRow, self.marks.name, b"crawl", data)
        return self._marks

    def put_crawl(self, row: MarksRow) -> None:
        """Write what holds for the whole partition."""
        self._marks = row
        self.marks.put(b"crawl", row.encode())

    def flush(self) -> None:
        """Write every changed row to the store, so that digests are exact."""
        for table in (*self._rows, self.due, self.ready, self.leases):
            table.flush()
        self._url_keys.clear()

    def digest_values(self) -> dict[str, tuple[bytes, int]]:
        """Table → (digest, rows) after a flush."""
        self.flush()
        return {name: (digest.value(), digest.rows) for name, digest in self.digests.items()}


TABLE_NAMES = tuple(t.name for t in (*FRONTIER_TABLES, *CONTENT_TABLES))
