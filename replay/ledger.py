"""A shard's log as `verify` reads it: whole batches with their decisions and the inputs that they took.

It reads on where the host would stop: a gap, a void decision or a damaged record becomes a note (`faults`), and what
follows is read as far as it can be. It merges the topics of decisions by seq, as every reader does, with code of its own.
"""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

from frontlog.avro.codec import Undecodable, body_of, decode
from frontlog.avro.errors import FrontlogError
from frontlog.avro.events import Batch, Event, OwnershipTaken
from frontlog.streams.log import Log
from frontlog.streams.records import Record


class Decision(NamedTuple):
    """One decision where it lies. `body`: its Avro bytes without the frame."""

    seq: int
    topic: str
    offset: int
    at_ms: int
    event: Event
    body: bytes


class Input(NamedTuple):
    """One input where it lies; `event` None: the bytes are not an Avro event that this version reads."""

    topic: str
    offset: int
    at_ms: int
    value: bytes
    event: Event | None


class Fault(NamedTuple):
    """Something wrong with the log itself. `kind` is the check that it is for."""

    kind: str
    where: str
    what: str
    seq: int


class Taken(NamedTuple):
    """A batch: its decisions in seq order, the Batch event with its place, the inputs by topic, the next offsets."""

    decisions: list[Decision]
    batch: Batch
    place: Decision
    inputs: Mapping[str, list[Input]]
    written: Mapping[str, int]
    holes: Mapping[str, int] = MappingProxyType({})
    """Offsets within the positions that hold no record, by topic."""


class Source:
    """One topic of a partition, read once from front to back up to `end`. `holes`: offsets that held no record so far. A
    log that was made here has none; one from Kafka names its own, where markers of transactions were, and a batch that
    is missing for another reason can't be read over."""

    def __init__(
        self, log: Log, topic: str, partition: int, start: int, end: int, faults: list[Fault]
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.next_offset = start
        self.end = end
        self._records = log.scan(topic, partition, start) if start < end else iter(())
        self.holes = 0
        self._faults = faults

    def where(self, offset: int) -> str:
        return f"{self.topic}/{self.partition}/{offset}"

    def next(self) -> Record | None:
        """The next record; None at the end, or where the log can't be read any further."""
        try:
            record = next(self._records, None)
        except FrontlogError as exc:
            self._faults.append(Fault("records", self.where(self.next_offset), str(exc), 0))
            self._records, self.end = iter(()), self.next_offset
            return None
        if record is None or record.offset >= self.end:
            return None
        self.holes += record.offset - self.next_offset
        self.next_offset = record.offset + 1
        return record


class Inputs:
    """The inputs of one topic, taken in stretches that follow one another."""

    def __init__(self, log: Log, topic: str, partition: int, end: int, faults: list[Fault]) -> None:
        self.topic = topic
        self._log = log
        self._partition = partition
        self._end = end
        self._faults = faults
        self.holes = 0
        """Offsets without a record in what was taken last."""
        self.source = Source(log, topic, partition, 0, end, faults)

    def take(self, start: int, stop: int) -> list[Input]:
        """Inputs with start <= offset < stop; fewer when the log does not hold them."""
        if start != self.source.next_offset:
            self.source = Source(self._log, self.topic, self._partition, start, self._end, self._faults)
        found: list[Input] = []
        before = self.source.holes
        while self.source.next_offset < stop and (record := self.source.next()) is not None:
            try:
                event = decode(record.value)
            except Undecodable:
                event = None  # the owner refused it; that it did is checked
            found.append(Input(self.topic, record.offset, record.timestamp_ms, record.value, event))
        self.holes = self.source.holes - before
        return found


class Ledger:
    """The batches of a shard from the first on, up to `ends` (next offset by topic)."""

    def __init__(
        self,
        log: Log,
        partition: int,
        decisions: tuple[str, ...],
        inputs: tuple[str, ...],
        ends: Mapping[str, int],
    ) -> None:
        self.faults: list[Fault] = []
        self.voided = 0
        self.seq = 0
        self._token = 0
        self._sources = [Source(log, t, partition, 0, ends.get(t, 0), self.faults) for t in decisions]
        self._ahead: list[Decision | None] = [self._advance(source) for source in self._sources]
        self._inputs = {t: Inputs(log, t, partition, ends.get(t, 0), self.faults) for t in inputs}

    def batches(self) -> Iterator[Taken]:
        """Every whole batch."""
        pending: list[Decision] = []
        while (found := self._next()) is not None:
            if not isinstance(found.event, Batch):
                pending.append(found)
                continue
            inputs = {
                p.topic: self._inputs[p.topic].take(p.from_offset, p.to_offset)
                for p in found.event.positions
                if p.topic in self._inputs
            }
            holes = {topic: self._inputs[topic].holes for topic in inputs}
            yield Taken(pending, found.event, found, inputs, self._written(), holes)
            pending = []
        if pending:
            last = pending[-1]
            where = f"{last.topic}/{self._sources[0].partition}/{last.offset}"
            self.faults.append(Fault("sequence", where, "the log ends inside a batch", last.seq))

    def _written(self) -> dict[str, int]:
        """Where each topic of decisions goes on behind what was given out."""
        following: dict[str, int] = {}
        for source, ahead in zip(self._sources, self._ahead, strict=True):
            following[source.topic] = source.next_offset if ahead is None else ahead.offset
        return following

    def _advance(self, source: Source) -> Decision | None:
        """The next decision of a topic; what is none is noted and passed over."""
        while (record := source.next()) is not None:
            try:
                event = decode(record.value)
            except Undecodable as exc:
                self.faults.append(Fault("records", source.where(record.offset), str(exc), 0))
                continue
            seq = getattr(event, "seq", None)
            if isinstance(seq, int):
                at_ms, body = record.timestamp_ms, body_of(record.value)
                return Decision(seq, source.topic, record.offset, at_ms, event, body)
            what = f"a {type(event).__name__} is no decision"
            self.faults.append(Fault("records", source.where(record.offset), what, 0))
        return None

    def _next(self) -> Decision | None:
        """The decision with the smallest seq that is in force; faults of the order are noted."""
        while True:
            best = -1
            for n, ahead in enumerate(self._ahead):
                if ahead is not None and (best < 0 or ahead.seq < self._smallest(best)):
                    best = n
            found = self._ahead[best] if best >= 0 else None
            if found is None:
                return None
            self._ahead[best] = self._advance(self._sources[best])
            if _token(found.event) < self._token:
                self.voided += 1
                continue
            where = self._sources[best].where(found.offset)
            if found.seq <= self.seq:
                what = f"seq {found.seq} stands behind seq {self.seq}: a repeat, or out of order"
                self.faults.append(Fault("sequence", where, what, found.seq))
                continue
            if found.seq != self.seq + 1:
                what = f"seq {self.seq + 1} to {found.seq - 1} are missing before it"
                self.faults.append(Fault("sequence", where, what, found.seq))
            self.seq = found.seq
            if isinstance(found.event, OwnershipTaken):
                self._token = max(self._token, found.event.owner_token)
            return found

    def _smallest(self, number: int) -> int:
        ahead = self._ahead[number]
        assert ahead is not None
        return ahead.seq


def _token(event: Event) -> int:
    return int(getattr(event, "owner_token", 0))
