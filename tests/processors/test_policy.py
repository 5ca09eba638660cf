"""Verdicts: their order, their version, and what folding a policy changes."""

from typing import Any

import pytest
from msgspec.structs import replace

from frontlog.avro.enums import PolicyAct, Reason, RobotsState, ScopeKind
from frontlog.avro.events import OperatorPolicy, RobotsPolicy
from frontlog.processors import policy
from frontlog.processors.settings import Scope, Settings
from frontlog.state import keys
from frontlog.state.rows import MarksRow, SiteRow
from support.machine import NOW_MS, Bench

R, RS = Reason, RobotsState
URL = "http://a.example/x"
ORIGIN = "http://a.example:80"
TOKEN = "frontlog"
SCOPES = [
    (ScopeKind.CRAWL, ""), (ScopeKind.SITE, "a.example"), (ScopeKind.HOST, "a.example"), (ScopeKind.ORIGIN, ORIGIN),
]  # fmt: skip


def operator(seq: int, kind: ScopeKind, scope: str, act: PolicyAct, **fields: Any) -> OperatorPolicy:
    return replace(
        OperatorPolicy(seq=seq, scope_kind=kind, scope=scope, act=act, actor="ops", note="why"), **fields
    )


def robots(seq: int, state: RobotsState, **fields: Any) -> RobotsPolicy:
    return replace(
        RobotsPolicy(seq=seq, origin_key=ORIGIN, state=state, reason=R.OK, expires_ms=NOW_MS + 9), **fields
    )


def seeded() -> Bench:
    bench = Bench()
    bench.seed(URL)
    return bench


def verdict(bench: Bench) -> policy.Verdict:
    return policy.judge(bench.tables, policy.standing(bench.tables, ORIGIN), URL, URL, 0)


@pytest.mark.parametrize(("kind", "scope"), SCOPES)
def test_a_block_of_each_scope(kind: ScopeKind, scope: str) -> None:
    bench = seeded()
    assert verdict(bench).allowed
    policy.apply_operator(bench.tables, operator(50, kind, scope, PolicyAct.BLOCK))
    found = verdict(bench)
    assert (found.allowed, found.reason, found.version) == (False, R.OPERATOR_BLOCK, 50)
    assert ("crawl" if kind is ScopeKind.CRAWL else kind.value) in found.detail
    policy.apply_operator(bench.tables, operator(51, kind, scope, PolicyAct.UNBLOCK))
    assert verdict(bench) == policy.Verdict(True, R.ADMITTED, "", 51)


@pytest.mark.parametrize(
    ("kind", "scope", "act"),
    [
        *((kind, scope, act) for kind, scope in SCOPES for act in (PolicyAct.PAUSE, PolicyAct.RESUME)),
        (ScopeKind.HOST, "a.example", PolicyAct.SLOW),
    ],
)
def test_pauses_and_gaps_change_no_verdict_and_no_version(
    kind: ScopeKind, scope: str, act: PolicyAct
) -> None:
    bench = seeded()
    before = verdict(bench)
    policy.apply_operator(bench.tables, operator(50, kind, scope, act, gap_ms=5))
    assert verdict(bench) == before
    at = policy.standing(bench.tables, ORIGIN)
    assert at.host is not None
    held = (bench.tables.crawl.crawl_paused, policy.paused_by(at), at.host.paused, at.host.operator_gap_ms)
    expected = {
        ScopeKind.CRAWL: (True, False, False, 0), ScopeKind.SITE: (False, True, False, 0),
        ScopeKind.HOST: (False, False, True, 0), ScopeKind.ORIGIN: (False, True, False, 0),
    }  # fmt: skip
    if act is PolicyAct.PAUSE:
        assert held == expected[kind]
    else:
        assert held == (False, False, False, 5 if act is PolicyAct.SLOW else 0)


def test_the_version_is_the_newest_of_crawl_site_host_origin_and_robots() -> None:
    bench = seeded()
    for seq, (kind, scope) in enumerate(SCOPES, 50):
        policy.apply_operator(bench.tables, operator(seq, kind, scope, PolicyAct.UNBLOCK))
        assert verdict(bench).version == seq
    policy.apply_robots(bench.tables, robots(60, RS.RULES, text=b""))
    assert verdict(bench).version == 60
    policy.apply_robots(bench.tables, robots(61, RS.RULES, renewal=True))
    assert verdict(bench).version == 60, "a renewal changes no verdict"
    policy.apply_operator(bench.tables, operator(70, ScopeKind.SITE, "b.example", PolicyAct.BLOCK))
    assert verdict(bench).version == 60, "another site"


def test_the_order_is_block_scope_robots() -> None:
    bench = Bench(Settings(scope=Scope(exclude=("x$",))))
    bench.seed("http://a.example/")
    policy.apply_robots(bench.tables, robots(60, RS.RULES, text=b"User-agent: *\nDisallow: /\n"))
    policy.apply_operator(bench.tables, operator(61, ScopeKind.HOST, "a.example", PolicyAct.BLOCK))
    assert verdict(bench).reason is R.OPERATOR_BLOCK
    policy.apply_operator(bench.tables, operator(62, ScopeKind.HOST, "a.example", PolicyAct.UNBLOCK))
    assert verdict(bench).reason is R.OUT_OF_SCOPE
    bench.configure(Settings())
    assert verdict(bench).reason is R.ROBOTS_DENIED


@pytest.mark.parametrize(
    ("events", "allowed"),
    [
        ([], True),
        ([(RS.RULES, b"User-agent: *\nDisallow: /x\n")], False),
        ([(RS.RULES, b"User-agent: *\nDisallow: /x\n"), (RS.UNREACHABLE, b"")], False),
        ([(RS.RULES, b"User-agent: *\nDisallow: /x\n"), (RS.ALLOW_ALL, b"")], True),
        ([(RS.RULES, b"User-agent: *\nDisallow: /x\n"), (RS.RULES, b"")], True),
        ([(RS.ALLOW_ALL, b""), (RS.UNREACHABLE, b"")], True),
        ([(RS.UNREACHABLE, b"")], True),
    ],
)
def test_what_robots_says_in_each_state(events: list[tuple[RobotsState, bytes]], allowed: bool) -> None:
    """Whether anything may be fetched while robots.txt is away is for the claim to see."""
    bench = seeded()
    for seq, (state, text) in enumerate(events, 60):
        policy.apply_robots(bench.tables, robots(seq, state, text=text))
    found = verdict(bench)
    assert found.allowed is allowed
    assert found.reason is (R.ADMITTED if allowed else R.ROBOTS_DENIED)


def test_a_verdict_names_its_line() -> None:
    bench = seeded()
    policy.apply_robots(bench.tables, robots(60, RS.RULES, text=b"User-agent: frontlog\n\nDisallow: /x\n"))
    assert verdict(bench).detail == "line 3: Disallow: /x (group frontlog)"


def test_a_policy_is_kept_whole_with_its_seq() -> None:
    bench = seeded()
    policy.apply_robots(
        bench.tables, robots(60, RS.RULES, text=b"t", source_url="s", status=200, crawl_delay_ms=7)
    )
    row = bench.tables.policies.get(policy.policy_key(ScopeKind.ORIGIN, ORIGIN, 60))
    assert row is not None
    assert (row.text, row.source_url, row.status, row.crawl_delay_ms, row.robots_state) == (
        b"t",
        "s",
        200,
        7,
        RS.RULES,
    )
    policy.apply_operator(bench.tables, operator(61, ScopeKind.SITE, "a.example", PolicyAct.BLOCK))
    row = bench.tables.policies.get(policy.policy_key(ScopeKind.SITE, "a.example", 61))
    assert row is not None
    assert (row.act, row.actor, row.note) == (PolicyAct.BLOCK, "ops", "why")


@pytest.mark.parametrize(("kind", "scope"), SCOPES)
def test_a_policy_about_what_is_not_known_yet_holds_when_it_comes(kind: ScopeKind, scope: str) -> None:
    bench = Bench()
    policy.apply_operator(bench.tables, operator(50, kind, scope, PolicyAct.BLOCK))
    made = bench.seed(URL)
    assert [reason for _, _, reason in made.moves] == [R.OPERATOR_BLOCK]


def test_the_crawl_delay_of_a_host() -> None:
    bench = seeded()
    bench.tables.head = replace(bench.tables.head, at_ms=NOW_MS)
    bench.seed("https://a.example/")
    policy.apply_robots(bench.tables, robots(60, RS.RULES, crawl_delay_ms=30))
    other = replace(robots(61, RS.RULES, crawl_delay_ms=20), origin_key="https://a.example:443")
    policy.apply_robots(bench.tables, other)
    assert bench.host("a.example").crawl_delay_ms == 30, "the longest of the origins"
    host = bench.host("a.example")
    bench.tables.head = replace(bench.tables.head, at_ms=NOW_MS + 9)
    assert policy.crawl_delay_ms(bench.tables, host) == 0, "nothing of it is believed any more"
    origin = replace(bench.origin(ORIGIN), robots_copy_until_ms=NOW_MS + 10)
    bench.tables.origins.put(keys.origin_id(ORIGIN), origin)
    assert policy.crawl_delay_ms(bench.tables, host) == 30, "a copy that serves is believed"


@pytest.mark.parametrize(
    ("pages", "brought", "spent"), [(1, False, False), (2, False, True), (2, True, False), (3, False, True)]
)
def test_the_budget_of_a_host(pages: int, brought: bool, spent: bool) -> None:
    bench = Bench(Settings(scope=Scope(pages_per_host_max=2)))
    bench.seed(URL)
    bench.tables.hosts.put(keys.host_id("a.example"), replace(bench.host("a.example"), pages=pages))
    at = policy.standing(bench.tables, ORIGIN)
    row = replace(bench.url(URL), last_success_ms=NOW_MS if brought else 0)
    assert policy.budget_spent(bench.tables, at, row) is spent
    assert policy.budget_spent(
        bench.tables, at, replace(row, last_success_ms=NOW_MS, location="elsewhere")
    ) == (pages >= 2)


def test_settings_in_force() -> None:
    bench = Bench()
    assert policy.settings_of(bench.tables) == Settings()
    other = Settings(scope=Scope(depth_max=3))
    bench.configure(other)
    assert policy.settings_of(bench.tables) == other
    assert bench.tables.crawl == MarksRow(settings_seq=1, policy_seq=1, settings=bench.tables.crawl.settings)


def test_what_a_seed_adds_counts_for_its_own_verdict() -> None:
    bench = Bench()
    at = policy.standing(bench.tables, ORIGIN)
    assert policy.before_robots(bench.tables, at, URL, 0).reason is R.OUT_OF_SCOPE
    assert policy.before_robots(bench.tables, at, URL, 0, widened="").allowed
    assert bench.tables.sites.get(b"a.example") in (None, SiteRow()), "judging writes nothing"
