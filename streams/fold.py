"""The end of a batch: its digests, its hash, the head that follows. Live host, recovery and replay share this."""

import hashlib
from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from frontlog.avro.codec import body_of
from frontlog.avro.errors import Corrupt
from frontlog.avro.events import Batch, Event, Position, TableDigest
from frontlog.processors import hosts, machine
from frontlog.state.head import Head
from frontlog.state.tables import Tables


def chain_hash(before: bytes, bodies: Iterable[bytes]) -> bytes:
    """`log_hash` of a batch: SHA-256(hash before ‖ the batch's unframed Avro bodies in seq order)."""
    return hashlib.sha256(b"".join((before, *bodies))).digest()


def digests_of(tables: Tables) -> tuple[dict[str, tuple[bytes, int]], tuple[TableDigest, ...]]:
    """Every table's digest, for the head and for the Batch event; empty tables are left out of the event. Hosts that were
    touched find their turns first."""
    hosts.settle(tables)
    values = tables.digest_values()
    listed = tuple(
        TableDigest(table=name, digest=d, rows=n) for name, (d, n) in values.items() if n or any(d)
    )
    return values, listed


def following(
    head: Head, batch: Batch, written: Mapping[str, int], digests: dict[str, tuple[bytes, int]]
) -> Head:
    """The head after a batch. `written`: next offset of each decision topic behind it."""
    positions = dict(head.positions)
    for position in batch.positions:
        positions[position.topic] = position.to_offset
    return replace(
        head,
        seq=batch.seq,
        owner_token=batch.owner_token,
        at_ms=batch.at_ms,
        log_hash=batch.log_hash,
        positions=positions,
        next={**head.next, **written},
        digests=digests,
    )


def positions_of(before: Mapping[str, int], now: Mapping[str, int]) -> tuple[Position, ...]:
    """What a batch took of each topic of inputs."""
    return tuple(
        Position(topic=topic, from_offset=before.get(topic, 0), to_offset=offset)
        for topic, offset in now.items()
        if offset != before.get(topic, 0)
    )


def fold_batch(
    tables: Tables, decisions: list[tuple[Event, bytes]], batch: Batch, written: Mapping[str, int]
) -> Head:
    """Fold a batch of the log and check its proof. Raises Corrupt naming the batch and the table that differ.

    `decisions`: events with their encoded bytes in seq order, the Batch left out. The head is returned, and
    stands in `tables.head`; the caller saves it and commits.
    """
    before = tables.head
    if batch.first_seq != before.seq + 1:
        raise Corrupt(
            f"batch of seq {batch.seq} begins at {batch.first_seq}; {before.seq + 1} was due: decisions are missing"
        )
    found_hash = chain_hash(before.log_hash, (body_of(data) for _, data in decisions))
    if found_hash != batch.log_hash:
        raise Corrupt(
            f"batch of seq {batch.seq}: the log's chain breaks here; its decisions are not those that were written"
        )
    tables.head = replace(before, at_ms=batch.at_ms)
    machine.look_ahead(tables, [event for event, _ in decisions])
    for event, _ in decisions:
        try:
            machine.apply(tables, event)
        except AssertionError as exc:
            raise Corrupt(f"batch of seq {batch.seq}: a logged decision cannot be folded: {exc}") from exc
    values, listed = digests_of(tables)
    if listed != batch.digests:
        raise Corrupt(f"batch of seq {batch.seq}: {_difference(listed, batch.digests)}")
    tables.head = following(tables.head, batch, written, values)
    return tables.head


def _difference(found: tuple[TableDigest, ...], wanted: tuple[TableDigest, ...]) -> str:
    ours, theirs = {d.table: d for d in found}, {d.table: d for d in wanted}
    wrong = [name for name in sorted({*ours, *theirs}) if ours.get(name) != theirs.get(name)]
    parts = [
        f"{name} ({ours[name].rows if name in ours else 0} rows folded, {theirs[name].rows if name in theirs else 0} logged)"
        for name in wrong
    ]
    return f"folding gives other tables than the owner had: {', '.join(parts)}"
