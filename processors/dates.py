"""Dates that servers and files write, as ms since the epoch, UTC; None for what is no date.

Two families: the W3C profile of ISO 8601 (sitemaps, Atom), and what mail and HTTP made of RFC 822 (RSS,
`unavailable_after`): RFC 1123, RFC 850 and asctime forms. No clock is asked: a year of two digits is read
by the rule of RFC 5322 §4.3, 00 to 49 as 2000 to 2049.

Lenient where the instant stays plain: a W3C time without a zone counts as UTC, a space may stand for the
`T`, and names of days are not compared with the date. A month 13 or a 30 February is no date.
"""

import re

from frontlog.processors.retry_after import MONTHS, days_in, days_since_epoch

MINUTE_MS = 60_000
CHARACTERS_MAX = 64
"""Longer texts are no dates."""

_ZONE = r"(?P<z>z|[+-][0-9]{2}(?::?[0-9]{2})?)?"
_W3C = re.compile(
    r"(?P<y>[0-9]{4})(?:-(?P<m>[0-9]{2})(?:-(?P<d>[0-9]{2})"
    r"(?:(?:t| +)(?P<h>[0-9]{2}):(?P<min>[0-9]{2})(?::(?P<s>[0-9]{2})(?:[.,](?P<f>[0-9]+))?)? ?"
    + _ZONE
    + r")?)?)?"
)
_TIME = r"(?P<h>[0-9]{1,2}):(?P<min>[0-9]{2})(?::(?P<s>[0-9]{2})(?:\.[0-9]+)?)?"
_DAY, _MONTH, _YEAR = r"(?P<d>[0-9]{1,2})", r"(?P<m>[a-z]{3})[a-z]*\.?", r"(?P<y>[0-9]{4}|[0-9]{2})"
_MAIL = (
    re.compile(
        rf"(?:[a-z]{{2,9}}\.?,? +)?{_DAY}[ -]+{_MONTH}[ -]+{_YEAR}(?:,? +{_TIME} *(?P<z>[a-z]+|[+-][0-9]{{4}})?)?"
    ),
    re.compile(rf"(?:[a-z]{{3,9}},? +)?{_MONTH} +{_DAY} +{_TIME} +(?:(?P<z>[a-z]{{1,5}}) +)?{_YEAR}"),
)
_SPACE = re.compile(r"[ \t\r\n]+")
_HOURS = {"est": -5, "edt": -4, "cst": -6, "cdt": -5, "mst": -7, "mdt": -6, "pst": -8, "pdt": -7}
"""The zones with names of RFC 822; any other name says nothing and counts as UTC (RFC 5322 §4.3)."""


def w3c_ms(text: str) -> int | None:
    """`2024`, `2024-05`, `2024-05-17`, `2024-05-17T09:30+02:00`, with seconds and fractions or without.

    What is left out is the first of its kind: a year alone is the start of its 1 January.
    """
    match = _W3C.fullmatch(text.strip().lower()) if len(text) <= CHARACTERS_MAX else None
    if match is None:
        return None
    at_ms = _instant(match, int(match["y"]), int(match["m"] or 1))
    fraction: str | None = match["f"]
    return at_ms if at_ms is None or not fraction else at_ms + int(fraction[:3].ljust(3, "0"))


def mail_ms(text: str) -> int | None:
    """`Fri, 17 May 2024 09:30:00 GMT`, `Friday, 17-May-24 09:30:00 EST`, `17 May 2024`, and asctime's form."""
    if len(text) > CHARACTERS_MAX:
        return None
    plain = _SPACE.sub(" ", text.strip().lower())
    for form in _MAIL:
        match = form.fullmatch(plain)
        if match is not None and match["m"] in MONTHS:
            year = int(match["y"])
            year += (2000 if year < 50 else 1900) if len(match["y"]) == 2 else 0
            return _instant(match, year, MONTHS.index(match["m"]) + 1)
    return None


def date_ms(text: str) -> int | None:
    """A date of either family."""
    at_ms = w3c_ms(text)
    return mail_ms(text) if at_ms is None else at_ms


def _instant(match: re.Match[str], year: int, month: int) -> int | None:
    """The instant of what a form found, if it exists."""
    found_day, found_hour, found_minute, found_second, zone = match.group("d", "h", "min", "s", "z")
    day, hour = int(found_day or 1), int(found_hour or 0)
    minute, second = int(found_minute or 0), int(found_second or 0)
    offset = _offset_minutes(zone or "")
    exists = (
        1 <= month <= 12 and 1 <= day <= days_in(year, month) and hour < 24 and minute < 60 and second <= 60
    )
    if not exists or offset is None:
        return None
    minutes = (days_since_epoch(year, month, day) * 24 + hour) * 60 + minute - offset
    return minutes * MINUTE_MS + second * 1000


def _offset_minutes(zone: str) -> int | None:
    """Minutes east of UTC; None for an offset that no place has."""
    if not zone.startswith(("+", "-")):
        return 60 * _HOURS.get(zone, 0)
    hours, minutes = int(zone[1:3]), int(zone[3:].lstrip(":") or 0)
    if hours > 23 or minutes > 59:
        return None
    return (60 * hours + minutes) * (-1 if zone[0] == "-" else 1)
