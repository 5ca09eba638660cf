"""Whole crawls in this process against servers on loopback: everything once, and politely."""

from collections import Counter
from pathlib import Path

import pytest

from frontlog.avro.enums import Reason, State, Topic
from frontlog.avro.events import Fetched, RobotsPolicy
from frontlog.processors.sites import partition_of
from frontlog.streams.summary import End, Phase, Progress
from support.crawls import TOLERANCE_S, assert_polite, crawl, events, fetched, prove, transitions, urls
from support.site import Answer, Site, fill, page


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
