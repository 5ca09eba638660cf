"""Judges what happens, as it happens: each commit of a shard's log, each connection that a server sees, and the end.

The model (`ledger.py`) takes a commit in only after every invariant looked at it beside the model as it stood before. The
first violation counts, since what comes after it may be its consequence.
"""

from collections.abc import Callable
from typing import NamedTuple

from frontlog.avro.events import Batch, ContentVerdict, Event, Fetched, OwnershipTaken, Removed
from frontlog.processors.settings import Settings
from frontlog.streams.topics import Role
from simulation import asking, ending, invariants
from simulation.asking import Asked
from simulation.disk import Disk
from simulation.ending import Whole
from simulation.ledger import Ledger, ShardNote
from simulation.moment import Moment
from simulation.owner import LIMITS, Owner
from simulation.servers import Served, Servers
from simulation.web import Web


class Violation(NamedTuple):
    """Which invariant broke (`number`: of seed 000, chapter 16; 0: ours), how, and when (seconds)."""

    invariant: str
    number: int
    what: str
    at_s: float


class Judge:
    """Knows the model and the invariants. `now` gives seconds from the start."""

    def __init__(
        self, web: Web, servers: Servers, disk: Disk, settings: Settings, now: Callable[[], float]
    ) -> None:
        self.web = web
        self.servers = servers
        self.disk = disk
        self.settings = settings
        self.ledger = Ledger()
        self.violation: Violation | None = None
        self._now = now

    def broken(self, name: str, number: int, what: str) -> None:
        """An invariant doesn't hold; the first one counts."""
        if self.violation is None:
            self.violation = Violation(name, number, what, self._now())

    # --- commits ----------------------------------------------------------------------------------------------

    def committed(self, owner: Owner, name: str) -> None:
        """A process committed a transaction of a shard's store."""
        role, _, partition = name.partition("-")
        self.commit(self.ledger.shard(name, Role(role), int(partition)), owner)

    def commit(self, shard: ShardNote, owner: Owner | None) -> None:
        """Read what is new in a shard's log, and judge it. `owner`: who wrote it; None: a process without a token."""
        commit = self.ledger.read(shard, self.disk.store(shard.name))
        token = shard.token
        for event in commit.decisions:
            if isinstance(event, OwnershipTaken) and owner is not None:
                token = owner.tokens[shard.name] = event.owner_token
        replaced = owner is not None and owner.tokens.get(shard.name) != token
        if replaced and owner is not None:
            what = f"owner {owner.number} was replaced, but commits to {shard.name}"
            self.broken("stale_owner_writes_nothing", 10, what)
        named = {e.url for e in commit.outputs if isinstance(e, Fetched | Removed)}
        before = {url: self.ledger.urls[url].state for url in named if url in self.ledger.urls}
        durable = self.disk.files.durable_bytes
        at = Moment(self.ledger, self.servers, self.web, self.settings, commit, replaced, durable, before)
        for name, number, check in invariants.BATCHES:
            wrong = check(at)
            if wrong is not None:
                self.broken(name, number, wrong)
        for _, _, given in commit.inputs:
            if given is not None:
                self._events(at, given)
        now_ms = commit.batch.at_ms if commit.batch is not None else shard.at_ms
        withheld = self._withheld(shard, commit.batch)
        for event in commit.decisions:
            self._events(at, event)
            self.ledger.apply(shard, event, now_ms)
        withheld += self._withheld(shard, commit.batch)
        self.ledger.withheld.update(withheld)
        for event in commit.outputs:
            self._events(at, event)
        self.ledger.note_outputs(commit.outputs)
        if commit.batch is not None:
            shard.seq, shard.at_ms = commit.batch.seq, commit.batch.at_ms
            shard.positions.update({p.topic: p.to_offset for p in commit.batch.positions})

    def _withheld(self, shard: ShardNote, batch: Batch | None) -> list[str]:
        """Event ids of verdicts that this batch takes while their URL may not be given out."""
        found: list[str] = []
        for position in batch.positions if batch is not None else ():
            if position.topic == "content-verdicts":
                for offset in range(position.from_offset, position.to_offset):
                    verdict = shard.verdicts.get(offset)
                    if isinstance(verdict, ContentVerdict):
                        note = self.ledger.urls.get(verdict.candidate.url)
                        if note is not None and note.state in ending.WITHHELD:
                            found.append(verdict.event_id)
        return found

    def _events(self, at: Moment, event: Event) -> None:
        for name, number, check in invariants.EVENTS:
            wrong = check(at, event)
            if wrong is not None:
                self.broken(name, number, wrong)

    # --- connections and the end ------------------------------------------------------------------------------

    def asked(self, served: Served, owner: Owner, stepped_s: float, jumped_s: float) -> None:
        """A server sees a connection. `stepped_s`: by how much the system's clock was set wrong at most; `jumped_s`: how
        far ahead the clocks of owners that started since the host's last request were of those before them."""
        served.ours = not owner.replaced
        at = Asked(
            self.ledger, self.servers, self.web, self.settings, served, owner.clock.now_ms(), LIMITS.total_ms, stepped_s,
            jumped_s,
        )  # fmt: skip
        wrong = asking.judge(at)
        if wrong is not None:
            self.broken(*wrong)

    def whole(self) -> Whole:
        """Everything, for those who look at the end."""
        return Whole(self.ledger, self.servers, self.web, self.settings, self.disk)

    def rebuild(self) -> None:
        """Fold the logs anew."""
        wrong = next(ending.rebuilt_equals_live(self.whole()), None)
        if wrong is not None:
            self.broken("rebuilt_equals_live", 0, wrong)

    def end(self) -> None:
        """All is quiet."""
        wrong = ending.judge(self.whole())
        if wrong is not None:
            self.broken(*wrong)
