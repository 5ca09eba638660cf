"""The rows of hosts: writing their clocks, their origins and seeds, and working out whose turn is when.

A host stands in `ready` at the earliest moment at which something of it could be claimed, and not at all
while it is paused, has a request under way, or has nothing that waits. That moment follows from the host's
row, its origins and `due`; `settle` works it out for every host that a decision touched, before claims and
at the end of a batch, in the live path and in replay alike.
"""

from msgspec.structs import replace

from frontlog.avro.enums import RobotsState
from frontlog.avro.events import Errand, HostClock
from frontlog.processors import errands
from frontlog.state import keys
from frontlog.state.rows import AddressRow, HostRow, OriginRow
from frontlog.state.tables import Tables

SUFFIX_BYTES = keys.ORIGIN_ID_BYTES - keys.HOST_ID_BYTES


def clock_of(row: HostRow) -> HostClock:
    """The clock that a host's row holds."""
    clock = HostClock(  # in two steps: CPython makes a dict of more than 15 keywords
        next_eligible_ms=row.next_eligible_ms, in_flight=row.in_flight, gap_ms=row.gap_ms,
        operator_gap_ms=row.operator_gap_ms, crawl_delay_ms=row.crawl_delay_ms, backoff_ms=row.backoff_ms,
        failures=row.failures, response_ms=row.response_ms, paused=row.paused, parked=row.parked, address=row.address,
        address_reason=row.address_reason,
    )  # fmt: skip
    return replace(
        clock, address_expires_ms=row.address_expires_ms, resolve_failures=row.resolve_failures,
        address_next_ms=row.address_next_ms, address_in_flight=row.address_in_flight,
        address_tail_ms=row.address_tail_ms, fence=row.fence, errand=errands.unpack(row.errand),
    )  # fmt: skip


def set_clock(tables: Tables, host: bytes, clock: HostClock) -> None:
    """Write a clock that a decision carries, with the lease of its errand and the budget of its address."""
    row = tables.hosts.get(host)
    assert row is not None
    errand = clock.errand
    if row.errand or errand is not None:
        _index_errand(tables, host, errands.unpack(row.errand), errand)
    new = replace(
        row, next_eligible_ms=clock.next_eligible_ms, in_flight=clock.in_flight, gap_ms=clock.gap_ms,
        operator_gap_ms=clock.operator_gap_ms, crawl_delay_ms=clock.crawl_delay_ms, backoff_ms=clock.backoff_ms,
        failures=clock.failures, response_ms=clock.response_ms, paused=clock.paused, parked=clock.parked,
        address=clock.address, address_reason=clock.address_reason,
    )  # fmt: skip
    new = replace(
        new, address_expires_ms=clock.address_expires_ms, resolve_failures=clock.resolve_failures,
        address_next_ms=clock.address_next_ms, address_in_flight=clock.address_in_flight,
        address_tail_ms=clock.address_tail_ms, fence=clock.fence, errand=errands.pack(errand),
    )  # fmt: skip
    tables.hosts.put(host, new)
    if clock.address:
        budget = AddressRow(clock.address_next_ms, clock.address_in_flight, clock.address_tail_ms)
        tables.addresses.put(clock.address.encode(), budget)
    tables.touched.add(host)


def _index_errand(tables: Tables, host: bytes, old: Errand | None, new: Errand | None) -> None:
    if old is not None:
        tables.leases.delete(keys.lease_key(old.deadline_ms, keys.LEASE_ERRAND, host))
    if new is not None:
        tables.leases.put(keys.lease_key(new.deadline_ms, keys.LEASE_ERRAND, host))


def ensure(tables: Tables, name: str) -> HostRow:
    """The row of a host, made when it is not there."""
    row = tables.hosts.get(keys.host_id(name))
    if row is None:
        row = HostRow(host=name)
        tables.hosts.put(keys.host_id(name), row)
    assert row.host == name, f"host {name} has the id of {row.host}"
    return row


def add_origin(tables: Tables, name: str, origin: bytes) -> None:
    """Note a new origin with its host."""
    row = ensure(tables, name)
    suffixes = {row.origins[i : i + SUFFIX_BYTES] for i in range(0, len(row.origins), SUFFIX_BYTES)}
    suffixes.add(origin[keys.HOST_ID_BYTES :])
    tables.hosts.put(keys.host_id(name), replace(row, origins=b"".join(sorted(suffixes))))


def add_seed(tables: Tables, name: str, scope: str) -> None:
    """Widen the scope by a seed's prefix (empty: the whole host)."""
    row = ensure(tables, name)
    if scope not in row.seeds:
        tables.hosts.put(keys.host_id(name), replace(row, seeds=(*row.seeds, scope)))


def count_page(tables: Tables, host: bytes) -> None:
    """One more page of the host was fetched."""
    row = tables.hosts.get(host)
    assert row is not None
    tables.hosts.put(host, replace(row, pages=row.pages + 1))


def count_sitemap(tables: Tables, host: bytes) -> None:
    """One more URL of the host was named as a sitemap."""
    row = tables.hosts.get(host)
    assert row is not None
    tables.hosts.put(host, replace(row, sitemaps=row.sitemaps + 1))


def origins_of(host: bytes, row: HostRow) -> list[bytes]:
    """Ids of the host's origins."""
    suffixes = row.origins
    return [host + suffixes[i : i + SUFFIX_BYTES] for i in range(0, len(suffixes), SUFFIX_BYTES)]


def held_until_ms(origin: OriginRow, now_ms: int) -> int:
    """Before this nothing of the origin can be claimed: its robots.txt is unreachable, or on its way through
    another host (ms since the epoch; 0: not held). A copy that is still good lifts the hold."""
    state = origin.robots_state
    if state is RobotsState.UNREACHABLE:
        return 0 if origin.robots_copy_until_ms > now_ms else origin.robots_expires_ms
    if state is RobotsState.UNKNOWN:
        return origin.robots_expires_ms
    return 0


def first_due(tables: Tables, origin: bytes, row: OriginRow) -> tuple[int, bytes] | None:
    """(class, key in `due`) of the best URL that is due earliest in its class; None: nothing waits."""
    for priority in range(len(row.due) // 4):
        if row.due[4 * priority : 4 * priority + 4] != b"\0\0\0\0":
            prefix = origin + bytes((priority,))
            found = tables.due.first(prefix, keys.after(prefix))
            if found is not None:
                return priority, found[0]
    return None


def earliest_due_ms(tables: Tables, origin: bytes, row: OriginRow) -> int | None:
    """When the origin's first URL of any class is due (ms since the epoch); None: nothing waits."""
    best: int | None = None
    for priority in range(len(row.due) // 4):
        if row.due[4 * priority : 4 * priority + 4] == b"\0\0\0\0":
            continue
        prefix = origin + bytes((priority,))
        found = tables.due.first(prefix, keys.after(prefix))
        if found is not None:
            due = keys.due_parts(found[0])[1]
            best = due if best is None or due < best else best
            if best == 0:
                return 0
    return best


def ready_at_ms(tables: Tables, host: bytes, row: HostRow, now_ms: int) -> int | None:
    """When something of the host can be claimed (ms since the epoch); None: nothing can."""
    if row.paused or row.in_flight or row.errand:
        return None
    work: int | None = 0 if row.errands_wanted else None
    for origin in origins_of(host, row):
        origin_row = tables.origins.get(origin)
        if origin_row is None or origin_row.paused:
            continue
        due = earliest_due_ms(tables, origin, origin_row)
        if due is None:
            continue
        at = max(due, held_until_ms(origin_row, now_ms))
        work = at if work is None or at < work else work
    return None if work is None else max(row.next_eligible_ms, work)


def settle(tables: Tables) -> None:
    """Move every touched host to its place in `ready`."""
    settle_later(tables)
    for host, at_ms in sorted(tables.unsettled.items()):
        row = tables.hosts.get(host)
        if row is None:
            continue
        at = ready_at_ms(tables, host, row, at_ms)
        ready = -1 if at is None else at
        if ready != row.ready_ms:
            if row.ready_ms >= 0:
                tables.ready.delete(keys.ready_key(row.ready_ms, host))
            if ready >= 0:
                tables.ready.put(keys.ready_key(ready, host))
            tables.hosts.put(host, replace(row, ready_ms=ready))
    tables.unsettled.clear()


def settle_later(tables: Tables) -> None:
    """Note when the touched hosts would have been moved: what their place depends on changes with a touch only, but for the
    time. A fold of many batches moves each host once."""
    if tables.touched:
        tables.unsettled.update(dict.fromkeys(tables.touched, tables.head.at_ms))
        tables.touched.clear()
