"""Sitemaps and feeds in the frontier: which are asked for, who may list what, and what a date changes.

A sitemap is a URL like any other: it has a row, waits for its host's turn, and passes every gate but one. The scope of
the seeds doesn't hold for it, since a robots.txt may name a file on any host; operators' blocks, exclude patterns,
robots.txt, addresses and politeness do.

    robots.txt `Sitemap:` ──▶ discovery (sitemap_file) ──▶ claim, lease that says so ──▶ fetched, parsed
    /sitemap.xml (a setting) ─┘          ▲                                                   │
                                         └── children of an index ◀─────────────────────────┤
                           pages ◀────── discoveries (sitemap, feed), numbered, bounded ◀────┘

`via` says how a file was reached: the sitemaps on the way, as they were named, outermost first. Its length is the depth
of indexes, which is bounded; and it answers who may speak for whom.

| listed by | a page or child of the same site | of another site |
|---|---|---|
| sitemap, index | yes | if the robots.txt of its origin names one of `via` (sitemaps.org, "Cross Submits") |
| feed | yes | as a link on a page would be: scope decides, and it brings nothing back |

A date (`lastmod`, `pubDate` ...) moves a new URL one class up when it lies in the last week, and one down when it is
older than a year. A page that was fetched and says that it changed since is due at once. What was named as a sitemap
before is read again when it says that it changed, or after a day if it says nothing.
"""

from collections.abc import Iterator
from functools import lru_cache

from msgspec.structs import replace

from frontlog.avro.codec import encode
from frontlog.avro.enums import Reason, RobotsState, ScopeKind, SourceKind, State, Topic
from frontlog.avro.events import Discovery, FetchResult, FirstSeen, ResultFacts, RobotsPolicy, Transition
from frontlog.processors import canonical, hosts, policy
from frontlog.processors.context import Context, Decided, Emission
from frontlog.processors.inputs import LINKS_MAX
from frontlog.processors.rejects import reject
from frontlog.processors.robots_http import absolute
from frontlog.processors.sites import partition_of, site_of, split_origin
from frontlog.state import keys
from frontlog.state.rows import SitemapRow, UrlRow
from frontlog.state.tables import Tables

NAMED_MAX = 1_000
"""Sitemaps of one robots.txt that are asked for."""
DAY_MS = 86_400_000
FRESH_MS, STALE_MS = 7 * DAY_MS, 365 * DAY_MS
AGAIN_MS = DAY_MS
"""What is named again without a date is read again after this."""
CLASS_MAX = 4
FILE_PRIORITY = 1
LISTED = frozenset({SourceKind.SITEMAP, SourceKind.FEED})
BOUND = frozenset({SourceKind.SITEMAP, SourceKind.SITEMAP_FILE})
"""What a sitemap lists: only of its own site, or where a robots.txt says so."""
PARKED = frozenset({State.GONE, State.FAILED, State.QUARANTINED})
MOVABLE = PARKED | {State.ELIGIBLE, State.DEFERRED, State.FETCHED}
"""States in which a URL that turns out to be a sitemap is asked for again, as one."""
STAYS_BLOCKED = frozenset({Reason.MERGED, Reason.BLOCKED_NETWORK})
"""Reasons that being named as a sitemap does not take back: another identity stands for the URL, or its host's address is
refused."""


def is_file(row: UrlRow) -> bool:
    """Whether a URL was named as a sitemap."""
    return row.source_kind is SourceKind.SITEMAP_FILE


def never_a_page(view: Tables, origin_key: str, row: UrlRow) -> bool:
    """Whether a URL was never asked for but as a sitemap, so that nothing of it can have been given out."""
    if not is_file(row):
        return False
    known = view.sitemaps.get(keys.url_key(keys.origin_id(origin_key), row.url))
    return known is not None and not known.was_page


# --- which are asked for -------------------------------------------------------------------------------------------


def wanted(view: Tables, ctx: Context, event: RobotsPolicy, result: FetchResult) -> Iterator[Decided]:
    """Discoveries of the sitemaps that an origin's robots.txt names, or of the usual place. Those that are known stay as
    they are, so a renewal repeats them for nothing."""
    rules = policy.settings_of(view).sitemaps
    if event.state not in (RobotsState.RULES, RobotsState.ALLOW_ALL):
        return
    names: tuple[str, ...] = ()
    if event.state is RobotsState.RULES:
        names = policy.parsed(result.robots_txt).sitemaps
    if names and rules.robots != "follow":
        return
    if not names and rules.well_known == "ask":
        names = ("/sitemap.xml",)
    files: dict[str, dict[str, str]] = {}
    for raw in names[:NAMED_MAX]:
        url = absolute(raw, _root(event.origin_key))
        found = canonical.canonicalize(url)
        if isinstance(found, canonical.Identity):
            files.setdefault(found.origin_key, {}).setdefault(found.identity, raw if raw != url else "")
    for origin_key, urls in files.items():
        for part in range(0, len(urls), LINKS_MAX):
            some = dict(list(urls.items())[part : part + LINKS_MAX])
            yield Decided(emissions=[_discovery(ctx, result, origin_key, some, part, len(urls))])


def _root(origin_key: str) -> str:
    scheme, host, port = keys.split_origin_key(origin_key)
    return f"{scheme}://{host}:{port}/"


def _discovery(
    ctx: Context, result: FetchResult, origin_key: str, urls: dict[str, str], start: int, count: int
) -> Emission:
    event = Discovery(
        event_id=f"sitemaps {result.event_id}/{origin_key}/{start // LINKS_MAX}", origin_key=origin_key,
        source_kind=SourceKind.SITEMAP_FILE, source_url=result.requested, at_ms=ctx.now_ms, depth=0, priority=FILE_PRIORITY,
        part=start // LINKS_MAX, parts=-(-count // LINKS_MAX), urls=tuple(urls), raws=tuple(urls.values()),
        anchors=("",) * len(urls), rels=("",) * len(urls),
    )  # fmt: skip
    partition = partition_of(site_of(keys.split_origin_key(origin_key)[1]), ctx.partitions)
    return Emission(partition, Topic.DISCOVERIES, origin_key, event)


# --- who may list what ---------------------------------------------------------------------------------------------


def refused(view: Tables, ctx: Context, event: Discovery, at: policy.Standing) -> Decided | None:
    """The refusal of a discovery that its sitemap may not make; None: it may."""
    if event.source_kind not in BOUND:
        return None
    beyond = _beyond(view, event, at) if event.source_kind is SourceKind.SITEMAP_FILE else ""
    if beyond:
        return reject(ctx, event.origin_key, Reason.OUT_OF_SCOPE, beyond, encode(event))
    if not event.via:
        return None
    if _same_site(event.source_url, event.origin_key) or _named(view, at, event.via):
        return None
    detail = (
        f"{len(event.urls)} URLs that {event.source_url} lists, {event.urls[0] if event.urls else ''} first"
    )
    return reject(ctx, event.origin_key, Reason.CROSS_SITE, detail, encode(event))


def _beyond(view: Tables, event: Discovery, at: policy.Standing) -> str:
    """Which bound keeps files from being asked for; empty: none. An event is taken whole or not at all, so a host may
    have as many more as one event holds."""
    rules = policy.settings_of(view).sitemaps
    if len(event.via) > rules.index_depth_max:
        return (
            f"sitemaps.index_depth_max is {rules.index_depth_max}: {event.source_url} lies in as many indexes"
        )
    if at.host is not None and at.host.sitemaps >= rules.files_per_host_max:
        return f"sitemaps.files_per_host_max is reached: {at.host.sitemaps} of {at.host.host} are known"
    return ""


def _same_site(url: str, origin_key: str) -> bool:
    try:
        host = split_origin(url)[1]
    except ValueError:
        return False
    return site_of(host) == site_of(keys.split_origin_key(origin_key)[1])


def _named(view: Tables, at: policy.Standing, via: tuple[str, ...]) -> bool:
    """Whether the robots.txt of an origin names one of some sitemaps."""
    origin = at.origin
    if origin is None or origin.robots_state is not RobotsState.RULES or not origin.robots_text_seq:
        return False
    row = view.policies.get(policy.policy_key(ScopeKind.ORIGIN, at.origin_key, origin.robots_text_seq))
    return row is not None and not _identities(row.text, _root(at.origin_key)).isdisjoint(via)


@lru_cache(maxsize=64)
def _identities(text: bytes, root: str) -> frozenset[str]:
    """Identities of the sitemaps that a robots.txt names; a relative one is the asking origin's own."""
    urls = (absolute(raw, root) for raw in policy.parsed(text).sitemaps[:NAMED_MAX])
    found = (canonical.canonicalize(url) for url in urls)
    return frozenset(one.identity for one in found if isinstance(one, canonical.Identity))


# --- what a date changes -------------------------------------------------------------------------------------------


def lastmod_of(event: Discovery, i: int) -> int:
    """When a link says that it last changed; 0: it says nothing."""
    return event.lastmods[i] if event.lastmods else 0


def priority(event: Discovery, lastmod_ms: int, now_ms: int) -> int:
    """The class of a new URL that a sitemap or feed lists."""
    age_ms = now_ms - lastmod_ms
    if not lastmod_ms or FRESH_MS < age_ms <= STALE_MS:
        return event.priority
    return max(event.priority - 1, 0) if age_ms <= FRESH_MS else min(event.priority + 1, CLASS_MAX)


def comes_back(event: Discovery, row: UrlRow, lastmod_ms: int, now_ms: int) -> Reason | None:
    """Why a known URL that is listed or named again is asked for again; None: it isn't."""
    newer = row.last_success_ms < lastmod_ms <= now_ms + DAY_MS
    if event.source_kind in LISTED:
        ours = event.source_kind is SourceKind.SITEMAP or _same_site(event.source_url, event.origin_key)
        return Reason.SITEMAP if newer and ours and row.state is State.FETCHED else None
    if event.source_kind is not SourceKind.SITEMAP_FILE:
        return None
    if not is_file(row):  # known as a page until now
        if row.state is State.BLOCKED and row.reason not in STAYS_BLOCKED:
            return Reason.POLICY_ALLOWS  # if it does; the scope that kept a page out is nothing to a sitemap
        return Reason.SITEMAP if row.state in MOVABLE else None
    over = now_ms - max(row.last_attempt_ms, row.last_success_ms) >= AGAIN_MS
    if row.state is State.FETCHED:
        return Reason.SITEMAP if (newer if lastmod_ms else over) else None
    return Reason.SITEMAP if over and row.state in PARKED else None


# --- folding -------------------------------------------------------------------------------------------------------


def noted(row: UrlRow, first: FirstSeen) -> UrlRow:
    """The row of a known URL with what a sitemap said of it."""
    if first.source_kind is SourceKind.SITEMAP_FILE and not is_file(row):
        row = replace(row, source_kind=SourceKind.SITEMAP_FILE, source_url=first.source_url)
    return replace(row, lastmod_ms=first.changed_at_ms) if first.changed_at_ms else row


def apply_first(tables: Tables, key: bytes, event: Transition, first: FirstSeen) -> None:
    """Fold that a URL is named as a sitemap."""
    if first.source_kind is SourceKind.SITEMAP_FILE:
        before = tables.sitemaps.get(key)
        if before is None:
            hosts.count_sitemap(tables, key[: keys.HOST_ID_BYTES])
            before = SitemapRow(url=event.url, was_page=event.fence > 0)
        tables.sitemaps.put(key, replace(before, via=first.via))


def apply_result(tables: Tables, key: bytes, event: Transition, result: ResultFacts) -> None:
    """Fold what a sitemap held when it was read."""
    tables.sitemaps.put(key, _read(tables.sitemaps.get(key) or SitemapRow(url=event.url), result))


def _read(row: SitemapRow, result: ResultFacts) -> SitemapRow:
    said = result.sitemap
    assert said is not None
    return replace(
        row, kind=said.kind, read_ms=result.started_ms, urls=said.urls, children=said.children, faults=said.faults,
        cut=said.cut, fault=said.errors[0] if said.errors else "",
    )  # fmt: skip
