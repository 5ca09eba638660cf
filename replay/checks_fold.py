"""Checks by folding: the digests that each batch carries, and the tables that the crawl lives on (DESIGN §1).

This one calls the crawl's own `apply`: it proves that the tables follow from the log, not that `apply` is right. The rules
are held by the other checks, which share no code with it.
"""

import struct
from collections.abc import Iterator
from itertools import zip_longest
from typing import ClassVar

from msgspec.structs import replace

from frontlog.avro.errors import Corrupt
from frontlog.replay import refold
from frontlog.replay.checks_log import BOTH
from frontlog.replay.compare import digest_differences, head_differences
from frontlog.replay.ledger import Taken
from frontlog.replay.watch import Watch
from frontlog.state import head as heads
from frontlog.state.catalogue import CONTENT_TABLES, DIGESTED, FRONTIER_TABLES
from frontlog.state.digest import Digest
from frontlog.state.rows import FOLD_VERSION
from frontlog.state.store import Item, Store, Txn, in_write
from frontlog.state.tables import Tables
from frontlog.streams.topics import Role

CHUNK_DECISIONS = 10_000
"""Decisions that are folded in one transaction."""
_ROWS = {table.name: table.row for table in (*FRONTIER_TABLES, *CONTENT_TABLES)}


class Digests(Watch):
    """What each batch proves."""

    name = "digests"
    doc = "folding the decisions gives the digests of all tables that each batch carries"
    roles: ClassVar[tuple[Role, ...]] = BOTH


class Live(Watch):
    """The head of the tables."""

    name = "live"
    doc = "the tables of the crawl stand where folding its log leads: seq, positions, chain and digests"
    roles: ClassVar[tuple[Role, ...]] = BOTH


class Rows(Watch):
    """Every row, with --deep."""

    name = "rows"
    doc = "every row of the tables equals the folded one, and a full recount equals the running digests"
    roles: ClassVar[tuple[Role, ...]] = BOTH


class Fold:
    """Folds a shard's batches into a scratch store and compares. `wrong`: the fold ended at a difference."""

    def __init__(self, store: Store, digests: Watch) -> None:
        self.store = store
        self.head = heads.Head()
        self.wrong = False
        self._digests = digests
        self._chunk: list[Taken] = []
        self._waiting = 0

    def take(self, batch: Taken) -> None:
        """Fold a batch, now or with the next ones."""
        if not self.wrong:
            self._chunk.append(batch)
            self._waiting += len(batch.decisions) + 1
            if self._waiting >= CHUNK_DECISIONS:
                self.flush()

    def flush(self) -> None:
        """Fold what waits."""
        chunk, self._chunk, self._waiting = self._chunk, [], 0
        if not chunk or self.wrong:
            return
        self.head, found = in_write(self.store, lambda txn: _fold(txn, chunk))
        self._digests.examined += len(chunk)
        if found is not None:
            self.wrong = True
            batch, problems = found
            for what in problems:
                self._digests.fault(batch.place, what)

    def compare(self, live: heads.Head, watch: Watch) -> None:
        """Compare the head that was folded with that of the tables."""
        watch.examined += len(DIGESTED)
        if self.wrong:
            return  # told already, with the batch where they part
        for what in head_differences(self.head, live):
            watch.fault(None, what)

    def compare_rows(self, live_txn: Txn, live: heads.Head, watch: Watch) -> None:
        """Compare the tables row by row, and recount their digests."""
        counted: dict[str, tuple[bytes, int]] = {}
        with self.store.begin() as txn:
            for table in DIGESTED:
                digest = Digest()
                rows = _counting(live_txn.scan(table), digest)
                folded = () if self.wrong else txn.scan(table)
                different = _first_difference(iter(folded), rows) if not self.wrong else None
                for _ in rows:
                    pass
                counted[table] = digest.value(), digest.rows
                watch.examined += digest.rows
                if different is not None:
                    watch.fault(None, _words(table, *different))
        for what in digest_differences(counted, live.digests):
            watch.fault(None, f"recounted: {what}")


def _fold(txn: Txn, chunk: list[Taken]) -> tuple[heads.Head, tuple[Taken, list[str]] | None]:
    """Fold batches up to the first that differs; the head, and that batch with what is wrong. May run again."""
    tables = Tables(txn)
    wrong: tuple[Taken, list[str]] | None = None
    for batch in chunk:
        try:
            refold.apply_batch(tables, (one.event for one in batch.decisions), batch.batch, batch.written)
            problems = refold.prove(tables, batch.batch)
        except (Corrupt, AssertionError, struct.error, LookupError, ValueError, TypeError) as exc:
            problems = [str(exc)]  # a forged decision can lead `apply` anywhere
        if problems:
            wrong = batch, problems
            break
    tables.flush()
    head = replace(tables.head, fold_version=FOLD_VERSION)
    heads.save(txn, head)
    return head, wrong


def _counting(rows: Iterator[Item], digest: Digest) -> Iterator[Item]:
    for key, value in rows:
        digest.add(key, value)
        yield key, value


def _first_difference(folded: Iterator[Item], live: Iterator[Item]) -> tuple[Item | None, Item | None] | None:
    """The first pair of rows that are not the same; None for a row that only the other side has."""
    for ours, theirs in zip_longest(folded, live):
        if ours == theirs:
            continue
        if ours is None or theirs is None or ours[0] == theirs[0]:
            return ours, theirs
        return (ours, None) if ours[0] < theirs[0] else (None, theirs)
    return None


def _words(table: str, folded: Item | None, live: Item | None) -> str:
    """The first row that differs, for people."""
    key, value = folded or live or (b"", b"")
    name = f"{table}: row {key.hex()} ({_name(table, value)})"
    if folded is None:
        return f"{name} is in the tables, but not in what was folded"
    if live is None:
        return f"{name} was folded, but is not in the tables"
    return f"{name} differs: {_difference(table, folded[1], live[1])}"


def _name(table: str, value: bytes) -> str:
    """What a row is about."""
    row = _ROWS[table]
    if row is None:
        return "an index"
    try:
        found = row.decode(value)
    except (struct.error, ValueError, IndexError):
        return "which can't be read"
    names = (str(getattr(found, field, "")) for field in ("url", "origin_key", "host"))
    return next((name for name in names if name), row.__name__)


def _difference(table: str, folded: bytes, live: bytes) -> str:
    """The fields of two rows that differ."""
    row = _ROWS[table]
    if row is None:
        return f"{folded.hex()} folded, {live.hex()} in the tables"
    try:
        ours, theirs = row.decode(folded), row.decode(live)
    except (struct.error, ValueError, IndexError) as exc:
        return f"its bytes are no row: {exc}"
    fields = [name for name in ours.__struct_fields__ if getattr(ours, name) != getattr(theirs, name)]
    said = [
        f"{name} {getattr(ours, name)!r} folded, {getattr(theirs, name)!r} in the tables" for name in fields
    ]
    return "; ".join(said)
