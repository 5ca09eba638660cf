"""robots.txt as policy: what an answer makes of an origin (RFC 9309 §2.3; DESIGN §7).

A robots.txt is an errand on the slot of the host that is asked. A redirect makes the next hop an errand of the host
it points to, through that host's own address, clock and slot, in whatever partition it is; the answer counts for the
asking origin only. A file that didn't change renews the policy and keeps its version. An origin whose robots.txt is
unreachable is disallowed for now, or lives on its last good copy for a bounded time.
"""

from msgspec.structs import replace

from frontlog.avro.enums import FetchKind, HostEvent, Reason, RobotsState, ScopeKind, Topic
from frontlog.avro.events import Errand, ErrandRequest, Event, FetchResult, HostClock, RobotsPolicy
from frontlog.processors import hosts, jobs, policy, politeness, robots_http, robots_txt
from frontlog.processors.context import Context, Decided, Emission
from frontlog.processors.rejects import reject
from frontlog.processors.robots_http import RobotsAccess
from frontlog.processors.sites import partition_of, site_of, split_origin
from frontlog.state import keys
from frontlog.state.rows import HostRow, OriginRow
from frontlog.state.tables import Tables

HOP_WAIT_MS = 600_000
"""How long an origin waits for the answer of another host before it counts as unreachable."""
ANSWER_ONLY = 0
"""Fence of a result that another partition passed on: it moves no host's clock."""


def decide(view: Tables, result: FetchResult, ctx: Context) -> Decided:
    """Decide the result of a robots errand, or an answer that another partition passed on."""
    if result.fence == ANSWER_ONLY:
        return _answer(view, ctx, result)
    row = view.hosts.get(keys.host_id(result.host))
    clock = hosts.clock_of(row) if row else None
    if row is None or clock is None or clock.errand is None or clock.errand.fence != result.fence:
        return reject(
            ctx,
            result.origin_key,
            Reason.STALE_FENCE,
            f"robots errand of {result.host}, fence {result.fence}",
        )
    rules = policy.settings_of(view).politeness
    after = politeness.ended(politeness.with_address(view, clock), rules, result, ctx.now_ms)
    ended = politeness.move(
        ctx, row, HostEvent.ERRAND_ENDED, result.reason, after, detail=result.detail, errand=clock.errand
    )
    decided = Decided(decisions=[ended])
    if result.reason in politeness.NO_REQUEST:
        return decided  # nothing was learned: the next claim leases it again
    return _merge(decided, _answer_or_hop(view, ctx, result))


def _merge(first: Decided, second: Decided) -> Decided:
    first.decisions += second.decisions
    first.outputs += second.outputs
    first.emissions += second.emissions
    return first


def _answer_or_hop(view: Tables, ctx: Context, result: FetchResult) -> Decided:
    outcome = _outcome(result)
    if outcome.kind is not RobotsAccess.FOLLOW:
        return _answer(view, ctx, result)
    target = split_origin(outcome.location)
    errand = Errand(
        kind=FetchKind.ROBOTS, url=outcome.location, origin_key=result.origin_key, asker=result.asker,
        chain=(*result.chain, result.requested), fence=0, deadline_ms=0, owner="",
    )  # fmt: skip
    decided = Decided()
    if result.asker == ctx.partition:
        decided.decisions.append(_pending(view, ctx, result))
    partition = partition_of(site_of(target[1]), ctx.partitions)
    if partition == ctx.partition:
        decided.decisions.append(want(view, ctx, target[1], errand))
        return decided
    request = ErrandRequest(
        event_id=f"hop {len(errand.chain)} {result.event_id}", kind=errand.kind, url=errand.url, origin_key=errand.origin_key,
        asker=errand.asker, chain=errand.chain, at_ms=ctx.now_ms,
    )  # fmt: skip
    decided.emissions.append(Emission(partition, Topic.DISCOVERIES, target[0], request))
    return decided


def want(view: Tables, ctx: Context, host: str, errand: Errand) -> Event:
    """Queue an errand at a host of this partition."""
    row = view.hosts.get(keys.host_id(host)) or HostRow(host=host)
    return politeness.move(
        ctx,
        row,
        HostEvent.ERRAND_WANTED,
        Reason.REDIRECT,
        hosts.clock_of(row),
        detail=errand.url,
        errand=errand,
    )


def decide_request(view: Tables, request: ErrandRequest, ctx: Context) -> Decided:
    """Another partition needs a robots hop of one of our hosts."""
    errand = Errand(
        kind=request.kind, url=request.url, origin_key=request.origin_key, asker=request.asker, chain=request.chain,
        fence=0, deadline_ms=0, owner="",
    )  # fmt: skip
    return Decided(decisions=[want(view, ctx, split_origin(request.url)[1], errand)])


def unreachable_host(view: Tables, ctx: Context, row: HostRow, clock: HostClock, wanted: Errand) -> Decided:
    """A hop's host has no address that may be asked: the hop is over, and the asking origin is disallowed for now."""
    result = FetchResult(
        event_id=f"hop refused {ctx.partition} {ctx.seq}", kind=FetchKind.ROBOTS, origin_key=wanted.origin_key, host=row.host,
        url=wanted.url, requested=wanted.url, asker=wanted.asker, started_ms=ctx.now_ms, ended_ms=ctx.now_ms,
        reason=clock.address_reason, detail=f"hop to {row.host}", chain=wanted.chain, fence=ANSWER_ONLY,
    )  # fmt: skip
    ended = politeness.move(ctx, row, HostEvent.ERRAND_ENDED, clock.address_reason, clock, errand=wanted)
    return _merge(Decided(decisions=[ended]), _answer(view, ctx, result))


def _outcome(result: FetchResult) -> robots_http.RobotsOutcome:
    error = None if result.reason is Reason.OK else result.reason.value
    return robots_http.outcome(
        result.status or None,
        error,
        result.robots_txt,
        result.content_type,
        len(result.chain),
        location=result.location,
    )


def _answer(view: Tables, ctx: Context, result: FetchResult) -> Decided:
    """The end of an origin's robots fetch; passed on when another partition asked."""
    if result.asker != ctx.partition:
        passed = replace(result, fence=ANSWER_ONLY)
        return Decided(emissions=[Emission(result.asker, Topic.FETCH_RESULTS, result.origin_key, passed)])
    origin = view.origins.get(keys.origin_id(result.origin_key)) or OriginRow(origin_key=result.origin_key)
    event = _policy(view, ctx, result, origin)
    decided = Decided(decisions=[event])
    if not event.renewal:
        decided.decisions += jobs.start(view, ctx, ScopeKind.ORIGIN, result.origin_key)
    return decided


def _policy(view: Tables, ctx: Context, result: FetchResult, origin: OriginRow) -> RobotsPolicy:
    settings = policy.settings_of(view)
    outcome = _outcome(result)
    base = RobotsPolicy(
        seq=ctx.next_seq(), owner_token=ctx.owner_token, origin_key=result.origin_key, state=RobotsState.UNREACHABLE,
        reason=result.reason, detail=result.detail, cause_topic=ctx.cause.topic, cause_partition=ctx.cause.partition,
        cause_offset=ctx.cause.offset, status=result.status, source_url=result.requested, fetched_ms=result.started_ms,
    )  # fmt: skip
    if outcome.kind is RobotsAccess.UNREACHABLE:
        return _unreachable(base, origin, settings.robots.copy_ms_max, ctx.now_ms)
    lifetime = robots_http.lifetime_ms(result.cache_control, settings.robots.cache_ms_max)
    fresh = replace(base, expires_ms=result.started_ms + lifetime, failures=0)
    if outcome.kind is RobotsAccess.UNAVAILABLE:
        same = origin.robots_state is RobotsState.ALLOW_ALL
        return replace(fresh, state=RobotsState.ALLOW_ALL, renewal=same)
    parsed = robots_txt.parse(result.robots_txt)
    delay = parsed.group(settings.identity.token).crawl_delay_ms or 0
    known = view.policies.get(policy.policy_key(ScopeKind.ORIGIN, result.origin_key, origin.robots_text_seq))
    same = origin.robots_state is RobotsState.RULES and known is not None and known.text == result.robots_txt
    text = b"" if same else result.robots_txt
    return replace(fresh, state=RobotsState.RULES, renewal=same, text=text, crawl_delay_ms=delay)


def _unreachable(base: RobotsPolicy, origin: OriginRow, copy_ms: int, now_ms: int) -> RobotsPolicy:
    """Disallow for now; the last good copy lives on for `copy_ms` from the first failure."""
    failures = origin.robots_failures + 1
    again = origin.robots_state is RobotsState.UNREACHABLE
    had_copy = origin.robots_state in (RobotsState.RULES, RobotsState.ALLOW_ALL)
    copy_until = origin.robots_copy_until_ms if again else now_ms + copy_ms if had_copy else 0
    expires = now_ms + robots_http.retry_gap_ms(failures)
    return replace(base, expires_ms=expires, copy_until_ms=copy_until, failures=failures, renewal=again)


def _pending(view: Tables, ctx: Context, result: FetchResult) -> RobotsPolicy:
    """The file is on its way through another host: what is in force stays, and the origin waits a bounded time."""
    origin = view.origins.get(keys.origin_id(result.origin_key)) or OriginRow(origin_key=result.origin_key)
    host = view.hosts.get(keys.host_id(split_origin(result.origin_key + "/")[1]))
    return RobotsPolicy(
        seq=ctx.next_seq(), owner_token=ctx.owner_token, origin_key=result.origin_key, state=origin.robots_state, renewal=True,
        reason=Reason.REDIRECTED, detail=result.location, cause_topic=ctx.cause.topic, cause_partition=ctx.cause.partition,
        cause_offset=ctx.cause.offset, status=result.status, source_url=result.requested, fetched_ms=origin.robots_fetched_ms,
        expires_ms=ctx.now_ms + HOP_WAIT_MS, copy_until_ms=origin.robots_copy_until_ms, failures=origin.robots_failures,
        crawl_delay_ms=host.crawl_delay_ms if host else 0,
    )  # fmt: skip
