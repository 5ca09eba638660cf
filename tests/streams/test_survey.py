"""What a survey says of shards: every URL counted once, and of each host that waits why and until when."""

from collections import Counter

import pytest

from frontlog.avro.enums import Reason, ScopeKind, State, Topic
from frontlog.avro.events import Control
from frontlog.processors.settings import Politeness, Settings
from frontlog.streams.summary import WaitingHost
from frontlog.streams.survey import Survey, count_content, count_urls, look_at_hosts
from frontlog.streams.topics import Role
from support.driver import Driver
from support.web import Page, Robots, Web, synthetic

HOST = "a.example"
URL = f"http://{HOST}/"


def survey(crawl: Driver) -> Survey:
    found = Survey()
    for shard in crawl.shards.values():
        with shard.store.begin() as txn:
            if shard.role is Role.FRONTIER:
                count_urls(txn, found)
                look_at_hosts(txn, found, crawl.clock.now_ms())
            else:
                count_content(txn, found)
    return found


def waiting(crawl: Driver) -> WaitingHost:
    (one,) = survey(crawl).waiting
    return one


def control(crawl: Driver, cmd: str, kind: ScopeKind, target: str = "") -> None:
    wish = Control(event_id="e", cmd=cmd, target_kind=kind, target=target, at_ms=1)
    for partition in (
        range(crawl.partitions) if kind is ScopeKind.CRAWL else [crawl.partition_of(URL.rstrip("/") + ":80")]
    ):
        crawl.control(wish, partition)


def pages(*answers: Page) -> Web:
    """A host whose front page links to others."""
    web = Web(pages={URL: Page(text="home", links=tuple(f"/{n}" for n in range(len(answers))))})
    web.pages |= {f"{URL}{n}": answer for n, answer in enumerate(answers)}
    return web


def test_every_url_is_counted_once_by_state_and_reason() -> None:
    with Driver(web=synthetic(3, 12)) as crawl:
        crawl.seed("http://s0.example/")
        crawl.run(rounds_max=9)
        found = survey(crawl)
        rows = [row for _, row in crawl.rows("urls")]
        assert found.counts == Counter((row.state, row.reason) for row in rows)
        assert sum(count.urls for count in found.state_counts()) == len(rows)
        assert found.state_counts()[0].urls == max(found.counts.values())
        assert found.hosts == len(crawl.rows("hosts"))
        assert found.pages == sum(row.state is State.FETCHED for row in rows)
        assert found.documents == len(crawl.rows("content")) and found.urls_with_text == len(
            crawl.rows("url_content")
        )


def test_texts_that_several_pages_have_are_one_document() -> None:
    with Driver(web=pages(Page(text="same"), Page(text="same"), Page(text="other"))) as crawl:
        crawl.seed(URL)
        crawl.run()
        found = survey(crawl)
        assert (found.documents, found.urls_with_text) == (3, 4)


def test_a_host_with_nothing_to_fetch_does_not_wait() -> None:
    with Driver(web=pages(Page(text="x"))) as crawl:
        crawl.seed(URL)
        crawl.run()
        assert survey(crawl).waiting == []


def test_a_host_that_rests_waits_for_its_gap() -> None:
    with Driver(web=pages(Page(text="x"), Page(text="y"))) as crawl:
        crawl.seed(URL)
        crawl.run(until_ms=crawl.clock.now_ms() + 1_500)
        one = waiting(crawl)
        assert (one.host, one.reason, one.urls) == (HOST, Reason.DUE, 2)
        assert crawl.clock.now_ms() < one.until_ms <= crawl.clock.now_ms() + 1_000
        assert one.detail == "gap of 1000 ms"


@pytest.mark.parametrize(
    ("answer", "reason", "detail"),
    [
        (Page(status=503, retry_after="600"), Reason.UNAVAILABLE, "the host asked for it"),
        (Page(status=429), Reason.UNAVAILABLE, "the host asked for it"),
        (Page(reason=Reason.TIMEOUT), Reason.TIMEOUT, "1 failures in a row"),
    ],
)
def test_a_host_in_trouble_waits_and_says_why(answer: Page, reason: Reason, detail: str) -> None:
    with Driver(web=pages(answer, answer)) as crawl:
        crawl.seed(URL)
        for _ in range(50):
            crawl.run(until_ms=crawl.clock.now_ms() + 100)
            if any(
                request.url != URL for request in crawl.web.requests if not request.url.endswith("robots.txt")
            ):
                break
        crawl.run(until_ms=crawl.clock.now_ms() + 100)
        one = waiting(crawl)
        assert (one.reason, one.detail, one.urls) == (reason, detail, 2)
        assert one.until_ms > crawl.clock.now_ms() + 1_000


def test_a_host_without_an_address_waits_for_another_look_up() -> None:
    web = pages(Page(text="x"))
    web.addresses[HOST] = ""
    with Driver(web=web) as crawl:
        crawl.seed(URL)
        crawl.run(until_ms=crawl.clock.now_ms() + 500)
        one = waiting(crawl)
        assert (one.reason, one.detail) == (Reason.DNS_FAILED, "1 look-ups failed")
        assert one.until_ms > crawl.clock.now_ms()


def test_an_origin_whose_robots_cannot_be_had_is_named() -> None:
    web = pages(Page(text="x"))
    web.robots[URL.rstrip("/")] = Robots(status=500)
    with Driver(web=web) as crawl:
        crawl.seed(URL)
        crawl.run(until_ms=crawl.clock.now_ms() + 500)
        one = waiting(crawl)
        assert (one.reason, one.detail) == (
            Reason.ROBOTS_UNREACHABLE,
            f"robots.txt of http://{HOST}:80: status 500, 1 times in a row",
        )
        assert one.until_ms > crawl.clock.now_ms() + 10_000


def test_a_host_is_not_held_while_one_of_its_origins_is_free() -> None:
    web = pages(*(Page(text=f"{n}") for n in range(9)))
    web.robots[f"https://{HOST}"] = Robots(status=500)
    with Driver(web=web) as crawl:
        crawl.seed(f"https://{HOST}/")
        crawl.run(until_ms=crawl.clock.now_ms() + 500)
        assert waiting(crawl).reason is Reason.ROBOTS_UNREACHABLE
        crawl.seed(URL)
        crawl.run(until_ms=crawl.clock.now_ms() + 3_100)
        assert waiting(crawl).reason is Reason.DUE


@pytest.mark.parametrize(
    ("kind", "target", "detail"),
    [
        (ScopeKind.CRAWL, "", "the crawl is paused"),
        (ScopeKind.PARTITION, "its own", "its partition is paused"),
        (ScopeKind.HOST, HOST, ""),
        (ScopeKind.SITE, HOST, ""),
        (ScopeKind.ORIGIN, URL.rstrip("/"), f"http://{HOST}:80"),
    ],
)
def test_what_is_paused_waits_for_an_operator(kind: ScopeKind, target: str, detail: str) -> None:
    with Driver(web=pages(Page(text="x"))) as crawl:
        own = str(crawl.partition_of(f"http://{HOST}:80"))
        crawl.seed(URL)
        crawl.step(0)
        control(crawl, "pause", kind, target.replace("its own", own))
        crawl.run(until_ms=crawl.clock.now_ms() + 500)
        one = waiting(crawl)
        assert (one.reason, one.until_ms, one.detail, one.urls) == (Reason.PAUSED, 0, detail, 1)
        control(crawl, "resume", kind, target.replace("its own", own))
        crawl.run()
        assert survey(crawl).waiting == [] and crawl.state(URL) is State.FETCHED


def test_a_crawl_delay_beyond_what_is_honoured_is_no_pause() -> None:
    web = pages(Page(text="x"))
    web.robots[URL.rstrip("/")] = Robots(b"User-agent: *\nCrawl-delay: 90\n")
    with Driver(web=web, settings=Settings(politeness=Politeness(crawl_delay_ms_max=60_000))) as crawl:
        crawl.seed(URL)
        crawl.run(until_ms=crawl.clock.now_ms() + 70_000)
        one = waiting(crawl)
        assert (one.reason, one.detail) == (Reason.CRAWL_DELAY_TOO_LONG, "its Crawl-delay is 90 s")
        assert one.until_ms > crawl.clock.now_ms() + 3_600_000
        assert crawl.read(Topic.REJECTS) == []
