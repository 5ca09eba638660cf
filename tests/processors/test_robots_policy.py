"""robots.txt as policy: what each answer makes of an origin, what stays in force, and when a host may be asked next.

Hops through other hosts: test_robots_hops. What a file says: test_robots_txt. What an answer means: test_robots_http.
"""

from typing import Any

import pytest
from msgspec.structs import replace

from frontlog.avro.enums import HostEvent, Reason, RobotsState, ScopeKind, State, Topic
from frontlog.avro.events import RobotsPolicy
from frontlog.processors.settings import Identity, Settings
from support.machine import NOW_MS, Bench, Made

R, S, RS = Reason, State, RobotsState
URL = "http://a.example/x"
ORIGIN = "http://a.example:80"
HOUR, DAY = 3_600_000, 86_400_000
DENY = b"User-agent: *\nDisallow: /\n"
DELAY = b"User-agent: *\nCrawl-delay: %d\n"


def asked(*urls: str, **settings: Any) -> Bench:
    """A bench whose next lease is a robots.txt."""
    bench = Bench(Settings(**settings))
    bench.seed(*(urls or (URL,)))
    bench.answer(bench.claim())
    return bench


def policy_of(made: Made) -> RobotsPolicy:
    (event,) = [d for d in made.decisions if isinstance(d, RobotsPolicy)]
    return event


def renewed(bench: Bench, **fields: Any) -> Made:
    """robots.txt is asked for again, after it is out of date, and answered."""
    bench.seed(f"{URL}{bench.now_ms}")
    bench.now_ms = max(bench.now_ms, bench.origin(ORIGIN).robots_expires_ms)
    for _ in range(5):
        bench.wait()
        lease = bench.claim()
        if lease.kind.value == "robots":
            return bench.answer(lease, **fields)
        bench.answer(lease)
    raise AssertionError("robots.txt is not asked for")


@pytest.mark.parametrize(
    ("fields", "state", "reason"),
    [
        ({"robots_txt": DENY}, RS.RULES, R.OK),
        ({"robots_txt": b""}, RS.RULES, R.OK),
        ({"status": 404}, RS.ALLOW_ALL, R.GONE),
        ({"status": 403}, RS.ALLOW_ALL, R.NOT_AVAILABLE),
        ({"status": 429}, RS.UNREACHABLE, R.TOO_MANY_REQUESTS),
        ({"status": 500}, RS.UNREACHABLE, R.SERVER_ERROR),
        ({"status": 503}, RS.UNREACHABLE, R.UNAVAILABLE),
        ({"status": 301, "location": ""}, RS.UNREACHABLE, R.BAD_LOCATION),
        ({"status": 301, "location": "ftp://a.example/"}, RS.UNREACHABLE, R.BAD_SCHEME),
        ({"status": 301, "location": "http://u:p@b.example/"}, RS.UNREACHABLE, R.USERINFO),
        ({"status": 301, "location": "/robots.txt"}, RS.ALLOW_ALL, R.REDIRECT_LOOP),
        ({"status": 0, "reason": R.TIMEOUT}, RS.UNREACHABLE, R.TIMEOUT),
        ({"status": 0, "reason": R.TLS_FAILED}, RS.UNREACHABLE, R.TLS_FAILED),
        ({"status": 200, "reason": R.DECODE_FAILED}, RS.UNREACHABLE, R.DECODE_FAILED),
        ({"robots_txt": DENY, "truncated": "disconnect"}, RS.UNREACHABLE, R.TRUNCATED),
        ({"robots_txt": DENY, "truncated": "length"}, RS.RULES, R.OK),
        ({"status": 999}, RS.UNREACHABLE, R.UNEXPECTED_STATUS),
    ],
)
def test_each_answer(fields: dict[str, Any], state: RobotsState, reason: Reason) -> None:
    bench = asked()
    event = policy_of(bench.answer(bench.claim(), **fields))
    assert (event.state, event.reason, event.renewal) == (state, reason, False)
    origin = bench.origin(ORIGIN)
    assert (origin.robots_state, origin.robots_seq) == (state, event.seq)
    assert (bench.host("a.example").in_flight, bench.host("a.example").errand) == (0, b"")
    assert (origin.robots_text_seq == event.seq) == (state is RS.RULES)


@pytest.mark.parametrize("reason", [R.RELEASED, R.ADDRESS_CHANGED])
def test_an_errand_that_was_handed_back_is_leased_again(reason: Reason) -> None:
    bench = asked()
    made = bench.answer(bench.claim(), status=0, reason=reason, address="")
    assert [m.event for m in made.host_moves] == [HostEvent.ERRAND_RELEASED]
    assert bench.origin(ORIGIN).robots_state is RS.UNKNOWN
    bench.wait()
    lease = bench.claim()
    if reason is R.ADDRESS_CHANGED:
        bench.answer(lease)
        lease = bench.claim()
    assert (lease.requested, lease.fence > 2) == ("http://a.example/robots.txt", True)


def test_the_text_is_in_the_event_and_the_version_in_the_verdicts() -> None:
    bench = asked()
    event = policy_of(bench.answer(bench.claim(), robots_txt=DENY))
    assert (event.text, event.source_url, event.fetched_ms) == (
        DENY,
        "http://a.example/robots.txt",
        NOW_MS - 20,
    )
    bench.wait()
    bench.claims()
    row = bench.url(URL)
    assert (row.state, row.policy_version) == (S.BLOCKED, event.seq)


@pytest.mark.parametrize(
    ("cache_control", "ms"),
    [
        ("", DAY),
        ("max-age=3600", HOUR),
        ("max-age=1", 300_000),
        ("no-store", 300_000),
        ("max-age=999999", DAY),
    ],
)
def test_how_long_a_file_is_believed(cache_control: str, ms: int) -> None:
    bench = asked()
    event = policy_of(bench.answer(bench.claim(), cache_control=cache_control))
    assert event.expires_ms == NOW_MS - 20 + ms


def test_the_same_file_renews_the_policy_and_keeps_its_version() -> None:
    bench = asked()
    version = policy_of(bench.answer(bench.claim(), robots_txt=DENY)).seq
    made = renewed(bench, robots_txt=DENY)
    event = policy_of(made)
    assert (event.renewal, event.text, event.state) == (True, b"", RS.RULES)
    assert event.expires_ms > bench.now_ms
    origin = bench.origin(ORIGIN)
    assert (origin.robots_seq, origin.robots_text_seq) == (version, version)
    other = policy_of(renewed(bench, robots_txt=b"User-agent: *\n"))
    assert (other.renewal, bench.origin(ORIGIN).robots_seq) == (False, other.seq)


def test_no_file_again_is_a_renewal() -> None:
    bench = asked()
    version = policy_of(bench.answer(bench.claim(), status=404)).seq
    assert policy_of(renewed(bench, status=410)).renewal
    assert bench.origin(ORIGIN).robots_seq == version


def test_an_unreachable_file_disallows_for_now_and_is_asked_for_again_ever_more_slowly() -> None:
    bench = asked()
    bench.answer(bench.claim(), status=500)
    waits: list[int] = []
    for _ in range(8):
        assert bench.claims().leases == []
        waits.append(bench.origin(ORIGIN).robots_expires_ms - bench.now_ms)
        made = renewed(bench, status=500)
        assert policy_of(made).renewal
    assert waits == [60_000, 120_000, 240_000, 480_000, 960_000, 1_920_000, HOUR, HOUR]
    assert bench.origin(ORIGIN).robots_failures == 9
    renewed(bench, status=404)
    assert bench.origin(ORIGIN).robots_failures == 0


def test_the_last_good_copy_serves_for_a_day_from_the_first_failure() -> None:
    bench = asked()
    bench.answer(bench.claim(), robots_txt=b"User-agent: *\nDisallow: /private\n")
    renewed(bench, status=500)
    until = bench.origin(ORIGIN).robots_copy_until_ms
    assert until == bench.now_ms + DAY
    bench.now_ms += 2 * HOUR
    renewed(bench, status=500)
    assert bench.origin(ORIGIN).robots_copy_until_ms == until, "further failures don't lengthen it"
    bench.seed("http://a.example/private/z")
    assert bench.url("http://a.example/private/z").reason is R.ROBOTS_DENIED, "its rules are in force"
    renewed(bench, robots_txt=b"")
    assert bench.origin(ORIGIN).robots_copy_until_ms == 0


def test_an_origin_that_was_never_reached_has_no_copy() -> None:
    bench = asked()
    assert policy_of(bench.answer(bench.claim(), status=503)).copy_until_ms == 0


# --- Crawl-delay ---------------------------------------------------------------------------------------------


def test_a_crawl_delay_holds_from_the_answer_that_told_it() -> None:
    bench = asked()
    bench.answer(bench.claim(), robots_txt=DELAY % 30)
    host = bench.host("a.example")
    assert (host.crawl_delay_ms, host.next_eligible_ms) == (30_000, NOW_MS + 30_000)


def test_our_own_groups_crawl_delay_counts() -> None:
    bench = asked(identity=Identity(token="mybot"))
    bench.answer(
        bench.claim(), robots_txt=b"User-agent: *\nCrawl-delay: 60\n\nUser-agent: MyBot\nCrawl-delay: 7\n"
    )
    assert bench.host("a.example").crawl_delay_ms == 7_000


def test_the_longest_crawl_delay_of_its_origins_is_the_hosts() -> None:
    bench = asked(URL, "https://a.example/")
    first = bench.claim()
    bench.answer(first, robots_txt=DELAY % 30)
    while bench.origin("https://a.example:443").robots_state is RS.UNKNOWN or (
        bench.origin(ORIGIN).robots_state is RS.UNKNOWN
    ):
        bench.wait()
        bench.answer(bench.claim(), status=404)
    assert {bench.origin(ORIGIN).crawl_delay_ms, bench.origin("https://a.example:443").crawl_delay_ms} == {
        0,
        30_000,
    }
    assert bench.host("a.example").crawl_delay_ms == 30_000, "the other origin has none"


def test_an_unreachable_file_keeps_the_delay_it_told() -> None:
    bench = asked()
    bench.answer(bench.claim(), robots_txt=DELAY % 30)
    renewed(bench, status=500)
    assert bench.host("a.example").crawl_delay_ms == 30_000
    renewed(bench, status=404)
    assert bench.host("a.example").crawl_delay_ms == 0


# --- what a new version starts -------------------------------------------------------------------------------


def test_a_newer_file_takes_back_what_it_forbids_and_brings_back_what_it_allows() -> None:
    bench = asked(URL, "http://a.example/private/y")
    bench.answer(bench.claim(), robots_txt=b"User-agent: *\nDisallow: /private\n")
    bench.page(bench.page_lease())
    made = renewed(bench, robots_txt=b"User-agent: *\nDisallow: /x\n")
    assert not policy_of(made).renewal
    done = bench.jobs()
    assert sorted(done.moves) == [
        (S.BLOCKED, S.ELIGIBLE, R.POLICY_ALLOWS), (S.FETCHED, S.BLOCKED, R.ROBOTS_DENIED),
    ]  # fmt: skip
    (removed,) = done.out(Topic.REMOVED)
    assert (removed.url, removed.reason, removed.detail) == (
        URL,
        R.ROBOTS_DENIED,
        "line 2: Disallow: /x (group *)",
    )
    assert removed.policy_version == policy_of(made).seq


# --- what doesn't count --------------------------------------------------------------------------------------


@pytest.mark.parametrize("fence", [1, 3])
def test_another_fence_changes_nothing(fence: int) -> None:
    bench = asked()
    lease = bench.claim()
    before = bench.tables.digest_values()
    made = bench.answer(replace(lease, fence=fence), robots_txt=b"")
    assert (made.rejects, made.decisions) == ([R.STALE_FENCE], [])
    assert bench.tables.digest_values() == before


def test_a_look_ups_result_is_no_answer_to_robots() -> None:
    bench = asked()
    lease = bench.claim()
    made = bench.decide(replace(bench.result(lease), kind=type(lease.kind).RESOLVE), Topic.FETCH_RESULTS)
    assert made.rejects == [R.STALE_FENCE]


def test_whose_policy_it_is_is_what_the_log_says() -> None:
    bench = asked()
    lease = bench.claim()
    bench.answer(replace(lease, origin_key="http://victim.example:80", chain=("x",)), robots_txt=DENY)
    assert bench.origin(ORIGIN).robots_state is RS.RULES
    assert not bench.known("http://victim.example/")


def test_a_lease_that_ran_out_is_no_answer() -> None:
    bench = asked()
    lease = bench.claim()
    bench.now_ms = lease.deadline_ms
    made = bench.sweep()
    assert [m.event for m in made.host_moves] == [HostEvent.ERRAND_EXPIRED]
    assert (policy_of(made).state, policy_of(made).reason) == (RS.UNREACHABLE, R.LEASE_EXPIRED)
    assert bench.host("a.example").next_eligible_ms == bench.now_ms + 1_000
    assert bench.answer(lease, robots_txt=b"").rejects == [R.STALE_FENCE]


def test_a_dead_process_leaves_the_question_open() -> None:
    bench = asked()
    bench.claim()
    made = bench.release()
    assert [m.event for m in made.host_moves] == [HostEvent.ERRAND_RELEASED]
    assert bench.origin(ORIGIN).robots_state is RS.UNKNOWN
    bench.wait()
    assert bench.claim().requested == "http://a.example/robots.txt"


def test_operators_scope_is_seen_before_robots_is_asked_for() -> None:
    bench = asked()
    bench.control("block", target_kind=ScopeKind.ORIGIN, target=ORIGIN)
    assert bench.claims().leases == []
