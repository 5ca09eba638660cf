"""Every queue is bounded, a map that fills grows, and one strange page costs only itself."""

import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from frontlog.avro.enums import Reason, State, Topic
from frontlog.avro.events import Candidate
from frontlog.fetch import parser_pool
from frontlog.fetch.files import LocalOut
from frontlog.processors.sites import partition_of
from frontlog.streams import crawl as crawl_module
from frontlog.streams.crawl import run_crawl
from frontlog.streams.stop import StopSignal
from frontlog.streams.summary import End
from support.crawls import (
    config,
    crawl,
    events,
    fetched,
    prove,
    results,
    urls,
)
from support.site import Answer, Counting, Site, fill, page


def test_a_map_that_fills_grows_by_itself(tmp_path: Path) -> None:
    folder = tmp_path / "c"
    with Site(hosts=2) as site:
        everything = fill(site, 12, fan=12)
        for n in range(1, 13):
            answer = site.pages[0, f"/{n}"]
            assert isinstance(answer, Answer)
            more = "".join(f'<a href="/never/{n}/{i}/{"x" * 900}">x</a>' for i in range(25))
            site.put(0, f"/{n}", answer._replace(body=answer.body + more.encode()))
        site.robots(0, "User-agent: *\nDisallow: /never\n")
        summary = run_crawl(
            folder,
            config(scope__mode="any"),
            [site.url()],
            on_progress=lambda _: None,
            stop=StopSignal(),
            map_bytes=1 << 18,
        )
    assert summary.end is End.DONE and fetched(folder) == everything
    assert (
        folder / "log" / f"frontier-{partition_of(site.address(), 4)}" / "data.mdb"
    ).stat().st_size > 1 << 18
    prove(folder)


class Loads:
    """The largest loads that the queues of the runs within the block had."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.most: Counter[str] = Counter()
        self._runs: list[Any] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        real = crawl_module._Run.__init__  # pyright: ignore[reportPrivateUsage]

        def init(run: Any, *args: Any, **kwargs: Any) -> None:
            real(run, *args, **kwargs)
            self._runs.append(run)

        monkeypatch.setattr(crawl_module._Run, "__init__", init)  # pyright: ignore[reportPrivateUsage]

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(0.01):
            for run in self._runs:
                shards = [one.shard.waiting() for one in run.host.runners]
                now = {"slots": run.host.slots.in_use, "tasks": len(run.tasks), "parsers": run.parsers.load}
                now |= {"archive": run.archive.load, "shards": max(shards, default=0)}
                self.most = Counter({name: max(self.most[name], load) for name, load in now.items()})


def busy_web(site: Site, pages: int) -> set[str]:
    """Hosts whose front pages link to everything, so that there is always something to claim."""
    found: set[str] = set()
    for host in range(site.hosts):
        site.put(host, "/", page(f"home {host}", [f"/{n}" for n in range(pages)]))
        found.add(site.url(host))
        for n in range(pages):
            site.put(host, f"/{n}", page(f"page {n} of {host}"))
            found.add(site.url(host, f"/{n}"))
    return found


SLOW_PARSER = (
    "-c",
    "import time\nfrom frontlog.fetch import parse_worker as w\nreal = w.parse\n"
    "def parse(job, known=None):\n    time.sleep(0.06)\n    return real(job, known)\nw.parse = parse\nw.main()",
)


def test_a_slow_parser_slows_fetching_and_fills_no_queue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parser_pool, "PROGRAM", SLOW_PARSER)
    loads = Loads(monkeypatch)
    with Site(hosts=8) as site, loads:
        everything = busy_web(site, 4)
        summary = crawl(
            tmp_path / "c",
            *(site.url(h) for h in range(8)),
            fetch__slots=5,
            politeness__gap_ms_min=0,
            parsers=True,
        )
    assert summary.end is End.DONE and fetched(tmp_path / "c") == everything
    assert loads.most["slots"] <= 5 and loads.most["tasks"] <= 6 and loads.most["parsers"] <= 5
    assert loads.most["parsers"] >= 3, "the parser was the bottleneck"


def test_a_slow_archive_slows_fetching_and_fills_no_queue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = LocalOut.sync

    def slow(self: LocalOut) -> None:
        time.sleep(0.1)
        real(self)

    monkeypatch.setattr(LocalOut, "sync", slow)
    loads = Loads(monkeypatch)
    with Site(hosts=8) as site, loads:
        everything = busy_web(site, 2)
        summary = crawl(
            tmp_path / "c", *(site.url(h) for h in range(8)), fetch__slots=5, politeness__gap_ms_min=0
        )
    assert summary.end is End.DONE and fetched(tmp_path / "c") == everything
    assert loads.most["slots"] <= 5 and loads.most["tasks"] <= 6 and loads.most["archive"] <= 5
    assert loads.most["shards"] <= 50


def test_a_page_that_kills_its_parser_costs_only_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    killer = (
        "import os\nfrom frontlog.fetch import parse_worker as w\nreal = w.parse\n"
        "def parse(job, known=None):\n    b'KILL' in job.body and os.kill(os.getpid(), 9)\n    return real(job, known)\n"
        "w.parse = parse\nw.main()"
    )
    monkeypatch.setattr(parser_pool, "PROGRAM", ("-c", killer))
    with Site(hosts=2) as site:
        everything = fill(site, 4)
        site.put(0, "/4", page("KILL"))
        summary = crawl(tmp_path / "c", site.url(), scope__mode="any", parsers=True)
    assert summary.end is End.DONE
    assert fetched(tmp_path / "c") == everything - {site.url(0, "/4")}
    row = urls(tmp_path / "c")[site.url(0, "/4")]
    assert (row.state, row.reason) == (State.QUARANTINED, Reason.PARSER_LIMIT)
    assert next(one for one in results(tmp_path / "c") if one.url == site.url(0, "/4")).body is not None
    prove(tmp_path / "c")


def test_addresses_that_may_not_be_asked_are_not(tmp_path: Path) -> None:
    with Counting() as server:
        summary = crawl(tmp_path / "c", f"http://127.0.0.1:{server.port}/", fetch__allow_addresses=())
        assert server.connections == 0
    assert summary.end is End.DONE
    assert [row.reason for row in urls(tmp_path / "c").values()] == [Reason.BLOCKED_NETWORK]


def test_a_page_with_too_many_links_and_too_much_of_everything_is_just_a_page(tmp_path: Path) -> None:
    """Attributes of megabytes, thousands of links: every record stays within the bounds of the log."""
    with Site() as site:
        links = "".join(f'<a href="/out/{n}" rel="{"x" * 3_000}">{"é" * 300}</a>' for n in range(700))
        robots = f'<meta name=robots content="{"y" * 500_000}">' * 9
        body = f'<html lang="{"l" * 99_999}"><title>{"t" * 99_999}</title>{robots}'
        body += f'<a href="/1" rel="{"z " * 999_999}">1</a>{links}'
        site.put(0, "/", Answer(body.encode()))
        site.put(0, "/1", page("1"))
        site.robots(0, "User-agent: *\nDisallow: /out\n")
        summary = crawl(
            tmp_path / "c",
            site.url(),
            limits__body_bytes_max=20_000_000,
            limits__decoded_bytes_max=30_000_000,
        )
    assert summary.end is End.DONE and fetched(tmp_path / "c") == {site.url(), site.url(0, "/1")}
    assert sum(row.reason is Reason.ROBOTS_DENIED for row in urls(tmp_path / "c").values()) == 700
    assert len([one for one in events(tmp_path / "c", Topic.CANDIDATES) if isinstance(one, Candidate)]) == 2
