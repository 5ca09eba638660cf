"""What the log says, read record by record as it is committed, into a model of our own that shares no code with the fold.

Invariants (`invariants.py`) look at a decision beside the model as it stood before, and at the servers' record.
"""

from collections import defaultdict
from dataclasses import dataclass, field
from typing import NamedTuple

from frontlog.avro.codec import decode
from frontlog.avro.enums import FetchKind, HostEvent, PolicyAct, Reason, RobotsState, ScopeKind, State, Topic
from frontlog.avro.events import (
    Batch,
    ContentVerdict,
    Discovery,
    Document,
    Event,
    Fetched,
    FetchResult,
    HostClock,
    HostTransition,
    OperatorPolicy,
    OwnershipTaken,
    PartitionPaused,
    Removed,
    RobotsPolicy,
    Transition,
)
from frontlog.state.store import Store
from frontlog.streams.embedded_log import EmbeddedLog
from frontlog.streams.records import Record
from frontlog.streams.topics import OUTBOX, TOPIC_IDS, Role
from simulation.web import split_origin

DECISIONS = (Topic.TRANSITIONS, Topic.POLICIES, Topic.OWNERSHIP, Topic.DOCUMENTS)
INPUTS = (
    Topic.DISCOVERIES, Topic.FETCH_RESULTS, Topic.CONTROL, Topic.CANDIDATES, Topic.CONTENT_VERDICTS,
)  # fmt: skip
FRONTIER_TOPICS = (
    *INPUTS[:3], Topic.CONTENT_VERDICTS, OUTBOX, Topic.FETCHED, Topic.REMOVED, Topic.REJECTS, *DECISIONS[:3],
)  # fmt: skip
CONTENT_TOPICS = (Topic.CANDIDATES, OUTBOX, Topic.REJECTS, Topic.OWNERSHIP, Topic.DOCUMENTS)
NOT_OURS = frozenset({
    Reason.TOO_MANY_REQUESTS, Reason.UNAVAILABLE, Reason.DNS_FAILED, Reason.WORKER_LOST, Reason.STORE_FULL, Reason.NO_ROUTE,
})  # fmt: skip
"""Failures that don't count towards the five of a URL (DESIGN §5)."""


def identity_of(href: str) -> str:
    """The identity of an href of the synthetic web, whose URLs have no other equal spellings."""
    return href.partition("#")[0].replace("%7E", "~").removesuffix("?")


@dataclass
class UrlNote:
    """A URL as the log tells it. `tries`: leases that used up an attempt since it last began anew."""

    origin_key: str
    depth: int
    state: State = State.DISCOVERED
    reason: Reason = Reason.OK
    fence: int = 0
    deadline_ms: int = 0
    tries: int = 0
    failures: int = 0
    due_ms: int = 0
    detail: str = ""
    requested: str = ""


@dataclass
class Belief:
    """What the log says of an origin's robots.txt. `text` None: it allows everything."""

    state: RobotsState = RobotsState.UNKNOWN
    text: bytes | None = None
    expires_ms: int = 0
    copy_until_ms: int = 0
    had: bool = False


class LeaseNote(NamedTuple):
    """A lease that the log has given and not taken back."""

    attempt: str
    kind: FetchKind
    host: str
    url: str
    origin_key: str
    address: str
    deadline_ms: int
    fence: int


@dataclass
class ShardNote:
    """A shard as its log tells it; `read`: the next offset of each topic."""

    name: str
    role: Role
    partition: int
    seq: int = 0
    token: int = 0
    at_ms: int = 0
    read: dict[str, int] = field(default_factory=dict[str, int])
    positions: dict[str, int] = field(default_factory=dict[str, int])
    results: dict[int, FetchResult] = field(default_factory=dict[int, FetchResult])
    verdicts: dict[int, ContentVerdict] = field(default_factory=dict[int, ContentVerdict])
    paused: bool = False
    blocks: dict[tuple[ScopeKind, str], PolicyAct] = field(
        default_factory=dict[tuple[ScopeKind, str], PolicyAct]
    )
    pauses: dict[tuple[ScopeKind, str], PolicyAct] = field(
        default_factory=dict[tuple[ScopeKind, str], PolicyAct]
    )
    gaps: dict[str, int] = field(default_factory=dict[str, int])
    clocks: dict[str, HostClock] = field(default_factory=dict[str, HostClock])


class Commit(NamedTuple):
    """What one commit added to a shard's log. Decisions are in seq order, the Batch apart."""

    shard: ShardNote
    inputs: list[tuple[str, int, Event | None]]
    decisions: list[Event]
    batch: Batch | None
    outputs: list[Event]
    undecodable: int


class Ledger:
    """The model."""

    def __init__(self) -> None:
        self.shards: dict[str, ShardNote] = {}
        self.urls: dict[str, UrlNote] = {}
        self.beliefs: dict[str, Belief] = defaultdict(Belief)
        self.leases: dict[str, LeaseNote] = {}
        self.lease_of_host: dict[str, str] = {}
        self.every_lease: dict[str, LeaseNote] = {}
        self.accepted: dict[str, FetchResult] = {}
        """Attempt → its result, where that was decided and counted."""
        self.discovered: dict[str, int] = {}
        """Identities that stand on `discoveries` of any partition, with the least depth."""
        self.documents: set[str] = set()
        self.fetched: set[str] = set()
        self.withheld: set[str] = set()
        self.given_out: dict[str, bool] = {}
        """URL → whether the last that others were told is that it is there."""
        self.seeded_hosts: set[str] = set()
        self.commits = self.decisions = self.inputs = 0

    def shard(self, name: str, role: Role, partition: int) -> ShardNote:
        if name not in self.shards:
            self.shards[name] = ShardNote(name, role, partition)
        return self.shards[name]

    # --- reading ----------------------------------------------------------------------------------------------

    def read(self, shard: ShardNote, store: Store) -> Commit:
        """What is new in a shard's log; inputs and outputs are noted, decisions are not applied yet."""
        inputs: list[tuple[str, int, Event | None]] = []
        decided: list[Event] = []
        outputs: list[Event] = []
        undecodable = 0
        with store.begin() as txn:
            log = EmbeddedLog(store, TOPIC_IDS).within(txn)
            for topic in FRONTIER_TOPICS if shard.role is Role.FRONTIER else CONTENT_TOPICS:
                first, end = log.bounds(topic, shard.partition)
                at = max(first, shard.read.get(topic, 0))
                while at < end:
                    for record in log.read(topic, shard.partition, at):
                        at = record.offset + 1
                        event = _event(record)
                        undecodable += event is None
                        if topic in INPUTS:
                            inputs.append((topic, record.offset, event))
                        elif topic in DECISIONS and event is not None:
                            decided.append(event)
                        elif event is not None and topic != OUTBOX:
                            outputs.append(event)
                shard.read[topic] = end
        for topic, offset, event in inputs:
            self._input(shard, topic, offset, event)
        decided.sort(key=seq_of)
        batch = decided.pop() if decided else None
        assert batch is None or isinstance(batch, Batch), f"{shard.name}: a commit ends with {batch}"
        self.commits += 1
        return Commit(shard, inputs, decided, batch, outputs, undecodable)

    def _input(self, shard: ShardNote, topic: str, offset: int, event: Event | None) -> None:
        self.inputs += 1
        if isinstance(event, FetchResult):
            shard.results[offset] = event
        elif isinstance(event, ContentVerdict):
            shard.verdicts[offset] = event
        elif isinstance(event, Discovery):
            for url in event.urls:
                identity = identity_of(url)
                self.discovered[identity] = min(event.depth, self.discovered.get(identity, event.depth))

    def result_of(
        self, shard: ShardNote, event: Transition | HostTransition | RobotsPolicy
    ) -> FetchResult | None:
        """The result that caused a decision."""
        if event.cause_topic != str(Topic.FETCH_RESULTS):
            return None
        return shard.results.get(event.cause_offset)

    # --- applying ---------------------------------------------------------------------------------------------

    def apply(self, shard: ShardNote, event: Event, at_ms: int) -> None:
        """Take a decision in."""
        self.decisions += 1
        if isinstance(event, Transition):
            self._transition(shard, event, at_ms)
        elif isinstance(event, HostTransition):
            self._host(shard, event)
        elif isinstance(event, RobotsPolicy):
            self._robots(event)
        elif isinstance(event, OperatorPolicy):
            self._operator(shard, event)
        elif isinstance(event, PartitionPaused):
            shard.paused = event.paused
        elif isinstance(event, Document):
            self.documents.add(event.event_id)
        elif isinstance(event, OwnershipTaken):
            shard.token = event.owner_token

    def _transition(self, shard: ShardNote, event: Transition, at_ms: int) -> None:
        note = self.urls.setdefault(event.url, UrlNote(event.origin_key, event.depth))
        note.depth = min(note.depth, event.depth)  # a shorter way may be found later
        host = split_origin(event.origin_key)[1]
        if event.first is not None and event.from_state is State.DISCOVERED:
            note.requested = event.first.requested or event.url
        if event.first is not None and event.first.scope is not None:
            self.seeded_hosts.add(host)
        if note.state is State.LEASED and event.to_state is not State.LEASED:
            result = self.result_of(shard, event)
            tried = event.to_state is not State.ELIGIBLE or event.reason in (
                Reason.LEASE_EXPIRED,
                Reason.REDIRECTED,
            )
            tried = tried or event.cause_topic in ("start", "timer")
            note.tries += tried
            if result is not None:
                self.accepted[result.event_id] = result
                own = (
                    event.to_state in (State.DEFERRED, State.QUARANTINED)
                    and _reason_of(result) not in NOT_OURS
                )
                note.failures += own
            if event.cause_topic != "claim":
                self._give_back(host)
        anew = (
            event.to_state is State.ELIGIBLE and event.from_state is not State.LEASED and not event.attempts
        )
        if event.to_state is State.FETCHED or anew:
            note.tries = note.failures = 0
        if event.to_state is State.LEASED and event.from_state is State.ELIGIBLE and event.clock is not None:
            attempt = f"{shard.partition}-{event.owner_token}-{event.fence} {event.url}"
            page, address = FetchKind.PAGE, event.clock.address
            self._lease(
                LeaseNote(
                    attempt, page, host, event.url, event.origin_key, address, event.deadline_ms, event.fence
                )
            )
        elif event.to_state is State.LEASED and event.from_state is State.LEASED:
            attempt = self.lease_of_host[host]
            self._lease(self.leases[attempt]._replace(deadline_ms=event.deadline_ms))
        note.state, note.reason, note.fence, note.detail = (
            event.to_state,
            event.reason,
            event.fence,
            event.detail,
        )
        note.deadline_ms, note.due_ms = event.deadline_ms, event.due_ms
        if (
            event.reason is Reason.REDIRECTED
            and event.to_state is State.ELIGIBLE
            and event.result is not None
        ):
            note.requested = event.result.location
        if event.clock is not None:
            shard.clocks[host] = event.clock

    def _host(self, shard: ShardNote, event: HostTransition) -> None:
        errand = event.errand
        if event.event is HostEvent.ERRAND_LEASED and errand is not None:
            attempt = f"{shard.partition}-{event.owner_token}-{errand.fence} {errand.kind.value} {event.host}"
            address = event.clock.address if errand.kind is not FetchKind.RESOLVE else ""
            self._lease(
                LeaseNote(
                    attempt,
                    errand.kind,
                    event.host,
                    errand.url,
                    errand.origin_key,
                    address,
                    errand.deadline_ms,
                    errand.fence,
                )
            )
        elif event.event in (HostEvent.ERRAND_ENDED, HostEvent.ERRAND_EXPIRED, HostEvent.ERRAND_RELEASED):
            result = self.result_of(shard, event)
            if result is not None:
                self.accepted[result.event_id] = result
            if event.cause_topic != "claim":  # a hop that was refused at its claim had no lease
                self._give_back(event.host)
        shard.clocks[event.host] = event.clock

    def _lease(self, lease: LeaseNote) -> None:
        self.leases[lease.attempt] = self.every_lease[lease.attempt] = lease
        self.lease_of_host[lease.host] = lease.attempt

    def _give_back(self, host: str) -> None:
        attempt = self.lease_of_host.pop(host, None)
        if attempt is not None:
            del self.leases[attempt]

    def _robots(self, event: RobotsPolicy) -> None:
        belief = self.beliefs[event.origin_key]
        if not event.renewal and event.state is not RobotsState.UNREACHABLE:
            belief.text = event.text if event.state is RobotsState.RULES else None
            belief.had = True
        belief.state, belief.expires_ms, belief.copy_until_ms = (
            event.state,
            event.expires_ms,
            event.copy_until_ms,
        )

    def _operator(self, shard: ShardNote, event: OperatorPolicy) -> None:
        scope = (event.scope_kind, event.scope)
        if event.act in (PolicyAct.BLOCK, PolicyAct.UNBLOCK):
            shard.blocks[scope] = event.act
        elif event.act in (PolicyAct.PAUSE, PolicyAct.RESUME):
            shard.pauses[scope] = event.act
        elif event.act is PolicyAct.SLOW:
            shard.gaps[event.scope] = event.gap_ms

    def note_outputs(self, outputs: list[Event]) -> None:
        for event in outputs:
            if isinstance(event, Fetched):
                self.fetched.add(event.event_id)
            if isinstance(event, Fetched | Removed):
                self.given_out[event.url] = isinstance(event, Fetched)

    def blocked(self, shard: ShardNote, origin_key: str, site: str) -> bool:
        """Whether an operator's block covers an origin."""
        return _covered(shard.blocks, PolicyAct.BLOCK, origin_key, site)

    def paused(self, shard: ShardNote, origin_key: str, site: str) -> bool:
        """Whether an operator's pause covers an origin."""
        return shard.paused or _covered(shard.pauses, PolicyAct.PAUSE, origin_key, site)


def _covered(
    acts: dict[tuple[ScopeKind, str], PolicyAct], act: PolicyAct, origin_key: str, site: str
) -> bool:
    host = split_origin(origin_key)[1]
    scopes = (
        (ScopeKind.CRAWL, ""),
        (ScopeKind.SITE, site),
        (ScopeKind.HOST, host),
        (ScopeKind.ORIGIN, origin_key),
    )
    return any(acts.get(scope) is act for scope in scopes)


def _reason_of(result: FetchResult) -> Reason:
    """Why a result is a failure, its status included."""
    if result.reason is not Reason.OK:
        return result.reason
    return {429: Reason.TOO_MANY_REQUESTS, 503: Reason.UNAVAILABLE}.get(result.status, Reason.SERVER_ERROR)


def seq_of(event: Event) -> int:
    """The seq of a decision; every one has it."""
    seq: int = getattr(event, "seq")  # noqa: B009
    return seq


def _event(record: Record) -> Event | None:
    """The event of a record; control written as JSON, and what is no event, is None."""
    if record.value[:1] == b"{":
        return None
    return decode(record.value)
