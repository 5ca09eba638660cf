"""Address look-ups as inputs: what a resolver found becomes the host's address until it expires (DESIGN §6).

The look-up was made, and every address judged, where sockets are; here the answer is only believed and dated. A host
whose look-up fails waits for a back-off that doubles; a host with a refused address keeps the refusal until it expires.
"""

from msgspec.structs import replace

from frontlog.avro.enums import HostEvent, Reason
from frontlog.avro.events import FetchResult, HostClock
from frontlog.processors import hosts, policy, politeness
from frontlog.processors.context import Context, Decided
from frontlog.processors.rejects import reject
from frontlog.processors.settings import Politeness
from frontlog.state import keys
from frontlog.state.tables import Tables

TTL_MS_MIN, TTL_MS_MAX = 60_000, 86_400_000
REFUSED_MS = 3_600_000
"""How long a refused address is believed before the host is looked up again."""
FAILED_MS = 60_000
"""First wait after a failed look-up; doubles up to the cap of back-offs."""
HANDED_BACK_MS = 1_000
"""Wait after a look-up that was handed back undone: the resolver had no place for it."""
FAILURES_MAX = 1_000
"""Failed look-ups in a row are counted up to here."""


def decide(view: Tables, result: FetchResult, ctx: Context) -> Decided:
    """Decide the result of a look-up."""
    row = view.hosts.get(keys.host_id(result.host))
    clock = hosts.clock_of(row) if row else None
    errand = clock.errand if clock else None
    if (
        row is None
        or clock is None
        or errand is None
        or errand.fence != result.fence
        or errand.kind is not result.kind
    ):
        return reject(
            ctx, result.origin_key, Reason.STALE_FENCE, f"look-up of {result.host}, fence {result.fence}"
        )
    after = _looked_up(politeness.freed_slot(clock), result, policy.settings_of(view).politeness, ctx.now_ms)
    event = politeness.move(
        ctx, row, HostEvent.ERRAND_ENDED, result.reason, politeness.with_address(view, after), detail=result.detail,
        errand=errand, addresses=result.addresses,
    )  # fmt: skip
    return Decided(decisions=[event])


def _looked_up(clock: HostClock, result: FetchResult, rules: Politeness, now_ms: int) -> HostClock:
    if result.reason in politeness.NO_REQUEST:  # nothing was learned
        return replace(clock, next_eligible_ms=max(clock.next_eligible_ms, now_ms + HANDED_BACK_MS))
    if result.reason is Reason.BLOCKED_NETWORK:
        refused = replace(clock, address="", address_reason=Reason.BLOCKED_NETWORK, resolve_failures=0)
        return replace(refused, address_expires_ms=now_ms + REFUSED_MS)
    if result.reason is not Reason.OK or not result.address:
        return failed(clock, rules, now_ms)
    ttl_ms = min(max(result.ttl_ms, TTL_MS_MIN), TTL_MS_MAX)
    found = replace(clock, address=result.address, address_reason=Reason.OK, resolve_failures=0)
    return replace(found, address_expires_ms=now_ms + ttl_ms)


def failed(clock: HostClock, rules: Politeness, now_ms: int) -> HostClock:
    """The host has no address, or the look-up hung. After so many in a row that is believed for a while; before, the
    host waits and is looked up again."""
    failures = min(clock.resolve_failures + 1, FAILURES_MAX)
    given_up = failures >= rules.resolve_failures_max
    wait_ms = 0 if given_up else min(FAILED_MS << min(failures - 1, 10), rules.backoff_ms_max)
    return replace(
        clock,
        address="",
        address_reason=Reason.DNS_FAILED,
        resolve_failures=failures,
        address_expires_ms=now_ms + (REFUSED_MS if given_up else 0),
        next_eligible_ms=max(clock.next_eligible_ms, now_ms + wait_ms),
    )
