"""`frontlog log copy`: a crawl's log from a folder to Kafka or back, with the same partitions, offsets and seqs.

Offsets are kept, since causes and positions name them. Kafka gives offsets one by one, so a run of records is written
without a transaction into topics that are empty; a hole is made as Kafka makes them, of a transaction's marker (one
offset) or of a transaction that was dropped (its records and the marker). What retention cut from the front is written
as empty records and deleted again.

The tables are not copied but folded from the copy, batch by batch against the chain and the digests of the log, and
their head is compared with that of the source: that is the proof.

Outputs that a schema registry was used for lie in a folder in our own encoding again: their headers name the schema.

The archive stays where it is. Nothing may write to the source meanwhile: a folder is locked, and of a crawl on Kafka
nobody may be a member of its group.
"""

import tempfile
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from frontlog.avro.errors import ConfigError, Corrupt
from frontlog.replay.compare import head_differences
from frontlog.replay.folder import ARCHIVE_FROM, LOG_FOLDER, OpenShard, ShardRef, open_shard, shards_of
from frontlog.replay.shapes import Advance, Copied
from frontlog.replay.workers import Tell
from frontlog.state.catalogue import META, STORE_TABLES
from frontlog.state.head import Head
from frontlog.state.lmdb_store import LmdbStore
from frontlog.state.owner_lock import OwnerLock
from frontlog.state.store import Store, Txn, in_write
from frontlog.streams.embedded_log import EmbeddedLog
from frontlog.streams.kafka_fold import fold_tail
from frontlog.streams.kafka_keep import Keeper, begins_at
from frontlog.streams.kafka_log import KafkaLog
from frontlog.streams.kafka_places import TOPICS, KafkaCrawl, ShardLog
from frontlog.streams.kafka_topics import create, members, need
from frontlog.streams.records import Record
from frontlog.streams.schema_registry import OUTPUTS, single_object
from frontlog.streams.topics import (
    CONTENT_PARTITIONS,
    OUTBOX,
    TOPIC_IDS,
    Role,
    decision_topics,
    shard_name,
)

CHUNK_RECORDS = 5_000
OUTBOX_KEY = b"outbox"


class Shard(NamedTuple):
    """One shard of either side."""

    role: Role
    partition: int

    @property
    def name(self) -> str:
        return shard_name(self.role, self.partition)


def to_kafka(folder: Path, crawl: KafkaCrawl, on_progress: Tell, *, replication: int = 1) -> Copied:
    """Copy a folder's crawl to Kafka, whose topics of that name must be missing or empty. Raises ConfigError, Corrupt."""
    began = time.monotonic()
    refs = shards_of(folder)
    partitions = sum(ref.role is Role.FRONTIER for ref in refs)
    with OwnerLock(folder, command="frontlog log copy", started_ms=time.time_ns() // 1_000_000):
        _deliverable(refs)
        create(crawl, partitions, replication=replication)
        log = KafkaLog(crawl.servers, TOPICS, prefix=crawl.prefix)
        teller = _Teller(on_progress, began)
        differences: list[str] = []
        try:
            for ref in refs:
                _empty(log, crawl, ref.role, ref.partition, partitions)
            with Keeper(crawl.servers, crawl.name) as keeper:
                for ref in refs:
                    with open_shard(ref) as shard:
                        _shard_to_kafka(shard, ShardLog(log, ref.role, partitions), crawl, keeper, teller)
            for ref in refs:
                with open_shard(ref) as shard:
                    folded = _folded(ShardLog(log, ref.role, partitions), ref)
                    differences += [f"{ref.name}: {one}" for one in head_differences(folded, shard.head())]
        finally:
            log.close()
    return teller.copied(str(folder), str(crawl), tuple(differences))


def from_kafka(
    crawl: KafkaCrawl, folder: Path, on_progress: Tell, *, archives: Sequence[Path] = ()
) -> Copied:
    """Copy a crawl on Kafka into a folder, which must be empty or missing, and note where its `archives` lie. Raises
    ConfigError, Corrupt."""
    began = time.monotonic()
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigError(f"{folder}: not an empty folder; name a new one")
    there = need(crawl)
    partitions = there["transitions"].partitions
    if at_work := members(crawl):
        raise ConfigError(
            f"{crawl}: {len(at_work)} workers are at work ({', '.join(at_work[:3])}); stop them, then copy"
        )
    log = KafkaLog(crawl.servers, TOPICS, prefix=crawl.prefix)
    teller = _Teller(on_progress, began)
    try:
        shards = [Shard(Role.FRONTIER, number) for number in range(partitions)]
        shards += [Shard(Role.CONTENT, number) for number in range(CONTENT_PARTITIONS)]
        for shard in shards:
            path = folder / LOG_FOLDER / shard.name
            path.mkdir(parents=True)
            store = LmdbStore(path, STORE_TABLES, durability="none")
            try:
                _shard_from_kafka(shard, ShardLog(log, shard.role, partitions), store, teller)
                fold_tail(store, EmbeddedLog(store, TOPIC_IDS), shard.role, shard.partition)
            finally:
                store.close()
    finally:
        log.close()
    if archives:
        lines = [f"{path.resolve()}\n" for path in archives]
        (folder / ARCHIVE_FROM).write_text("".join(lines), encoding="utf-8")
    return teller.copied(str(crawl), str(folder), ())


def _folded(log: ShardLog, ref: ShardRef) -> Head:
    """The head of a shard's tables, folded from Kafka into a store that is thrown away."""
    with tempfile.TemporaryDirectory(prefix="frontlog-copy-") as name:
        store = LmdbStore(Path(name) / "store", STORE_TABLES, durability="none")
        try:
            return fold_tail(store, log, ref.role, ref.partition)
        finally:
            store.close()


class _Teller:
    """Counts, and says how far it has come."""

    def __init__(self, tell: Tell, began: float) -> None:
        self._tell = tell
        self._began = began
        self.records = 0

    def add(self, records: int) -> None:
        self.records += records
        elapsed_s = max(time.monotonic() - self._began, 0.001)
        self._tell(Advance("copying", self.records, records_per_s=self.records / elapsed_s))

    def copied(self, source: str, target: str, differences: tuple[str, ...]) -> Copied:
        return Copied(
            source=source,
            target=target,
            records=self.records,
            elapsed_ms=int((time.monotonic() - self._began) * 1_000),
            equal=not differences,
            differences=differences,
        )


def _deliverable(refs: list[ShardRef]) -> None:
    """What waits in an outbox belongs to another shard, which must have it first."""
    for ref in refs:
        with open_shard(ref) as shard, shard.store.begin() as txn:
            first, end = shard.log.within(txn).bounds(OUTBOX, shard.partition)
            note = txn.get(META.name, OUTBOX_KEY)
            if max(first, int.from_bytes(note or b"", "big")) < end:
                raise ConfigError(
                    f"{ref.name}: inputs for other shards wait in its outbox; let the crawl run and end once, then copy"
                )


def _empty(log: KafkaLog, crawl: KafkaCrawl, role: Role, partition: int, partitions: int) -> None:
    view = ShardLog(log, role, partitions)
    for topic in TOPICS:
        if _has(topic, role) and view.bounds(topic, partition)[1]:
            raise ConfigError(f"{crawl}: {topic} holds records already; name a crawl that is new")


def _has(topic: str, role: Role) -> bool:
    """Whether a shard of a role has a partition of a topic."""
    if topic in ("ownership", "rejects"):
        return True
    return (topic in ("candidates", "documents")) == (role is Role.CONTENT)


def _shard_to_kafka(
    shard: OpenShard, log: ShardLog, crawl: KafkaCrawl, keeper: Keeper, teller: _Teller
) -> None:
    for topic in TOPICS:
        first, end = shard.log.bounds(topic, shard.partition)
        if not end:
            continue
        where = crawl.prefix + topic, log.place(topic, shard.ref.partition)
        keeper.begin(*where, first)
        for records in _lists(shard.log.scan(topic, shard.partition, first)):
            keeper.keep(records)
            teller.add(len(records))
        keeper.end(end)
        found = log.bounds(topic, shard.ref.partition)
        if found != (first, end):
            raise Corrupt(f"{where[0]}/{where[1]}: came to offsets {found}, {(first, end)} were copied")


def _shard_from_kafka(shard: Shard, log: ShardLog, store: Store, teller: _Teller) -> None:
    embedded = EmbeddedLog(store, TOPIC_IDS)
    for topic in TOPICS:
        if not _has(topic, shard.role):
            continue
        first = begins_at(log, topic, shard.partition)
        if first:
            if topic in decision_topics(shard.role):
                raise ConfigError(
                    f"{shard.name}: {topic} begins at offset {first}; tables can only be folded from a log that begins at 0"
                )
            in_write(store, partial(_skip, embedded, topic, shard.partition, first))
        for records in log.batches(topic, shard.partition, first):
            kept = [single_object(record) for record in records] if topic in OUTPUTS else records
            in_write(store, partial(_keep, embedded, topic, shard.partition, kept))
            teller.add(len(records))


def _skip(log: EmbeddedLog, topic: str, partition: int, offset: int, txn: Txn) -> None:
    log.within(txn).skip_to(topic, partition, offset)


def _keep(log: EmbeddedLog, topic: str, partition: int, records: list[Record], txn: Txn) -> None:
    log.within(txn).append_kept(topic, partition, records)


def _lists(records: Iterator[Record]) -> Iterator[list[Record]]:
    taken: list[Record] = []
    for record in records:
        taken.append(record)
        if len(taken) == CHUNK_RECORDS:
            yield taken
            taken = []
    if taken:
        yield taken
