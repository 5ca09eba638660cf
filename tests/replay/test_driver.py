"""The driver that other tests stand on: records in, records out, time by hand, tables to look into."""

from pathlib import Path

import pytest

from frontlog.avro.enums import FetchKind, Reason, SourceKind, State, Topic
from frontlog.avro.events import Discovery, Fetched, Reject
from support.driver import START_MS, Driver
from support.web import Page, Robots, Web, synthetic


@pytest.mark.parametrize("durable", [False, True])
def test_a_crawl_is_driven_to_its_end(durable: bool, tmp_path: Path) -> None:
    with Driver(tmp_path if durable else None, web=synthetic(hosts=2, pages=6)) as crawl:
        crawl.seed("http://s0.example/", "http://s1.example/")
        assert crawl.run() > 0
        assert crawl.state("http://s0.example/") is State.FETCHED
        assert crawl.state("HTTP://s1.example:80/5") is State.FETCHED
        assert crawl.state("http://s0.example/private/0") is State.BLOCKED
        assert crawl.state("http://nobody.example/") is State.NONE
        fetched = [one for one in crawl.read(Topic.FETCHED) if isinstance(one, Fetched)]
        assert len({one.url for one in fetched}) == len(fetched) == 14
        host = crawl.host("s0.example")
        assert host is not None
        assert host.pages == 7
        assert len(crawl.rows("urls")) == 16
        assert {request.kind for request in crawl.web.requests} == {FetchKind.PAGE, FetchKind.ROBOTS}


def test_time_stands_until_it_is_moved() -> None:
    web = Web(
        {"http://a.example/": Page(text="x", ms=400)}, robots={"http://a.example": Robots(status=404, ms=100)}
    )
    with Driver(web=web) as crawl:
        crawl.seed("http://a.example/")
        crawl.run(until_ms=START_MS + 50)
        assert crawl.clock.at_ms == START_MS + 50
        assert [one.url for one in web.requests] == ["http://a.example/robots.txt"]
        crawl.run()
        starts = [one.started_ms for one in web.requests]
        assert starts[1] - web.requests[0].ended_ms >= 1_000, "the gap, by the server's own record"


def test_leases_can_be_served_by_hand_lost_and_answered_late() -> None:
    with Driver(web=Web({"http://a.example/": Page(text="x")}, robots={})) as crawl:
        crawl.seed("http://a.example/")
        (lookup,) = crawl.step()
        assert lookup.kind is FetchKind.RESOLVE
        crawl.write(lookup, crawl.answer(lookup))
        (robots,) = crawl.step()
        crawl.serve(robots)
        crawl.lose(0.0)
        assert not crawl.leases
        crawl.clock.advance(100_000)
        crawl.land()
        crawl.run()
        assert crawl.state("http://a.example/") is State.FETCHED


def test_a_restart_releases_what_was_under_way(tmp_path: Path) -> None:
    with Driver(tmp_path, web=Web({"http://a.example/": Page(text="x", ms=5_000)})) as crawl:
        crawl.seed("http://a.example/")
        crawl.run(until_ms=START_MS + 3_000)
        assert crawl.state("http://a.example/") is State.LEASED
        crawl.restart()
        row = crawl.url("http://a.example/")
        assert row is not None
        assert (row.state, row.reason) == (State.ELIGIBLE, Reason.RELEASED)
        crawl.run()
        assert crawl.state("http://a.example/") is State.FETCHED


def test_bytes_that_are_no_event_can_be_piped() -> None:
    with Driver() as crawl:
        crawl.pipe(Topic.CONTROL, b"{", 1)
        crawl.pipe(Topic.DISCOVERIES, Discovery(origin_key="no origin", source_kind=SourceKind.PAGE), 2)
        crawl.step()
        assert [one.reason for one in crawl.read(Topic.REJECTS) if isinstance(one, Reject)] == [
            Reason.BAD_CONTROL,
            Reason.UNDECODABLE,
        ]


def test_what_failed_is_told_in_reasons() -> None:
    web = Web({"http://a.example/": Page(reason=Reason.TIMEOUT)}, addresses={"b.example": ""})
    with Driver(web=web) as crawl:
        crawl.seed("http://a.example/", "http://b.example/")
        crawl.run(until_ms=START_MS + 5_000)
        row = crawl.url("http://a.example/")
        assert row is not None
        assert (row.state, row.reason) == (State.DEFERRED, Reason.TIMEOUT)
        host = crawl.host("b.example")
        assert host is not None
        assert host.address_reason is Reason.DNS_FAILED
