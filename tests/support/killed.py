"""A crawl that ends its own process at a chosen step, as kill -9 would.

Steps: `archived` (a body is durable, nothing is emitted yet), `candidate`, `discoveries`, `result` (that emission is
durable), `leased` (leases are in the log, no fetch has begun), `uncommitted` and `committed` (before and after a commit).
`nth` counts from 1. Processes are forked from a server that has everything imported: starting Python takes longer than
such a crawl.
"""

import multiprocessing
import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

from frontlog.fetch.archive_writer import ArchiveWriter
from frontlog.state.lmdb_store import LmdbTxn
from frontlog.streams import crawl as crawl_module
from frontlog.streams.emitter import ShardEmitter
from support.crawls import crawl

CODE = 9
STEPS = ("archived", "candidate", "discoveries", "result", "leased", "uncommitted", "committed")


class Countdown:
    """Ends the process at the NTH call."""

    def __init__(self, nth: int) -> None:
        self.left = nth

    def __call__(self) -> None:
        self.left -= 1
        if self.left == 0:
            os._exit(CODE)


def after(owner: type, name: str, die: Callable[[], None]) -> None:
    """Die behind a coroutine method."""
    real = getattr(owner, name)

    async def wrapped(*args: Any) -> Any:
        answer = await real(*args)
        die()
        return answer

    setattr(owner, name, wrapped)


def before(owner: type, name: str, die: Callable[[], None]) -> None:
    """Die in front of a method."""
    real = getattr(owner, name)

    def wrapped(*args: Any) -> Any:
        die()
        return real(*args)

    setattr(owner, name, wrapped)


def behind(owner: type, name: str, die: Callable[[], None]) -> None:
    """Die behind a method."""
    real = getattr(owner, name)

    def wrapped(*args: Any) -> Any:
        answer = real(*args)
        die()
        return answer

    setattr(owner, name, wrapped)


def arm(step: str, nth: int) -> None:
    die = Countdown(nth)
    if step == "archived":
        after(ArchiveWriter, "store", die)
    elif step in ("candidate", "discoveries", "result"):
        after(ShardEmitter, "content" if step == "candidate" else step, die)
    elif step == "leased":
        before(crawl_module._Run, "_begin", die)  # pyright: ignore[reportPrivateUsage]
    elif step == "uncommitted":
        before(LmdbTxn, "commit", die)
    else:
        assert step == "committed", step
        behind(LmdbTxn, "commit", die)


def _crawl(folder: str, step: str, nth: int, seeds: tuple[str, ...], settings: dict[str, object]) -> None:
    if step:
        arm(step, nth)
    crawl(Path(folder), *seeds, **settings)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def _process(*args: object) -> ForkServerProcess:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    return context.Process(target=_crawl, args=args)


def crawl_and_die(folder: Path, step: str, nth: int, *seeds: str) -> int | None:
    """Crawl in a process that dies at a step; its exit code, CODE if it came to that step."""
    process = _process(str(folder), step, nth, seeds, {"scope__mode": "any"})
    process.start()
    process.join(30)
    return process.exitcode


@contextmanager
def forked_crawl(folder: Path, *seeds: str, **settings: object) -> Generator[ForkServerProcess]:
    """A crawl in a process that can be killed; its end is waited for behind the block."""
    process = _process(str(folder), "", 0, seeds, settings)
    process.start()
    try:
        yield process
    finally:
        process.kill()
        process.join()
