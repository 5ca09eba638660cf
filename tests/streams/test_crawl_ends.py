"""How a run ends, and how the next one goes on: pages that were asked for, patience, stops, seeds."""

import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from frontlog.avro.enums import Reason, State
from frontlog.avro.errors import ConfigError, FrontlogError
from frontlog.streams import shard
from frontlog.streams.embedded import EmbeddedHost
from frontlog.streams.seeds import waiting
from frontlog.streams.stop import StopSignal
from frontlog.streams.summary import End
from support.crawls import (
    assert_polite,
    crawl,
    fetched,
    leased,
    prove,
    urls,
)
from support.site import Answer, Asked, Site, fill, page


def test_no_more_pages_than_were_asked_for_and_the_rest_comes_later(tmp_path: Path) -> None:
    folder = tmp_path / "c"
    with Site(hosts=3) as site:
        everything = fill(site, 6)
        first = crawl(folder, site.url(), scope__mode="any", crawl__pages_max=7)
        assert first.end is End.PAGES_MAX and len(fetched(folder)) == 7
        assert len(site.paths()) == 7
        again = crawl(folder, scope__mode="any", crawl__pages_max=7)
        assert again.end is End.PAGES_MAX and len(site.paths()) == 7
        assert crawl(folder, scope__mode="any").end is End.DONE
    assert fetched(folder) == everything
    assert set(
        Counter((one.host, one.path) for one in site.asked() if one.path != "/robots.txt").values()
    ) == {1}
    prove(folder)


def test_a_crawl_that_is_done_asks_for_nothing_more(tmp_path: Path) -> None:
    with Site() as site:
        everything = fill(site, 3)
        crawl(tmp_path / "c", site.url())
        before = len(site.asked())
        for seeds in ((), (site.url(),)):
            summary = crawl(tmp_path / "c", *seeds)
            assert summary.end is End.DONE and summary.pages_run == 0
        assert len(site.asked()) == before
    assert fetched(tmp_path / "c") == everything


def test_an_empty_crawl_says_what_it_lacks(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="nothing was ever given to this crawl; give a URL"):
        crawl(tmp_path / "c")
    with pytest.raises(ConfigError, match="nothing was ever given"):
        crawl(tmp_path / "c")


def test_stopping_finishes_what_is_in_flight_and_going_on_does_the_rest(tmp_path: Path) -> None:
    folder, stop = tmp_path / "c", StopSignal()

    def slow(asked: Asked) -> Answer:
        stop.request()
        return page("slow")._replace(delay_s=0.3)

    with Site(hosts=2) as site:
        everything = fill(site, 5)
        site.put(0, "/1", slow)
        summary = crawl(folder, site.url(), scope__mode="any", stop=stop)
        assert summary.end is End.STOPPED
        assert site.url(0, "/1") in fetched(folder), "what was in flight is finished"
        assert 0 < len(fetched(folder)) < len(everything)
        assert not any(row.state is State.LEASED for row in urls(folder).values())
        assert crawl(folder, scope__mode="any").end is End.DONE
    assert fetched(folder) >= everything - {site.url(0, f"/{n}") for n in range(2, 6)}
    assert set(Counter(leased(folder)).values()) == {1}
    assert_polite(site)
    prove(folder)


def test_stopping_now_leaves_leases_that_the_next_start_gives_back(tmp_path: Path) -> None:
    folder, stop = tmp_path / "c", StopSignal()

    def slow(asked: Asked) -> Answer:
        if asked.nth == 1:
            stop.request()
            stop.request()
        return page("slow")._replace(delay_s=3 if asked.nth == 1 else 0)

    with Site() as site:
        everything = fill(site, 3)
        answer = site.pages[0, "/1"]
        assert isinstance(answer, Answer)
        body = answer.body
        site.put(0, "/1", lambda asked: slow(asked)._replace(body=body))
        began = time.monotonic()
        assert crawl(folder, site.url(), stop=stop).end is End.STOPPED_NOW
        assert time.monotonic() - began < 3
        assert [url for url, row in urls(folder).items() if row.state is State.LEASED] == [site.url(0, "/1")]
        assert crawl(folder).end is End.DONE
    assert fetched(folder) == everything
    assert leased(folder)[site.url(0, "/1")] == 2
    prove(folder)


def test_what_waits_for_longer_than_patience_ends_the_run(tmp_path: Path) -> None:
    with Site() as site:
        site.put(0, "/", Answer(b"", 503, headers=(("Retry-After", "3600"),)))
        summary = crawl(tmp_path / "c", site.url())
    assert summary.end is End.PATIENCE
    assert summary.waiting[0].reason is Reason.UNAVAILABLE and summary.waiting[0].until_ms > 0


def test_more_seeds_than_a_queue_holds_are_all_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shard, "OFFERED_MAX", 16)
    with Site(hosts=2) as site:
        seeds = [site.url(host, f"/s{n}") for host in range(2) for n in range(40)]
        crawl(tmp_path / "c", *seeds, crawl__pages_max=1)
    assert set(seeds) <= set(urls(tmp_path / "c"))
    assert waiting(tmp_path / "c") == []


def test_seeds_wait_in_the_folder_until_the_log_has_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "c"
    with Site() as site:
        everything = fill(site, 2)

        def fail(self: Any) -> None:
            raise FrontlogError("a start that fails")

        with monkeypatch.context() as patch:
            patch.setattr(EmbeddedHost, "open", fail)
            with pytest.raises(FrontlogError, match="a start that fails"):
                crawl(folder, site.url())
        assert waiting(folder) == [site.url()]
        assert crawl(folder).end is End.DONE
    assert fetched(folder) == everything
    assert waiting(folder) == []


def test_a_seed_that_is_no_url_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="give an absolute http or https URL"):
        crawl(tmp_path / "c", "http://h.example/" + "x" * 3_000)
    assert waiting(tmp_path / "c") == [] and not (tmp_path / "c" / "log").exists()
