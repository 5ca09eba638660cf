"""Discoveries: what becomes of a link (DESIGN §5, §8; seed 000, chapters 2 and 3).

Each target is kept under the identity that the standards give it; where the rules of its origin lead to another, it is
merged into that (`merges.py`), which is then decided like any link. A known URL changes nothing, so a repeat changes
nothing; only a seed, a sitemap or an operator brings a parked URL back (what a sitemap's dates change, and what it may
list, is in `sitemap_files.py`), and a seed one that was out of scope: it widens the scope, and a job looks at what was
refused of its host before. A new one becomes known as DISCOVERED and, with the same decision, ELIGIBLE or BLOCKED under
the policy version in force. First-seen is decided here and nowhere else, by the key in `urls`. A target of another
partition is forwarded, never dropped.
"""

from collections.abc import Iterator

from msgspec.structs import replace

from frontlog.avro.enums import Reason, ScopeKind, SourceKind, State, Topic
from frontlog.avro.events import Discovery, Event, FirstSeen
from frontlog.processors import (
    canonical,
    inlinks,
    jobs,
    merges,
    merging,
    policy,
    politeness,
    repeats,
    scope,
    sitemap_files,
    tallies,
    traps,
    urls,
)
from frontlog.processors.context import Context, Decided, Emission
from frontlog.processors.rejects import reject
from frontlog.processors.settings import Scope, Settings
from frontlog.processors.sites import partition_of, site_of, split_origin
from frontlog.processors.url_rules import OriginRules
from frontlog.state import keys
from frontlog.state.rows import URL_BEGINNING_BYTES, UrlRow
from frontlog.state.tables import Tables

ASKED = {
    SourceKind.SEED: Reason.SEED,
    SourceKind.OPERATOR: Reason.OPERATOR,
    SourceKind.SITEMAP: Reason.SITEMAP,
}
"""Sources that bring a parked URL back."""
WISHES = frozenset({SourceKind.SEED, SourceKind.OPERATOR})
"""Sources that are a person's wish: what was refused is looked at again, the host's address too."""
# To look a member up in its class takes longer than most of what is decided with it.
_ELIGIBLE, _BLOCKED, _ADMITTED, _SITEMAP_FILE = (
    State.ELIGIBLE,
    State.BLOCKED,
    Reason.ADMITTED,
    SourceKind.SITEMAP_FILE,
)
NOFOLLOW = frozenset({"nofollow", "ugc", "sponsored"})
PRIORITY_MAX = 4


def decide(view: Tables, event: Discovery, ctx: Context) -> Iterator[Decided]:
    """Decide every link of a discovery, one by one, so that each sees what the one before it did."""
    settings = policy.settings_of(view)
    origin = keys.origin_id(event.origin_key)
    # An ordinary link of a known URL changes nothing, but where it is a shorter way to one that was too deep; and no
    # ordinary link changes what the next one is judged by.
    ordinary = _is_ordinary(event, settings.scope)
    at = policy.standing(view, event.origin_key)
    refused = sitemap_files.refused(view, ctx, event, at)
    if refused is not None:
        yield refused
        return
    rules = merging.rules_at(settings, at.origin)
    linked = (
        inlinks.decide(view, ctx, settings, event, at)
        if scope.reaches(settings.scope, at.host, at.site)
        else []
    )
    if linked:
        yield Decided(decisions=linked)
        at = policy.standing(view, event.origin_key)
    seen = set[str]()
    strangers: dict[str, list[tuple[int, canonical.Identity]]] = {}
    for i, url, spelled in _unsettled(view, settings, event, origin, at, ordinary=ordinary):
        found = canonical.canonicalize(url)
        if isinstance(found, canonical.Refused):
            yield reject(ctx, event.origin_key, found.reason, url[:2_048])
            continue
        if found.identity in seen:
            continue
        seen.add(found.identity)
        if found.origin_key != event.origin_key:
            strangers.setdefault(found.origin_key, []).append((i, found))
            continue
        target = merging.under(rules, found)
        if target is found:
            key = spelled if found.identity == url else keys.url_key(origin, found.identity)
            decided = _one(view, ctx, settings, event, i, found, key, at)
            if decided is not None:
                yield decided
        elif target.origin_key != event.origin_key:
            strangers.setdefault(target.origin_key, []).append((i, target))
            yield _merged(view, ctx, event, i, found, keys.url_key(origin, found.identity), rules)
        else:
            target_key = keys.url_key(origin, target.identity)
            yield _one(view, ctx, settings, event, i, target, target_key, at) or Decided()
            yield _merged(view, ctx, event, i, found, keys.url_key(origin, found.identity), rules)
        if not ordinary:
            at = policy.standing(view, event.origin_key)
    for origin_key, links in strangers.items():
        yield _forward(ctx, event, origin_key, links)


def _unsettled(
    view: Tables, settings: Settings, event: Discovery, origin: bytes, at: policy.Standing, *, ordinary: bool
) -> Iterator[tuple[int, str, bytes]]:
    """The links that may change something, each with the key of its spelling: most links of most pages are spelled as the
    identity of a URL that is known, and no link changes that."""
    spelled = [view.url_key(origin, url) for url in event.urls]
    if not ordinary:
        yield from zip(range(len(spelled)), event.urls, spelled, strict=True)
        return
    known = view.urls.beginnings(spelled, URL_BEGINNING_BYTES)
    may_be_nearer = scope.reaches(settings.scope, at.host, at.site)
    for i, key in enumerate(spelled):
        begins = known.get(key)
        if begins is None or (may_be_nearer and not repeats.changes_nothing(begins, event.depth)):
            yield i, event.urls[i], key


def _is_ordinary(event: Discovery, rules: Scope) -> bool:
    """Whether no link of a discovery asks for anything."""
    return (
        event.source_kind not in ASKED
        and event.source_kind is not SourceKind.SITEMAP_FILE
        and not event.lastmods
        and scope.seed_scope(rules, "", event.source_kind, event.depth) is None
    )


def _forward(
    ctx: Context, event: Discovery, origin_key: str, links: list[tuple[int, canonical.Identity]]
) -> Decided:
    """Links whose identity has another origin than the discovery."""
    part = Discovery(
        event_id=f"{event.event_id}+{origin_key}", origin_key=origin_key, source_kind=event.source_kind,
        source_url=event.source_url, at_ms=event.at_ms, depth=event.depth, priority=event.priority, chain=event.chain,
        part=event.part, parts=event.parts,
        urls=tuple(_spelling(found) for _, found in links), raws=tuple(event.raws[i] or event.urls[i] for i, _ in links),
        anchors=tuple(event.anchors[i] for i, _ in links), rels=tuple(event.rels[i] for i, _ in links),
        lastmods=tuple(event.lastmods[i] for i, _ in links) if event.lastmods else (), via=event.via,
    )  # fmt: skip
    partition = partition_of(site_of(keys.split_origin_key(origin_key)[1]), ctx.partitions)
    return Decided(emissions=[Emission(partition, Topic.DISCOVERIES, origin_key, part)])


def _spelling(found: canonical.Identity) -> str:
    """What is to be requested of a link's own origin: what was found, or the identity if its origin is another."""
    return found.requested if split_origin(found.requested)[0] == found.origin_key else found.identity


def _one(
    view: Tables,
    ctx: Context,
    settings: Settings,
    event: Discovery,
    i: int,
    found: canonical.Identity,
    key: bytes,
    at: policy.Standing,
) -> Decided | None:
    row = view.urls.get(key)
    scoped = scope.seed_scope(settings.scope, found.identity, event.source_kind, event.depth)
    first = _first(event, i, found, scoped)
    if row is not None:
        asked = _listed_again(view, ctx, event, i, row, at, first)
        if asked is not None:
            return asked
        widens = scoped is not None and not scope.covers(settings.scope, at.host, at.site, scoped)
        return _known(view, ctx, event, row, at, first if widens else None)
    sitemap = event.source_kind is _SITEMAP_FILE
    verdict = policy.judge(
        view, at, found.identity, found.requested, event.depth, widened=scoped, sitemap=sitemap
    )
    trap = None
    if verdict.allowed:
        trap = traps.judge(
            view, settings.traps, at.host, at.origin, found.identity, event.source_kind, ctx.now_ms
        )
        if trap is not None:
            verdict = policy.Verdict(False, trap.reason, trap.detail, at.version)
    priority = _priority(event, first, ctx.now_ms)
    if verdict.allowed:
        detail = " ".join(found.flags) if found.flags else ""
        decided = urls.admit(
            ctx, event.origin_key, found.identity, first, _ELIGIBLE, _ADMITTED, detail=detail,
            policy_version=verdict.version, priority=priority, depth=event.depth, due_ms=ctx.now_ms,
        )  # fmt: skip
    else:
        decided = urls.admit(
            ctx, event.origin_key, found.identity, first, _BLOCKED, verdict.reason, detail=verdict.detail,
            policy_version=verdict.version, priority=priority, depth=event.depth, merged=verdict.merge,
        )  # fmt: skip
    decisions: list[Event] = [decided]
    if trap is not None:
        limit = settings.canonical.signal_urls
        decisions += tallies.signals(view, ctx, limit, event.origin_key, (trap.reason.value,))
    if scoped is not None and not scope.covers(settings.scope, at.host, at.site, scoped):
        decisions += _look_again(view, ctx, settings.scope, at)
    return Decided(decisions=decisions)


def _merged(
    view: Tables,
    ctx: Context,
    event: Discovery,
    i: int,
    found: canonical.Identity,
    key: bytes,
    rules: OriginRules,
) -> Decided:
    """A spelling that its origin's rules merge: it is known from now on, and waits for nothing."""
    merge = merging.merge_of(rules, found.identity)
    if view.urls.get(key) is not None or merge is None:
        return Decided()
    first = _first(event, i, found, None)
    blocked = urls.admit(
        ctx, event.origin_key, found.identity, first, State.BLOCKED, Reason.MERGED, detail=merge.into, merged=merge,
        policy_version=policy.standing(view, event.origin_key).version, priority=_priority(event, first, ctx.now_ms),
        depth=event.depth,
    )  # fmt: skip
    limit = policy.settings_of(view).canonical.signal_urls
    return Decided(decisions=[blocked, *merges.raised(view, ctx, limit, event.origin_key, merge)])


def _first(event: Discovery, i: int, found: canonical.Identity, scoped: str | None) -> FirstSeen:
    """The facts of a link."""
    raw = event.raws[i] or event.urls[i]
    rel = event.rels[i]
    return FirstSeen(
        raw="" if raw == found.requested else raw,
        requested="" if found.requested == found.identity else found.requested,
        source_kind=event.source_kind,
        source_url=event.source_url,
        anchor=event.anchors[i],
        nofollow=bool(rel) and not NOFOLLOW.isdisjoint(rel.split()),
        chain=event.chain,
        scope=scoped,
        changed_at_ms=sitemap_files.lastmod_of(event, i),
        via=event.via if event.source_kind is _SITEMAP_FILE else (),
    )


def _priority(event: Discovery, first: FirstSeen, now_ms: int) -> int:
    """The class of a new URL: what its source and its date suggest; nofollow lowers it by one."""
    return min(sitemap_files.priority(event, first.changed_at_ms, now_ms) + first.nofollow, PRIORITY_MAX)


def _listed_again(
    view: Tables, ctx: Context, event: Discovery, i: int, row: UrlRow, at: policy.Standing, first: FirstSeen
) -> Decided | None:
    """A known URL that a sitemap says has changed, or that is named as a sitemap; None: nothing comes of it here."""
    reason = sitemap_files.comes_back(event, row, first.changed_at_ms, ctx.now_ms)
    if reason is None:
        return None
    judged = (
        replace(row, source_kind=SourceKind.SITEMAP_FILE)
        if first.source_kind is SourceKind.SITEMAP_FILE
        else row
    )
    verdict = policy.judge_row(view, at, judged)
    if not verdict.allowed:
        return None
    back = urls.build(
        ctx, row, event.origin_key, State.ELIGIBLE, reason, policy_version=verdict.version, attempts=0, failures=0,
        due_ms=ctx.now_ms, first=first,
    )  # fmt: skip
    return Decided(decisions=[back])


def _look_again(view: Tables, ctx: Context, rules: Scope, at: policy.Standing) -> list[Event]:
    """The job over what a seed brings into the scope, if anything of it may have been refused before."""
    _, host, _ = keys.split_origin_key(at.origin_key)
    if rules.mode == "site":
        return jobs.start(view, ctx, ScopeKind.SITE, site_of(host)) if at.site is not None else []
    return jobs.start(view, ctx, ScopeKind.HOST, host) if at.host is not None else []


def _known(
    view: Tables, ctx: Context, event: Discovery, row: UrlRow, at: policy.Standing, widening: FirstSeen | None
) -> Decided | None:
    """A URL that is known: only an explicit wish brings it back, or a shorter way to one that was too deep; nothing else
    changes anything."""
    nearer = row.state is State.BLOCKED and row.reason is Reason.OUT_OF_SCOPE and event.depth < row.depth
    if nearer:
        row = replace(row, depth=event.depth)
    reason = _comes_back(event.source_kind, row, nearer or widening is not None)
    if reason is None:
        return None
    version = row.policy_version
    if row.state is State.BLOCKED:
        scoped = widening.scope if widening else None
        verdict = policy.judge_row(view, at, row, widened=scoped)
        if not verdict.allowed or policy.budget_spent(view, at, row):
            return None
        version = verdict.version
    wished = event.source_kind in WISHES
    clock = politeness.looked_up_anew(view, at.host, ctx.now_ms) if wished and at.host is not None else None
    decisions: list[Event] = [
        urls.build(
            ctx, row, event.origin_key, State.ELIGIBLE, reason, policy_version=version, attempts=0, failures=0,
            first=widening, clock=clock,
        )
    ]  # fmt: skip
    if widening is not None:
        decisions += _look_again(view, ctx, policy.settings_of(view).scope, at)
    return Decided(decisions=decisions)


def _comes_back(kind: SourceKind, row: UrlRow, widens: bool) -> Reason | None:
    """Why a known URL becomes eligible again; None: it stays what it is. `widens`: more is in scope than when it was
    decided, so it and its links are to be decided again."""
    if row.state in (State.QUARANTINED, State.FAILED, State.GONE):
        return ASKED.get(kind)
    if row.state is State.BLOCKED:
        wished = (kind in WISHES or widens) and row.reason is not Reason.MERGED
        return Reason.POLICY_ALLOWS if wished else None
    return Reason.RECRAWL_FORCED if widens and row.state in (State.FETCHED, State.DEFERRED) else None
