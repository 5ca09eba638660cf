"""The decisions of a shard as whole batches, in seq order, out of a log: for recovery, rebuild and verification.

A batch's decisions lie in several topics; they are merged by seq. A decision whose token is smaller than one
that was seen is void (its writer had been replaced) and is counted apart, before any other check.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, cast

from frontlog.avro.codec import Undecodable, UnknownSchema, decode
from frontlog.avro.errors import Corrupt, FrontlogError, Incompatible
from frontlog.avro.events import Batch, Event, OwnershipTaken
from frontlog.streams.log import Log
from frontlog.streams.records import Record
from frontlog.streams.topics import Role, decision_topics

NONE = 1 << 62
"""More than any seq or token."""
_ENDS = frozenset({Batch, OwnershipTaken})
"""Decisions that change what is to be taken."""


class Logged(NamedTuple):
    """One decision as it lies in the log."""

    topic: str
    record: Record
    event: Event


_logged: Callable[..., Logged] = cast("Any", tuple).__new__  # takes half as long as the class itself


class LoggedBatch(NamedTuple):
    """A whole batch: its decisions without the Batch event, the Batch event, and where the log goes on."""

    decisions: list[Logged]
    batch: Batch
    end: Logged
    written: dict[str, int]


class _Source:
    """One decision topic, looked at one record ahead. `seq` and `token` are those of that record; NONE: there is none."""

    __slots__ = ("_partition", "ahead", "next_offset", "records", "seq", "token", "topic")

    def __init__(self, log: Log, topic: str, partition: int, offset: int) -> None:
        self.topic = topic
        self._partition = partition
        self.records = log.scan(topic, partition, offset)
        self.next_offset = offset
        self.ahead: Logged | None = None
        self.seq = self.token = NONE
        self.advance()

    def advance(self) -> None:
        """Look at the next record."""
        self._look(NONE, NONE, [])

    def run(self, below: int, token: int) -> list[Logged]:
        """The decision ahead and those that follow on it number by number, below a seq, of no older owner than `token`: no
        other topic holds any of them."""
        assert self.ahead is not None
        taken = [self.ahead]
        if type(self.ahead.event) in _ENDS:
            below = 0
        self._look(below, token, taken)
        return taken

    def _look(self, below: int, token: int, taken: list[Logged]) -> None:
        """Read on: what follows on the decision ahead is taken, and what doesn't is ahead."""
        topic = self.topic
        found: Logged | None = None
        record: Record | None = None
        wanted = self.seq + 1
        number = owner = NONE
        try:
            for record in self.records:
                event = decode(record.value)
                decision: Any = event  # every decision has both
                number, owner = decision.seq, decision.owner_token
                found = _logged(Logged, (topic, record, event))
                if number != wanted or number >= below or owner < token:
                    break
                taken.append(found)
                wanted += 1
                if type(event) in _ENDS:
                    below = 0
            else:
                found, number, owner = None, NONE, NONE
        except (Undecodable, AttributeError) as exc:
            assert record is not None
            raise self._unreadable(record, exc) from exc
        last = taken[-1] if taken else self.ahead
        if last is not None:
            self.next_offset = last.record.offset + 1
        self.ahead, self.seq, self.token = found, number, owner

    def _unreadable(self, record: Record, exc: Exception) -> FrontlogError:
        """The error for a record that is no decision of ours: the log can't be folded without it."""
        where = f"{self.topic}/{self._partition} at offset {record.offset}"
        if isinstance(exc, UnknownSchema):
            return Incompatible(f"{where}: {exc}; this version cannot fold the log")
        what = exc if isinstance(exc, Undecodable) else "no decision, which has a seq and a token"
        return Corrupt(f"{where}: {what}; restore the log's folder from a copy")


class Playback:
    """Batches from a position on. `voided` counts decisions of owners that had been replaced. `following`: the log is
    being written, and a batch of which some topics show nothing yet ends the playback without a word."""

    def __init__(
        self,
        log: Log,
        role: Role,
        partition: int,
        *,
        seq: int = 0,
        token: int = 0,
        starts: Mapping[str, int] | None = None,
        following: bool = False,
    ) -> None:
        self.seq = seq
        self.token = token
        self.voided = 0
        self._partition = partition
        self._following = following
        starts = starts or {}
        self._sources = [_Source(log, t, partition, starts.get(t, 0)) for t in decision_topics(role)]

    def batches(self) -> Iterator[LoggedBatch]:
        """Whole batches to the end of the log; a torn one at the end is Corrupt, since appends are atomic."""
        pending: list[Logged] = []
        while found := self._next():
            last = found[-1].event
            if isinstance(last, Batch):
                end = found.pop()
                yield LoggedBatch(pending + found, last, end, self._offsets())
                pending = []
            else:
                pending += found
        if pending and not self._following:
            raise Corrupt(
                f"partition {self._partition}: the log ends inside a batch, after seq {self.seq}; restore the log's folder "
                "from a copy, or cut it with an older copy of this partition"
            )

    def _offsets(self) -> dict[str, int]:
        """Where each topic goes on; as in a live head, topics that hold nothing are left out."""
        return {source.topic: source.next_offset for source in self._sources if source.next_offset}

    def _next(self) -> list[Logged]:
        """The decision with the next seq, and those behind it that lie in one topic with it; none at the end."""
        wanted, best = self.seq + 1, None
        for source in self._sources:
            while source.token < self.token:
                self.voided += 1
                source.advance()
            # Two owners may have given the number out: the later one's counts.
            if source.seq == wanted and (best is None or source.token > best.token):
                best = source
        if best is not None:
            below = min([source.seq for source in self._sources if source is not best], default=NONE)
            found = best.run(below, self.token)
            self.seq += len(found)
            last = found[-1].event
            if isinstance(last, OwnershipTaken):
                self.token = last.owner_token
            return found
        rest = [source.seq for source in self._sources if source.ahead is not None]
        if rest and not self._following:
            raise Corrupt(
                f"partition {self._partition}: seq {wanted} is missing; the log goes on at seq {min(rest)}"
            )
        return []
