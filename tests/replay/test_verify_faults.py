"""Every check of `verify` catches at least one fault that no other check sees; and no fault goes unseen.

Faults are planted in two ways: a machine is changed and a real crawl runs on it (and stays changed while `verify` folds, as
in a build with that bug), or the log of an honest crawl is rewritten by a forger who makes all else fit.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from frontlog.avro.codec import decode, encode
from frontlog.avro.enums import Reason, State, Topic, Verdict
from frontlog.avro.events import (
    CursorMoved,
    Discovery,
    Event,
    FetchResult,
    HostTransition,
    Reject,
    Transition,
)
from frontlog.processors import (
    claims,
    content,
    hosts,
    inputs,
    outputs,
    partition,
    policy,
    politeness,
    results,
    robots_policy,
    scope,
    urls,
)
from frontlog.processors.context import Context, Decided
from frontlog.processors.settings import Politeness, Scope, Settings
from frontlog.replay.folder import shards_of
from frontlog.replay.verify import CATALOGUE
from frontlog.state import head as heads
from frontlog.state import keys
from frontlog.state.catalogue import LOG, STORE_TABLES
from frontlog.state.digest import Digest
from frontlog.state.lmdb_store import LmdbStore
from frontlog.state.tables import Tables
from frontlog.streams.embedded_log import EmbeddedLog
from frontlog.streams.records import NewRecord
from frontlog.streams.topics import TOPIC_IDS
from support.driver import Driver
from support.forge import Forgery, forge
from support.looking import found_wrong, small_web
from support.web import Page, Robots, Web

Plant = Callable[[Path, pytest.MonkeyPatch], None]
Patch = pytest.MonkeyPatch
A, B, C = "http://a.example", "http://b.example", "http://c.example"
SHARD = "frontier-2"
QUICK = Settings(scope=Scope(mode="any"), politeness=Politeness(gap_ms_min=1_000, gap_factor=0.0))


@dataclass(frozen=True)
class Fault:
    """Something that must not be. `forged`: `plant` changes an honest crawl; else it makes the crawl."""

    check: str
    plant: Plant
    forged: bool
    deep: bool = False
    alone: bool = True

    @property
    def name(self) -> str:
        return f"{self.check}-{self.plant.__name__}"


FAULTS: list[Fault] = []


def fault(check: str, *, forged: bool, deep: bool = False, alone: bool = True) -> Callable[[Plant], Plant]:
    """A fault that `check` must find; no other check may, unless it is not `alone`."""

    def note(plant: Plant) -> Plant:
        FAULTS.append(Fault(check, plant, forged, deep, alone))
        return plant

    return note


@pytest.mark.parametrize("one", [f for f in FAULTS], ids=lambda f: f.name)
def test_a_planted_fault_is_found(one: Fault, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: Patch) -> None:
    ...


# --- machines that are wrong -------------------------------------------------------------------------------------


def run(folder: Path, web: Web, *seeds: str, settings: Settings = QUICK, minutes: int = 5) -> None:
    with Driver(folder, web=web, settings=settings, archive=True) as crawl:
        crawl.seed(*seeds)
        crawl.run(until_ms=crawl.clock.at_ms + 60_000 * minutes)


def pages(base: str, count: int, **facts: Any) -> Web:
    """One host with `count` pages, all linked from its home page."""
    web = Web()
    links = tuple(f"{base}/{n}" for n in range(count))
    web.pages[f"{base}/"] = Page(text="home", links=links)
    web.pages |= {f"{base}/{n}": Page(text=f"page {n}", **facts) for n in range(count)}
    return web
