"""Checks of politeness and policy, shown single decisions: what each of them lets pass and what not."""

from typing import Any

import pytest
from msgspec.structs import replace

from frontlog.avro.enums import (
    FetchKind,
    PolicyAct,
    Reason,
    RobotsState,
    ScopeKind,
    SourceKind,
    State,
)
from frontlog.avro.events import (
    Discovery,
    Event,
    PartitionPaused,
)
from frontlog.processors.settings import Politeness, Scope
from frontlog.replay import checks_policy, checks_politeness, checks_traps
from support.stage import (
    ADDRESS,
    ASKED,
    CLAIM,
    CLOCK,
    ERRAND,
    FETCHED,
    FIRST,
    HOST,
    LOOKED_UP,
    NOW_MS,
    ORIGIN,
    RESULT,
    ROBOTS,
    SEEN,
    URL,
    Stage,
    act,
    settings,
)

# --- politeness --------------------------------------------------------------------------------------------------


def claimed_again(stage: Stage, after_ms: int, **claim: Any) -> list[str]:
    """A second claim so long after the first request ended."""
    again = replace(
        FETCHED, from_state=State.FETCHED, to_state=State.ELIGIBLE, reason=Reason.RECRAWL_FORCED, clock=None
    )
    later = replace(CLAIM, fence=2, **claim)
    return stage.show(again, later, at_ms=NOW_MS + after_ms)


@pytest.mark.parametrize(
    ("result", "wait_ms"),
    [
        ({}, 1_000),
        ({"total_ms": 300, "ended_ms": NOW_MS + 300}, 3_300),
        ({"status": 503, "retry_after": "7"}, 7_000),
        ({"status": 429, "retry_after": "0"}, 2_000),
        ({"status": 429, "retry_after": "never"}, 2_000),
        ({"status": 503, "retry_after": "99999999999"}, 86_400_000),
        ({"status": 0, "reason": Reason.TIMEOUT}, 2_000),
        ({"status": 500}, 1_000),
    ],
)
def test_the_rest_after_an_answer(result: dict[str, Any], wait_ms: int) -> None:
    end_ms = int(result.get("ended_ms", NOW_MS))
    for early_ms in (0, 1):
        stage = Stage(checks_politeness.Gaps)
        stage.show(ROBOTS, LOOKED_UP, SEEN, CLAIM)
        stage.show(FETCHED, inputs=(replace(RESULT, **result),), at_ms=end_ms)
        told = claimed_again(stage, wait_ms - early_ms)
        assert [text.partition(" (")[0] for text in told] == [f"{HOST} was claimed 1 ms too early"] * early_ms


def test_ten_failures_give_a_host_a_day() -> None:
    stage = Stage(checks_politeness.Gaps)
    stage.show(settings(politeness=Politeness(host_failures_max=2, host_pause_ms=86_400_000)))
    at_ms = NOW_MS
    stage.show(ROBOTS, LOOKED_UP, SEEN, CLAIM)
    for fence in (1, 2):
        failed = replace(
            RESULT, status=0, reason=Reason.TIMEOUT, fence=fence, started_ms=at_ms, ended_ms=at_ms
        )
        put_off = replace(FETCHED, to_state=State.DEFERRED, reason=Reason.TIMEOUT, fence=fence)
        stage.show(put_off, inputs=(failed,), at_ms=at_ms)
        at_ms += 2_000
        if fence == 1:
            due = replace(
                CLAIM,
                from_state=State.DEFERRED,
                to_state=State.ELIGIBLE,
                reason=Reason.DUE,
                clock=None,
                cause_topic="claim",
            )
            assert stage.show(due, replace(CLAIM, fence=2), at_ms=at_ms) == []
    again = replace(CLAIM, fence=3)
    assert stage.show(again, at_ms=at_ms + 86_000_000) == [
        f"{HOST} was claimed 398000 ms too early (86400000 ms after failing by timeout)"
    ]


def test_a_request_starts_after_its_claim() -> None:
    stage = Stage(checks_politeness.Gaps)
    stage.show(ROBOTS, LOOKED_UP, SEEN, CLAIM)
    assert stage.show(FETCHED, inputs=(replace(RESULT, started_ms=NOW_MS - 5),)) == [
        f"the request of {URL} started 5 ms before it was claimed"
    ]


def test_a_crawl_delay_beyond_an_hour_waits_for_an_operator() -> None:
    delayed = replace(ROBOTS, state=RobotsState.RULES, crawl_delay_ms=4_000_000)
    stage = Stage(checks_politeness.Gaps)
    assert stage.show(delayed, LOOKED_UP, SEEN, CLAIM) == [
        f"{HOST} was claimed, whose Crawl-delay of 4000000 ms waits for an operator"
    ]
    stage = Stage(checks_politeness.Gaps)
    assert stage.show(delayed, act(ScopeKind.HOST, HOST, PolicyAct.SLOW, 5), at_ms=NOW_MS - 5) == []
    assert stage.show(LOOKED_UP, SEEN, CLAIM, at_ms=NOW_MS) == []


def test_an_operators_gap_holds_from_now_on() -> None:
    stage = Stage(checks_politeness.Gaps)
    stage.show(ROBOTS, LOOKED_UP, SEEN, act(ScopeKind.HOST, HOST, PolicyAct.SLOW, 5_000))
    assert stage.show(CLAIM, at_ms=NOW_MS + 4_999) == [
        f"{HOST} was claimed 1 ms too early (slowed to 5000 ms)"
    ]


def test_a_crawl_delay_learned_elsewhere_counts_from_the_last_request() -> None:
    stage = Stage(checks_politeness.Gaps)
    stage.show(ROBOTS, LOOKED_UP, SEEN, CLAIM)
    stage.show(FETCHED, inputs=(RESULT,))
    stage.show(
        replace(
            ROBOTS,
            state=RobotsState.RULES,
            crawl_delay_ms=9_000,
            cause_topic="fetch-results",
            cause_offset=99,
        )
    )
    assert claimed_again(stage, 8_999) == [f"{HOST} was claimed 1 ms too early (a Crawl-delay of 9000 ms)"]


def test_a_lease_without_a_result_rests_from_its_end() -> None:
    stage = Stage(checks_politeness.Gaps)
    stage.show(ROBOTS, LOOKED_UP, SEEN, CLAIM)
    lost = replace(
        FETCHED, to_state=State.ELIGIBLE, reason=Reason.LEASE_EXPIRED, cause_topic="timer", cause_offset=-1
    )
    stage.show(lost, at_ms=NOW_MS + 90_000)
    told = stage.show(replace(CLAIM, fence=2), at_ms=NOW_MS + 90_999)
    assert told == [f"{HOST} was claimed 1 ms too early (a gap of 1000 ms after a lease without a result)"]


def test_claims_go_to_the_address_that_was_looked_up() -> None:
    looked_up = replace(LOOKED_UP, cause_topic="fetch-results", cause_offset=7)
    stage = Stage(checks_politeness.Addresses)
    told = stage.show(looked_up, inputs=(replace(RESULT, kind=FetchKind.RESOLVE),))
    assert told == [f"the address of {HOST} became {ADDRESS} without a look-up that says so"], (
        "no look-up was under way"
    )
    assert stage.show(SEEN, CLAIM)[1:] == []
    stale = Stage(checks_politeness.Addresses)
    stale.show(replace(LOOKED_UP, clock=replace(CLOCK, address_expires_ms=NOW_MS)), SEEN)
    assert stale.show(CLAIM)[1:] == [
        f"{HOST} was claimed at {ADDRESS}; looked up: {ADDRESS}, good until {NOW_MS}"
    ]
    elsewhere = Stage(checks_politeness.Addresses)
    elsewhere.show(LOOKED_UP, SEEN, CLAIM)
    told = elsewhere.show(FETCHED, inputs=(replace(RESULT, address="203.0.113.9"),))
    assert told[1:] == [f"{URL} was asked of 203.0.113.9, claimed for {ADDRESS}"]


# --- policy ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("policy", "said"),
    [
        (act(ScopeKind.CRAWL, "", PolicyAct.BLOCK), "while the crawl was blocked"),
        (act(ScopeKind.SITE, HOST, PolicyAct.BLOCK), "while its site was blocked"),
        (act(ScopeKind.HOST, HOST, PolicyAct.BLOCK), "while its host was blocked"),
        (act(ScopeKind.ORIGIN, ORIGIN, PolicyAct.BLOCK), "while its origin was blocked"),
        (act(ScopeKind.HOST, HOST, PolicyAct.PAUSE), "while its host was paused"),
        (PartitionPaused(paused=True), "while the partition was paused"),
    ],
)
def test_what_operators_forbid(policy: Event, said: str) -> None:
    for asked in (CLAIM, ASKED):
        stage = Stage(checks_policy.Operators)
        told = stage.show(SEEN, policy, asked)
        assert [text.partition("was claimed ")[2] for text in told] == [said]
        assert stage.watch.examined == 1


def test_a_robots_hop_for_another_origin_is_not_that_origins_own() -> None:
    stage = Stage(checks_policy.Operators)
    hop = replace(ASKED, clock=replace(ASKED.clock, errand=replace(ERRAND, origin_key="http://b.example:80")))
    assert stage.show(act(ScopeKind.ORIGIN, "http://b.example:80", PolicyAct.BLOCK), hop) == []


@pytest.mark.parametrize(
    ("scope", "depth", "said"),
    [
        (Scope(mode="any", depth_max=3), 4, "depth 4"),
        (Scope(mode="any", exclude=("/1$",)), 1, "excluded by /1$"),
        (Scope(mode="any", include=("/2$",)), 1, "no include pattern matches"),
        (Scope(mode="any", include=("/1$",)), 1, ""),
        (Scope(mode="host"), 1, "no seed covers it (mode host)"),
        (Scope(mode="site"), 1, "no seed covers it (mode site)"),
        (Scope(mode="prefix"), 1, "no seed covers it (mode prefix)"),
    ],
)
def test_the_scope_of_claims(scope: Scope, depth: int, said: str) -> None:
    stage = Stage(checks_policy.Scope)
    told = stage.show(settings(scope=scope), SEEN, replace(CLAIM, depth=depth))
    assert told == ([f"{URL} was claimed out of scope: {said}"] if said else [])


def test_a_budget_of_pages_is_kept() -> None:
    stage = Stage(checks_traps.Budgets)
    stage.show(settings(scope=Scope(mode="any", pages_per_host_max=1)), SEEN, CLAIM, FETCHED)
    other = "http://a.example/2"
    more = [replace(one, url=other) for one in (SEEN, CLAIM)]
    assert stage.show(*more) == [f"{other} was claimed beyond its budget (host_budget)"]


def test_only_seeds_widen_the_scope() -> None:
    wide = replace(FIRST, scope="")
    linked = replace(SEEN, first=wide, cause_topic="fetch-results", cause_offset=7)
    stage = Stage(checks_policy.Scope)
    link = Discovery(origin_key=ORIGIN, source_kind=SourceKind.PAGE)
    assert stage.show(linked, inputs=(link,)) == [f"{URL} widens the scope, but was found as page"]
    for kind, depth in ((SourceKind.SEED, 0), (SourceKind.REDIRECT, 0), (SourceKind.OPERATOR, 5)):
        fine = Stage(checks_policy.Scope)
        assert fine.show(linked, inputs=(replace(link, source_kind=kind, depth=depth),)) == []


@pytest.mark.parametrize(
    ("robots", "said"),
    [
        ({"state": RobotsState.UNKNOWN}, "not known"),
        ({"state": RobotsState.UNREACHABLE}, "unreachable"),
        ({"state": RobotsState.UNREACHABLE, "copy_until_ms": 2 * NOW_MS}, ""),
        ({"expires_ms": NOW_MS}, "out of date"),
        ({}, ""),
    ],
)
def test_a_claim_needs_a_robots_txt_in_force(robots: dict[str, Any], said: str) -> None:
    stage = Stage(checks_policy.Robots)
    told = stage.show(replace(ROBOTS, **robots), SEEN, CLAIM)
    assert told == ([f"{URL} was claimed while the robots.txt of {ORIGIN} was {said}"] if said else [])


def test_what_robots_denies_was_denied_by_it() -> None:
    rules = replace(
        ROBOTS,
        state=RobotsState.RULES,
        text=b"User-agent: *\nDisallow: /2\nCrawl-delay: 3\n",
        crawl_delay_ms=3_000,
    )
    denied = replace(SEEN, to_state=State.BLOCKED, reason=Reason.ROBOTS_DENIED)
    stage = Stage(checks_policy.Robots)
    assert stage.show(rules, SEEN, denied) == [f"{URL} was denied, but the robots.txt of seq 2 allows it"]
    stage = Stage(checks_policy.Robots)
    assert stage.show(replace(rules, crawl_delay_ms=1)) == [
        f"Crawl-delay 1 ms of {ORIGIN}; its text says 3000 ms"
    ]
    stage = Stage(checks_policy.Robots)
    forbidden = [replace(one, url="http://a.example/2") for one in (SEEN, CLAIM)]
    assert stage.show(rules, *forbidden) == [
        "http://a.example/2 was claimed, which the robots.txt of seq 2 disallows"
    ]
