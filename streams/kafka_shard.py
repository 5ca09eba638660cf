"""The owner of one shard on Kafka: shuts the former owner out, folds what it left, and makes batches.

    open     1  init_transactions: the former owner's open transaction is dropped, and it can write no more
             2  fold the tail of the decisions
             3  read inputs from the folded positions
             4  a first batch says who owns
    step     decide in a write transaction of the store → one Kafka transaction → commit the store

What a crash leaves, and who mends it:

| the process dies                    | the log holds       | the store holds | at the next start                    |
|-------------------------------------|---------------------|-----------------|--------------------------------------|
| while a batch is made or sent       | nothing of it       | nothing of it   | inputs are read again                |
| during the Kafka commit             | all of it, or nothing | nothing of it | as the row above or the row below    |
| between the two commits             | the batch           | nothing of it   | the batch is folded from the log     |
| after both, leases handed out or not| leases              | leases          | they run out                         |

Decisions, outputs and inputs for other shards are one transaction, so there is no outbox. The store has no fsync: after a
crash of the machine (another boot, no clean close) it is thrown away and folded anew.

Deciding and the store stay in the thread of the event loop (docs/adr/0005); only Kafka's transaction is another thread's,
since it waits for the broker, and the store's transaction stays open meanwhile: nobody else writes this store.
"""

import asyncio
import shutil
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import msgspec
from confluent_kafka import KafkaError, KafkaException, Message, Producer
from msgspec.structs import replace

from frontlog.avro.codec import FRAME_BYTES, MARKER, body_of, decode
from frontlog.avro.enums import Topic
from frontlog.avro.errors import Corrupt, MapFull, Retriable
from frontlog.processors.context import Context
from frontlog.processors.settings import Settings
from frontlog.state import head as heads
from frontlog.state.catalogue import META, STORE_TABLES
from frontlog.state.lmdb_store import MAP_BYTES, LmdbStore
from frontlog.state.row_tables import Kept
from frontlog.state.rows import FOLD_VERSION
from frontlog.state.store import Store, Txn, in_write
from frontlog.state.tables import Tables
from frontlog.streams.batching import BatchMaker, Done, Poison, Poisoned
from frontlog.streams.clock import OwnClock
from frontlog.streams.kafka_client import CALL_S_MAX, of_kafka
from frontlog.streams.kafka_fold import fold_tail
from frontlog.streams.kafka_inputs import INPUTS_BYTES_MAX, KafkaBatch, KafkaInputs
from frontlog.streams.kafka_log import KafkaLog, fenced_producer, send
from frontlog.streams.kafka_places import KafkaCrawl, ShardLog, transactional_id
from frontlog.streams.records import NewRecord
from frontlog.streams.schema_registry import OUTPUTS, SCHEMA_HEADER
from frontlog.streams.shard import check_head, take_over
from frontlog.streams.topics import (
    CONTENT_PARTITIONS,
    OUTBOX,
    Role,
    decision_topics,
    input_topics,
    shard_name,
)

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
OPEN_FILE = "open"
"""Stands in the folder of a store that is in use, and names the boot of the machine."""
TOPICS_KEY = b"topics"
CONSUMED = frozenset(topic.value for topic in OUTPUTS)


class Ground(NamedTuple):
    """What all shards of a worker share. `topic_ids`: the topics' ids as they were at the start of the worker; `pool`: the
    threads that wait for Kafka; `frames`: what outputs begin with in place of our frame, with a schema registry."""

    crawl: KafkaCrawl
    log: KafkaLog
    partitions: int
    topic_ids: dict[str, str]
    folder: Path
    clock: OwnClock
    owner: str
    settings: Settings
    pool: Executor
    frames: Mapping[bytes, bytes] = MappingProxyType({})


def for_others(record: NewRecord, frames: Mapping[bytes, bytes]) -> NewRecord:
    """An output with what a consumer may want before it decodes, in the framing that was chosen: docs/consume.md."""
    event = decode(record.value)
    headers = (
        ("event_id", getattr(event, "event_id", "").encode()),
        ("type", type(event).__name__.encode()),
        (SCHEMA_HEADER, record.value[len(MARKER) : FRAME_BYTES].hex().encode()),
    )
    frame = frames.get(record.value[:FRAME_BYTES], record.value[:FRAME_BYTES])
    return record._replace(value=frame + body_of(record.value), headers=headers)


def open_store(folder: Path) -> LmdbStore:
    """The store of a shard, thrown away first if the machine went down while it was in use, or if another version of
    frontlog folded it: the log gives it again."""
    boot = BOOT_ID.read_text(encoding="ascii").strip() if BOOT_ID.exists() else "-"
    note = folder / OPEN_FILE
    if note.exists() and note.read_text(encoding="ascii") != boot:
        shutil.rmtree(folder)
    while True:
        folder.mkdir(parents=True, exist_ok=True)
        note.write_text(boot, encoding="ascii")
        store = LmdbStore(folder, STORE_TABLES, durability="none", map_bytes=MAP_BYTES)
        with store.begin() as txn:
            head = heads.load(txn)
        if not head.seq or head.fold_version == FOLD_VERSION:
            return store
        store.close()
        shutil.rmtree(folder)


def close_store(store: LmdbStore, folder: Path) -> None:
    """Close it; what it holds is on the disk then."""
    store.close()
    (folder / OPEN_FILE).unlink(missing_ok=True)


def pin_topics(store: Store, ground: Ground, role: Role) -> None:
    """Note which topics the tables were folded from; a topic that was made anew has another id. Raises Corrupt."""
    ours = {topic: ground.topic_ids[topic] for topic in (*decision_topics(role), *input_topics(role))}

    def note(txn: Txn) -> None:
        data = txn.get(META.name, TOPICS_KEY)
        before = msgspec.msgpack.decode(data, type=dict[str, str]) if data else {}
        if changed := [topic for topic, topic_id in ours.items() if before.get(topic, topic_id) != topic_id]:
            raise Corrupt(
                f"{ground.crawl}: {', '.join(sorted(changed))} was made anew since its tables were folded; restore it, or "
                f"remove the folder {ground.folder} to fold what there is now"
            )
        txn.put(META.name, TOPICS_KEY, msgspec.msgpack.encode(ours, order="deterministic"))

    in_write(store, note)


class KafkaShard:
    """One shard that this process owns. `inputs_bytes_max`: its share of what may wait here. `open` and `close` may be
    called in another thread than the event loop's."""

    def __init__(
        self, ground: Ground, role: Role, partition: int, *, inputs_bytes_max: int = INPUTS_BYTES_MAX
    ) -> None:
        self.ground = ground
        self._inputs_bytes_max = inputs_bytes_max
        self.role = role
        self.partition = partition
        self.partitions = ground.partitions if role is Role.FRONTIER else CONTENT_PARTITIONS
        self.name = shard_name(role, partition)
        self.folder = ground.folder / self.name
        self.log = ShardLog(ground.log, role, ground.partitions)
        self.head = heads.Head()
        self.poisoned: list[str] = []
        self._poison: dict[Poison, str] = {}
        self._kept = Kept()
        self._store: LmdbStore | None = None
        self._producer: Producer | None = None
        self._inputs: KafkaInputs | None = None

    @property
    def store(self) -> LmdbStore:
        """The store, once it is open."""
        assert self._store is not None, "the shard is not open"
        return self._store

    @property
    def inputs(self) -> KafkaInputs:
        """The inputs, once the shard is open."""
        assert self._inputs is not None, "the shard is not open"
        return self._inputs

    def open(self, stopped: Callable[[], bool]) -> None:
        """Shut the former owner out and catch up; `take_over` is next. Ends early when `stopped` says so."""
        ground = self.ground
        self._producer = fenced_producer(
            ground.crawl.servers, transactional_id(ground.crawl.name, self.role, self.partition)
        )
        self._store = open_store(self.folder)
        pin_topics(self._store, ground, self.role)
        self.head = fold_tail(self._store, self.log, self.role, self.partition, stopped=stopped)
        self._kept = Kept()
        if stopped():
            return
        if self.head.seq:
            check_head(self.head, self.name, ground.clock.now_ms(), self.partitions)
            ground.clock.not_before(self.head.at_ms)
        names = {topic.value: ground.log.full_name(topic) for topic in input_topics(self.role)}
        self._inputs = KafkaInputs(
            ground.crawl.servers, f"{ground.crawl.prefix}inputs", names, self.partition, self.head.positions,
            bytes_max=self._inputs_bytes_max,
        )  # fmt: skip

    async def take_over(self) -> Done:
        """The first batch of this owner."""
        return await self._commit(
            0, lambda made: take_over(made, self.head, self.ground.settings), start=True
        )

    async def step(self, wanted: int) -> Done:
        """One batch of what waits, and claims for `wanted` slots."""
        return await self._commit(wanted, lambda _: None)

    async def _commit(self, wanted: int, work: Callable[[BatchMaker], None], *, start: bool = False) -> Done:
        while True:
            try:
                return await self._attempt(wanted, work, start)
            except MapFull:
                continue  # nothing was sent yet
            except Poisoned as exc:
                if exc.poison in self._poison:
                    raise
                self._poison[exc.poison] = str(exc)
                self.poisoned.append(str(exc))

    async def _attempt(self, wanted: int, work: Callable[[BatchMaker], None], start: bool) -> Done:
        kept, self._kept = self._kept, Kept()  # good again once what this batch changes in it is committed
        with self.store.begin(write=True) as txn:
            done, batch = self._decide(Tables(txn, self.head, kept), wanted, work, start)
            if done.head is None:
                self._kept = kept
                return done
            following = await self._publish(batch.appended)
            head = replace(done.head, fold_version=FOLD_VERSION, next={**self.head.next, **following})
            try:
                heads.save(txn, head)
                txn.commit()
                self._kept = kept
            except MapFull:  # the log has the batch: let the store have it from there
                txn.abort()
                head = fold_tail(self.store, self.log, self.role, self.partition)
        self.head = head
        self.inputs.drop(head.positions)
        return done._replace(head=head)

    def _decide(
        self, tables: Tables, wanted: int, work: Callable[[BatchMaker], None], start: bool
    ) -> tuple[Done, KafkaBatch]:
        ground, head = self.ground, self.head
        ctx = Context(
            now_ms=max(ground.clock.now_ms(), head.at_ms), seq=head.seq, owner_token=head.owner_token + start,
            owner=ground.owner, partition=self.partition, partitions=self.partitions,
        )  # fmt: skip
        batch = KafkaBatch(self.inputs)
        made = BatchMaker(tables, batch, ctx, self.role, poison=self._poison)
        work(made)
        made.take_inputs()
        if self.role is Role.FRONTIER and not self.inputs.caught_up(Topic.FETCH_RESULTS):
            made.results_wait = True
        made.take_timers()
        made.take_claims(wanted)
        return made.finish(wanted), batch

    async def _publish(self, appended: Sequence[tuple[str, Sequence[NewRecord]]]) -> dict[str, int]:
        """Commit records in one transaction; the next offset of each decision topic behind them."""
        ends = await asyncio.get_running_loop().run_in_executor(self.ground.pool, self._transact, appended)
        wanted = {topic for topic, _ in appended} & set(decision_topics(self.role))
        if not wanted <= ends.keys():
            raise Retriable(f"{self.name}: Kafka did not say where {', '.join(sorted(wanted))} ends")
        return {topic: ends[topic] for topic in wanted}

    def _transact(self, appended: Sequence[tuple[str, Sequence[NewRecord]]]) -> dict[str, int]:
        """The transaction itself, whose every call may wait for the broker; the next offset of each topic."""
        producer = self._producer
        assert producer is not None, "the shard is not open"
        ends: dict[str, int] = {}
        errors: list[KafkaError] = []

        def delivered(topic: str, error: KafkaError | None, message: Message) -> None:
            if error is not None:
                errors.append(error)
            else:
                ends[topic] = max(ends.get(topic, 0), (message.offset() or 0) + 1)

        try:
            producer.begin_transaction()
            for topic, records in appended:
                told = partial(delivered, topic)
                for record in records:
                    name, number, new = self._target(topic, record)
                    send(producer, name, number, new, told)
            producer.commit_transaction(CALL_S_MAX)
        except KafkaException as exc:
            # What kept a record out says more than that the commit misses it.
            raise of_kafka(errors[0] if errors else exc, f"{self.name}: committing a batch") from exc
        if errors:
            raise of_kafka(errors[0], f"{self.name}: committing a batch")
        return ends

    def _target(self, topic: str, record: NewRecord) -> tuple[str, int, NewRecord]:
        """Where a record goes: its place in Kafka, or for an input of another shard, that one's."""
        if topic != OUTBOX:
            new = for_others(record, self.ground.frames) if topic in CONSUMED else record
            return self.ground.log.full_name(topic), self.log.place(topic, self.partition), new
        target, _, number = dict(record.headers)["to"].decode().rpartition("/")
        # A partition that there is none of: the first passes it on, or rejects it.
        where = int(number) if int(number) < self.ground.partitions else 0
        return self.ground.log.full_name(target), where, record._replace(headers=())

    def close(self) -> None:
        """Let go: another may own it now."""
        if self._inputs is not None:
            self._inputs.close()
        self._producer = None
        if self._store is not None:
            close_store(self._store, self.folder)
            self._store = None
