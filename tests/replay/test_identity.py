"""Rules of identity over a whole crawl: what collided, what holds, proved and undone."""

from pathlib import Path

import pytest

from frontlog.avro.enums import Reason, RuleAct, RuleName, State
from frontlog.processors import canonical, merging, url_rules
from frontlog.replay import identity_reference
from frontlog.replay.collisions import collisions, rules
from frontlog.replay.rebuild import rebuild
from frontlog.replay.status import status
from frontlog.wording import status_lines
from support.driver import Driver
from support.faults_identity import (
    RULE,
    SESSIONS,
    crawl_learning,
    crawl_unlearning,
    crawl_with_rule,
    sessions,
)
from support.faults_machines import QUICK, A
from support.looking import found_wrong

ORIGIN = "http://a.example:80"


@pytest.fixture(scope="module")
def crawled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("crawl")
    crawl_with_rule(folder, signal_urls=4)
    return folder


def test_the_crawl_is_proved(crawled: Path) -> None:
    assert found_wrong(crawled, deep=True) == {}


def test_it_is_rebuilt(crawled: Path, tmp_path: Path) -> None:
    assert rebuild(crawled, tmp_path / "new", lambda _: None, processes=1).equal


def test_collisions_of_a_rule_are_listed(crawled: Path) -> None:
    found = collisions(crawled, "ignored_params", ORIGIN)
    assert len(found) == 2 * SESSIONS
    assert {one.identity: one.spellings for one in found}[f"{A}/p1"] == (f"{A}/p1?sid=1",)
    assert {one.rules for one in found} == {("ignored_params",)}
    assert collisions(crawled, "slash") == ()
    assert collisions(crawled, "", "http://b.example:80") == ()


def test_collisions_of_the_standards_are_read_from_the_log(tmp_path: Path) -> None:
    with Driver(tmp_path, partitions=1, web=sessions(), settings=QUICK) as crawl:
        crawl.seed(f"{A}/x#top", f"{A}/x#end", f"{A}/x", f"{A}/%7ey", f"{A}/y#alone")
        crawl.step(0)
    (one,) = collisions(tmp_path, "fragment")
    assert (one.identity, one.count) == (f"{A}/x", 3)
    assert one.spellings == (f"{A}/x", f"{A}/x#end", f"{A}/x#top")
    assert collisions(tmp_path, "percent_unreserved") == ()


def test_rules_and_signals_are_listed(crawled: Path) -> None:
    (one,) = rules(crawled)
    assert (one.origin_key, one.rule, one.value, one.act) == (
        ORIGIN,
        RuleName.IGNORED_PARAMS,
        "sid",
        RuleAct.APPLIED,
    )
    (signal,) = status(crawled).signals
    assert (signal.origin_key, signal.name, signal.total) == (ORIGIN, "ignored_params", 2 * SESSIONS)


def test_what_was_merged_comes_apart_and_is_fetched(tmp_path: Path) -> None:
    def refuse(crawl: Driver) -> None:
        row = crawl.url(f"{A}/p1?sid=1")
        assert row is not None
        assert (row.state, row.reason) == (State.BLOCKED, Reason.MERGED)
        crawl.control(RULE.replace(b"rule_apply", b"rule_refuse"))
        crawl.run(until_ms=crawl.clock.at_ms + 60_000)
        assert crawl.state(f"{A}/p1?sid=1") is State.FETCHED
        assert crawl.state(f"{A}/p1") is State.FETCHED

    crawl_with_rule(tmp_path, refuse)
    assert collisions(tmp_path) == ()
    assert found_wrong(tmp_path) == {}


def test_a_learned_rule_that_turns_out_wrong_is_withdrawn_by_the_crawl_itself(tmp_path: Path) -> None:
    assert crawl_unlearning(tmp_path / "c") == {State.FETCHED}
    assert found_wrong(tmp_path / "c", deep=True) == {}
    (one,) = rules(tmp_path / "c")
    assert (one.act, one.learned, one.against) == (RuleAct.WITHDRAWN, True, 250)
    assert collisions(tmp_path / "c", "slash") == ()
    (told,) = status(tmp_path / "c").withdrawn
    assert told == one
    assert "Withdrawn: slash=add at http://a.example:80, which was learned" in "\n".join(
        status_lines(status(tmp_path / "c"))
    )
    assert rebuild(tmp_path / "c", tmp_path / "new", lambda _: None, processes=1).equal


CASES = (
    "http://h/a/?x=1&a=2&sid=3", "http://h/a", "http://h/", "http://h/a.b", "http://h:81/a", "https://h/?", "http://h/a//",
    "http://h/?sid=1", "http://[::1]/a?b&a", "http://h/a?utm_id=1&utm_x", "http://h/?=1&a", "http://h/a?b=&b&a=1=2",
)  # fmt: skip
RULES = (
    (), ((1, "ignored_params", "sid"),), ((1, "tracking_params", "utm_*"), (2, "query_order", "")),
    ((1, "slash", "add"),), ((2, "slash", "strip"), (1, "slash", "add")), ((1, "scheme", "https"),),
    ((1, "scheme", "http"), (2, "slash", "strip"), (3, "query_order", "")),
)  # fmt: skip


@pytest.mark.parametrize("applied", RULES)
@pytest.mark.parametrize("profile", list(url_rules.PROFILES))
def test_both_merge_alike(profile: str, applied: tuple[tuple[int, str, str], ...]) -> None:
    own = url_rules.composed((RuleName.named(name), value) for _, name, value in sorted(applied))
    for url in CASES:
        found = canonical.canonicalize(url)
        assert isinstance(found, canonical.Identity)
        merge = merging.merge_of(url_rules.effective(profile, own), found.identity)
        theirs = identity_reference.stands_for(found.identity, identity_reference.in_force(profile, applied))
        assert theirs == ((merge.into, merge.rules) if merge else (found.identity, ())), url


def test_both_know_the_same_lists() -> None:
    assert set(identity_reference.TRACKING_EVERYWHERE) == set(url_rules.INDEX.tracking_params)


def test_a_crawl_that_learns_is_proved_and_rebuilt(tmp_path: Path) -> None:
    crawl_learning(tmp_path / "c")
    assert found_wrong(tmp_path / "c", deep=True) == {}
    (one,) = [rule for rule in rules(tmp_path / "c") if rule.act is RuleAct.APPLIED]
    assert (one.rule, one.value, one.learned, one.agreeing) == (RuleName.SLASH, "add", True, 3)
    assert len(collisions(tmp_path / "c", "slash")) >= 3
    assert rebuild(tmp_path / "c", tmp_path / "new", lambda _: None, processes=1).equal
