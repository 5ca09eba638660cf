"""Checks of policy: each request is covered by an allowing verdict of the policy version in force (DESIGN §7).

A second implementation: versions, operators' acts, scope and robots are worked out again from the events alone, robots
by `robots_reference.py`. It imports no machine.

Not verified: that what was refused had to be refused, but for robots.txt; and the judgement of addresses, since the
networks that a crawl may go to are no part of its log.
"""

import re
from functools import lru_cache

from frontlog.avro.enums import FetchKind, HostEvent, Reason, RobotsState, SourceKind, State
from frontlog.avro.events import Discovery, HostTransition, RobotsPolicy, Transition
from frontlog.replay.book import Host, Origin, Url
from frontlog.replay.ledger import Decision
from frontlog.replay.robots_reference import allowed, crawl_delay_ms
from frontlog.replay.routing import host_of
from frontlog.replay.rules import Rules
from frontlog.replay.watch import Watch

_JUDGED = frozenset({
    Reason.ADMITTED, Reason.CLAIMED, Reason.POLICY_ALLOWS, Reason.ROBOTS_DENIED, Reason.OPERATOR_BLOCK, Reason.OUT_OF_SCOPE,
    Reason.MERGED, Reason.READMITTED,
    Reason.HOST_BUDGET, Reason.SITE_BUDGET,
})  # fmt: skip
"""Reasons of moves that a verdict of the policy stands behind."""
_SEEDS = frozenset({SourceKind.SEED, SourceKind.OPERATOR})


def claim_of(event: Transition) -> bool:
    """Whether a move is a claim that leads to a request."""
    return event.from_state is State.ELIGIBLE and event.to_state is State.LEASED and event.clock is not None


class Versions(Watch):
    """The policy version of verdicts."""

    name = "versions"
    doc = "every verdict was made under the policy version in force: the newest of crawl, site, host, origin and robots"

    def moved(self, decision: Decision, event: Transition) -> None:
        if event.reason not in _JUDGED:
            return
        self.examined += 1
        version = self.book.version(event.origin_key)
        if event.policy_version != version:
            what = f"{event.to_state} for {event.reason} under version {event.policy_version}; {version} was in force"
            self.fault(decision, f"{what} ({event.url})")


class Operators(Watch):
    """Operators' acts."""

    name = "operators"
    doc = "nothing is claimed that an operator's block or pause covers, robots.txt included"

    def moved(self, decision: Decision, event: Transition) -> None:
        if claim_of(event):
            host = self.book.host(host_of(event.origin_key))
            self._claimed(decision, host, self.book.origin(event.origin_key), event.url)

    def host_moved(self, decision: Decision, event: HostTransition) -> None:
        errand = event.clock.errand
        if event.event is not HostEvent.ERRAND_LEASED or errand is None:
            return
        host = self.book.host(event.host)
        # A robots hop for another origin: what holds for that one is checked where it is asked for.
        own = host_of(errand.origin_key) == event.host
        origin = self.book.origin(errand.origin_key) if own else Origin()
        self._claimed(decision, host, origin, errand.url, look_up=errand.kind is FetchKind.RESOLVE)

    def _claimed(
        self, decision: Decision, host: Host, origin: Origin, url: str, *, look_up: bool = False
    ) -> None:
        self.examined += 1
        book = self.book
        scopes = {"the crawl": book.crawl, "its site": host.site, "its host": host, "its origin": origin}
        paused = [name for name, standing in scopes.items() if standing.paused]
        # A look-up is no request to the host.
        blocked = [] if look_up else [name for name, standing in scopes.items() if standing.blocked]
        paused += ["the partition"] if book.partition_paused else []
        if blocked:
            self.fault(decision, f"{url} was claimed while {blocked[0]} was blocked")
        if paused:
            self.fault(decision, f"{url} was claimed while {paused[0]} was paused")


class Scope(Watch):
    """What belongs to the crawl."""

    name = "scope"
    doc = "each page that is claimed lies in the scope of the seeds, the patterns and the depth"

    def moved(self, decision: Decision, event: Transition) -> None:
        if event.first is not None and event.first.scope is not None and not self._seeded(event):
            self.fault(decision, f"{event.url} widens the scope, but was found as {event.first.source_kind}")
        if not claim_of(event):
            return
        self.examined += 1
        url = self.book.urls.get(event.url)
        why = _outside(self.book.rules, event, url) if url is not None else "not known"
        if why:
            self.fault(decision, f"{event.url} was claimed out of scope: {why}")

    def _seeded(self, event: Transition) -> bool:
        """Whether a URL may widen the scope: a seed, or what a seed was moved to."""
        cause = self.scene.inputs.get((event.cause_topic, event.cause_offset))
        if cause is None:
            return True  # that it has none is for another check to say
        found = cause.event
        if not isinstance(found, Discovery):
            return False
        return found.source_kind in _SEEDS or (found.source_kind is SourceKind.REDIRECT and found.depth == 0)


@lru_cache(maxsize=4_096)
def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(text)


def _outside(rules: Rules, event: Transition, url: Url) -> str:
    """Why a URL does not belong to the crawl; empty: it does."""
    host, identity = url.host, event.url
    excluded = next((text for text in rules.exclude if _pattern(text).search(identity)), None)
    if url.sitemap:  # it may lie anywhere, and is no page
        return f"excluded by {excluded}" if excluded is not None else ""
    if event.depth > rules.depth_max:
        return f"depth {event.depth}"
    covered = {
        "any": True,
        "site": host.site.seeded,
        "host": bool(host.seeds),
        "prefix": any(identity.startswith(seed) for seed in host.seeds),
    }
    if not covered[rules.scope_mode]:
        return f"no seed covers it (mode {rules.scope_mode})"
    if excluded is not None:
        return f"excluded by {excluded}"
    if rules.include and not any(_pattern(text).search(identity) for text in rules.include):
        return "no include pattern matches"
    return ""


class Robots(Watch):
    """robots.txt."""

    name = "robots"
    doc = "each page that is claimed is allowed by a robots.txt that is in force; what it denies was denied by it"

    def moved(self, decision: Decision, event: Transition) -> None:
        if not claim_of(event) and event.reason is not Reason.ROBOTS_DENIED:
            return
        origin = self.book.origin(event.origin_key)
        requested = self._requested(event)
        self.examined += 1
        verdict = not origin.text_seq or allowed(origin.text, self.book.rules.token, requested)
        if event.reason is Reason.ROBOTS_DENIED:
            if verdict:
                self.fault(
                    decision, f"{requested} was denied, but the robots.txt of seq {origin.text_seq} allows it"
                )
            return
        if not verdict:
            self.fault(
                decision, f"{requested} was claimed, which the robots.txt of seq {origin.text_seq} disallows"
            )
        unknown = self._unknown(origin)
        if unknown:
            self.fault(
                decision, f"{event.url} was claimed while the robots.txt of {event.origin_key} was {unknown}"
            )

    def _requested(self, event: Transition) -> str:
        """The spelling that was judged."""
        url = self.book.urls.get(event.url)
        return (url.requested if url is not None else "") or event.url

    def _unknown(self, origin: Origin) -> str:
        """Why a robots.txt says nothing for now; empty: it does."""
        now_ms = self.scene.at_ms
        if origin.robots is RobotsState.UNKNOWN:
            return "not known"
        if origin.robots is RobotsState.UNREACHABLE:
            return "" if origin.copy_until_ms > now_ms else "unreachable"
        return "" if origin.expires_ms > now_ms else "out of date"

    def robots(self, decision: Decision, event: RobotsPolicy) -> None:
        """The Crawl-delay that a policy states is that of its text."""
        if event.renewal or event.state is not RobotsState.RULES:
            return
        self.examined += 1
        stated = crawl_delay_ms(event.text, self.book.rules.token)
        if event.crawl_delay_ms != stated:
            what = f"Crawl-delay {event.crawl_delay_ms} ms of {event.origin_key}; its text says {stated} ms"
            self.fault(decision, what)


CHECKS: tuple[type[Watch], ...] = (Versions, Operators, Scope, Robots)
