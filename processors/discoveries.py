"""Discoveries: what becomes of a link (DESIGN §5, §8; seed 000, chapters 2 and 3).

Each target gets its identity under the rules of its origin. A known identity changes nothing, so a repeat changes
nothing; only a seed, a sitemap or an operator brings a parked URL back. A new one becomes DISCOVERED with its facts,
and at once ELIGIBLE or BLOCKED under the policy version in force. First-seen is decided here and nowhere else, by the
key in `urls`. A target of another partition is forwarded, never dropped.
"""

from collections.abc import Iterator

from frontlog.avro.enums import Reason, SourceKind, State, Topic
from frontlog.avro.events import Discovery, FirstSeen
from frontlog.processors import canonical, policy, scope, url_rules, urls
from frontlog.processors.context import Context, Decided, Emission
from frontlog.processors.rejects import reject
from frontlog.processors.sites import partition_of, site_of
from frontlog.state import keys
from frontlog.state.rows import UrlRow
from frontlog.state.tables import Tables

ASKED = {SourceKind.SEED: Reason.SEED, SourceKind.OPERATOR: Reason.OPERATOR, SourceKind.SITEMAP: Reason.SITEMAP}
NOFOLLOW = frozenset({"nofollow", "ugc", "sponsored"})
PRIORITY_MAX = 4


def decide(view: Tables, event: Discovery, ctx: Context) -> Iterator[Decided]:
    """Decide every link of a discovery, one by one, so that each sees what the one before it did."""
    settings = policy.settings_of(view)
    rules = url_rules.PROFILES[settings.canonical.profile]
    seen = set[str]()
    strangers: dict[str, list[int]] = {}
    for i, url in enumerate(event.urls):
        found = canonical.canonicalize(url, rules)
        if isinstance(found, canonical.Refused):
            yield reject(ctx, event.origin_key, found.reason, url[:2_048])
            continue
        if found.identity in seen:
            continue
        seen.add(found.identity)
        if found.origin_key != event.origin_key:
            strangers.setdefault(found.origin_key, []).append(i)
            continue
        decided = _one(view, ctx, event, i, found)
        if decided is not None:
            yield decided
    for origin_key, indexes in strangers.items():
        yield _forward(ctx, event, origin_key, indexes)


def misrouted(event: Discovery, ctx: Context) -> Decided | None:
    """The whole discovery for its right partition, if it came to a wrong one."""
    host = keys.split_origin_key(event.origin_key)[1]
    partition = partition_of(site_of(host), ctx.partitions)
    if partition == ctx.partition:
        return None
    return Decided(emissions=[Emission(partition, Topic.DISCOVERIES, event.origin_key, event)])


def _forward(ctx: Context, event: Discovery, origin_key: str, indexes: list[int]) -> Decided:
    """Links whose identity has another origin than their spelling."""
    part = Discovery(
        event_id=f"{event.event_id}+{origin_key}", origin_key=origin_key, source_kind=event.source_kind,
        source_url=event.source_url, at_ms=event.at_ms, depth=event.depth, priority=event.priority, chain=event.chain,
        part=event.part, parts=event.parts,
        urls=tuple(canonical_requested(event.urls[i]) for i in indexes), raws=tuple(event.raws[i] or event.urls[i] for i in indexes),
        anchors=tuple(event.anchors[i] for i in indexes), rels=tuple(event.rels[i] for i in indexes),
    )  # fmt: skip
    partition = partition_of(site_of(keys.split_origin_key(origin_key)[1]), ctx.partitions)
    return Decided(emissions=[Emission(partition, Topic.DISCOVERIES, origin_key, part)])


def canonical_requested(url: str) -> str:
    """The identity of a spelling whose origin changes with it, as what is to be requested."""
    found = canonical.canonicalize(url)
    return found.identity if isinstance(found, canonical.Identity) else url


def _one(view: Tables, ctx: Context, event: Discovery, i: int, found: canonical.Identity) -> Decided | None:
    key = keys.url_key(keys.origin_id(event.origin_key), found.identity)
    row = view.urls.get(key)
    if row is not None:
        return _known(view, ctx, event, row)
    rules = policy.settings_of(view).scope
    kind = event.source_kind
    widened = scope.seed_scope(rules, found.identity, kind, event.depth)
    requested = "" if found.requested == found.identity else found.requested
    raw = event.raws[i] or event.urls[i]
    first = FirstSeen(
        raw="" if raw == found.requested else raw,
        requested=requested,
        source_kind=kind,
        source_url=event.source_url,
        anchor=event.anchors[i],
        nofollow=bool(NOFOLLOW & set(event.rels[i].split())),
        chain=event.chain,
        scope=widened,
    )
    at = policy.standing(view, event.origin_key)
    verdict = policy.judge(view, at, found.identity, found.requested, event.depth, widened=widened)
    new = UrlRow(
        url=found.identity, state=State.NONE, reason=Reason.ADMITTED, source_kind=kind, depth=event.depth,
        priority=_priority(event, first), policy_version=verdict.version,
    )  # fmt: skip
    discovered = urls.build(ctx, new, event.origin_key, State.DISCOVERED, urls.SOURCE_REASON[kind], first=first)
    to = State.ELIGIBLE if verdict.allowed else State.BLOCKED
    reason = Reason.ADMITTED if verdict.allowed else verdict.reason
    admitted = urls.build(
        ctx, new, event.origin_key, to, reason, start=State.DISCOVERED,
        detail="" if verdict.allowed else verdict.detail, due_ms=ctx.now_ms if verdict.allowed else 0,
    )  # fmt: skip
    return Decided(decisions=[discovered, admitted])


def _priority(event: Discovery, first: FirstSeen) -> int:
    """The class of a new URL: what its source suggests; nofollow lowers it by one."""
    return min(event.priority + first.nofollow, PRIORITY_MAX)


def _known(view: Tables, ctx: Context, event: Discovery, row: UrlRow) -> Decided | None:
    """A URL that is known: only an explicit wish brings a parked one back; nothing else changes anything."""
    reason = ASKED.get(event.source_kind)
    if reason is None or row.state not in (State.QUARANTINED, State.FAILED, State.GONE):
        return None
    moved = urls.build(ctx, row, event.origin_key, State.ELIGIBLE, reason, attempts=0, failures=0)
    return Decided(decisions=[moved])
