"""Checks of identity: what was merged follows from the rules in force at its origin, and what they merge is not fetched.

A second implementation: it imports no machine. Not verified: what the standards make of a spelling (the crawl's own
code does that, and the vectors of the standards hold it), and that an operator's rule is a good one.
"""

from frontlog.avro.enums import Reason
from frontlog.avro.events import Event, Signal, Transition
from frontlog.replay.identity_reference import stands_for
from frontlog.replay.ledger import Decision
from frontlog.replay.watch import Scene, Watch

_WANTED = frozenset({Reason.ADMITTED, Reason.CLAIMED, Reason.POLICY_ALLOWS, Reason.READMITTED})
_HOUR_MS = 3_600_000
_LEARNED_ALONE = ("canonical",)
"""Merges that no rule about the URL says, but the page."""


class Identities(Watch):
    """Merges."""

    name = "identities"
    doc = "each merged URL is merged by the rules in force at its origin, and none that they merge is admitted or claimed"

    def moved(self, decision: Decision, event: Transition) -> None:
        merge = event.merged
        if (merge is not None) is not (event.reason is Reason.MERGED):
            self.fault(
                decision, f"{event.url} became {event.to_state} for {event.reason}, merged into {merge}"
            )
            return
        if merge is None and event.reason not in _WANTED:
            return
        self.examined += 1
        url = self.book.urls.get(event.url)
        if url is not None and url.sitemap:
            return  # a sitemap is asked for as it was named
        into, rules = stands_for(
            event.url, self.book.identity_rules(event.origin_key), self.book.firm_rules(event.origin_key)
        )
        if merge is None:
            if into != event.url:
                self.fault(
                    decision, f"{event.url} was {event.reason}, for which {into} stands ({', '.join(rules)})"
                )
            return
        if merge.rules == _LEARNED_ALONE:
            ours = (
                event.result.content_hash
                if event.result is not None
                else url.text
                if url is not None
                else b""
            )
            other = self.book.urls.get(merge.into)
            if other is None or not ours or other.text != ours:
                self.fault(decision, f"{event.url} was merged into {merge.into}, which has another text")
            return
        if (merge.into, merge.rules) != (into, rules):
            said = f"merged into {merge.into} by {', '.join(merge.rules)}"
            self.fault(decision, f"{event.url} was {said}; under the rules in force it is {into}")


class Signals(Watch):
    """Signals."""

    name = "signals"
    doc = "a signal is raised when the URLs of an origin that one rule took within an hour reach the limit, and not else"

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._windows: dict[tuple[str, str], tuple[int, int]] = {}
        self._owed: set[tuple[str, str]] = set()

    def moved(self, decision: Decision, event: Transition) -> None:
        names = event.merged.rules if event.merged is not None else ()
        if event.reason.value.startswith("trap_"):
            names = (event.reason.value,)
        for name in names:
            self._count(event.origin_key, name)

    def _count(self, origin_key: str, name: str) -> None:
        began_ms, count = self._windows.get((origin_key, name), (0, 0))
        now_ms = self.scene.at_ms
        began_ms, count = (now_ms, 1) if now_ms - began_ms >= _HOUR_MS else (began_ms, count + 1)
        self._windows[origin_key, name] = began_ms, count
        if count == self.book.rules.signal_urls:
            self._owed.add((origin_key, name))

    def decided(self, decision: Decision, event: Event) -> None:
        self.examined += 1
        if not isinstance(event, Signal):
            return
        subject = event.origin_key, event.name
        if subject not in self._owed:
            self.fault(
                decision, f"a signal about {event.name} at {event.origin_key}, of which there was no cause"
            )
        elif (event.started_ms, event.count) != self._windows[subject]:
            self.fault(
                decision, f"a signal about {event.name} counts {event.count} URLs since {event.started_ms}"
            )
        self._owed.discard(subject)

    def ended(self) -> None:
        for origin_key, name in sorted(self._owed):
            self.fault(None, f"no signal was raised about {name} at {origin_key}")


CHECKS: tuple[type[Watch], ...] = (Identities, Signals)
