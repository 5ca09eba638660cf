"""The rules by which an origin's URLs may be merged further than the standards allow, and two profiles.

What follows from the URL standards is done for every URL (`canonical.py`). What stands here is policy: it
is true of some servers only, so it holds for the origins whose policy says so, or everywhere under a
profile that a user chose (seed 000, chapter 3; DESIGN §8).
"""

import re
from collections.abc import Container, Iterable
from functools import cached_property, lru_cache
from typing import Any, Literal
from zlib import crc32

import msgspec

from frontlog.avro.enums import RuleName
from frontlog.avro.errors import ConfigError

SlashForm = Literal["keep", "strip", "add"]
SchemeForm = Literal["keep", "https", "http"]


class OriginRules(msgspec.Struct, frozen=True, dict=True, forbid_unknown_fields=True):
    """What may be merged at an origin. Parameter patterns are exact names, or `prefix*`; case counts."""

    tracking_params: tuple[str, ...] = ()
    """Parameters that only tell the server where a visitor came from: dropped."""
    ignored_params: tuple[str, ...] = ()
    """Parameters that don't change the answer, sessions for example: dropped."""
    query_order_insensitive: bool = False
    """Parameters are sorted by name, then by value (code points of the spelling)."""
    slash: SlashForm = "keep"
    """`strip`: `/a/` becomes `/a`. `add`: the reverse, save for last segments with a dot (`/a.html`).
    The root, and paths that end in two slashes, stay."""
    scheme: SchemeForm = "keep"
    """Which of http and https stands for both. URLs that state a port stay as they are."""
    firm: "OriginRules | None" = None
    """The same without the rules that were only learned, if there are any: what these alone would merge has witnesses."""

    @cached_property
    def trivial(self) -> bool:
        """Whether nothing is merged beyond the standards."""
        return self == CONSERVATIVE

    @cached_property
    def queries_only(self) -> bool:
        """Whether a URL without a query is left alone."""
        return self.slash == "keep" and self.scheme == "keep"

    @cached_property
    def droppers(self) -> "tuple[tuple[str, Matcher], ...]":
        """(rule's name, matcher) of each list of parameters that isn't empty."""
        named = (("tracking_params", self.tracking_params), ("ignored_params", self.ignored_params))
        return tuple((name, Matcher(patterns)) for name, patterns in named if patterns)


class Matcher:
    """Tells whether a parameter's name is on a list of names and prefixes."""

    __slots__ = ("_names", "_prefixes")

    def __init__(self, patterns: tuple[str, ...]) -> None:
        self._names = frozenset(p for p in patterns if not p.endswith("*"))
        self._prefixes = tuple(p[:-1] for p in patterns if p.endswith("*"))

    def __call__(self, name: str) -> bool:
        """Whether the list has `name`; the empty name is on no list."""
        return bool(name) and (name in self._names or name.startswith(self._prefixes))


CONSERVATIVE = OriginRules()
"""Only what is provably equal."""

INDEX = OriginRules(
    tracking_params=(
        *("utm_*", "gclid", "gclsrc", "dclid", "gbraid", "wbraid", "gad_source", "gad_campaignid"),
        *("fbclid", "msclkid", "yclid", "ysclid", "twclid", "ttclid", "li_fat_id", "igshid", "igsh"),
        *("mc_cid", "mc_eid", "mkt_tok", "oly_anon_id", "oly_enc_id", "vero_id", "_openstat"),
        *("_hsenc", "_hsmi", "__hssc", "__hstc", "__hsfp", "hsCtaTracking", "_ga", "_gl"),
        *("pk_campaign", "pk_kwd", "pk_source", "pk_medium", "mtm_*", "piwik_*", "matomo_*", "rb_clickid"),
    ),
    query_order_insensitive=True,
)
"""What a search index usually wants (seeds 001 and 003): queries sorted, tracking stripped everywhere."""

PROFILES = {"conservative": CONSERVATIVE, "index": INDEX}
MERGING = frozenset(rule.value for rule in RuleName)
"""Names of the rules that merge further than the standards do."""
VALUES: dict[RuleName, tuple[str, ...]] = {
    RuleName.QUERY_ORDER: ("",),
    RuleName.SLASH: ("strip", "add"),
    RuleName.SCHEME: ("https", "http"),
    RuleName.CANONICAL: ("",),
}
"""Values of the rules that have only a few; those about a parameter have its name or `prefix*`."""
WITNESSES_ONE_IN = 64
_PARAMETER = re.compile(r"[^\x00-\x20&=#\x7f]{1,200}")


_NUMBERS = {rule: n for n, rule in enumerate(RuleName)}


def key_of(origin: bytes, rule: RuleName, value: str) -> bytes:
    """Key of a rule at an origin, in `url_rules`."""
    return origin + bytes((_NUMBERS[rule],)) + value.encode()


def bad_value(rule: RuleName, value: str) -> str:
    """What is wrong with a rule's value, for people; empty: nothing."""
    if rule in VALUES:
        wanted = " or ".join(VALUES[rule])
        if value in VALUES[rule]:
            return ""
        return f"{rule.value} takes {wanted or 'no value'}, not {value!r}"
    if value != "*" and _PARAMETER.fullmatch(value):
        return ""
    return f"{rule.value} takes the name of a parameter, or the beginning of one with a * behind it, not {value!r}"


def is_witness(url: str) -> bool:
    """Whether a URL stays its own where only learned rules would merge it: one in WITNESSES_ONE_IN, always the same."""
    return crc32(url.encode()) % WITNESSES_ONE_IN == 0


def composed(rules: Iterable[tuple[RuleName, str]], learned: Container[tuple[RuleName, str]] = ()) -> str:
    """An origin's own rules in force, as JSON: equal rules give equal text; empty: there are none. `learned`: which of them
    no operator has applied."""
    every = list(rules)
    fields = _fields(every)
    firm = [one for one in every if one not in learned]
    if len(firm) < len(every):
        fields["firm"] = _fields(firm)
    return msgspec.json.encode(fields, order="sorted").decode() if fields else ""


def _fields(rules: Iterable[tuple[RuleName, str]]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for rule, value in rules:
        if rule in (RuleName.TRACKING_PARAMS, RuleName.IGNORED_PARAMS):
            fields[rule.value] = sorted({*fields.get(rule.value, ()), value})
        elif rule is RuleName.QUERY_ORDER:
            fields["query_order_insensitive"] = True
        elif rule is not RuleName.CANONICAL:  # which says nothing about a URL alone
            fields[rule.value] = value
    return fields


@lru_cache(maxsize=8_192)
def effective(profile: str, own: str) -> OriginRules:
    """The rules in force at an origin: its own (JSON of `composed`) and those of the crawl's profile together."""
    base = PROFILES[profile]
    if not own:
        return base
    return _together(base, msgspec.json.decode(own, type=OriginRules))


def _together(base: OriginRules, ours: OriginRules) -> OriginRules:
    return OriginRules(
        tracking_params=tuple(dict.fromkeys((*base.tracking_params, *ours.tracking_params))),
        ignored_params=tuple(dict.fromkeys((*base.ignored_params, *ours.ignored_params))),
        query_order_insensitive=base.query_order_insensitive or ours.query_order_insensitive,
        slash=ours.slash if ours.slash != "keep" else base.slash,
        scheme=ours.scheme if ours.scheme != "keep" else base.scheme,
        firm=_together(base, ours.firm) if ours.firm is not None else None,
    )


def rules_of(described: object) -> OriginRules:
    """Rules from a profile's name or a JSON object of `OriginRules` fields. Raises ConfigError."""
    if isinstance(described, str):
        try:
            return PROFILES[described]
        except KeyError:
            raise ConfigError(f"no profile {described!r}: there are {', '.join(PROFILES)}") from None
    try:
        return msgspec.convert(described, OriginRules)
    except msgspec.ValidationError as error:
        raise ConfigError(f"rules: {error}") from None
