"""What becomes of a URL when an attempt ended: each answer and failure, the counts, the fence, the policy behind it."""

from typing import Any

import pytest
from msgspec.structs import replace

from frontlog.avro.enums import Reason, ScopeKind, State, Topic
from frontlog.avro.events import FetchResult, LeaseExtension, ParseFacts, Transition
from frontlog.processors import results
from frontlog.processors.leased import Lease
from frontlog.processors.settings import Attempts, Settings
from support.machine import NOW_MS, Bench, Made

R, S = Reason, State
URL = "http://a.example/x"


def ready(**settings: Any) -> tuple[Bench, Lease]:
    """A bench with URL leased."""
    bench = Bench(Settings(**settings))
    return bench, bench.prepare(URL)


def again(bench: Bench) -> Lease:
    """The next lease of URL, once its time has come."""
    lease = bench.page_lease()
    assert lease.url == URL
    return lease


def move(made: Made) -> tuple[State, Reason]:
    (only,) = [(to, reason) for _, to, reason in made.moves]
    return only


BY_STATUS = [
    (200, S.FETCHED, R.OK), (201, S.FETCHED, R.OK), (204, S.FETCHED, R.OK), (299, S.FETCHED, R.OK),
    (301, S.FETCHED, R.REDIRECTED), (302, S.FETCHED, R.REDIRECTED), (303, S.FETCHED, R.REDIRECTED),
    (307, S.FETCHED, R.REDIRECTED), (308, S.FETCHED, R.REDIRECTED), (300, S.FAILED, R.UNEXPECTED_STATUS),
    (305, S.FAILED, R.UNEXPECTED_STATUS), (304, S.DEFERRED, R.UNEXPECTED_STATUS), (400, S.FAILED, R.NOT_AVAILABLE),
    (401, S.FAILED, R.NOT_AVAILABLE), (403, S.FAILED, R.NOT_AVAILABLE), (451, S.FAILED, R.NOT_AVAILABLE),
    (404, S.GONE, R.GONE), (410, S.GONE, R.GONE), (429, S.DEFERRED, R.TOO_MANY_REQUESTS),
    (500, S.DEFERRED, R.SERVER_ERROR), (502, S.DEFERRED, R.SERVER_ERROR), (503, S.DEFERRED, R.UNAVAILABLE),
    (504, S.DEFERRED, R.SERVER_ERROR), (599, S.DEFERRED, R.SERVER_ERROR), (101, S.FAILED, R.UNEXPECTED_STATUS),
    (600, S.FAILED, R.UNEXPECTED_STATUS), (999, S.FAILED, R.UNEXPECTED_STATUS), (0, S.FAILED, R.UNEXPECTED_STATUS),
]  # fmt: skip


@pytest.mark.parametrize(("status", "state", "reason"), BY_STATUS)
def test_each_status(status: int, state: State, reason: Reason) -> None:
    bench, lease = ready()
    location = "http://a.example/y" if status in results.REDIRECTS else ""
    made = bench.answer(lease, status=status, location=location)
    assert move(made) == (state, reason)
    row = bench.url(URL)
    assert (row.state, row.reason, row.last_status) == (state, reason, status)
    assert bench.host("a.example").in_flight == 0
    assert (row.due_ms > NOW_MS) == (state is S.DEFERRED)


def expected(reason: Reason) -> tuple[State, Reason]:
    """Where a failure leads, by the table of seed 000, chapter 6, and DESIGN §5."""
    blocked = "bad_scheme blocked_network out_of_scope robots_denied operator_block userinfo too_long"
    quarantined = "oversize bad_type header_oversize parser_limit"
    failed = "too_many_redirects redirect_loop bad_location"
    passes = """too_many_requests unavailable server_error timeout connection_refused connection_reset no_route
        protocol_error truncated gone_unconfirmed dns_failed decode_failed tls_failed worker_lost store_full"""
    table = {blocked: S.BLOCKED, quarantined: S.QUARANTINED, failed: S.FAILED, passes: S.DEFERRED}
    for reasons, state in table.items():
        if reason.value in reasons.split():
            return state, reason
    if reason in (R.RELEASED, R.ADDRESS_CHANGED):
        return S.ELIGIBLE, reason
    return S.DEFERRED, R.UNEXPECTED_STATUS


@pytest.mark.parametrize("reason", [r for r in Reason if r is not R.OK], ids=lambda r: r.value)
def test_each_failure_reason_goes_somewhere_allowed(reason: Reason) -> None:
    bench, lease = ready()
    made = bench.answer(lease, status=0, reason=reason, detail="more")
    assert move(made) == expected(reason)
    assert bench.host("a.example").in_flight == 0
    assert bench.tables.leases.first() is None


# --- counts --------------------------------------------------------------------------------------------------


def test_five_failures_of_the_url_itself_quarantine_it() -> None:
    bench, lease = ready()
    for n in range(1, 5):
        bench.answer(lease, status=500)
        row = bench.url(URL)
        assert (row.state, row.failures, row.attempts) == (S.DEFERRED, n, n)
        lease = again(bench)
    made = bench.answer(lease, status=500, detail="boom")
    assert move(made) == (S.QUARANTINED, R.REPEATED_FAILURES)
    assert transition(made).detail == "server_error: boom"


def transition(made: Made) -> Transition:
    (event,) = [d for d in made.decisions if isinstance(d, Transition)]
    return event


@pytest.mark.parametrize("reason", sorted(results.NOT_OURS), ids=lambda r: r.value)
def test_what_is_not_the_urls_fault_ends_after_twenty_attempts_only(reason: Reason) -> None:
    bench, lease = ready()
    for n in range(1, 20):
        bench.answer(lease, status=0, reason=reason)
        row = bench.url(URL)
        assert (row.state, row.failures, row.attempts) == (S.DEFERRED, 0, n)
        lease = again(bench)
    assert move(bench.answer(lease, status=0, reason=reason)) == (S.FAILED, R.RETRIES_EXHAUSTED)


def test_a_success_forgets_attempts_and_failures() -> None:
    bench, lease = ready()
    bench.answer(lease, status=500)
    bench.page(again(bench))
    row = bench.url(URL)
    assert (row.state, row.attempts, row.failures) == (S.FETCHED, 0, 0)


@pytest.mark.parametrize("reason", [R.RELEASED, R.ADDRESS_CHANGED])
def test_a_lease_handed_back_is_no_attempt(reason: Reason) -> None:
    bench, lease = ready()
    bench.answer(lease, status=0, reason=reason, address="")
    row = bench.url(URL)
    assert (row.state, row.attempts, row.failures, row.fence) == (S.ELIGIBLE, 0, 0, 1)


def test_retries_wait_longer_and_are_spread_the_same_way_each_time() -> None:
    rules = Attempts()
    delays = [results.retry_delay_ms(rules, URL, n) for n in range(1, 30)]
    for n, delay in enumerate(delays):
        base = min(10_000 << n, 3_600_000)
        assert 0.9 * base <= delay <= 1.1 * base
    assert delays == [results.retry_delay_ms(rules, URL, n) for n in range(1, 30)]
    others = {results.retry_delay_ms(rules, f"{URL}{n}", 1) for n in range(50)}
    assert len(others) > 40, "neighbours come back together"


def test_a_url_that_its_host_put_off_is_due_with_the_host() -> None:
    bench, lease = ready()
    bench.answer(lease, status=429, retry_after="600")
    assert bench.url(URL).due_ms == bench.host("a.example").next_eligible_ms == bench.now_ms + 600_000
    assert bench.claims().leases == []


# --- gone ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "first"), [(404, (S.DEFERRED, R.GONE_UNCONFIRMED)), (410, (S.GONE, R.GONE))]
)
def test_a_page_that_was_there_is_looked_at_once_more_but_410_is_believed(
    status: int, first: tuple[State, Reason]
) -> None:
    bench, lease = ready()
    bench.page(lease)
    bench.control("recrawl", target_kind=ScopeKind.CRAWL, urls=(URL,))
    made = bench.answer(again(bench), status=status)
    assert move(made) == first
    if first[0] is S.DEFERRED:
        assert made.out(Topic.REMOVED) == []
        made = bench.answer(again(bench), status=404)
    assert move(made) == (S.GONE, R.GONE)
    (removed,) = made.out(Topic.REMOVED)
    assert (removed.url, removed.reason, removed.status) == (URL, R.GONE, status)


def test_what_was_never_given_out_is_not_taken_back() -> None:
    bench, lease = ready()
    assert bench.answer(lease, status=404).out(Topic.REMOVED) == []


# --- validators ----------------------------------------------------------------------------------------------


def test_not_modified_needs_a_validator_that_was_sent() -> None:
    bench, lease = ready()
    bench.page(lease, etag='"1"')
    bench.control("recrawl", target_kind=ScopeKind.CRAWL, urls=(URL,))
    lease = again(bench)
    assert lease.etag == '"1"'
    assert move(bench.answer(lease, status=304)) == (S.FETCHED, R.NOT_MODIFIED)


def test_change_is_a_change_of_the_text() -> None:
    bench, lease = ready()
    assert results.facts(bench.result(lease), bench.url(URL)).changed is False, "no text, no change"
    bench.page(lease, b"1" * 32)
    changed_ms = bench.url(URL).last_change_ms
    for text, changed in ((b"1" * 32, False), (b"2" * 32, True)):
        bench.control("recrawl", target_kind=ScopeKind.CRAWL, urls=(URL,))
        made = bench.page(again(bench), text)
        found = transition(made).result
        assert found is not None
        assert found.changed is changed
        assert (bench.url(URL).last_change_ms > changed_ms) is changed


# --- redirects -----------------------------------------------------------------------------------------------


def test_a_redirect_elsewhere_is_an_edge() -> None:
    bench, lease = ready()
    bench.answer(lease, status=301, location="http://b.example/")
    row = bench.url(URL)
    assert (row.state, row.reason, row.location) == (S.FETCHED, R.REDIRECTED, "http://b.example/")
    assert not row.brought_page


def test_a_redirect_to_the_same_identity_is_asked_for_under_its_other_spelling() -> None:
    bench, lease = ready()
    for n, spelling in enumerate(("http://a.example./x", "http://a.example/%78"), 1):
        assert move(bench.answer(lease, status=301, location=spelling)) == (S.ELIGIBLE, R.REDIRECTED)
        assert (bench.url(URL).requested, bench.url(URL).attempts) == (spelling, n)
        lease = again(bench)
        assert (lease.url, lease.requested, len(lease.chain)) == (URL, spelling, n)
    made = bench.answer(lease, status=301, location="http://a.example./x")
    assert move(made) == (S.FAILED, R.REDIRECT_LOOP), "a spelling came a second time"


def test_more_than_five_spellings_of_one_identity_are_too_many() -> None:
    bench, lease = ready()
    spellings = [
        f"http://a.example{dot}/{letter}{mark}"
        for dot in ("", ".")
        for letter in ("%78", "x")
        for mark in ("", "?")
    ]
    made = Made()
    for spelling in [s for s in spellings if s != URL]:
        made = bench.answer(lease, status=302, location=spelling)
        if move(made)[0] is not S.ELIGIBLE:
            break
        lease = again(bench)
    assert move(made) == (S.FAILED, R.TOO_MANY_REDIRECTS)
    assert len(bench.url(URL).chain) == 5


@pytest.mark.parametrize("location", ["", URL])
def test_a_redirect_that_leads_nowhere_or_to_itself_fails(location: str) -> None:
    bench, lease = ready()
    reason = R.REDIRECT_LOOP if location else R.BAD_LOCATION
    assert move(bench.answer(lease, status=301, location=location)) == (S.FAILED, reason)


# --- fences --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fence", [0, 2, 7])
def test_another_fence_changes_nothing(fence: int) -> None:
    bench, lease = ready()
    before = bench.tables.digest_values()
    made = bench.answer(replace(lease, fence=fence))
    assert (made.decisions, made.rejects) == ([], [R.STALE_FENCE])
    assert bench.tables.digest_values() == before


def test_a_result_counts_once() -> None:
    bench, lease = ready()
    bench.page(lease)
    before = bench.tables.digest_values()
    made = bench.page(lease)
    assert (made.decisions, made.rejects) == ([], [R.STALE_FENCE])
    assert bench.tables.digest_values() == before


def test_a_result_of_an_unknown_url_is_a_reject() -> None:
    bench, lease = ready()
    assert bench.answer(replace(lease, url="http://a.example/nowhere")).rejects == [R.UNKNOWN_URL]


# --- leases that end by themselves ---------------------------------------------------------------------------


def test_an_expired_lease_gives_url_and_slot_back_and_counts_as_an_attempt() -> None:
    bench, lease = ready()
    bench.now_ms = lease.deadline_ms - 1
    assert bench.sweep().decisions == []
    bench.now_ms = lease.deadline_ms
    assert move(bench.sweep()) == (S.ELIGIBLE, R.LEASE_EXPIRED)
    row, host = bench.url(URL), bench.host("a.example")
    assert (row.attempts, row.failures, row.fence, host.in_flight) == (1, 0, 1, 0)
    assert host.next_eligible_ms == bench.now_ms + 1_000
    assert bench.answer(lease).rejects == [R.STALE_FENCE], "the late result"
    assert again(bench).fence == 2


def test_a_page_that_kills_its_fetcher_is_given_up() -> None:
    bench, lease = ready(attempts=Attempts(attempts_max=3))
    assert move(bench.release()) == (S.ELIGIBLE, R.RELEASED)
    again(bench)
    assert move(bench.release()) == (S.ELIGIBLE, R.RELEASED)
    lease = again(bench)
    bench.now_ms = lease.deadline_ms
    assert move(bench.sweep()) == (S.FAILED, R.RETRIES_EXHAUSTED)
    assert bench.host("a.example").in_flight == 0


def extension(lease: Lease, deadline_ms: int, **fields: Any) -> LeaseExtension:
    wish = LeaseExtension(
        event_id="e", origin_key=lease.origin_key, url=lease.url, fence=lease.fence, deadline_ms=deadline_ms
    )
    return replace(wish, **fields)


@pytest.mark.parametrize(
    ("more_ms", "granted_ms"), [(10_000, 10_000), (80_000, 80_000), (10_000_000, 80_000)]
)
def test_a_lease_is_extended_by_at_most_its_length_from_now(more_ms: int, granted_ms: int) -> None:
    bench, lease = ready()
    bench.now_ms += 80_000
    made = bench.decide(extension(lease, lease.deadline_ms + more_ms), Topic.FETCH_RESULTS)
    assert move(made) == (S.LEASED, R.EXTENDED)
    row = bench.url(URL)
    assert (row.deadline_ms, row.fence, row.lease_owner) == (lease.deadline_ms + granted_ms, 1, "bench")
    bench.now_ms = lease.deadline_ms
    assert bench.sweep().decisions == [], "the old deadline is over and nothing happens"
    bench.now_ms = row.deadline_ms
    assert move(bench.sweep()) == (S.ELIGIBLE, R.LEASE_EXPIRED)


def test_an_extension_that_asks_for_less_changes_nothing() -> None:
    bench, lease = ready()
    assert bench.decide(extension(lease, lease.deadline_ms), Topic.FETCH_RESULTS) == Made()


def test_an_extension_needs_the_fence_of_a_lease() -> None:
    bench, lease = ready()
    later = lease.deadline_ms + 1
    assert bench.decide(extension(lease, later, fence=2), Topic.FETCH_RESULTS).rejects == [R.STALE_FENCE]
    nowhere = extension(lease, later, url="http://a.example/nowhere")
    assert bench.decide(nowhere, Topic.FETCH_RESULTS).rejects == [R.UNKNOWN_URL]
    bench.page(lease)
    assert bench.decide(extension(lease, later), Topic.FETCH_RESULTS).rejects == [R.STALE_FENCE]


# --- the policy that holds when the result comes -------------------------------------------------------------


def test_a_block_that_overtakes_a_page_wins() -> None:
    bench, lease = ready()
    bench.control("block", target_kind=ScopeKind.HOST, target="a.example")
    bench.jobs()
    made = bench.page(lease)
    assert move(made) == (S.BLOCKED, R.OPERATOR_BLOCK)
    (removed,) = made.out(Topic.REMOVED)
    assert (removed.url, removed.reason) == (URL, R.OPERATOR_BLOCK)
    bench.control("unblock", target_kind=ScopeKind.HOST, target="a.example")
    assert bench.jobs().moves == [(S.BLOCKED, S.ELIGIBLE, R.POLICY_ALLOWS)]


def test_a_newer_policy_that_allows_a_page_is_noted_with_it() -> None:
    bench, lease = ready()
    bench.control("block", target_kind=ScopeKind.SITE, target="b.example")
    bench.control("unblock", target_kind=ScopeKind.ORIGIN, target=lease.origin_key)
    bench.page(lease)
    row = bench.url(URL)
    assert (row.state, row.policy_version) == (S.FETCHED, bench.origin(lease.origin_key).policy_seq)
    assert row.policy_version > lease.policy_version


def test_facts_keep_what_later_decisions_need() -> None:
    bench, lease = ready()
    result = FetchResult(
        kind=lease.kind, reason=R.OK, event_id="e", started_ms=5, status=200, content_type="Text/HTML; charset=x ",
        etag='W/"1"', last_modified="m", parse=ParseFacts(links_out=3, text_sha256=b"t" * 32), body_sha256=b"b" * 32,
    )  # fmt: skip
    found = results.facts(result, bench.url(URL))
    assert (found.content_type, found.etag, found.last_modified) == ("text/html", 'W/"1"', "m")
    assert (found.links_out, found.content_hash, found.body_sha256) == (3, b"t" * 32, b"b" * 32)
