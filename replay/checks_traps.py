"""Checks of traps and budgets: what was refused as a trap is one, what was admitted is none, budgets are kept.

A second implementation: it imports no machine, reads URLs by `trap_reference.py` and counts patterns in the book.
"""

from frontlog.avro.enums import Reason, SourceKind, State
from frontlog.avro.events import Discovery, Event, SiteLinked, Transition
from frontlog.replay import trap_reference
from frontlog.replay.book import Url
from frontlog.replay.ledger import Decision
from frontlog.replay.routing import host_of, site_of
from frontlog.replay.watch import Watch

_WISHED = frozenset({SourceKind.SEED, SourceKind.OPERATOR, SourceKind.SITEMAP_FILE})
_PREFIX = "trap_"


class Traps(Watch):
    """Traps."""

    name = "traps"
    doc = "each URL that was refused as a trap is one by the rules in force for its host, and none is admitted that is"

    def moved(self, decision: Decision, event: Transition) -> None:
        refused = event.reason.value if event.reason.value.startswith(_PREFIX) else ""
        admitted = event.from_state is State.DISCOVERED and event.to_state is State.ELIGIBLE
        again = event.reason is Reason.READMITTED and event.cause_topic == "timer"
        if not (refused or admitted or again):
            return
        self.examined += 1
        found = self._trap(event)
        if refused and found != refused:
            self.fault(decision, f"{event.url} was refused for {refused}; it is {found or 'no trap'}")
        elif found and not refused:
            self.fault(decision, f"{event.url} was {event.reason}, which is a trap: {found}")

    def _trap(self, event: Transition) -> str:
        """The reason for which a URL is a trap under what is in force; empty: none."""
        url = self.book.urls.get(event.url)
        source = (
            url.source if url is not None else event.first.source_kind if event.first is not None else None
        )
        if source in _WISHED or (url is not None and url.sitemap):
            return ""
        limits = self.book.rules.traps
        found = trap_reference.form(event.url, limits, self.scene.at_ms)
        if not found and source is not SourceKind.SITEMAP:
            limit = limits.query_urls_max if "?" in event.url else limits.pattern_urls_max
            patterns = self.book.origin(event.origin_key).patterns
            if limit and patterns and patterns.get(trap_reference.pattern(event.url), 0) >= limit:
                found = "trap_pattern"
        return "" if found in self.book.host(host_of(event.origin_key)).lifted else found


class Budgets(Watch):
    """Budgets."""

    name = "budgets"
    doc = "no page beyond the budget of its host or site is claimed; a site's grows with each other site that links to it"

    def moved(self, decision: Decision, event: Transition) -> None:
        claimed = (
            event.to_state is State.LEASED and event.from_state is State.ELIGIBLE and event.clock is not None
        )
        refused = event.reason in (Reason.HOST_BUDGET, Reason.SITE_BUDGET)
        url = self.book.urls.get(event.url)
        if url is None or not (claimed or refused):
            return
        self.examined += 1
        spent = self._spent(url)
        if claimed and spent:
            self.fault(decision, f"{event.url} was claimed beyond its budget ({spent})")
        elif refused and spent != event.reason.value:
            self.fault(decision, f"{event.url} was refused for {event.reason}, but there was room")

    def _spent(self, url: Url) -> str:
        rules, host = self.book.rules, url.host
        if url.page:
            return ""
        if rules.pages_per_host_max and host.pages >= rules.pages_per_host_max:
            return Reason.HOST_BUDGET.value
        room = rules.pages_per_site_max + len(host.site.linked_by) * rules.pages_per_link
        return Reason.SITE_BUDGET.value if rules.pages_per_site_max and host.site.pages >= room else ""

    def decided(self, decision: Decision, event: Event) -> None:
        if not isinstance(event, SiteLinked):
            return
        self.examined += 1
        cause = self.scene.inputs.get((event.cause_topic, event.cause_offset))
        found = cause.event if cause is not None else None
        if not isinstance(found, Discovery) or found.source_kind is not SourceKind.PAGE:
            self.fault(decision, f"{event.source_site} links to {event.site}, which no page said")
            return
        ends = site_of(host_of(found.origin_key)), site_of(trap_reference.host(found.source_url))
        if ends != (event.site, event.source_site) or event.site == event.source_site:
            self.fault(
                decision, f"{event.source_site} links to {event.site}; its page says {ends[1]} to {ends[0]}"
            )
        if event.source_site in self.book.site(event.site).linked_by:
            self.fault(decision, f"the links of {event.source_site} to {event.site} are counted twice")


CHECKS: tuple[type[Watch], ...] = (Traps, Budgets)
