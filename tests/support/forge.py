"""A forger: rewrites the log of a shard, and everything that follows from it, so that only its rules can tell.

`forge` reads a shard, lets a test change its batches or any topic, then folds anew and writes log, digests, chain, head and
tables as an honest owner would have. What is kept instead can be chosen: the old chain, the old digests.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from frontlog.avro.codec import body_of, encode
from frontlog.avro.events import Batch, Event
from frontlog.replay import refold
from frontlog.replay.folder import OpenShard, ShardRef, open_shard, shards_of
from frontlog.replay.ledger import Ledger
from frontlog.state import head as heads
from frontlog.state.catalogue import LOG, STORE_TABLES
from frontlog.state.lmdb_store import LmdbStore
from frontlog.state.rows import FOLD_VERSION
from frontlog.state.store import Txn
from frontlog.state.tables import TABLE_NAMES, Tables
from frontlog.streams import fold
from frontlog.streams.batching import TOPIC_OF, record_key
from frontlog.streams.embedded_log import EmbeddedLog
from frontlog.streams.records import NewRecord
from frontlog.streams.topics import TOPIC_IDS, decision_topics, input_topics


@dataclass
class Draft:
    """A batch that may be changed: its decisions without the Batch event, and that event."""

    decisions: list[Event]
    batch: Batch


@dataclass
class Forgery:
    """A shard that may be changed. `topics` holds all records but those of decisions."""

    drafts: list[Draft]
    topics: dict[str, list[NewRecord]]
    partition: int
    keep_chain: bool = False
    keep_digests: bool = False
    torn: int = field(default=0)
    """Decisions of the last batch that are written; 0: all, with the Batch event."""

    def events(self, kind: type[Any]) -> list[tuple[Draft, int, Any]]:
        """Decisions of a kind, each with its batch and its place in there."""
        return [
            (draft, n, one)
            for draft in self.drafts
            for n, one in enumerate(draft.decisions)
            if isinstance(one, kind)
        ]

    def append(self, *events: Event, at_ms: int | None = None, skip: int = 0) -> Draft:
        """A further batch with decisions of the forger's own; `skip` leaves numbers out before the last one."""
        last = self.drafts[-1].batch
        numbered: list[Event] = []
        for n, event in enumerate(events, 1):
            seq = last.seq + n + (skip if n == len(events) else 0)
            stamp: dict[str, Any] = {
                "seq": seq,
                "owner_token": max(int(getattr(event, "owner_token", 0)), last.owner_token),
            }
            numbered.append(replace(event, **stamp))
        seq = last.seq + len(events) + skip + 1
        batch = replace(
            last, seq=seq, first_seq=last.seq + 1, positions=(), at_ms=last.at_ms if at_ms is None else at_ms
        )
        self.drafts.append(Draft(numbered, batch))
        return self.drafts[-1]


def forge(folder: Path, shard: str, edit: Callable[[Forgery], None]) -> None:
    """Change a shard of a crawl that nobody has open."""
    ref = next(one for one in shards_of(folder) if one.name == shard)
    forgery = _read(ref)
    edit(forgery)
    store = LmdbStore(ref.path, STORE_TABLES, durability="none")
    try:
        with store.begin(write=True) as txn:
            for table in (*TABLE_NAMES, LOG.name):
                txn.clear(table)
            _write(txn, EmbeddedLog(store, TOPIC_IDS), forgery)
            txn.commit()
    finally:
        store.close()


def _read(ref: ShardRef) -> Forgery:
    with open_shard(ref) as shard:
        decisions = decision_topics(ref.role)
        ends = {topic: shard.log.bounds(topic, shard.partition)[1] for topic in TOPIC_IDS}
        ledger = Ledger(shard.log, shard.partition, decisions, input_topics(ref.role), ends)
        drafts = [Draft([one.event for one in batch.decisions], batch.batch) for batch in ledger.batches()]
        topics = {topic: _records(shard, topic) for topic in TOPIC_IDS if topic not in decisions}
        return Forgery(drafts, topics, shard.partition)


def _records(shard: OpenShard, topic: str) -> list[NewRecord]:
    first, _ = shard.log.bounds(topic, shard.partition)
    found = shard.log.scan(topic, shard.partition, first)
    return [NewRecord(one.timestamp_ms, one.key, one.value, one.headers) for one in found]


def _write(txn: Txn, log: EmbeddedLog, forgery: Forgery) -> None:
    """Fold and log as an owner does, batch by batch."""
    within, partition = log.within(txn), forgery.partition
    for topic, records in forgery.topics.items():
        within.append(topic, partition, records)
    head = heads.Head()
    for draft in forgery.drafts:
        data = [encode(event) for event in draft.decisions]
        chain = draft.batch.log_hash
        if not forgery.keep_chain:
            chain = fold.chain_hash(head.log_hash, (body_of(one) for one in data))
        batch = replace(draft.batch, log_hash=chain)
        tables = Tables(txn, head)
        refold.apply_batch(tables, draft.decisions, batch, {})
        values, listed = fold.digests_of(tables)
        if not forgery.keep_digests:
            batch = replace(batch, digests=listed)
        written: dict[str, int] = {}
        entries = [*zip(draft.decisions, data, strict=True), (batch, encode(batch))]
        if forgery.torn and draft is forgery.drafts[-1]:
            entries = entries[: forgery.torn]
        for event, value in entries:
            record = NewRecord(batch.at_ms, record_key(event, partition), value)
            topic = TOPIC_OF[type(event)]
            written[topic] = within.append(topic, partition, [record]) + 1
        head = replace(
            tables.head, digests=values, next={**tables.head.next, **written}, fold_version=FOLD_VERSION
        )
        tables.head = head
    heads.save(txn, head)
