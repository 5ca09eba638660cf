"""Traps, worked out a second time: which form of a URL has no end, and the pattern that it is counted under.

Source: docs/identity.md. It reads a URL in another way than `processors/traps.py`: character by character and part by part,
where that has patterns for the whole. A test compares them on generated URLs.
"""

from collections.abc import Iterator
from datetime import date, timedelta
from typing import NamedTuple

_DIGITS = frozenset("0123456789")
_HEX = frozenset("0123456789abcdefABCDEF")
_EPOCH = date(1970, 1, 1)
_DAY_MS = 86_400_000


class Limits(NamedTuple):
    """The settings of section `traps`; 0: a rule is off."""

    parameters_max: int = 16
    segments_max: int = 32
    repeats_max: int = 3
    escapes_max: int = 1
    days_ahead_max: int = 730
    pattern_urls_max: int = 20_000
    query_urls_max: int = 5_000


def form(url: str, limits: Limits, now_ms: int) -> str:
    """The reason for which a URL is a trap by its form; empty: none."""
    path, query = parts(url)
    if limits.parameters_max and query is not None and len(query.split("&")) > limits.parameters_max:
        return "trap_parameters"
    segments = path[1:].split("/")
    if limits.segments_max and len(segments) > limits.segments_max:
        return "trap_depth"
    if limits.repeats_max and _in_a_row(segments) > limits.repeats_max:
        return "trap_repetition"
    if limits.escapes_max and _nested(url) > limits.escapes_max:
        return "trap_encoding"
    if limits.days_ahead_max:
        latest = _EPOCH + timedelta(days=now_ms // _DAY_MS + limits.days_ahead_max)
        whole = url if query is None else f"{url.partition('?')[0]}?{query}"
        dates = [*_dates(whole), *_dates_of_parameters(query or "")]
        if any(_later(one, latest) for one in dates):
            return "trap_calendar"
    return ""


def parts(url: str) -> tuple[str, str | None]:
    """(path, query) of an absolute URL without a fragment; None: it has no `?`."""
    rest = url.split("//", 1)[1]
    path, mark, query = rest[rest.index("/") :].partition("?")
    return path, query if mark else None


def host(url: str) -> str:
    """The host of an absolute URL."""
    authority = url.split("//", 1)[1].split("/", 1)[0].rpartition("@")[2]
    return authority if authority.endswith("]") else authority.rsplit(":", 1)[0]


def _in_a_row(segments: list[str]) -> int:
    """How often the run of up to six segments that is repeated most comes in a row."""
    most = 1
    for size in range(1, 7):
        for start in range(len(segments) - size):
            run, times = segments[start : start + size], 1
            while segments[start + times * size : start + (times + 1) * size] == run:
                times += 1
            most = max(most, times)
    return most


def _nested(url: str) -> int:
    """How often the escape that was escaped most was escaped."""
    most = 0
    for piece in url.split("%")[1:]:
        times = 0
        while piece[2 * times : 2 * times + 2] == "25":
            times += 1
        # the last 25 may be the escape itself, of a percent sign with two digits behind it or not
        while times and not (len(piece) >= 2 * times + 2 and set(piece[2 * times : 2 * times + 2]) <= _HEX):
            times -= 1
        most = max(most, times)
    return most


def _runs(text: str) -> Iterator[tuple[int, str]]:
    """(place, digits) of each run of digits."""
    at = 0
    while at < len(text):
        if text[at] in _DIGITS:
            end = at
            while end < len(text) and text[end] in _DIGITS:
                end += 1
            yield at, text[at:end]
            at = end
        else:
            at += 1


def _year(digits: str) -> bool:
    return len(digits) == 4 and digits[:2] in ("20", "21")


def _dates(text: str) -> Iterator[tuple[int, int, int]]:
    """Dates as 2031-05-01, 2031-05, 2031/5/1 or 2031/5: runs of digits with one separator between them."""
    runs = list(_runs(text))
    for n, (at, digits) in enumerate(runs[:-1]):
        separator = text[at + 4 : at + 5]
        if not _year(digits) or separator not in ("-", "/"):
            continue
        place, month = runs[n + 1]
        if place != at + 5 or not _fits(month, separator, 1):
            continue
        following = place + len(month)
        day = "1"
        if n + 2 < len(runs) and runs[n + 2][0] == following + 1 and text[following] == separator:
            found = runs[n + 2][1]
            if _fits(found, separator, 3):
                day = found
        yield int(digits), int(month), int(day)


def _fits(digits: str, separator: str, first_max: int) -> bool:
    """Whether digits may be a month (first digit up to 1) or day (up to 3): two of them, with slashes one will do."""
    if len(digits) == 2:
        return int(digits[0]) <= first_max
    return separator == "/" and len(digits) == 1


def _dates_of_parameters(query: str) -> Iterator[tuple[int, int, int]]:
    """Dates that parameters say: date=20310501, or a year and a month, week or day."""
    years: list[str] = []
    smaller = False
    for one in query.split("&") if query else ():
        name, equals, value = one.partition("=")
        name = name.lower()
        if not equals:
            continue
        digits = value[: next((n for n, c in enumerate(value) if c not in _DIGITS), len(value))]
        compact = len(digits) == 8 and _year(digits[:4]) and digits[4] in "01" and digits[6] in "0123"
        if compact and ("date" in name or "day" in name):
            yield int(digits[:4]), int(digits[4:6]), int(digits[6:])
        if ("year" in name or name == "y") and _year(digits):
            years.append(digits)
        if (any(word in name for word in ("month", "week", "day")) or name in ("m", "d")) and 0 < len(
            digits
        ) < 3:
            smaller = True
    if years and smaller:
        yield int(years[0]), 1, 1


def _later(found: tuple[int, int, int], latest: date) -> bool:
    year, month, day = found
    if not (1 <= month <= 12 and 1 <= day <= 31):
        return False
    # a 30 February is two days behind the 28th, as a calendar that counts on would have it
    return date(year, month, 1) + timedelta(days=day - 1) > latest


def pattern(url: str) -> str:
    """What URLs of an origin that look alike have in common."""
    path, query = parts(url)
    out: list[str] = []
    at = 0
    while at < len(path):
        end = at
        while end < len(path) and path[end] in _HEX:
            end += 1
        if end - at >= 8:
            out.append("#")
            at = end
        elif path[at] in _DIGITS:
            end = at
            while end < len(path) and path[end] in _DIGITS:
                end += 1
            out.append("#")
            at = end
        else:
            out.append(path[at])
            at += 1
    names = "" if query is None else "?" + "&".join(one.partition("=")[0] for one in query.split("&"))
    return "".join(out) + names
