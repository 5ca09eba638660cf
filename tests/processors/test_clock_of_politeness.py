"""The clock of politeness as a table: what ended, and when the host and its address may be asked again (DESIGN §6)."""

import pytest
from msgspec.structs import replace

from frontlog.avro.enums import FetchKind, Reason
from frontlog.avro.events import FetchResult, HostClock
from frontlog.processors import hosts, politeness
from frontlog.processors.settings import Politeness
from frontlog.state import keys
from frontlog.state.catalogue import STORE_TABLES
from frontlog.state.memory_store import MemoryStore
from frontlog.state.tables import Tables
from support.examples import EVENT_EXAMPLES

NOW = 1_000_000
RULES = Politeness()
HOUR, DAY = 3_600_000, 86_400_000
BUSY = HostClock(
    next_eligible_ms=NOW - 5_000, in_flight=1, gap_ms=0, operator_gap_ms=0, crawl_delay_ms=0, backoff_ms=0, failures=0,
    response_ms=0, paused=False, parked=False, address="192.0.2.1", address_reason=Reason.OK, address_expires_ms=NOW + DAY,
    resolve_failures=0, address_next_ms=0, address_in_flight=1, address_tail_ms=0, fence=1,
)  # fmt: skip


def result(
    status: int = 200, reason: Reason = Reason.OK, total_ms: int = 20, **fields: object
) -> FetchResult:
    base: dict[str, object] = {
        "kind": FetchKind.PAGE, "status": status, "reason": reason, "started_ms": NOW - total_ms, "total_ms": total_ms,
        "ended_ms": NOW, "address": "192.0.2.1",
    }  # fmt: skip
    return FetchResult(**(base | fields))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("before", "end", "wait_ms"),
    [
        ({}, result(), 1_000),
        ({}, result(total_ms=400), 4_000),
        ({}, result(total_ms=50_000), 500_000),
        ({"crawl_delay_ms": 7_000}, result(), 7_000),
        ({"crawl_delay_ms": 2 * HOUR}, result(), HOUR),
        ({"operator_gap_ms": 30_000}, result(), 30_000),
        ({"operator_gap_ms": 30_000, "crawl_delay_ms": 7_000}, result(total_ms=400), 30_000),
        ({}, result(304), 1_000),
        ({}, result(404), 1_000),
        ({}, result(500), 1_000),
        # Retry-After in seconds, clamped to a day; none, and what is no wait, double the gap
        ({}, result(429, retry_after="120"), 120_000),
        ({}, result(503, retry_after="120"), 120_000),
        ({}, result(503, retry_after="99999999"), DAY),
        ({}, result(503, retry_after="0"), 2_000),
        ({}, result(503, retry_after="-1"), 2_000),
        ({}, result(503, retry_after="soon"), 2_000),
        ({}, result(503), 2_000),
        ({"backoff_ms": 2_000}, result(429), 4_000),
        ({"backoff_ms": HOUR}, result(429), HOUR),
        ({}, result(503, total_ms=400), 8_000),
        ({}, result(503, total_ms=400, retry_after="1"), 4_000),
        # failures of the host double the back-off; the tenth in a row is a day of rest
        ({}, result(0, Reason.TIMEOUT, total_ms=100), 2_000),
        ({"backoff_ms": 8_000, "failures": 3}, result(0, Reason.CONNECTION_REFUSED), 16_000),
        ({"failures": 9, "backoff_ms": HOUR}, result(0, Reason.TIMEOUT, total_ms=100), DAY),
        # a success ends the back-off
        ({"backoff_ms": HOUR, "failures": 9}, result(), 1_000),
    ],
)
def test_the_wait_after_a_request(before: dict[str, object], end: FetchResult, wait_ms: int) -> None:
    after = politeness.ended(replace(BUSY, **before), RULES, end, NOW)
    assert after.next_eligible_ms == NOW + wait_ms
    assert (after.in_flight, after.address_in_flight) == (0, 0)


@pytest.mark.parametrize(
    ("before", "end", "wait_ms"),
    [
        ({}, result(), 0),
        ({}, result(503), 1_000),
        ({}, result(429, retry_after="0"), 1_000),
        ({"backoff_ms": 1_000}, result(503), 2_000),
        ({}, result(0, Reason.CONNECTION_RESET), 1_000),
        # a wait that was asked for is kept as it is
        ({}, result(429, retry_after="30"), 30_000),
    ],
)
def test_no_gap_is_no_licence_to_press_on_a_host_in_trouble(
    before: dict[str, object], end: FetchResult, wait_ms: int
) -> None:
    rules = replace(RULES, gap_ms_min=0, gap_factor=0.0)
    assert politeness.ended(replace(BUSY, **before), rules, end, NOW).next_eligible_ms == NOW + wait_ms


def test_what_a_host_asks_for_itself_keeps_its_address_free_for_others() -> None:
    for before, end in (
        ({"crawl_delay_ms": 7_000}, result()),
        ({"operator_gap_ms": 30_000}, result()),
        ({}, result(503, retry_after="120")),
    ):
        after = politeness.ended(replace(BUSY, **before), RULES, end, NOW)
        assert after.address_next_ms == NOW + 1_000


@pytest.mark.parametrize("reason", [Reason.RELEASED, Reason.ADDRESS_CHANGED, Reason.BLOCKED_NETWORK])
def test_no_request_no_rest(reason: Reason) -> None:
    after = politeness.ended(BUSY, RULES, result(0, reason, address=""), NOW)
    assert after.next_eligible_ms == BUSY.next_eligible_ms
    assert (after.in_flight, after.address_in_flight) == (0, 0)


def test_no_end_brings_a_turn_forward_that_was_given_before() -> None:
    waits = replace(BUSY, next_eligible_ms=NOW + HOUR)
    for end in (result(), result(503), result(0, Reason.TIMEOUT), result(0, Reason.RELEASED, address="")):
        assert politeness.ended(waits, RULES, end, NOW).next_eligible_ms >= NOW + HOUR


def test_an_end_in_the_future_counts_as_now() -> None:
    after = politeness.ended(BUSY, RULES, result(ended_ms=NOW + DAY), NOW)
    assert after.next_eligible_ms == NOW + 1_000


def test_a_claim_takes_the_slots_and_a_lapse_frees_them_with_the_gap_from_then() -> None:
    idle = replace(BUSY, in_flight=0, address_in_flight=0, response_ms=400, gap_ms=4_000)
    taken = politeness.claimed(idle, RULES, NOW)
    assert (taken.in_flight, taken.address_in_flight, taken.next_eligible_ms) == (1, 1, NOW + 1_000)
    lapsed = politeness.lapsed(taken, RULES, NOW + 90_000)
    assert (lapsed.in_flight, lapsed.address_in_flight) == (0, 0)
    assert lapsed.next_eligible_ms == NOW + 90_000 + 4_000


def test_hosts_that_wait_for_an_address_get_turns_one_behind_the_other() -> None:
    first = politeness.queued(replace(BUSY, address_next_ms=NOW + 1_000), RULES, NOW)
    second = politeness.queued(
        replace(BUSY, address_next_ms=NOW + 1_000, address_tail_ms=first.address_tail_ms), RULES, NOW
    )
    assert first.next_eligible_ms == NOW + 2_000
    assert second.next_eligible_ms == NOW + 3_000


def test_a_hosts_row_holds_its_clock_whole() -> None:
    clock = EVENT_EXAMPLES["HostClock"]
    assert isinstance(clock, HostClock) and clock.errand is not None
    clock = replace(clock, errand=replace(clock.errand, deadline_ms=NOW))
    tables = Tables(MemoryStore(STORE_TABLES).begin(write=True))
    hosts.ensure(tables, "a.example")
    host = keys.host_id("a.example")
    hosts.set_clock(tables, host, clock)
    row = tables.hosts.get(host)
    assert row is not None and hosts.clock_of(row) == clock
