"""Traps: URLs of which there is no end, told by their form or their number (seed 002, §7.6; seed 001).

Each rule has a reason of its own. The first five look at the URL alone, the last at how many the origin has like it:

| reason | refused |
|---|---|
| `trap_parameters` | more than `traps.parameters_max` parameters |
| `trap_depth` | more than `traps.segments_max` path segments |
| `trap_repetition` | a run of up to six path segments that comes more than `traps.repeats_max` times in a row |
| `trap_encoding` | an escape that was escaped more than `traps.escapes_max` times (`%2520` once, `%252520` twice) |
| `trap_calendar` | a date more than `traps.days_ahead_max` days ahead |
| `trap_pattern` | a pattern that `traps.pattern_urls_max` URLs of its origin have, `traps.query_urls_max` with a query |

A pattern is the path with numbers and long hexadecimal runs as `#`, and the names of the parameters. Patterns are counted
once an origin has COUNTED_FROM URLs, so that a small one costs nothing; where a limit is smaller than that, from the first
on. What is refused is BLOCKED, so it can be listed and
readmitted; an operator may lift rules for a host. Judged is a URL that was never fetched, when it is found or when policy
changes. What a person asks for is never a trap, nor is for its number what a sitemap lists.
"""

import re
from collections.abc import Callable
from functools import lru_cache
from hashlib import blake2b
from typing import NamedTuple

from msgspec.structs import replace

from frontlog.avro.enums import Reason, SourceKind
from frontlog.processors.retry_after import days_since_epoch
from frontlog.processors.settings import Traps, decode
from frontlog.processors.sites import split_origin
from frontlog.processors.times import rfc3339
from frontlog.state import keys
from frontlog.state.rows import HostRow, OriginRow, PatternRow
from frontlog.state.tables import Tables

R = Reason
REASONS = (
    R.TRAP_PARAMETERS, R.TRAP_DEPTH, R.TRAP_REPETITION, R.TRAP_ENCODING, R.TRAP_CALENDAR, R.TRAP_PATTERN,
)  # fmt: skip
NAMES = tuple(reason.value for reason in REASONS)
COUNTED_FROM = 1_000
"""URLs that an origin has before its patterns are counted: a pattern may come to so many more than its limit, if that is
no smaller."""
RUN_SEGMENTS_MAX = 6
# To hash a member of an enum, or to look one up in its class, takes longer than most of what follows.
_SEED, _OPERATOR, _SITEMAP_FILE, _SITEMAP = (
    SourceKind.SEED, SourceKind.OPERATOR, SourceKind.SITEMAP_FILE, SourceKind.SITEMAP,
)  # fmt: skip
DAY_MS = 86_400_000
_PATTERN_ID_BYTES = 12
_VARIABLE = re.compile(r"[0-9A-Fa-f]{8,}+|[0-9]++")
_ESCAPED = re.compile(r"%(?:25)+(?=[0-9A-Fa-f]{2})")
# Calendars lead on month by month, so the two next centuries do; larger numbers are models and prices.
_DATE = re.compile(
    r"(?<![0-9])(2[01][0-9]{2})(?:-([01][0-9])(?:-([0-3][0-9]))?|/([01]?[0-9])(?:/([0-3]?[0-9]))?)(?![0-9])"
)
# Atomic groups: a name with a thousand "day" in it is read once.
_COMPACT = re.compile(
    r"&(?>[^=&]*?(?:date|day))[^=&]*+=(2[01][0-9]{2})([01][0-9])([0-3][0-9])(?![0-9])", re.IGNORECASE
)
_PARAMETER_YEAR = re.compile(r"&(?:(?>[^=&]*?year)[^=&]*+|y)=(2[01][0-9]{2})(?![0-9])", re.IGNORECASE)
_PARAMETER_MONTH = re.compile(
    r"&(?:(?>[^=&]*?(?:month|week|day))[^=&]*+|m|d)=([0-9]{1,2})(?![0-9])", re.IGNORECASE
)


class Trap(NamedTuple):
    """Why a URL is taken for a trap."""

    reason: Reason
    detail: str


def judge(
    view: Tables,
    rules: Traps,
    host: HostRow | None,
    origin: OriginRow | None,
    url: str,
    kind: SourceKind,
    now_ms: int,
) -> Trap | None:
    """Whether a URL of an origin is a trap now; None: it is none."""
    if kind is _SEED or kind is _OPERATOR or kind is _SITEMAP_FILE:
        return None
    found = of_form(rules, url, now_ms)
    if found is None and kind is not _SITEMAP:
        limit = rules.query_urls_max if "?" in url else rules.pattern_urls_max
        if limit and (limit < COUNTED_FROM or (origin is not None and origin.known >= COUNTED_FROM)):
            found = _of_number(view, limit, url)
    if found is None:
        return None
    return None if host is not None and found.reason.value in host.lifted else found


def of_form(rules: Traps, url: str, now_ms: int) -> Trap | None:
    """Whether a URL is a trap by its form alone. A limit of 0 is none."""
    front, mark, query = url.partition("?")
    if mark and 0 < rules.parameters_max <= (ampersands := query.count("&")):
        return Trap(R.TRAP_PARAMETERS, f"{ampersands + 1} parameters")
    count = front.count("/") - 2
    if 0 < rules.segments_max < count:
        return Trap(R.TRAP_DEPTH, f"{count} segments")
    if 0 < rules.repeats_max < count:  # fewer can't come so often
        segments = front.split("/")[3:]
        seldom = len(set(segments)) > count - rules.repeats_max  # so many more of them are needed
        run = None if seldom else _repeated(segments, rules.repeats_max)
        if run is not None:
            return Trap(R.TRAP_REPETITION, f"/{run} comes more than {rules.repeats_max} times in a row")
    if "%25" in url and rules.escapes_max:
        deepest = max((len(one) for one in _ESCAPED.findall(url)), default=0) // 2
        if deepest > rules.escapes_max:
            return Trap(R.TRAP_ENCODING, f"an escape that was escaped {deepest} times")
    if rules.days_ahead_max:
        latest = now_ms // DAY_MS + rules.days_ahead_max
        if _year_from(latest)(url):
            return _calendar(url, latest)
    return None


@lru_cache(maxsize=16)
def _year_from(day: int) -> Callable[[str], re.Match[str] | None]:
    """Finds the year of a day, counted from 1970-01-01, or a later one; no earlier year has a later date than that day.
    With more before it than a year may have: the others look closer."""
    year = int(rfc3339(day * DAY_MS)[:4])
    tens = [
        f"{year // 10 % 10}[{year % 10}-9]",
        *([f"[{year // 10 % 10 + 1}-9][0-9]"] if year // 10 % 10 < 9 else []),
    ]
    later = {20: f"2(?:0(?:{'|'.join(tens)})|1[0-9]{{2}})", 21: f"21(?:{'|'.join(tens)})"}
    return re.compile(later.get(year // 100, "2[01][0-9]{2}" if year < 2_000 else "(?!)")).search


def _repeated(segments: list[str], repeats_max: int) -> str | None:
    """The first run of segments that comes too often in a row; None: none does."""
    for size in range(1, RUN_SEGMENTS_MAX + 1):
        same = 0
        for at in range(size, len(segments)):
            same = same + 1 if segments[at] == segments[at - size] else 0
            if same >= size * repeats_max:
                return "/".join(segments[at - size + 1 : at + 1])
    return None


def _calendar(url: str, latest: int) -> Trap | None:
    """A date that is too far ahead; one that is no date of a calendar is none here."""
    dates = [(int(y), int(m or n), int(d or e or 1)) for y, m, d, n, e in _DATE.findall(url)]
    if "?" in url:
        query = f"&{url.partition('?')[2]}"
        dates += [(int(y), int(m), int(d)) for y, m, d in _COMPACT.findall(query)]
        year, month = _PARAMETER_YEAR.search(query), _PARAMETER_MONTH.search(query)
        if year is not None and month is not None:
            dates.append((int(year[1]), 1, 1))
    for y, m, d in dates:
        if 1 <= m <= 12 and 1 <= d <= 31 and days_since_epoch(y, m, d) > latest:
            return Trap(R.TRAP_CALENDAR, f"the date {y}-{m:02}-{d:02}")
    return None


# --- patterns ----------------------------------------------------------------------------------------------------


@lru_cache(maxsize=1_024)
def pattern_of(url: str) -> str:
    """The pattern of a URL, without its origin."""
    front, mark, query = url[url.index("/", 8) :].partition("?")
    path = _VARIABLE.sub("#", front)
    return f"{path}?{'&'.join([one.partition('=')[0] for one in query.split('&')])}" if mark else path


def _key(origin: bytes, pattern: str) -> bytes:
    return origin + blake2b(pattern.encode(), digest_size=_PATTERN_ID_BYTES).digest()


def _of_number(view: Tables, limit: int, url: str) -> Trap | None:
    pattern = pattern_of(url)
    row = view.patterns.get(_key(keys.origin_id(split_origin(url)[0]), pattern))
    if row is None or row.urls < limit:
        return None
    return Trap(R.TRAP_PATTERN, f"{row.urls} URLs like {pattern}")


def are_counted(tables: Tables, known: int) -> bool:
    """Whether the patterns of an origin that has so many URLs are counted by now."""
    return known >= COUNTED_FROM or _from_the_first(tables.crawl.settings)


@lru_cache(maxsize=16)
def _from_the_first(settings: str) -> bool:
    rules = decode(settings).traps if settings else Traps()
    return any(0 < limit < COUNTED_FROM for limit in (rules.pattern_urls_max, rules.query_urls_max))


def count(tables: Tables, origin_id: bytes, url: str) -> None:
    """Count a URL that may be fetched: part of the fold of the decision that admits it."""
    pattern = pattern_of(url)
    key = _key(origin_id, pattern)
    row = tables.patterns.get(key) or PatternRow(pattern=pattern)
    tables.patterns.put(key, replace(row, urls=row.urls + 1))
