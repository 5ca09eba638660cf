"""Checks of inputs: every decision has a cause, every input was decided once, none was lost, refusals name real records.

Identities of links are worked out by the code of the crawl itself (`processors/canonical.py`): whether it merges what it
should is not verified here. Nor is that an input reached another partition which it was passed on to.
"""

from typing import ClassVar
from urllib.parse import urlsplit

import msgspec

from frontlog.avro.enums import FetchKind, ScopeKind, Topic
from frontlog.avro.events import (
    Control,
    Discovery,
    ErrandRequest,
    Event,
    FetchResult,
    HostTransition,
    RobotsPolicy,
    Transition,
)
from frontlog.processors import canonical
from frontlog.replay.checks_log import BOTH
from frontlog.replay.ledger import Decision, Input, Taken
from frontlog.replay.routing import host_of, partition_of
from frontlog.replay.watch import Scene, Watch
from frontlog.streams.topics import Role

_INTERNAL = frozenset({"start", "timer", "claim"})
_ORDER = ("start", *(t.value for t in (Topic.CONTROL, Topic.FETCH_RESULTS, Topic.CONTENT_VERDICTS)))
_RANK = {
    name: n
    for n, name in enumerate((*_ORDER, Topic.DISCOVERIES.value, Topic.CANDIDATES.value, "timer", "claim"))
}
_ACTS = frozenset({"pause", "resume", "block", "unblock", "slow"})
"""Acts that always lead to a decision; one on a rule that holds already leads to none."""


class Causes(Watch):
    """From decisions back to inputs."""

    name = "causes"
    doc = "each decision's cause is an input of its batch; batches take inputs one after the other, each once, in order"
    roles: ClassVar[tuple[Role, ...]] = BOTH

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._positions: dict[str, int] = {}
        self._at = (0, -1)

    def opened(self, batch: Taken) -> None:
        self._at = (0, -1)
        for position in batch.batch.positions:
            before = self._positions.get(position.topic, 0)
            start, stop = position.from_offset, position.to_offset
            if start != before or stop < start:
                self.fault(batch.place, f"takes {position.topic} from {start} to {stop}; {before} was next")
            held = len(batch.inputs.get(position.topic, ()))
            if held + batch.holes.get(position.topic, 0) != stop - start:
                self.fault(
                    batch.place,
                    f"takes {position.topic} from {start} to {stop}; the log holds {held} of them",
                )
            self._positions[position.topic] = stop

    def decided(self, decision: Decision, event: Event) -> None:
        topic: str = getattr(event, "cause_topic", "")
        if not topic:
            return
        self.examined += 1
        offset, partition = int(getattr(event, "cause_offset", -1)), getattr(event, "cause_partition", -1)
        if topic in _INTERNAL:
            if offset != -1:
                self.fault(decision, f"caused by {topic}, which has no offset {offset}")
        elif partition != self.scene.partition or (topic, offset) not in self.scene.inputs:
            self.fault(decision, f"its cause {topic}/{partition}/{offset} is no input of its batch")
        place = (_RANK.get(topic, -1), offset)
        if place < self._at:
            self.fault(decision, f"its cause {topic}/{partition}/{offset} was decided after a later one")
        self._at = place


class Lost(Watch):
    """From inputs forward to what came of them."""

    name = "lost"
    doc = "each input had its consequence: a decision, a refusal, or links that were known already"

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._caused: set[tuple[str, int]] = set()

    def opened(self, batch: Taken) -> None:
        self._caused = set()

    def decided(self, decision: Decision, event: Event) -> None:
        offset = int(getattr(event, "cause_offset", -1))
        if offset >= 0:
            self._caused.add((str(getattr(event, "cause_topic", "")), offset))

    def closed(self, batch: Taken) -> None:
        for (topic, offset), one in self.scene.inputs.items():
            self.examined += 1
            if (topic, offset) in self.scene.rejects:
                continue
            lost = self._missing(one, caused=(topic, offset) in self._caused)
            if lost:
                self.fault(batch.place, lost, where=f"{topic}/{self.scene.partition}/{offset}")

    def _missing(self, one: Input, *, caused: bool) -> str:
        """What did not come of an input; empty: nothing is missing."""
        event = one.event
        if isinstance(event, Discovery):
            return self._links(event)
        if caused:
            return ""
        if isinstance(event, Control) or (event is None and one.topic == Topic.CONTROL.value):
            return self._act(event, one.value)
        if event is None:
            return "can't be decoded, and no record on rejects says so"
        if isinstance(event, FetchResult):
            return self._result(event)
        if isinstance(event, ErrandRequest):
            host = urlsplit(event.url).hostname or ""
            return "" if self._elsewhere(host) else f"nobody was asked for {event.url}"
        return ""

    def _elsewhere(self, host: str) -> bool:
        """Whether an input about a host is for another partition, so that it was passed on."""
        return partition_of(host, self.scene.partitions) != self.scene.partition

    def _result(self, event: FetchResult) -> str:
        if event.kind is FetchKind.PAGE:
            passed_on = self._elsewhere(host_of(event.origin_key))
        elif event.fence:
            passed_on = self._elsewhere(event.host)
        else:  # an answer from another partition; one that is older than what is in force says nothing
            newer = event.started_ms > self.book.origin(event.origin_key).fetched_ms
            passed_on = event.asker != self.scene.partition or not newer
        return "" if passed_on else f"the result of {event.requested} (fence {event.fence}) was not decided"

    def _links(self, event: Discovery) -> str:
        if self._elsewhere(host_of(event.origin_key)):
            return ""
        for url in event.urls:
            if url in self.book.urls:
                continue
            found = canonical.canonicalize(url)
            if isinstance(found, canonical.Refused):
                return f"{url[:200]} was not refused, and can't be known ({found.reason.value})"
            if found.origin_key == event.origin_key and found.identity not in self.book.urls:
                return f"{found.identity} did not become known"
        return ""

    def _act(self, event: Control | None, value: bytes) -> str:
        """An operator's act that did not come into force."""
        cmd, kind, target = (event.cmd, event.target_kind.value, event.target) if event else _wish(value)
        if cmd not in _ACTS or not self._concerns(kind, target.lower()):
            return ""
        return f"{cmd} of {kind} {target} was neither followed nor refused"

    def _concerns(self, kind: str, target: str) -> bool:
        if kind == ScopeKind.CRAWL.value:
            return True
        if kind == ScopeKind.PARTITION.value:
            return target.lstrip("0") == str(self.scene.partition).lstrip("0")
        # An operator's spelling isn't that of the log, and what can't be read had to be refused here.
        found = canonical.canonicalize(target if kind == ScopeKind.ORIGIN.value else f"http://{target}/")
        return isinstance(found, canonical.Refused) or not self._elsewhere(found.host)


class _Wish(msgspec.Struct):
    """A control record in JSON, as far as it says what is to be done to what."""

    cmd: str = ""
    target: dict[str, str | int] = {}


def _wish(value: bytes) -> tuple[str, str, str]:
    """(cmd, kind of target, target) of a control record in JSON; empty when it is none."""
    try:
        said = msgspec.json.decode(value, type=_Wish)
    except msgspec.MsgspecError:
        return "", "", ""
    kind, name = next(iter(said.target.items()), ("crawl", ""))
    return said.cmd, kind, str(name)


class Rejects(Watch):
    """Refusals."""

    name = "rejects"
    doc = "each refusal names an input that was decided, and holds its bytes"
    roles: ClassVar[tuple[Role, ...]] = BOTH

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._seen: set[tuple[str, int]] = set()

    def closed(self, batch: Taken) -> None:
        for place in self.scene.inputs.keys() & self.scene.rejects.keys():
            self._seen.add(place)
            one = self.scene.inputs[place]
            for refused in self.scene.rejects[place]:
                self.examined += 1
                said = refused.event
                if said.partition != self.scene.partition:
                    self._fault(refused.offset, f"names partition {said.partition}")
                if said.value and one.value[:1] != b"{" and not one.value.startswith(said.value):
                    self._fault(
                        refused.offset, f"holds other bytes than {said.topic}/{said.partition}/{said.offset}"
                    )

    def ended(self) -> None:
        for place in self.scene.rejects.keys() - self._seen:
            topic, offset = place
            for refused in self.scene.rejects[place]:
                self._fault(
                    refused.offset, f"names {topic}/{self.scene.partition}/{offset}, which was never decided"
                )

    def _fault(self, offset: int, what: str) -> None:
        self.fault(None, what, where=f"{Topic.REJECTS.value}/{self.scene.partition}/{offset}")


class Routing(Watch):
    """Who decides about what."""

    name = "routing"
    doc = "each decision is about a site that this partition owns"

    def moved(self, decision: Decision, event: Transition) -> None:
        self._owned(decision, host_of(event.origin_key))

    def host_moved(self, decision: Decision, event: HostTransition) -> None:
        self._owned(decision, event.host)

    def robots(self, decision: Decision, event: RobotsPolicy) -> None:
        self._owned(decision, host_of(event.origin_key))

    def _owned(self, decision: Decision, host: str) -> None:
        self.examined += 1
        owner = partition_of(host, self.scene.partitions)
        if owner != self.scene.partition:
            self.fault(decision, f"{host} belongs to partition {owner}")


CHECKS: tuple[type[Watch], ...] = (Causes, Lost, Rejects, Routing)
