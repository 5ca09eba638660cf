"""Work on each shard of a crawl, in this process or in one process a core, with a common progress.

A fold is bound by one core, and shards have nothing in common: so each is a job. Small crawls are done in this
process, since a process that starts costs as much as folding ten thousand decisions.
"""

import multiprocessing
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from typing import Any, TypeVar

from frontlog.replay.shapes import Advance

J = TypeVar("J")
R = TypeVar("R")
Tick = Callable[[int], None]
"""Called with how many records are done since the last call."""
Tell = Callable[[Advance], None]

APART_RECORDS_MIN = 50_000
"""Fewer records than this are not worth a second process."""
TELL_S = 0.2
_counters: Any = None


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run_jobs(
    what: str,
    jobs: Sequence[J],
    work: Callable[[J, Tick], R],
    total: int,
    tell: Tell,
    *,
    processes: int | None = None,
) -> list[R]:
    """`work(job, tick)` for every job; results in the order of the jobs. `work` is a function of a module, `jobs` can be
    pickled. The first error ends it all and is raised."""
    count = min(len(jobs), processes if processes is not None else cores())
    if count < 2 or (processes is None and total < APART_RECORDS_MIN):
        return _here(what, jobs, work, total, tell)
    return _apart(what, jobs, work, total, tell, count)


class _Teller:
    """Says how far it has come, not too often."""

    def __init__(self, what: str, total: int, tell: Tell) -> None:
        self._what = what
        self._total = total
        self._tell = tell
        self._began = self._told = time.monotonic()

    def say(self, done: int, *, last: bool = False) -> None:
        now = time.monotonic()
        if last or now - self._told >= TELL_S:
            self._told = now
            rate = done / max(now - self._began, 1e-3)
            self._tell(Advance(self._what, done, max(self._total, done), rate))


def _here(what: str, jobs: Sequence[J], work: Callable[[J, Tick], R], total: int, tell: Tell) -> list[R]:
    teller = _Teller(what, total, tell)
    done = 0

    def tick(more: int) -> None:
        nonlocal done
        done += more
        teller.say(done)

    results = [work(job, tick) for job in jobs]
    teller.say(done, last=True)
    return results


def _apart(
    what: str, jobs: Sequence[J], work: Callable[[J, Tick], R], total: int, tell: Tell, processes: int
) -> list[R]:
    context = multiprocessing.get_context("spawn")  # an open LMDB environment must not cross a fork
    counters = context.Array("q", len(jobs), lock=False)
    teller = _Teller(what, total, tell)
    with ProcessPoolExecutor(processes, context, initializer=_begin, initargs=(counters,)) as pool:
        futures: list[Future[R]] = [pool.submit(_one, work, job, n) for n, job in enumerate(jobs)]
        left: set[Future[R]] = set(futures)
        while left:
            ended, left = wait(left, timeout=TELL_S, return_when=FIRST_COMPLETED)
            failed = next((f for f in ended if f.exception() is not None), None)
            if failed is not None:
                pool.shutdown(wait=False, cancel_futures=True)
                failed.result()
            teller.say(sum(counters))
        teller.say(sum(counters), last=True)
        return [future.result() for future in futures]


def _begin(counters: Any) -> None:
    global _counters
    _counters = counters


def _one(work: Callable[[J, Tick], R], job: J, number: int) -> R:
    def tick(more: int) -> None:
        _counters[number] += more

    return work(job, tick)
