"""What a check of `verify` is: a rule with a name and a sentence, shown every decision, that writes down what breaks it.

A check overrides the hooks that it needs; only those are called. It is shown a decision before the book takes it, and a
batch before and after its decisions. It never changes the book.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from frontlog.avro.events import (
    Document,
    Event,
    HostTransition,
    OperatorPolicy,
    OwnershipTaken,
    Reject,
    RobotsPolicy,
    Transition,
)
from frontlog.replay.book import Book
from frontlog.replay.ledger import Decision, Input, Taken
from frontlog.replay.shapes import Check, Problem
from frontlog.streams.topics import Role

KEPT_MAX = 20
"""Problems of a check that are kept in words; all are counted."""


class Refused(NamedTuple):
    """A record on `rejects`: where it lies, and what it says."""

    offset: int
    event: Reject


class Output(NamedTuple):
    """A record of an output topic."""

    offset: int
    at_ms: int
    event: Event


def _none() -> Iterator[Output]:
    return iter(())


@dataclass(slots=True)
class Scene:
    """What is looked at: a shard, its book, the batch under way."""

    shard: str
    role: Role
    partition: int
    partitions: int
    book: Book = field(default_factory=Book)
    at_ms: int = 0
    inputs: dict[tuple[str, int], Input] = field(default_factory=dict[tuple[str, int], Input])
    """The inputs of the batch under way, by topic and offset."""
    rejects: dict[tuple[str, int], list[Refused]] = field(
        default_factory=dict[tuple[str, int], list[Refused]]
    )
    """What was refused, by topic and offset of the input."""
    fetched: Callable[[], Iterator[Output]] = _none
    """The records of crawl.fetched, from the first."""
    removed: dict[str, Output] = field(default_factory=dict[str, Output])
    """The records of crawl.removed, by event id."""
    archive: tuple[Path, ...] = ()
    """Folders in which body references may lie."""


class Watch:
    """Root of all checks."""

    name: ClassVar[str] = ""
    doc: ClassVar[str] = ""
    roles: ClassVar[tuple[Role, ...]] = (Role.FRONTIER,)

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.book = scene.book
        self.examined = 0
        self.count = 0
        self.problems: list[Problem] = []

    def fault(self, decision: Decision | None, what: str, *, where: str = "") -> None:
        """Write a problem down."""
        self.count += 1
        if len(self.problems) >= KEPT_MAX:
            return
        scene = self.scene
        seq = decision.seq if decision is not None else 0
        if decision is not None and not where:
            where = f"{decision.topic}/{scene.partition}/{decision.offset}"
        at = f"{scene.shard} seq {seq}" if seq else scene.shard
        self.problems.append(Problem(f"{at}, {where}" if where else at, what, scene.shard, seq))

    def result(self) -> Check:
        return Check(self.name, self.doc, self.examined, self.count, tuple(self.problems))

    # --- hooks ------------------------------------------------------------------------------------------------

    def opened(self, batch: Taken) -> None:
        """A batch begins."""

    def decided(self, decision: Decision, event: Event) -> None:
        """Any decision."""

    def moved(self, decision: Decision, event: Transition) -> None:
        """A URL moved."""

    def host_moved(self, decision: Decision, event: HostTransition) -> None:
        """A host's clock moved."""

    def robots(self, decision: Decision, event: RobotsPolicy) -> None:
        """A robots policy, or its renewal."""

    def operator(self, decision: Decision, event: OperatorPolicy) -> None:
        """An operator's policy, or settings."""

    def taken(self, decision: Decision, event: OwnershipTaken) -> None:
        """A new owner."""

    def document(self, decision: Decision, event: Document) -> None:
        """A decision of content."""

    def closed(self, batch: Taken) -> None:
        """A batch ended; the book has taken all of it."""

    def ended(self) -> None:
        """The log ended."""


_HOOKS: dict[type[Event], str] = {
    Transition: "moved",
    HostTransition: "host_moved",
    RobotsPolicy: "robots",
    OperatorPolicy: "operator",
    OwnershipTaken: "taken",
    Document: "document",
}
Hook = Callable[..., None]


class Audience:
    """The checks of a shard and which of them wants to see what."""

    def __init__(self, scene: Scene, checks: Iterable[type[Watch]]) -> None:
        self.scene = scene
        self.watches = [check(scene) for check in checks if scene.role in check.roles]
        self._any = self._wanting("decided")
        self._kinds = {kind: self._any + self._wanting(name) for kind, name in _HOOKS.items()}
        self._opened, self._closed = self._wanting("opened"), self._wanting("closed")

    def _wanting(self, hook: str) -> list[Hook]:
        base: Any = getattr(Watch, hook)
        return [getattr(w, hook) for w in self.watches if getattr(type(w), hook) is not base]

    def show(self, batch: Taken) -> None:
        """Show a batch to the checks and write it into the book."""
        scene = self.scene
        scene.at_ms = batch.batch.at_ms
        scene.inputs = {(one.topic, one.offset): one for group in batch.inputs.values() for one in group}
        for hook in self._opened:
            hook(batch)
        book, at_ms = scene.book, scene.at_ms
        for decision in batch.decisions:
            for hook in self._kinds.get(type(decision.event), self._any):
                hook(decision, decision.event)
            book.take(decision.event, at_ms)
        for hook in self._closed:
            hook(batch)

    def end(self) -> None:
        for watch in self.watches:
            watch.ended()
