"""Learning rules of identity from what servers answer (DESIGN §8; seed 000, chapter 3; seed 002, §7.6).

| evidence | speaks for | speaks against |
|---|---|---|
| a redirect between `/a` and `/a/` | that form of `slash` | a page under the other form; the reverse redirect; none there |
| a redirect from http to https or back | that `scheme` | a page under the other; the reverse redirect; none there |
| the same text under URLs that differ in one parameter | `ignored_params` with it | another text under them within a day |
| the same text under http and https, in profile `index` | `scheme` https | another text under them within a day |

Each piece is a `UrlEvidence` decision, and counts once for each page that it is about: a session id that one page
ignores is ignored by one page. Three pieces make a proposal; at `learning.confidence_min` the rule is applied. From then
on what it merges is not fetched, but for its witnesses: one URL in 64, which stays its own (`url_rules.is_witness`) and is
held against the page that stands for the others. So evidence goes on, and a rule with three pieces against it that falls
below the confidence is withdrawn: what it merged comes apart, and more evidence may bring it back. An operator's act
outranks evidence: what was refused is never learned, what was applied by hand has no witnesses.

rel=canonical is a hint. It is noted, and a page is merged into the one that it names only while that one was fetched and
has the same text. That is the rule `canonical` of its origin, which may be refused like any other.
"""

from itertools import islice

from msgspec.structs import replace

from frontlog.avro.enums import Reason, RuleAct, RuleName, State, Verdict, Weight
from frontlog.avro.events import ContentVerdict, Event, FetchResult, Merge, UrlEvidence
from frontlog.processors import canonical, merging, policy, url_forms, url_policy, url_rules, urls
from frontlog.processors.context import Context, Decided
from frontlog.processors.settings import Settings
from frontlog.processors.sites import site_of, split_origin
from frontlog.processors.weighing import COMPARED_MS, Scales, digest, hint_key, key_of
from frontlog.state import keys
from frontlog.state.rows import EvidenceRow, UrlRow, UrlRuleRow
from frontlog.state.tables import Tables

WORDS_MIN = 20
"""A text of fewer words says nothing about a URL."""
NAMING_MAX = 20
"""Pages that name one as canonical and are merged when it comes."""
KNOWN_MAX, KNOWN_AGAINST_MAX = 200, 20
"""Rows of an origin that are looked at for pages that speak against a form, and pieces that come of it at most."""
GONE = frozenset({404, 410})
CANONICAL = (RuleName.CANONICAL.value,)


# --- redirects and pages -------------------------------------------------------------------------------------------


def of_result(
    view: Tables, ctx: Context, settings: Settings, result: FetchResult, row: UrlRow, to: State
) -> list[Event]:
    """What the answer to a page's request teaches; `to`: where the URL goes. Built behind the decision about it."""
    if settings.learning.mode == "off":
        return []
    scales = Scales(view, ctx, settings.learning, result.origin_key)
    if result.status in GONE:
        return _nothing_there(scales, row)
    if to is not State.FETCHED:
        return []
    if result.location and not 200 <= result.status < 300:
        return _redirect(scales, row.url, result.location) if row.location != result.location else []
    events: list[Event] = []
    by_text = (
        settings.canonical.profile == "index"
    )  # there schemes are learned and unlearned by what pages say
    asked = row.requested or row.url  # as it was found: a rule may let another form stand for it
    for rule, value in url_forms.contradicted(asked):
        if scales.row(rule, value) is not None and not (by_text and rule is RuleName.SCHEME):
            events += scales.weigh(rule, value, Weight.AGAINST, asked, asked, "")
    return events + _named(scales, settings, result, row)


def _redirect(scales: Scales, url: str, location: str) -> list[Event]:
    """A redirect that changes only the slash at the end, or the scheme."""
    found = canonical.canonicalize(location)
    form = url_forms.form_between(url, found.identity) if isinstance(found, canonical.Identity) else None
    if form is None or isinstance(found, canonical.Refused):
        return []
    rule, value = form
    events = _known_pages(scales, rule, value) if scales.row(rule, value) is None else []
    events += scales.weigh(rule, value, Weight.AGREES, url, url, found.identity, besides=len(events))
    opposite = {"add": "strip", "strip": "add", "https": "http", "http": "https"}[value]
    if scales.row(rule, opposite) is not None:
        events += scales.weigh(rule, opposite, Weight.AGAINST, url, url, found.identity)
    return events


def _known_pages(scales: Scales, rule: RuleName, value: str) -> list[Event]:
    """What the pages that an origin has already say against a form of which there was no word yet."""
    known = islice(scales.view.urls.scan(scales.origin, keys.after(scales.origin)), KNOWN_MAX)
    pages = [row.requested or row.url for _, row in known if row.state is State.FETCHED and row.brought_page]
    against = [url for url in pages if (rule, value) in url_forms.contradicted(url)]
    return [
        scales.event(rule, value, Weight.AGAINST, url, url, "", b"") for url in against[:KNOWN_AGAINST_MAX]
    ]


def _known_texts(scales: Scales, name: str, besides: str) -> list[Event]:
    """What the pages that an origin has already say against a parameter of which there was no word yet; `besides`: the group
    of the piece that speaks for it."""
    seen, pairs = dict[str, UrlRow](), dict[str, tuple[UrlRow, UrlRow]]()
    for _, row in islice(scales.view.urls.scan(scales.origin, keys.after(scales.origin)), KNOWN_MAX):
        if row.state is State.FETCHED and row.content_hash and name in url_forms.names_of(row.url):
            group = url_forms.without(row.url, name)
            other = seen.setdefault(group, row)
            fresh = abs(row.last_success_ms - other.last_success_ms) <= COMPARED_MS
            if group != besides and fresh and row.content_hash != other.content_hash:
                pairs[group] = row, other
    return [
        scales.event(
            RuleName.IGNORED_PARAMS, name, Weight.AGAINST, group, row.url, other.url, row.content_hash
        )
        for group, (row, other) in islice(pairs.items(), KNOWN_AGAINST_MAX)
    ]


def _nothing_there(scales: Scales, row: UrlRow) -> list[Event]:
    """A URL that isn't there but stands for another form of it that was a page."""
    events: list[Event] = []
    for rule, value, other in url_forms.other_forms(row.url) if not row.requested else ():
        origin_key = split_origin(other)[0]
        twin = scales.view.urls.get(keys.url_key(keys.origin_id(origin_key), other))
        if twin is not None and twin.brought_page and twin.merged[:1] == (row.url,):
            theirs = Scales(scales.view, scales.ctx, scales.rules, origin_key)
            if theirs.row(rule, value) is not None:
                events += theirs.weigh(rule, value, Weight.AGAINST, other, other, row.url)
    return events


# --- texts -------------------------------------------------------------------------------------------------------


def of_content(view: Tables, ctx: Context, settings: Settings, event: ContentVerdict) -> list[Event]:
    """What content's verdict about a page teaches: parameters that don't change the text, or do."""
    page = event.candidate
    if settings.learning.mode == "off" or page.words < WORDS_MIN or not 200 <= page.status < 300:
        return []
    scales = Scales(view, ctx, settings.learning, page.origin_key)
    same = event.duplicate_of if event.verdict in (Verdict.SEEN, Verdict.SAME) else ""
    name = url_forms.parameter_between(page.url, same) if same else ""
    events: list[Event] = []
    if name:
        group = url_forms.without(page.url, name)
        if scales.row(RuleName.IGNORED_PARAMS, name) is None:
            events += _known_texts(scales, name, group)
        events += scales.weigh(
            RuleName.IGNORED_PARAMS,
            name,
            Weight.AGREES,
            group,
            page.url,
            same,
            page.text_sha256,
            besides=len(events),
        )
    elif settings.canonical.profile == "index":
        plain = Scales(view, ctx, settings.learning, _plain_origin(page.origin_key))
        events += _schemes(plain, page.url, same, page.text_sha256)
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
    """The http origin beside an https one that states no port."""
    return f"http://{keys.split_origin_key(origin_key)[1]}:80"


def _schemes(scales: Scales, url: str, same: str, text: bytes) -> list[Event]:
    """A page under http or https: compared with the one under the other, of which it may be known to have the text."""
    rule, value = RuleName.SCHEME, "https"
    plain = f"http://{url.partition('://')[2]}"
    theirs = f"https{plain[4:]}"
    if url_forms.form_between(plain, theirs) != (rule, value):
        return []
    if url != same in (plain, theirs):
        return scales.weigh(rule, value, Weight.AGREES, plain, plain, theirs, text)
    other = plain if url == theirs else theirs
    known = scales.text_at(split_origin(other)[0], other)
    if not known or known == text or scales.row(rule, value) is None:
        return []
    return scales.weigh(rule, value, Weight.AGAINST, plain, plain, theirs, text)


def _compared(scales: Scales, name: str, url: str, text: bytes) -> list[Event]:
    """A page with a parameter that may be ignorable: compared with the one that was seen without or with another value.

    A witness of a rule in force is compared with the page that stands for the others of its kind.
    """
    group, rule = url_forms.without(url, name), RuleName.IGNORED_PARAMS
    row = scales.row(rule, name)
    known = scales.text_at(scales.origin_key, group) if row and row.act is RuleAct.APPLIED else b""
    if known:
        weight = Weight.AGREES if known == text else Weight.AGAINST
        return scales.weigh(rule, name, weight, group, url, group, text)
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


def _named(scales: Scales, settings: Settings, result: FetchResult, row: UrlRow) -> list[Event]:
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
    prefix = url_rules.key_of(scales.origin, RuleName.CANONICAL, "") + digest(row.url)
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


def _merge_naming(scales: Scales, url: str, into: str, text: bytes, told: set[str]) -> list[Event]:
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
        *canonical_rule(Scales(scales.view, scales.ctx, scales.rules, found.origin_key), url, into),
    ]


def canonical_rule(scales: Scales, url: str, into: str) -> list[Event]:
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
    return canonical_rule(Scales(view, ctx, settings.learning, origin_key), url, merge.into)


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
