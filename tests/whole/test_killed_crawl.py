"""A crawl that is killed again and again ends with what an unkilled one fetches, asks nobody too soon, and proves it."""

import random
import signal
import time
from functools import partial
from pathlib import Path

from frontlog.avro.enums import State
from support import crawls
from support.crawls import GAP_MS, QUICK, Running, options
from support.site import Answer, Asked, Site, fill, page

HOSTS, PAGES, KILLS = 3, 25, 5
SLACK_S = 0.002
"""The server's clock is read a moment before and after ours."""


def words(site: Site) -> list[str]:
    return [*(site.url(host) for host in range(HOSTS)), *options(QUICK), "--quiet"]


def _moved_on(site: Site, known: int, running: Running) -> bool:
    return len(site.asked()) > known or not running.is_running


def test_killed_five_times_and_resumed_it_has_every_page_and_was_polite(tmp_path: Path) -> None:
    folder = tmp_path / "crawl"
    chance = random.Random(20261130)
    with Site(hosts=HOSTS) as site:
        pages = fill(site, PAGES)
        killed = 0
        moments: list[float] = []
        while killed < KILLS:
            with Running(folder, *words(site)) as running:
                known = len(site.asked())
                crawls.until(partial(_moved_on, site, known, running))
                moments.append(chance.uniform(0.0, 0.35))
                time.sleep(moments[-1])
                assert running.is_running, f"it ended before kill {killed + 1}; moments {moments}"
                running.send(signal.SIGKILL)
                running.wait()
            killed += 1
        with Running(folder, *words(site)) as running:
            assert running.wait() == 0, running.errors
        gaps = {host: site.gaps_s(host) for host in range(HOSTS)}
        asked = site.asked()
    assert crawls.fetched(folder) == pages
    again = {url: n - 1 for url, n in crawls.leased(folder).items() if n > 1}
    back = crawls.given_back(folder)
    assert all(back[url] >= times for url, times in again.items()), (again, back)
    for host, between in gaps.items():
        assert min(between) >= GAP_MS / 1_000 - SLACK_S, (
            f"host {host}: {min(between)} s, killed after {moments}"
        )
    assert len(asked) >= len(pages) + HOSTS
    crawls.prove(folder)
    report = crawls.frontlog("verify", folder)
    assert report.returncode == 0, report.stdout + report.stderr


def test_ctrl_c_finishes_what_is_in_flight_and_the_crawl_goes_on(tmp_path: Path) -> None:
    folder = tmp_path / "crawl"
    with Site(hosts=HOSTS) as site:
        pages = fill(site, PAGES)
        with Running(folder, *words(site)) as running:
            crawls.until(lambda: len(site.asked()) > 12)
            crawls.interrupt(running)
            assert running.wait() == 0, running.errors
        states = {row.state for row in crawls.urls(folder).values()}
        assert State.LEASED not in states and State.ELIGIBLE in states
        with Running(folder, *words(site)) as running:
            assert running.wait() == 0, running.errors
    assert crawls.fetched(folder) == pages
    assert set(crawls.leased(folder).values()) == {1}
    crawls.prove(folder)


def _slow(_: Asked) -> Answer:
    time.sleep(8)
    return page("slow")


def test_ctrl_c_twice_stops_at_once(tmp_path: Path) -> None:
    folder = tmp_path / "crawl"
    with Site(hosts=HOSTS) as site:
        pages = fill(site, PAGES)
        site.put(0, "/2", _slow)
        with Running(folder, *words(site)) as running:
            crawls.until(lambda: site.asked(0, "/2"))
            crawls.interrupt(running)
            time.sleep(0.3)
            began = time.monotonic()
            crawls.interrupt(running)
            assert running.wait() == 130, running.errors
            assert time.monotonic() - began < 5
        site.put(0, "/2", page("slow"))
        with Running(folder, *words(site)) as running:
            assert running.wait() == 0, running.errors
    assert crawls.fetched(folder) >= pages - {site.url(0, "/2")}
    crawls.prove(folder)


def test_a_folder_in_use_is_refused_and_says_by_whom(tmp_path: Path) -> None:
    folder = tmp_path / "crawl"
    with Site(hosts=HOSTS) as site:
        fill(site, PAGES)
        with Running(folder, *words(site)) as running:
            crawls.until(lambda: len(site.asked()) > 3)
            second = crawls.frontlog("crawl", "--out", folder, "--quiet")
            assert second.returncode == 2
            assert str(running.pid) in second.stderr and "in use" in second.stderr
            crawls.interrupt(running)
            assert running.wait() == 0


def test_a_pause_from_another_process_holds_within_a_second_and_over_a_restart(tmp_path: Path) -> None:
    folder = tmp_path / "crawl"
    with Site(hosts=2) as site:
        fill(site, 60, hosts=[0, 1])
        start = [site.url(0), site.url(1), *options(QUICK), "--quiet"]
        with Running(folder, *start) as running:
            crawls.until(lambda: len(site.asked(0)) > 5)
            sent = crawls.frontlog("pause", "--host", site.address(0), "-C", folder, "--reason", "test")
            assert sent.returncode == 0, sent.stderr
            time.sleep(1.0)
            count = len(site.asked(0))
            time.sleep(0.5)
            assert len(site.asked(0)) == count
            crawls.interrupt(running)
            assert running.wait() == 0, running.errors
        with Running(folder, *start) as running:
            running.wait()
        assert len(site.asked(0)) == count
        assert len(site.asked(1)) > count
        assert crawls.frontlog("resume", "--host", site.address(0), "-C", folder).returncode == 0
        with Running(folder, *start) as running:
            assert running.wait() == 0, running.errors
        assert len(site.asked(0)) > count + 20
    crawls.prove(folder)
