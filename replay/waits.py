"""What a URL waits for, from the tables alone: the first thing that stands between it and its next fetch."""

from typing import NamedTuple

from frontlog.avro.enums import Reason, RobotsState, State
from frontlog.processors import hosts, policy
from frontlog.state import keys
from frontlog.state.rows import HostRow, OriginRow, UrlRow
from frontlog.state.tables import Tables

_PARKED = {
    State.BLOCKED: "a newer policy version that allows it",
    State.FAILED: "an operator, a seed or a sitemap that asks for it",
    State.QUARANTINED: "an operator, a seed or a sitemap that asks for it",
    State.GONE: "an operator, a seed or a sitemap that asks for it",
    State.SUPPRESSED: "the opt-out to be withdrawn",
}

_BLOCKED = {
    Reason.OPERATOR_BLOCK: "an operator who ends the block",
    Reason.BLOCKED_NETWORK: "a seed or `frontlog recrawl` that asks for it, when its host has public addresses only, or "
    "--allow-addresses allows them",
    Reason.MERGED: "nothing: another identity stands for it",
}
"""Blocks that a newer policy version is not enough for (`processors.jobs`), or whose policy has a better name."""


class Wait(NamedTuple):
    """What is waited for, and until when (ms since the epoch; 0: nobody knows)."""

    what: str
    until_ms: int = 0


def waits_for(tables: Tables, origin_key: str, row: UrlRow) -> Wait:
    """What must happen before a URL is fetched (again)."""
    if row.state is State.BLOCKED and row.reason in _BLOCKED:
        return Wait(_BLOCKED[row.reason])
    if row.state in _PARKED:
        return Wait(_PARKED[row.state])
    if row.state is State.LEASED:
        return Wait(f"the result of its lease, held by {row.lease_owner}", row.deadline_ms)
    if row.state is State.FETCHED:
        return Wait("its recrawl", row.due_ms) if row.due_ms else Wait("nothing: no recrawl is due")
    if row.due_ms > tables.head.at_ms:
        return Wait("its due time", row.due_ms)
    origin_id = keys.origin_id(origin_key)
    host = tables.hosts.get(origin_id[: keys.HOST_ID_BYTES])
    origin = tables.origins.get(origin_id)
    assert host is not None and origin is not None
    return _paused(tables, origin_key) or _robots(tables, origin) or _host(tables, host, origin)


def _paused(tables: Tables, origin_key: str) -> Wait | None:
    at = policy.standing(tables, origin_key)
    paused = {
        "the crawl": tables.crawl.crawl_paused,
        "its partition": tables.crawl.paused,
        "its site": at.site is not None and at.site.paused,
        "its host": at.host is not None and at.host.paused,
        "its origin": at.origin is not None and at.origin.paused,
    }
    what = next((name for name, is_so in paused.items() if is_so), None)
    return None if what is None else Wait(f"an operator: {what} is paused")


def _robots(tables: Tables, origin: OriginRow) -> Wait | None:
    held_ms = hosts.held_until_ms(origin, tables.head.at_ms)
    if held_ms <= tables.head.at_ms:
        return None
    if origin.robots_state is RobotsState.UNREACHABLE:
        return Wait(
            f"its robots.txt, which is unreachable (status {origin.robots_status or 'none'})", held_ms
        )
    return Wait("its robots.txt, which is on its way through another host", held_ms)


def _host(tables: Tables, host: HostRow, origin: OriginRow) -> Wait:
    now_ms = tables.head.at_ms
    queued = sum(int.from_bytes(origin.due[at : at + 4], "big") for at in range(0, len(origin.due), 4))
    behind = f"; {queued - 1} more of its origin wait" if queued > 1 else ""
    if host.in_flight:
        return Wait(f"its host, which has a request under way{behind}")
    if host.address_reason is not Reason.OK and host.address_expires_ms > now_ms:
        return Wait(f"an address of its host: {host.address_reason.value}", host.address_expires_ms)
    if host.next_eligible_ms > now_ms:
        why = f"gap of {host.gap_ms} ms" if not host.backoff_ms else f"back-off of {host.backoff_ms} ms"
        return Wait(f"its host's turn ({why}){behind}", host.next_eligible_ms)
    return Wait(f"its turn{behind}")
