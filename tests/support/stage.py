"""One check of `verify` on a stage of its own, and the decisions that it is shown most often."""

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from frontlog.avro.enums import (
    FetchKind,
    HostEvent,
    PolicyAct,
    Reason,
    RobotsState,
    ScopeKind,
    SourceKind,
    State,
    Topic,
)
from frontlog.avro.events import (
    Batch,
    Errand,
    Event,
    FetchResult,
    FirstSeen,
    HostClock,
    HostTransition,
    OperatorPolicy,
    OwnershipTaken,
    RobotsPolicy,
    Transition,
)
from frontlog.processors.settings import Settings, encode
from frontlog.replay.ledger import Decision, Input, Taken
from frontlog.replay.watch import Scene, Watch
from frontlog.streams.topics import Role

HOST, ORIGIN, URL = "a.example", "http://a.example:80", "http://a.example/1"
ADDRESS = "198.51.100.1"
NOW_MS = 1_000_000
CLOCK = HostClock(address=ADDRESS, address_expires_ms=10 * NOW_MS, address_reason=Reason.OK)
FIRST = FirstSeen(source_kind=SourceKind.PAGE)
SEEN = Transition(
    seq=1, origin_key=ORIGIN, url=URL, from_state=State.DISCOVERED, to_state=State.ELIGIBLE, reason=Reason.ADMITTED,
    first=FIRST, cause_topic="start", cause_offset=-1,
)  # fmt: skip
CLAIM = replace(
    SEEN, from_state=State.ELIGIBLE, to_state=State.LEASED, reason=Reason.CLAIMED, first=None, fence=1,
    clock=CLOCK,
    deadline_ms=NOW_MS + 90_000, cause_topic="claim",
)  # fmt: skip
FETCHED = replace(
    CLAIM, from_state=State.LEASED, to_state=State.FETCHED, reason=Reason.OK, deadline_ms=0,
    cause_topic=Topic.FETCH_RESULTS.value, cause_offset=7,
)  # fmt: skip
RESULT = FetchResult(
    kind=FetchKind.PAGE, origin_key=ORIGIN, host=HOST, url=URL, requested=URL, fence=1, reason=Reason.OK, status=200,
    started_ms=NOW_MS, ended_ms=NOW_MS, address=ADDRESS,
)  # fmt: skip
ROBOTS = RobotsPolicy(
    seq=2, origin_key=ORIGIN, state=RobotsState.ALLOW_ALL, reason=Reason.OK, expires_ms=10 * NOW_MS, cause_topic="start",
    cause_offset=-1,
)  # fmt: skip
LOOKED_UP = HostTransition(
    seq=3,
    host=HOST,
    event=HostEvent.ERRAND_ENDED,
    reason=Reason.OK,
    clock=CLOCK,
    cause_topic="start",
    cause_offset=-1,
)
ERRAND = Errand(
    kind=FetchKind.ROBOTS,
    url="http://a.example/robots.txt",
    origin_key=ORIGIN,
    fence=1,
    deadline_ms=NOW_MS + 90_000,
)
ASKED = replace(
    LOOKED_UP, event=HostEvent.ERRAND_LEASED, reason=Reason.CLAIMED, clock=replace(CLOCK, fence=1, errand=ERRAND),
    cause_topic="claim",
)  # fmt: skip


class Stage:
    """One check, its book, and the batches that it is shown."""

    def __init__(self, check: type[Watch]) -> None:
        self.scene = Scene("frontier-0", Role.FRONTIER, 0, 1, at_ms=NOW_MS)
        self.watch = check(self.scene)
        self.seq = 0
        self.hooks: dict[type[Event], Callable[..., None]] = {
            Transition: self.watch.moved,
            HostTransition: self.watch.host_moved,
            RobotsPolicy: self.watch.robots,
            OperatorPolicy: self.watch.operator,
            OwnershipTaken: self.watch.taken,
        }

    def show(self, *events: Event, inputs: tuple[Event, ...] = (), at_ms: int = 0, **batch: Any) -> list[str]:
        """Show a batch; what the check has written down by then. Inputs are fetch-results from offset 7 on."""
        self.scene.at_ms = at_ms or self.scene.at_ms
        given = [Input(Topic.FETCH_RESULTS.value, 7 + n, 0, b"", event) for n, event in enumerate(inputs)]
        self.scene.inputs = {(one.topic, one.offset): one for one in given}
        first = self.seq + 1
        decisions: list[Decision] = []
        for event in events:
            self.seq += 1
            decisions.append(Decision(self.seq, "transitions", self.seq, self.scene.at_ms, event, b""))
        self.seq += 1
        facts: dict[str, Any] = {"seq": self.seq, "first_seq": first, "at_ms": self.scene.at_ms, **batch}
        end = Decision(self.seq, "ownership", self.seq, self.scene.at_ms, Batch(**facts), b"")
        taken = Taken(decisions, Batch(**facts), end, {Topic.FETCH_RESULTS.value: given}, {})
        self.watch.opened(taken)
        for decision in decisions:
            self.watch.decided(decision, decision.event)
            if type(decision.event) in self.hooks:
                self.hooks[type(decision.event)](decision, decision.event)
            self.scene.book.take(decision.event, self.scene.at_ms)
        self.watch.closed(taken)
        return [problem.what for problem in self.watch.problems]


def settings(**changes: Any) -> OperatorPolicy:
    text = encode(Settings(**changes))
    return OperatorPolicy(seq=1, scope_kind=ScopeKind.CRAWL, act=PolicyAct.SETTINGS, settings=text)


def act(kind: ScopeKind, scope: str, what: PolicyAct, gap_ms: int = 0) -> OperatorPolicy:
    return OperatorPolicy(seq=9, scope_kind=kind, scope=scope, act=what, gap_ms=gap_ms)
