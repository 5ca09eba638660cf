"""`explain`: the whole story of a URL in any spelling, in order, with causes, policy, rule, record and duplicates."""

from pathlib import Path

import msgspec
import pytest

from frontlog.avro.enums import FetchKind, Reason, State
from frontlog.avro.errors import ConfigError
from frontlog.processors.settings import Canonical, Scope, Settings
from frontlog.replay.explain import explain
from frontlog.replay.shapes import Explanation, Line
from support.driver import Driver
from support.web import Page, Robots, Web


def moves(found: Explanation) -> list[str]:
    return [line.what.partition(" (")[0] for line in found.lines if "->" in line.what]


def line(found: Explanation, text: str) -> Line:
    """The first line that says something."""
    return next(one for one in found.lines if text in one.what)


def test_the_story_of_a_page_is_told_in_order(honest: Path) -> None:
    found = explain(honest, "http://b.example/1")
    assert found.known
    assert (found.state, found.reason) == (State.FETCHED, Reason.OK)
    assert moves(found) == [
        "DISCOVERED -> ELIGIBLE",
        "ELIGIBLE -> LEASED",
        "LEASED -> FETCHED",
    ]
    assert [one.at_ms for one in found.lines] == sorted(one.at_ms for one in found.lines)
    seen = line(found, "DISCOVERED")
    assert "a link on http://" in seen.cause_what
    assert 'anchor "to ' in seen.cause_what
    assert seen.cause.startswith("discoveries/")
    assert seen.record.startswith("transitions/")
    claimed = line(found, "LEASED (fence 1")
    assert claimed.rule == "no rule matches (group *)"
    assert claimed.policy_what == "robots.txt of http://b.example:80, which has rules (status 200)"
    assert claimed.policy_version > 0
    assert (claimed.cause, claimed.cause_what) == ("claim", "its host's turn")
    assert "b.example may be asked again at 2026-" in claimed.detail
    fetched = line(found, "LEASED -> FETCHED")
    assert "the answer to http://b.example/1: 200, 50 ms" in fetched.cause_what
    assert "stored in archive/frontlog-" in fetched.detail
    assert line(found, "content: new").cause.startswith("candidates/")
    assert line(found, "given out on crawl.fetched (new)").record.startswith("crawl.fetched/")
    assert (honest / "archive" / Path(found.record.partition(",")[0]).name).exists()
    assert found.waits_for == "nothing: no recrawl is due"
    assert msgspec.json.decode(msgspec.json.encode(found))["state"] == "FETCHED"


def test_any_spelling_will_do(honest: Path) -> None:
    found = explain(honest, "HTTP://B.example:80/x/../1#top")
    assert (found.url, found.known) == ("http://b.example/1", True)
    assert "host_case" in found.rules_fired


def test_the_line_of_robots_that_denied_is_named(honest: Path) -> None:
    found = explain(honest, "http://b.example/private/x")
    denied = line(found, "DISCOVERED -> BLOCKED")
    assert denied.why.startswith("robots_denied: ")
    assert denied.rule == "line 2: Disallow: /private/ (group *)"
    assert found.waits_for == "a newer policy version that allows it"


def test_duplicates_are_named(honest: Path) -> None:
    found = explain(honest, "http://a.example/2")
    assert set(found.duplicates) == {"http://b.example/2", "http://c.example/2"}
    assert "3 URLs have it" in found.content


def test_redirects_retries_and_ends_are_told(honest: Path) -> None:
    old = explain(honest, "http://a.example/old")
    assert "to http://a.example/new" in line(old, "LEASED -> FETCHED").what
    new = explain(honest, "http://a.example/new")
    assert "a redirect of http://a.example/old" in line(new, "DISCOVERED -> ELIGIBLE").cause_what
    busy = explain(honest, "http://a.example/busy")
    put_off = line(busy, "LEASED -> DEFERRED")
    assert "Retry-After 7" in put_off.cause_what
    assert "; due 2026-" in put_off.detail
    gone = explain(honest, "http://a.example/gone")
    assert (gone.state, gone.waits_for) == (State.GONE, "an operator, a seed or a sitemap that asks for it")


def test_operators_and_what_was_taken_back_are_told(honest: Path) -> None:
    found = explain(honest, "http://c.example/1")
    policy = line(found, "policy: block of host c.example by ops")
    assert policy.cause_what == "the wish of ops to block host c.example"
    assert policy.cause.startswith("control/")
    assert line(found, "FETCHED -> BLOCKED").rule == "its host is blocked"
    assert line(found, "taken back on crawl.removed").why.startswith("operator_block: ")
    assert found.waits_for == "an operator who ends the block"


def test_an_unknown_url_is_said_and_near_ones_are_named(honest: Path) -> None:
    for asked, near in (
        ("http://a.example/1/", "http://a.example/1"),
        ("https://a.example/1", "http://a.example/1"),
        ("http://www.a.example/1", "http://a.example/1"),
        ("http://a.example/1?utm=x", "http://a.example/1"),
        ("http://a.example/buzy", "http://a.example/busy"),
    ):
        found = explain(honest, asked)
        assert not found.known
        assert near in found.near, asked
    assert explain(honest, "http://nobody.example/").near == ()


def test_what_is_no_url_is_refused(honest: Path) -> None:
    for asked, said in (
        ("mailto:x", "not http or https"),
        ("nothing", "not a URL"),
        ("http://u:p@h/", "user name"),
    ):
        with pytest.raises(ConfigError, match=said):
            explain(honest, asked)


def test_a_refused_input_is_part_of_the_story(tmp_path: Path) -> None:
    with Driver(tmp_path, web=Web({"http://a.example/": Page(text="x")})) as crawl:
        crawl.seed("http://a.example/")
        crawl.run()
        assert crawl.last is not None
        partition, result = crawl.last
        crawl.control(b'{"cmd":"recrawl","urls":["http://a.example/other"]}', partition)
        crawl.pipe(
            __import__("frontlog.avro.enums", fromlist=["Topic"]).Topic.FETCH_RESULTS, result, partition
        )
        crawl.step(0)
    refused = line(explain(tmp_path, "http://a.example/"), "an input was refused: fetch-results/")
    assert refused.why.startswith("stale_fence: ")
    other = explain(tmp_path, "http://a.example/other")
    assert not other.known
    assert "not known in this crawl" in other.lines[0].detail


def test_the_profile_of_the_crawl_decides_about_spellings(tmp_path: Path) -> None:
    settings = Settings(scope=Scope(mode="any"), canonical=Canonical(profile="index"))
    with Driver(tmp_path, web=Web(), settings=settings) as crawl:
        crawl.seed("http://a.example/?b=2&a=1&utm_source=x")
        crawl.run()
    found = explain(tmp_path, "http://a.example/?utm_medium=y&b=2&a=1")
    assert (found.url, found.known) == ("http://a.example/?a=1&b=2", True)
    assert "requested as http://a.example/?b=2&a=1&utm_source=x" in line(found, "DISCOVERED").detail


def waiting(tmp_path: Path, web: Web, wish: bytes = b"", *, ms: int = 30_000) -> Explanation:
    """The story of a page of a host that is kept waiting."""
    with Driver(tmp_path, partitions=1, web=web) as crawl:
        crawl.seed("http://a.example/", "http://a.example/b")
        if wish:
            crawl.control(wish)
        crawl.run(until_ms=crawl.clock.at_ms + ms)
    return explain(tmp_path, "http://a.example/b")


@pytest.mark.parametrize(
    ("wish", "said"),
    [
        (b'{"cmd":"pause"}', "the crawl is paused"),
        (b'{"cmd":"pause","target":{"partition":"0"}}', "its partition is paused"),
        (b'{"cmd":"pause","target":{"site":"a.example"}}', "its site is paused"),
        (b'{"cmd":"pause","target":{"host":"a.example"}}', "its host is paused"),
        (b'{"cmd":"pause","target":{"origin":"http://a.example"}}', "its origin is paused"),
    ],
)
def test_it_says_which_pause_is_waited_for(tmp_path: Path, wish: bytes, said: str) -> None:
    assert waiting(tmp_path, Web(), wish).waits_for == f"an operator: {said}"


def test_it_says_that_the_host_has_its_turn_later(tmp_path: Path) -> None:
    web = Web({"http://a.example/": Page(status=503, retry_after="600")})
    found = waiting(tmp_path, web)
    assert found.waits_for.startswith("its host's turn (back-off of ")
    assert found.until_ms > 0


def test_it_says_that_robots_cannot_be_had(tmp_path: Path) -> None:
    found = waiting(tmp_path, Web(robots={"http://a.example": Robots(status=500)}))
    assert found.waits_for == "its robots.txt, which is unreachable (status 500)"


def test_it_says_that_the_name_leads_nowhere(tmp_path: Path) -> None:
    found = waiting(tmp_path, Web(addresses={"a.example": ""}), ms=1_000)
    assert found.waits_for.startswith("its host's turn")


def test_it_says_who_holds_the_lease(tmp_path: Path) -> None:
    with Driver(tmp_path, partitions=1, web=Web()) as crawl:
        crawl.seed("http://a.example/")
        while not [lease for lease in crawl.step() if lease.kind is FetchKind.PAGE]:
            for lease in list(crawl.leases.values()):
                crawl.serve(lease)
            crawl.clock.advance(1_100)
            crawl.land()
    found = explain(tmp_path, "http://a.example/")
    assert found.waits_for == "the result of its lease, held by driver-1"
    assert found.state is State.LEASED
