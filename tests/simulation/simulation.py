"""One run: the crawler against the synthetic web, faults as the plan has them, then calm until all is quiet.

    Simulation(Plan.of(7), Faults).run()      a Result; `violation` says which invariant broke, and how

Every step of every process is one step of the scheduler; between two steps the world acts: faults come, dead processes
are started again, servers close connections. Invariants are judged at each commit and each connection, and at the end
(`judge.py`).
"""

import heapq
from collections import Counter
from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path
from typing import NamedTuple, Protocol

from frontlog.avro.errors import ConfigError, Fenced, StoreFull
from simulation import ending, happenings
from simulation.bounds import in_force
from simulation.disk import Damage, Disk
from simulation.judge import Judge, Violation
from simulation.ledger import INPUTS
from simulation.loop import Scheduler
from simulation.maker import make_web
from simulation.owner import Owner, Post
from simulation.plan import FaultEvent, Plan
from simulation.servers import Served, Servers
from simulation.web import START_MS

CALM_S_MAX = 15_000.0
STEPS_MAX = 60_000
STEPS_AT_ONCE_MAX = 5_000
"""Without a moment passing."""
REBUILDS_MAX = 2
"""Before the end, at starts of a process."""


class Result(NamedTuple):
    """What came of a run. `happened`: what was done to the crawler and what the web did, each with its count."""

    plan: Plan
    violation: Violation | None
    trace: list[str]
    seconds: float
    steps: int
    commits: int
    decisions: int
    requests: int
    owners: int
    happened: Counter[str]


class Mischief(Protocol):
    """What does faults to a simulation (`faults.py`)."""

    def strike(self, event: FaultEvent) -> None: ...

    def stop(self) -> None: ...

    def ask_again(self) -> bool:
        """Whether an operator asks once more for what was given up."""
        ...


class Simulation:
    """The world of one run."""

    def __init__(
        self, plan: Plan, mischief: "Callable[[Simulation], Mischief]", folder: Path | None = None
    ) -> None:
        self.plan = plan
        self.scheduler = Scheduler(plan.rng("scheduler"), shuffled=plan.shuffled)
        self.happened: Counter[str] = Counter()
        self.web = make_web(plan)
        self.servers = Servers(self.web, plan.rng("servers"), lambda: self.scheduler.now, self.happened)
        self.servers.watch = self._asked
        self.servers.answered = lambda served: happenings.note(self.happened, self.servers, served)
        self.disk = Disk(folder)
        self.judge = Judge(self.web, self.servers, self.disk, plan.settings(), lambda: self.scheduler.now)
        self.ledger = self.judge.ledger
        self.post = Post(plan.partitions, plan.rng("post"), self.happened)
        self.trace: list[str] = []
        self.owner: Owner | None = None
        self.others: list[Owner] = []
        """Owners that were replaced and may wake up."""
        self.calm = False
        self.next_dies: tuple[int, str] | None = None
        """The operation at which the next process dies, and of which kind it is."""
        self.last_damage: Damage | None = None
        """What was wrong with the disk when the last process ended."""
        self._mischief = mischief(self)
        self._wall_offset_s = self._stepped_s = 0.0
        self._jumps: list[tuple[float, float]] = []
        self._rebuilds = 0
        self._numbers = count(1)
        self._agenda: list[tuple[float, int, Callable[[], None]]] = []
        self._order = count()
        self._clock_error_ms = 0.0
        self._look_again_s = 0.0
        self._moment = 0.0, 0
        """The last moment that passed, and the steps by then."""

    @property
    def violation(self) -> Violation | None:
        """What was found."""
        return self.judge.violation

    # --- the run ----------------------------------------------------------------------------------------------

    def run(self) -> Result:
        """To the end, or to the first violation."""
        for event in self.plan.events():
            self.at(event.at_s, partial(self._fault, event))
        self.at(self.plan.chaos_s, self._mischief.stop)
        self.at(0.0, self.start_owner)
        with in_force(self.plan):
            while self.violation is None:
                self._act()
                self._count()
                over = self.violation is None and self.calm and self._quiet()
                if over and not self._mischief.ask_again():
                    break
            self._finish()
        return Result(
            self.plan, self.violation, self.trace, self.scheduler.now, self.scheduler.steps, self.ledger.commits,
            self.ledger.decisions, len(self.servers.record), next(self._numbers) - 1, self.happened,
        )  # fmt: skip

    def at(self, at_s: float, act: Callable[[], None]) -> None:
        """Have the world act at a moment."""
        heapq.heappush(self._agenda, (max(at_s, self.scheduler.now), next(self._order), act))

    def later(self, seconds: float, act: Callable[[], None]) -> None:
        """Have the world act after a while."""
        self.at(self.scheduler.now + seconds, act)

    def note(self, text: str) -> None:
        """Something worth reading when a run failed."""
        self.trace.append(f"{self.scheduler.now:10.3f}  {text}")

    def _fault(self, event: FaultEvent) -> None:
        self.note(f"fault {event.name} ({event.amount:.3f})")
        self._mischief.strike(event)

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
        else:
            assert self.violation is not None, "nothing is left that could happen"

    def _count(self) -> None:
        """See that it comes to an end, and that time passes."""
        steps, now_s = self.scheduler.steps, self.scheduler.now
        if now_s > self._moment[0]:
            self._moment = now_s, steps
        if steps >= STEPS_MAX or steps - self._moment[1] >= STEPS_AT_ONCE_MAX:
            self.judge.broken(
                "it_ends", 0, f"{steps} steps, {steps - self._moment[1]} of them at {now_s:.3f} s"
            )

    # --- owners -----------------------------------------------------------------------------------------------

    def start_owner(self) -> None:
        """A new process takes the crawl over."""
        if self.owner is not None:
            return
        if self.ledger.shards and self._rebuilds < REBUILDS_MAX and self.violation is None:
            self._rebuilds += 1
            self.judge.rebuild()
        seeds = [seed for seed in self.web.seeds if seed not in self.ledger.urls]
        owner = Owner(
            next(self._numbers), self.plan, self.scheduler, self.disk, self.servers, self.wall_s, self.judge.committed,
            self.post, seeds, self.happened,
        )  # fmt: skip
        owner.tick_s = 3.0 if self.calm else 0.5
        if self.next_dies is not None:
            owner.damage.die(*self.next_dies)
            self.next_dies = None
        if self.last_damage is not None:
            owner.damage.full_as(self.last_damage)
        self.owner = owner
        self.note(f"owner {owner.number} starts")
        self._jump(owner)
        owner.launch()

    def wall_s(self) -> float:
        """What the system's clock says, seconds since the epoch."""
        return START_MS / 1_000 + self.scheduler.now + self._wall_offset_s

    def _jump(self, owner: Owner) -> None:
        """By how much a new process's clock is ahead of the one before it."""
        error_ms = self._error_ms(owner)
        if error_ms > self._clock_error_ms:
            self._jumps.append((self.scheduler.now, (error_ms - self._clock_error_ms) / 1_000))
        self._clock_error_ms = error_ms

    def _error_ms(self, owner: Owner) -> float:
        return owner.clock.now_ms() - START_MS - self.scheduler.now * 1_000

    def kill_owner(self, *, restart_s: float) -> bool:
        """The process dies where it is; False: there was none."""
        if self.owner is None:
            return False
        owner, self.owner = self.owner, None
        self._clock_error_ms = self._error_ms(owner)
        owner.damage.dead = True
        self.last_damage = None if self.calm else owner.damage
        owner.loop.kill()
        self.servers.disown(owner.number)
        if not self.others:
            self.disk.close()
        self.later(restart_s, self.start_owner)
        return True

    def _look(self) -> None:
        """See whether a process died, ended or failed."""
        for other in tuple(self.others):
            if other.ended or other.damage.dead:
                self.note(f"owner {other.number}, replaced, ends: {other.failure!r}")
                self.happened["takeover: the stale owner is refused"] += isinstance(other.failure, Fenced)
                self._ended(other)
        owner = self.owner
        if owner is None:
            return
        if owner.loop.failures:
            self.judge.broken("nothing_unexpected_is_raised", 0, repr(owner.loop.failures[0]))
        elif owner.damage.dead:
            self.note(f"owner {owner.number} dies at operation {owner.damage.operations}")
            if owner.damage.power_fails:
                torn = self.plan.rng(f"torn {owner.number}").choice((0, 0, 100, 3_000))
                self.happened["power: bytes of the archive are lost"] += self.disk.files.lose(torn)
            self.kill_owner(restart_s=0.5)
        elif owner.ended:
            self.note(f"owner {owner.number} ends: {owner.failure!r}")
            self._ended(owner)

    def _ended(self, owner: Owner) -> None:
        """A process ended by itself; only some reasons are good ones."""
        failure = owner.failure
        good = owner.replaced or isinstance(failure, ConfigError)
        good = good or (owner.stopping and (failure is None or isinstance(failure, StoreFull)))
        if owner.loop.failures:
            failure, good = owner.loop.failures[0], False
        if not good:
            self.judge.broken("nothing_unexpected_is_raised", 0, f"owner {owner.number}: {failure!r}")
        if owner in self.others:
            self.others.remove(owner)
            owner.loop.kill()
            return
        if isinstance(failure, ConfigError):
            self._set_clock_right()
        self.kill_owner(restart_s=1.0)

    def _set_clock_right(self) -> None:
        """What the message asks for: the clock was set back behind the log."""
        self.happened["clock_step: a start is refused"] += 1
        last_ms = max(shard.at_ms for shard in self.ledger.shards.values())
        self.step_clock(last_ms / 1_000 - self.wall_s())

    def step_clock(self, by_s: float) -> None:
        """The system's clock jumps."""
        self._wall_offset_s += by_s
        self._stepped_s = max(self._stepped_s, abs(self._wall_offset_s))

    def _asked(self, served: Served) -> None:
        """A server sees a connection."""
        owner = self.owner
        if owner is None or owner.number != served.process:
            owner = next(other for other in self.others if other.number == served.process)
        last = self.servers.last(served.host)
        since = last.ended_s if last is not None and last.ended_s is not None else 0.0
        jumped_s = sum(by for at_s, by in self._jumps if at_s >= since)
        self.judge.asked(served, owner, self._stepped_s, jumped_s)
        self.note(f"{served.attempt}: {served.url} at {served.address}{'' if served.ours else ' (replaced)'}")

    # --- the end ----------------------------------------------------------------------------------------------

    def _quiet(self) -> bool:
        """Whether nothing is to come: then the end is judged."""
        owner = self.owner
        if owner is None or self.others or self._agenda or self.scheduler.now < self._look_again_s:
            return False
        self._look_again_s = self.scheduler.now + 1.0
        undecided = any(
            s.read.get(t, 0) != s.positions.get(t, 0) for s in self.ledger.shards.values() for t in INPUTS
        )
        if undecided or not owner.idle():
            return False
        whole = self.judge.whole()
        late = [url for url, note in self.ledger.urls.items() if not ending.is_settled(whole, url, note)]
        if late and self.scheduler.now > self.plan.chaos_s + CALM_S_MAX:
            what = f"after {CALM_S_MAX:.0f} s of calm these still wait: {late[:5]}"
            self.judge.broken("everything_reachable_is_fetched", 0, what)
        return not late

    def _finish(self) -> None:
        """Judge the whole, and let go of it."""
        owner = self.owner
        if owner is not None and self.violation is None:
            owner.stopping = True
            end_s = self.scheduler.now + 60
            while not owner.ended and self.violation is None and self.scheduler.step(end_s):
                pass
            if not owner.ended:
                self.judge.broken("it_ends", 0, "asked to stop, it doesn't")
        if self.violation is None:
            self.judge.end()
        for process in (owner, *self.others):
            if process is not None:
                process.damage.dead = True
                process.loop.kill()
        self.disk.close()
