"""What becomes of a link: first seen once, known ones left alone, seeds that widen the scope, strangers passed on."""

from typing import Any

import pytest
from msgspec.structs import replace

from frontlog.avro.enums import Reason, ScopeKind, SourceKind, State, Topic
from frontlog.avro.events import Discovery, FirstSeen, Transition
from frontlog.processors.settings import Canonical, Scope, ScopeMode, Settings
from frontlog.processors.sites import partition_of, site_of
from support.machine import NOW_MS, Bench, Made

R, S, K = Reason, State, SourceKind
URL = "http://a.example/x"
ORIGIN = "http://a.example:80"
PARKED = (S.QUARANTINED, S.FAILED, S.GONE)


def found(*urls: str, **fields: Any) -> Discovery:
    n = len(urls)
    base = Discovery(
        event_id="e", origin_key=ORIGIN, source_kind=K.PAGE, source_url="http://a.example/", at_ms=NOW_MS, depth=1,
        priority=2, parts=1, urls=urls, raws=("",) * n, anchors=("",) * n, rels=("",) * n,
    )  # fmt: skip
    return replace(base, **fields)


def scoped(**settings: Any) -> Bench:
    """A bench in whose scope a.example is."""
    bench = Bench(Settings(**settings))
    bench.seed("http://a.example/")
    return bench


def first_of(made: Made) -> FirstSeen:
    (first,) = [d.first for d in made.decisions if isinstance(d, Transition) and d.first is not None]
    return first


# --- new URLs ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", list(K), ids=lambda k: k.value)
def test_a_new_url_comes_with_its_facts_and_is_admitted_at_once(kind: SourceKind) -> None:
    bench = scoped()
    made = bench.decide(found(URL, source_kind=kind))
    assert made.moves == [(S.DISCOVERED, S.ELIGIBLE, R.ADMITTED)]
    row = bench.url(URL)
    assert (row.state, row.depth, row.due_ms, row.first_seen_ms, row.source_kind) == (
        S.ELIGIBLE,
        1,
        NOW_MS,
        NOW_MS,
        kind,
    )


@pytest.mark.parametrize(
    ("settings", "url", "depth", "reason"),
    [
        ({}, "http://b.example/", 1, R.OUT_OF_SCOPE),
        ({}, URL, 17, R.OUT_OF_SCOPE),
        ({"scope": Scope(exclude=("/x",))}, URL, 1, R.OUT_OF_SCOPE),
    ],
)
def test_a_new_url_that_may_not_be_fetched_is_blocked_at_once(
    settings: dict[str, Any], url: str, depth: int, reason: Reason
) -> None:
    bench = scoped(**settings)
    made = bench.links(url, depth=depth)
    assert [to for _, to, _ in made.moves] == [S.BLOCKED]
    assert bench.url(url).reason is reason
    assert bench.url(url).due_ms == 0


def test_facts_are_kept_where_they_say_something() -> None:
    bench = scoped()
    odd = found(
        "http://a.example/%7Ex#top",
        raws=("  /~x ",),
        anchors=("Here",),
        rels=("noopener nofollow",),
        chain=("c",),
    )
    first = first_of(bench.decide(odd))
    assert (first.raw, first.requested, first.anchor, first.nofollow) == (
        "  /~x ",
        "http://a.example/%7Ex",
        "Here",
        True,
    )
    assert (first.source_url, first.chain, first.scope) == ("http://a.example/", ("c",), None)
    plain = first_of(bench.decide(found(URL)))
    assert (plain.raw, plain.requested) == ("", "")
    assert bench.url("http://a.example/~x").requested == "http://a.example/%7Ex"


@pytest.mark.parametrize(
    ("rel", "priority"), [("", 2), ("nofollow", 3), ("ugc", 3), ("sponsored x", 3), ("me", 2)]
)
def test_nofollow_is_a_fact_that_lowers_the_class(rel: str, priority: int) -> None:
    bench = scoped()
    bench.decide(found(URL, rels=(rel,)))
    assert bench.url(URL).priority == priority
    bench.decide(found("http://a.example/last", rels=("nofollow",), priority=4))
    assert bench.url("http://a.example/last").priority == 4


# --- identities ----------------------------------------------------------------------------------------------


def test_spellings_of_one_identity_in_one_discovery_count_once() -> None:
    bench = scoped()
    made = bench.decide(
        found(URL, "http://a.example/x#a", "http://a.example./x", "http://a.example/%78", URL)
    )
    assert len(made.moves) == 1


@pytest.mark.parametrize("kind", [K.PAGE, K.REDIRECT, K.SITEMAP, K.SEED])
def test_a_repeat_changes_nothing(kind: SourceKind) -> None:
    bench = scoped()
    bench.decide(found(URL, source_kind=kind, depth=0))
    before = bench.tables.digest_values()
    for depth in (0, 1, 5):
        assert bench.decide(found(URL, source_kind=kind, depth=depth)) == Made()
    assert bench.tables.digest_values() == before


def test_a_profile_merges_more() -> None:
    bench = scoped(canonical=Canonical(profile="index"))
    made = bench.decide(found("http://a.example/p?b=1&a=2&utm_source=z", "http://a.example/p?a=2&b=1"))
    assert [(to, reason) for _, to, reason in made.moves] == [(S.ELIGIBLE, R.ADMITTED), (S.BLOCKED, R.MERGED)]
    assert bench.url("http://a.example/p?a=2&b=1").requested == "http://a.example/p?b=1&a=2&utm_source=z"
    merged = bench.url("http://a.example/p?b=1&a=2&utm_source=z")
    assert merged.merged == ("http://a.example/p?a=2&b=1", "tracking_params", "query_order")


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("ftp://a.example/", R.BAD_SCHEME), ("http://u@a.example/", R.USERINFO), ("http://[", R.UNPARSABLE),
        ("http:///", R.NO_HOST), (f"http://a.example/{'x' * 2_100}", R.TOO_LONG), (f"http://{'x' * 254}/", R.TOO_LONG),
    ],
)  # fmt: skip
def test_what_has_no_identity_is_a_reject_and_stops_nothing_else(url: str, reason: Reason) -> None:
    bench = scoped()
    made = bench.decide(found(url, URL))
    assert made.rejects == [reason]
    assert bench.known(URL)


# --- known URLs ----------------------------------------------------------------------------------------------


def known(state: State, reason: Reason = R.OK) -> Bench:
    """A bench that knows URL in a state."""
    bench = scoped()
    bench.decide(found(URL))
    bench.force(URL, state, reason=reason, attempts=7, failures=3)
    return bench


@pytest.mark.parametrize("state", [s for s in S if s not in (S.NONE, S.DISCOVERED)], ids=lambda s: s.value)
@pytest.mark.parametrize("kind", list(K), ids=lambda k: k.value)
def test_only_an_explicit_wish_brings_a_known_url_back(state: State, kind: SourceKind) -> None:
    bench = known(state, R.ROBOTS_DENIED if state is S.BLOCKED else R.OK)
    made = bench.decide(found(URL, source_kind=kind, depth=1))
    reasons = {K.SEED: R.SEED, K.OPERATOR: R.OPERATOR, K.SITEMAP: R.SITEMAP}
    if kind is K.SITEMAP_FILE:  # known as a page until now: it is asked for as a sitemap
        stays = state in (S.LEASED, S.SUPPRESSED)
        reason = R.POLICY_ALLOWS if state is S.BLOCKED else R.SITEMAP
        assert made.moves == ([] if stays else [(state, S.ELIGIBLE, reason)])
    elif state in PARKED and kind in reasons:
        assert made.moves == [(state, S.ELIGIBLE, reasons[kind])]
        row = bench.url(URL)
        assert (row.attempts, row.failures, row.due_ms) == (0, 0, 0)
    elif state is S.BLOCKED and kind in (K.SEED, K.OPERATOR):
        assert made.moves == [(S.BLOCKED, S.ELIGIBLE, R.POLICY_ALLOWS)], "no robots.txt denies it any more"
    else:
        assert made == Made()


def test_a_wish_brings_nothing_back_that_the_policy_in_force_forbids() -> None:
    bench = known(S.BLOCKED, R.OPERATOR_BLOCK)
    bench.control("block", target_kind=ScopeKind.HOST, target="a.example")
    bench.jobs()
    assert bench.decide(found(URL, source_kind=K.SEED)) == Made()
    merged = known(S.BLOCKED, R.MERGED)
    assert merged.decide(found(URL, source_kind=K.SEED)) == Made()


@pytest.mark.parametrize(("answer", "state"), [(R.BLOCKED_NETWORK, S.BLOCKED), (R.DNS_FAILED, S.FAILED)])
def test_a_seed_whose_host_was_refused_or_not_found_is_looked_up_anew(answer: Reason, state: State) -> None:
    bench = Bench()
    bench.seed(URL)
    while bench.url(URL).state is S.ELIGIBLE:
        bench.wait()
        for lease in bench.claims().leases:
            bench.answer(lease, address="", reason=answer)
    assert bench.url(URL).state is state
    bench.decide(found("http://a.example/other", source_kind=K.SITEMAP))
    assert bench.claims().leases == [], "the refusal is believed"
    made = bench.seed(URL)
    assert [to for _, to, _ in made.moves] == [S.ELIGIBLE]
    assert bench.claim().kind.value == "resolve"


# --- seeds and scope -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["host", "site", "prefix"])
@pytest.mark.parametrize("seed", ["http://b.example/p/new", "http://b.example/p/seen"])
@pytest.mark.parametrize("kind", [K.SEED, K.OPERATOR, K.REDIRECT])
def test_a_seed_brings_in_what_was_refused_of_its_host_before(
    mode: ScopeMode, seed: str, kind: SourceKind
) -> None:
    """Links that were found before their host became a seed were out of scope; they must not stay so."""
    bench = scoped(scope=Scope(mode=mode))
    bench.links("http://b.example/p/seen", "http://b.example/p/two")
    assert bench.url("http://b.example/p/two").reason is R.OUT_OF_SCOPE
    bench.links(seed, depth=0, kind=kind)
    bench.jobs()
    for url in (seed, "http://b.example/p/seen", "http://b.example/p/two"):
        assert bench.url(url).state is S.ELIGIBLE, url
    site = bench.tables.sites.get(b"b.example")
    assert site is not None
    assert site.seeded
    before = bench.tables.digest_values()
    bench.links(seed, depth=0, kind=kind)
    assert bench.jobs() == Made()
    assert bench.tables.digest_values() == before, "a repeat changes nothing"


def test_a_site_is_searched_only_if_it_was_met_before() -> None:
    bench = scoped(scope=Scope(mode="site"))
    assert len(bench.seed("http://new.example/").decisions) == 1
    bench.links("http://www.met.example/")
    assert len(bench.seed("http://met.example/").decisions) == 2
    bench.jobs()
    assert bench.url("http://www.met.example/").state is S.ELIGIBLE


def test_a_page_that_becomes_a_seed_of_a_narrower_scope_is_fetched_again_for_its_links() -> None:
    bench = Bench(Settings(scope=Scope(mode="any")))
    bench.links("http://b.example/", depth=1)
    lease = bench.page_lease()
    bench.page(lease)
    bench.configure(Settings(scope=Scope(mode="host")))
    made = bench.seed("http://b.example/")
    assert made.moves == [(S.FETCHED, S.ELIGIBLE, R.RECRAWL_FORCED)]
    assert bench.host("b.example").seeds == ("",)


@pytest.mark.parametrize(
    ("depth", "state"), [(18, S.BLOCKED), (17, S.BLOCKED), (16, S.ELIGIBLE), (1, S.ELIGIBLE)]
)
@pytest.mark.parametrize("kind", [K.PAGE, K.REDIRECT, K.SEED])
def test_a_page_that_was_too_deep_is_in_scope_by_a_shorter_way(
    kind: SourceKind, depth: int, state: State
) -> None:
    bench = scoped()
    bench.links(URL, depth=18)
    assert bench.url(URL).reason is R.OUT_OF_SCOPE
    bench.links(URL, depth=depth, kind=kind)
    assert (bench.url(URL).state, bench.url(URL).depth) == (state, depth if state is S.ELIGIBLE else 18)


# --- strangers -----------------------------------------------------------------------------------------------


def test_links_of_another_origin_are_passed_on_with_all_they_have() -> None:
    bench = scoped()
    event = found(
        "http://b.example./%7Ex", URL, "https://a.example/s", raws=("raw", "", ""), anchors=("B", "A", "S"),
        rels=("nofollow", "", ""), chain=("c",), source_kind=K.REDIRECT,
    )  # fmt: skip
    made = bench.decide(event)
    assert bench.known(URL)
    assert [(e.partition, e.topic, e.key) for e in made.emissions] == [
        (0, Topic.DISCOVERIES, "http://b.example:80"), (0, Topic.DISCOVERIES, "https://a.example:443"),
    ]  # fmt: skip
    part = made.emissions[0].event
    assert isinstance(part, Discovery)
    assert (part.raws, part.anchors, part.rels, part.chain) == (("raw",), ("B",), ("nofollow",), ("c",))
    assert part.urls == ("http://b.example/~x",), "its spelling has another origin than its identity"
    again = made.emissions[1].event
    assert isinstance(again, Discovery)
    assert (again.urls, again.raws) == (("https://a.example/s",), ("https://a.example/s",))
    for emission in made.emissions:
        assert bench.decide(emission.event).emissions == [], "it is not passed on for ever"
    assert bench.known("http://b.example/~x")


def test_a_spelling_that_only_came_to_the_wrong_place_is_kept() -> None:
    bench = scoped()
    (emission,) = bench.decide(found("http://b.example/%7Ex")).emissions
    assert isinstance(emission.event, Discovery)
    assert emission.event.urls == ("http://b.example/%7Ex",)


def test_a_discovery_that_came_to_the_wrong_partition_is_passed_on_whole() -> None:
    home = partition_of(site_of("a.example"), 4)
    bench = Bench(partition=(home + 1) % 4, partitions=4)
    event = found(URL)
    made = bench.decide(event)
    assert made.decisions == []
    assert [(e.partition, e.event) for e in made.emissions] == [(home, event)]
