"""When a host may be asked again: the clock of politeness (DESIGN §6; seed 002 §7.3).

Rules. One request at a time to a host and to an address. After a request the host rests for the largest of the
smallest gap, ten times the response time, its Crawl-delay and an operator's gap. 429 and 503 make the whole host
wait for Retry-After, or for a back-off that doubles. Failures of the host double the back-off too, and ten in a row
give it a day of rest; a request that failed has no response time, so the last one that is known counts on. Every
function takes a clock and gives the next one; nothing else decides about time, and no request's end brings a turn
forward that was given before it.

Hosts of one address share its slot and its rest, which is that of the machine: the smallest gap or ten times the
response time. What one host asks for itself (Crawl-delay, Retry-After, an operator's gap) keeps no other waiting.

What this can't hold: hosts of one address in several partitions (`census`).
"""

from msgspec.structs import replace

from frontlog.avro.enums import FetchKind, HostEvent, Reason
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
ERRAND_OVER = frozenset({HostEvent.ERRAND_ENDED, HostEvent.ERRAND_EXPIRED})
"""What ends a wanted errand: it has its answer, be it that there is none."""
NO_REQUEST = frozenset({Reason.RELEASED, Reason.ADDRESS_CHANGED})
"""Ends of a lease without a request to the host."""


def gap_ms(clock: HostClock, rules: Politeness, response_ms: int) -> int:
    """The rest after a request, ms."""
    delay = min(clock.crawl_delay_ms, rules.crawl_delay_ms_max)
    return max(address_gap_ms(rules, response_ms), delay, clock.operator_gap_ms)


def address_gap_ms(rules: Politeness, response_ms: int) -> int:
    """The rest of an address after a request to any of its hosts, ms."""
    return max(rules.gap_ms_min, min(int(rules.gap_factor * response_ms), rules.backoff_ms_max))


def claimed(clock: HostClock, rules: Politeness, now_ms: int) -> HostClock:
    """The slot of the host and of its address is taken. The next turn is counted again when the request ends."""
    gap = gap_ms(clock, rules, 0)
    return replace(
        clock,
        in_flight=1,
        parked=False,
        next_eligible_ms=now_ms + gap,
        address_in_flight=clock.address_in_flight + 1,
        address_next_ms=max(clock.address_next_ms, now_ms + address_gap_ms(rules, 0)),
    )


def ended(clock: HostClock, rules: Politeness, result: FetchResult, now_ms: int) -> HostClock:
    """A request ended; when may the next one start?"""
    freed = freed_slot(clock)
    if result.reason is Reason.ADDRESS_CHANGED:
        # the look-up that the claim went by is out of date: look again before the next claim
        return replace(freed, address_expires_ms=min(freed.address_expires_ms, now_ms))
    if result.reason in NO_REQUEST or not result.address:
        return freed
    end_ms = min(max(result.ended_ms, result.started_ms + result.total_ms), now_ms)
    reason = result.reason
    # "request sent to last byte": of a failure there is no last byte, and the time it took is our limit, not the host's
    response_ms = clock.response_ms if reason in HOST_FAILURES else result.total_ms
    gap = gap_ms(clock, rules, response_ms)
    if result.status in (429, 503):
        asked = retry_after_ms(result.retry_after, end_ms, rules.retry_after_ms_max)
        backoff = _backoff_ms(clock, rules, gap)
        wait, failures = (backoff if asked is None else max(asked, gap)), clock.failures
    elif reason in HOST_FAILURES:
        failures = clock.failures + 1
        backoff = _backoff_ms(clock, rules, gap)
        wait = rules.host_pause_ms if failures >= rules.host_failures_max else backoff
    else:
        backoff, wait, failures = 0, gap, 0
    return replace(
        freed,
        next_eligible_ms=max(clock.next_eligible_ms, end_ms + max(gap, wait)),
        gap_ms=gap,
        backoff_ms=backoff,
        failures=0 if failures >= rules.host_failures_max else failures,
        response_ms=response_ms,
        address_next_ms=max(freed.address_next_ms, end_ms + address_gap_ms(rules, response_ms)),
    )


def _backoff_ms(clock: HostClock, rules: Politeness, gap: int) -> int:
    """The next back-off of a host. It has a floor: a crawl without a gap has no licence to press on a host in trouble."""
    return min(max(2 * max(clock.backoff_ms, gap), rules.backoff_ms_min), rules.backoff_ms_max)


def freed_slot(clock: HostClock) -> HostClock:
    """The slot of the host and of its address is free; no time moved."""
    connected = clock.errand is None or clock.errand.kind is not FetchKind.RESOLVE
    in_flight = max(0, clock.address_in_flight - 1) if connected else clock.address_in_flight
    return replace(clock, in_flight=0, parked=False, errand=None, address_in_flight=in_flight)


def lapsed(clock: HostClock, rules: Politeness, now_ms: int) -> HostClock:
    """A lease ran out or was taken from a dead process: nobody knows when its request ended, so the gap counts from now."""
    freed = freed_slot(clock)
    gap = max(gap_ms(clock, rules, clock.response_ms), clock.gap_ms)
    address_gap = address_gap_ms(rules, clock.response_ms)
    return replace(
        freed,
        next_eligible_ms=max(clock.next_eligible_ms, now_ms + gap),
        address_next_ms=max(clock.address_next_ms, now_ms + address_gap),
    )


def clock_in(tables: Tables, row: HostRow) -> HostClock:
    """The clock of a host as a decision may change and carry it: its row's, with the budget of its address as
    every host of the address left it. (A row alone holds the budget as its own host left it.)"""
    return with_address(tables, hosts.clock_of(row))


def with_address(tables: Tables, clock: HostClock) -> HostClock:
    """The clock with the budget of its address as other hosts left it."""
    budget = tables.addresses.get(clock.address.encode()) if clock.address else None
    if budget is None:
        return replace(clock, address_next_ms=0, address_in_flight=0, address_tail_ms=0)
    return replace(
        clock,
        address_next_ms=budget.next_ms,
        address_in_flight=budget.in_flight,
        address_tail_ms=budget.tail_ms,
    )


def looked_up_anew(tables: Tables, row: HostRow, now_ms: int) -> HostClock | None:
    """The clock of a host whose address was refused or not found, for a look-up before the next claim; None: it has
    an address, or none was ever looked up."""
    if row.address_reason is Reason.OK:
        return None
    clock = clock_in(tables, row)
    return replace(clock, address_expires_ms=min(clock.address_expires_ms, now_ms), resolve_failures=0)


def queued(clock: HostClock, rules: Politeness, now_ms: int) -> HostClock:
    """The address is busy with another host: a turn of its own behind those that wait already."""
    turn = max(clock.address_next_ms, clock.address_tail_ms, now_ms) + address_gap_ms(rules, 0)
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
    if event.errand is not None:
        key = errands.wanted_key(host, event.errand.origin_key)
        wanted = errands.unpack(tables.errands.get(key) or b"")
        if event.event is HostEvent.ERRAND_WANTED:
            tables.errands.put(key, errands.pack(event.errand))
            tables.hosts.put(host, replace(row, errands_wanted=row.errands_wanted + (wanted is None)))
        elif event.event in ERRAND_OVER and wanted is not None and wanted.url == event.errand.url:
            # Not before: an errand that was handed back, or whose process died, is still wanted.
            tables.errands.delete(key)
            tables.hosts.put(host, replace(row, errands_wanted=row.errands_wanted - 1))
    hosts.set_clock(tables, host, event.clock)
