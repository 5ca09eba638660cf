"""A look at a shard's tables: URLs by state and reason, hosts that wait and why. Read only, one snapshot.

State and reason are the first two bytes of a row in `urls`, so that counting a million rows takes a second or two.
"""

from collections import Counter
from dataclasses import dataclass, field

from frontlog.avro.enums import Reason, State
from frontlog.processors import hosts, policy, url_counts
from frontlog.state.rows import STATES, HostRow, OriginRow
from frontlog.state.store import Txn
from frontlog.state.tables import Tables
from frontlog.streams.summary import StateCount, WaitingHost

REASONS = tuple(Reason)
NEVER_MS = 1 << 62


@dataclass(slots=True)
class Survey:
    """What one or more shards hold."""

    counts: Counter[tuple[State, Reason]] = field(default_factory=Counter[tuple[State, Reason]])
    waiting: list[WaitingHost] = field(default_factory=list[WaitingHost])
    hosts: int = 0
    pages: int = 0
    documents: int = 0
    urls_with_text: int = 0

    def state_counts(self) -> tuple[StateCount, ...]:
        """The counts as they are shown, most first."""
        return tuple(
            StateCount(state, reason, n) for (state, reason), n in self.counts.most_common() if n > 0
        )


def count_urls(txn: Txn, into: Survey) -> None:
    """Count a shard's URLs by state and reason."""
    pairs = Counter(value[:2] for _, value in txn.scan("urls"))
    for pair, number in pairs.items():
        into.counts[STATES[pair[0]], REASONS[pair[1]]] += number


def count_content(txn: Txn, into: Survey) -> None:
    """Count a content shard's documents."""
    into.documents += txn.count("content")
    into.urls_with_text += txn.count("url_content")


def look_at_hosts(txn: Txn, into: Survey, now_ms: int) -> None:
    """Hosts with something to fetch that may not be asked yet, and pages fetched."""
    tables = Tables(txn)
    paused = "the crawl" if tables.crawl.crawl_paused else "its partition" if tables.crawl.paused else ""
    for host_id, row in tables.hosts.scan():
        into.hosts += 1
        into.pages += row.pages
        found = _waits(tables, host_id, row, now_ms, paused)
        if found is not None:
            into.waiting.append(found)


def _waits(tables: Tables, host_id: bytes, row: HostRow, now_ms: int, paused: str) -> WaitingHost | None:
    origins = [tables.origins.get(o) for o in hosts.origins_of(host_id, row)]
    queued = sum(sum(url_counts.by_class(o)) for o in origins if o is not None)
    if not queued or row.in_flight:
        return None
    if paused:
        return WaitingHost(row.host, Reason.PAUSED, 0, queued, f"{paused} is paused")
    held = _held(origins, now_ms)
    if held is not None:
        origin, reason = held
        until = 0 if reason is Reason.PAUSED else origin.robots_expires_ms
        return WaitingHost(row.host, reason, until, queued, _why_held(origin, reason))
    rules = policy.settings_of(tables).politeness
    if row.parked and row.crawl_delay_ms > rules.crawl_delay_ms_max:
        detail = f"its Crawl-delay is {row.crawl_delay_ms / 1_000:g} s"
        return WaitingHost(row.host, Reason.CRAWL_DELAY_TOO_LONG, row.next_eligible_ms, queued, detail)
    if row.paused or row.parked:
        return WaitingHost(row.host, Reason.PAUSED, 0, queued)
    if row.address_reason is not Reason.OK and row.address_expires_ms > now_ms:
        return WaitingHost(row.host, row.address_reason, row.address_expires_ms, queued)
    until_ms = max(row.next_eligible_ms, row.ready_ms)
    if until_ms <= now_ms:
        return None
    if row.resolve_failures:
        return WaitingHost(
            row.host, Reason.DNS_FAILED, until_ms, queued, f"{row.resolve_failures} look-ups failed"
        )
    if row.backoff_ms:
        detail = f"{row.failures} failures in a row" if row.failures else "the host asked for it"
        return WaitingHost(
            row.host, Reason.TIMEOUT if row.failures else Reason.UNAVAILABLE, until_ms, queued, detail
        )
    return WaitingHost(row.host, Reason.DUE, until_ms, queued, f"gap of {row.gap_ms} ms")


def _why_held(origin: OriginRow, reason: Reason) -> str:
    """What an origin is held by, for people."""
    if reason is Reason.PAUSED:
        return origin.origin_key
    answer = f"status {origin.robots_status}" if origin.robots_status else "no answer"
    return f"robots.txt of {origin.origin_key}: {answer}, {origin.robots_failures} times in a row"


def _held(origins: list[OriginRow | None], now_ms: int) -> tuple[OriginRow, Reason] | None:
    """What holds all origins of a host that have something to fetch: that which ends first; None: one is free."""
    found: list[tuple[int, OriginRow, Reason]] = []
    for origin in origins:
        if origin is None or not sum(url_counts.by_class(origin)):
            continue
        if origin.paused:
            found.append((NEVER_MS, origin, Reason.PAUSED))
        elif hosts.held_until_ms(origin, now_ms) > now_ms:
            found.append((origin.robots_expires_ms, origin, Reason.ROBOTS_UNREACHABLE))
        else:
            return None
    first = min(found, key=lambda one: one[0], default=None)
    return None if first is None else (first[1], first[2])
