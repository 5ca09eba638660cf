"""Folding a shard's decisions from Kafka into its store: at the start of an owner, behind it, and after a copy.

The log is the truth and the store its cache. Each chunk is one transaction of the store; each batch is held against the
hash chain and the digests that its owner had (`frontlog.streams.fold`).
"""

from collections.abc import Callable, Iterator
from functools import partial

from msgspec.structs import replace

from frontlog.avro.errors import Corrupt, OffsetOutOfRange
from frontlog.state import head as heads
from frontlog.state.rows import FOLD_VERSION
from frontlog.state.store import Store, Txn, in_write
from frontlog.state.tables import Tables
from frontlog.streams import fold
from frontlog.streams.log import Log
from frontlog.streams.playback import LoggedBatch, Playback
from frontlog.streams.topics import Role, decision_topics, shard_name

CHUNK_DECISIONS = 20_000
"""Decisions that one transaction of the store takes; rows stay decoded as long."""


def check_ends(head: heads.Head, log: Log, role: Role, partition: int) -> None:
    """Whether a store can go on with a log: what it folded last must lie within. Raises OffsetOutOfRange."""
    for topic in decision_topics(role):
        following = head.next.get(topic, 0)
        first, end = log.bounds(topic, partition)
        if not first <= following <= end:
            raise OffsetOutOfRange(
                f"{shard_name(role, partition)}: {topic} holds offsets from {first} up to, not including, {end}; the tables "
                f"were folded up to {following}. The log was cut or made anew: restore it, or a snapshot of the tables"
            )


def fold_tail(
    store: Store,
    log: Log,
    role: Role,
    partition: int,
    *,
    following: bool = False,
    stopped: Callable[[], bool] = lambda: False,
    on_chunk: Callable[[heads.Head], None] = lambda _: None,
) -> heads.Head:
    """Fold what the store has not seen of its log; the head that came of it. `following`: an owner is writing meanwhile,
    so that a batch may not be there whole. Raises Corrupt and OffsetOutOfRange."""
    with store.begin() as txn:
        head = heads.load(txn)
    check_ends(head, log, role, partition)
    playback = Playback(
        log, role, partition, seq=head.seq, token=head.owner_token, starts=head.next, following=following
    )
    batches = playback.batches()
    while not stopped() and (chunk := _chunk(batches)):
        head = in_write(store, partial(_fold, chunk))
        on_chunk(head)
    return head


def _chunk(batches: Iterator[LoggedBatch]) -> list[LoggedBatch]:
    chunk: list[LoggedBatch] = []
    decisions = 0
    for batch in batches:
        chunk.append(batch)
        decisions += len(batch.decisions) + 1
        if decisions >= CHUNK_DECISIONS:
            break
    return chunk


def _fold(chunk: list[LoggedBatch], txn: Txn) -> heads.Head:
    """Fold batches; may run again, from the same head, when the map had to grow."""
    tables = Tables(txn, heads.load(txn))
    for batch in chunk:
        if batch.batch.seq <= tables.head.seq:
            raise Corrupt(f"batch of seq {batch.batch.seq} comes again: the tables are at {tables.head.seq}")
        fold.fold_batch(
            tables, [(one.event, one.record.value) for one in batch.decisions], batch.batch, batch.written
        )
    head = replace(tables.head, fold_version=FOLD_VERSION)
    heads.save(txn, head)
    return head
