"""What becomes of a URL when an attempt ended (seed 000, chapter 6; DESIGN §5, §6).

A result counts only with the fence of the row; anything else is a reject that changes nothing. The answer's class
says where the URL goes; the host's clock moves in the same decision. Failures of the URL itself quarantine it after
five in a row; 429, 503, outages of DNS and lost owners don't count towards that. Attempts are bounded.
"""

from hashlib import blake2b
from typing import NamedTuple

from msgspec.structs import replace

from frontlog.avro.enums import Reason, State
from frontlog.avro.events import FetchResult, LeaseExtension, Merge, ResultFacts
from frontlog.processors import (
    canonical,
    learning,
    merges,
    merging,
    outputs,
    policy,
    politeness,
    redirects,
    urls,
)
from frontlog.processors.context import Context, Decided, Out
from frontlog.processors.rejects import reject
from frontlog.processors.settings import Attempts, Settings
from frontlog.state import keys
from frontlog.state.rows import UrlRow
from frontlog.state.tables import Tables

R, S = Reason, State
REDIRECTS = frozenset({301, 302, 303, 307, 308})
GONE = frozenset({404, 410})
NOT_OURS = frozenset(
    {R.TOO_MANY_REQUESTS, R.UNAVAILABLE, R.DNS_FAILED, R.WORKER_LOST, R.STORE_FULL, R.NO_ROUTE}
)
"""Reasons that are no failure of the URL itself."""
LIMITS = frozenset({R.OVERSIZE, R.BAD_TYPE, R.HEADER_OVERSIZE, R.PARSER_LIMIT})
DECIDED = frozenset({R.MERGED, R.HOST_BUDGET, R.SITE_BUDGET})
"""Gates that no fetcher stands at."""
ENDS_CHAIN = frozenset({R.TOO_MANY_REDIRECTS, R.REDIRECT_LOOP, R.BAD_LOCATION})


class Outcome(NamedTuple):
    """Where a URL goes and why, before attempts and failures are counted."""

    state: State
    reason: Reason


class Ending(NamedTuple):
    """Where a URL goes, why, and with which counts. `respelled`: the spelling that is requested from now on; `merge`:
    the identity that stands for it."""

    state: State
    reason: Reason
    detail: str
    respelled: str = ""
    attempts: int = 0
    failures: int = 0
    merge: Merge | None = None


def classify(result: FetchResult, row: UrlRow) -> Outcome:
    """The outcome of an attempt by its answer alone."""
    reason = result.reason
    if reason in (R.RELEASED, R.ADDRESS_CHANGED):
        return Outcome(S.ELIGIBLE, reason)
    if reason in urls.GATES - DECIDED:
        return Outcome(S.BLOCKED, reason)
    if reason in LIMITS:
        return Outcome(S.QUARANTINED, reason)
    if reason in ENDS_CHAIN:
        return Outcome(S.FAILED, reason)
    if reason is not R.OK:
        return Outcome(S.DEFERRED, reason if reason in urls.MAY_PASS else R.UNEXPECTED_STATUS)
    return _by_status(result.status, row)


def _by_status(status: int, row: UrlRow) -> Outcome:
    if 200 <= status < 300:
        return Outcome(S.FETCHED, R.OK)
    if status == 304:
        known = bool(row.etag or row.last_modified)
        return Outcome(S.FETCHED, R.NOT_MODIFIED) if known else Outcome(S.DEFERRED, R.UNEXPECTED_STATUS)
    if status in REDIRECTS:
        return Outcome(S.FETCHED, R.REDIRECTED)
    if status in GONE:
        # a page that was there is looked at once more before it is gone; 410 says so itself
        confirmed = status == 410 or not row.last_success_ms or row.last_status in GONE
        return Outcome(S.GONE, R.GONE) if confirmed else Outcome(S.DEFERRED, R.GONE_UNCONFIRMED)
    if status == 429:
        return Outcome(S.DEFERRED, R.TOO_MANY_REQUESTS)
    if status == 503:
        return Outcome(S.DEFERRED, R.UNAVAILABLE)
    if 500 <= status < 600:
        return Outcome(S.DEFERRED, R.SERVER_ERROR)
    if 400 <= status < 500:
        return Outcome(S.FAILED, R.NOT_AVAILABLE)
    return Outcome(S.FAILED, R.UNEXPECTED_STATUS)


def retry_delay_ms(rules: Attempts, url: str, tries: int) -> int:
    """The wait before the next attempt, ms: doubling, spread by a tenth so that neighbours don't come back together.
    The spread is a function of URL and try, so a replay finds the same."""
    spread = int.from_bytes(blake2b(f"{tries} {url}".encode(), digest_size=2).digest(), "big") / 0xFFFF
    delay = min(rules.retry_ms_min << min(max(tries - 1, 0), 20), rules.retry_ms_max)
    return int(delay * (0.9 + 0.2 * spread))


def decide(view: Tables, result: FetchResult, ctx: Context) -> Decided:
    """Decide the result of a page's attempt."""
    key = keys.url_key(keys.origin_id(result.origin_key), result.url)
    row = view.urls.get(key)
    if row is None or row.url != result.url:
        return reject(ctx, result.origin_key, Reason.UNKNOWN_URL, f"{result.url} is not known here")
    if row.state is not S.LEASED or row.fence != result.fence:
        detail = f"{result.url}: fence {result.fence}, the row is {row.state} with fence {row.fence}"
        return reject(ctx, result.origin_key, Reason.STALE_FENCE, detail)
    settings = policy.settings_of(view)
    host = view.hosts.get(key[: keys.HOST_ID_BYTES])
    assert host is not None
    clock = politeness.ended(politeness.clock_in(view, host), settings.politeness, result, ctx.now_ms)
    end = _counted(settings.attempts, _ending(view, settings, result, row), row, result)
    end, version = _under_policy(view, result, row, end)
    end = _same_as_named(view, settings, result, row, end)
    due_ms = _due_ms(settings.attempts, row, end, clock.next_eligible_ms, ctx.now_ms)
    event = urls.build(
        ctx, row, result.origin_key, end.state, end.reason, detail=end.detail, due_ms=due_ms, attempts=end.attempts,
        failures=end.failures, policy_version=version, clock=clock,
        result=replace(facts(result, row), location=end.respelled or result.location), merged=end.merge,
    )  # fmt: skip
    signals = merges.raised(view, ctx, settings.canonical.signal_urls, result.origin_key, end.merge)
    removed = _removed(view, ctx, row, end, result, version)
    learned = learning.of_result(view, ctx, settings, result, row, end.state)
    learned += learning.merged(view, ctx, settings, result.origin_key, row.url, end.merge)
    return Decided(
        decisions=[event, *signals, *learned], outputs=removed,
        emissions=merges.target(ctx, row, end.merge),
    )  # fmt: skip


def _same_as_named(view: Tables, settings: Settings, result: FetchResult, row: UrlRow, end: Ending) -> Ending:
    """A page that names another one as canonical, which was fetched and has the same text, is merged into it."""
    merge = None
    if end.state is S.FETCHED and end.reason is R.OK:
        merge = learning.canonical_merge(view, settings, result, row)
    if merge is None:
        return end
    return end._replace(state=S.BLOCKED, reason=R.MERGED, detail=merge.into, merge=merge)


def _ending(view: Tables, settings: Settings, result: FetchResult, row: UrlRow) -> Ending:
    """The outcome, with a redirect to the same identity seen for what it is."""
    state, reason = classify(result, row)
    end = Ending(state, reason, result.detail)
    if reason is not R.REDIRECTED:
        return end
    if not result.location:
        return end._replace(state=S.FAILED, reason=R.BAD_LOCATION, detail="no Location")
    found = canonical.canonicalize(result.location)
    if isinstance(found, canonical.Refused) or merging.identity_at(view, settings, found).identity != row.url:
        return end
    # The same identity under another spelling is asked for under that, at most five times (DESIGN §5).
    hop = redirects.next_hop(row.requested or row.url, found.requested, row.chain)
    if not hop.target:
        return end._replace(state=S.FAILED, reason=hop.reason, detail=hop.detail)
    return end._replace(state=S.ELIGIBLE, respelled=hop.target)


def _counted(rules: Attempts, end: Ending, row: UrlRow, result: FetchResult) -> Ending:
    """The ending with its counts, and what they make of it when they are full."""
    if end.state is S.FETCHED:
        return end
    tried = end.state is not S.ELIGIBLE or bool(end.respelled)
    own = end.state is S.DEFERRED and end.reason not in NOT_OURS
    end = end._replace(attempts=row.attempts + tried, failures=row.failures + own)
    if end.state is not S.DEFERRED:
        return end
    why = f"{end.reason.value}: {result.detail}"
    if end.failures >= rules.failures_quarantine:
        return end._replace(state=S.QUARANTINED, reason=R.REPEATED_FAILURES, detail=why)
    if end.attempts >= rules.attempts_max:
        return end._replace(state=S.FAILED, reason=R.RETRIES_EXHAUSTED, detail=why)
    return end


def _under_policy(view: Tables, result: FetchResult, row: UrlRow, end: Ending) -> tuple[Ending, int]:
    """A page that came under an older policy version is judged under the one in force: a block or a change of
    robots.txt that overtook it wins. What waits is judged at its claim."""
    at = policy.standing(view, result.origin_key)
    if end.state is not S.FETCHED or at.version == row.policy_version:
        return end, row.policy_version
    verdict = policy.judge_row(view, at, row)
    if not verdict.allowed:
        end = end._replace(state=S.BLOCKED, reason=verdict.reason, detail=verdict.detail, merge=verdict.merge)
    return end, verdict.version


def _due_ms(rules: Attempts, row: UrlRow, end: Ending, host_next_ms: int, now_ms: int) -> int:
    """When a URL that was put off is due: the host's own wait where the host asked for it, else a delay of its own."""
    if end.state is not S.DEFERRED:
        return 0
    if end.reason in politeness.HOST_SLOW_DOWN:
        return host_next_ms
    return now_ms + retry_delay_ms(rules, row.url, max(end.failures, 1))


def facts(result: FetchResult, row: UrlRow) -> ResultFacts:
    """What later decisions need of a result."""
    parse = result.parse
    content_hash = parse.text_sha256 if parse else b""
    return ResultFacts(
        event_id=result.event_id,
        started_ms=result.started_ms,
        status=result.status,
        content_type=result.content_type.partition(";")[0].strip().lower(),
        etag=result.etag,
        last_modified=result.last_modified,
        location=result.location,
        body=result.body,
        body_sha256=result.body_sha256,
        content_hash=content_hash,
        changed=bool(content_hash) and content_hash != row.content_hash,
        links_out=parse.links_out if parse else result.sitemap.urls if result.sitemap else 0,
        sitemap=result.sitemap,
    )


def _removed(
    view: Tables, ctx: Context, row: UrlRow, end: Ending, result: FetchResult, version: int
) -> list[Out]:
    """A page that was given out and is gone, or must not be there any more, is taken back; so is one that may have
    been given out while this result was on its way."""
    if end.state not in (S.GONE, S.BLOCKED) or not (result.parse or outputs.may_be_out(row, row.fence - 1)):
        return []
    answered = replace(row, last_status=result.status)
    return outputs.removed(view, ctx, result.origin_key, answered, end.reason, end.detail, version)


def decide_extension(view: Tables, wish: LeaseExtension, ctx: Context) -> Decided:
    """Give a fetcher more time, once its fence is seen to be the row's; at most one lease length from now."""
    row = view.urls.get(keys.url_key(keys.origin_id(wish.origin_key), wish.url))
    if row is None:
        return reject(ctx, wish.origin_key, Reason.UNKNOWN_URL, f"{wish.url} is not known here")
    if row.state is not S.LEASED or row.fence != wish.fence:
        return reject(
            ctx,
            wish.origin_key,
            Reason.STALE_FENCE,
            f"{wish.url}: fence {wish.fence}, the row's is {row.fence}",
        )
    latest = ctx.now_ms + policy.settings_of(view).attempts.lease_ms
    deadline = min(wish.deadline_ms, latest)
    if deadline <= row.deadline_ms:
        return Decided()
    event = urls.build(
        ctx, row, wish.origin_key, S.LEASED, R.EXTENDED, lease_owner=row.lease_owner, deadline_ms=deadline
    )
    return Decided(decisions=[event])


def expire(view: Tables, ctx: Context, key: bytes, reason: Reason) -> Decided:
    """Give a leased URL back: its lease ran out, or its process is dead. It counts as an attempt, so that a page which
    kills its fetcher is given up in the end; the gap counts from now."""
    row = view.urls.get(key)
    origin = view.origins.get(key[: keys.ORIGIN_ID_BYTES])
    host = view.hosts.get(key[: keys.HOST_ID_BYTES])
    assert row is not None and origin is not None and host is not None
    settings = policy.settings_of(view)
    clock = politeness.lapsed(politeness.clock_in(view, host), settings.politeness, ctx.now_ms)
    state, attempts, detail = S.ELIGIBLE, row.attempts + 1, f"lease of {row.lease_owner}"
    if attempts >= settings.attempts.attempts_max:
        state, reason, detail = S.FAILED, R.RETRIES_EXHAUSTED, f"{reason.value}: {detail}"
    event = urls.build(
        ctx, row, origin.origin_key, state, reason, detail=detail, attempts=attempts, clock=clock
    )
    return Decided(decisions=[event])
