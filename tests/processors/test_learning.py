"""Learning rules of identity: what counts as evidence, when a rule is proposed, applied, withdrawn, and rel=canonical."""

import pytest

from frontlog.avro.enums import RuleAct, RuleName, ScopeKind, Weight
from frontlog.avro.events import ParseFacts, UrlEvidence, UrlRule
from frontlog.processors import url_forms, url_policy, weighing
from support.learned import (
    IGNORED,
    ORIGIN,
    SCHEME,
    SLASH,
    A,
    R,
    S,
    acts,
    content,
    crawl,
    evidence,
    page,
    redirect,
)
from support.machine import Made

# --- slash and scheme --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "other", "form"),
    [
        (f"{A}/d", f"{A}/d/", (SLASH, "add")),
        (f"{A}/d/?x=1", f"{A}/d?x=1", (SLASH, "strip")),
        (f"{A}/d", "https://a.example/d", (SCHEME, "https")),
        ("https://a.example/d", f"{A}/d", (SCHEME, "http")),
        (f"{A}:81/d", "https://a.example:81/d", None),
        (f"{A}/d", "https://a.example/d/", None),
        (f"{A}/d?a", f"{A}/d/", None),
        (f"{A}/d", f"{A}/e", None),
        (f"{A}/d", f"{A}/d", None),
    ],
)
def test_forms(url: str, other: str, form: tuple[RuleName, str] | None) -> None:
    assert url_forms.form_between(url, other) == form


def test_repeated_redirects_teach_a_form_and_what_was_known_is_merged() -> None:
    bench = crawl()
    bench.links(f"{A}/4", f"{A}/4/")
    bench.force(f"{A}/4", S.FETCHED)
    bench.force(f"{A}/4/", S.FETCHED)
    assert evidence(redirect(bench, f"{A}/1", f"{A}/1/")) == [(SLASH, "add", Weight.AGREES)]
    assert acts(redirect(bench, f"{A}/2", f"{A}/2/")) == []
    made = redirect(bench, f"{A}/3", f"{A}/3/")
    assert acts(made) == [(SLASH, "add", RuleAct.APPLIED)]
    (rule,) = [one for one in made.decisions if isinstance(one, UrlRule)]
    assert (rule.learned, rule.agreeing, rule.confidence) == (True, 3, 0.8)
    assert len(rule.examples) == 3
    bench.jobs()
    assert bench.url(f"{A}/1").merged == (f"{A}/1/", "slash")
    assert bench.url(f"{A}/4").merged == (f"{A}/4/", "slash")


def test_the_same_page_counts_once() -> None:
    bench = crawl()
    redirect(bench, f"{A}/1", f"{A}/1/")
    for _ in range(3):
        bench.control("recrawl", target_kind=ScopeKind.CRAWL, urls=(f"{A}/1",))
        made = bench.answer(bench.page_lease(), status=301, location=f"{A}/1/")
        assert evidence(made) == []


def test_a_page_under_the_other_form_speaks_against() -> None:
    bench = crawl(confidence_min=0.9)
    for n in range(3):
        redirect(bench, f"{A}/{n}", f"{A}/{n}/")
    assert evidence(page(bench, f"{A}/other")) == [(SLASH, "add", Weight.AGAINST)]
    assert evidence(page(bench, f"{A}/other.html")) == [], "the rule says nothing of it"
    assert evidence(redirect(bench, f"{A}/x/", f"{A}/x")) == [
        (SLASH, "strip", Weight.AGREES), (SLASH, "add", Weight.AGAINST),
    ]  # fmt: skip
    row = url_policy.row_at(bench.tables, ORIGIN, SLASH, "add")
    assert row is not None
    assert (row.act, row.agreeing, row.against) == (RuleAct.PROPOSED, 3, 2)


def test_a_scheme_is_learned() -> None:
    bench, made = crawl(confidence_min=0.6), Made()
    for n in range(2):
        made = redirect(bench, f"{A}/{n}.html", f"https://a.example/{n}.html")
    assert acts(made) == [(SCHEME, "https", RuleAct.APPLIED)]
    bench.jobs()
    assert bench.url(f"{A}/1.html").state is S.BLOCKED


def test_too_little_confidence_only_proposes() -> None:
    for mode, bar in (("propose", 0.5), ("apply", 0.95)):
        bench = crawl(mode=mode, confidence_min=bar)
        made = [acts(redirect(bench, f"{A}/{n}", f"{A}/{n}/")) for n in range(5)]
        assert made == [[], [], [(SLASH, "add", RuleAct.PROPOSED)], [], []]
        assert bench.origin(ORIGIN).rules == ""


def test_learning_can_be_off() -> None:
    bench = crawl(mode="off")
    made = [redirect(bench, f"{A}/{n}", f"{A}/{n}/") for n in range(5)]
    assert [evidence(one) + acts(one) for one in made] == [[]] * 5
    assert evidence(content(bench, f"{A}/p?sid=2", b"x" * 32, f"{A}/p?sid=1")) == []


def test_an_operators_act_outranks_evidence() -> None:
    bench = crawl()
    bench.control("rule_refuse", target_kind=ScopeKind.ORIGIN, target=ORIGIN, rule="slash", value="add")
    for n in range(5):
        made = redirect(bench, f"{A}/{n}", f"{A}/{n}/")
        assert evidence(made) + acts(made) == []
    row = url_policy.row_at(bench.tables, ORIGIN, SLASH, "add")
    assert row is not None
    assert row.act is RuleAct.REFUSED


def test_what_was_learned_is_undone_by_an_operator() -> None:
    bench = crawl()
    for n in range(3):
        redirect(bench, f"{A}/{n}", f"{A}/{n}/")
    bench.jobs()
    assert bench.url(f"{A}/1").state is S.BLOCKED
    bench.control("rule_refuse", target_kind=ScopeKind.ORIGIN, target=ORIGIN, rule="slash", value="add")
    bench.jobs()
    assert bench.url(f"{A}/1").state is S.ELIGIBLE


# --- parameters ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "other", "name"),
    [
        ("/p?a=1&sid=2", "/p?a=1&sid=3", "sid"),
        ("/p?a=1&sid=2", "/p?a=1", "sid"),
        ("/p", "/p?sid", "sid"),
        ("/p?a=1&b=2", "/p?a=2&b=1", ""),
        ("/p?a=1&b=2", "/p?b=2&a=1", ""),
        ("/p?a=1", "/q?a=2", ""),
        ("/p?a=1", "/p?a=1", ""),
        ("/p?=1", "/p?=2", ""),
    ],
)
def test_the_parameter_in_which_two_urls_differ(url: str, other: str, name: str) -> None:
    assert url_forms.parameter_between(A + url, A + other) == name


def test_the_same_text_under_different_sessions_teaches_that_they_say_nothing() -> None:
    bench, made = crawl(), Made()
    for n in range(3):
        text = bytes((n,)) * 32
        assert evidence(content(bench, f"{A}/{n}?sid=1", text)) == (
            [] if n == 0 else [(IGNORED, "sid", Weight.NOTED)]
        )
        made = content(bench, f"{A}/{n}?sid=2", text, f"{A}/{n}?sid=1")
        assert evidence(made) == [(IGNORED, "sid", Weight.AGREES)]
        assert evidence(content(bench, f"{A}/{n}?sid=3", text, f"{A}/{n}?sid=1")) == [], "one page, one piece"
    assert acts(made) == [(IGNORED, "sid", RuleAct.APPLIED)]
    assert bench.origin(ORIGIN).rules == '{"firm":{},"ignored_params":["sid"]}'


def test_other_texts_speak_against() -> None:
    bench = crawl()
    for n in range(2):
        content(bench, f"{A}/{n}?id=2", b"e" * 32, f"{A}/{n}?id=1")
    assert evidence(content(bench, f"{A}/x?id=1", b"1" * 32)) == [(IGNORED, "id", Weight.NOTED)]
    assert evidence(content(bench, f"{A}/x?id=2", b"2" * 32)) == [(IGNORED, "id", Weight.AGAINST)]
    made = content(bench, f"{A}/3?id=2", b"e" * 32, f"{A}/3?id=1")
    assert acts(made) == [(IGNORED, "id", RuleAct.PROPOSED)], "three for and one against are not enough"


def test_an_error_page_for_every_id_is_one_page() -> None:
    bench = crawl()
    for n in range(2, 30):
        content(bench, f"{A}/show?id={n}", b"e" * 32, f"{A}/show?id=1")
    row = url_policy.row_at(bench.tables, ORIGIN, IGNORED, "id")
    assert row is not None
    assert (row.agreeing, row.act) == (1, RuleAct.PROPOSED)


def test_texts_are_compared_within_a_day() -> None:
    bench = crawl(confidence_min=0.95)
    content(bench, f"{A}/p?sid=2", b"a" * 32, f"{A}/p?sid=1")
    content(bench, f"{A}/q?sid=1", b"b" * 32)
    bench.now_ms += weighing.COMPARED_MS + 1
    assert evidence(content(bench, f"{A}/q?sid=2", b"c" * 32)) == []
    content(bench, f"{A}/r?sid=1", b"d" * 32)
    assert evidence(content(bench, f"{A}/r?sid=2", b"e" * 32)) == [(IGNORED, "sid", Weight.AGAINST)]


def test_few_words_say_nothing() -> None:
    bench = crawl()
    assert evidence(content(bench, f"{A}/p?sid=2", b"a" * 32, f"{A}/p?sid=1", words=19)) == []


@pytest.mark.parametrize("profile", ["conservative", "index"])
def test_the_profile_index_takes_http_for_https_where_both_answer_the_same(profile: str) -> None:
    bench = crawl(profile=profile)
    made = content(bench, "https://a.example/p", b"a" * 32, f"{A}/p")
    assert evidence(made) == ([(SCHEME, "https", Weight.AGREES)] if profile == "index" else [])
    made = content(bench, f"{A}/q", b"b" * 32, "https://a.example/q")
    assert [one.origin_key for one in made.decisions if isinstance(one, UrlEvidence)] == [ORIGIN] * (
        profile == "index"
    )


def test_in_the_profile_index_a_page_under_http_speaks_against_https_only_with_another_text() -> None:
    bench = crawl(profile="index", confidence_min=0.9)
    for n in range(2):
        page(bench, f"https://a.example/{n}", bytes((n,)) * 32)
        assert evidence(page(bench, f"{A}/{n}", bytes((n,)) * 32)) == []
        made = content(bench, f"{A}/{n}", bytes((n,)) * 32, f"https://a.example/{n}")
        assert evidence(made) == [(SCHEME, "https", Weight.AGREES)]
    page(bench, "https://a.example/x", b"x" * 32)
    page(bench, f"{A}/x", b"y" * 32)
    assert evidence(content(bench, f"{A}/x", b"y" * 32)) == [(SCHEME, "https", Weight.AGAINST)]


# --- rel=canonical -------------------------------------------------------------------------------------------------


def test_a_page_with_the_text_of_the_one_that_it_names_is_merged_into_it() -> None:
    bench = crawl()
    page(bench, f"{A}/main", b"m" * 32)
    made = page(bench, f"{A}/print", b"m" * 32, f"{A}/main")
    assert made.moves == [(S.LEASED, S.BLOCKED, R.MERGED)]
    assert acts(made) == [(RuleName.CANONICAL, "", RuleAct.APPLIED)]
    assert bench.url(f"{A}/print").merged == (f"{A}/main", "canonical")
    assert acts(page(bench, f"{A}/amp", b"m" * 32, f"{A}/main")) == [], "one policy for the origin"


def test_the_hint_waits_for_the_page_that_it_names() -> None:
    bench = crawl()
    assert evidence(page(bench, f"{A}/print", b"m" * 32, f"{A}/main")) == [
        (RuleName.CANONICAL, "", Weight.NOTED)
    ]
    page(bench, f"{A}/other", b"o" * 32, f"{A}/main")
    made = page(bench, f"{A}/main", b"m" * 32)
    assert (S.FETCHED, S.BLOCKED, R.MERGED) in made.moves
    assert bench.url(f"{A}/print").merged == (f"{A}/main", "canonical")
    assert bench.url(f"{A}/other").state is S.FETCHED, "its text is another: a hint and no more"


def test_a_policy_that_changes_leaves_it_merged_and_a_refusal_takes_it_apart() -> None:
    bench = crawl()
    page(bench, f"{A}/main", b"m" * 32)
    page(bench, f"{A}/print", b"m" * 32, f"{A}/main")
    bench.control("block", target_kind=ScopeKind.HOST, target="b.example")
    bench.control("rule_apply", target_kind=ScopeKind.ORIGIN, target=ORIGIN, rule="query_order")
    bench.jobs()
    assert bench.url(f"{A}/print").state is S.BLOCKED
    bench.control("rule_refuse", target_kind=ScopeKind.ORIGIN, target=ORIGIN, rule="canonical")
    bench.jobs()
    assert bench.url(f"{A}/print").state is S.ELIGIBLE
    lease = bench.page_lease()
    parse = ParseFacts(text_sha256=b"m" * 32, canonical_url=f"{A}/main", words=50)
    assert bench.answer(lease, parse=parse).moves == [(S.LEASED, S.FETCHED, R.OK)]


@pytest.mark.parametrize("named", [f"{A}/print", "http://b.example/main", "mailto:x", f"{A}/unknown"])
def test_hints_that_merge_nothing(named: str) -> None:
    bench = crawl()
    page(bench, f"{A}/main", b"m" * 32)
    assert page(bench, f"{A}/print", b"m" * 32, named).moves == [(S.LEASED, S.FETCHED, R.OK)]
