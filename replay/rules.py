"""The rules that `verify` holds a log against, written down a second time, as data and by hand.

Source: DESIGN §5 to §7 and seed 000, chapters 2, 5 and 6; not the machines in `processors/`. Nothing here, and none of
the checks that read it, imports a machine: where both say the same thing wrongly, two people were wrong. A test compares
the table of transitions with the one that the machines obey.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from frontlog.avro.enums import FetchKind, Reason, State
from frontlog.replay.trap_reference import Limits

_GATES = (
    "bad_scheme blocked_network out_of_scope robots_denied operator_block merged userinfo too_long "
    "host_budget site_budget"
)
_TRAPS = "trap_parameters trap_depth trap_repetition trap_encoding trap_calendar trap_pattern"
_ASKED = "operator sitemap seed recrawl_forced"
_MAY_PASS = (
    "too_many_requests unavailable server_error timeout connection_refused connection_reset no_route protocol_error "
    "truncated gone_unconfirmed dns_failed decode_failed tls_failed worker_lost store_full unexpected_status"
)
_TABLE = f"""
DISCOVERED  ELIGIBLE     admitted
DISCOVERED  BLOCKED      {_GATES} {_TRAPS}
ELIGIBLE    ELIGIBLE     sitemap
ELIGIBLE    LEASED       claimed
ELIGIBLE    BLOCKED      {_GATES}
LEASED      LEASED       extended
LEASED      FETCHED      ok not_modified redirected
LEASED      ELIGIBLE     lease_expired released address_changed redirected
LEASED      DEFERRED     {_MAY_PASS}
LEASED      FAILED       not_available retries_exhausted dns_failed tls_failed too_many_redirects
LEASED      FAILED       redirect_loop bad_location unexpected_status
LEASED      QUARANTINED  oversize bad_type header_oversize parser_limit repeated_failures
LEASED      GONE         gone
LEASED      BLOCKED      {_GATES}
FETCHED     ELIGIBLE     recrawl_due recrawl_forced sitemap
FETCHED     BLOCKED      {_GATES}
DEFERRED    ELIGIBLE     due recrawl_forced sitemap
DEFERRED    BLOCKED      {_GATES}
BLOCKED     ELIGIBLE     policy_allows readmitted
QUARANTINED ELIGIBLE     {_ASKED}
FAILED      ELIGIBLE     {_ASKED}
GONE        ELIGIBLE     {_ASKED}
SUPPRESSED  DISCOVERED   policy_allows
"""


def _read(text: str) -> dict[tuple[State, State], frozenset[Reason]]:
    found: dict[tuple[State, State], frozenset[Reason]] = {}
    for line in text.strip().splitlines():
        start, to, *reasons = line.split()
        pair = State.named(start), State.named(to)
        found[pair] = found.get(pair, frozenset()) | {Reason.named(reason) for reason in reasons}
    for state in State:  # an opt-out outranks everything
        if state is not State.SUPPRESSED:
            found[state, State.SUPPRESSED] = frozenset({Reason.SUPPRESSED})
    return found


TRANSITIONS: Mapping[tuple[State, State], frozenset[Reason]] = _read(_TABLE)
"""Every allowed move and the reasons that may cause it."""

NEVER_ASKED = frozenset({Reason.RELEASED, Reason.ADDRESS_CHANGED})
"""Results of leases that were handed back before a request was sent."""
HOST_FAILURES = frozenset({
    Reason.TIMEOUT, Reason.CONNECTION_REFUSED, Reason.CONNECTION_RESET, Reason.NO_ROUTE, Reason.TLS_FAILED,
})  # fmt: skip
"""Failures that speak of the host: its back-off doubles."""
SLOW_DOWN = frozenset({429, 503})
WITHHELD = frozenset({State.SUPPRESSED, State.BLOCKED, State.GONE})
"""States of URLs that nothing is given out for."""
SOCKETS = frozenset({FetchKind.PAGE, FetchKind.ROBOTS, FetchKind.PROBE})
"""Kinds of attempts that open a connection to the host."""


class Rules(NamedTuple):
    """The settings in force that the checks need; the defaults are those of DESIGN §6 and seed 000."""

    seq: int = 0
    token: str = "frontlog"
    scope_mode: str = "host"
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    depth_max: int = 16
    pages_per_host_max: int = 0
    gap_ms_min: int = 1_000
    gap_factor: float = 10.0
    backoff_ms_min: int = 1_000
    backoff_ms_max: int = 3_600_000
    crawl_delay_ms_max: int = 3_600_000
    host_failures_max: int = 10
    host_pause_ms: int = 86_400_000
    retry_after_ms_max: int = 86_400_000
    profile: str = "conservative"
    index_depth_max: int = 2
    signal_urls: int = 1_000
    pages_per_site_max: int = 0
    pages_per_link: int = 100
    traps: Limits = Limits()
    files_per_host_max: int = 10_000
    learning: str = "apply"
    confidence_min: float = 0.95


def rules_of(text: str, seq: int) -> Rules:
    """The rules of a logged settings document; a setting that it does not name has its default."""
    said: dict[str, Any] = msgspec.json.decode(text)
    scope, polite = said.get("scope", {}), said.get("politeness", {})
    changes: dict[str, Any] = {name: polite[name] for name in Rules._fields if name in polite}
    for name in ("depth_max", "pages_per_host_max", "pages_per_site_max", "pages_per_link"):
        if name in scope:
            changes[name] = scope[name]
    for name in ("include", "exclude"):
        changes[name] = tuple(scope.get(name, ()))
    if "mode" in scope:
        changes["scope_mode"] = scope["mode"]
    if "token" in said.get("identity", {}):
        changes["token"] = said["identity"]["token"]
    for name in ("index_depth_max", "files_per_host_max"):
        if name in said.get("sitemaps", {}):
            changes[name] = said["sitemaps"][name]
    if "profile" in said.get("canonical", {}):
        changes["profile"] = said["canonical"]["profile"]
    if "signal_urls" in said.get("canonical", {}):
        changes["signal_urls"] = said["canonical"]["signal_urls"]
    learning = said.get("learning", {})
    changes["learning"] = learning.get("mode", "apply")
    changes["confidence_min"] = learning.get("confidence_min", 0.95)
    changes["traps"] = Limits(**said.get("traps", {}))
    return Rules(seq=seq)._replace(**changes)
