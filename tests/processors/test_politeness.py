"""The clock of politeness: each row of DESIGN §6's table, and what may never shorten a wait."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from frontlog.avro.enums import FetchKind, HostEvent, Reason
from frontlog.avro.events import Errand, FetchResult, HostClock
from frontlog.processors import hosts, politeness
from frontlog.processors.settings import Politeness
from frontlog.state import keys
from frontlog.state.rows import AddressRow, HostRow
from support.machine import NOW_MS, Bench

R = Reason
RULES = Politeness()
HOUR, DAY = 3_600_000, 86_400_000
CLOCK = HostClock(address="192.0.2.1", address_reason=R.OK, address_expires_ms=NOW_MS + DAY)


def result(
    reason: Reason = R.OK, *, status: int = 200, total_ms: int = 20, retry_after: str = ""
) -> FetchResult:
    """An attempt that was sent at NOW_MS."""
    return FetchResult(
        kind=FetchKind.PAGE, host="a.example", started_ms=NOW_MS, total_ms=total_ms, ended_ms=NOW_MS + total_ms,
        address="192.0.2.1", status=status if reason is R.OK else 0, reason=reason, retry_after=retry_after,
    )  # fmt: skip


def after(clock: HostClock, one: FetchResult, rules: Politeness = RULES) -> HostClock:
    """The clock behind a request that was claimed at NOW_MS and is decided when it ends."""
    return politeness.ended(politeness.claimed(clock, rules, NOW_MS), rules, one, one.ended_ms)


@pytest.mark.parametrize(
    ("clock", "total_ms", "gap"),
    [
        (CLOCK, 0, 1_000),
        (CLOCK, 99, 1_000),
        (CLOCK, 101, 1_010),
        (CLOCK, 60_000, 600_000),
        (CLOCK, HOUR, HOUR),
        (replace(CLOCK, crawl_delay_ms=5_000), 20, 5_000),
        (replace(CLOCK, crawl_delay_ms=5_000), 600, 6_000),
        (replace(CLOCK, crawl_delay_ms=2 * HOUR), 20, HOUR),
        (replace(CLOCK, operator_gap_ms=7_000), 20, 7_000),
        (replace(CLOCK, operator_gap_ms=DAY), 20, DAY),
        (replace(CLOCK, operator_gap_ms=7_000, crawl_delay_ms=8_000), 900, 9_000),
    ],
)
def test_the_gap_is_the_largest_of_all_and_counts_from_the_last_byte(
    clock: HostClock, total_ms: int, gap: int
) -> None:
    end = after(clock, result(total_ms=total_ms))
    assert end.gap_ms == gap
    assert end.next_eligible_ms == NOW_MS + total_ms + gap
    assert (end.in_flight, end.address_in_flight, end.response_ms) == (0, 0, total_ms)


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize(
    ("retry_after", "wait"),
    [
        ("120", 120_000), ("0.5", 1_000), ("1", 1_000), ("86400", DAY), ("999999999", DAY),
        ("", 2_000), ("0", 2_000), ("-5", 2_000), ("soon", 2_000), ("Thu, 01 Jan 1970 00:00:00 GMT", 2_000),
    ],
)  # fmt: skip
def test_slow_down_answers(status: int, retry_after: str, wait: int) -> None:
    """Retry-After, clamped, never less than the gap; else twice the gap. The whole host waits and no slot is held."""
    end = after(CLOCK, result(status=status, retry_after=retry_after))
    assert end.next_eligible_ms == NOW_MS + 20 + wait
    assert (end.in_flight, end.address_in_flight, end.failures) == (0, 0, 0)


def test_a_retry_after_date_counts_from_the_answer() -> None:
    """NOW_MS is Mon, 21 Sep 2026 14:13:20 GMT."""
    end = after(CLOCK, result(status=503, retry_after="Mon, 21 Sep 2026 14:23:20 GMT"))
    assert end.next_eligible_ms == NOW_MS + 600_000


def test_back_off_doubles_to_an_hour_and_ends_with_a_good_answer() -> None:
    clock, waits = CLOCK, list[int]()
    for _ in range(16):
        clock = after(replace(clock, next_eligible_ms=0), result(status=503))
        waits.append(clock.next_eligible_ms - NOW_MS - 20)
    assert waits[:4] == [2_000, 4_000, 8_000, 16_000]
    assert waits[-1] == waits[-2] == HOUR
    good = after(replace(clock, next_eligible_ms=0), result())
    assert (good.backoff_ms, good.next_eligible_ms) == (0, NOW_MS + 20 + 1_000)


@pytest.mark.parametrize("reason", sorted(politeness.HOST_FAILURES))
def test_ten_failures_of_the_host_give_it_a_day(reason: Reason) -> None:
    clock = CLOCK
    for n in range(1, 10):
        clock = after(replace(clock, next_eligible_ms=0), result(reason, total_ms=1))
        assert (clock.failures, clock.next_eligible_ms) == (n, NOW_MS + 1 + 1_000 * 2**n)
    clock = after(replace(clock, next_eligible_ms=0), result(reason, total_ms=1))
    assert (clock.failures, clock.next_eligible_ms) == (0, NOW_MS + 1 + DAY)


def test_a_failure_doubles_the_gap_in_force_however_long_it_took() -> None:
    """DESIGN §6: a response time ends with the last byte, and a failure has none."""
    first = after(replace(CLOCK, response_ms=300), result(R.TIMEOUT, total_ms=60_000))
    assert first.next_eligible_ms == NOW_MS + 60_000 + 2 * 3_000
    second = after(first, result(R.CONNECTION_RESET, total_ms=30_000))
    assert (second.backoff_ms, second.response_ms) == (4 * 3_000, 300)
    assert first.address_next_ms == NOW_MS + 60_000 + 3_000


def test_an_answer_ends_the_row_of_failures() -> None:
    clock = after(replace(CLOCK, failures=9, backoff_ms=HOUR), result(status=404))
    assert (clock.failures, clock.backoff_ms) == (0, 0)


@pytest.mark.parametrize("status", [429, 503])
def test_slow_down_answers_neither_add_to_failures_nor_end_them(status: int) -> None:
    assert after(replace(CLOCK, failures=3), result(status=status)).failures == 3


def test_nothing_that_ends_brings_an_earlier_turn_forward() -> None:
    """A turn that an operator put off while the request was under way stays put off."""
    claimed = politeness.claimed(CLOCK, RULES, NOW_MS)
    put_off = replace(claimed, next_eligible_ms=NOW_MS + HOUR)
    for reason in Reason:
        end = politeness.ended(put_off, RULES, result(reason), NOW_MS + 20)
        assert end.next_eligible_ms >= NOW_MS + HOUR, reason
    assert politeness.lapsed(put_off, RULES, NOW_MS + 20).next_eligible_ms == NOW_MS + HOUR


@pytest.mark.parametrize("ended_ms", [0, NOW_MS - 5_000, NOW_MS + DAY])
def test_a_fetcher_that_lies_about_time_shortens_nothing(ended_ms: int) -> None:
    claimed = politeness.claimed(CLOCK, RULES, NOW_MS)
    lie = replace(result(), started_ms=0, ended_ms=ended_ms)
    end = politeness.ended(claimed, RULES, lie, NOW_MS + 20)
    assert NOW_MS + 1_000 <= end.next_eligible_ms <= NOW_MS + 20 + 1_000


@pytest.mark.parametrize("reason", sorted(politeness.NO_REQUEST))
def test_a_lease_that_was_handed_back_keeps_the_turn_of_its_claim(reason: Reason) -> None:
    end = after(CLOCK, replace(result(reason), address=""))
    assert (end.in_flight, end.address_in_flight) == (0, 0)
    assert end.next_eligible_ms == NOW_MS + 1_000
    looks_again = end.address_expires_ms <= NOW_MS + 20
    assert looks_again == (reason is R.ADDRESS_CHANGED), (
        "an address that changed is looked up before the next claim"
    )


def test_a_lapsed_lease_counts_its_gap_from_now() -> None:
    claimed = politeness.claimed(replace(CLOCK, gap_ms=8_000, response_ms=300), RULES, NOW_MS)
    end = politeness.lapsed(claimed, RULES, NOW_MS + 90_000)
    assert end.next_eligible_ms == NOW_MS + 90_000 + 8_000
    assert end.address_next_ms == NOW_MS + 90_000 + 3_000
    assert (end.in_flight, end.address_in_flight, end.errand) == (0, 0, None)


@pytest.mark.parametrize("kind", list(FetchKind))
def test_only_what_connects_holds_the_slot_of_the_address(kind: FetchKind) -> None:
    clock = replace(CLOCK, in_flight=1, address_in_flight=2, errand=Errand(kind=kind, fence=1))
    freed = politeness.freed_slot(clock)
    assert (freed.in_flight, freed.errand, freed.parked) == (0, None, False)
    assert freed.address_in_flight == (2 if kind is FetchKind.RESOLVE else 1)


# --- one address ---------------------------------------------------------------------------------------------


def test_what_a_host_asks_for_itself_keeps_no_other_host_waiting() -> None:
    slow = replace(CLOCK, crawl_delay_ms=HOUR, operator_gap_ms=DAY)
    claimed = politeness.claimed(slow, RULES, NOW_MS)
    assert claimed.address_next_ms == NOW_MS + 1_000
    end = politeness.ended(claimed, RULES, result(status=503, retry_after="3600", total_ms=400), NOW_MS + 400)
    assert end.next_eligible_ms == NOW_MS + 400 + DAY
    assert end.address_next_ms == NOW_MS + 400 + 4_000, "the machine rests ten times its response time"
    queued = politeness.queued(replace(slow, address_next_ms=NOW_MS + 500), RULES, NOW_MS)
    assert queued.address_tail_ms == NOW_MS + 1_500


def test_hosts_queue_for_their_address_one_behind_the_other() -> None:
    busy = replace(CLOCK, address_in_flight=1, address_next_ms=NOW_MS + 1_000)
    assert politeness.address_busy(busy, NOW_MS)
    first = politeness.queued(busy, RULES, NOW_MS)
    second = politeness.queued(replace(busy, address_tail_ms=first.address_tail_ms), RULES, NOW_MS)
    assert (first.next_eligible_ms, second.next_eligible_ms) == (NOW_MS + 2_000, NOW_MS + 3_000)
    late = politeness.queued(replace(busy, address_next_ms=0), RULES, NOW_MS)
    assert late.next_eligible_ms == NOW_MS + 1_000, "the queue never lies in the past"


@pytest.mark.parametrize(
    ("in_flight", "next_ms", "busy"), [(0, NOW_MS, False), (0, NOW_MS + 1, True), (1, 0, True), (0, 0, False)]
)
def test_when_an_address_is_busy(in_flight: int, next_ms: int, busy: bool) -> None:
    clock = replace(CLOCK, address_in_flight=in_flight, address_next_ms=next_ms)
    assert politeness.address_busy(clock, NOW_MS) is busy


def test_a_clock_to_decide_with_has_its_address_as_others_left_it() -> None:
    """The row of a host holds its address's budget as the host itself left it: to write that back would undo others."""
    bench = Bench()
    row = HostRow(host="a.example", address="192.0.2.1", address_in_flight=0, address_next_ms=1)
    bench.tables.addresses.put(b"192.0.2.1", AddressRow(next_ms=NOW_MS, in_flight=1, tail_ms=NOW_MS + 7))
    clock = politeness.clock_in(bench.tables, row)
    assert (clock.address_next_ms, clock.address_in_flight, clock.address_tail_ms) == (NOW_MS, 1, NOW_MS + 7)
    nowhere = politeness.clock_in(bench.tables, replace(row, address=""))
    assert (nowhere.address_next_ms, nowhere.address_in_flight, nowhere.address_tail_ms) == (0, 0, 0)


def test_looked_up_anew() -> None:
    bench = Bench()
    refused = HostRow(
        host="a.example", address_reason=R.DNS_FAILED, address_expires_ms=NOW_MS + HOUR, resolve_failures=9
    )
    clock = politeness.looked_up_anew(bench.tables, refused, NOW_MS)
    assert clock is not None
    assert (clock.address_expires_ms, clock.resolve_failures) == (NOW_MS, 0)
    assert politeness.looked_up_anew(bench.tables, HostRow(host="a.example"), NOW_MS) is None


# --- properties ----------------------------------------------------------------------------------------------

STEPS = st.sampled_from(["good", "bad", "busy", "released", "lapsed"])


def ended(what: str, clock: HostClock, start_ms: int, total_ms: int) -> HostClock:
    """The clock behind a request that ended in one of five ways."""
    end_ms = start_ms + total_ms
    if what == "lapsed":
        return politeness.lapsed(clock, RULES, end_ms)
    answers = {
        "good": result(total_ms=total_ms), "bad": result(R.TIMEOUT, total_ms=total_ms),
        "busy": result(status=429, total_ms=total_ms), "released": result(R.RELEASED),
    }  # fmt: skip
    one = replace(answers[what], started_ms=start_ms, ended_ms=start_ms + answers[what].total_ms)
    return politeness.ended(clock, RULES, one, end_ms)


@given(
    st.lists(st.tuples(STEPS, st.integers(0, 5_000), st.integers(0, 100_000)), max_size=30),
    st.integers(0, 2 * HOUR),
)
def test_starts_are_never_closer_than_the_gap(steps: list[tuple[str, int, int]], delay_ms: int) -> None:
    """Seed 000, invariant 2, over any sequence of ends and idle times; slots never leak."""
    clock, now, allowed_ms = replace(CLOCK, crawl_delay_ms=delay_ms), NOW_MS, 0
    least = max(RULES.gap_ms_min, min(delay_ms, HOUR))
    for what, total_ms, idle_ms in steps:
        now = max(now + idle_ms, clock.next_eligible_ms)
        assert now >= allowed_ms
        clock = politeness.claimed(clock, RULES, now)
        assert (clock.in_flight, clock.address_in_flight) == (1, 1)
        clock = ended(what, clock, now, total_ms)
        allowed_ms = max(allowed_ms, (now if what == "released" else now + total_ms) + least)
        assert (clock.in_flight, clock.address_in_flight) == (0, 0)
        assert clock.next_eligible_ms >= allowed_ms
        now += total_ms


# --- apply ---------------------------------------------------------------------------------------------------


def wanted(origin: str, url: str) -> Errand:
    return Errand(kind=FetchKind.ROBOTS, origin_key=origin, url=url)


def moved(bench: Bench, event: HostEvent, errand: Errand | None) -> HostRow:
    row = bench.tables.hosts.get(keys.host_id("h.example")) or HostRow(host="h.example")
    clock = hosts.clock_of(row)
    politeness.apply(
        bench.tables, politeness.move(bench.context("x"), row, event, R.OK, clock, errand=errand)
    )
    return bench.host("h.example")


def test_a_wanted_errand_stays_until_it_has_its_answer() -> None:
    one, other = (
        wanted("http://a.example:80", "http://h.example/r"),
        wanted("http://b.example:80", "http://h.example/r"),
    )
    bench = Bench()
    assert moved(bench, HostEvent.ERRAND_WANTED, one).errands_wanted == 1
    assert moved(bench, HostEvent.ERRAND_WANTED, one).errands_wanted == 1, "a second wish replaces the first"
    assert moved(bench, HostEvent.ERRAND_WANTED, other).errands_wanted == 2
    for event in (HostEvent.ERRAND_LEASED, HostEvent.ERRAND_RELEASED, HostEvent.PARKED):
        assert moved(bench, event, one).errands_wanted == 2, event
    newer = replace(one, url="http://h.example/other")
    assert moved(bench, HostEvent.ERRAND_ENDED, newer).errands_wanted == 2, "the answer to another wish"
    assert moved(bench, HostEvent.ERRAND_ENDED, one).errands_wanted == 1
    assert moved(bench, HostEvent.ERRAND_ENDED, one).errands_wanted == 1, "twice"
    assert moved(bench, HostEvent.ERRAND_EXPIRED, other).errands_wanted == 0
    assert not list(bench.tables.errands.scan())
