"""Look-ups as inputs: what is believed, for how long, and what a host waits for."""

import pytest
from msgspec.structs import replace

from frontlog.avro.enums import FetchKind, HostEvent, Reason
from frontlog.processors import lookups
from frontlog.processors.leased import Lease
from frontlog.state import keys
from support.machine import ADDRESS, NOW_MS, Bench

R = Reason
HOUR, DAY = 3_600_000, 86_400_000


def asked() -> tuple[Bench, Lease]:
    bench = Bench()
    bench.seed("http://a.example/x")
    return bench, bench.claim()


@pytest.mark.parametrize(
    ("ttl_ms", "believed_ms"),
    [(0, 60_000), (59_999, 60_000), (300_000, 300_000), (DAY, DAY), (DAY + 1, DAY), (-5, 60_000)],
)
def test_an_address_is_believed_as_long_as_it_says_within_bounds(ttl_ms: int, believed_ms: int) -> None:
    bench, lease = asked()
    made = bench.answer(lease, ttl_ms=ttl_ms, addresses=("198.51.100.7", "198.51.100.8"))
    (event,) = made.host_moves
    assert (event.event, event.reason, event.addresses) == (
        HostEvent.ERRAND_ENDED, R.OK, ("198.51.100.7", "198.51.100.8"),
    )  # fmt: skip
    host = bench.host("a.example")
    assert (host.address, host.address_expires_ms, host.resolve_failures) == (
        ADDRESS,
        NOW_MS + believed_ms,
        0,
    )
    assert (host.in_flight, host.errand, host.ready_ms) == (0, b"", host.ready_ms)


def test_an_address_comes_with_the_budget_that_others_left() -> None:
    bench, lease = asked()
    bench.seed("http://b.example/x")
    (other,) = bench.claims().leases
    bench.answer(lease)
    bench.claims()
    bench.answer(other)
    assert (bench.host("b.example").address_in_flight, bench.host("b.example").in_flight) == (1, 0)


@pytest.mark.parametrize("failures", [0, 1, 2, 3, 4, 999, 1_000])
def test_failed_look_ups_wait_ever_longer_until_they_are_believed(failures: int) -> None:
    bench, lease = asked()
    key = keys.host_id("a.example")
    bench.tables.hosts.put(key, replace(bench.host("a.example"), resolve_failures=failures))
    bench.answer(lease, address="", reason=R.DNS_FAILED, detail="SERVFAIL")
    host = bench.host("a.example")
    given_up = failures + 1 >= 4
    assert (host.address, host.address_reason) == ("", R.DNS_FAILED)
    assert host.resolve_failures == min(failures + 1, lookups.FAILURES_MAX)
    assert host.address_expires_ms == NOW_MS + (HOUR if given_up else 0)
    assert host.next_eligible_ms == NOW_MS + (0 if given_up else 60_000 * 2**failures)


@pytest.mark.parametrize("reason", [R.TIMEOUT, R.NO_ROUTE, R.PROTOCOL_ERROR])
def test_any_other_failure_is_a_failed_look_up(reason: Reason) -> None:
    bench, lease = asked()
    bench.answer(lease, address="", reason=reason)
    assert bench.host("a.example").resolve_failures == 1


def test_an_answer_without_an_address_is_none() -> None:
    """Or the host would be looked up again and again without time passing."""
    bench, lease = asked()
    bench.answer(lease, address="")
    assert bench.host("a.example").resolve_failures == 1
    assert bench.claims().leases == []


def test_a_refused_address_is_believed_for_an_hour() -> None:
    bench, lease = asked()
    bench.answer(lease, address="", reason=R.BLOCKED_NETWORK)
    host = bench.host("a.example")
    assert (host.address, host.address_reason, host.address_expires_ms) == (
        "",
        R.BLOCKED_NETWORK,
        NOW_MS + HOUR,
    )


def test_a_look_up_that_was_handed_back_teaches_nothing_and_is_not_repeated_at_once() -> None:
    bench, lease = asked()
    bench.answer(lease, address="", reason=R.RELEASED)
    host = bench.host("a.example")
    assert (host.address_reason, host.resolve_failures, host.in_flight) == (R.OK, 0, 0)
    assert bench.claims().leases == []
    bench.now_ms += 1_000
    assert bench.claim().kind is FetchKind.RESOLVE


def test_a_look_up_that_hangs_has_failed() -> None:
    bench, lease = asked()
    bench.now_ms = lease.deadline_ms
    (event,) = bench.sweep().host_moves
    assert (event.event, event.reason) == (HostEvent.ERRAND_EXPIRED, R.LEASE_EXPIRED)
    host = bench.host("a.example")
    assert (host.resolve_failures, host.in_flight, host.next_eligible_ms) == (1, 0, bench.now_ms + 60_000)
    assert bench.answer(lease).rejects == [R.STALE_FENCE]


def test_a_look_up_of_a_dead_process_is_made_again() -> None:
    bench, _ = asked()
    bench.release()
    assert bench.host("a.example").resolve_failures == 0
    bench.wait()
    assert bench.claim().kind is FetchKind.RESOLVE


@pytest.mark.parametrize("change", ["fence", "host", "kind", "twice"])
def test_what_is_no_answer_changes_nothing(change: str) -> None:
    bench, lease = asked()
    result = bench.result(lease)
    if change == "twice":
        bench.decide(result, "fetch-results")
    wrong = {
        "fence": replace(result, fence=9), "host": replace(result, host="b.example"),
        "kind": replace(result, kind=FetchKind.PROBE), "twice": result,
    }[change]  # fmt: skip
    before = bench.tables.digest_values()
    assert bench.decide(wrong, "fetch-results").rejects == [R.STALE_FENCE]
    assert bench.tables.digest_values() == before
