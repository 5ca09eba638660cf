"""What the decisions of a shard say, kept a second time: the state that the checks of `verify` look into.

It is a plain reading of events, decision by decision, with nothing of `apply`: a dict for URLs, one for hosts, origins
and sites. A check is asked before the book takes a decision, so it sees what was in force when it was made.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

from frontlog.avro.enums import (
    FetchKind,
    HostEvent,
    PolicyAct,
    Reason,
    RobotsState,
    RuleAct,
    ScopeKind,
    SourceKind,
    State,
)
from frontlog.avro.events import (
    Event,
    HostTransition,
    OperatorPolicy,
    PartitionPaused,
    RobotsPolicy,
    SiteLinked,
    Transition,
    UrlRule,
)
from frontlog.replay import trap_reference
from frontlog.replay.identity_reference import InForce, in_force
from frontlog.replay.routing import host_of, site_of
from frontlog.replay.rules import Rules, rules_of

PATTERNS_FROM = 1_000
_BEFORE_ANY_FETCH = frozenset({State.DISCOVERED, State.BLOCKED})


class Lease(NamedTuple):
    """A slot that a host has given: to a URL, or to an errand (whose `url` is what is requested)."""

    kind: FetchKind
    url: str
    fence: int
    deadline_ms: int
    address: str
    claimed_ms: int
    origin_key: str
    requested: str


@dataclass(slots=True)
class Standing:
    """What an operator's acts made of a scope."""

    blocked: bool = False
    paused: bool = False
    policy_seq: int = 0


@dataclass(slots=True)
class Site(Standing):
    """A registrable domain."""

    seeded: bool = False
    pages: int = 0
    linked_by: set[str] = field(default_factory=set[str])


@dataclass(slots=True)
class Origin(Standing):
    """An origin and the robots.txt in force. `text_seq` 0: there is no text, all is allowed or nothing known."""

    robots: RobotsState = RobotsState.UNKNOWN
    robots_seq: int = 0
    text: bytes = b""
    text_seq: int = 0
    fetched_ms: int = 0
    expires_ms: int = 0
    copy_until_ms: int = 0
    crawl_delay_ms: int = 0
    applied: dict[tuple[str, str], int] = field(default_factory=dict[tuple[str, str], int])
    """Its own rules of identity that are in force: (rule, value), and the seq of the act."""
    learned: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    """Those of them that no operator applied."""
    known: int = 0
    patterns: dict[str, int] = field(default_factory=dict[str, int])
    """URLs that may be fetched or were, by pattern, once there are PATTERNS_FROM of any kind; all if a limit is smaller."""

    def believed(self, now_ms: int) -> bool:
        """Whether its robots.txt, or the last good copy of it, says anything now."""
        return max(self.expires_ms, self.copy_until_ms) > now_ms


def _is(origin_key: str, instead: tuple[str, int] | None) -> bool:
    return instead is not None and instead[0] == origin_key


@dataclass(slots=True)
class Host(Standing):
    """A host: its origins, what the seeds gave it, its open leases (one at most, when all is well), its address."""

    name: str = ""
    site: Site = field(default_factory=Site)
    origins: dict[str, Origin] = field(default_factory=dict[str, Origin])
    seeds: tuple[str, ...] = ()
    pages: int = 0
    lifted: frozenset[str] = frozenset()
    sitemaps: int = 0
    operator_gap_ms: int = 0
    leases: list[Lease] = field(default_factory=list[Lease])
    fence: int = 0
    address: str = ""
    address_expires_ms: int = 0

    def crawl_delay_ms(self, now_ms: int, instead: tuple[str, int] | None = None) -> int:
        """The longest Crawl-delay among its origins, which share its clock, as long as their robots.txt is believed.
        `instead`: (origin_key, ms) that is about to hold."""
        delays = [
            one.crawl_delay_ms
            for key, one in self.origins.items()
            if one.believed(now_ms) and not _is(key, instead)
        ]
        return max([*delays, instead[1] if instead is not None else 0])

    def lease_of(self, url: str) -> Lease | None:
        """The open lease of a URL."""
        return next((one for one in self.leases if one.kind is FetchKind.PAGE and one.url == url), None)

    def errand(self) -> Lease | None:
        """The open lease of an errand."""
        return next((one for one in self.leases if one.kind is not FetchKind.PAGE), None)


class Url:
    """A URL. `requested` empty: what is requested is the identity. `page`: it brought a page once; `sitemap`: it was named
    as a sitemap."""

    __slots__ = ("deadline_ms", "fence", "host", "page", "requested", "sitemap", "source", "state", "text")

    def __init__(self, host: Host, source: SourceKind) -> None:
        self.host = host
        self.source = source
        self.text = b""
        self.state = State.NONE
        self.fence = 0
        self.deadline_ms = 0
        self.requested = ""
        self.page = False
        self.sitemap = False


class Book:
    """The whole of it, for one shard."""

    def __init__(self) -> None:
        self.rules = Rules()
        self.crawl = Standing()
        self.partition_paused = False
        self.sites: dict[str, Site] = {}
        self.hosts: dict[str, Host] = {}
        self.urls: dict[str, Url] = {}
        self.addresses: dict[str, set[str]] = {}
        """Hosts that have a lease open to an address."""

    # --- looking up -------------------------------------------------------------------------------------------

    def host(self, name: str) -> Host:
        found = self.hosts.get(name)
        if found is None:
            found = self.hosts[name] = Host(name=name, site=self.site(site_of(name)))
        return found

    def site(self, name: str) -> Site:
        found = self.sites.get(name)
        if found is None:
            found = self.sites[name] = Site()
        return found

    def origin(self, origin_key: str) -> Origin:
        origins = self.host(host_of(origin_key)).origins
        found = origins.get(origin_key)
        if found is None:
            found = origins[origin_key] = Origin()
        return found

    def version(self, origin_key: str) -> int:
        """The policy version in force for an origin: the seq of the newest event that can change a verdict."""
        host, origin = self.host(host_of(origin_key)), self.origin(origin_key)
        crawl = max(self.crawl.policy_seq, self.rules.seq)
        return max(crawl, host.site.policy_seq, host.policy_seq, origin.policy_seq, origin.robots_seq)

    def identity_rules(self, origin_key: str) -> InForce:
        """The rules of identity in force at an origin."""
        applied = self.origin(origin_key).applied
        return in_force(self.rules.profile, tuple((seq, *rule) for rule, seq in applied.items()))

    def firm_rules(self, origin_key: str) -> InForce | None:
        """The same without those that were only learned; None: there are none of these."""
        origin = self.origin(origin_key)
        if not origin.learned:
            return None
        firm = tuple((seq, *rule) for rule, seq in origin.applied.items() if rule not in origin.learned)
        return in_force(self.rules.profile, firm)

    # --- writing down -----------------------------------------------------------------------------------------

    def take(self, event: Event, at_ms: int) -> None:
        """Write a decision down. `at_ms`: the time of its batch."""
        if isinstance(event, Transition):
            self._transition(event, at_ms)
        elif isinstance(event, HostTransition):
            self._host(event, at_ms)
        elif isinstance(event, RobotsPolicy):
            self._robots(event)
        elif isinstance(event, OperatorPolicy):
            self._operator(event)
        elif isinstance(event, UrlRule):
            self._url_rule(event)
        elif isinstance(event, SiteLinked):
            self.site(event.site).linked_by.add(event.source_site)
        elif isinstance(event, PartitionPaused):
            self.partition_paused = event.paused

    def _transition(self, event: Transition, at_ms: int) -> None:
        url = self.urls.get(event.url)
        is_new = url is None
        if url is None:
            self.origin(event.origin_key).known += 1
            source = event.first.source_kind if event.first is not None else SourceKind.PAGE
            url = self.urls[event.url] = Url(self.host(host_of(event.origin_key)), source)
        host = url.host
        first = event.first
        if first is not None:
            if is_new:
                url.requested = first.requested
            if first.source_kind is SourceKind.SITEMAP_FILE and not url.sitemap:
                url.sitemap = True
                host.sitemaps += 1
            if first.scope is not None:
                host.seeds = (*host.seeds, first.scope)
                host.site.seeded = True
        if event.clock is not None:
            host.address, host.address_expires_ms = event.clock.address, event.clock.address_expires_ms
        lease = host.lease_of(event.url) if event.from_state is State.LEASED else None
        if lease is not None:
            self._close(host, lease)
            if event.to_state is State.LEASED:  # extended
                self._open(host, lease._replace(deadline_ms=event.deadline_ms))
        elif event.to_state is State.LEASED and event.clock is not None:
            requested = url.requested or event.url
            self._open(
                host,
                Lease(
                    FetchKind.PAGE, event.url, event.fence, event.deadline_ms, event.clock.address, at_ms,
                    event.origin_key, requested,
                ),
            )  # fmt: skip
        if (
            event.result is not None
            and event.to_state is State.ELIGIBLE
            and event.reason is Reason.REDIRECTED
        ):
            url.requested = event.result.location
        if event.result is not None and event.to_state is State.FETCHED and event.reason is Reason.OK:
            url.text = event.result.content_hash
        listing = event.result is not None and event.result.sitemap is not None
        if event.to_state is State.FETCHED and event.reason is Reason.OK and not url.page and not listing:
            url.page = True
            host.pages += 1
            host.site.pages += 1
        if event.to_state is State.ELIGIBLE and not event.fence and event.from_state in _BEFORE_ANY_FETCH:
            self._pattern(event)
        url.state, url.fence, url.deadline_ms = event.to_state, event.fence, event.deadline_ms

    def _pattern(self, event: Transition) -> None:
        origin = self.origin(event.origin_key)
        limits = self.rules.traps.pattern_urls_max, self.rules.traps.query_urls_max
        if origin.known >= PATTERNS_FROM or any(0 < limit < PATTERNS_FROM for limit in limits):
            pattern = trap_reference.pattern(event.url)
            origin.patterns[pattern] = origin.patterns.get(pattern, 0) + 1

    def _host(self, event: HostTransition, at_ms: int) -> None:
        host = self.host(event.host)
        clock, lease = event.clock, host.errand()
        host.address, host.address_expires_ms = clock.address, clock.address_expires_ms
        if event.event is HostEvent.ERRAND_LEASED and clock.errand is not None:
            errand = clock.errand
            address = clock.address if errand.kind is not FetchKind.RESOLVE else ""
            self._open(
                host,
                Lease(
                    errand.kind, errand.url, errand.fence, errand.deadline_ms, address, at_ms, errand.origin_key,
                    errand.url,
                ),
            )  # fmt: skip
            host.fence = errand.fence
        elif event.event in ENDS and lease is not None and clock.errand is None:
            self._close(host, lease)

    def _open(self, host: Host, lease: Lease) -> None:
        host.leases.append(lease)
        if lease.address:
            self.addresses.setdefault(lease.address, set()).add(host.name)

    def _close(self, host: Host, lease: Lease) -> None:
        host.leases.remove(lease)
        if lease.address and not any(one.address == lease.address for one in host.leases):
            self.addresses[lease.address].discard(host.name)

    def _robots(self, event: RobotsPolicy) -> None:
        origin = self.origin(event.origin_key)
        origin.robots, origin.expires_ms = event.state, event.expires_ms
        origin.copy_until_ms, origin.fetched_ms = event.copy_until_ms, event.fetched_ms
        if event.state is not RobotsState.UNREACHABLE:
            origin.crawl_delay_ms = event.crawl_delay_ms
        if event.renewal:
            return
        origin.robots_seq = event.seq
        if event.state is RobotsState.RULES:
            origin.text, origin.text_seq = event.text, event.seq
        elif event.state is not RobotsState.UNREACHABLE:  # which keeps the last good copy
            origin.text, origin.text_seq = b"", 0

    def _url_rule(self, event: UrlRule) -> None:
        if event.act is RuleAct.PROPOSED:
            return
        origin = self.origin(event.origin_key)
        origin.policy_seq = event.seq
        rule = event.rule.value, event.value
        origin.applied.pop(rule, None)
        origin.learned.discard(rule)
        if event.act is RuleAct.APPLIED:
            origin.applied[rule] = event.seq
            if event.learned:
                origin.learned.add(rule)

    def _operator(self, event: OperatorPolicy) -> None:
        kind, act = event.scope_kind, event.act
        if act is PolicyAct.SETTINGS:
            self.rules = rules_of(event.settings, event.seq)
            return
        if act is PolicyAct.SLOW:
            self.host(event.scope).operator_gap_ms = event.gap_ms
            return
        if act is PolicyAct.READMIT:
            host = self.host(event.scope)
            host.lifted, host.policy_seq = frozenset(event.settings.split()), event.seq
            return
        standing: Standing = self.crawl
        if kind is ScopeKind.SITE:
            standing = self.site(event.scope)
        elif kind is ScopeKind.HOST:
            standing = self.host(event.scope)
        elif kind is ScopeKind.ORIGIN:
            standing = self.origin(event.scope)
        if act in (PolicyAct.BLOCK, PolicyAct.UNBLOCK):
            standing.blocked, standing.policy_seq = act is PolicyAct.BLOCK, event.seq
        else:
            standing.paused = act is PolicyAct.PAUSE


ENDS = frozenset({HostEvent.ERRAND_ENDED, HostEvent.ERRAND_EXPIRED, HostEvent.ERRAND_RELEASED})
