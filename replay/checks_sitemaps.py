"""Checks of sitemaps: who may list what, how deep indexes go, and what was told of what they list (sitemaps.org).

A second implementation: sites by `routing.py`, the `Sitemap` lines of robots.txt by `robots_reference.py`.

Not verified: that a file lists what its discoveries say, which would take the archive and a second parser of sitemaps; and
that a page which a sitemap brought back had changed.
"""

from functools import lru_cache
from urllib.parse import urljoin, urlsplit

from frontlog.avro.enums import RobotsState, SourceKind, Topic
from frontlog.avro.events import Discovery, FetchResult, Transition
from frontlog.processors import canonical
from frontlog.replay.ledger import Decision
from frontlog.replay.robots_reference import sitemaps
from frontlog.replay.routing import host_of, site_of
from frontlog.replay.watch import Watch

LINKS_MAX = 500
_BOUND = frozenset({SourceKind.SITEMAP, SourceKind.SITEMAP_FILE})


class Sitemaps(Watch):
    """Sitemaps and what they list."""

    name = "sitemaps"
    doc = (
        "a sitemap lists only its own site, or where the robots.txt of the other origin names it, no deeper than allowed; "
        "what it says of a URL is kept as it said it"
    )

    def moved(self, decision: Decision, event: Transition) -> None:
        cause = self.scene.inputs.get((event.cause_topic, event.cause_offset))
        if cause is None:
            return
        if event.cause_topic == Topic.FETCH_RESULTS.value:
            self._read(decision, event, cause.event if isinstance(cause.event, FetchResult) else None)
        elif event.first is not None and isinstance(cause.event, Discovery):
            self._listed(decision, event, cause.event)

    def _read(self, decision: Decision, event: Transition, result: FetchResult | None) -> None:
        """What a file was found to be is what its result says."""
        if (
            result is None
            or event.result is None
            or (event.result.sitemap is None and result.sitemap is None)
        ):
            return
        self.examined += 1
        if event.result.sitemap != result.sitemap:
            self.fault(decision, f"{event.url} lists something else than its result says")

    def _listed(self, decision: Decision, event: Transition, found: Discovery) -> None:
        first = event.first
        assert first is not None
        if found.source_kind in _BOUND or found.lastmods:
            self.examined += 1
        else:
            if first.changed_at_ms or first.via:
                self.fault(decision, f"no sitemap lists {event.url}, but it has what one would say of it")
            return
        if (first.source_kind is SourceKind.SITEMAP_FILE) is not (
            found.source_kind is SourceKind.SITEMAP_FILE
        ):
            self.fault(
                decision, f"{event.url} was found as {found.source_kind}, and is {first.source_kind} now"
            )
        if first.changed_at_ms not in (found.lastmods or (0,)):
            self.fault(decision, f"nothing says that {event.url} changed at {first.changed_at_ms}")
        files = self.book.host(host_of(event.origin_key)).sitemaps
        bound = self.book.rules.files_per_host_max + LINKS_MAX  # an event is taken whole
        if found.source_kind is SourceKind.SITEMAP_FILE and files >= bound:
            self.fault(decision, f"{event.url} is asked for beside {files} sitemaps of its host")
        if found.source_kind is SourceKind.SITEMAP_FILE and first.via != found.via:
            self.fault(decision, f"{event.url} was reached by {found.via}, not by {first.via}")
        if found.source_kind in _BOUND and found.via:
            self._allowed(decision, event, found)

    def _allowed(self, decision: Decision, event: Transition, found: Discovery) -> None:
        """Whether a sitemap may list a URL at all."""
        depth_max = self.book.rules.index_depth_max
        if found.source_kind is SourceKind.SITEMAP_FILE and len(found.via) > depth_max:
            self.fault(decision, f"{event.url} lies in {len(found.via)} indexes; {depth_max} are allowed")
        if site_of(urlsplit(found.source_url).hostname or "") == site_of(host_of(event.origin_key)):
            return
        origin = self.book.origin(event.origin_key)
        named = (
            _names(origin.text, event.origin_key) if origin.robots is RobotsState.RULES else frozenset[str]()
        )
        if named.isdisjoint(found.via):
            self.fault(
                decision, f"{event.url} was taken from {found.source_url}, which its robots.txt does not name"
            )


@lru_cache(maxsize=256)
def _names(text: bytes, origin_key: str) -> frozenset[str]:
    """Identities of the sitemaps that a robots.txt names. A relative one is taken from the origin's own root."""
    found = [canonical.canonicalize(urljoin(f"{origin_key}/robots.txt", raw)) for raw in sitemaps(text)]
    return frozenset(one.identity for one in found if isinstance(one, canonical.Identity))


CHECKS: tuple[type[Watch], ...] = (Sitemaps,)
