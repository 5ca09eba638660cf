"""Address look-ups as inputs: what a resolver found becomes the host's address until it expires (DESIGN §6).

The look-up was made, and every address judged, where sockets are; here the answer is only believed and dated. A host
whose look-up fails waits for a back-off that doubles; a host with a refused address keeps the refusal until it expires.
"""

from msgspec.structs import replace

from frontlog.avro.enums import HostEvent, Reason
from frontlog.avro.events import FetchResult
from frontlog.processors import hosts, policy, politeness
from frontlog.processors.context import Context, Decided
from frontlog.processors.rejects import reject
from frontlog.state import keys
from frontlog.state.tables import Tables

TTL_MS_MIN, TTL_MS_MAX = 60_000, 86_400_000
REFUSED_MS = 3_600_000
"""How long a refused address is believed before the host is looked up again."""
FAILED_MS = 60_000
"""First wait after a failed look-up; doubles up to the cap of back-offs."""


def decide(view: Tables, result: FetchResult, ctx: Context) -> Decided:
    """Decide the result of a look-up."""
    row = view.hosts.get(keys.host_id(result.host))
    clock = hosts.clock_of(row) if row else None
    if row is None or clock is None or clock.errand is None or clock.errand.fence != result.fence:
        return reject(ctx, result.origin_key, Reason.STALE_FENCE, f"look-up of {result.host}, fence {result.fence}")
    rules = policy.settings_of(view).politeness
    after = politeness.freed_slot(clock)
    if result.reason is Reason.OK:
        ttl = min(max(result.ttl_ms, TTL_MS_MIN), TTL_MS_MAX)
        after = replace(
            after, address=result.address, address_reason=Reason.OK, address_expires_ms=ctx.now_ms + ttl, resolve_failures=0
        )
    elif result.reason is Reason.BLOCKED_NETWORK:
        after = replace(
            after, address="", address_reason=Reason.BLOCKED_NETWORK, address_expires_ms=ctx.now_ms + REFUSED_MS, resolve_failures=0
        )
    elif result.reason in politeness.NO_REQUEST:
        pass  # handed back: nothing was learned
    else:
        failures = clock.resolve_failures + 1
        wait = min(FAILED_MS << min(failures - 1, 10), rules.backoff_ms_max)
        given_up = failures >= rules.resolve_failures_max
        after = replace(
            after, address="", address_reason=Reason.DNS_FAILED, resolve_failures=failures,
            address_expires_ms=ctx.now_ms + (REFUSED_MS if given_up else 0),
            next_eligible_ms=max(after.next_eligible_ms, ctx.now_ms + (0 if given_up else wait)),
        )  # fmt: skip
    event = politeness.move(
        ctx, row, HostEvent.ERRAND_ENDED, result.reason, politeness.with_address(view, after), detail=result.detail,
        errand=clock.errand, addresses=result.addresses,
    )  # fmt: skip
    return Decided(decisions=[event])
