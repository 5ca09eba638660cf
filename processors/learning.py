"""Learning rules of identity from what servers answer (DESIGN §8; seed 000, chapter 3; seed 002, §7.6).

| evidence | speaks for | speaks against |
|---|---|---|
| a redirect between `/a` and `/a/` | that form of `slash` | a page under the other form; the reverse redirect |
| a redirect from http to https or back | that `scheme` | a page under the other; the reverse redirect |
| the same text under URLs that differ in one parameter | `ignored_params` with it | another text under them within a day |
| the same text under http and https, in profile `index` | `scheme` https | |

Each piece is a `UrlEvidence` decision, and counts once for each page that it is about: a session id that one page
ignores is ignored by one page. Three pieces make a proposal; at `learning.confidence_min` the rule is applied. From then
on what it merges is not fetched, so nothing can speak against it any more: it is for a signal (`tallies.py`) and an
operator to say that it is wrong. An operator's act outranks evidence: what was refused is never learned.

rel=canonical is a hint. It is noted, and a page is merged into the one that it names only while that one was fetched and
has the same text. That is the rule `canonical` of its origin, which may be refused like any other.
"""

from collections.abc import Iterator
from hashlib import blake2b
from itertools import islice

from msgspec.structs import replace

from frontlog.avro.enums import Reason, RuleAct, RuleName, State, Verdict, Weight
from frontlog.avro.events import ContentVerdict, Event, FetchResult, Merge, UrlEvidence, UrlRule
from frontlog.processors import canonical, merging, policy, url_forms, url_policy, url_rules, urls
from frontlog.processors.context import Context, Decided
from frontlog.processors.settings import Learning, Settings
from frontlog.processors.sites import site_of
from frontlog.state import keys
from frontlog.state.rows import EvidenceRow, UrlRow, UrlRuleRow
from frontlog.state.tables import Tables

PROPOSED_AT = 3
AGREEING_MAX = 1_000
WORDS_MIN = 20
"""A text of fewer words says nothing about a URL."""
COMPARED_MS = 86_400_000
NAMING_MAX = 20
"""Pages that name one as canonical and are merged when it comes."""
EXAMPLES = 3
CANONICAL = (RuleName.CANONICAL.value,)
_ID_BYTES = 16


def confidence(agreeing: int, against: int) -> float:
    """How sure so much evidence is: the rule of succession."""
    return (agreeing + 1) / (agreeing + against + 2)


def _digest(text: str) -> bytes:
    return blake2b(text.encode(), digest_size=_ID_BYTES).digest()


def key_of(origin: bytes, rule: RuleName, value: str, group: str) -> bytes:
    """Key in `evidence`."""
    return url_rules.key_of(origin, rule, "") + _digest(f"{value}\0{group}")


def hint_key(origin: bytes, named: str, naming: str) -> bytes:
    """Key in `evidence` of a page that names another as canonical."""
    return url_rules.key_of(origin, RuleName.CANONICAL, "") + _digest(named) + _digest(naming)


# --- weighing ----------------------------------------------------------------------------------------------------


class _Scales:
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
        self, rule: RuleName, value: str, weight: Weight, group: str, url: str, other: str, text: bytes = b""
    ) -> list[Event]:
        """What a piece of evidence leads to; nothing, when it says nothing new or an operator has spoken."""
        row = self.row(rule, value)
        by_hand = row is not None and row.act is RuleAct.APPLIED and not row.learned
        if by_hand or (row is not None and row.act is RuleAct.REFUSED):
            return []
        before = self.view.evidence.get(key_of(self.origin, rule, value, group))
        if before is not None and (before.weight is weight or before.weight is Weight.AGAINST):
            return []
        if row is not None and weight is Weight.AGREES and row.agreeing >= AGREEING_MAX:
            return []
        evidence = self.event(rule, value, weight, group, url, other, text)
        agreeing = (row.agreeing if row else 0) + (weight is Weight.AGREES)
        against = (row.against if row else 0) + (weight is Weight.AGAINST)
        act = self._act(row, weight, agreeing, against)
        return [evidence, *(self.rule(rule, value, act, agreeing, against, (url, other)) if act else [])]

    def _act(self, row: UrlRuleRow | None, weight: Weight, agreeing: int, against: int) -> RuleAct | None:
        if weight is not Weight.AGREES or (row is not None and row.act is RuleAct.APPLIED):
            return None
        if self.rules.mode == "apply" and confidence(agreeing, against) >= self.rules.confidence_min:
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
            examples=(*self._examples(rule, value), " and ".join(newest)), cause_topic=cause.topic,
            cause_partition=cause.partition, cause_offset=cause.offset,
        )  # fmt: skip
        return [event, *url_policy.judged_again(self.view, self.ctx, event, self.row(rule, value))]

    def _examples(self, rule: RuleName, value: str) -> Iterator[str]:
        if rule is RuleName.CANONICAL:
            return
        prefix = url_rules.key_of(self.origin, rule, "")
        rows = (row for _, row in self.view.evidence.scan(prefix, keys.after(prefix)))
        agreeing = (row for row in rows if row.weight is Weight.AGREES and _speaks_of(row, rule, value))
        yield from (f"{row.url} and {row.other}" for row in islice(agreeing, EXAMPLES - 1))


def _speaks_of(row: EvidenceRow, rule: RuleName, value: str) -> bool:
    """Whether evidence of a rule is about this value of it."""
    if rule is RuleName.IGNORED_PARAMS:
        return value in url_forms.names_of(row.url) or value in url_forms.names_of(row.other)
    return rule is RuleName.SCHEME or row.other.endswith("/") is (value == "add")


# --- redirects and pages -------------------------------------------------------------------------------------------


def of_result(
    view: Tables, ctx: Context, settings: Settings, result: FetchResult, row: UrlRow, to: State
) -> list[Event]:
    """What the answer to a page's request teaches; `to`: where the URL goes. Built behind the decision about it."""
    if settings.learning.mode == "off" or to is not State.FETCHED:
        return []
    scales = _Scales(view, ctx, settings.learning, result.origin_key)
    if result.location and not 200 <= result.status < 300:
        return _redirect(scales, row.url, result.location) if row.location != result.location else []
    events: list[Event] = []
    for rule, value in url_forms.contradicted(row.url):
        if scales.row(rule, value) is not None:
            events += scales.weigh(rule, value, Weight.AGAINST, row.url, row.url, "")
    return events + _named(scales, settings, result, row)


def _redirect(scales: _Scales, url: str, location: str) -> list[Event]:
    """A redirect that changes only the slash at the end, or the scheme."""
    found = canonical.canonicalize(location)
    form = url_forms.form_between(url, found.identity) if isinstance(found, canonical.Identity) else None
    if form is None or isinstance(found, canonical.Refused):
        return []
    rule, value = form
    events = scales.weigh(rule, value, Weight.AGREES, url, url, found.identity)
    opposite = {"add": "strip", "strip": "add", "https": "http", "http": "https"}[value]
    if scales.row(rule, opposite) is not None:
        events += scales.weigh(rule, opposite, Weight.AGAINST, url, url, found.identity)
    return events


# --- texts -------------------------------------------------------------------------------------------------------


def of_content(view: Tables, ctx: Context, settings: Settings, event: ContentVerdict) -> list[Event]:
    """What content's verdict about a page teaches: parameters that don't change the text, or do."""
    page = event.candidate
    if settings.learning.mode == "off" or page.words < WORDS_MIN or not 200 <= page.status < 300:
        return []
    scales = _Scales(view, ctx, settings.learning, page.origin_key)
    same = event.duplicate_of if event.verdict in (Verdict.SEEN, Verdict.SAME) else ""
    name = url_forms.parameter_between(page.url, same) if same else ""
    events: list[Event] = []
    if name:
        group = url_forms.without(page.url, name)
        events += scales.weigh(
            RuleName.IGNORED_PARAMS, name, Weight.AGREES, group, page.url, same, page.text_sha256
        )
    elif same and settings.canonical.profile == "index":
        form = url_forms.form_between(
            page.url.replace("https://", "http://", 1), same.replace("http://", "https://", 1)
        )
        if form == (RuleName.SCHEME, "https") and page.url != same:
            plain = f"http://{page.url.partition('://')[2]}"
            theirs = f"{plain[:4]}s{plain[4:]}"
            scales = _Scales(view, ctx, settings.learning, _plain_origin(page.origin_key))
            events += scales.weigh(
                RuleName.SCHEME, "https", Weight.AGREES, plain, plain, theirs, page.text_sha256
            )
    for other in url_forms.names_of(page.url):
        if other != name and scales.row(RuleName.IGNORED_PARAMS, other) is not None:
            events += _compared(scales, other, page.url, page.text_sha256)
    return events


def decide(view: Tables, event: ContentVerdict, ctx: Context) -> Decided:
    """What a verdict about a page teaches, if the page is known and may be used."""
    page = event.candidate
    row = view.urls.get(keys.url_key(keys.origin_id(page.origin_key), page.url))
    if row is None or row.state in (State.BLOCKED, State.SUPPRESSED, State.GONE):
        return Decided()
    return Decided(decisions=of_content(view, ctx, policy.settings_of(view), event))


def _plain_origin(origin_key: str) -> str:
    return f"http://{keys.split_origin_key(origin_key)[1]}:80"


def _compared(scales: _Scales, name: str, url: str, text: bytes) -> list[Event]:
    """A page with a parameter that may be ignorable: compared with the one that was seen without or with another value."""
    group, rule = url_forms.without(url, name), RuleName.IGNORED_PARAMS
    before = scales.view.evidence.get(key_of(scales.origin, rule, name, group))
    if before is None:
        return scales.weigh(rule, name, Weight.NOTED, group, url, "", text)
    fresh = scales.ctx.now_ms - before.at_ms <= COMPARED_MS
    if before.url == url or before.text_sha256 == text or not fresh:
        return []
    return scales.weigh(rule, name, Weight.AGAINST, group, url, before.url, text)


# --- rel=canonical -------------------------------------------------------------------------------------------------


def canonical_merge(view: Tables, settings: Settings, result: FetchResult, row: UrlRow) -> Merge | None:
    """The merge that a page's rel=canonical leads to: the page that it names was fetched and has the same text."""
    named = _canonical(view, settings, result, row)
    if named is None or result.parse is None:
        return None
    other = view.urls.get(keys.url_key(keys.origin_id(named.origin_key), named.identity))
    agrees = (
        other is not None
        and other.state is State.FETCHED
        and other.content_hash == result.parse.text_sha256 != b""
    )
    return Merge(into=named.identity, rules=CANONICAL) if agrees else None


def _canonical(
    view: Tables, settings: Settings, result: FetchResult, row: UrlRow
) -> canonical.Identity | None:
    """The page that another names as canonical, where its origin's rules let that count; never itself, nor of another
    site."""
    if settings.learning.mode != "apply" or result.parse is None or not result.parse.canonical_url:
        return None
    found = canonical.canonicalize(result.parse.canonical_url)
    if isinstance(found, canonical.Refused) or result.parse.words < WORDS_MIN:
        return None
    found = merging.identity_at(view, settings, found)
    refused = not canonical_counts(view, result.origin_key)
    home = keys.split_origin_key(result.origin_key)[1]
    if refused or found.identity == row.url or site_of(found.host) != site_of(home):
        return None
    return found


def canonical_counts(view: Tables, origin_key: str) -> bool:
    """Whether rel=canonical may merge pages of an origin."""
    rule = url_policy.row_at(view, origin_key, RuleName.CANONICAL, "")
    return rule is None or rule.act not in (RuleAct.REFUSED, RuleAct.WITHDRAWN)


def _named(scales: _Scales, settings: Settings, result: FetchResult, row: UrlRow) -> list[Event]:
    """Notes the page that this one names; merges those that named this one and have its text."""
    view, events = scales.view, list[Event]()
    named = _canonical(view, settings, result, row)
    if (
        named is not None
        and view.evidence.get(hint_key(keys.origin_id(named.origin_key), named.identity, row.url)) is None
    ):
        events.append(
            scales.event(RuleName.CANONICAL, "", Weight.NOTED, named.origin_key, row.url, named.identity, b"")
        )
    text = result.parse.text_sha256 if result.parse is not None else b""
    prefix = url_rules.key_of(scales.origin, RuleName.CANONICAL, "") + _digest(row.url)
    naming = (
        [hint for _, hint in islice(view.evidence.scan(prefix, keys.after(prefix)), NAMING_MAX)]
        if text
        else []
    )
    told = set[str]()
    for hint in naming:
        if hint.other == row.url:
            events += _merge_naming(scales, hint.url, row.url, text, told)
    return events


def _merge_naming(scales: _Scales, url: str, into: str, text: bytes, told: set[str]) -> list[Event]:
    found = canonical.canonicalize(url)
    if isinstance(found, canonical.Refused) or not canonical_counts(scales.view, found.origin_key):
        return []
    row = scales.view.urls.get(keys.url_key(keys.origin_id(found.origin_key), url))
    if row is None or row.state is not State.FETCHED or row.content_hash != text:
        return []
    version = policy.standing(scales.view, found.origin_key).version
    merge = Merge(into=into, rules=CANONICAL)
    moved = urls.build(
        scales.ctx,
        row,
        found.origin_key,
        State.BLOCKED,
        Reason.MERGED,
        detail=into,
        policy_version=version,
        merged=merge,
    )
    if found.origin_key in told:
        return [moved]
    told.add(found.origin_key)
    return [
        moved,
        *canonical_rule(_Scales(scales.view, scales.ctx, scales.rules, found.origin_key), url, into),
    ]


def canonical_rule(scales: _Scales, url: str, into: str) -> list[Event]:
    """The policy event of an origin whose first page is merged for its rel=canonical."""
    row = scales.row(RuleName.CANONICAL, "")
    if row is not None and row.act is RuleAct.APPLIED:
        return []
    return scales.rule(RuleName.CANONICAL, "", RuleAct.APPLIED, 1, 0, (url, into))


def merged(
    view: Tables, ctx: Context, settings: Settings, origin_key: str, url: str, merge: Merge | None
) -> list[Event]:
    """What stands behind the decision that merged a page into the one that it named."""
    if merge is None or merge.rules != CANONICAL:
        return []
    return canonical_rule(_Scales(view, ctx, settings.learning, origin_key), url, merge.into)


# --- the fold ----------------------------------------------------------------------------------------------------


def apply(tables: Tables, event: UrlEvidence) -> None:
    """Fold a piece of evidence."""
    origin = keys.origin_id(event.origin_key)
    row = EvidenceRow(
        weight=event.weight,
        url=event.url,
        other=event.other,
        at_ms=tables.head.at_ms,
        text_sha256=event.text_sha256,
    )
    if event.rule is RuleName.CANONICAL:
        tables.evidence.put(hint_key(keys.origin_id(event.group), event.other, event.url), row)
        return
    tables.evidence.put(key_of(origin, event.rule, event.value, event.group), row)
    key = url_rules.key_of(origin, event.rule, event.value)
    known = tables.url_rules.get(key) or UrlRuleRow(
        origin_key=event.origin_key, rule=event.rule, value=event.value, act=RuleAct.PROPOSED, learned=True,
        at_ms=tables.head.at_ms,
    )  # fmt: skip
    counted = replace(
        known,
        agreeing=known.agreeing + (event.weight is Weight.AGREES),
        against=known.against + (event.weight is Weight.AGAINST),
    )
    tables.url_rules.put(key, counted)
