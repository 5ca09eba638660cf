"""One batch of a shard, from waiting inputs to the decisions, outputs and leases that came of them (DESIGN §1).

    1  append what was offered to the input topics
    2  take inputs in the order control, fetch-results, content-verdicts, discoveries; then timers; then claims
    3  decide each, apply each decision at once
    4  end with a Batch: positions, digests, log hash

All of it happens inside one write transaction, which the caller commits or drops whole. Nothing here has an effect
outside that transaction, so a dropped batch can be tried again.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count
from typing import NamedTuple

from msgspec.structs import replace

from frontlog.avro.codec import Undecodable, body_of, decode, encode
from frontlog.avro.enums import Reason, Topic
from frontlog.avro.errors import FrontlogError
from frontlog.avro.events import (
    Batch,
    Candidate,
    ContentVerdict,
    Control,
    CursorMoved,
    Discovery,
    Document,
    ErrandRequest,
    Event,
    FetchResult,
    HostTransition,
    LeaseExtension,
    OperatorPolicy,
    OwnershipTaken,
    PartitionPaused,
    RobotsPolicy,
    Signal,
    SiteLinked,
    Transition,
    UrlEvidence,
    UrlRule,
)
from frontlog.processors import claims, control, hosts, jobs, machine, partition
from frontlog.processors.context import Cause, Context, Decided, Emission
from frontlog.processors.leased import Lease
from frontlog.processors.rejects import reject
from frontlog.state.head import Head
from frontlog.state.tables import Tables
from frontlog.streams import fold
from frontlog.streams.log import BatchLog
from frontlog.streams.records import NewRecord
from frontlog.streams.topics import OUTBOX, Role, input_topics

DECISIONS_MAX = 5_000
INPUTS_MAX = 2_000
"""Inputs of one topic in one batch."""

TOPIC_OF: dict[type[Event], Topic] = {
    Transition: Topic.TRANSITIONS,
    HostTransition: Topic.TRANSITIONS,
    RobotsPolicy: Topic.POLICIES,
    OperatorPolicy: Topic.POLICIES,
    OwnershipTaken: Topic.OWNERSHIP,
    Batch: Topic.OWNERSHIP,
    PartitionPaused: Topic.OWNERSHIP,
    CursorMoved: Topic.OWNERSHIP,
    Document: Topic.DOCUMENTS,
    UrlRule: Topic.POLICIES,
    UrlEvidence: Topic.POLICIES,
    Signal: Topic.POLICIES,
    SiteLinked: Topic.POLICIES,
}


INPUTS: dict[str, tuple[type[Event], ...]] = {
    Topic.CONTROL: (Control,),
    Topic.FETCH_RESULTS: (FetchResult, LeaseExtension),
    Topic.CONTENT_VERDICTS: (ContentVerdict,),
    Topic.DISCOVERIES: (Discovery, ErrandRequest),
    Topic.CANDIDATES: (Candidate,),
}
"""What may stand on a topic of inputs."""


class Offered(NamedTuple):
    """An input on its way into the log. `event` spares decoding what this process encoded; `source` is the shard and the
    offset in its outbox that it comes from, so that what is delivered again after a crash is known again."""

    topic: Topic
    key: bytes
    value: bytes
    event: Event | None = None
    source: tuple[str, int] | None = None


class Poison(NamedTuple):
    """An input by its place and its bytes: until it is committed, another record may come to its place."""

    cause: Cause
    print: bytes


class Poisoned(Exception):
    """Deciding one input raised what no machine may raise; the batch is dropped and tried without it."""

    def __init__(self, poison: Poison, error: Exception) -> None:
        topic, partition_number, offset = poison.cause
        super().__init__(
            f"deciding {topic}/{partition_number}@{offset} failed: {type(error).__name__}: {error}"
        )
        self.poison = poison


class Outgoing(NamedTuple):
    """An emission as it stands in the outbox, and its offset there."""

    offset: int
    emission: Emission
    record: NewRecord


class Done(NamedTuple):
    """What a batch came to. `head` counts once the transaction is committed; None: nothing happened."""

    head: Head | None
    leases: list[Lease]
    decisions: list[Event]
    outputs: int
    rejects: int
    inputs: int
    more: bool
    next_ready_ms: int | None
    outbox: Sequence[Outgoing] = ()


class BatchMaker:
    """Makes one batch inside a transaction. Use once."""

    def __init__(
        self,
        tables: Tables,
        log: BatchLog,
        ctx: Context,
        role: Role,
        *,
        poison: Mapping[Poison, str] | None = None,
    ) -> None:
        self.tables = tables
        self.log = log
        self.ctx = ctx
        self.role = role
        self.poison = poison or {}
        self.before = tables.head
        self.positions = dict(tables.head.positions)
        self.decisions: list[tuple[Event, bytes]] = []
        self.outputs: list[tuple[str, NewRecord]] = []
        self.emissions: list[Emission] = []
        self.outbox: list[Outgoing] = []
        self.leases: list[Lease] = []
        self.inputs = 0
        self.rejects = 0
        self.more = False
        self.results_wait = False
        """Whether results that were logged by now are left for a later batch: no lease may run out meanwhile."""
        self.offered: dict[str, tuple[int, Sequence[Offered]]] = {}
        tables.head = replace(tables.head, at_ms=ctx.now_ms)

    def append(self, offered: Iterable[Offered]) -> None:
        """Put inputs into the log; they get their offsets here."""
        groups: dict[str, list[Offered]] = {}
        for one in offered:
            groups.setdefault(one.topic, []).append(one)
        for topic, group in groups.items():
            records = [NewRecord(self.ctx.now_ms, one.key, one.value) for one in group]
            self.offered[topic] = (self.log.append(topic, self.ctx.partition, records), group)

    def take(self, steps: Iterable[Decided], *, bounded: bool = False) -> None:
        """Apply each step before the next is asked for, and keep what it decided. `bounded`: stop when the batch is
        full; what is left is asked for again in the next."""
        for step in steps:
            for event in step.decisions:
                machine.apply(self.tables, event)
                self.decisions.append((event, encode(event)))
            for out in step.outputs:
                self.outputs.append(
                    (out.topic, NewRecord(self.ctx.now_ms, out.key.encode(), encode(out.event)))
                )
                self.rejects += out.topic is Topic.REJECTS
            self.emissions += step.emissions
            self.leases += step.leases
            if bounded and len(self.decisions) >= DECISIONS_MAX:
                self.more = True
                return

    def take_inputs(self) -> None:
        """Decide what waits, topic by topic, up to the bounds of a batch."""
        for topic in input_topics(self.role):
            for offset, event, value in self._waiting(topic):
                if len(self.decisions) >= DECISIONS_MAX:
                    self.more = True
                    break
                self.ctx.cause = Cause(topic, self.ctx.partition, offset)
                self._one(event, value)
                self.positions[topic] = offset + 1
                self.inputs += 1
        end = self.log.bounds(Topic.FETCH_RESULTS, self.ctx.partition)[1]
        self.results_wait = self.positions.get(Topic.FETCH_RESULTS, 0) < end

    def _one(self, event: Event | None, value: bytes) -> None:
        poison = (
            Poison(self.ctx.cause, hashlib.blake2b(value, digest_size=16).digest()) if self.poison else None
        )
        known = self.poison.get(poison) if poison is not None else None
        if known is not None:
            self.take([reject(self.ctx, "", Reason.UNDECODABLE, known, value)])
            return
        try:
            found = event if event is not None else read_input(self.ctx.cause.topic, value)
            check_topic(self.ctx.cause.topic, found)
        except (Undecodable, control.BadControl) as exc:
            reason = Reason.BAD_CONTROL if isinstance(exc, control.BadControl) else Reason.UNDECODABLE
            self.take([reject(self.ctx, "", reason, str(exc), value)])
            return
        try:
            self.take(machine.decide(self.tables, found, self.ctx))
        except (FrontlogError, MemoryError, OSError):
            raise
        except Exception as exc:  # a bug that one input triggers must not stop every other input
            raise Poisoned(
                Poison(self.ctx.cause, hashlib.blake2b(value, digest_size=16).digest()), exc
            ) from exc

    def _waiting(self, topic: Topic) -> Iterator[tuple[int, Event | None, bytes]]:
        """Inputs from the position on: those of this batch from memory, older and foreign ones from the log."""
        at = self.positions.get(topic, 0)
        base, group = self.offered.get(topic, (-1, ()))
        end = base if base >= 0 else self.log.bounds(topic, self.ctx.partition)[1]
        taken = 0
        while at < end and taken < INPUTS_MAX:
            for record in self.log.read(topic, self.ctx.partition, at, records_max=INPUTS_MAX - taken):
                if record.offset >= end:
                    break
                yield record.offset, None, record.value
                taken += 1
                at = record.offset + 1
        if at < end:
            self.more = True
            return
        for i, one in enumerate(group):
            if taken >= INPUTS_MAX:
                self.more = True
                return
            yield base + i, one.event, one.value
            taken += 1

    def take_timers(self) -> None:
        """Leases that ran out, then one step of each job."""
        if self.role is Role.FRONTIER and len(self.decisions) < DECISIONS_MAX:
            if not self.results_wait:
                self.take(partition.expire_all(self.tables, self.ctx), bounded=True)
            self.take(jobs.step_all(self.tables, self.ctx), bounded=True)
        if self.role is Role.FRONTIER:  # a full batch leaves its jobs for the next
            self.more = self.more or bool(jobs.pending(self.tables))

    def take_claims(self, wanted: int) -> None:
        """Give out up to `wanted` slots."""
        if self.role is Role.FRONTIER:
            hosts.settle(self.tables)
            if (
                wanted > 0
                and not partition.claims_paused(self.tables)
                and len(self.decisions) < DECISIONS_MAX
            ):
                self.take(claims.claim_all(self.tables, self.ctx, wanted), bounded=True)
                hosts.settle(self.tables)

    def finish(self, wanted: int) -> Done:
        """End the batch: write the log, the tables and the head. With nothing to say, nothing is written."""
        if not self.decisions and self.positions == self.before.positions and not self.offered:
            return Done(None, [], [], 0, 0, 0, False, self._next_ready())
        values, listed = fold.digests_of(self.tables)
        batch = Batch(
            seq=self.ctx.next_seq(),
            owner_token=self.ctx.owner_token,
            first_seq=self.before.seq + 1,
            at_ms=self.ctx.now_ms,
            positions=fold.positions_of(self.before.positions, self.positions),
            claims_wanted=wanted,
            settings_version=self.tables.crawl.settings_seq,
            digests=listed,
            log_hash=fold.chain_hash(self.before.log_hash, (body_of(data) for _, data in self.decisions)),
        )
        written = self._write(batch)
        head = fold.following(self.tables.head, batch, written, values)
        return Done(
            head, self.leases, [event for event, _ in self.decisions], len(self.outputs), self.rejects, self.inputs,
            self.more, self._next_ready(), self.outbox,
        )  # fmt: skip

    def _write(self, batch: Batch) -> dict[str, int]:
        """Append decisions, outputs and the outbox; the next offset of each decision topic written."""
        by_topic: dict[str, list[NewRecord]] = {}
        for event, data in (*self.decisions, (batch, encode(batch))):
            record = NewRecord(self.ctx.now_ms, record_key(event, self.ctx.partition), data)
            by_topic.setdefault(TOPIC_OF[type(event)], []).append(record)
        written: dict[str, int] = {}
        for topic, records in by_topic.items():
            written[topic] = self.log.append(topic, self.ctx.partition, records) + len(records)
        others: dict[str, list[NewRecord]] = {}
        for topic, record in self.outputs:
            others.setdefault(topic, []).append(record)
        for topic, records in others.items():
            self.log.append(topic, self.ctx.partition, records)
        if self.emissions:
            records = [packed(emission, self.ctx.now_ms) for emission in self.emissions]
            base = self.log.append(OUTBOX, self.ctx.partition, records)
            self.outbox = list(map(Outgoing, count(base), self.emissions, records))
        return written

    def _next_ready(self) -> int | None:
        waits = self.role is Role.FRONTIER and not partition.claims_paused(self.tables)
        first = self.tables.ready.first() if waits else None
        return int.from_bytes(first[0][:8], "big") if first else None


def check_topic(topic: str, event: Event) -> None:
    """Refuse what is no input of its topic: decisions of another role would not be found again. Raises Undecodable."""
    if not isinstance(event, INPUTS[topic]):
        wanted = " or ".join(kind.__name__ for kind in INPUTS[topic])
        raise Undecodable(f"a {type(event).__name__} on topic {topic}, which holds {wanted}")


def read_input(topic: str, value: bytes) -> Event:
    """The input of a record; control may be JSON. Raises Undecodable or BadControl."""
    if topic == Topic.CONTROL.value and value[:1] == b"{":
        return control.from_json(value)
    return decode(value)


def record_key(event: Event, partition_number: int) -> bytes:
    """The key of a decision's record (DESIGN §2)."""
    if isinstance(event, (Transition, RobotsPolicy, UrlRule, UrlEvidence, Signal)):
        return event.origin_key.encode()
    if isinstance(event, HostTransition):
        return event.host.encode()
    if isinstance(event, SiteLinked):
        return f"site:{event.site}".encode()
    if isinstance(event, OperatorPolicy):
        return f"{event.scope_kind.value}:{event.scope}".encode()
    if isinstance(event, Document):
        return event.content_hash.hex().encode()
    return str(partition_number).encode()


def packed(emission: Emission, now_ms: int) -> NewRecord:
    """An emission as a record of the outbox: its target in a header, key and value as they will be there."""
    target = f"{emission.topic.value}/{emission.partition}".encode()
    return NewRecord(now_ms, emission.key.encode(), encode(emission.event), (("to", target),))
