"""What one run is to be: all of it follows from the seed, and every part can be switched off to find what a failure needs.

Each kind of fault and of weather draws from a stream of chance of its own, so that switching one off leaves the others as
they were.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from random import Random
from typing import NamedTuple, Self

from frontlog.processors.settings import Attempts, Identity, Politeness, Robots, Scope, Settings

TOKEN = "simbot"


class Fault(StrEnum):
    """What is done to the crawler."""

    CRASH = "crash"  # the process dies between two steps
    CRASH_WRITE = "crash_write"  # it dies at an operation of a store or of the archive
    POWER = "power"  # the machine dies: what was not synced is lost, or torn
    STOP = "stop"  # it is asked to stop, and is started again
    TAKEOVER = "takeover"  # it is stopped; another owner takes over; the old one wakes up
    FULL_LOG = "full_log"  # commits find no room
    FULL_ARCHIVE = "full_archive"  # writes to the archive find no room
    SLOW_STORE = "slow_store"  # commits take long, and block
    CLOCK_STEP = "clock_step"  # the system's clock jumps
    REPEAT = "repeat"  # an input of the past comes once more
    LATE = "late"  # a result is logged late, or after its lease ran out
    MISROUTE = "misroute"  # an input is sent to a wrong partition
    LOST_PARSER = "lost_parser"  # a parser dies under a page
    OPERATOR = "operator"  # pause, resume, block, unblock, slow, recrawl, seed


class Weather(StrEnum):
    """What is wrong with the web."""

    ROBOTS = "robots"  # robots files change, fail, lie
    ROBOTS_REDIRECT = "robots_redirect"  # they are elsewhere
    REDIRECTS = "redirects"  # chains, loops, into other partitions
    ADDRESSES = "addresses"  # hosts move
    SHARED = "shared"  # several hosts on one address
    INTERNAL = "internal"  # names of addresses that are nobody's business
    DNS = "dns"  # look-ups fail
    LIMITS = "limits"  # 429 and 503
    FAILING = "failing"  # 5xx, resets, hangs
    SLOW = "slow"
    LYING = "lying"  # wrong types and lengths
    TRAPS = "traps"


TIMES = {
    Fault.CRASH: 1.5, Fault.CRASH_WRITE: 6.0, Fault.POWER: 2.5, Fault.STOP: 1.0, Fault.TAKEOVER: 1.2, Fault.FULL_LOG: 2.0,
    Fault.FULL_ARCHIVE: 1.5, Fault.SLOW_STORE: 2.0, Fault.CLOCK_STEP: 2.0, Fault.REPEAT: 10.0, Fault.LATE: 4.0,
    Fault.MISROUTE: 5.0,
    Fault.LOST_PARSER: 3.0, Fault.OPERATOR: 4.0,
}  # fmt: skip
"""How often each kind strikes in a run, in the mean."""
EVENTS_MAX = 20
"""Of one kind in one run."""


SIZES = ("chaos_s", "sites", "pages", "partitions")
"""Numbers of a plan that may be made smaller."""


class FaultEvent(NamedTuple):
    """One fault: its name (`crash.0`), when (seconds from the start), and a number from 0 to 1 for how."""

    name: str
    at_s: float
    kind: Fault
    amount: float


@dataclass(frozen=True)
class Plan:
    """One run. `hasty`: with short gaps, so that all is over before any robots.txt is out of date. `narrow`: with
    small bounds. `skipped`: names of fault events that are left out."""

    seed: int
    faults: frozenset[Fault]
    weather: frozenset[Weather]
    chaos_s: float
    sites: int
    pages: int
    partitions: int
    hasty: bool
    lmdb: bool
    shuffled: bool
    narrow: bool
    skipped: frozenset[str] = frozenset()

    @classmethod
    def of(cls, seed: int) -> Self:
        """The run of a seed: a few kinds of fault and weather, since all at once hide one another."""
        rng = Random(f"{seed} plan")
        faults = frozenset(kind for kind in Fault if rng.random() < 0.4)
        weather = frozenset(kind for kind in Weather if rng.random() < 0.45)
        hasty = rng.random() < 0.6
        return cls(
            seed, faults, weather, chaos_s=rng.choice((8.0, 15.0, 30.0, 60.0)) * (1 if hasty else 15),
            sites=rng.randint(1, 4),
            pages=rng.randint(2, 8), partitions=rng.choice((1, 2, 2, 3, 4)), hasty=hasty, lmdb=seed % 8 == 7,
            shuffled=rng.random() < 0.5, narrow=rng.random() < 0.4,
        )  # fmt: skip

    def rng(self, name: str) -> Random:
        """A stream of chance of its own."""
        return Random(f"{self.seed} {name}")

    def events(self) -> list[FaultEvent]:
        """The faults in the order of their time."""
        found: list[FaultEvent] = []
        for kind in sorted(self.faults):
            rng, at = self.rng(kind), 0.0
            for number in range(EVENTS_MAX):
                at += rng.expovariate(TIMES[kind] / self.chaos_s)
                amount = rng.random()
                name = f"{kind.value}.{number}"
                if at < self.chaos_s and name not in self.skipped:
                    found.append(FaultEvent(name, at, kind, amount))
        return sorted(found, key=lambda e: (e.at_s, e.name))

    def settings(self) -> Settings:
        """Settings with short waits: what takes a day in the world takes minutes here."""
        rng = self.rng("settings")
        return Settings(
            identity=Identity(token=TOKEN),
            scope=Scope(mode=rng.choice(("host", "host", "site", "any")), depth_max=rng.choice((6, 12))),
            politeness=Politeness(
                gap_ms_min=rng.choice((500, 1_000, 2_000)) * (1 if self.hasty else 12), gap_factor=rng.choice((2.0,
                10.0)), backoff_ms_min=self.rng("back-off").choice((0, 1_000, 15_000)), backoff_ms_max=120_000,
                crawl_delay_ms_max=60_000, host_failures_max=rng.choice((4, 10)), host_pause_ms=300_000,
                retry_after_ms_max=600_000,
                resolve_failures_max=rng.choice((2, 4)),
            ),
            attempts=Attempts(
                attempts_max=rng.choice((6, 20)), failures_quarantine=5, lease_ms=rng.choice((15_000, 30_000)),
                retry_ms_min=2_000,
                retry_ms_max=60_000,
            ),
            robots=Robots(cache_ms_max=rng.choice((600_000, 3_600_000)), copy_ms_max=rng.choice((60_000, 900_000))),
        )  # fmt: skip

    def command(self) -> str:
        """What repeats this run."""
        whole = Plan.of(self.seed)
        parts: list[str] = []
        off = sorted([*(whole.faults - self.faults), *(whole.weather - self.weather), *self.skipped])
        if off:
            parts.append(f"--off {','.join(off)}")
        for name in SIZES:
            if getattr(self, name) != getattr(whole, name):
                parts.append(f"--{name} {getattr(self, name)}")
        if whole.shuffled != self.shuffled:
            parts.append("--in-order")
        if whole.narrow != self.narrow:
            parts.append("--wide")
        if whole.lmdb != self.lmdb:
            parts.append("--memory")
        return f"make simulate SEED={self.seed}" + (f" ARGS='{' '.join(parts)}'" if parts else "")

    def off(self, names: Iterable[str]) -> Self:
        """Without kinds of fault and of weather, or single faults, by their names."""
        gone = set(names)
        unknown = gone - {*Fault, *Weather, *(event.name for event in self.events())}
        if unknown:
            raise ValueError(f"not in the plan of seed {self.seed}: {', '.join(sorted(unknown))}")
        return replace(
            self, faults=frozenset(f for f in self.faults if f not in gone),
            weather=frozenset(w for w in self.weather if w not in gone),
            skipped=self.skipped | {name for name in gone if "." in name},
        )  # fmt: skip
