"""When a host may be asked again: the clock of politeness (DESIGN §6; seed 002 §7.3).

Rules. One request at a time to a host and to an address. After a request the host rests for the largest of the
smallest gap, ten times the response time, its Crawl-delay and an operator's gap. 429 and 503 make the whole host
wait for Retry-After, or for a back-off that doubles. Failures of the host double the back-off too, and ten in a row
give it a day of rest. Every function takes a clock and gives the next one; nothing else decides about time.

What this can't hold: hosts of one address in several partitions (`census`).
"""

from msgspec.structs import replace

from frontlog.avro.enums import HostEvent, Reason
from frontlog.avro.events import Errand, FetchResult, HostClock, HostTransition
from frontlog.processors import errands, hosts
from frontlog.processors.context import Context
from frontlog.processors.retry_after import retry_after_ms
from frontlog.processors.settings import Politeness
from frontlog.state import keys
from frontlog.state.rows import HostRow
from frontlog.state.tables import Tables

HOST_SLOW_DOWN = frozenset({Reason.TOO_MANY_REQUESTS, Reason.UNAVAILABLE})
HOST_FAILURES = frozenset({
    Reason.TIMEOUT, Reason.CONNECTION_REFUSED, Reason.CONNECTION_RESET, Reason.NO_ROUTE, Reason.TLS_FAILED,
})  # fmt: skip
"""Failures that speak of the host, not of one URL."""
NO_REQUEST = frozenset({Reason.RELEASED, Reason.ADDRESS_CHANGED})
"""Ends of a lease without a request to the host."""


def gap_ms(clock: HostClock, rules: Politeness, response_ms: int) -> int:
    """The rest after a request, ms."""
    adaptive = int(rules.gap_factor * response_ms)
    delay = min(clock.crawl_delay_ms, rules.crawl_delay_ms_max)
    return max(rules.gap_ms_min, min(adaptive, rules.backoff_ms_max), delay, clock.operator_gap_ms)


def claimed(clock: HostClock, rules: Politeness, now_ms: int) -> HostClock:
    """The slot of the host and of its address is taken. The next turn is counted again when the request ends."""
    gap = gap_ms(clock, rules, 0)
    return replace(
        clock,
        in_flight=1,
        parked=False,
        next_eligible_ms=now_ms + gap,
        address_in_flight=clock.address_in_flight + 1,
        address_next_ms=max(clock.address_next_ms, now_ms + gap),
    )


def ended(clock: HostClock, rules: Politeness, result: FetchResult, now_ms: int) -> HostClock:
    """A request ended; when may the next one start?"""
    freed = freed_slot(clock)
    if result.reason in NO_REQUEST or not result.address:
        return freed
    end_ms = min(max(result.ended_ms, result.started_ms + result.total_ms), now_ms)
    gap = gap_ms(clock, rules, result.total_ms)
    reason = result.reason
    if result.status in (429, 503):
        asked = retry_after_ms(result.retry_after, result.ended_ms, rules.retry_after_ms_max)
        backoff = min(2 * max(clock.backoff_ms, gap), rules.backoff_ms_max)
        wait, failures = (backoff if asked is None else max(asked, gap)), clock.failures
    elif reason in HOST_FAILURES:
        failures = clock.failures + 1
        backoff = min(2 * max(clock.backoff_ms, gap), rules.backoff_ms_max)
        wait = rules.host_pause_ms if failures >= rules.host_failures_max else backoff
    else:
        backoff, wait, failures = 0, gap, 0
    next_ms = end_ms + max(gap, wait)
    return replace(
        freed,
        next_eligible_ms=next_ms,
        gap_ms=gap,
        backoff_ms=backoff,
        failures=0 if failures >= rules.host_failures_max else failures,
        response_ms=result.total_ms,
        address_next_ms=max(freed.address_next_ms, end_ms + gap),
    )


def freed_slot(clock: HostClock) -> HostClock:
    """The slot of the host and of its address is free; no time moved."""
    connected = clock.errand is None or clock.errand.kind.value != "resolve"
    in_flight = max(0, clock.address_in_flight - 1) if connected else clock.address_in_flight
    return replace(clock, in_flight=0, parked=False, errand=None, address_in_flight=in_flight)


def lapsed(clock: HostClock, rules: Politeness, now_ms: int) -> HostClock:
    """A lease ran out or was taken from a dead process: nobody knows when its request ended, so the gap counts from now."""
    freed = freed_slot(clock)
    gap = max(gap_ms(clock, rules, clock.response_ms), clock.gap_ms)
    return replace(
        freed,
        next_eligible_ms=max(clock.next_eligible_ms, now_ms + gap),
        address_next_ms=max(clock.address_next_ms, now_ms + gap),
    )


def with_address(tables: Tables, clock: HostClock) -> HostClock:
    """The clock with the budget of its address as other hosts left it."""
    budget = tables.addresses.get(clock.address.encode()) if clock.address else None
    if budget is None:
        return replace(clock, address_next_ms=0, address_in_flight=0, address_tail_ms=0)
    return replace(
        clock, address_next_ms=budget.next_ms, address_in_flight=budget.in_flight, address_tail_ms=budget.tail_ms
    )


def queued(clock: HostClock, rules: Politeness, now_ms: int) -> HostClock:
    """The address is busy with another host: a turn of its own behind those that wait already."""
    turn = max(clock.address_next_ms, clock.address_tail_ms, now_ms) + gap_ms(clock, rules, 0)
    return replace(clock, next_eligible_ms=max(clock.next_eligible_ms, turn), address_tail_ms=turn)


def address_busy(clock: HostClock, now_ms: int) -> bool:
    """Whether another host has the address for now."""
    return clock.address_in_flight > 0 or clock.address_next_ms > now_ms


def move(
    ctx: Context,
    row: HostRow,
    event: HostEvent,
    reason: Reason,
    clock: HostClock,
    *,
    detail: str = "",
    errand: Errand | None = None,
    addresses: tuple[str, ...] = (),
) -> HostTransition:
    """The decision that moves a host's clock."""
    return HostTransition(
        seq=ctx.next_seq(),
        owner_token=ctx.owner_token,
        host=row.host,
        event=event,
        reason=reason,
        detail=detail,
        cause_topic=ctx.cause.topic,
        cause_partition=ctx.cause.partition,
        cause_offset=ctx.cause.offset,
        clock=clock,
        errand=errand,
        addresses=addresses,
    )


def apply(tables: Tables, event: HostTransition) -> None:
    """Fold one move of a host's clock."""
    host = keys.host_id(event.host)
    row = hosts.ensure(tables, event.host)
    if event.event is HostEvent.ERRAND_WANTED:
        assert event.errand is not None
        key = errands.wanted_key(host, event.errand.origin_key)
        added = tables.errands.get(key) is None
        tables.errands.put(key, errands.pack(event.errand))
        tables.hosts.put(host, replace(row, errands_wanted=row.errands_wanted + added))
    elif event.errand is not None:
        key = errands.wanted_key(host, event.errand.origin_key)
        if event.errand.kind.value == "robots" and tables.errands.get(key) is not None:
            tables.errands.delete(key)
            tables.hosts.put(host, replace(row, errands_wanted=row.errands_wanted - 1))
    hosts.set_clock(tables, host, event.clock)
