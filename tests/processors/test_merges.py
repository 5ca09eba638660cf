"""Rules of identity of an origin: what they merge, what comes apart again, and the signal when it is suddenly much."""

from typing import Any

import pytest
from msgspec.structs import replace

from frontlog.avro.enums import Reason, RuleAct, RuleName, ScopeKind, SourceKind, State
from frontlog.avro.events import Control, Signal, Transition, UrlRule
from frontlog.processors import canonical, control, merging, policy, url_rules
from frontlog.processors.settings import Canonical, Scope, Settings
from support.machine import Bench, Made

R, S = Reason, State
A, ORIGIN, TLS = "http://a.example", "http://a.example:80", "https://a.example:443"


def crawl(**settings: Any) -> Bench:
    bench = Bench(Settings(**settings))
    bench.seed(f"{A}/")
    return bench


def rule(bench: Bench, act: str, name: str, value: str = "", origin: str = ORIGIN) -> Made:
    made = bench.control(f"rule_{act}", target_kind=ScopeKind.ORIGIN, target=origin, rule=name, value=value)
    bench.jobs()
    return made


def deliver(bench: Bench, made: Made) -> None:
    """What a batch put into the outbox comes in as inputs."""
    for emission in made.emissions:
        assert emission.partition == bench.partition
        deliver(bench, bench.decide(emission.event))


def fetched(bench: Bench, url: str) -> None:
    bench.force(url, S.FETCHED, last_success_ms=bench.now_ms)


# --- an origin's rule ------------------------------------------------------------------------------------------


def test_a_spelling_is_merged_and_what_stands_for_it_is_fetched() -> None:
    bench = crawl()
    rule(bench, "apply", "ignored_params", "sid")
    made = bench.links(f"{A}/p?sid=1&q=2", f"{A}/p?sid=7&q=2")
    assert [(to, reason) for _, to, reason in made.moves] == [
        (S.ELIGIBLE, R.ADMITTED), (S.BLOCKED, R.MERGED), (S.BLOCKED, R.MERGED),
    ]  # fmt: skip
    assert bench.url(f"{A}/p?q=2").requested == f"{A}/p?sid=1&q=2", (
        "what was found is asked for, byte for byte"
    )
    assert bench.url(f"{A}/p?sid=7&q=2").merged == (f"{A}/p?q=2", "ignored_params")
    assert bench.links(f"{A}/p?sid=7&q=2") == Made(), "a repeat changes nothing"


def test_an_origin_has_its_own_rules_and_no_other_has_them() -> None:
    bench = crawl(scope=Scope(mode="site"))
    rule(bench, "apply", "slash", "strip")
    bench.links(f"{A}/d/")
    bench.links("http://b.a.example/d/")
    assert bench.url(f"{A}/d/").state is S.BLOCKED
    assert bench.url("http://b.a.example/d/").state is S.ELIGIBLE


def test_a_rule_takes_what_is_known_already_and_gives_it_back() -> None:
    bench = crawl()
    bench.links(f"{A}/x?sid=1", f"{A}/y?sid=1", f"{A}/z?sid=1")
    fetched(bench, f"{A}/x?sid=1")
    bench.control(
        "rule_apply", target_kind=ScopeKind.ORIGIN, target=ORIGIN, rule="ignored_params", value="sid"
    )
    deliver(bench, bench.jobs())
    row = bench.url(f"{A}/x?sid=1")
    assert (row.state, row.reason, row.merged) == (S.BLOCKED, R.MERGED, (f"{A}/x", "ignored_params"))
    assert bench.url(f"{A}/x").state is S.ELIGIBLE, "what stands for it is known"
    assert bench.url(f"{A}/y?sid=1").state is S.ELIGIBLE, "what waits is judged at its claim"
    rule(bench, "withdraw", "ignored_params", "sid")
    assert (row := bench.url(f"{A}/x?sid=1")).state is S.ELIGIBLE
    assert row.merged == ()
    assert bench.links(f"{A}/w?sid=3").moves[-1][1] is S.ELIGIBLE


def test_what_waits_is_merged_at_its_claim() -> None:
    bench = crawl()
    lease = bench.page_lease()
    bench.page(lease)
    bench.links(f"{A}/y?sid=1")
    rule(bench, "apply", "ignored_params", "sid")
    bench.wait()
    made = bench.claims()
    assert (S.ELIGIBLE, S.BLOCKED, R.MERGED) in made.moves
    deliver(bench, made)
    assert bench.url(f"{A}/y").state is S.ELIGIBLE


def test_a_page_that_comes_under_a_new_rule_is_merged() -> None:
    bench = Bench()
    lease = bench.prepare(f"{A}/x?sid=1")
    rule(bench, "apply", "ignored_params", "sid")
    made = bench.page(lease)
    assert made.moves == [(S.LEASED, S.BLOCKED, R.MERGED)]
    deliver(bench, made)
    assert bench.url(f"{A}/x").state is S.ELIGIBLE


def test_the_scheme_form_leads_to_the_other_origin() -> None:
    bench = crawl()
    rule(bench, "apply", "scheme", "https")
    made = bench.links(f"{A}/p")
    assert bench.url(f"{A}/p").merged == ("https://a.example/p", "scheme")
    deliver(bench, made)
    assert bench.url("https://a.example/p").state is S.ELIGIBLE


def test_a_redirect_between_merged_forms_is_one_page_under_another_spelling() -> None:
    bench = Bench()
    rule(bench, "apply", "slash", "add")
    bench.seed(f"{A}/d")
    row = bench.url(f"{A}/d/")
    assert (row.requested, bench.url(f"{A}/d").state) == (f"{A}/d", S.BLOCKED)
    lease = bench.page_lease()
    assert bench.answer(lease, status=301, location=f"{A}/d/").moves == [(S.LEASED, S.ELIGIBLE, R.REDIRECTED)]
    assert bench.url(f"{A}/d/").requested == f"{A}/d/"


def test_seeds_and_wishes_reach_what_stands_for_them() -> None:
    bench = crawl(scope=Scope(mode="host"))
    rule(bench, "apply", "ignored_params", "sid", "http://b.example:80")
    bench.seed("http://b.example/p?sid=1")
    assert bench.url("http://b.example/p").state is S.ELIGIBLE, "the seed widened the scope for its identity"
    bench.force("http://b.example/p", S.FAILED)
    bench.seed("http://b.example/p?sid=1", kind=SourceKind.OPERATOR)
    assert bench.url("http://b.example/p").state is S.ELIGIBLE
    bench.force("http://b.example/p", S.FETCHED)
    bench.control("recrawl", target_kind=ScopeKind.CRAWL, urls=("http://b.example/p?sid=9",))
    assert bench.url("http://b.example/p").reason is R.RECRAWL_FORCED


def test_the_newest_form_holds_and_the_older_comes_back() -> None:
    bench = crawl()
    rule(bench, "apply", "slash", "strip")
    rule(bench, "apply", "slash", "add")
    assert bench.origin(ORIGIN).rules == '{"slash":"add"}'
    rule(bench, "withdraw", "slash", "add")
    assert bench.origin(ORIGIN).rules == '{"slash":"strip"}'
    rule(bench, "refuse", "slash", "strip")
    assert bench.origin(ORIGIN).rules == ""


def test_an_act_that_holds_already_changes_nothing() -> None:
    bench = crawl()
    assert len(rule(bench, "apply", "query_order").decisions) == 1
    assert rule(bench, "apply", "query_order") == Made()
    assert [type(one).__name__ for one in rule(bench, "refuse", "slash", "add").decisions] == ["UrlRule"]


def test_a_rule_is_a_policy_version() -> None:
    bench = crawl()
    before = policy.standing(bench.tables, ORIGIN).version
    made = rule(bench, "apply", "query_order")
    event = next(one for one in made.decisions if isinstance(one, UrlRule))
    assert (event.rule, event.act, event.actor) == (RuleName.QUERY_ORDER, RuleAct.APPLIED, "test")
    assert policy.standing(bench.tables, ORIGIN).version == event.seq > before


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"rule": "slash", "value": "drop"}, "strip or add"),
        ({"rule": "query_order", "value": "x"}, "no value"),
        ({"rule": "ignored_params", "value": ""}, "name of a parameter"),
        ({"rule": "ignored_params", "value": "*"}, "name of a parameter"),
        ({"rule": "ignored_params", "value": "a&b"}, "name of a parameter"),
        ({"rule": "fragment", "value": ""}, "takes a rule"),
        (
            {"rule": "slash", "value": "add", "target_kind": ScopeKind.HOST, "target": "a.example"},
            "takes an origin",
        ),
    ],
)
def test_wishes_that_can_not_be_followed(fields: dict[str, Any], said: str) -> None:
    wish = replace(Control(cmd="rule_apply", target_kind=ScopeKind.ORIGIN, target=ORIGIN), **fields)
    with pytest.raises(control.BadControl, match=said):
        control.check(wish)


def test_rules_are_composed_with_the_profile() -> None:
    own = url_rules.composed([
        (RuleName.IGNORED_PARAMS, "b"), (RuleName.IGNORED_PARAMS, "a"), (RuleName.SCHEME, "http"),
        (RuleName.SCHEME, "https"), (RuleName.CANONICAL, ""),
    ])  # fmt: skip
    assert own == '{"ignored_params":["a","b"],"scheme":"https"}'
    both = url_rules.effective("index", own)
    assert both.query_order_insensitive
    assert (both.scheme, both.ignored_params) == ("https", ("a", "b"))
    assert "utm_*" in both.tracking_params
    assert url_rules.effective("conservative", "") is url_rules.CONSERVATIVE


def test_a_form_that_would_be_too_long_stays_what_it_is() -> None:
    rules = url_rules.OriginRules(slash="add")
    longest = "http://h/" + "a" * (canonical.IDENTITY_CHARACTERS_MAX - 9)
    found = canonical.canonicalize(longest)
    assert isinstance(found, canonical.Identity)
    assert merging.under(rules, found) is found
    assert merging.merge_of(rules, longest) is None


def test_hosts_that_look_like_others_are_marked_and_stay_apart() -> None:
    bench = Bench(Settings(scope=Scope(mode="any"), canonical=Canonical(profile="index")))
    url = "http://xn--pple-43d.com/"
    made = bench.links(url)
    assert [one.detail for one in made.decisions if isinstance(one, Transition)] == ["mixed_script"]
    assert bench.url(url).state is S.ELIGIBLE


# --- signals ---------------------------------------------------------------------------------------------------


def merged(bench: Bench, *numbers: int) -> list[Signal]:
    made = bench.links(*(f"{A}/p?sid={n}" for n in numbers))
    return [one for one in made.decisions if isinstance(one, Signal)]


def test_a_rule_that_suddenly_merges_much_raises_one_signal() -> None:
    bench = crawl(canonical=Canonical(signal_urls=3))
    rule(bench, "apply", "ignored_params", "sid")
    began = bench.now_ms
    assert merged(bench, 1, 2) == []
    (signal,) = merged(bench, 3, 4, 5)
    assert (signal.origin_key, signal.name, signal.count, signal.started_ms) == (
        ORIGIN,
        "ignored_params",
        3,
        began,
    )
    bench.now_ms += 3_600_000
    assert merged(bench, 6, 7) == []
    assert len(merged(bench, 8, 9)) == 1, "one a window"
    row = bench.tables.tallies.get(merges_key())
    assert row is not None
    assert (row.total, row.signalled_ms) == (9, bench.now_ms)


def merges_key() -> bytes:
    from frontlog.processors import tallies
    from frontlog.state import keys

    return tallies.key_of(keys.origin_id(ORIGIN), "ignored_params")


@pytest.mark.parametrize("limit", [0, 1_000])
def test_few_merges_raise_none(limit: int) -> None:
    bench = crawl(canonical=Canonical(signal_urls=limit))
    rule(bench, "apply", "ignored_params", "sid")
    assert merged(bench, *range(50)) == []
