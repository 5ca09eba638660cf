"""Checks of learned rules: they follow from evidence in the log, and the evidence from answers (docs/identity.md).

A second implementation: it imports no machine. It counts evidence by itself, and looks at each piece by the two URLs that it
names. Not verified: that texts which are said to be the same were, beyond their hashes.
"""

from frontlog.avro.enums import RuleAct, RuleName, Topic, Weight
from frontlog.avro.events import ContentVerdict, Event, FetchResult, UrlEvidence, UrlRule
from frontlog.replay.ledger import Decision
from frontlog.replay.watch import Scene, Watch

_AGAINST_MIN = 3
_Rule = tuple[str, RuleName, str]


class Learned(Watch):
    """Evidence, and what was made of it."""

    name = "learned"
    doc = "each learned rule has the evidence that it states, each piece counted once and caused by an answer that says it"

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._counts: dict[_Rule, list[int]] = {}
        self._seen: dict[tuple[_Rule, str], Weight] = {}
        self._refused: set[_Rule] = set()

    def decided(self, decision: Decision, event: Event) -> None:
        self.examined += 1
        if isinstance(event, UrlEvidence):
            self._evidence(decision, event)
        elif isinstance(event, UrlRule):
            self._rule(decision, event)

    def _rule(self, decision: Decision, event: UrlRule) -> None:
        rule = event.origin_key, event.rule, event.value
        named = f"{event.rule} {event.value} of {event.origin_key}"
        if not event.learned:
            self._refused.discard(rule)
            if event.act is RuleAct.REFUSED:
                self._refused.add(rule)
            if event.act is RuleAct.WITHDRAWN:
                self._counts.pop(rule, None)
            return
        if rule in self._refused:
            self.fault(decision, f"{named} was learned, which an operator had refused")
        if event.rule is RuleName.CANONICAL:
            return
        agreeing, against = self._counts.get(rule, [0, 0])
        if (event.agreeing, event.against) != (agreeing, against):
            said = f"states {event.agreeing} for and {event.against} against"
            self.fault(decision, f"{named} {said}; the log has {agreeing} and {against}")
        sure = (agreeing + 1) / (agreeing + against + 2)
        rules = self.book.rules
        if event.act is RuleAct.APPLIED and (sure < rules.confidence_min or rules.learning != "apply"):
            self.fault(decision, f"{named} was applied at a confidence of {sure:.3f} ({rules.learning})")
        if event.act is RuleAct.WITHDRAWN and (sure >= rules.confidence_min or against < _AGAINST_MIN):
            self.fault(decision, f"{named} was withdrawn at a confidence of {sure:.3f}, {against} against")

    def _evidence(self, decision: Decision, event: UrlEvidence) -> None:
        rule = event.origin_key, event.rule, event.value
        cause = self.scene.inputs.get((event.cause_topic, event.cause_offset))
        found = cause.event if cause is not None else None
        if event.rule is RuleName.CANONICAL:
            if not isinstance(found, FetchResult) or found.url != event.url:
                self.fault(decision, f"{event.url} names {event.other} as canonical, which no answer said")
            return
        before = self._seen.get((rule, event.group))
        if before is event.weight or before is Weight.AGAINST:
            self.fault(decision, f"evidence of {event.group} for {event.rule} {event.value} is counted twice")
        self._seen[rule, event.group] = event.weight
        counts = self._counts.setdefault(rule, [0, 0])
        counts[0] += event.weight is Weight.AGREES
        counts[1] += event.weight is Weight.AGAINST
        if event.weight is Weight.AGREES and not self._says(event, found):
            self.fault(decision, f"{event.url} and {event.other} say nothing for {event.rule} {event.value}")

    def _says(self, event: UrlEvidence, cause: Event | None) -> bool:
        """Whether two URLs, and the answer that brought them together, speak for a rule."""
        if event.rule is RuleName.IGNORED_PARAMS:
            if not isinstance(cause, ContentVerdict) or cause.candidate.text_sha256 != event.text_sha256:
                return False
            return _without(event.url, event.value) == _without(event.other, event.value) != ""
        redirected = isinstance(cause, FetchResult) and bool(cause.location) and cause.url == event.url
        if event.rule is RuleName.SLASH:
            longer, shorter = (event.other, event.url) if event.value == "add" else (event.url, event.other)
            path, _, query = shorter.partition("?")
            return redirected and longer == f"{path}/" + (f"?{query}" if query else "")
        rest = event.url.partition("://")[2]
        same = event.cause_topic == Topic.CONTENT_VERDICTS.value and self.book.rules.profile == "index"
        return (redirected or same) and event.other == f"{event.value}://{rest}"


def _without(url: str, name: str) -> str:
    front, _, query = url.partition("?")
    return front + "?" + "&".join(one for one in query.split("&") if one and one.split("=", 1)[0] != name)


CHECKS: tuple[type[Watch], ...] = (Learned,)
