"""Whole crawls in this process against servers on loopback: everything once, politely, and to the right end."""

import threading
import time
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from frontlog.avro.codec import encode
from frontlog.avro.enums import Reason, SourceKind, State, Topic
from frontlog.avro.errors import ConfigError, Corrupt, FrontlogError
from frontlog.avro.events import Candidate, Discovery, Fetched, Reject, RobotsPolicy
from frontlog.fetch import parser_pool
from frontlog.fetch.files import LocalOut
from frontlog.processors.sites import partition_of
from frontlog.state import head as heads
from frontlog.state.catalogue import STORE_TABLES
from frontlog.state.lmdb_store import LmdbStore
from frontlog.state.store import in_write
from frontlog.streams import crawl as crawl_module
from frontlog.streams import shard
from frontlog.streams.clock import BEHIND_MS_MAX, SystemClock
from frontlog.streams.crawl import run_crawl
from frontlog.streams.embedded import EmbeddedHost
from frontlog.streams.embedded_log import EmbeddedLog
from frontlog.streams.records import NewRecord
from frontlog.streams.seeds import waiting
from frontlog.streams.stop import StopSignal
from frontlog.streams.summary import End, Phase, Progress
from frontlog.streams.topics import TOPIC_IDS
from support.crawls import GAP_MS, config, crawl, events, fetched, leased, prove, results, transitions, urls
from support.site import Answer, Asked, Counting, Site, fill, page

TOLERANCE_S = 0.0015
"""Times in the log are whole milliseconds."""


def assert_polite(site: Site, gap_ms: int = GAP_MS) -> None:
    """No host had two requests at once, or closer than the gap, by the servers' clock."""
    for host in range(site.hosts):
        gaps = site.gaps_s(host)
        assert all(gap >= gap_ms / 1_000 - TOLERANCE_S for gap in gaps), f"host {host}: {sorted(gaps)[:3]}"


def part(folder: Path, name: str) -> LmdbStore:
    return LmdbStore(folder / "log" / name, STORE_TABLES)


# --- everything, once, politely --------------------------------------------------------------------------------


def test_every_page_is_fetched_once_and_the_log_proves_it(tmp_path: Path) -> None:
    folder = tmp_path / "c"
    with Site(hosts=4) as site:
        everything = fill(site, 8)
        for host in range(4):
            site.robots(host, "User-agent: *\nDisallow: /private\n")
            front = site.pages[host, "/"]
            assert isinstance(front, Answer)
            site.put(
                host,
                "/",
                front._replace(body=front.body + b'<a href="/private/x">p</a><a href="/gone">g</a>'),
            )
        summary = crawl(folder, site.url(), scope__mode="any", parsers=True)
    assert summary.end is End.DONE
    assert fetched(folder) == everything
    assert {url for url, row in urls(folder).items() if row.reason is Reason.ROBOTS_DENIED} == {
        site.url(host, "/private/x") for host in range(4)
    }
    assert {url for url, row in urls(folder).items() if row.state is State.GONE} == {
        site.url(h, "/gone") for h in range(4)
    }
    counts = Counter((one.host, one.path) for one in site.asked())
    assert set(counts.values()) == {1}
    assert not any(path.startswith("/private") for _, path in counts)
    for host in range(4):
        assert site.asked(host)[0].path == "/robots.txt", "robots.txt is asked for before any page"
    assert_polite(site)
    prove(folder)
    outputs = [one for one in events(folder, Topic.FETCHED) if isinstance(one, Fetched)]
    assert Counter(one.url for one in outputs) == dict.fromkeys(everything, 1)


def test_a_slow_host_holds_no_other_host_back(tmp_path: Path) -> None:
    with Site(hosts=4) as site:
        everything = fill(site, 5)
        site.put(0, "/", page("slow", ["/1", site.url(1), site.url(2), site.url(3)])._replace(delay_s=0.2))
        for n in range(1, 6):
            answer = site.pages[0, f"/{n}"]
            assert isinstance(answer, Answer)
            site.put(0, f"/{n}", answer._replace(delay_s=0.5))
        summary = crawl(tmp_path / "c", site.url(), scope__mode="any", fetch__slots=3)
    assert summary.end is End.DONE and fetched(tmp_path / "c") == everything
    last = {host: site.asked(host)[-1].ended_s for host in range(4)}
    assert max(last[1], last[2], last[3]) < site.asked(0)[-2].ended_s, (
        "the others were done long before the slow one"
    )
    assert_polite(site)


def test_hosts_are_asked_side_by_side(tmp_path: Path) -> None:
    with Site(hosts=4) as site:
        for host in range(4):
            site.put(host, "/", page(f"home {host}", [f"/{n}" for n in range(4)])._replace(delay_s=0.15))
            for n in range(4):
                site.put(host, f"/{n}", page(f"{n} of {host}")._replace(delay_s=0.15))
        crawl(tmp_path / "c", *(site.url(host) for host in range(4)))
        asked = site.asked()
    busiest = max(sum(one.began_s <= other.began_s < one.ended_s for one in asked) for other in asked)
    assert busiest >= 3
    assert_polite(site)


def test_hosts_on_one_address_share_its_budget(tmp_path: Path) -> None:
    """Their owner is one: names of one site lie in one partition."""
    with Site(hosts=1) as site:
        fill(site, 3)
        names = ["a.shop.example", "b.shop.example", "www.shop.example"]
        summary = crawl(
            tmp_path / "c", *(f"http://{name}:{site.port}/" for name in names),
            fetch__resolve={name: ["127.0.0.1"] for name in names},
        )  # fmt: skip
    assert summary.end is End.DONE
    assert Counter(one.headers["host"].partition(":")[0] for one in site.asked()) == dict.fromkeys(names, 5)
    assert_polite(site)


@pytest.mark.parametrize("status", [429, 503])
def test_retry_after_holds_for_the_whole_host(tmp_path: Path, status: int) -> None:
    with Site(hosts=2) as site:
        everything = fill(site, 4)
        good = site.pages[0, "/1"]
        assert isinstance(good, Answer)
        busy = Answer(b"later", status, headers=(("Retry-After", "1"),))
        site.put(0, "/1", lambda asked: busy if asked.nth == 1 else good)
        crawl(tmp_path / "c", site.url(0), site.url(1))
    assert fetched(tmp_path / "c") == everything
    asked = site.asked(0)
    at = next(n for n, one in enumerate(asked) if one.status == status)
    assert asked[at + 1].began_s - asked[at].ended_s >= 1 - TOLERANCE_S, (
        "nothing else of the host was asked meanwhile"
    )
    assert site.asked(1)[-1].ended_s < asked[at + 1].began_s, "another host went on"
    assert [one.status for one in asked if one.path == "/1"] == [status, 200]


def test_crawl_delay_is_a_gap(tmp_path: Path) -> None:
    with Site() as site:
        fill(site, 3)
        site.robots(0, "User-agent: *\nCrawl-delay: 0.25\n")
        crawl(tmp_path / "c", site.url())
    assert_polite(site, 250)


def test_robots_that_lie_with_other_hosts_are_fetched_through_their_owners(tmp_path: Path) -> None:
    """Three hosts, at least two partitions: each redirects its robots.txt to the next, the last one has it."""
    with Site(hosts=4) as site:
        everything = fill(site, 2)
        site.put(0, "/robots.txt", Answer(b"", 301, headers=(("Location", site.url(1, "/r1.txt")),)))
        site.put(1, "/r1.txt", Answer(b"", 302, headers=(("Location", site.url(2, "/r2.txt")),)))
        site.put(2, "/r2.txt", Answer(b"User-agent: *\nDisallow: /2\n", type="text/plain"))
        crawl(tmp_path / "c", site.url(0), scope__mode="any")
    assert len({partition_of(site.address(host), 4) for host in range(3)}) > 1
    assert fetched(tmp_path / "c") == everything - {site.url(0, "/2")}, (
        "the answer counts for the asking origin only"
    )
    assert site.asked(0)[0].path == "/robots.txt"
    assert site.asked(2, "/r2.txt")[0].ended_s < site.asked(0, "/")[0].began_s
    assert_polite(site)
    prove(tmp_path / "c")


def test_robots_that_cannot_be_had_forbid_everything_for_now(tmp_path: Path) -> None:
    with Site(hosts=2) as site:
        fill(site, 2)
        site.put(0, "/robots.txt", Answer(b"", 500))
        summary = crawl(tmp_path / "c", site.url(0), site.url(1), crawl__patience_ms=300)
    assert summary.end is End.PATIENCE
    assert site.paths(0) == [] and len(site.paths(1)) == 3
    (host,) = summary.waiting
    assert (host.host, host.reason) == (site.address(0), Reason.ROBOTS_UNREACHABLE)


def test_a_robots_txt_too_long_is_obeyed_up_to_its_limit(tmp_path: Path) -> None:
    with Site() as site:
        fill(site, 3)
        site.robots(0, "User-agent: *\nDisallow: /2\n" + "# filler\n" * 60_000 + "Disallow: /3\n")
        crawl(tmp_path / "c", site.url())
    assert sorted(site.paths()) == ["/", "/1", "/3"]
    (known,) = [one for one in events(tmp_path / "c", Topic.POLICIES) if isinstance(one, RobotsPolicy)]
    assert known.status == 200


def test_redirects_loop_and_end_and_lead_on(tmp_path: Path) -> None:
    def to(path: str) -> Answer:
        return Answer(b"", 302, headers=(("Location", path),))

    with Site() as site:
        site.put(0, "/", page("home", ["/loop", "/long", "/ok"]))
        site.put(0, "/loop", to("/loop2"))
        site.put(0, "/loop2", to("/loop"))
        for n in range(8):
            site.put(0, f"/long{n or ''}", to(f"/long{n + 1}"))
        site.put(0, "/ok", to("/there"))
        site.put(0, "/there", page("there"))
        crawl(tmp_path / "c", site.url())
    rows = urls(tmp_path / "c")
    reasons = {url.removeprefix(site.origin()): row.reason for url, row in rows.items()}
    assert reasons["/there"] is Reason.OK and reasons["/ok"] is Reason.REDIRECTED
    assert reasons["/loop2"] is Reason.REDIRECT_LOOP
    assert reasons["/long5"] is Reason.TOO_MANY_REDIRECTS and "/long6" not in reasons


# --- ends ------------------------------------------------------------------------------------------------------


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


# --- seeds -----------------------------------------------------------------------------------------------------


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


# --- bad input and a bad past ----------------------------------------------------------------------------------


def append(folder: Path, name: str, topic: Topic, partition: int, value: bytes) -> int:
    """Append a record as somebody else would."""
    store = part(folder, name)
    log = EmbeddedLog(store, TOPIC_IDS)
    offset = in_write(
        store, lambda txn: log.within(txn).append(topic, partition, [NewRecord(1, b"k", value)])
    )
    store.close()
    return offset


def test_records_that_nobody_can_read_are_rejected_with_their_place_and_the_crawl_goes_on(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "c"
    with Site() as site:
        everything = fill(site, 3)
        home = partition_of(site.address(), 4)
        crawl(folder, site.url(), crawl__pages_max=1)
        event = Discovery(event_id="x", origin_key="h", source_kind=SourceKind.PAGE, urls=("http://h/",))
        bad = [b"", b"\xc3\x01unknown schema", b"plain text", encode(event)[:-3]]
        placed = [append(folder, f"frontier-{home}", Topic.DISCOVERIES, home, value) for value in bad]
        wish = append(folder, "frontier-1", Topic.CONTROL, 1, b'{"cmd": "dance"}')
        result = append(folder, f"frontier-{home}", Topic.FETCH_RESULTS, home, b"\x00" * 5_000)
        candidate = append(folder, "content-0", Topic.CANDIDATES, 0, b"?")
        summary = crawl(folder)
    assert summary.end is End.DONE and summary.rejects == 7
    assert fetched(folder) == everything
    rejects = [one for one in events(folder, Topic.REJECTS) if isinstance(one, Reject)]
    assert {(one.topic, one.partition, one.offset) for one in rejects} == {
        *((Topic.DISCOVERIES, home, offset) for offset in placed), (Topic.CONTROL, 1, wish),
        (Topic.FETCH_RESULTS, home, result), (Topic.CANDIDATES, 0, candidate),
    }  # fmt: skip
    assert all(one.detail for one in rejects)
    prove(folder)


def test_a_clock_that_is_far_behind_the_log_is_refused_with_both_times(tmp_path: Path) -> None:
    folder = tmp_path / "c"
    with Site() as site:
        everything = fill(site, 2)
        crawl(folder, site.url(), crawl__pages_max=1)
        ahead = SystemClock().now_ms() + 3_600_000
        _set_last_time(folder, "frontier-2", ahead)
        with pytest.raises(
            ConfigError, match=r"frontier-2: this machine's clock says 20\d\d-.*Z, the log's last entry is of"
        ):
            crawl(folder)
        _set_last_time(folder, "frontier-2", ahead - 3_600_000)
        assert crawl(folder).end is End.DONE
    assert fetched(folder) == everything


def _set_last_time(folder: Path, name: str, at_ms: int) -> None:
    from msgspec.structs import replace

    store = part(folder, name)
    with store.begin(write=True) as txn:
        heads.save(txn, replace(heads.load(txn), at_ms=at_ms))
        txn.commit()
    store.close()


def test_a_clock_that_is_a_little_behind_shortens_no_gap(tmp_path: Path) -> None:
    folder = tmp_path / "c"
    with Site() as site:
        everything = fill(site, 4)
        crawl(folder, site.url(), crawl__pages_max=1)
        for number in range(4):
            _set_last_time(folder, f"frontier-{number}", SystemClock().now_ms() + BEHIND_MS_MAX - 1_000)
        assert crawl(folder, politeness__gap_ms_min=200).end is End.DONE
    assert fetched(folder) == everything
    later = site.asked()[2:]
    assert all(b.began_s - a.ended_s >= 0.2 - TOLERANCE_S for a, b in pairwise(later))


@pytest.mark.parametrize("partitions", [2, 8])
def test_another_number_of_partitions_is_refused_and_leaves_nothing_behind(
    tmp_path: Path, partitions: int
) -> None:
    folder = tmp_path / "c"
    with Site() as site:
        everything = fill(site, 2)
        crawl(folder, site.url(), crawl__pages_max=1)
        before = sorted(path.name for path in (folder / "log").iterdir())
        with pytest.raises(ConfigError, match=f"log.partitions says {partitions}; set it to what it was"):
            crawl(folder, log__partitions=partitions)
        assert sorted(path.name for path in (folder / "log").iterdir()) == before
        assert crawl(folder).end is End.DONE
    assert fetched(folder) == everything


def _cut_transitions(folder: Path, home: int) -> None:
    store = part(folder, f"frontier-{home}")
    with store.begin(write=True) as txn:
        last = txn.last(
            "log", bytes([TOPIC_IDS[Topic.TRANSITIONS]]), bytes([TOPIC_IDS[Topic.TRANSITIONS] + 1])
        )
        assert last is not None
        txn.delete("log", last[0])
        txn.commit()
    store.close()


def _edit_input(folder: Path, home: int) -> None:
    append(folder, f"frontier-{home}", Topic.DISCOVERIES, home, b"x" * 300)
    store = part(folder, f"frontier-{home}")
    with store.begin(write=True) as txn:
        last = txn.last(
            "log", bytes([TOPIC_IDS[Topic.DISCOVERIES]]), bytes([TOPIC_IDS[Topic.DISCOVERIES] + 1])
        )
        assert last is not None
        data = bytearray(last[1])
        data[-3] ^= 0xFF
        txn.put("log", last[0], bytes(data))
        txn.commit()
    store.close()


def _overwrite_store(folder: Path, home: int) -> None:
    path = folder / "log" / f"frontier-{home}" / "data.mdb"
    with path.open("r+b") as file:
        file.write(b"\xaa" * 8_192)


def _damage_head(folder: Path, home: int) -> None:
    store = part(folder, f"frontier-{home}")
    with store.begin(write=True) as txn:
        txn.put("meta", heads.KEY, b"\xc1 not a head")
        txn.commit()
    store.close()


@pytest.mark.parametrize("damage", [_cut_transitions, _edit_input, _overwrite_store, _damage_head])
def test_a_damaged_log_stops_the_crawl_and_says_where(
    tmp_path: Path, damage: Callable[[Path, int], None]
) -> None:
    folder = tmp_path / "c"
    with Site() as site:
        fill(site, 3)
        crawl(folder, site.url(), crawl__pages_max=1)
        asked = len(site.asked())
        home = partition_of(site.address(), 4)
        damage(folder, home)
        for _ in range(2):  # it lets go of everything: the second start says the same
            with pytest.raises(Corrupt) as failed:
                crawl(folder)
            assert failed.value.exit_code == 4
            assert "rebuild" in str(failed.value) or "restore" in str(failed.value), str(failed.value)
        assert len(site.asked()) == asked


def test_a_failure_inside_a_shard_ends_the_run_with_its_error_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "c"
    with Site() as site:
        everything = fill(site, 4)
        real, calls = shard.Shard.step, 0

        def step(self: shard.Shard, wanted: int) -> Any:
            nonlocal calls
            calls += self.waiting() > 0
            if calls == 8:
                raise Corrupt("a row that cannot be read")
            return real(self, wanted)

        with monkeypatch.context() as patch:
            patch.setattr(shard.Shard, "step", step)
            with pytest.raises(Corrupt, match="a row that cannot be read"):
                crawl(folder, site.url())
        assert crawl(folder).end is End.DONE
    assert fetched(folder) == everything
    prove(folder)


# --- bounds ----------------------------------------------------------------------------------------------------


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
    "def parse(job):\n    time.sleep(0.06)\n    return real(job)\nw.parse = parse\nw.main()",
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
        "def parse(job):\n    b'KILL' in job.body and os.kill(os.getpid(), 9)\n    return real(job)\n"
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


# --- what is told ----------------------------------------------------------------------------------------------


def test_progress_is_told_and_adds_up(tmp_path: Path) -> None:
    told: list[Progress] = []
    with Site() as site:
        everything = fill(site, 10)
        summary = crawl(tmp_path / "c", site.url(), politeness__gap_ms_min=150, on_progress=told.append)
    assert len(told) >= 2
    assert [one.pages_run for one in told] == sorted(one.pages_run for one in told)
    assert {one.phase for one in told} == {Phase.CRAWLING}
    assert (
        summary.pages_run
        == len(everything)
        == sum(one.urls for one in summary.counts if one.state is State.FETCHED)
    )
    assert summary.documents == len(everything) and summary.archive_files == 1
    assert summary.archive_bytes == sum(
        path.stat().st_size for path in (tmp_path / "c" / "archive").iterdir()
    )
    assert summary.log_bytes > 0 and summary.example_url in everything


def test_moves_are_caused_by_what_is_in_the_log(tmp_path: Path) -> None:
    """Every transition names an input that is there, or a start, claim or timer."""
    with Site(hosts=2) as site:
        fill(site, 3)
        crawl(tmp_path / "c", site.url(), scope__mode="any")
    causes = Counter(one.cause_topic for one in transitions(tmp_path / "c"))
    assert set(causes) == {Topic.DISCOVERIES, Topic.FETCH_RESULTS, "claim"}
