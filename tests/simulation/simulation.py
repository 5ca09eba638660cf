"""One run: the crawler against the synthetic web, faults as the plan has them, then calm until all is quiet.

    Simulation(Plan.of(7)).run()      a Result; `violation` says which invariant broke, and how

Every step of every process is one step of the scheduler; between two steps the world acts: faults come, dead processes
are started again, servers close connections. Invariants are judged at each commit and each connection, and at the end.
"""

import heapq
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import NamedTuple

from frontlog.avro.errors import ConfigError, Fenced, FrontlogError, Retriable
from frontlog.avro.events import ContentVerdict
from frontlog.streams import shard_runner
from simulation import asking, ending, invariants
from simulation.disk import Disk
from simulation.ending import Whole
from simulation.ledger import Ledger, ShardNote
from simulation.loop import Scheduler
from simulation.maker import make_web
from simulation.owner import LIMITS, Owner, Post
from simulation.plan import FaultEvent, Plan
from simulation.servers import Served, Servers
from simulation.web import START_MS

CALM_S_MAX = 40_000.0
STEPS_MAX = 3_000_000
REBUILDS_MAX = 2
"""Before the end, at starts of a process."""


class Violation(NamedTuple):
    """Which invariant broke (`number`: of seed 000, chapter 16), how, and when (seconds)."""

    invariant: str
    number: int
    what: str
    at_s: float


class Result(NamedTuple):
    """What came of a run."""

    plan: Plan
    violation: Violation | None
    trace: list[str]
    seconds: float
    steps: int
    commits: int
    decisions: int
    requests: int
    owners: int


class Simulation:
    """The world of one run."""

    def __init__(self, plan: Plan, folder: Path | None = None) -> None:
        self.plan = plan
        self.settings = plan.settings()
        self.scheduler = Scheduler(plan.rng("scheduler"), shuffled=plan.shuffled)
        self.web = make_web(plan)
        self.servers = Servers(self.web, plan.rng("servers"), lambda: self.scheduler.now)
        self.servers.watch = self._asked
        self.disk = Disk(folder)
        self.ledger = Ledger()
        self.post = Post(plan.partitions, plan.rng("post"))
        self.trace: list[str] = []
        self.violation: Violation | None = None
        self.owner: Owner | None = None
        self.others: list[Owner] = []
        """Owners that were replaced and may wake up."""
        self.wall_offset_s = 0.0
        self.stepped_s = 0.0
        self.jumps: list[tuple[float, float]] = []
        self.rebuilds = 0
        self.calm = False
        self.dies_in = 0
        """Operations that the next process lives."""
        self._numbers = count(1)
        self._agenda: list[tuple[float, int, Callable[[], None]]] = []
        self._order = count()
        self._clock_error_ms = 0.0

    # --- the run ----------------------------------------------------------------------------------------------

    def run(self) -> Result:
        """To the end, or to the first violation."""
        from simulation.faults import Faults

        faults = Faults(self)
        for event in self.plan.events():
            self.at(event.at_s, lambda e=event: self._fault(faults, e))
        self.at(self.plan.chaos_s, lambda: faults.stop())
        self.at(0.0, self.start_owner)
        with _polling(self):
            while self.violation is None and self.scheduler.steps < STEPS_MAX:
                self._act()
                if self.violation is None and self.calm and self._quiet():
                    break
        if self.violation is None and self.scheduler.steps >= STEPS_MAX:
            self.broken("it_ends", 0, f"{STEPS_MAX} steps and no end")
        self._finish()
        return Result(
            self.plan, self.violation, self.trace, self.scheduler.now, self.scheduler.steps, self.ledger.commits,
            self.ledger.decisions, len(self.servers.record), next(self._numbers) - 1,
        )  # fmt: skip

    def at(self, at_s: float, act: Callable[[], None]) -> None:
        """Have the world act at a moment."""
        heapq.heappush(self._agenda, (max(at_s, self.scheduler.now), next(self._order), act))

    def later(self, seconds: float, act: Callable[[], None]) -> None:
        self.at(self.scheduler.now + seconds, act)

    def note(self, text: str) -> None:
        """Something worth reading when a run failed."""
        self.trace.append(f"{self.scheduler.now:10.3f}  {text}")

    def broken(self, name: str, number: int, what: str) -> None:
        """An invariant doesn't hold; the first one counts."""
        if self.violation is None:
            self.violation = Violation(name, number, what, self.scheduler.now)

    def _fault(self, faults: "object", event: FaultEvent) -> None:
        self.note(f"fault {event.name} ({event.amount:.3f})")
        faults.strike(event)  # type: ignore[attr-defined]

    def _act(self) -> None:
        """One step of the processes, or of the world."""
        until = self._agenda[0][0] if self._agenda else self.scheduler.now + CALM_S_MAX
        if until > self.scheduler.now and self.scheduler.step(until):
            self._look()
            return
        if self._agenda:
            _, _, act = heapq.heappop(self._agenda)
            act()
            self._look()
        elif self.violation is None:
            self.broken("it_goes_on", 0, "nothing is left that could happen")

    # --- owners -----------------------------------------------------------------------------------------------

    def start_owner(self) -> None:
        """A new process takes the crawl over."""
        if self.owner is not None:
            return
        self._rebuild()
        number = next(self._numbers)
        seeds = [seed for seed in self.web.seeds if seed not in self.ledger.urls]
        owner = Owner(
            number,
            self.plan,
            self.scheduler,
            self.disk,
            self.servers,
            lambda: self.wall_s(),
            self._committed,
            self.post,
            seeds,
        )
        owner.tick_s = 3.0 if self.calm else 0.5
        owner.damage.dies_in, self.dies_in = self.dies_in, 0
        self.owner = owner
        self.note(f"owner {number} starts")
        self._jump(owner)
        owner.launch()

    def wall_s(self) -> float:
        """What the system's clock says, seconds since the epoch."""
        return START_MS / 1_000 + self.scheduler.now + self.wall_offset_s

    def _jump(self, owner: Owner) -> None:
        """By how much a new process's clock is ahead of the one before it."""
        error_ms = self._error_ms(owner)
        if error_ms > self._clock_error_ms:
            self.jumps.append((self.scheduler.now, (error_ms - self._clock_error_ms) / 1_000))
        self._clock_error_ms = error_ms

    def _error_ms(self, owner: Owner) -> float:
        return owner.clock.now_ms() - START_MS - self.scheduler.now * 1_000

    def kill_owner(self, *, restart_s: float) -> None:
        """The process dies where it is."""
        if self.owner is not None:
            owner, self.owner = self.owner, None
            self._clock_error_ms = self._error_ms(owner)
            owner.damage.dead = True
            owner.loop.kill()
            self.servers.disown(owner.number)
            if not self.others:
                self.disk.close()
            self.later(restart_s, self.start_owner)

    def _look(self) -> None:
        """See whether a process died, ended or failed."""
        for other in tuple(self.others):
            if other.ended or other.damage.dead:
                self.note(f"owner {other.number}, replaced, ends: {other.failure!r}")
                self._ended(other)
        owner = self.owner
        if owner is None:
            return
        if owner.loop.failures:
            self.broken("nothing_unexpected_is_raised", 0, repr(owner.loop.failures[0]))
        elif owner.damage.dead:
            self.note(f"owner {owner.number} dies at operation {owner.damage.operations}")
            self.kill_owner(restart_s=0.5)
        elif owner.ended:
            self.note(f"owner {owner.number} ends: {owner.failure!r}")
            self._ended(owner)

    def _ended(self, owner: Owner) -> None:
        """A process ended by itself; only some reasons are good ones."""
        failure = owner.failure
        good = owner.stopping or owner.replaced or isinstance(failure, Retriable | ConfigError)
        good = good or (owner.replaced and isinstance(failure, Fenced))
        if owner.loop.failures:
            failure, good = owner.loop.failures[0], False
        if not good:
            self.broken("nothing_unexpected_is_raised", 0, f"owner {owner.number}: {failure!r}")
        if owner in self.others:
            self.others.remove(owner)
            owner.loop.kill()
            return
        if isinstance(failure, ConfigError):
            self._set_clock_right()
        self.kill_owner(restart_s=1.0)

    def _set_clock_right(self) -> None:
        """What the message asks for: the clock was set back behind the log."""
        last_ms = max(shard.at_ms for shard in self.ledger.shards.values())
        self.step_clock(last_ms / 1_000 - self.wall_s())

    def step_clock(self, by_s: float) -> None:
        """The system's clock jumps."""
        self.wall_offset_s += by_s
        self.stepped_s = max(self.stepped_s, abs(self.wall_offset_s))

    # --- judging ----------------------------------------------------------------------------------------------

    def _committed(self, owner: Owner, name: str) -> None:
        """A transaction of a shard's store was committed."""
        role, _, partition = name.partition("-")
        self.check_commit(
            self.ledger.shard(name, shard_runner.Role(role), int(partition)),
            replaced=owner.replaced,
            owner=owner,
        )

    def check_commit(self, shard: ShardNote, *, replaced: bool, owner: Owner | None) -> None:
        """Read what is new in a shard's log, and judge it."""
        commit = self.ledger.read(shard, self.disk.store(shard.name))
        at = invariants.Moment(
            self.ledger,
            self.servers,
            self.web,
            self.settings,
            commit,
            replaced,
            self.disk.files.durable_bytes,
        )
        if replaced and owner is not None:
            self.broken(
                "stale_owner_writes_nothing",
                10,
                f"owner {owner.number} was replaced, but commits to {shard.name}",
            )
        for name, number, check in invariants.BATCHES:
            wrong = check(at)
            if wrong is not None:
                self.broken(name, number, wrong)
        for _, _, event in commit.inputs:
            if event is not None:
                self._judge(at, event)
        now_ms = commit.batch.at_ms if commit.batch is not None else shard.at_ms
        given_out = self._withheld(commit.shard, commit)
        for event in commit.decisions:
            self._judge(at, event)
            self.ledger.apply(shard, event, now_ms)
        given_out += self._withheld(commit.shard, commit)
        self.ledger.withheld.update(given_out)
        for event in commit.outputs:
            self._judge(at, event)
        self.ledger.note_outputs(commit.outputs)
        if commit.batch is not None:
            shard.seq, shard.at_ms = commit.batch.seq, commit.batch.at_ms
            shard.positions.update({p.topic: p.to_offset for p in commit.batch.positions})

    def _withheld(self, shard: ShardNote, commit: "object") -> list[str]:
        """Event ids of verdicts that this batch takes while their URL may not be given out."""
        batch = commit.batch  # type: ignore[attr-defined]
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

    def _judge(self, at: invariants.Moment, event: "object") -> None:
        for name, number, check in invariants.DECISIONS:
            wrong = check(at, event)  # type: ignore[arg-type]
            if wrong is not None:
                self.broken(name, number, wrong)

    def _asked(self, served: Served) -> None:
        """A server sees a connection."""
        owner = self.owner
        if owner is None or owner.number != served.process:
            owner = next(other for other in self.others if other.number == served.process)
        served.ours = not owner.replaced
        last = self.servers.last(served.host)
        since = last.ended_s if last is not None and last.ended_s is not None else 0.0
        jumped_s = sum(by for at_s, by in self.jumps if at_s >= since)
        wrong = asking.judge(
            asking.Asked(
                self.ledger, self.servers, self.web, self.settings, served, owner.clock.now_ms(), LIMITS.total_ms,
                self.stepped_s,
                jumped_s,
            )
        )  # fmt: skip
        self.note(f"{served.attempt}: {served.url} at {served.address}{'' if served.ours else ' (replaced)'}")
        if wrong is not None:
            self.broken(*wrong)

    # --- the end ----------------------------------------------------------------------------------------------

    def _whole(self) -> Whole:
        return Whole(self.ledger, self.servers, self.web, self.settings, self.disk)

    def _quiet(self) -> bool:
        """Whether nothing is to come: then the end is judged."""
        owner = self.owner
        if owner is None or self.others or self._agenda or not owner.idle():
            return False
        whole = self._whole()
        if self.scheduler.now > self.plan.chaos_s + CALM_S_MAX:
            late = [url for url, n in self.ledger.urls.items() if not ending.is_settled(whole, url, n)]
            self.broken(
                "everything_reachable_is_fetched",
                0,
                f"after {CALM_S_MAX:.0f} s of calm these still wait: {late[:5]}",
            )
            return True
        return all(ending.is_settled(whole, url, note) for url, note in self.ledger.urls.items())

    def _finish(self) -> None:
        """Judge the whole, and let go of it."""
        owner = self.owner
        if owner is not None and self.violation is None:
            owner.stopping = True
            end_s = self.scheduler.now + 60
            while not owner.ended and self.violation is None and self.scheduler.step(end_s):
                pass
            if not owner.ended:
                self.broken("it_ends", 0, "asked to stop, it doesn't")
        if self.violation is None:
            wrong = ending.judge(self._whole())
            if wrong is not None:
                self.broken(*wrong)
        for process in (owner, *self.others):
            if process is not None:
                process.damage.dead = True
                process.loop.kill()
        self.disk.close()

    def _rebuild(self) -> None:
        """Fold the logs anew, a few times in a run."""
        if not self.ledger.shards or self.rebuilds >= REBUILDS_MAX or self.violation is not None:
            return
        self.rebuilds += 1
        wrong = next(ending.rebuilt_equals_live(self._whole()), None)
        if wrong is not None:
            self.broken("rebuilt_equals_live", 0, wrong)


@contextmanager
def _polling(sim: Simulation) -> Iterator[None]:
    """Look for foreign inputs and old leases less often than in the world: an idle hour is no use to anyone."""
    before = shard_runner.POLL_S
    shard_runner.POLL_S = sim.plan.rng("poll").choice((0.2, 1.0) if sim.plan.hasty else (2.0, 5.0))
    try:
        yield
    finally:
        shard_runner.POLL_S = before


def simulate(plan: Plan) -> Result:
    """Run a plan; on LMDB in a folder of its own, which goes with it."""
    if not plan.lmdb:
        return Simulation(plan).run()
    with tempfile.TemporaryDirectory(prefix="simulation-") as folder:
        return Simulation(plan, Path(folder)).run()


_KNOWN = FrontlogError
