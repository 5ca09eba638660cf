"""The rules of identity of an origin, written down a second time: which identity stands for another (seed 000, chapter 3).

It starts from what the standards make of a URL, which the log holds; how they come to that is not looked at again. It
shares no code with `processors/url_rules.py` and `canonical.py`, but that the lists of the profile `index` are data there
and here, and a test compares them.
"""

from functools import lru_cache
from typing import NamedTuple
from zlib import crc32

_TRACKING = """
utm_* gclid gclsrc dclid gbraid wbraid gad_source gad_campaignid fbclid msclkid yclid ysclid twclid ttclid li_fat_id
igshid igsh mc_cid mc_eid mkt_tok oly_anon_id oly_enc_id vero_id _openstat _hsenc _hsmi __hssc __hstc __hsfp
hsCtaTracking _ga _gl pk_campaign pk_kwd pk_source pk_medium mtm_* piwik_* matomo_* rb_clickid
"""
TRACKING_EVERYWHERE = tuple(_TRACKING.split())
IDENTITY_CHARACTERS_MAX = 2_048
WITNESSES_ONE_IN = 64


class InForce(NamedTuple):
    """What holds at an origin: parameters that are dropped, whether the rest is sorted, the forms that are wanted."""

    tracking: frozenset[str] = frozenset()
    ignored: frozenset[str] = frozenset()
    sort: bool = False
    slash: str = ""
    scheme: str = ""


@lru_cache(maxsize=4_096)
def in_force(profile: str, applied: tuple[tuple[int, str, str], ...] = ()) -> InForce:
    """What holds under a profile and an origin's applied rules, each (seq, rule, value)."""
    index = profile == "index"
    tracking = set[str](TRACKING_EVERYWHERE if index else ())
    ignored = set[str]()
    sort, slash, scheme = index, "", ""
    for _, rule, value in sorted(applied):
        if rule == "tracking_params":
            tracking.add(value)
        elif rule == "ignored_params":
            ignored.add(value)
        elif rule == "query_order":
            sort = True
        elif rule == "slash":
            slash = value
        elif rule == "scheme":
            scheme = value
    return InForce(frozenset(tracking), frozenset(ignored), sort, slash, scheme)


def _listed(parameter: str, patterns: frozenset[str]) -> bool:
    name = parameter.split("=", 1)[0]
    if not name:
        return False
    return any(name.startswith(one[:-1]) if one.endswith("*") else name == one for one in patterns)


def stands_for(url: str, rules: InForce, firm: InForce | None = None) -> tuple[str, tuple[str, ...]]:
    """(identity that stands for a URL, rules that say so); the URL itself and nothing when none does. `firm`: what holds
    without the rules that were only learned."""
    if firm is not None and crc32(url.encode()) % WITNESSES_ONE_IN == 0 and stands_for(url, firm)[0] == url:
        return url, ()
    if rules == InForce():
        return url, ()
    fired: list[str] = []
    before, _, query = url.partition("?")
    start = before.index("/", before.index("://") + 3)
    front, path = before[:start], before[start:]
    parts = query.split("&") if query else []
    for rule, patterns in (("tracking_params", rules.tracking), ("ignored_params", rules.ignored)):
        left = [part for part in parts if not _listed(part, patterns)]
        if len(left) != len(parts):
            fired.append(rule)
        parts = left
    if rules.sort:
        ordered = sorted(
            parts, key=lambda part: (part.partition("=")[0], part.partition("=")[2], "=" in part)
        )
        if ordered != parts:
            fired.append("query_order")
        parts = ordered
    bare = path.rstrip("/")
    if rules.slash == "strip" and bare and path == bare + "/":
        path = bare
        fired.append("slash")
    elif rules.slash == "add" and not path.endswith("/") and "." not in path.rsplit("/", 1)[1]:
        path += "/"
        fired.append("slash")
    scheme, _, authority = front.partition("://")
    stated = ":" in authority.rpartition("]")[2]
    if rules.scheme and scheme != rules.scheme and not stated:
        front = f"{rules.scheme}://{authority}"
        fired.append("scheme")
    joined = "&".join(parts)
    found = front + path + (f"?{joined}" if joined else "")
    if found == url or len(found) > IDENTITY_CHARACTERS_MAX:
        return url, ()
    return found, tuple(fired)
