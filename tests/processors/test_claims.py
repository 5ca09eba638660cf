"""The claim: one decision, in the right order, never for what is blocked, paused, denied, busy or too early."""

from itertools import pairwise
from typing import Any

import pytest
from msgspec.structs import replace

from frontlog.avro.enums import FetchKind, HostEvent, Reason, RobotsState, ScopeKind, SourceKind, State, Topic
from frontlog.avro.events import Transition
from frontlog.processors import claims, hosts
from frontlog.processors.settings import Attempts, Scope, Settings
from frontlog.state import keys
from support.machine import ADDRESS, NOW_MS, Bench, Made

R, S, K = Reason, State, FetchKind
URL = "http://a.example/x"
ORIGIN = "http://a.example:80"
HOUR, DAY = 3_600_000, 86_400_000


def test_what_stands_before_a_page_is_done_first_one_thing_a_turn() -> None:
    bench = Bench()
    bench.seed(URL)
    look_up = bench.claim()
    assert (look_up.kind, look_up.host, look_up.address, look_up.fence) == (K.RESOLVE, "a.example", "", 1)
    assert bench.claims().leases == [], "the host has its slot taken"
    bench.answer(look_up)
    robots = bench.claim()
    assert (robots.kind, robots.requested, robots.address, robots.fence) == (
        K.ROBOTS, "http://a.example/robots.txt", ADDRESS, 2,
    )  # fmt: skip
    assert bench.claims().leases == []
    bench.answer(robots)
    assert bench.claims().leases == [], "the gap after robots.txt"
    bench.now_ms += 1_000
    page = bench.claim()
    assert (page.kind, page.url, page.requested, page.address, page.fence) == (K.PAGE, URL, URL, ADDRESS, 1)


def test_a_claim_is_one_decision_with_everything_in_it() -> None:
    bench = Bench(Settings(attempts=Attempts(lease_ms=70_000)))
    bench.seed(URL)
    bench.answer(bench.claim())
    bench.answer(bench.claim())
    bench.wait()
    made = bench.claims()
    (event,) = made.decisions
    assert isinstance(event, Transition)
    clock = event.clock
    assert clock is not None
    assert (event.from_state, event.to_state, event.reason, event.fence) == (
        S.ELIGIBLE,
        S.LEASED,
        R.CLAIMED,
        1,
    )
    assert (event.lease_owner, event.deadline_ms) == ("bench", bench.now_ms + 70_000)
    assert (clock.in_flight, clock.address_in_flight, clock.next_eligible_ms) == (1, 1, bench.now_ms + 1_000)
    (lease,) = made.leases
    assert (lease.fence, lease.deadline_ms, lease.policy_version) == (
        1,
        event.deadline_ms,
        event.policy_version,
    )
    assert event.policy_version == bench.origin(ORIGIN).robots_seq


def test_two_claims_at_the_same_moment_give_one_lease() -> None:
    """Seed 000, invariant 2."""
    bench = Bench()
    bench.seed(URL, "http://a.example/y")
    bench.page_lease()
    assert bench.claims().leases == []


def test_no_more_leases_than_wanted_and_the_host_that_waits_longest_first() -> None:
    bench = Bench()
    for n in range(5):
        bench.seed(f"http://h{n}.example/")
        bench.now_ms += 10
    made = bench.claims(2)
    assert [lease.host for lease in made.leases] == ["h0.example", "h1.example"]
    assert bench.claims(0) == Made()
    assert [lease.host for lease in bench.claims(100).leases] == ["h2.example", "h3.example", "h4.example"]


@pytest.mark.parametrize("before", [0, 1, 1_000])
def test_no_host_has_its_turn_early(before: int) -> None:
    bench = Bench()
    bench.seed("http://a.example/y")
    bench.page(bench.prepare(URL))
    due = bench.host("a.example").next_eligible_ms
    bench.now_ms = due - before
    assert len(bench.claims().leases) == (before == 0)


def test_the_best_url_of_all_origins_of_a_host_is_first() -> None:
    bench = Bench()
    bench.links("https://a.example/late", depth=1)
    bench.tables.hosts.put(keys.host_id("a.example"), replace(bench.host("a.example"), seeds=("",)))
    bench.seed(URL, "http://a.example/y")
    assert bench.page_lease().url == URL, "a seed's class is before a link's"


# --- verdicts ------------------------------------------------------------------------------------------------


def test_robots_is_judged_again_at_the_claim_and_the_turn_goes_on() -> None:
    bench = Bench()
    bench.seed("http://a.example/private/1", "http://a.example/private/2")
    bench.now_ms += 1
    bench.seed(URL)
    bench.answer(bench.claim())
    bench.answer(bench.claim(), robots_txt=b"User-agent: *\nDisallow: /private\n")
    bench.wait()
    made = bench.claims()
    blocked = (S.ELIGIBLE, S.BLOCKED, R.ROBOTS_DENIED)
    assert made.moves == [blocked, blocked, (S.ELIGIBLE, S.LEASED, R.CLAIMED)]
    assert [lease.url for lease in made.leases] == [URL]
    details = [getattr(d, "detail") for d in made.decisions[:2]]  # noqa: B009
    assert details == ["line 2: Disallow: /private (group *)"] * 2


@pytest.mark.parametrize(
    ("kind", "target"),
    [
        (ScopeKind.CRAWL, ""),
        (ScopeKind.SITE, "a.example"),
        (ScopeKind.HOST, "a.example"),
        (ScopeKind.ORIGIN, ORIGIN),
    ],
)
def test_nothing_that_is_blocked_is_claimed_not_even_a_look_up(kind: ScopeKind, target: str) -> None:
    bench = Bench()
    bench.seed(URL)
    bench.control("block", target_kind=kind, target=target)
    made = bench.claims()
    assert made.leases == []
    assert made.moves == [(S.ELIGIBLE, S.BLOCKED, R.OPERATOR_BLOCK)]
    bench.control("unblock", target_kind=kind, target=target)
    bench.jobs()
    assert bench.claim().kind is K.RESOLVE


@pytest.mark.parametrize(
    ("kind", "target"),
    [(ScopeKind.SITE, "a.example"), (ScopeKind.HOST, "a.example"), (ScopeKind.ORIGIN, ORIGIN)],
)
@pytest.mark.parametrize("wait_ms", [0, 30_000, HOUR])
def test_nothing_that_is_paused_is_claimed_and_it_goes_on_at_once(
    kind: ScopeKind, target: str, wait_ms: int
) -> None:
    bench = Bench()
    bench.seed(URL)
    bench.control("pause", target_kind=kind, target=target)
    for _ in range(3):
        assert bench.claims().leases == []
        bench.now_ms += 25_000
    assert bench.url(URL).state is S.ELIGIBLE, "a pause changes no URL"
    bench.now_ms += wait_ms
    bench.control("resume", target_kind=kind, target=target)
    bench.jobs()
    assert bench.claim().kind is K.RESOLVE


def test_a_paused_origin_keeps_no_other_origin_of_its_host_waiting() -> None:
    bench = Bench()
    bench.seed(URL, "https://a.example/s")
    bench.control("pause", target_kind=ScopeKind.ORIGIN, target=ORIGIN)
    assert bench.page_lease().url == "https://a.example/s"


def test_a_host_of_a_paused_site_is_looked_at_once_an_hour_at_most() -> None:
    bench = Bench()
    bench.seed(URL)
    bench.control("pause", target_kind=ScopeKind.SITE, target="a.example")
    parked = sum(len(bench.claims().decisions) for _ in range(1_000))
    assert parked == 1
    assert bench.host("a.example").ready_ms == bench.now_ms + claims.PARK_PAUSED_MS


def test_a_page_that_was_given_out_is_taken_back_when_its_recrawl_is_refused() -> None:
    bench = Bench()
    bench.page(bench.prepare(URL))
    bench.control("recrawl", target_kind=ScopeKind.CRAWL, urls=(URL,))
    bench.control("block", target_kind=ScopeKind.HOST, target="a.example")
    bench.jobs()
    bench.wait()
    made = bench.claims()
    assert made.moves == [(S.ELIGIBLE, S.BLOCKED, R.OPERATOR_BLOCK)]
    assert [(e.url, e.reason) for e in made.out(Topic.REMOVED)] == [(URL, R.OPERATOR_BLOCK)]


def test_at_most_so_many_urls_are_refused_a_turn_and_the_rest_follows() -> None:
    bench = Bench()
    bench.links(
        *(f"http://a.example/{n}" for n in range(claims.REFUSED_MAX + 20)), kind=SourceKind.SEED, depth=0
    )
    bench.control("block", target_kind=ScopeKind.HOST, target="a.example")
    assert len(bench.claims().moves) == claims.REFUSED_MAX
    assert len(bench.claims().moves) == 20


def test_pages_of_a_host_are_bounded_and_a_counted_page_may_come_again() -> None:
    bench = Bench(Settings(scope=Scope(pages_per_host_max=1)))
    bench.page(bench.prepare(URL))
    bench.seed("http://a.example/y")
    bench.wait()
    made = bench.claims()
    assert made.moves == [(S.ELIGIBLE, S.BLOCKED, R.HOST_BUDGET)]
    assert made.out(Topic.REMOVED) == []
    bench.control("recrawl", target_kind=ScopeKind.CRAWL, urls=(URL,))
    assert bench.page_lease().url == URL


# --- addresses -----------------------------------------------------------------------------------------------


def test_a_refused_address_blocks_without_a_socket() -> None:
    bench = Bench()
    bench.seed(URL)
    bench.answer(bench.claim(), address="", status=0, reason=R.BLOCKED_NETWORK)
    made = bench.claims()
    assert (made.leases, made.moves) == ([], [(S.ELIGIBLE, S.BLOCKED, R.BLOCKED_NETWORK)])


def test_a_name_that_is_never_found_ends_in_a_terminal_reason() -> None:
    bench = Bench()
    bench.seed(URL)
    waits: list[int] = []
    for _ in range(4):
        bench.wait()
        started = bench.now_ms
        bench.answer(bench.claim(), address="", reason=R.DNS_FAILED)
        waits.append(bench.host("a.example").ready_ms - started)
    assert waits == [60_000, 120_000, 240_000, 0]
    made = bench.claims()
    assert made.moves == [(S.ELIGIBLE, S.LEASED, R.CLAIMED), (S.LEASED, S.FAILED, R.DNS_FAILED)]
    assert made.leases == []
    assert bench.host("a.example").in_flight == 0


def test_an_address_is_looked_up_again_when_it_has_expired() -> None:
    bench = Bench()
    bench.page(bench.prepare(URL))
    bench.seed("http://a.example/y")
    bench.now_ms = bench.host("a.example").address_expires_ms
    assert bench.claim().kind is K.RESOLVE


def test_one_address_is_one_budget() -> None:
    """Hosts that share an address have one request at a time, and its rest between them."""
    bench = Bench()
    names = [f"h{n}.example" for n in range(4)]
    bench.seed(*(f"http://{name}/" for name in names))
    for lease in bench.claims().leases:
        bench.answer(lease)
    ends: dict[str, int] = {}
    starts: list[int] = []
    for _ in range(60):
        for lease in bench.claims().leases:
            assert not [name for name in names if bench.host(name).in_flight and name != lease.host]
            starts.append(bench.now_ms)
            bench.now_ms += 300
            bench.answer(lease, total_ms=300, started_ms=bench.now_ms - 300)
            ends[lease.host] = bench.now_ms
        if bench.tables.ready.first() is None:
            break
        bench.wait()
    assert all(bench.url(f"http://{name}/").state is S.FETCHED for name in names)
    assert all(later - earlier >= 300 + 3_000 for earlier, later in pairwise(starts))
    budget = bench.tables.addresses.get(ADDRESS.encode())
    assert budget is not None
    assert budget.in_flight == 0


# --- crawl-delay ---------------------------------------------------------------------------------------------


def test_a_crawl_delay_above_an_hour_waits_for_an_operator_or_another_file() -> None:
    bench = Bench()
    bench.seed(URL)
    bench.answer(bench.claim())
    bench.answer(bench.claim(), robots_txt=b"User-agent: *\nCrawl-delay: 3601\n")
    bench.wait()
    made = bench.claims()
    assert (made.leases, made.host_moves[0].reason) == ([], R.CRAWL_DELAY_TOO_LONG)
    assert bench.host("a.example").ready_ms >= bench.now_ms + DAY
    parked = bench.tables.digest_values()
    bench.now_ms += HOUR
    assert bench.claims() == Made(), "nothing happens meanwhile"
    assert bench.tables.digest_values() == parked
    bench.wait()
    bench.answer(bench.claim())
    assert bench.claim().kind is K.ROBOTS, "after a day the file is looked at again"


def test_an_operators_gap_stands_for_a_crawl_delay_that_is_too_long() -> None:
    bench = Bench()
    bench.seed(URL)
    bench.answer(bench.claim())
    bench.answer(bench.claim(), robots_txt=b"User-agent: *\nCrawl-delay: 7200\n")
    bench.wait()
    bench.claims()
    bench.control("slow", target_kind=ScopeKind.HOST, target="a.example", gap_ms=2_000)
    bench.wait()
    assert bench.claim().url == URL
    assert bench.host("a.example").next_eligible_ms == bench.now_ms + HOUR, "the longest that is honoured"


# --- robots.txt that is out of date or away ------------------------------------------------------------------


def held(state: RobotsState, **fields: Any) -> Bench:
    """A bench whose origin has robots.txt in a state and whose host has an address."""
    bench = Bench()
    bench.seed(URL)
    bench.answer(bench.claim())
    origin = replace(bench.origin(ORIGIN), robots_state=state, **fields)
    bench.tables.origins.put(keys.origin_id(ORIGIN), origin)
    bench.tables.touched.add(keys.host_id("a.example"))
    hosts.settle(bench.tables)
    return bench


@pytest.mark.parametrize(
    ("state", "expires_ms", "copy_until_ms", "kind"),
    [
        (RobotsState.UNKNOWN, 0, 0, K.ROBOTS),
        (RobotsState.UNKNOWN, 5_000, 0, None),
        (RobotsState.RULES, 5_000, 0, K.PAGE),
        (RobotsState.RULES, 0, 0, K.ROBOTS),
        (RobotsState.ALLOW_ALL, 5_000, 0, K.PAGE),
        (RobotsState.ALLOW_ALL, 0, 0, K.ROBOTS),
        (RobotsState.UNREACHABLE, 5_000, 0, None),
        (RobotsState.UNREACHABLE, 5_000, 9_000, K.PAGE),
        (RobotsState.UNREACHABLE, 0, 0, K.ROBOTS),
        (RobotsState.UNREACHABLE, 0, 9_000, K.ROBOTS),
    ],
)
def test_what_each_state_of_robots_lets_be_claimed(
    state: RobotsState, expires_ms: int, copy_until_ms: int, kind: FetchKind | None
) -> None:
    until = NOW_MS + copy_until_ms if copy_until_ms else 0
    bench = held(state, robots_expires_ms=NOW_MS + expires_ms, robots_copy_until_ms=until)
    leases = bench.claims().leases
    assert [lease.kind for lease in leases] == ([kind] if kind else [])
    if kind is None:
        bench.wait()
        assert bench.now_ms == NOW_MS + expires_ms
        assert bench.claim().kind is K.ROBOTS


def test_an_origin_whose_copy_runs_out_is_put_off_without_a_busy_loop() -> None:
    bench = held(
        RobotsState.UNREACHABLE, robots_expires_ms=NOW_MS + HOUR, robots_copy_until_ms=NOW_MS + 1_000
    )
    bench.now_ms = NOW_MS + 2_000
    looks = sum(len(bench.claims().decisions) for _ in range(100))
    assert looks == 1
    bench.wait()
    assert bench.now_ms == NOW_MS + HOUR


def test_a_url_that_waits_is_leased_by_way_of_eligible() -> None:
    bench = Bench()
    bench.answer(bench.prepare(URL), status=500)
    bench.wait()
    assert bench.claims().moves == [(S.DEFERRED, S.ELIGIBLE, R.DUE), (S.ELIGIBLE, S.LEASED, R.CLAIMED)]


@pytest.mark.parametrize(
    ("origin_key", "url"),
    [
        ("http://a.example:80", "http://a.example/robots.txt"), ("https://a.example:443", "https://a.example/robots.txt"),
        ("http://a.example:443", "http://a.example:443/robots.txt"), ("https://[::1]:8443", "https://[::1]:8443/robots.txt"),
    ],
)  # fmt: skip
def test_robots_urls(origin_key: str, url: str) -> None:
    assert claims.robots_url(origin_key) == url


def test_a_park_is_told_as_what_it_is() -> None:
    bench = Bench()
    bench.seed(URL)
    bench.control("pause", target_kind=ScopeKind.SITE, target="a.example")
    (event,) = bench.claims().host_moves
    assert (event.event, event.reason, event.clock.parked) == (HostEvent.PARKED, R.PAUSED, True)
