"""Invariants of requests, judged when a server sees a connection, by the servers' own clocks and records.

What a server wants of the next request to its host follows from the last one that ended there:

    always                    the smallest gap, ten times (or as set) its response time, the Crawl-delay that is believed,
                              an operator's gap
    429, 503                  Retry-After as it was meant; without a usable one, twice the gap, doubling each time
    refused, reset, timed out the same doubling

The last two only where the log took the result in: an answer that died with its process is known to nobody.

Not checked: the day's rest after many failures in a row; hosts of one address in several partitions (`census` is not built).
A date in Retry-After is read by the crawler's clock; where that was stepped, the wait may be shorter by the step.
"""

from typing import NamedTuple

from frontlog.avro.enums import FetchKind
from frontlog.processors.settings import Settings
from simulation.ledger import Ledger
from simulation.servers import HOST_FAILURES, Served, Servers
from simulation.web import Web, is_public, split_origin, split_url

ROUNDING_MS = 1.0
"""Times in the log are whole milliseconds, rounded down."""
SLEW = 0.01
"""While it makes up for a step of the system's clock, the owner's clock runs at most so much faster (DESIGN §3)."""


class Asked(NamedTuple):
    """A connection, and what it is judged by. `owner_ms`: the clock of the process that asks; `jumped_s`: by how much the
    clocks of owners that started since some moment were ahead of those before them."""

    ledger: Ledger
    servers: Servers
    web: Web
    settings: Settings
    served: Served
    owner_ms: int
    total_ms: int
    stepped_s: float
    jumped_s: float


def judge(at: Asked) -> tuple[str, int, str] | None:
    """(invariant, its number, what is wrong), or nothing."""
    for name, number, check in REQUESTS:
        wrong = check(at)
        if wrong is not None:
            return name, number, wrong
    return None


def asked_with_a_lease_of_the_log(at: Asked) -> str | None:
    """Nothing is asked without a lease that the log has, for that URL, at that address, early enough before its end."""
    served = at.served
    lease = at.ledger.leases.get(served.attempt)
    if not served.ours:
        return None
    if lease is None:
        return f"{served.url} is asked without a lease in the log ({served.attempt})"
    if lease.kind is not served.kind or lease.host != served.host or lease.address != served.address:
        return f"{served.url} at {served.address} is asked with a lease for {lease}"
    wanted = lease.url
    if lease.kind is FetchKind.PAGE:
        wanted = at.ledger.urls[lease.url].requested or lease.url
    if wanted != served.url:
        return f"{served.url} is asked, the lease is for {wanted}"
    return None


def asked_within_the_lease(at: Asked) -> str | None:
    """Nobody asks so late that the lease could run out meanwhile, not even who was replaced long ago."""
    lease = at.ledger.every_lease.get(at.served.attempt)
    if lease is None or at.owner_ms + at.total_ms <= lease.deadline_ms + ROUNDING_MS:
        return None
    return f"{at.served.url} is asked {lease.deadline_ms - at.owner_ms} ms before its lease ends; it may take {at.total_ms}"


def asked_of_the_public_web(at: Asked) -> str | None:
    """Every connection goes to a public address."""
    return None if is_public(at.served.address) else f"{at.served.url}: a connection to {at.served.address}"


def asked_as_it_was_found(at: Asked) -> str | None:
    """A page is asked for by a spelling that somebody gave, byte for byte; identities that differ are not merged."""
    if at.served.kind is not FetchKind.PAGE or at.web.knows(at.served.url):
        return None
    return f"{at.served.url} is asked; no page, redirect or seed says so"


def one_connection_a_host(at: Asked) -> str | None:
    """No host has two requests at once."""
    busy = [s.url for s in at.servers.busy() if s.host == at.served.host] if at.served.ours else []
    return f"{at.served.url} is asked while {busy} are open" if busy else None


def one_connection_an_address(at: Asked) -> str | None:
    """No address has two requests at once from one partition."""
    if not at.served.ours:
        return None
    home = at.web.hosts[at.served.host].partition
    busy = [
        s.url for s in at.servers.busy() if s.address == at.served.address and at.web.hosts[s.host].partition == home
    ]  # fmt: skip
    return f"{at.served.url} is asked at {at.served.address} while {busy} are open" if busy else None


def gap_of_the_host(at: Asked) -> str | None:
    """The next request to a host begins its gap after the last one ended."""
    last = at.servers.last(at.served.host)
    if last is None or not at.served.ours:
        return None
    wanted_ms = max(_rest_ms(at, last), _crawl_delay_ms(at), _operator_gap_ms(at))
    return _too_soon(at, last, wanted_ms, "its gap")


def gap_of_the_address(at: Asked) -> str | None:
    """Hosts of one partition that share an address share its rest."""
    home = at.web.hosts[at.served.host].partition
    last = at.servers.last_of_address.get((home, at.served.address))
    if last is None or not at.served.ours:
        return None
    return _too_soon(at, last, _rest_ms(at, last), f"the gap of {at.served.address}")


def retry_after_is_kept(at: Asked) -> str | None:
    """After 429, 503 and failures of the host, it waits as long as it was asked to, or ever longer."""
    last = at.servers.last(at.served.host)
    if last is None or not at.served.ours or last.attempt not in at.ledger.accepted:
        return None
    result, rules = at.ledger.accepted[last.attempt], at.settings.politeness
    timed_ms = result.total_ms if result.address and result.reason not in HOST_FAILURES else 0
    base_ms = max(rules.gap_ms_min, int(rules.gap_factor * timed_ms))
    if result.status in (429, 503):
        meant_ms = last.answer.retry_ms
        if last.answer.retry_at_s is not None and last.ended_s is not None:
            meant_ms = int((last.answer.retry_at_s - last.ended_s - at.stepped_s) * 1_000)
        if meant_ms is not None and meant_ms > 0:
            return _too_soon(at, last, meant_ms, f"Retry-After: {result.retry_after}")
        if last.answer.retry_at_s is not None and at.stepped_s:
            return None  # a date that has passed by one clock and not by the other
    elif result.reason not in HOST_FAILURES:
        return None
    doubled_ms = rules.gap_ms_min << min(at.servers.strikes(last.host, at.ledger.accepted), 20)
    doubled_ms = min(max(doubled_ms, rules.backoff_ms_min), rules.backoff_ms_max)
    return _too_soon(
        at, last, max(base_ms, doubled_ms), f"its back-off after {result.status or result.reason}"
    )


def _rest_ms(at: Asked, last: Served) -> float:
    """What a machine wants after any request, by the response time that its server measured."""
    assert last.ended_s is not None
    rules = at.settings.politeness
    response_ms = max(0.0, (last.ended_s - last.sent_s) * 1_000) if last.sent_s else 0.0
    result = at.ledger.accepted.get(last.attempt)
    if result is None or result.reason in HOST_FAILURES:
        response_ms = 0.0
    return max(rules.gap_ms_min, min(int(rules.gap_factor * int(response_ms)), rules.backoff_ms_max))


def _crawl_delay_ms(at: Asked) -> int:
    """The longest Crawl-delay among the robots files of the host's origins that are believed, and not out of date."""
    delays = [0]
    for origin, belief in at.ledger.beliefs.items():
        known = max(belief.expires_ms, belief.copy_until_ms) > at.owner_ms
        if known and belief.text is not None and split_origin(origin)[1] == at.served.host:
            file = at.servers.files.get(belief.text)
            delays.append(file.delay_ms if file is not None else 0)
    return max(delays)


def _operator_gap_ms(at: Asked) -> int:
    home = at.web.hosts[at.served.host].partition
    return at.ledger.shards[f"frontier-{home}"].gaps.get(at.served.host, 0)


def _too_soon(at: Asked, last: Served, wanted_ms: float, why: str) -> str | None:
    assert last.ended_s is not None
    passed_ms = (at.served.began_s - last.ended_s) * 1_000
    allowed_ms = wanted_ms * (1 - (SLEW if at.stepped_s else 0)) - ROUNDING_MS - at.jumped_s * 1_000
    if passed_ms >= allowed_ms:
        return None
    before = f"{split_url(last.url)[1]} of {last.host}"
    return f"{at.served.url} is asked {passed_ms:.3f} ms after {before} ended; {why} is {wanted_ms:.0f} ms"


REQUESTS = (
    ("asked_with_a_lease_of_the_log", 1, asked_with_a_lease_of_the_log),
    ("asked_within_the_lease", 10, asked_within_the_lease),
    ("asked_of_the_public_web", 1, asked_of_the_public_web),
    ("asked_as_it_was_found", 6, asked_as_it_was_found),
    ("one_connection_a_host", 2, one_connection_a_host),
    ("one_connection_an_address", 2, one_connection_an_address),
    ("gap_of_the_host", 2, gap_of_the_host),
    ("gap_of_the_address", 2, gap_of_the_address),
    ("retry_after_is_kept", 11, retry_after_is_kept),
)
