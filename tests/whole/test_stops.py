"""Signals, by the command line: once in order, twice at once, SIGTERM like once; each time the crawl goes on later."""

import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from frontlog.avro.enums import State
from frontlog.errors import STOPPED_NOW
from frontlog.interrupt import FIRST, SECOND
from frontlog.streams.summary import End
from support.crawls import QUICK, Running, await_death, children, crawl, fetched, leased, options, prove, urls
from support.site import Answer, Site, fill

SLOW_S = 0.8
WORDS = options(QUICK | {"scope.mode": "any"})


def slow_web(site: Site, delay_s: float = SLOW_S) -> set[str]:
    """Two hosts; the first answers one of its pages slowly, the first time that it is asked for it."""
    everything = fill(site, 5)
    good = site.pages[0, "/1"]
    assert isinstance(good, Answer)
    site.put(0, "/1", lambda asked: good._replace(delay_s=delay_s if asked.nth == 1 else 0))
    return everything


def while_slow(site: Site, running: Running, act: Callable[[], None]) -> float:
    """Act while the slow page is in flight; when that was."""
    end = time.monotonic() + 30
    while "/1" not in site.paths(0):
        assert running.is_running and time.monotonic() < end, running.errors
        time.sleep(0.002)
    act()
    return time.monotonic()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_one_signal_finishes_what_is_in_flight(tmp_path: Path, number: signal.Signals) -> None:
    folder = tmp_path / "c"
    with Site(hosts=2) as site:
        everything = slow_web(site)
        with Running(folder, *WORDS, site.url()) as running:
            at = while_slow(site, running, lambda: running.send(number))
            workers = children(running.pid)
            assert running.wait() == 0, running.errors
            await_death(workers)
        assert FIRST in running.errors and SECOND not in running.errors
        assert running.summary["end"] == End.STOPPED
        assert site.url(0, "/1") in fetched(folder) and len(fetched(folder)) < len(everything)
        late = [one.path for one in site.asked() if one.began_s > at + 0.3]
        assert late == [], "nothing more was claimed"
        assert not any(row.state is State.LEASED for row in urls(folder).values())
        assert crawl(folder, scope__mode="any").end is End.DONE
    assert fetched(folder) == everything
    assert set(leased(folder).values()) == {1}
    prove(folder)


def test_a_second_signal_stops_at_once(tmp_path: Path) -> None:
    folder = tmp_path / "c"
    with Site(hosts=2) as site:
        everything = slow_web(site, 10)
        with Running(folder, *WORDS, site.url()) as running:
            while_slow(site, running, lambda: running.send(signal.SIGINT))
            until_said(running, FIRST)
            running.send(signal.SIGINT)
            at = time.monotonic()
            workers = children(running.pid)
            assert running.wait() == STOPPED_NOW, running.errors
            assert time.monotonic() - at < 5
            await_death(workers)
        assert SECOND in running.errors and running.summary["end"] == End.STOPPED_NOW
        assert crawl(folder, scope__mode="any").end is End.DONE
    assert fetched(folder) == everything
    prove(folder)


def until_said(running: Running, text: str) -> None:
    end = time.monotonic() + 10
    while text not in running.errors:
        assert time.monotonic() < end, running.errors
        time.sleep(0.005)
