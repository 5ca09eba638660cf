"""Checks of the log as such: records, sequence, chain, owners, time.

Not verified: that the log's end is still there. A log that was cut at a whole batch, together with its tables, looks like
one that never went further; only a head that was published or signed elsewhere tells.
"""

import hashlib
from typing import ClassVar

from frontlog.avro.events import Event, OwnershipTaken
from frontlog.replay.ledger import Decision, Taken
from frontlog.replay.watch import Scene, Watch
from frontlog.streams.topics import Role

BOTH = (Role.FRONTIER, Role.CONTENT)


class Records(Watch):
    """Filled by the reader: see `frontlog.replay.ledger`."""

    name = "records"
    doc = "every record of every topic is whole (its batch's checksum fits), and no batch between two is missing"
    roles: ClassVar[tuple[Role, ...]] = BOTH


class Sequence(Watch):
    """The numbers of decisions; gaps between them are found by the reader."""

    name = "sequence"
    doc = "decisions are numbered from 1 without a gap, and each batch begins where the one before it ended"
    roles: ClassVar[tuple[Role, ...]] = BOTH

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._last = 0

    def opened(self, batch: Taken) -> None:
        self.examined += len(batch.decisions) + 1
        first = batch.batch.first_seq
        if first != self._last + 1:
            self.fault(
                batch.place, f"the batch says that it begins at {first}; the one before ended at {self._last}"
            )
        self._last = batch.batch.seq


class Chain(Watch):
    """The hash that each batch carries over all before it."""

    name = "chain"
    doc = "log_hash of each batch is SHA-256 over the one before and the batch's decisions"
    roles: ClassVar[tuple[Role, ...]] = BOTH

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._hash = bytes(32)

    def opened(self, batch: Taken) -> None:
        self.examined += 1
        digest = hashlib.sha256(self._hash)
        for decision in batch.decisions:
            digest.update(decision.body)
        if digest.digest() != batch.batch.log_hash:
            self.fault(batch.place, "the chain breaks here: its decisions are not those that were written")
        self._hash = batch.batch.log_hash  # so that one break is told once


class Owners(Watch):
    """Tokens of owners."""

    name = "owners"
    doc = "each owner has the next token and took over where the one before ended; decisions carry its token"
    roles: ClassVar[tuple[Role, ...]] = BOTH

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._token = 0
        self._partitions = 0

    def taken(self, decision: Decision, event: OwnershipTaken) -> None:
        if event.owner_token != self._token + 1:
            self.fault(decision, f"token {event.owner_token} was taken after {self._token}")
        if event.after_seq != event.seq - 1:
            self.fault(decision, f"taken after seq {event.after_seq}, but at seq {event.seq}")
        if self._partitions not in (0, event.partitions):
            self.fault(decision, f"{event.partitions} partitions; the log has {self._partitions} pinned")
        self._token, self._partitions = event.owner_token, event.partitions

    def decided(self, decision: Decision, event: Event) -> None:
        if isinstance(event, OwnershipTaken):
            return
        self.examined += 1
        token = getattr(event, "owner_token", self._token)
        if token != self._token:
            self.fault(decision, f"carries token {token}; the owner's is {self._token}")

    def closed(self, batch: Taken) -> None:
        if batch.batch.owner_token != self._token:
            self.fault(batch.place, f"carries token {batch.batch.owner_token}; the owner's is {self._token}")


class Times(Watch):
    """The one time of each batch."""

    name = "times"
    doc = "the time of batches never goes backwards, and decisions bear that of their batch"
    roles: ClassVar[tuple[Role, ...]] = BOTH

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._last = 0

    def opened(self, batch: Taken) -> None:
        self.examined += 1
        at_ms = batch.batch.at_ms
        if at_ms < self._last:
            self.fault(batch.place, f"goes back in time by {self._last - at_ms} ms")
        self._last = max(self._last, at_ms)
        strange = next((d for d in (*batch.decisions, batch.place) if d.at_ms != at_ms), None)
        if strange is not None:
            self.fault(strange, f"its record is of {strange.at_ms}, its batch of {at_ms}")


CHECKS: tuple[type[Watch], ...] = (Records, Sequence, Chain, Owners, Times)
