"""Weighing of evidence about rules of identity: what a piece of it leads to (`learning.py` says what is evidence).

A piece counts once for each page that it is about, its group. Three pieces make a proposal; at `learning.confidence_min`
the rule is applied; with three pieces against it and less confidence it is withdrawn. An operator's act outranks all.
"""

from collections.abc import Iterator
from hashlib import blake2b
from itertools import islice

from frontlog.avro.enums import RuleAct, RuleName, State, Weight
from frontlog.avro.events import Event, UrlEvidence, UrlRule
from frontlog.processors import url_forms, url_policy, url_rules
from frontlog.processors.context import Context
from frontlog.processors.settings import Learning
from frontlog.state import keys
from frontlog.state.rows import EvidenceRow, UrlRuleRow
from frontlog.state.tables import Tables

PROPOSED_AT = 3
AGAINST_MIN = 3
"""Pieces against a rule in force before it is withdrawn."""
PIECES_MAX = 1_000
"""For a rule, and against it: more say nothing new."""
COMPARED_MS = 86_400_000
EXAMPLES = 3
_ID_BYTES = 16


def confidence(agreeing: int, against: int) -> float:
    """How sure so much evidence is: the rule of succession."""
    return (agreeing + 1) / (agreeing + against + 2)


def digest(text: str) -> bytes:
    return blake2b(text.encode(), digest_size=_ID_BYTES).digest()


def key_of(origin: bytes, rule: RuleName, value: str, group: str) -> bytes:
    """Key in `evidence`."""
    return url_rules.key_of(origin, rule, "") + digest(f"{value}\0{group}")


def hint_key(origin: bytes, named: str, naming: str) -> bytes:
    """Key in `evidence` of a page that names another as canonical."""
    return url_rules.key_of(origin, RuleName.CANONICAL, "") + digest(named) + digest(naming)


class Scales:
    """Weighs the evidence of one input about one origin."""

    def __init__(self, view: Tables, ctx: Context, rules: Learning, origin_key: str) -> None:
        self.view = view
        self.ctx = ctx
        self.rules = rules
        self.origin_key = origin_key
        self.origin = keys.origin_id(origin_key)

    def row(self, rule: RuleName, value: str) -> UrlRuleRow | None:
        return self.view.url_rules.get(url_rules.key_of(self.origin, rule, value))

    def weigh(
        self,
        rule: RuleName,
        value: str,
        weight: Weight,
        group: str,
        url: str,
        other: str,
        text: bytes = b"",
        besides: int = 0,
    ) -> list[Event]:
        """What a piece of evidence leads to; nothing, when it says nothing new or an operator has spoken. `besides`: pieces
        against a rule of which there was no word, made just before."""
        row = self.row(rule, value)
        by_hand = row is not None and row.act is RuleAct.APPLIED and not row.learned
        if by_hand or (row is not None and row.act is RuleAct.REFUSED):
            return []
        before = self.view.evidence.get(key_of(self.origin, rule, value, group))
        if before is not None and (before.weight is weight or before.weight is Weight.AGAINST):
            return []
        if row is not None and (row.agreeing if weight is Weight.AGREES else row.against) >= PIECES_MAX:
            return []
        evidence = self.event(rule, value, weight, group, url, other, text)
        agreeing = (row.agreeing if row else 0) + (weight is Weight.AGREES)
        against = (row.against if row else besides) + (weight is Weight.AGAINST)
        act = self._act(row, weight, agreeing, against)
        return [evidence, *(self.rule(rule, value, act, agreeing, against, (url, other)) if act else [])]

    def _act(self, row: UrlRuleRow | None, weight: Weight, agreeing: int, against: int) -> RuleAct | None:
        sure = confidence(agreeing, against) >= self.rules.confidence_min
        if row is not None and row.act is RuleAct.APPLIED:
            fell = weight is Weight.AGAINST and not sure and against >= AGAINST_MIN
            return RuleAct.WITHDRAWN if fell and self.rules.mode == "apply" else None
        if weight is not Weight.AGREES:
            return None
        if self.rules.mode == "apply" and sure:
            return RuleAct.APPLIED
        return RuleAct.PROPOSED if agreeing == PROPOSED_AT else None

    def event(
        self, rule: RuleName, value: str, weight: Weight, group: str, url: str, other: str, text: bytes
    ) -> UrlEvidence:
        cause = self.ctx.cause
        return UrlEvidence(
            seq=self.ctx.next_seq(), owner_token=self.ctx.owner_token, origin_key=self.origin_key, rule=rule, value=value,
            weight=weight, group=group, url=url, other=other, text_sha256=text, cause_topic=cause.topic,
            cause_partition=cause.partition, cause_offset=cause.offset,
        )  # fmt: skip

    def rule(
        self, rule: RuleName, value: str, act: RuleAct, agreeing: int, against: int, newest: tuple[str, str]
    ) -> list[Event]:
        """The policy event of a rule that was learned, with the job over what it concerns."""
        cause = self.ctx.cause
        event = UrlRule(
            seq=self.ctx.next_seq(), owner_token=self.ctx.owner_token, origin_key=self.origin_key, rule=rule, value=value,
            act=act, learned=True, agreeing=agreeing, against=against, confidence=confidence(agreeing, against),
            examples=(*self._examples(rule, value, act), " and ".join(filter(None, newest))), cause_topic=cause.topic,
            cause_partition=cause.partition, cause_offset=cause.offset,
        )  # fmt: skip
        return [event, *url_policy.judged_again(self.view, self.ctx, event, self.row(rule, value))]

    def text_at(self, origin_key: str, url: str) -> bytes:
        """Hash of the text of another page that was fetched within the last day; empty: none was."""
        row = self.view.urls.get(keys.url_key(keys.origin_id(origin_key), url))
        if (
            row is None
            or row.state is not State.FETCHED
            or self.ctx.now_ms - row.last_success_ms > COMPARED_MS
        ):
            return b""
        return row.content_hash

    def _examples(self, rule: RuleName, value: str, act: RuleAct) -> Iterator[str]:
        if rule is RuleName.CANONICAL:
            return
        prefix = url_rules.key_of(self.origin, rule, "")
        rows = (row for _, row in self.view.evidence.scan(prefix, keys.after(prefix)))
        weight = Weight.AGAINST if act is RuleAct.WITHDRAWN else Weight.AGREES
        speaking = (row for row in rows if row.weight is weight and _speaks_of(row, rule, value))
        yield from (
            " and ".join(filter(None, (row.url, row.other))) for row in islice(speaking, EXAMPLES - 1)
        )


def _speaks_of(row: EvidenceRow, rule: RuleName, value: str) -> bool:
    """Whether evidence of a rule is about this value of it."""
    if rule is RuleName.IGNORED_PARAMS:
        return value in url_forms.names_of(row.url) or value in url_forms.names_of(row.other)
    shown, agrees = (row.other or row.url).partition("?")[0], row.weight is Weight.AGREES
    if rule is RuleName.SCHEME:
        return shown.startswith(f"{value}://") is agrees
    return (shown.endswith("/") is (value == "add")) is agrees
