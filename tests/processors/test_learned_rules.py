"""A rule that was learned is in force: its witnesses, what speaks against it, and how it is withdrawn."""

import pytest

from frontlog.avro.enums import RuleAct, ScopeKind, Weight
from frontlog.avro.events import ParseFacts, UrlRule
from frontlog.processors import url_policy, url_rules, weighing
from support.learned import (
    IGNORED,
    ORIGIN,
    SLASH,
    A,
    S,
    acts,
    content,
    crawl,
    evidence,
    page,
    redirect,
)
from support.machine import Bench, Made


def witnesses(form: str, count: int, *, of: bool = True) -> list[str]:
    """URLs that are witnesses, or are none."""
    every = (A + form.format(n) for n in range(10_000))
    return [url for url in every if url_rules.is_witness(url) is of][:count]


def with_slash_learned() -> Bench:
    bench = crawl()
    for n in range(3):
        redirect(bench, f"{A}/{n}", f"{A}/{n}/")
    bench.jobs()
    return bench


def test_one_url_in_64_stays_its_own_and_its_answer_counts() -> None:
    bench = with_slash_learned()
    one, other = witnesses("/w{}", 1)[0], witnesses("/w{}", 1, of=False)[0]
    bench.links(other)
    assert bench.url(other).merged == (f"{other}/", "slash")
    bench.force(f"{other}/", S.FETCHED)
    assert evidence(redirect(bench, one, f"{one}/")) == [(SLASH, "add", Weight.AGREES)]
    assert bench.origin(ORIGIN).rules == '{"firm":{},"slash":"add"}'


def test_a_rule_that_its_witnesses_speak_against_is_withdrawn_and_its_merges_come_apart() -> None:
    bench = with_slash_learned()
    ours = witnesses("/w{}", 1, of=False)[0]
    bench.links(ours)
    bench.force(f"{ours}/", S.FETCHED)
    said = [acts(page(bench, url)) for url in witnesses("/w{}", 3)]
    assert said == [[], [], [(SLASH, "add", RuleAct.WITHDRAWN)]], "one page is not enough"
    assert bench.origin(ORIGIN).rules == ""
    bench.jobs()
    assert bench.url(ours).state is S.ELIGIBLE


def test_a_withdrawn_rule_names_what_spoke_against_it_and_may_be_learned_again() -> None:
    bench, made = with_slash_learned(), Made()
    against = witnesses("/w{}", 3)
    for url in against:
        made = page(bench, url)
    (rule,) = [one for one in made.decisions if isinstance(one, UrlRule)]
    assert (rule.learned, rule.agreeing, rule.against) == (True, 3, 3)
    assert against[-1] in rule.examples
    for n in range(20, 32):
        made = redirect(bench, f"{A}/{n}", f"{A}/{n}/")
    assert acts(made) == [(SLASH, "add", RuleAct.APPLIED)], "16 of 20 are 0.8"


def test_so_many_pieces_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weighing, "PIECES_MAX", 4)
    bench = with_slash_learned()
    said = [evidence(page(bench, url)) for url in witnesses("/w{}", 6)]
    assert said == [[(SLASH, "add", Weight.AGAINST)]] * 4 + [[]] * 2


def test_what_an_operator_applied_has_no_witnesses() -> None:
    bench = crawl()
    bench.control("rule_apply", target_kind=ScopeKind.ORIGIN, target=ORIGIN, rule="slash", value="add")
    one = witnesses("/w{}", 1)[0]
    bench.links(one)
    assert bench.url(one).merged == (f"{one}/", "slash")


def test_a_learned_rule_takes_no_witness_from_one_that_holds_by_hand() -> None:
    bench = with_slash_learned()
    bench.control(
        "rule_apply", target_kind=ScopeKind.ORIGIN, target=ORIGIN, rule="ignored_params", value="sid"
    )
    one = witnesses("/w?sid={}", 1)[0]
    bench.links(one)
    assert bench.url(one).merged == (f"{A}/w/", "ignored_params", "slash")


@pytest.mark.parametrize("text", [b"0", b"x"])
def test_a_witness_of_a_parameter_is_held_against_the_page_that_stands_for_it(text: bytes) -> None:
    bench = crawl()
    for n in range(3):
        content(bench, f"{A}/{n}?sid=2", bytes((n,)) * 32, f"{A}/{n}?sid=1")
    bench.jobs()
    page(bench, f"{A}/p", b"0" * 32)
    one, two = witnesses("/p?sid={}", 2)
    weight = Weight.AGREES if text == b"0" else Weight.AGAINST
    assert evidence(content(bench, one, text * 32)) == [(IGNORED, "sid", weight)]
    assert evidence(content(bench, two, text * 32)) == [], "it is one page"
    assert evidence(content(bench, witnesses("/q?sid={}", 1)[0], text * 32)) == [
        (IGNORED, "sid", Weight.NOTED)
    ]


# --- what speaks against a form ------------------------------------------------------------------------------------


def test_pages_that_were_there_before_the_first_redirect_speak_too() -> None:
    bench = crawl(confidence_min=0.7)
    for n in range(3):
        page(bench, f"{A}/old{n}")
    page(bench, f"{A}/old/")
    made = redirect(bench, f"{A}/1", f"{A}/1/")
    assert evidence(made) == [(SLASH, "add", Weight.AGAINST)] * 3 + [(SLASH, "add", Weight.AGREES)]
    assert evidence(redirect(bench, f"{A}/2", f"{A}/2/")) == [(SLASH, "add", Weight.AGREES)]
    row = url_policy.row_at(bench.tables, ORIGIN, SLASH, "add")
    assert row is not None
    assert (row.agreeing, row.against) == (2, 3)


def test_the_first_redirect_of_all_is_weighed_with_them() -> None:
    bench = crawl(confidence_min=0.6)
    page(bench, f"{A}/old")
    assert acts(redirect(bench, f"{A}/1", f"{A}/1/")) == [], "one for and one against"
    assert acts(redirect(crawl(confidence_min=0.6), f"{A}/1", f"{A}/1/")) == [(SLASH, "add", RuleAct.APPLIED)]


def test_a_page_under_the_spelling_that_was_found_speaks_against_the_form_that_stands_for_it() -> None:
    bench = with_slash_learned()
    found = witnesses("/x{}", 1, of=False)[0]
    bench.links(found)
    lease = bench.page_lease()
    assert (lease.url, lease.requested) == (f"{found}/", found)
    assert evidence(bench.answer(lease, parse=ParseFacts(words=50))) == [(SLASH, "add", Weight.AGAINST)]


@pytest.mark.parametrize("status", [404, 410])
@pytest.mark.parametrize("was_page", [False, True])
def test_no_page_where_one_stands_for_another_that_was_there(status: int, was_page: bool) -> None:
    bench = crawl()
    gone = witnesses("/w{}", 1, of=False)[0]
    for n in range(2):
        redirect(bench, f"{A}/{n}", f"{A}/{n}/")
    bench.links(gone)
    bench.force(gone, S.FETCHED, last_success_ms=int(was_page))
    redirect(bench, f"{A}/2", f"{A}/2/")
    made = bench.jobs()
    for emission in made.emissions:
        bench.decide(emission.event)
    while (lease := bench.page_lease()).url != f"{gone}/":
        bench.answer(lease)
    assert lease.requested == f"{gone}/"
    assert evidence(bench.answer(lease, status=status)) == [(SLASH, "add", Weight.AGAINST)] * was_page


def test_texts_that_were_there_before_the_first_word_about_a_parameter_speak_too() -> None:
    bench = crawl(confidence_min=0.6)
    for n in range(2):
        page(bench, f"{A}/p?lang={n}", bytes((n,)) * 32)
        page(bench, f"{A}/q?lang={n}&x=1", b"q" * 32)
        page(bench, f"{A}/e?lang={n}", b"e" * 32)
    page(bench, f"{A}/e?lang=2", b"f" * 32)
    made = content(bench, f"{A}/e?lang=1", b"e" * 32, f"{A}/e?lang=0")
    assert evidence(made) == [(IGNORED, "lang", Weight.AGAINST), (IGNORED, "lang", Weight.AGREES)]
    assert acts(made) == []
