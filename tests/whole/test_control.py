"""Operators' commands from other processes, on a crawl that runs: in force within a second, and still after a restart.

Measured where it counts: by the requests that the servers get after a command has ended.
"""

import os
import signal
import time
from itertools import pairwise
from pathlib import Path

from frontlog.avro.enums import Reason
from support.crawls import QUICK, Running, fetched, here, options, prove, until, urls
from support.site import Site, page

HELD_S = 1.0 + 0.5 * (os.getloadavg()[0] > (os.cpu_count() or 1))
"""In force within a second; more where processes wait for a processor."""
GAP_MS = 60


def endless(site: Site, host: int) -> None:
    """A host whose every page leads to the next one."""
    site.put(host, "/", page(f"home {host}", ["/1"]))
    for n in range(1, 1_500):
        site.put(host, f"/{n}", page(f"page {n} of {host}", [f"/{n + 1}"]))


def control(folder: Path, *words: str) -> float:
    """A command to its end; when that was (monotonic, s). It runs here, which is another process than the crawl's."""
    done = here(*words, "-C", folder, "--actor", "tester", "--reason", "a test")
    assert done.exit_code == 0, done.output
    return time.monotonic()


def asked_between(site: Site, host: int, since_s: float, until_s: float) -> int:
    return sum(since_s < one.began_s <= until_s for one in site.asked(host))


def wait_for(site: Site, host: int, more: int = 1) -> None:
    """Until a host got more requests."""
    wanted, end = len(site.asked(host)) + more, time.monotonic() + 15
    while len(site.asked(host)) < wanted:
        assert time.monotonic() < end, f"host {host} is not asked any more"
        time.sleep(0.005)


def test_commands_are_in_force_within_a_second_and_after_a_restart(tmp_path: Path) -> None:
    folder = tmp_path / "c"
    settings = QUICK | {
        "politeness.gap_ms_min": GAP_MS,
        "crawl.patience_ms": 60_000,
        "scope.depth_max": 1_000,
    }
    with Site(hosts=5) as site:
        for host in range(4):
            endless(site, host)
        site.put(4, "/", page("a page that comes later"))
        seeds = [site.url(host) for host in range(4)]
        with Running(folder, *options(settings), *seeds) as running:
            for host in range(4):
                wait_for(site, host, 3)
            paused = control(folder, "pause", "--host", site.address(0))
            blocked = control(folder, "block", "--site", site.address(1))
            slowed = control(folder, "slow", site.address(2), "--gap", "0.7")
            seeded = control(folder, "seed", site.url(4))
            until(lambda: site.asked(4))
            assert site.asked(4)[0].began_s - seeded < HELD_S
            until(lambda: site.url(4) in fetched(folder))  # a page that is under way is not asked for twice
            recrawled = control(folder, "recrawl", site.url(4))
            until(lambda: len(site.asked(4, "/")) == 2)
            assert site.asked(4, "/")[1].began_s - recrawled < HELD_S
            time.sleep(max(0.0, paused + HELD_S + 0.3 - time.monotonic()))
            resumed = control(folder, "resume", "--host", site.address(0))
            wait_for(site, 0)
            back = next(one.began_s for one in site.asked(0) if one.began_s > paused + HELD_S)
            assert back - resumed < HELD_S
            assert back > resumed - 0.1, "nothing came while it was paused"
            everything = control(folder, "pause", "--all")
            time.sleep(HELD_S + 0.4)
            ended = time.monotonic()
            assert [asked_between(site, host, everything + HELD_S, ended) for host in range(5)] == [0] * 5
            assert running.is_running, "it waits for whoever paused it"
            resumed = control(folder, "resume", "--all")
            wait_for(site, 3)
            assert min(one.began_s for one in site.asked(3) if one.began_s > ended) - resumed < HELD_S
            wait_for(site, 2, 2)
            running.send(signal.SIGINT)
            assert running.wait() == 0, running.errors
        assert asked_between(site, 1, blocked + HELD_S, time.monotonic()) == 0
        assert_gap(site, 2, slowed + HELD_S, 0.7)
        restarted = time.monotonic()
        with Running(folder) as running:
            wait_for(site, 3, 15)
            wait_for(site, 2, 2)
            running.send(signal.SIGINT)
            assert running.wait() == 0, running.errors
        assert asked_between(site, 0, restarted, time.monotonic()) > 0
        assert asked_between(site, 1, restarted, time.monotonic()) == 0
        assert_gap(site, 2, restarted, 0.7)
        assert all(gap >= GAP_MS / 1_000 - 0.0015 for host in range(5) for gap in site.gaps_s(host))
    blocked_rows = [row for row in urls(folder).values() if row.reason is Reason.OPERATOR_BLOCK]
    assert blocked_rows and all(site.address(1) in row.url for row in blocked_rows)
    prove(folder)


def assert_gap(site: Site, host: int, since_s: float, gap_s: float) -> None:
    """From a time on no two requests of a host were closer than a gap; there were some."""
    times = [(one.began_s, one.ended_s) for one in site.asked(host) if one.began_s > since_s]
    assert len(times) > 1
    assert all(later[0] - one[1] >= gap_s - 0.0015 for one, later in pairwise(times)), times
