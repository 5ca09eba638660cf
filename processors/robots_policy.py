"""robots.txt as policy: what an answer makes of an origin (RFC 9309 §2.3; DESIGN §7).

A robots.txt is an errand on the slot of the host that is asked. A redirect makes the next hop an errand of the host
it points to, through that host's own address, clock and slot, in whatever partition it is; the answer counts for the
asking origin only. A file that didn't change renews the policy and keeps its version. An origin whose robots.txt is
unreachable is disallowed for now, or lives on its last good copy for a bounded time.

A hop is wanted until it has its answer: handed back, or lost with its process, it is leased again; when its lease
runs out, or its host may not be asked, the answer is that the file is unreachable.
"""

from collections.abc import Iterator

from msgspec.structs import replace

from frontlog.avro.enums import FetchKind, HostEvent, Reason, RobotsState, ScopeKind, Topic
from frontlog.avro.events import Errand, ErrandRequest, FetchResult, HostClock, HostTransition, RobotsPolicy
from frontlog.processors import canonical, jobs, policy, politeness, robots_http, sitemap_files
from frontlog.processors.context import Context, Decided, Emission
from frontlog.processors.rejects import reject
from frontlog.processors.robots_http import RobotsAccess, RobotsOutcome
from frontlog.processors.sites import partition_of, site_of
from frontlog.state import keys
from frontlog.state.rows import HostRow, OriginRow
from frontlog.state.tables import Tables

HOP_WAIT_MS = 600_000
"""How long an origin waits for the answer of another host before it asks from the start again."""
ANSWER_ONLY = 0
"""Fence of a result that another partition passed on: it moves no host's clock."""
FAILURES_MAX = 1_000
"""Unreachable answers in a row are counted up to here."""


def decide(view: Tables, result: FetchResult, ctx: Context) -> Iterator[Decided]:
    """Decide the result of a robots errand, or an answer that another partition passed on, in steps."""
    if result.fence == ANSWER_ONLY:
        yield from _answer(view, ctx, result)
        return
    row = view.hosts.get(keys.host_id(result.host))
    clock = politeness.clock_in(view, row) if row else None
    errand = clock.errand if clock else None
    if (
        row is None
        or clock is None
        or errand is None
        or errand.fence != result.fence
        or errand.kind is not result.kind
    ):
        yield reject(
            ctx,
            result.origin_key,
            Reason.STALE_FENCE,
            f"robots errand of {result.host}, fence {result.fence}",
        )
        return
    # Whose policy it is and where the chain stands is what the log says of the errand.
    asked = replace(
        result,
        origin_key=errand.origin_key,
        asker=errand.asker,
        chain=errand.chain,
        url=errand.url,
        requested=errand.url,
    )
    rules = policy.settings_of(view).politeness
    over = result.reason not in politeness.NO_REQUEST
    outcome = _outcome(asked)
    after = politeness.ended(clock, rules, result, ctx.now_ms)
    event = HostEvent.ERRAND_ENDED if over else HostEvent.ERRAND_RELEASED
    yield Decided(
        decisions=[
            politeness.move(ctx, row, event, result.reason, after, detail=result.detail, errand=errand)
        ]
    )
    if over and outcome.kind is RobotsAccess.FOLLOW:
        yield from _hop(view, ctx, asked, outcome.location)
    elif over:
        yield from _answer(view, ctx, asked)


def _hop(view: Tables, ctx: Context, result: FetchResult, location: str) -> Iterator[Decided]:
    """Ask the host that a redirect points to."""
    found = canonical.canonicalize(location)
    if isinstance(found, canonical.Refused):
        yield from _answer(view, ctx, replace(result, reason=found.reason, detail=location[:512]))
        return
    errand = Errand(
        kind=FetchKind.ROBOTS, url=found.requested, origin_key=result.origin_key, asker=result.asker,
        chain=(*result.chain, result.requested), fence=0, deadline_ms=0, owner="",
    )  # fmt: skip
    if result.asker == ctx.partition:
        yield from _in_force(view, ctx, _pending(view, ctx, result))
    partition = partition_of(site_of(found.host), ctx.partitions)
    if partition == ctx.partition:
        yield Decided(decisions=[want(view, ctx, found.host, errand)])
        return
    request = ErrandRequest(
        event_id=f"hop {len(errand.chain)} {result.event_id}", kind=errand.kind, url=errand.url,
        origin_key=errand.origin_key,
        asker=errand.asker, chain=errand.chain, at_ms=ctx.now_ms,
    )  # fmt: skip
    yield Decided(emissions=[Emission(partition, Topic.DISCOVERIES, found.origin_key, request)])


def want(view: Tables, ctx: Context, host: str, errand: Errand) -> HostTransition:
    """Queue an errand at a host of this partition. A host that is put off has its gap behind it."""
    row = view.hosts.get(keys.host_id(host)) or HostRow(host=host)
    clock = politeness.clock_in(view, row)
    if clock.parked:
        clock = replace(clock, parked=False, next_eligible_ms=ctx.now_ms)
    return politeness.move(
        ctx, row, HostEvent.ERRAND_WANTED, Reason.REDIRECT, clock, detail=errand.url, errand=errand
    )


def decide_request(view: Tables, request: ErrandRequest, ctx: Context) -> Decided:
    """Another partition needs a robots hop of one of our hosts."""
    found = canonical.canonicalize(request.url)
    if isinstance(found, canonical.Refused):
        return reject(ctx, request.origin_key, found.reason, f"robots hop to {request.url[:512]}")
    errand = Errand(
        kind=request.kind, url=found.requested, origin_key=request.origin_key, asker=request.asker, chain=request.chain,
        fence=0, deadline_ms=0, owner="",
    )  # fmt: skip
    return Decided(decisions=[want(view, ctx, found.host, errand)])


def refuse_hop(
    view: Tables, ctx: Context, row: HostRow, clock: HostClock, wanted: Errand, reason: Reason
) -> Iterator[Decided]:
    """A hop's host may not be asked: the hop is over, and the asking origin is disallowed for now."""
    ended = politeness.move(ctx, row, HostEvent.ERRAND_ENDED, reason, clock, errand=wanted)
    yield Decided(decisions=[ended])
    yield from _answer(view, ctx, _no_answer(ctx, row, wanted, reason, f"hop to {row.host}"))


def expire(view: Tables, ctx: Context, row: HostRow, after: HostClock, errand: Errand) -> Iterator[Decided]:
    """No result came before the deadline: whatever hangs there is no answer."""
    reason = Reason.LEASE_EXPIRED
    yield Decided(
        decisions=[politeness.move(ctx, row, HostEvent.ERRAND_EXPIRED, reason, after, errand=errand)]
    )
    yield from _answer(view, ctx, _no_answer(ctx, row, errand, reason, f"lease of {errand.owner}"))


def _no_answer(ctx: Context, row: HostRow, errand: Errand, reason: Reason, detail: str) -> FetchResult:
    return FetchResult(
        event_id=f"no answer {ctx.partition} {ctx.seq}", kind=FetchKind.ROBOTS, origin_key=errand.origin_key, host=row.host,
        url=errand.url, requested=errand.url, asker=errand.asker, started_ms=ctx.now_ms, ended_ms=ctx.now_ms,
        reason=reason, detail=detail, chain=errand.chain, fence=ANSWER_ONLY,
    )  # fmt: skip


def _outcome(result: FetchResult) -> RobotsOutcome:
    error = None if result.reason is Reason.OK else result.reason.value
    return robots_http.outcome(
        result.status or None, error, result.robots_txt, result.content_type, len(result.chain), url=result.requested,
        location=result.location, visited=result.chain, truncated=result.truncated,
    )  # fmt: skip


def _answer(view: Tables, ctx: Context, result: FetchResult) -> Iterator[Decided]:
    """The end of an origin's robots fetch; passed on when another partition asked."""
    if result.asker != ctx.partition:
        passed = replace(result, fence=ANSWER_ONLY)
        yield Decided(emissions=[Emission(result.asker, Topic.FETCH_RESULTS, result.origin_key, passed)])
        return
    origin = view.origins.get(keys.origin_id(result.origin_key)) or OriginRow(origin_key=result.origin_key)
    if result.fence == ANSWER_ONLY and result.started_ms <= origin.robots_fetched_ms:
        return  # a repeat, or older than what is in force
    event = _policy(view, ctx, result, origin)
    yield from _in_force(view, ctx, event)
    if not event.renewal:
        yield Decided(decisions=jobs.start(view, ctx, ScopeKind.ORIGIN, result.origin_key))
    yield from sitemap_files.wanted(view, ctx, event, result)


def _in_force(view: Tables, ctx: Context, event: RobotsPolicy) -> Iterator[Decided]:
    """Put a policy in force. One that had run out and is believed again may bring a longer Crawl-delay, as a new one may."""
    host = keys.host_id(keys.split_origin_key(event.origin_key)[1])
    before = view.hosts.get(host)
    yield Decided(decisions=[event])
    row = view.hosts.get(host)
    if row is not None and row.crawl_delay_ms > (before.crawl_delay_ms if before else 0):
        yield _rest(view, ctx, row)


def _rest(view: Tables, ctx: Context, row: HostRow) -> Decided:
    """A longer Crawl-delay holds from now on, also when another host told of it."""
    rules = policy.settings_of(view).politeness
    clock = politeness.clock_in(view, row)
    start_ms = ctx.now_ms if clock.parked else clock.next_eligible_ms
    rest_ms = ctx.now_ms + min(row.crawl_delay_ms, rules.crawl_delay_ms_max)
    clock = replace(clock, next_eligible_ms=max(start_ms, rest_ms), parked=False)
    detail = f"Crawl-delay of {row.crawl_delay_ms} ms"
    return Decided(decisions=[politeness.move(ctx, row, HostEvent.PARKED, Reason.OK, clock, detail=detail)])


def _policy(view: Tables, ctx: Context, result: FetchResult, origin: OriginRow) -> RobotsPolicy:
    settings = policy.settings_of(view)
    outcome = _outcome(result)
    base = RobotsPolicy(
        seq=ctx.next_seq(), owner_token=ctx.owner_token, origin_key=result.origin_key, state=RobotsState.UNREACHABLE,
        reason=outcome.reason, detail=result.detail or outcome.detail, cause_topic=ctx.cause.topic,
        cause_partition=ctx.cause.partition, cause_offset=ctx.cause.offset, status=result.status,
        source_url=result.requested, fetched_ms=result.started_ms,
    )  # fmt: skip
    if outcome.kind not in (RobotsAccess.PARSED, RobotsAccess.UNAVAILABLE):
        return _unreachable(base, origin, settings.robots.copy_ms_max, ctx.now_ms)
    lifetime = robots_http.lifetime_ms(result.cache_control, settings.robots.cache_ms_max)
    fresh = replace(base, expires_ms=result.started_ms + lifetime, failures=0)
    if outcome.kind is RobotsAccess.UNAVAILABLE:
        same = origin.robots_state is RobotsState.ALLOW_ALL
        return replace(fresh, state=RobotsState.ALLOW_ALL, renewal=same)
    assert outcome.robots is not None, "what was parsed has rules"
    delay = outcome.robots.group(settings.identity.token).crawl_delay_ms or 0
    known = view.policies.get(policy.policy_key(ScopeKind.ORIGIN, result.origin_key, origin.robots_text_seq))
    same = origin.robots_state is RobotsState.RULES and known is not None and known.text == result.robots_txt
    text = b"" if same else result.robots_txt
    return replace(fresh, state=RobotsState.RULES, renewal=same, text=text, crawl_delay_ms=delay)


def _unreachable(base: RobotsPolicy, origin: OriginRow, copy_ms: int, now_ms: int) -> RobotsPolicy:
    """Disallow for now; the last good copy lives on for `copy_ms` from the first failure."""
    failures = min(origin.robots_failures + 1, FAILURES_MAX)
    again = origin.robots_state is RobotsState.UNREACHABLE
    had_copy = origin.robots_state in (RobotsState.RULES, RobotsState.ALLOW_ALL)
    copy_until = origin.robots_copy_until_ms if again else now_ms + copy_ms if had_copy else 0
    expires = now_ms + robots_http.retry_gap_ms(failures)
    return replace(base, expires_ms=expires, copy_until_ms=copy_until, failures=failures, renewal=again)


def _pending(view: Tables, ctx: Context, result: FetchResult) -> RobotsPolicy:
    """The file is on its way through another host: what is in force stays, and the origin waits a bounded time."""
    origin = view.origins.get(keys.origin_id(result.origin_key)) or OriginRow(origin_key=result.origin_key)
    return RobotsPolicy(
        seq=ctx.next_seq(), owner_token=ctx.owner_token, origin_key=result.origin_key, state=origin.robots_state,
        renewal=True,
        reason=Reason.REDIRECTED, detail=result.location, cause_topic=ctx.cause.topic, cause_partition=ctx.cause.partition,
        cause_offset=ctx.cause.offset, status=result.status, source_url=result.requested,
        fetched_ms=origin.robots_fetched_ms,
        expires_ms=ctx.now_ms + HOP_WAIT_MS, copy_until_ms=origin.robots_copy_until_ms, failures=origin.robots_failures,
        crawl_delay_ms=origin.crawl_delay_ms,
    )  # fmt: skip
