"""What a run costs: processor time and memory of a process with all its descendants, and what else the machine did.

Read from /proc, twice a second or more often. Memory is told apart:

    anonymous    RssAnon: what the program itself holds; only this needs memory that nobody else can have
    mapped       RssFile + RssShmem: pages of files, LMDB's map above all; the kernel takes them back when it wants to

Sums over processes count a page that two of them share twice. A process that lives for less than a sample is missed in
the memory; its processor time is counted by its parent.
"""

import os
import platform
import statistics
import subprocess
import threading
import time
from bisect import bisect_left
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

TICK_S = 1 / os.sysconf("SC_CLK_TCK")
EVERY_S = 0.2
PROC = Path("/proc")
NOISE_SHARE = 0.12
"""Other work of more than this share of a core makes a run noisy."""


class Sample(NamedTuple):
    """A process tree at one moment. Bytes and seconds, summed over its processes."""

    at_ns: int
    cpu_s: float
    anonymous_bytes: int
    mapped_bytes: int
    processes: int


class Ended(NamedTuple):
    """How a command ended. `cpu_s` is user and system time of all its processes, start-up included."""

    code: int
    wall_s: float
    user_s: float
    system_s: float
    samples: list[Sample]
    by_process: dict[str, float]
    """Processor seconds by what a process is; the last sample of each."""

    @property
    def cpu_s(self) -> float:
        return self.user_s + self.system_s

    def peak_anonymous_mb(self) -> float:
        """The most at one moment, all processes together."""
        return max((s.anonymous_bytes for s in self.samples), default=0) / 1e6

    def peak_mapped_mb(self) -> float:
        return max((s.mapped_bytes for s in self.samples), default=0) / 1e6

    def cpu_between(self, start_ns: int, end_ns: int) -> float:
        """Processor seconds between two moments, straight lines between the samples."""
        return _at(self.samples, end_ns) - _at(self.samples, start_ns)


def _at(samples: Sequence[Sample], at_ns: int) -> float:
    i = bisect_left(samples, at_ns, key=lambda s: s.at_ns)
    if i == 0:
        return samples[0].cpu_s
    if i == len(samples):
        return samples[-1].cpu_s
    a, b = samples[i - 1], samples[i]
    return a.cpu_s + (b.cpu_s - a.cpu_s) * (at_ns - a.at_ns) / (b.at_ns - a.at_ns)


def run(
    command: Sequence[str], *, cwd: Path, out: Path, timeout_s: float, env: dict[str, str] | None = None
) -> Ended:
    """Run a command to its end, its output into `out`; one that takes too long is killed with its session (code -9)."""
    began = time.monotonic()
    with out.open("wb") as said:
        process = subprocess.Popen(
            command, cwd=cwd, stdin=subprocess.DEVNULL, stdout=said, stderr=subprocess.STDOUT, env=env,
            start_new_session=True,
        )  # fmt: skip
        sampler = Sampler(process.pid)
        sampler.start()
        while True:
            found, status, usage = os.wait4(process.pid, os.WNOHANG)
            if found:
                process.returncode = os.waitstatus_to_exitcode(status)
                break
            if time.monotonic() - began > timeout_s:
                os.killpg(process.pid, 9)
            time.sleep(0.02)
    wall_s = time.monotonic() - began
    samples, by_process = sampler.end()
    return Ended(process.returncode, wall_s, usage.ru_utime, usage.ru_stime, samples, by_process)


class Sampler(threading.Thread):
    """Samples a process and its descendants until told to end."""

    def __init__(self, pid: int) -> None:
        super().__init__(name="sampler", daemon=True)
        self._pid = pid
        self._over = threading.Event()
        self._samples: list[Sample] = []
        self._by_process: dict[int, tuple[str, float]] = {}

    def run(self) -> None:
        while not self._over.is_set():
            sample = self._take()
            if sample is not None:
                self._samples.append(sample)
            self._over.wait(EVERY_S)

    def _take(self) -> Sample | None:
        at_ns = time.time_ns()
        cpu_s, anonymous, mapped, count = 0.0, 0, 0, 0
        for pid in descendants(self._pid):
            try:
                own_s, reaped_s, name = _cpu(pid)
                a, m = memory_of(pid)
            except (OSError, ValueError, IndexError):
                continue  # it ended meanwhile
            self._by_process[pid] = (name, own_s)
            cpu_s += own_s + reaped_s
            anonymous += a
            mapped += m
            count += 1
        return Sample(at_ns, cpu_s, anonymous, mapped, count) if count else None

    def end(self) -> tuple[list[Sample], dict[str, float]]:
        """Stop; what was sampled, and the processor time by kind of process."""
        self._over.set()
        self.join()
        kinds: dict[str, float] = {}
        for name, cpu_s in self._by_process.values():
            kinds[name] = kinds.get(name, 0.0) + cpu_s
        return self._samples, kinds


def descendants(pid: int) -> list[int]:
    """A process and all that it started, directly or not."""
    found = [pid]
    for one in found:
        try:
            tasks = list((PROC / str(one) / "task").iterdir())
            for task in tasks:
                found += [int(child) for child in (task / "children").read_text(encoding="ascii").split()]
        except OSError:
            continue
    return found


def _cpu(pid: int) -> tuple[float, float, str]:
    """(own, of children that ended, what it is), seconds."""
    stat = (PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    fields = stat.rpartition(")")[2].split()
    own, reaped = int(fields[11]) + int(fields[12]), int(fields[13]) + int(fields[14])
    words = (PROC / str(pid) / "cmdline").read_bytes().decode("utf-8", "replace").split("\0")
    module = words[words.index("-m") + 1] if "-m" in words else Path(words[0] or "?").name
    return own * TICK_S, reaped * TICK_S, module


def memory_of(pid: int | str) -> tuple[int, int]:
    """(anonymous, mapped) resident bytes of a process; "self": of this one."""
    sizes = {"RssAnon": 0, "RssFile": 0, "RssShmem": 0}
    for line in (PROC / str(pid) / "status").read_text(encoding="utf-8", errors="replace").splitlines():
        name, _, value = line.partition(":")
        if name in sizes:
            sizes[name] = int(value.split()[0]) * 1024
    return sizes["RssAnon"], sizes["RssFile"] + sizes["RssShmem"]


# --- the machine -------------------------------------------------------------------------------------------------


class Machine(NamedTuple):
    """Where a run was made, and how busy it was before. `yardstick_ms`: see there."""

    cores: int
    model: str
    memory_gb: float
    kernel: str
    python: str
    load: tuple[float, float, float]
    fsync_ms: float
    file_system: str
    yardstick_ms: float

    def line(self) -> str:
        """One line for people."""
        load = " ".join(f"{one:.2f}" for one in self.load)
        return (
            f"{self.cores} cores ({self.model}), {self.memory_gb:.0f} GB, Linux {self.kernel}, Python {self.python}, "
            f"load before {load}, fdatasync of 4 KB on {self.file_system} {self.fsync_ms:.2f} ms, "
            f"yardstick {self.yardstick_ms:.1f} ms"
        )


def machine(folder: Path) -> Machine:
    """The machine, and the disk that `folder` lies on."""
    info = (PROC / "cpuinfo").read_text(encoding="utf-8", errors="replace")
    models = [line.partition(":")[2].strip() for line in info.splitlines() if line.startswith("model name")]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return Machine(
        len(os.sched_getaffinity(0)), models[0] if models else platform.machine(), memory / 1e9, platform.release(),
        platform.python_version(), os.getloadavg(), _fsync_ms(folder), file_system(folder), yardstick_ms(),
    )  # fmt: skip


def yardstick_ms(times: int = 5) -> float:
    """Processor time of a fixed piece of Python, the best of a few: where it is longer than on an idle machine, so is
    everything else, since a core is shared with other threads or other guests."""
    best = float("inf")
    for _ in range(times):
        began = time.process_time()
        found: dict[str, int] = {}
        for n in range(100_000):
            found[str(n & 1_023)] = n
        best = min(best, time.process_time() - began)
    return best * 1_000


def _fsync_ms(folder: Path, times: int = 50) -> float:
    """The median time of making 4 KB durable. Under a millisecond or so, the disk promises more than it does."""
    path = folder / ".fsync"
    took: list[float] = []
    fd = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        for _ in range(times):
            os.pwrite(fd, os.urandom(4096), 0)
            began = time.perf_counter()
            os.fdatasync(fd)
            took.append(time.perf_counter() - began)
    finally:
        os.close(fd)
        path.unlink()
    return statistics.median(took) * 1_000


def file_system(folder: Path) -> str:
    """The type of the file system that a folder lies on."""
    best = ("", "?")
    for line in (PROC / "self" / "mounts").read_text(encoding="utf-8").splitlines():
        _, point, kind, *_ = line.split(" ")
        inside = folder.resolve().is_relative_to(point)
        if inside and len(point) >= len(best[0]):
            best = (point, kind)
    return best[1]


def busy_s() -> float:
    """Processor seconds that the whole machine has spent."""
    v = [int(x) for x in (PROC / "stat").read_text(encoding="ascii").split("\n", 1)[0].split()[1:]]
    return (sum(v[:3]) + v[5] + v[6] + v[7]) * TICK_S


def wait_quiet(limit_s: float = 8.0) -> None:
    """Wait, not for ever, until the machine was nearly idle for two seconds."""
    end = time.monotonic() + limit_s
    while time.monotonic() < end:
        before = busy_s()
        time.sleep(2)
        if busy_s() - before < 0.2:
            return


def noisy(other_s: float, wall_s: float) -> bool:
    """Whether work that was neither the crawler's nor the server's spoils a run."""
    return other_s > NOISE_SHARE * wall_s + 0.5
