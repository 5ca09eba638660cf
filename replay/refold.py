"""Folding a log again: the decisions of whole batches through the one `apply`, and the proof that each batch carries.

The proof of a batch, its digests, can be held against the fold at every batch, which says at once where they differ; or
at a batch now and then, which takes half the time, since a row that many batches move is then encoded and hashed once,
and a host that they touch finds its turn once.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec.structs import replace

from frontlog.avro.errors import Corrupt
from frontlog.avro.events import Batch, Event, TableDigest
from frontlog.processors import hosts, machine
from frontlog.state.tables import Tables
from frontlog.streams import fold


def apply_batch(tables: Tables, decisions: Iterable[Event], batch: Batch, written: Mapping[str, int]) -> None:
    """Fold a batch as its owner did, its Batch event left out of `decisions`; the digests of the head stay behind until
    `prove`. Raises Corrupt for a decision that can't be folded."""
    head = tables.head
    tables.head = replace(head, at_ms=batch.at_ms)
    events = list(decisions)
    machine.look_ahead(tables, events)
    for event in events:
        try:
            machine.apply(tables, event)
        except AssertionError as exc:
            raise Corrupt(f"batch of seq {batch.seq}: a logged decision cannot be folded: {exc}") from exc
    hosts.settle_later(tables)
    tables.head = fold.following(tables.head, batch, written, head.digests)


def prove(tables: Tables, batch: Batch) -> list[str]:
    """How the digests of the tables differ from those that their owner logged with the batch just folded."""
    values, listed = fold.digests_of(tables)
    tables.head = replace(tables.head, digests=values)
    return list(_differences(listed, batch.digests))


def _differences(found: Sequence[TableDigest], logged: Sequence[TableDigest]) -> Iterator[str]:
    if found == logged:
        return
    ours, theirs = {d.table: d for d in found}, {d.table: d for d in logged}
    for table in sorted({*ours, *theirs}):
        if ours.get(table) != theirs.get(table):
            rows = ours[table].rows if table in ours else 0
            wanted = theirs[table].rows if table in theirs else 0
            yield f"folding gives table {table} {rows} rows and another digest; its owner logged {wanted} rows"
