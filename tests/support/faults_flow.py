"""Machines that are wrong in what they take and give: inputs overlooked, outputs kept or given out, digests, time."""

# Mutants are made from within.
# pyright: reportPrivateUsage=false

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from frontlog.avro.enums import State, Topic, Verdict
from frontlog.avro.events import (
    ContentVerdict,
    Discovery,
    FetchResult,
)
from frontlog.processors import (
    canonical,
    content,
    inputs,
    outputs,
    results,
)
from frontlog.processors.context import Context, Decided
from frontlog.state.digest import Digest
from frontlog.state.tables import Tables
from support import fetcher
from support.driver import Driver
from support.faults import always, fault
from support.faults_machines import BLOCK, PARTITIONS, QUICK, A, pages, run

Patch = pytest.MonkeyPatch


@fault("lost", forged=False)
def a_result_overlooked(folder: Path, patch: Patch) -> None:
    """One result is taken and nothing comes of it."""
    honest = results.decide
    dropped: list[str] = []

    def decide(view: Tables, result: FetchResult, ctx: Context) -> Decided:
        if result.url == f"{A}/1" and dropped in ([], [result.event_id]):
            dropped[:] = [result.event_id]
            return Decided()
        return honest(view, result, ctx)

    patch.setattr(results, "decide", decide)
    run(folder, pages(A, 3), f"{A}/")


@fault("lost", forged=False)
def a_link_overlooked(folder: Path, patch: Patch) -> None:
    """A link is taken and does not become known."""
    from frontlog.processors import discoveries

    honest = discoveries._one

    def one(*args: Any) -> Decided | None:
        found = next(arg for arg in args if isinstance(arg, canonical.Identity))
        return None if found.identity.endswith("/1") else honest(*args)

    patch.setattr(discoveries, "_one", one)
    run(folder, pages(A, 3), f"{A}/")


@fault("routing", forged=False)
def everything_is_ours(folder: Path, patch: Patch) -> None:
    """An input that came to a wrong partition is decided there."""
    patch.setattr(inputs, "home", always(None))
    with Driver(folder, partitions=PARTITIONS, web=pages(A, 2), settings=QUICK) as crawl:
        crawl.seed(f"{A}/")
        found = next(one for one in _offered(crawl) if isinstance(one, Discovery))
        away = (crawl.partition_of(f"{A}:80") + 1) % crawl.partitions
        crawl.pipe(Topic.DISCOVERIES, found, away)
        crawl.step(0)


def _offered(crawl: Driver) -> Iterator[object]:
    """What waits to be decided."""
    for shard in crawl.shards.values():
        for waiting in shard._offered:
            yield waiting.offered.event


@fault("outputs", forged=False)
def given_out_though_blocked(folder: Path, patch: Patch) -> None:
    """A page that was blocked while content looked at it is given out."""
    patch.setattr(outputs, "WITHHELD", frozenset[State]())
    with Driver(folder, partitions=PARTITIONS, web=pages(A, 1), settings=QUICK) as crawl:
        crawl.seed(f"{A}/")
        crawl.run(until_ms=crawl.clock.at_ms + 1_010)
        crawl.control(BLOCK, crawl.partition_of(f"{A}:80"))
        crawl.run(until_ms=crawl.clock.at_ms + 30_000)


@fault("outputs", forged=False)
def not_given_out(folder: Path, patch: Patch) -> None:
    """A document is accepted and kept to ourselves."""
    honest = outputs.decide

    def decide(view: Tables, event: ContentVerdict, ctx: Context) -> Decided:
        return Decided() if event.candidate.url == f"{A}/0" else honest(view, event, ctx)

    patch.setattr(outputs, "decide", decide)
    run(folder, pages(A, 2), f"{A}/")


@fault("removed", forged=False)
def not_taken_back(folder: Path, patch: Patch) -> None:
    """Pages of a host that was blocked are not taken back."""
    patch.setattr(outputs, "removed", always([]))
    with Driver(folder, partitions=PARTITIONS, web=pages(A, 2), settings=QUICK) as crawl:
        crawl.seed(f"{A}/")
        crawl.run()
        crawl.control(BLOCK, crawl.partition_of(f"{A}:80"))
        crawl.run(until_ms=crawl.clock.at_ms + 30_000)


@fault("documents", forged=False)
def every_text_is_new(folder: Path, patch: Patch) -> None:
    """Content sees no duplicates."""
    patch.setattr(content, "_verdict", always((Verdict.NEW, "")))
    web = pages(A, 2)
    web.pages[f"{A}/1"] = web.pages[f"{A}/0"]
    run(folder, web, f"{A}/")


@fault("answers", forged=False)
def content_keeps_silent(folder: Path, patch: Patch) -> None:
    """A document is decided and the page's owner never told."""
    honest = content.decide

    def decide(*args: Any) -> Decided:
        decided = honest(*args)
        return Decided(decisions=decided.decisions)

    patch.setattr(content, "decide", decide)
    run(folder, pages(A, 1), f"{A}/")


@fault("left_out", forged=False)
def a_link_left_out_that_nobody_knows(folder: Path, patch: Patch) -> None:
    """A page's result says that a link of it was known; it was not."""
    honest = fetcher._page

    def page(*args: Any) -> Any:
        found = honest(*args)
        result = found.result
        if result.parse is None:
            return found
        return found._replace(result=replace(result, parse=replace(result.parse, links_known=b"8 bytes.")))

    patch.setattr(fetcher, "_page", page)
    run(folder, pages(A, 1), f"{A}/")


@fault("digests", forged=False)
def digests_left_behind(folder: Path, patch: Patch) -> None:
    """A row changes and its table's digest doesn't. (The build that verifies is whole.)"""
    with patch.context() as only:
        only.setattr(Digest, "remove", always(None))
        run(folder, pages(A, 1), f"{A}/")


@fault("times", forged=False)
def back_in_time(folder: Path, patch: Patch) -> None:
    """A clock that goes back takes the log back with it."""
    from frontlog.streams import shard

    def now_alone(now_ms: int, _last_ms: int) -> int:
        return now_ms

    with Driver(folder, partitions=PARTITIONS, web=pages(A, 3), settings=QUICK) as crawl:
        crawl.seed(f"{A}/")
        crawl.run()
        patch.setattr(shard, "max", now_alone, raising=False)
        crawl.clock.advance(-1_000)
        crawl.seed(f"{A}/again")
        crawl.step(0)
