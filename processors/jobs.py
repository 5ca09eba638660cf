"""Long work in bounded steps: what a new policy version means for URLs that are already decided (DESIGN §1, §7).

A job is a row of `marks`, `job:` ‖ kind ‖ `:` ‖ scope, whose value is the key at which it goes on. It is started,
moved and ended by `CursorMoved` decisions only. Waiting URLs need no job, since the claim judges them again; a job
looks at BLOCKED ones, which may come back, and at FETCHED ones, which may have to be taken back.
"""

from collections.abc import Iterator
from itertools import islice

from msgspec.structs import replace

from frontlog.avro.enums import HostEvent, Reason, RuleAct, RuleName, ScopeKind, State
from frontlog.avro.events import CursorMoved, Event
from frontlog.processors import merges, outputs, policy, politeness, traps, url_counts, url_rules, urls
from frontlog.processors.context import Cause, Context, Decided
from frontlog.processors.sites import site_of
from frontlog.state import keys
from frontlog.state.rows import OriginRow, UrlRow
from frontlog.state.tables import Tables

PREFIX = b"job:"
ROWS_A_STEP = 500
START = b"\0"
CANONICAL = (RuleName.CANONICAL.value,)
STAYS_BLOCKED = frozenset({Reason.BLOCKED_NETWORK})
"""Reasons that no policy takes back: its host's address is refused."""


def start(view: Tables, ctx: Context, kind: ScopeKind, scope: str) -> list[Event]:
    """The decision that starts a job over a scope, if there is anything for it to look at."""
    if kind is ScopeKind.ORIGIN:
        origin = view.origins.get(keys.origin_id(scope))
        host = view.hosts.get(keys.origin_id(scope)[: keys.HOST_ID_BYTES])
        if origin is None or not (_concerned(origin) or (host is not None and host.parked)):
            return []
    return [_moved(ctx, f"{kind.value}:{scope}", START)]


def _moved(ctx: Context, name: str, position: bytes) -> CursorMoved:
    return CursorMoved(seq=ctx.next_seq(), owner_token=ctx.owner_token, name=name, position=position)


def apply(tables: Tables, event: CursorMoved) -> None:
    """Fold a job's start, step or end."""
    key = PREFIX + event.name.encode()
    if event.position:
        tables.marks.put(key, event.position)
    else:
        tables.marks.delete(key)


def pending(view: Tables) -> list[tuple[str, bytes]]:
    """(name, position) of every job under way."""
    return [
        (key[len(PREFIX) :].decode(), value) for key, value in view.marks.scan(PREFIX, keys.after(PREFIX))
    ]


def step_all(view: Tables, ctx: Context) -> Iterator[Decided]:
    """One bounded step of every job."""
    for name, position in pending(view):
        ctx.cause = Cause("timer", ctx.partition, -1)
        kind, _, scope = name.partition(":")
        yield from _step(view, ctx, name, ScopeKind.named(kind), scope, position)


def _step(
    view: Tables, ctx: Context, name: str, kind: ScopeKind, scope: str, position: bytes
) -> Iterator[Decided]:
    """Look at the next origins of the scope until enough rows were seen, then note where to go on."""
    looked = 0
    first, stop = _bounds(kind, scope)
    at = max(first, position)
    for origin_id, origin in list(islice(view.origins.scan(at[: keys.ORIGIN_ID_BYTES], stop), ROWS_A_STEP)):
        looked += 1
        last = origin_id
        if _covers(kind, scope, origin):
            yield from _unpark(view, ctx, origin_id, origin)
            for key, row in _rows(view, origin_id, origin, at, ROWS_A_STEP - looked):
                looked += 1
                last = key
                decided = _judge(view, ctx, origin, row)
                if decided is not None:
                    yield decided
        if looked >= ROWS_A_STEP:
            yield Decided(decisions=[_moved(ctx, name, last + b"\0")])
            return
    yield Decided(decisions=[_moved(ctx, name, b"")])


def _bounds(kind: ScopeKind, scope: str) -> tuple[bytes, bytes | None]:
    """The part of the key space that a scope lies in."""
    if kind is ScopeKind.ORIGIN:
        prefix = keys.origin_id(scope)
    elif kind is ScopeKind.HOST:
        prefix = keys.host_id(scope)
    else:
        return b"", None
    return prefix, keys.after(prefix)


def _covers(kind: ScopeKind, scope: str, origin: OriginRow) -> bool:
    """Whether an origin within the bounds of a scope belongs to it."""
    return kind is not ScopeKind.SITE or site_of(keys.split_origin_key(origin.origin_key)[1]) == scope


def _rows(
    view: Tables, origin_id: bytes, origin: OriginRow, at: bytes, rows_max: int
) -> list[tuple[bytes, UrlRow]]:
    """The next URLs of an origin, if a verdict can move any."""
    if not _concerned(origin):
        return []
    return list(islice(view.urls.scan(max(origin_id, at), keys.after(origin_id)), rows_max))


def _unpark(view: Tables, ctx: Context, origin_id: bytes, origin: OriginRow) -> Iterator[Decided]:
    """Give a host that was put off by a pause its turn back. Its gap was over when it was put off."""
    host = view.hosts.get(origin_id[: keys.HOST_ID_BYTES])
    if host is None or not host.parked or policy.paused_by(policy.standing(view, origin.origin_key)):
        return
    clock = replace(politeness.clock_in(view, host), parked=False, next_eligible_ms=ctx.now_ms)
    yield Decided(decisions=[politeness.move(ctx, host, HostEvent.RESUMED, Reason.OPERATOR, clock)])


def _concerned(origin: OriginRow) -> bool:
    counts = url_counts.by_state(origin)
    return bool(counts[State.BLOCKED] or counts[State.FETCHED])


def _canonical_refused(view: Tables, origin: OriginRow) -> bool:
    """Whether pages of an origin that named another one as canonical are to come apart again."""
    rule = view.url_rules.get(url_rules.key_of(keys.origin_id(origin.origin_key), RuleName.CANONICAL, ""))
    return rule is not None and rule.act in (RuleAct.REFUSED, RuleAct.WITHDRAWN)


def _is_trap(view: Tables, ctx: Context, at: policy.Standing, row: UrlRow) -> bool:
    """Whether a URL that was never fetched is a trap by the rules in force."""
    rules = policy.settings_of(view).traps
    kind = row.source_kind
    return (
        not row.fence and traps.judge(view, rules, at.host, at.origin, row.url, kind, ctx.now_ms) is not None
    )


def _judge(view: Tables, ctx: Context, origin: OriginRow, row: UrlRow) -> Decided | None:
    """Bring a blocked URL back, or take a fetched one back, under the policy version in force."""
    if row.state not in (State.BLOCKED, State.FETCHED):
        return None
    at = policy.standing(view, origin.origin_key)
    # A seed widens the scope without a new version of the policy, and links from other sites a budget.
    widened = row.state is State.BLOCKED and row.reason in (Reason.OUT_OF_SCOPE, Reason.SITE_BUDGET)
    if row.reason in STAYS_BLOCKED or (row.policy_version == at.version and not widened):
        return None
    if row.merged[1:] == CANONICAL and not _canonical_refused(view, origin):
        return None
    verdict = policy.judge_row(view, at, row)
    if row.state is State.BLOCKED and verdict.allowed:
        if policy.budget_spent(view, at, row) or _is_trap(view, ctx, at, row):
            return None
        reason = Reason.READMITTED if row.reason in traps.REASONS else Reason.POLICY_ALLOWS
        event = urls.build(
            ctx, row, origin.origin_key, State.ELIGIBLE, reason, policy_version=verdict.version
        )
        return Decided(decisions=[event])
    if row.state is State.FETCHED and not verdict.allowed:
        event = urls.build(
            ctx,
            row,
            origin.origin_key,
            State.BLOCKED,
            verdict.reason,
            detail=verdict.detail,
            policy_version=verdict.version,
            merged=verdict.merge,
        )
        out = outputs.removed(
            view, ctx, origin.origin_key, row, verdict.reason, verdict.detail, verdict.version
        )
        limit = policy.settings_of(view).canonical.signal_urls
        signals = merges.raised(view, ctx, limit, origin.origin_key, verdict.merge)
        return Decided(
            decisions=[event, *signals], outputs=out, emissions=merges.target(ctx, row, verdict.merge)
        )
    return None
