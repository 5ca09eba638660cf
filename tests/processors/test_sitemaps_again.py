"""Sitemaps that are named again, or late; dates and counts that fit no row."""

from typing import Any

import pytest
from msgspec.structs import replace

from frontlog.avro.enums import Reason, ScopeKind, State
from frontlog.avro.events import ParseFacts, Removed, SitemapFacts
from frontlog.processors.sitemap_files import AGAIN_MS, DAY_MS
from support.listings import FILE, URL, in_scope, listed, named
from support.machine import NOW_MS, Bench

R, S = Reason, State

# --- named again, and named late ---------------------------------------------------------------------------------


def read(bench: Bench) -> None:
    bench.decide(named(FILE))
    bench.answer(bench.page_lease(), sitemap=SitemapFacts(kind="urlset", urls=1))


@pytest.mark.parametrize(
    ("wait_ms", "lastmod", "comes"),
    [(0, 0, False), (AGAIN_MS, 0, True), (0, 1, True), (2 * AGAIN_MS, -1, False), (1_000, 3 * DAY_MS, False)],
)
def test_a_sitemap_is_read_again_when_it_changed_or_after_a_day(
    wait_ms: int, lastmod: int, comes: bool
) -> None:
    bench = in_scope()
    read(bench)
    bench.now_ms += wait_ms
    dates = (bench.url(FILE).last_success_ms + lastmod,) if lastmod else ()
    made = bench.decide(named(FILE, lastmods=dates))
    assert made.moves == ([(S.FETCHED, S.ELIGIBLE, R.SITEMAP)] if comes else [])


@pytest.mark.parametrize("state", [S.GONE, S.FAILED, S.QUARANTINED])
def test_a_sitemap_that_was_not_there_is_tried_again_after_a_day(state: State) -> None:
    bench = in_scope()
    read(bench)
    bench.force(FILE, state, attempts=3)
    assert bench.decide(named(FILE)).moves == []
    bench.now_ms += AGAIN_MS
    assert bench.decide(named(FILE)).moves == [(state, S.ELIGIBLE, R.SITEMAP)]
    assert bench.url(FILE).attempts == 0


@pytest.mark.parametrize("state", [S.ELIGIBLE, S.DEFERRED, S.FETCHED, S.GONE, S.FAILED, S.QUARANTINED])
def test_a_page_that_is_named_as_a_sitemap_is_asked_for_as_one(state: State) -> None:
    bench = in_scope()
    bench.links(FILE)
    bench.force(FILE, state, due_ms=NOW_MS if state in (S.ELIGIBLE, S.DEFERRED) else 0)
    made = bench.decide(named(FILE))
    assert made.moves == [(state, S.ELIGIBLE, R.SITEMAP)]
    assert bench.decide(named(FILE)).moves == [], "once"
    assert bench.page_lease().sitemap


def test_a_page_out_of_scope_that_is_named_as_a_sitemap_is_asked_for() -> None:
    bench = in_scope()
    cdn, origin = "http://cdn.example/s.xml", "http://cdn.example:80"
    assert bench.links(cdn).moves[-1][1] is S.BLOCKED
    assert bench.decide(named(cdn, origin_key=origin)).moves == [(S.BLOCKED, S.ELIGIBLE, R.POLICY_ALLOWS)]
    bench.links("http://cdn.example/denied.xml")
    bench.force("http://cdn.example/denied.xml", S.BLOCKED, reason=R.BLOCKED_NETWORK)
    assert bench.decide(named("http://cdn.example/denied.xml", origin_key=origin)).moves == []


def test_a_lease_of_a_page_is_not_touched() -> None:
    bench = in_scope()
    bench.links(FILE)
    bench.page_lease()
    assert bench.decide(named(FILE)).moves == []


def test_a_page_stays_counted_when_it_was_one_before() -> None:
    bench = in_scope()
    bench.links(FILE)
    bench.answer(bench.page_lease(), parse=ParseFacts(text_sha256=b"t" * 32))
    pages = bench.host("a.example").pages
    bench.decide(named(FILE))
    bench.answer(bench.page_lease(), sitemap=SitemapFacts(kind="urlset"))
    assert bench.host("a.example").pages == pages


def test_a_new_version_of_robots_takes_a_sitemap_and_gives_it_back() -> None:
    """The job over an origin judges a sitemap as one, wherever it lies."""
    bench = in_scope()
    cdn, origin = "http://cdn.example/s.xml", "http://cdn.example:80"
    bench.decide(named(cdn, origin_key=origin))
    bench.answer(bench.page_lease(address="198.51.100.9"), sitemap=SitemapFacts(kind="urlset"))
    bench.control("block", target_kind=ScopeKind.HOST, target="cdn.example")
    bench.jobs()
    assert bench.url(cdn).state is S.BLOCKED
    bench.control("unblock", target_kind=ScopeKind.HOST, target="cdn.example")
    bench.jobs()
    assert bench.url(cdn).state is S.ELIGIBLE


@pytest.mark.parametrize(("page_first", "taken_back"), [(False, 0), (True, 1)])
def test_only_what_was_ever_a_page_is_taken_back(page_first: bool, taken_back: int) -> None:
    bench = in_scope()
    if page_first:
        bench.links(FILE)
        bench.answer(bench.page_lease(), parse=ParseFacts(text_sha256=b"t" * 32))
    read(bench)
    made = bench.control("block", target_kind=ScopeKind.HOST, target="a.example")
    made.outputs += bench.jobs().outputs
    assert bench.url(FILE).state is S.BLOCKED
    removed = [one.event.url for one in made.outputs if isinstance(one.event, Removed)]
    assert removed.count(FILE) == taken_back


@pytest.mark.parametrize("waits", [False, True])
def test_a_sitemap_that_is_denied_at_its_claim_or_gone_is_nothing_to_take_back(waits: bool) -> None:
    bench = in_scope()
    read(bench)
    bench.now_ms += AGAIN_MS
    bench.decide(named(FILE))
    if waits:
        bench.control("block", target_kind=ScopeKind.HOST, target="a.example")
        assert bench.claims().outputs == []
        assert bench.url(FILE).state is S.BLOCKED
    else:
        made = bench.answer(bench.page_lease(), status=410)
        assert (bench.url(FILE).state, made.outputs) == (S.GONE, [])


# --- at the door -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fields",
    [
        {"lastmods": (1, 2)},
        {"lastmods": (-1,)},
        {"lastmods": (1 << 60,)},
        {"via": ("a\nb",)},
        {"via": ("x",) * 17},
    ],
)
def test_dates_and_ways_that_fit_no_row_are_refused_at_the_door(fields: dict[str, Any]) -> None:
    bench = in_scope()
    assert bench.decide(listed(URL, **fields)).rejects == [R.UNDECODABLE]
    assert not bench.known(URL)


@pytest.mark.parametrize("fields", [{"urls": -1}, {"cut": 1 << 40}, {"faults": 1 << 33}])
def test_counts_that_fit_no_row_are_refused_at_the_door(fields: dict[str, int]) -> None:
    bench = in_scope()
    bench.decide(named(FILE))
    facts = replace(SitemapFacts(kind="urlset"), **fields)
    assert bench.answer(bench.page_lease(), sitemap=facts).rejects == [R.UNDECODABLE]
