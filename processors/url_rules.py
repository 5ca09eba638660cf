"""The rules by which an origin's URLs may be merged further than the standards allow, and two profiles.

What follows from the URL standards is done for every URL (`canonical.py`). What stands here is policy: it
is true of some servers only, so it holds for the origins whose policy says so, or everywhere under a
profile that a user chose (seed 000, chapter 3; DESIGN §8).
"""

from functools import cached_property
from typing import Literal

import msgspec

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
