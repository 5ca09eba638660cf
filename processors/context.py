"""What every decision needs besides tables and input: the time, the cause, the next seq, who decides.

A machine's `decide` builds its decisions through a `Context`, so that no decision is without its seq,
token and cause, and collects them in a `Decided`. The host applies each `Decided` before the next input.
"""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from frontlog.avro.enums import Topic
from frontlog.avro.events import Event
from frontlog.processors.leased import Lease


class Cause(NamedTuple):
    """The input that made a decision: topic (or timer, claim, start), partition, offset (-1: none)."""

    topic: str
    partition: int
    offset: int


class Out(NamedTuple):
    """A record for a topic of the own partition: an output or a reject."""

    topic: Topic
    key: str
    event: Event


class Emission(NamedTuple):
    """An input for another (or the own) partition."""

    partition: int
    topic: Topic
    key: str
    event: Event


class Decided(msgspec.Struct, gc=False):
    """What came of one input: decisions in seq order, outputs, inputs for others, leases to hand out."""

    decisions: Sequence[Event] = ()
    outputs: Sequence[Out] = ()
    emissions: Sequence[Emission] = ()
    leases: Sequence[Lease] = ()


class Context:
    """The stamp of a batch. `partition` of `partitions`, `owner` is the deciding process."""

    __slots__ = ("cause", "now_ms", "owner", "owner_token", "partition", "partitions", "seq")

    def __init__(
        self, *, now_ms: int, seq: int, owner_token: int, owner: str, partition: int, partitions: int
    ) -> None:
        self.now_ms = now_ms
        self.seq = seq
        self.owner_token = owner_token
        self.owner = owner
        self.partition = partition
        self.partitions = partitions
        self.cause = Cause("start", partition, -1)

    def next_seq(self) -> int:
        """The seq of the decision that is being built."""
        self.seq += 1
        return self.seq
