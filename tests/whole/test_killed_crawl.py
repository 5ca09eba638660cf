"""Crawls that are killed, at any moment and at every step, and go on: nothing is lost, doubled or hurried."""

import random
import signal
import time
from collections import Counter
from pathlib import Path

import pytest

from frontlog.avro.enums import State, Topic
from frontlog.avro.events import Document, Fetched
from frontlog.streams.summary import End
from support.crawls import (
    GAP_MS,
    QUICK,
    Running,
    await_death,
    children,
    crawl,
    events,
    fetched,
    given_back,
    here,
    options,
    prove,
    transitions,
    until,
)
from support.killed import CODE, crawl_and_die, forked_crawl
from support.site import Answer, Site, fill


def assert_whole(folder: Path, site: Site, everything: set[str], gap_ms: int = GAP_MS) -> None:
    """What must hold however often the crawl was killed."""
    assert fetched(folder) == everything
    back = given_back(folder)
    asked = Counter(site.url(one.host, one.path) for one in site.asked() if one.path != "/robots.txt")
    for url in everything:
        assert asked[url] <= 1 + back[url], f"{url} was asked for without its lease being given back"
    came = Counter(one.url for one in transitions(folder) if one.to_state is State.FETCHED)
    assert came == dict.fromkeys(everything, 1)
    outputs = [one for one in events(folder, Topic.FETCHED) if isinstance(one, Fetched)]
    documents = [one for one in events(folder, Topic.DOCUMENTS) if isinstance(one, Document)]
    assert {one.url for one in outputs} == everything
    assert Counter(one.event_id for one in outputs) == dict.fromkeys((one.event_id for one in documents), 1)
    for host in range(site.hosts):
        assert all(gap >= gap_ms / 1_000 - 0.0015 for gap in site.gaps_s(host)), host
    prove(folder)


@pytest.mark.parametrize(
    ("step", "nth"),
    [
        ("archived", 3), ("candidate", 1), ("candidate", 4), ("discoveries", 3), ("result", 11), ("leased", 1),
        ("leased", 6), ("uncommitted", 27), ("committed", 1), ("committed", 33),
    ],
)  # fmt: skip
def test_a_crawl_that_dies_at_a_step_goes_on_where_it_was(tmp_path: Path, step: str, nth: int) -> None:
    folder = tmp_path / "c"
    with Site(hosts=2) as site:
        everything = fill(site, 4)
        assert crawl_and_die(folder, step, nth, site.url()) == CODE, "it died where it should"
        assert fetched(folder) < everything
        assert crawl(folder, scope__mode="any").end is End.DONE
    assert_whole(folder, site, everything)


def test_a_crawl_killed_five_times_ends_like_one_that_was_not(tmp_path: Path) -> None:
    """The first time before its first request: its seeds are kept."""
    folder, chance = tmp_path / "c", random.Random(7)
    settings = options(QUICK | {"politeness.gap_ms_min": 40, "scope.mode": "any"})
    with Site(hosts=3) as site:
        everything = fill(site, 9)
        for n in range(5):
            words = [*settings, site.url()] if n == 0 else []
            with Running(folder, *words) as running:
                if n == 0:
                    until(lambda: (folder / "owner.lock").exists())
                else:
                    site.await_requests(chance.randint(1, 6))
                workers = children(running.pid)
                assert bool(workers) == (n > 0)
                running.kill()
            assert running.wait() == -signal.SIGKILL
            await_death(workers)
        assert len(fetched(folder)) < len(everything)
        with Running(folder) as running:
            assert running.wait() == 0, running.errors
        assert running.summary["end"] == End.DONE
    assert_whole(folder, site, everything, 40)
    report = here("verify", folder)
    assert report.exit_code == 0, report.output


def test_the_gap_of_a_request_that_was_cut_off_counts_from_the_next_start(tmp_path: Path) -> None:
    """Nobody knows when the killed request ended; the server hears nothing for a whole gap after the restart."""
    folder = tmp_path / "c"
    with Site() as site:
        everything = fill(site, 2)
        front = site.pages[0, "/"]
        assert isinstance(front, Answer)
        site.put(0, "/", lambda asked: front._replace(delay_s=5 if asked.nth == 1 else 0))
        with forked_crawl(folder, site.url(), politeness__gap_ms_min=600) as process:
            until(lambda: site.paths() == ["/"])
            process.kill()
        restarted = time.monotonic()
        assert crawl(folder, politeness__gap_ms_min=600).end is End.DONE
    assert fetched(folder) == everything
    _, again = site.asked(0, "/")
    assert again.began_s - restarted >= 0.6
    assert all(gap >= 0.6 - 0.0015 for gap in site.gaps_s(0)[2:])
