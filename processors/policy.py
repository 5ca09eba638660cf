"""Whether a URL may be fetched, under which policy version, and why not (DESIGN §7; seed 000, chapter 13).

A policy version is the seq of the newest event that can change a verdict for an origin: of the crawl, its
site, its host or itself. Every verdict carries it; a URL whose version is older is judged again at its claim.
Order: operator's block, rules of identity, scope, robots. Suppression will stand before them all.
"""

from functools import lru_cache
from typing import NamedTuple

from msgspec.structs import replace

from frontlog.avro.enums import PolicyAct, Reason, RobotsState, ScopeKind, SourceKind
from frontlog.avro.events import Merge, OperatorPolicy, RobotsPolicy
from frontlog.processors import hosts, merging, robots_txt, scope, url_rules
from frontlog.processors.settings import Scope, Settings, decode
from frontlog.processors.sites import site_of
from frontlog.state import keys
from frontlog.state.rows import HostRow, OriginRow, PolicyRow, SiteRow, UrlRow
from frontlog.state.tables import Tables

_ADMITTED = Reason.ADMITTED  # to look a member up in its class takes a tenth of a microsecond


class Verdict(NamedTuple):
    """Whether a URL may be fetched, and why not; the detail names the robots line, pattern or block that decided."""

    allowed: bool
    reason: Reason
    detail: str
    version: int
    merge: Merge | None = None
    """The identity that stands for it, when that is the reason."""


class Ground:
    """What verdicts about the URLs of one origin have in common; worked out for the first of them."""

    __slots__ = ("block", "depth_max", "known", "robots", "robots_known", "rules", "scope")

    def __init__(self) -> None:
        self.known = self.robots_known = False
        self.block = ""
        self.depth_max = -1
        """Where only the depth of a URL is left to judge: the greatest; -1: there is more."""
        self.scope = Scope()
        self.rules = url_rules.CONSERVATIVE
        self.robots: robots_txt.RobotsTxt | None = None


class Standing(NamedTuple):
    """The rows that a verdict about an origin reads."""

    origin_key: str
    origin: OriginRow | None
    host: HostRow | None
    site: SiteRow | None
    version: int
    ground: Ground


@lru_cache(maxsize=64)
def _settings(text: str) -> Settings:
    return decode(text)


def settings_of(view: Tables) -> Settings:
    """The settings in force: those of the log, or the defaults before any were logged."""
    text = view.crawl.settings
    return _settings(text) if text else Settings()


def standing(view: Tables, origin_key: str) -> Standing:
    """What is known about an origin, its host and its site, and the policy version in force."""
    _, name, _ = keys.split_origin_key(origin_key)
    origin = view.origins.get(keys.origin_id(origin_key))
    host = view.hosts.get(keys.host_id(name))
    site = view.sites.get(site_of(name).encode())
    version = max(
        view.crawl.policy_seq,
        site.policy_seq if site else 0,
        host.policy_seq if host else 0,
        max(origin.policy_seq, origin.robots_seq) if origin else 0,
    )
    return Standing(origin_key, origin, host, site, version, Ground())


def blocked_by(view: Tables, at: Standing) -> str:
    """Which operator's block covers an origin; empty: none."""
    if view.crawl.blocked:
        return "the crawl is blocked"
    if at.site is not None and at.site.blocked:
        return "its site is blocked"
    if at.host is not None and at.host.blocked:
        return "its host is blocked"
    if at.origin is not None and at.origin.blocked:
        return "its origin is blocked"
    return ""


def paused_by(at: Standing) -> bool:
    """Whether the origin's site or the origin itself is paused; the host's pause is in its clock."""
    return (at.site is not None and at.site.paused) or (at.origin is not None and at.origin.paused)


def before_robots(
    view: Tables, at: Standing, url: str, depth: int, *, widened: str | None = None, sitemap: bool = False
) -> Verdict:
    """The verdict of everything but robots. `widened`: what the URL itself adds to the scope (a seed). A `sitemap` may
    lie anywhere, and is no page: only exclude patterns hold for it."""
    ground = at.ground
    if not ground.known:
        _survey(view, at)
    if ground.block:
        return Verdict(False, Reason.OPERATOR_BLOCK, ground.block, at.version)
    if 0 <= depth <= ground.depth_max:
        return Verdict(True, _ADMITTED, "", at.version)
    rules = ground.scope
    if sitemap:
        outside = scope.excluded(rules, url)
        return Verdict(not outside, Reason.OUT_OF_SCOPE if outside else _ADMITTED, outside, at.version)
    merge = merging.merge_of(ground.rules, url)
    if merge is not None:
        return Verdict(False, Reason.MERGED, merge.into, at.version, merge)
    host, site = at.host, at.site
    if widened is not None:
        host = replace(host or HostRow(host=""), seeds=(*(host.seeds if host else ()), widened))
        site = replace(site or SiteRow(), seeded=True)
    outside = scope.outside(rules, url, depth, host, site)
    if outside:
        return Verdict(False, Reason.OUT_OF_SCOPE, outside, at.version)
    return Verdict(True, _ADMITTED, "", at.version)


def _survey(view: Tables, at: Standing) -> None:
    """Work out what verdicts about an origin's URLs have in common, robots aside."""
    ground = at.ground
    settings = settings_of(view)
    ground.known = True
    ground.block = blocked_by(view, at)
    ground.scope = settings.scope
    ground.rules = merging.rules_at(settings, at.origin)
    if ground.rules.trivial and scope.whole(settings.scope, at.host, at.site):
        ground.depth_max = settings.scope.depth_max


@lru_cache(maxsize=2_048)
def parsed(text: bytes) -> robots_txt.RobotsTxt:
    """A robots.txt, parsed once."""
    return robots_txt.parse(text)


def robots_verdict(view: Tables, at: Standing, requested: str, token: str) -> Verdict:
    """What the robots.txt in force says; an origin whose file isn't known yet allows nothing to be fetched, but
    that is for the claim to see (`hosts.held_until_ms`): here only rules deny."""
    ground = at.ground
    if not ground.robots_known:
        ground.robots, ground.robots_known = _robots_of(view, at), True
    if ground.robots is None:
        return Verdict(True, _ADMITTED, "", at.version)
    answer = robots_txt.verdict(ground.robots, token, requested)
    if answer.allowed:
        return Verdict(True, _ADMITTED, "", at.version)
    return Verdict(
        False, Reason.ROBOTS_DENIED, f"line {answer.line}: {answer.rule} (group {answer.group})", at.version
    )


def _robots_of(view: Tables, at: Standing) -> robots_txt.RobotsTxt | None:
    """The robots.txt in force; None: it has no rules, or isn't known."""
    origin = at.origin
    if origin is None or not origin.robots_text_seq or origin.robots_state is RobotsState.ALLOW_ALL:
        return None
    row = view.policies.get(policy_key(ScopeKind.ORIGIN, at.origin_key, origin.robots_text_seq))
    return None if row is None else parsed(row.text)


def judge(
    view: Tables,
    at: Standing,
    url: str,
    requested: str,
    depth: int,
    *,
    widened: str | None = None,
    sitemap: bool = False,
) -> Verdict:
    """The whole verdict for the policy version in force."""
    first = before_robots(view, at, url, depth, widened=widened, sitemap=sitemap)
    if not first.allowed:
        return first
    return robots_verdict(view, at, requested, settings_of(view).identity.token)


def judge_row(view: Tables, at: Standing, row: UrlRow, *, widened: str | None = None) -> Verdict:
    """The whole verdict for a known URL."""
    sitemap = row.source_kind is SourceKind.SITEMAP_FILE
    return judge(view, at, row.url, row.requested or row.url, row.depth, widened=widened, sitemap=sitemap)


def over_budget(view: Tables, at: Standing, row: UrlRow) -> Verdict | None:
    """Why a page more of the host or site would be too many; None: it would not. One that was counted may be fetched
    again. A site's budget grows with links from other sites (`inlinks.py`)."""
    rules = settings_of(view).scope
    if row.brought_page or not (rules.pages_per_host_max or rules.pages_per_site_max):
        return None
    limit = rules.pages_per_host_max
    if limit and at.host is not None and at.host.pages >= limit:
        detail = f"{at.host.pages} pages of its host (scope.pages_per_host_max)"
        return Verdict(False, Reason.HOST_BUDGET, detail, at.version)
    if rules.pages_per_site_max and at.site is not None:
        budget = rules.pages_per_site_max + at.site.linked * rules.pages_per_link
        if at.site.pages >= budget:
            detail = f"{at.site.pages} pages of its site, to which {at.site.linked} others link"
            return Verdict(False, Reason.SITE_BUDGET, detail, at.version)
    return None


def budget_spent(view: Tables, at: Standing, row: UrlRow) -> bool:
    """Whether a page more of the host or site would be too many."""
    return over_budget(view, at, row) is not None


def policy_key(kind: ScopeKind, name: str, seq: int) -> bytes:
    """Key in `policies`."""
    return f"{kind.value}:{name}".encode() + b"\0" + seq.to_bytes(8, "big")


def apply_operator(tables: Tables, event: OperatorPolicy) -> None:
    """Fold an operator's or the configuration's policy."""
    row = PolicyRow(
        act=event.act,
        at_ms=tables.head.at_ms,
        gap_ms=event.gap_ms,
        settings=event.settings,
        actor=event.actor,
        note=event.note,
    )
    tables.policies.put(policy_key(event.scope_kind, event.scope, event.seq), row)
    if event.scope_kind in (ScopeKind.CRAWL, ScopeKind.PARTITION):
        # One flag for both: what was said last about all of the partition holds.
        _apply_crawl(tables, event)
    elif event.scope_kind is ScopeKind.SITE:
        key = event.scope.encode()
        site = tables.sites.get(key) or SiteRow()
        tables.sites.put(key, replace(site, **_flags(event)))
    elif event.scope_kind is ScopeKind.HOST:
        host = hosts.ensure(tables, event.scope)
        changes = _host_changes(event)
        tables.hosts.put(keys.host_id(event.scope), replace(host, **changes))
        tables.touched.add(keys.host_id(event.scope))
    else:
        assert event.scope_kind is ScopeKind.ORIGIN
        origin_id = keys.origin_id(event.scope)
        _, name, _ = keys.split_origin_key(event.scope)
        origin = tables.origins.get(origin_id)
        if origin is None:
            origin = OriginRow(origin_key=event.scope)
            hosts.add_origin(tables, name, origin_id)
        tables.origins.put(origin_id, replace(origin, **_flags(event)))
        tables.touched.add(keys.host_id(name))


def _flags(event: OperatorPolicy) -> dict[str, object]:
    """The fields that an act changes in the row of its scope. Pauses and gaps change no verdict, so no version."""
    if event.act is PolicyAct.BLOCK:
        return {"blocked": True, "policy_seq": event.seq}
    if event.act is PolicyAct.UNBLOCK:
        return {"blocked": False, "policy_seq": event.seq}
    return {"paused": event.act is PolicyAct.PAUSE}


def _host_changes(event: OperatorPolicy) -> dict[str, object]:
    if event.act is PolicyAct.SLOW:
        return {"operator_gap_ms": event.gap_ms}
    if event.act is PolicyAct.READMIT:
        return {"lifted": tuple(event.settings.split()), "policy_seq": event.seq}
    return _flags(event)


def _apply_crawl(tables: Tables, event: OperatorPolicy) -> None:
    crawl = tables.crawl
    if event.act is PolicyAct.SETTINGS:
        crawl = replace(crawl, settings=event.settings, settings_seq=event.seq, policy_seq=event.seq)
    elif event.act in (PolicyAct.BLOCK, PolicyAct.UNBLOCK):
        crawl = replace(crawl, blocked=event.act is PolicyAct.BLOCK, policy_seq=event.seq)
    else:
        crawl = replace(crawl, crawl_paused=event.act is PolicyAct.PAUSE)
    tables.put_crawl(crawl)


def apply_robots(tables: Tables, event: RobotsPolicy) -> None:
    """Fold a robots policy or its renewal."""
    origin_id = keys.origin_id(event.origin_key)
    _, name, _ = keys.split_origin_key(event.origin_key)
    origin = tables.origins.get(origin_id)
    if origin is None:
        origin = OriginRow(origin_key=event.origin_key)
        hosts.add_origin(tables, name, origin_id)
    new = replace(
        origin,
        robots_state=event.state,
        robots_status=event.status,
        robots_failures=event.failures,
        robots_fetched_ms=event.fetched_ms,
        robots_expires_ms=event.expires_ms,
        robots_copy_until_ms=event.copy_until_ms,
    )
    if event.state is not RobotsState.UNREACHABLE:  # which says nothing about the file: the last delay stays
        new = replace(new, crawl_delay_ms=event.crawl_delay_ms)
    if not event.renewal:
        new = replace(new, robots_seq=event.seq)
        if event.state is not RobotsState.UNREACHABLE:
            new = replace(new, robots_text_seq=event.seq if event.state is RobotsState.RULES else 0)
            tables.policies.put(
                policy_key(ScopeKind.ORIGIN, event.origin_key, event.seq),
                PolicyRow(
                    act=PolicyAct.SETTINGS, robots_state=event.state, at_ms=event.fetched_ms, expires_ms=event.expires_ms,
                    status=event.status, crawl_delay_ms=event.crawl_delay_ms, text=event.text, source_url=event.source_url,
                ),
            )  # fmt: skip
    tables.origins.put(origin_id, new)
    host_id = keys.host_id(name)
    host = hosts.ensure(tables, name)
    delay = crawl_delay_ms(tables, host)
    if host.crawl_delay_ms != delay:
        tables.hosts.put(host_id, replace(host, crawl_delay_ms=delay))
    tables.touched.add(host_id)


def crawl_delay_ms(view: Tables, host: HostRow) -> int:
    """The Crawl-delay that a host goes by, ms: the longest among its origins, since they share its clock. What an
    origin said counts as long as its robots.txt is believed."""
    longest = 0
    for origin_id in hosts.origins_of(keys.host_id(host.host), host):
        origin = view.origins.get(origin_id)
        if (
            origin is not None
            and max(origin.robots_expires_ms, origin.robots_copy_until_ms) > view.head.at_ms
        ):
            longest = max(longest, origin.crawl_delay_ms)
    return longest
