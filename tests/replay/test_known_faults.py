"""Faults that `verify` found in crawls: each test says what should be.

One that is not mended yet has a mark of expected failure, which is strict: once it is mended the mark is taken away.
"""

from pathlib import Path

import pytest

from frontlog.avro.enums import State
from frontlog.avro.errors import MapFull
from frontlog.state.store import Txn
from support.driver import Driver
from support.faults_machines import PARTITIONS, QUICK, A, late, pages
from support.looking import found_wrong
from support.web import Page


def test_a_page_that_came_with_a_late_result_is_taken_back_when_it_is_gone(tmp_path: Path) -> None:
    """The lease ran out, the page is given out all the same (content knows no fences), and the next fetch finds it gone."""
    with Driver(tmp_path, partitions=PARTITIONS, web=pages(A, 1), settings=QUICK) as crawl:
        late(crawl, f"{A}/0", then=Page(status=410))
        assert crawl.state(f"{A}/0") is State.GONE
    assert found_wrong(tmp_path) == {}


def test_noting_deliveries_survives_a_map_that_fills(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Driver(tmp_path, partitions=1) as crawl:
        shard = crawl.frontier(0)
        honest = shard.store.begin
        failures = [MapFull("full")]

        def begin(*, write: bool = False) -> Txn:
            if write and failures:
                raise failures.pop()
            return honest(write=write)

        monkeypatch.setattr(shard.store, "begin", begin)
        shard.settle_outbox()
