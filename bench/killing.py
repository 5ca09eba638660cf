"""A crawl in a real process that is killed, and the moments at which it is: seeded, uniform in time, printed.

Only processes that were started here are killed, by their pid.
"""

import os
import random
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from bench.crawling import Said, crawl_arguments, said
from bench.disk import Disk
from bench.measure import descendants
from bench.synthweb import ROOT, Missing
from frontlog.avro.errors import ConfigError
from frontlog.processors import errands
from frontlog.replay.folder import ShardRef, open_shard, shards_of
from frontlog.state import keys
from frontlog.state.tables import Tables
from frontlog.streams.topics import Role

ORPHAN_S = 10.0
END_S = 600.0
"""How long a crawl that nobody kills may take."""
LEAVE_BYTES_MAX = 512 << 10
FULL_S = 20.0
"""How soon a crawl must say that there is no room."""


class Setup(NamedTuple):
    """What every start of a crawl has in common. Snapshots and output lie in `scratch`."""

    folder: Path
    seeds: Path
    settings: tuple[str, ...]
    scratch: Path
    program: tuple[str, ...]
    environment: dict[str, str]


class Open(NamedTuple):
    """Leases that were open when a process died, and the decisions that its log held. `own`: those that the process
    had given itself; the others were left by one before it, which it had not come to release."""

    pages: int
    errands: int
    own: int
    decisions: int


class Kill(NamedTuple):
    """One kill. `after_s`: seconds from the start of the process; `dead_ns`: by when it was dead, ns since the epoch.
    `snapshot`: a copy of the folder as it was left. `what`: what went on besides, such as a full disk."""

    number: int
    after_s: float
    left: Open
    snapshot: Path | None
    faults: list[str]
    dead_ns: int
    what: str = ""

    def line(self) -> str:
        """For people."""
        count = self.left.pages + self.left.errands
        leases = f"{count} leases open ({self.left.own} of its own)" if count else "no lease open"
        return (
            f"kill {self.number}: {self.after_s:.3f} s after the start, {leases}, {self.left.decisions:,} decisions"
            f"{self.what}"
        )


class Ran(NamedTuple):
    """How a process ended that was not killed."""

    code: int
    said: Said
    seconds: float


def start(setup: Setup, number: int) -> subprocess.Popen[bytes]:
    """Start the crawl, or go on with it."""
    command = [*setup.program, *crawl_arguments(setup.folder, setup.seeds, 0, setup.settings)]
    with output(setup, number).open("wb") as out:
        return subprocess.Popen(
            command, cwd=ROOT, env=setup.environment, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT
        )  # fmt: skip


def output(setup: Setup, number: int) -> Path:
    """Where a start's output goes."""
    return setup.scratch / f"run-{number}.out"


def wait(process: subprocess.Popen[bytes], seconds: float) -> bool:
    """Wait for the end; False: it still runs."""
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    return True


def finish(setup: Setup, number: int) -> Ran:
    """Run to the end, undisturbed. Raises Missing when it takes too long."""
    began = time.monotonic()
    process = start(setup, number)
    if not wait(process, END_S):
        kill(process)
        raise Missing(
            f"the crawl did not end within {END_S:.0f} s:\n{said(output(setup, number)).other[-2_000:]}"
        )
    return Ran(process.returncode, said(output(setup, number)), time.monotonic() - began)


def kill(process: subprocess.Popen[bytes]) -> list[str]:
    """kill -9, and wait until its parsers are gone as well; those that stay are a fault. Nothing if it has ended."""
    family = [pid for pid in descendants(process.pid) if pid != process.pid]
    process.kill()
    process.wait()
    end = time.monotonic() + ORPHAN_S
    while (alive := [pid for pid in family if _lives(pid)]) and time.monotonic() < end:
        time.sleep(0.01)
    return [f"process {pid}, started by the killed one, lives on" for pid in alive]


def _lives(pid: int) -> bool:
    """Whether a process runs; one that only waits to be asked for its end doesn't."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def open_leases(folder: Path, pid: int) -> Open:
    """What the tables hold after a kill of the process `pid`; nothing when it was killed before there was a store."""
    try:
        parts = [_leases_of(ref, pid) for ref in shards_of(folder)]
    except ConfigError:
        return Open(0, 0, 0, 0)
    return Open(*(sum(column) for column in zip(*parts, strict=True)))


def _leases_of(ref: ShardRef, pid: int) -> Open:
    with open_shard(ref) as shard, shard.store.begin() as txn:
        decisions = shard.head().seq
        if ref.role is not Role.FRONTIER:
            return Open(0, 0, 0, decisions)
        tables = Tables(txn)
        found = [key for key, _ in tables.leases.scan()]
        pages = sum(key[8] == keys.LEASE_URL for key in found)
        own = sum(f"/{pid}/" in _holder_of(tables, key) for key in found)
    return Open(pages, len(found) - pages, own, decisions)


def _holder_of(tables: Tables, key: bytes) -> str:
    """The process that a lease was given to."""
    if key[8] == keys.LEASE_URL:
        url = tables.urls.get(key[9:])
        return url.lease_owner if url is not None else ""
    host = tables.hosts.get(key[9:])
    errand = errands.unpack(host.errand) if host is not None else None
    return errand.owner if errand is not None else ""


def snapshot(setup: Setup, number: int) -> Path | None:
    """A copy of what the killed process left."""
    if not setup.folder.exists():
        return None
    into = setup.scratch / f"kill-{number}"
    shutil.copytree(setup.folder, into, ignore=shutil.ignore_patterns("ballast"))
    return into


def kill_once(setup: Setup, number: int, moment_s: float) -> Kill | Ran:
    """Start, kill at the moment, keep a copy. A crawl that ended before its moment is returned as such."""
    began = time.monotonic()
    process = start(setup, number)
    if wait(process, moment_s):
        return Ran(process.returncode, said(output(setup, number)), time.monotonic() - began)
    after_s = time.monotonic() - began
    return _left(setup, number, process, after_s, kill(process))


def _left(
    setup: Setup,
    number: int,
    process: subprocess.Popen[bytes],
    after_s: float,
    faults: list[str],
    what: str = "",
) -> Kill:
    dead_ns = time.time_ns()
    copy = snapshot(setup, number)
    left = open_leases(copy, process.pid) if copy is not None else Open(0, 0, 0, 0)
    return Kill(number, after_s, left, copy, faults, dead_ns, what)


def fill_once(setup: Setup, number: int, moment_s: float, disk: Disk, chance: random.Random) -> Kill | Ran:
    """Start, fill the disk at the moment, wait until the crawl says that there is no room. Then one of three: free it, and
    kill once it has gone on; kill, then free it; kill, start once more while there is no room, then free it."""
    leave_bytes, hold_s, how = (
        chance.randrange(0, LEAVE_BYTES_MAX),
        chance.uniform(0.2, 2.0),
        chance.randrange(3),
    )
    began = time.monotonic()
    process = start(setup, number)
    if wait(process, moment_s):
        return Ran(process.returncode, said(output(setup, number)), time.monotonic() - began)
    disk.fill(leave_bytes)
    after_s = time.monotonic() - began
    what = f"; the disk was filled to {leave_bytes} bytes and stayed so for {hold_s:.2f} s"
    try:
        told = _until(lambda: process.poll() is not None or full_was_said(said(output(setup, number))))
        faults = [] if told else [f"the disk was full for {FULL_S:.0f} s and the crawl did not say so"]
        time.sleep(hold_s)
        faults += _ended_badly(setup, number, process, "when the disk was full")
        if how == 0:
            disk.free()
            faults += _went_on(setup, number, process)
            return _left(
                setup, number, process, after_s, faults, f"{what}; with room again it went on, and was killed"
            )
        faults += kill(process)
        found = _left(setup, number, process, after_s, faults, f"{what}; it was killed then")
        return found._replace(what=f"{found.what}; {_again_while_full(setup, number)}") if how == 2 else found
    finally:
        disk.free()


def _ended_badly(setup: Setup, number: int, process: subprocess.Popen[bytes], when: str) -> list[str]:
    if process.poll() in (None, 0):
        return []
    return [
        f"the crawl ended with code {process.returncode} {when}: {said(output(setup, number)).other[-2_000:]}"
    ]


def _went_on(setup: Setup, number: int, process: subprocess.Popen[bytes]) -> list[str]:
    """With room again a crawl goes on by itself, or comes to its end; then it is killed."""
    before = len(said(output(setup, number)).events)

    def moved() -> bool:
        later = said(output(setup, number)).events[before:]
        return process.poll() is not None or sum(e.get("phase") == "crawling" for e in later) > 1

    faults = [] if _until(moved) else ["there was room again, and the crawl did not go on"]
    faults += _ended_badly(setup, number, process, "with room again")
    return faults + kill(process)


def _again_while_full(setup: Setup, number: int) -> str:
    """A start without room may wait or refuse in words; it must not break anything."""
    process = start(setup, 1_000 + number)
    if wait(process, 4.0):
        last = (said(output(setup, 1_000 + number)).other.splitlines() or ["nothing"])[-1]
        return f"a start while it was full ended with code {process.returncode}: {last[:300]}"
    kill(process)
    return "a start while it was full waited for room, and was killed as well"


def full_was_said(found: Said) -> bool:
    """Whether a progress line says that there is no room."""
    return any(e.get("phase") == "store_full" for e in found.events)


def _until(condition: Callable[[], bool]) -> bool:
    end = time.monotonic() + FULL_S
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.05)
    return False


def environment() -> dict[str, str]:
    """What a crawl is started with when nothing special is wanted."""
    return dict(os.environ)
