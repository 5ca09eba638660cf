"""Sitemaps in the frontier: which are asked for, who may list what, what a date changes; decided, folded, claimed."""

from typing import Any

import pytest

from frontlog.avro.enums import FetchKind, Reason, ScopeKind, SourceKind, State, Topic
from frontlog.avro.events import Discovery, SitemapFacts
from frontlog.processors.settings import Scope, Settings, Sitemaps
from frontlog.processors.sitemap_files import DAY_MS, NAMED_MAX
from frontlog.state import keys
from frontlog.state.rows import SitemapRow
from support.listings import FILE, ORIGIN, URL, A, in_scope, listed, named
from support.machine import Bench, Made

R, S, K = Reason, State, SourceKind
ASK = Settings(sitemaps=Sitemaps(well_known="ask"))


def emitted(made: Made) -> list[Discovery]:
    return [one.event for one in made.emissions if isinstance(one.event, Discovery)]


def row_of(bench: Bench, url: str) -> SitemapRow | None:
    origin = "/".join(url.split("/")[:3]) + ":80"
    return bench.tables.sitemaps.get(keys.url_key(keys.origin_id(origin), url))


def robots_answer(robots: bytes, settings: Settings | None = None, **fields: Any) -> tuple[Bench, Made]:
    """What comes of the answer to /robots.txt."""
    bench = Bench(settings or Settings())
    bench.seed(f"{A}/")
    bench.answer(bench.claim(), address="198.51.100.7")
    bench.wait()
    lease = bench.claim()
    assert lease.kind is FetchKind.ROBOTS
    return bench, bench.answer(lease, robots_txt=robots, **fields)


# --- which are asked for -----------------------------------------------------------------------------------------


def test_the_sitemaps_that_a_robots_txt_names_go_to_the_owners_of_their_sites() -> None:
    text = b"Sitemap: /one.xml\nUser-agent: x\nDisallow: /\nsitemap:http://cdn.example/s.xml.gz\nSitemap: HTTP://A.example/one.xml\n"
    _, made = robots_answer(text)
    first, second = emitted(made)
    assert (first.origin_key, first.urls, first.raws) == (ORIGIN, (f"{A}/one.xml",), ("/one.xml",))
    assert (second.origin_key, second.urls) == ("http://cdn.example:80", ("http://cdn.example/s.xml.gz",))
    for event in (first, second):
        assert (event.source_kind, event.source_url, event.depth, event.via) == (
            K.SITEMAP_FILE, f"{A}/robots.txt", 0, (),
        )  # fmt: skip
    assert {one.topic for one in made.emissions} == {Topic.DISCOVERIES}


@pytest.mark.parametrize(
    ("settings", "robots", "fields", "urls"),
    [
        (Settings(), b"", {}, []),
        (ASK, b"", {}, [f"{A}/sitemap.xml"]),
        (ASK, b"", {"status": 404}, [f"{A}/sitemap.xml"]),
        (ASK, b"Sitemap: /x.xml", {}, [f"{A}/x.xml"]),
        (Settings(sitemaps=Sitemaps(robots="ignore")), b"Sitemap: /x.xml", {}, []),
        (Settings(), b"Sitemap: ftp://a.example/x\nSitemap: mailto:x\nSitemap: http://\n", {}, []),
        (Settings(), b"<!doctype html><p>Sitemap: /x.xml", {}, []),
        (ASK, b"", {"status": 503}, []),
        (ASK, b"", {"status": 0, "reason": R.TIMEOUT}, []),
    ],
)
def test_what_is_asked_for_follows_the_settings_and_the_answer(
    settings: Settings, robots: bytes, fields: dict[str, Any], urls: list[str]
) -> None:
    _, made = robots_answer(robots, settings, **fields)
    assert [url for event in emitted(made) for url in event.urls] == urls


def test_a_robots_txt_that_names_very_many_gives_a_bounded_number_in_numbered_events() -> None:
    text = "".join(f"Sitemap: /{n}.xml\n" for n in range(NAMED_MAX + 200))
    _, made = robots_answer(text.encode())
    events = emitted(made)
    assert [(e.part, e.parts, len(e.urls)) for e in events] == [(0, 2, 500), (1, 2, 500)]
    assert len({e.event_id for e in events}) == 2


# --- the file itself ---------------------------------------------------------------------------------------------


def test_a_sitemap_lies_outside_the_scope_and_is_leased_as_one() -> None:
    bench = in_scope(Settings(scope=Scope(mode="host", include=(r"a.example/(blog/.*)?$",), depth_max=0)))
    cdn = "http://cdn.example/s.xml"
    made = bench.decide(named(cdn, origin_key="http://cdn.example:80", source_url=f"{A}/robots.txt"))
    assert made.moves == [(S.DISCOVERED, S.ELIGIBLE, R.ADMITTED)]
    lease = bench.page_lease(address="198.51.100.9")
    assert (lease.url, lease.sitemap, lease.via, lease.depth) == (cdn, True, (), 0)
    assert bench.links("http://cdn.example/page").moves[-1] == (S.DISCOVERED, S.BLOCKED, R.OUT_OF_SCOPE), (
        "no page is"
    )


@pytest.mark.parametrize(
    ("settings", "robots", "reason"),
    [
        (Settings(scope=Scope(exclude=(r"\.xml$",))), b"", R.OUT_OF_SCOPE),
        (Settings(), b"User-agent: *\nDisallow: /sitemap", R.ROBOTS_DENIED),
    ],
)
def test_an_exclude_pattern_and_robots_hold_for_a_sitemap(
    settings: Settings, robots: bytes, reason: Reason
) -> None:
    bench = in_scope(settings, robots)
    assert bench.decide(named(FILE)).moves[-1] == (S.DISCOVERED, S.BLOCKED, reason)


def test_an_operators_block_holds_for_a_sitemap() -> None:
    bench = in_scope()
    bench.control("block", target_kind=ScopeKind.HOST, target="a.example")
    assert bench.decide(named(FILE)).moves[-1] == (S.DISCOVERED, S.BLOCKED, R.OPERATOR_BLOCK)


def test_what_a_sitemap_was_found_to_list_is_kept_and_is_no_page() -> None:
    bench = in_scope()
    bench.decide(named(FILE))
    facts = SitemapFacts(
        kind="urlset", urls=40_000, children=0, cut=3, faults=2, errors=("line 7: no URL", "more")
    )
    made = bench.answer(bench.page_lease(), sitemap=facts, etag='"1"')
    assert made.moves == [(S.LEASED, S.FETCHED, R.OK)]
    assert row_of(bench, FILE) == SitemapRow(
        url=FILE,
        kind="urlset",
        read_ms=bench.now_ms - 20,
        urls=40_000,
        faults=2,
        cut=3,
        fault="line 7: no URL",
    )
    assert bench.host("a.example").pages == 1, "the home page"
    row = bench.url(FILE)
    assert (row.listing, row.brought_page, row.links_out, row.etag) == (True, False, 40_000, '"1"')


def test_a_cut_file_is_put_off_and_what_it_listed_is_known_meanwhile() -> None:
    bench = in_scope()
    bench.decide(named(FILE))
    facts = SitemapFacts(kind="urlset", urls=5, faults=1, errors=("cut",))
    made = bench.answer(bench.page_lease(), sitemap=facts, reason=R.TRUNCATED)
    assert made.moves == [(S.LEASED, S.DEFERRED, R.TRUNCATED)]
    row = row_of(bench, FILE)
    assert row is not None
    assert (row.urls, row.fault) == (5, "cut")


def test_the_indexes_on_the_way_stand_in_the_lease() -> None:
    bench = in_scope()
    index, child = f"{A}/index.xml", f"{A}/child.xml"
    bench.decide(named(child, via=(index,), source_url=index))
    lease = bench.page_lease()
    assert (lease.url, lease.via, lease.sitemap) == (child, (index,), True)


@pytest.mark.parametrize(("depth", "levels"), [(0, 0), (1, 1), (2, 2), (8, 8)])
def test_indexes_are_followed_to_a_bounded_depth(depth: int, levels: int) -> None:
    bench = in_scope(Settings(sitemaps=Sitemaps(index_depth_max=depth)))
    for level in range(1, 10):
        url = f"{A}/{level}.xml"
        made = bench.decide(named(url, via=tuple(f"{A}/{n}.xml" for n in range(level))))
        assert bench.known(url) is (level <= levels)
        assert made.rejects == ([] if level <= levels else [R.OUT_OF_SCOPE])


def test_a_host_has_a_bounded_number_of_sitemaps() -> None:
    bench = in_scope(Settings(sitemaps=Sitemaps(files_per_host_max=3)))
    bench.decide(named(*(f"{A}/{n}.xml" for n in range(2))))
    bench.decide(named(f"{A}/1.xml"))
    assert bench.host("a.example").sitemaps == 2, "one that is known counts once"
    bench.decide(named(*(f"{A}/{n}.xml" for n in range(2, 6)), via=(FILE,)))
    assert bench.host("a.example").sitemaps == 6, "an event is taken whole"
    made = bench.decide(named(f"{A}/6.xml"))
    assert (made.rejects, bench.known(f"{A}/6.xml")) == ([R.OUT_OF_SCOPE], False)
    other = "http://b.example/s.xml"
    bench.decide(named(other, origin_key="http://b.example:80"))
    assert bench.known(other), "another host has its own"


# --- who may list what -------------------------------------------------------------------------------------------

B, B_ORIGIN = "http://b.example/page", "http://b.example:80"
NAMES_FILE = b"User-agent: *\nDisallow: /private\nSitemap: HTTP://a.example:80/x/../sitemap.xml\n"


def told_robots(bench: Bench, robots: bytes, **fields: Any) -> None:
    """The robots.txt of b.example becomes known."""
    bench.seed("http://b.example/")
    for _ in range(10):
        bench.wait()
        lease = bench.claim()
        if lease.kind is FetchKind.ROBOTS and "b.example" in lease.url:
            bench.answer(lease, robots_txt=robots, **fields)
            return
        bench.answer(lease, address="198.51.100.8", robots_txt=b"")
    raise AssertionError("nobody asked")


@pytest.mark.parametrize("kind", [K.SITEMAP, K.SITEMAP_FILE])
@pytest.mark.parametrize(
    ("robots", "fields", "allowed"),
    [
        (NAMES_FILE, {}, True), (b"", {}, False), (b"Sitemap: http://a.example/other.xml", {}, False),
        (NAMES_FILE, {"status": 404}, False), (NAMES_FILE, {"status": 503}, False), (None, {}, False),
    ],
)  # fmt: skip
def test_a_sitemap_speaks_for_another_site_only_where_its_robots_txt_says_so(
    kind: SourceKind, robots: bytes | None, fields: dict[str, Any], allowed: bool
) -> None:
    bench = Bench(Settings(scope=Scope(mode="any")))
    if robots is not None:
        told_robots(bench, robots, **fields)
    made = bench.decide(listed(B, origin_key=B_ORIGIN, source_kind=kind))
    assert bench.known(B) is allowed
    assert made.rejects == ([] if allowed else [R.CROSS_SITE])
    if not allowed:
        (refusal,) = made.out(Topic.REJECTS)
        assert FILE in refusal.detail
        assert B.encode() in refusal.value, "so that explain finds it"


def test_an_index_that_is_named_speaks_through_its_children() -> None:
    bench = Bench(Settings(scope=Scope(mode="any")))
    told_robots(bench, NAMES_FILE)
    child = f"{A}/child.xml"
    bench.decide(listed(B, origin_key=B_ORIGIN, source_url=child, via=(FILE, child)))
    assert bench.known(B)


def test_another_host_of_the_same_site_needs_no_word() -> None:
    bench = Bench(Settings(scope=Scope(mode="any")))
    url = "https://www.a.example/x"
    bench.decide(listed(url, origin_key="https://www.a.example:443"))
    assert bench.known(url)


def test_a_feed_links_to_others_as_a_page_does() -> None:
    bench = Bench(Settings(scope=Scope(mode="any")))
    assert bench.decide(listed(B, origin_key=B_ORIGIN, source_kind=K.FEED)).rejects == []
    assert bench.known(B)


# --- what a date changes -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("age_ms", "priority"),
    [(None, 2), (0, 1), (-DAY_MS, 1), (7 * DAY_MS, 1), (8 * DAY_MS, 2), (365 * DAY_MS, 2), (366 * DAY_MS, 3)],
)
def test_a_date_moves_a_new_url_up_or_down(age_ms: int | None, priority: int) -> None:
    bench = in_scope()
    lastmod = 0 if age_ms is None else bench.now_ms - age_ms
    bench.decide(listed(URL, lastmods=(lastmod,)))
    row = bench.url(URL)
    assert (row.priority, row.lastmod_ms) == (priority, lastmod)


@pytest.mark.parametrize(
    ("kind", "source", "after_ms", "moves"),
    [
        (K.SITEMAP, FILE, 1, [(S.FETCHED, S.ELIGIBLE, R.SITEMAP)]),
        (K.FEED, FILE, 1, [(S.FETCHED, S.ELIGIBLE, R.SITEMAP)]),
        (K.FEED, "http://planet.example/rss", 1, []),
        (K.PAGE, FILE, 1, []),
        (K.SITEMAP, FILE, 0, []),
        (K.SITEMAP, FILE, -DAY_MS, []),
        (K.SITEMAP, FILE, 3 * DAY_MS, []),
    ],
)
def test_a_page_that_changed_since_is_due_at_once(
    kind: SourceKind, source: str, after_ms: int, moves: list[Any]
) -> None:
    bench = in_scope()
    bench.decide(listed(URL))
    bench.page(bench.page_lease())
    changed = bench.url(URL).last_success_ms + after_ms
    made = bench.decide(listed(URL, source_kind=kind, source_url=source, lastmods=(changed,)))
    assert made.moves == moves
    if moves:
        assert (bench.url(URL).lastmod_ms, bench.url(URL).due_ms) == (changed, bench.now_ms)
        assert bench.decide(listed(URL, source_kind=kind, source_url=source, lastmods=(changed,))).moves == []


def test_the_dates_of_links_that_are_passed_on_stay_theirs() -> None:
    made = in_scope().decide(listed(URL, "http://other.a.example/y", lastmods=(5, 6)))
    (event,) = emitted(made)
    assert (event.urls, event.lastmods, event.via) == (("http://other.a.example/y",), (6,), (FILE,))
