"""Traps and budgets: each rule, what is admitted all the same, readmission, and a site's budget that grows with links."""

from typing import Any

import pytest

from frontlog.avro.enums import Reason, ScopeKind, SourceKind, State
from frontlog.avro.events import Control, Signal, SiteLinked
from frontlog.processors import control, inlinks, traps
from frontlog.processors.settings import Canonical, Scope, Settings, Traps
from support.machine import NOW_MS, Bench, Made

R, S, K = Reason, State, SourceKind
A, ORIGIN = "http://a.example", "http://a.example:80"
# NOW_MS is 2026-09-21


@pytest.mark.parametrize(
    ("url", "reason", "detail"),
    [
        ("/?" + "&".join("abcdefghijklmnopq"), R.TRAP_PARAMETERS, "17 parameters"),
        ("/?" + "&".join("abcdefghijklmnop"), None, ""),
        ("/a?" + "&" * 16, R.TRAP_PARAMETERS, "17 parameters"),
        ("/x" * 33, R.TRAP_DEPTH, "33 segments"),
        ("".join(f"/{n}" for n in range(32)), None, ""),
        ("/a/b/a/b/a/b/a/b", R.TRAP_REPETITION, "/a/b comes more than 3 times in a row"),
        ("/a/b/a/b/a/b/a", None, ""),
        ("/1/1/1/1", R.TRAP_REPETITION, "/1 comes more than 3 times in a row"),
        ("/2011/11/11/11", None, ""),
        ("/a/////b", R.TRAP_REPETITION, "/ comes more than 3 times in a row"),
        ("/a?x=/b/b/b/b/b", None, ""),
        ("/x/1/2/3/4/5/6" * 4, None, ""),
        ("/a%2520b", None, ""),
        ("/a%252520b", R.TRAP_ENCODING, "an escape that was escaped 2 times"),
        ("/a?b=%25252520", R.TRAP_ENCODING, "an escape that was escaped 3 times"),
        ("/100%2525", None, ""),
        ("/2028/09/20/", None, ""),
        ("/2028/09/21", R.TRAP_CALENDAR, "the date 2028-09-21"),
        ("/events/2031-05", R.TRAP_CALENDAR, "the date 2031-05-01"),
        ("/cal?date=20310230", R.TRAP_CALENDAR, "the date 2031-02-30"),
        ("/cal?view=x&year=2031&month=3", R.TRAP_CALENDAR, "the date 2031-01-01"),
        ("/outlook?year=2050", None, ""),
        ("/model/2500-10", None, ""),
        ("/2031/13/", None, ""),
        ("/12031/05/", None, ""),
        ("/1850/05/01", None, ""),
    ],
)  # fmt: skip
def test_each_form(url: str, reason: Reason | None, detail: str) -> None:
    found = traps.of_form(Traps(), A + url, NOW_MS)
    assert (found.reason, found.detail) == (reason, detail) if found else reason is None
    bench = Bench(Settings(scope=Scope(mode="any")))
    made = bench.links(A + url)
    assert made.moves[-1][1:] == ((S.ELIGIBLE, R.ADMITTED) if reason is None else (S.BLOCKED, reason))


def test_rules_that_are_off_refuse_nothing() -> None:
    off = Traps(
        parameters_max=0, segments_max=0, repeats_max=0, escapes_max=0, days_ahead_max=0, pattern_urls_max=0,
        query_urls_max=0,
    )  # fmt: skip
    for url in ("/?" + "&" * 50, "/x" * 99, "/%25252525252520", "/2099/01/01"):
        assert traps.of_form(off, A + url, NOW_MS) is None


@pytest.mark.parametrize("kind", list(K))
def test_what_a_person_asks_for_is_no_trap(kind: SourceKind) -> None:
    bench = Bench(Settings(scope=Scope(mode="any")))
    made = bench.links(f"{A}/2099/01/01", kind=kind)
    assert made.moves[-1][1] is (S.ELIGIBLE if kind in (K.SEED, K.OPERATOR, K.SITEMAP_FILE) else S.BLOCKED)


@pytest.mark.parametrize(
    ("url", "pattern"),
    [
        ("/p/12/x-7.html?b=1&a=2&b", "/p/#/x-#.html?b&a&b"),
        ("/deadbeef00/a9/cafe", "/#/a#/cafe"),
        ("/?", "/?"),
        ("/Ab12", "/Ab#"),
    ],
)
def test_patterns(url: str, pattern: str) -> None:
    assert traps.pattern_of(A + url) == pattern


def many(bench: Bench, path: str, count: int, start: int = 0, kind: SourceKind = K.PAGE) -> Made:
    made = Made()
    for at in range(start, start + count, 500):
        numbers = range(at, min(at + 500, start + count))
        made.decisions += bench.links(*(f"{A}{path}{n}" for n in numbers), kind=kind).decisions
    return made


def full(**settings: Any) -> Bench:
    """An origin with 5 URLs at most of a pattern."""
    rules = Traps(pattern_urls_max=5, query_urls_max=3)
    return Bench(Settings(scope=Scope(mode="any"), traps=rules, **settings))


def states(bench: Bench, path: str, count: int) -> list[State]:
    return [bench.url(f"{A}{path}{n}").state for n in range(count)]


def test_a_pattern_is_refused_beyond_its_number() -> None:
    bench = full()
    many(bench, "/p/", 8)
    assert states(bench, "/p/", 8) == [S.ELIGIBLE] * 5 + [S.BLOCKED] * 3
    assert bench.url(f"{A}/p/7").reason is R.TRAP_PATTERN
    many(bench, "/q?x=", 4)
    assert states(bench, "/q?x=", 4) == [S.ELIGIBLE] * 3 + [S.BLOCKED]
    many(bench, "/p/", 1, 20, K.SITEMAP)
    assert bench.url(f"{A}/p/20").state is S.ELIGIBLE, "what a site lists itself is no trap for its number"


def test_a_small_origin_counts_nothing_and_a_large_one_from_then_on() -> None:
    rules = Traps(pattern_urls_max=traps.COUNTED_FROM)
    bench = Bench(Settings(scope=Scope(mode="any"), traps=rules))
    many(bench, "/p/", traps.COUNTED_FROM)
    assert list(bench.tables.patterns.scan()) == []
    many(bench, "/p/", 2, traps.COUNTED_FROM)
    ((_, row),) = bench.tables.patterns.scan()
    assert (row.pattern, row.urls) == ("/p/#", 2)


def test_larger_numbers_let_in_what_was_refused_up_to_them() -> None:
    bench = full()
    many(bench, "/p/", 9)
    bench.configure(Settings(scope=Scope(mode="any"), traps=Traps(pattern_urls_max=7)))
    made = bench.jobs()
    assert [move for move in made.moves if move[0] is S.BLOCKED] == [
        (S.BLOCKED, S.ELIGIBLE, R.READMITTED)
    ] * 2
    assert states(bench, "/p/", 9).count(S.BLOCKED) == 2


def test_what_traps_refuse_is_counted_and_signalled() -> None:
    bench = Bench(Settings(scope=Scope(mode="any"), canonical=Canonical(signal_urls=4)))
    made = bench.links(*(f"{A}/20{n}/01/01" for n in range(40, 50)))
    (signal,) = [one for one in made.decisions if isinstance(one, Signal)]
    assert (signal.name, signal.count) == ("trap_calendar", 4)
    ((_, row),) = bench.tables.tallies.scan()
    assert (row.name, row.total) == ("trap_calendar", 10)


# --- readmission -----------------------------------------------------------------------------------------------


def test_a_host_is_readmitted_and_its_rule_lifted() -> None:
    bench = Bench(Settings(scope=Scope(mode="any")))
    bench.links(f"{A}/2040/01", f"{A}/" + "x/" * 40)
    bench.control("readmit", target_kind=ScopeKind.HOST, target="a.example", rule="trap_calendar")
    made = bench.jobs()
    assert (S.BLOCKED, S.ELIGIBLE, R.READMITTED) in made.moves
    assert bench.url(f"{A}/2040/01").state is S.ELIGIBLE
    assert bench.url(f"{A}/" + "x/" * 40).state is S.BLOCKED
    assert bench.links(f"{A}/2041/01").moves[-1][1] is S.ELIGIBLE, "for links that are found later, too"
    bench.control("readmit", target_kind=ScopeKind.HOST, target="a.example", rule="none")
    assert bench.links(f"{A}/2042/01").moves[-1][1] is S.BLOCKED
    assert bench.url(f"{A}/2041/01").state is S.ELIGIBLE, "what was let in stays"


def test_urls_are_readmitted_one_by_one_and_every_other_gate_stays() -> None:
    bench = Bench(Settings(scope=Scope(mode="any")))
    bench.links(f"{A}/2040/01", f"{A}/2040/02", f"{A}/fine")
    made = bench.control(
        "readmit", target_kind=ScopeKind.CRAWL, urls=(f"{A}/2040/01", f"{A}/fine", "http://b.example/x")
    )
    assert made.moves == [(S.BLOCKED, S.ELIGIBLE, R.READMITTED)]
    assert made.rejects == [R.BAD_CONTROL] * 2
    assert bench.url(f"{A}/2040/02").state is S.BLOCKED
    bench.control("block", target_kind=ScopeKind.HOST, target="a.example")
    assert bench.control("readmit", target_kind=ScopeKind.URL, target=f"{A}/2040/02").rejects == [
        R.BAD_CONTROL
    ]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"target_kind": ScopeKind.CRAWL}, "takes urls, or a host"),
        ({"target_kind": ScopeKind.ORIGIN, "target": ORIGIN}, "takes urls, or a host"),
        (
            {"target_kind": ScopeKind.HOST, "target": "a.example", "rule": "robots_denied"},
            "not robots_denied",
        ),
    ],
)
def test_readmissions_that_can_not_be_followed(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(control.BadControl, match=said):
        control.check(Control(cmd="readmit", **fields))


def test_a_bare_readmission_lifts_all() -> None:
    wish = control.check(Control(cmd="readmit", target_kind=ScopeKind.HOST, target="A.example"))
    assert (wish.target, wish.rule) == ("a.example", " ".join(traps.NAMES))


# --- budgets ---------------------------------------------------------------------------------------------------


def spent(**limits: Any) -> Bench:
    """A site whose budget is one page, which was fetched."""
    bench = Bench(Settings(scope=Scope(mode="site", **limits)))
    lease = bench.prepare(f"{A}/")
    bench.links(f"{A}/1", f"{A}/2", f"{A}/3")
    bench.page(lease)
    return bench


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        ({"pages_per_host_max": 1}, R.HOST_BUDGET),
        ({"pages_per_site_max": 1}, R.SITE_BUDGET),
        ({"pages_per_host_max": 1, "pages_per_site_max": 1}, R.HOST_BUDGET),
    ],
)
def test_a_budget_that_is_spent_has_its_reason(limits: dict[str, Any], reason: Reason) -> None:
    bench = spent(**limits)
    bench.wait()
    assert bench.claims().moves == [(S.ELIGIBLE, S.BLOCKED, reason)] * 3


def _found(source: str) -> Any:
    from frontlog.avro.events import Discovery

    return Discovery(
        event_id=source, origin_key=ORIGIN, source_kind=K.PAGE, source_url=source, depth=1, priority=2, parts=1,
        urls=(f"{A}/1",), raws=("",), anchors=("",), rels=("",),
    )  # fmt: skip


def test_a_sites_budget_grows_with_each_other_site_that_links_to_it() -> None:
    bench = spent(pages_per_site_max=1, pages_per_link=2)
    bench.wait()
    bench.claims()
    made = bench.decide(_found("http://www.b.example/x"))
    assert [one.source_site for one in made.decisions if isinstance(one, SiteLinked)] == ["b.example"]
    moves = bench.jobs().moves
    assert moves == [(S.BLOCKED, S.ELIGIBLE, R.POLICY_ALLOWS)] * 3
    for source in ("http://b.example/y", "http://www.a.example/z", "", "nonsense"):
        assert bench.decide(_found(source)) == Made(), "counted once, and never for itself"
    for _ in range(2):
        bench.page(bench.page_lease())
    bench.wait()
    assert bench.claims().moves == [(S.ELIGIBLE, S.BLOCKED, R.SITE_BUDGET)]
    row = bench.tables.sites.get(b"a.example")
    assert row is not None
    assert (row.pages, row.linked, row.over) == (3, 1, True)


def test_links_are_not_counted_where_no_budget_needs_them() -> None:
    bench = spent()
    assert bench.decide(_found("http://b.example/x")) == Made()
    assert bench.tables.inlinks.get(inlinks.key_of("a.example", "b.example")) is None
