"""Retry-After (RFC 9110 §10.2.3) as a wait in ms, with every way in which servers get it wrong.

    value                                  wait
    "120", "120.5", " 120 "                that many seconds
    an HTTP date, any of its three forms   until then
    "0", "-5", a date that has passed      None: it must not switch the back-off off
    "", "soon", an impossible date         None
    a year, 10^30                          `ms_max`

None tells the caller to go on with its own back-off, which grows.
"""

import re

DAY_MS = 86_400_000
MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
SECONDS = re.compile(r"([0-9]{1,12})(?:\.([0-9]{1,3})[0-9]*)?")
SECONDS_ABSURD = re.compile(r"[0-9]{13,}(?:\.[0-9]*)?")
TIME = r"([0-9]{1,2}):([0-9]{2}):([0-9]{2})"
# RFC 9110 §5.6.7: IMF-fixdate, RFC 850 and asctime forms; names of days and zones are not checked
DAY, MONTH, YEAR = r"(?P<d>[0-9]{1,2})", r"(?P<m>[a-z]{3})", r"(?P<y>[0-9]{4}|[0-9]{2})"
DATES = (
    re.compile(rf"[a-z]{{3,9}},? +{DAY}[ -]{MONTH}[ -]{YEAR} +{TIME} *[a-z]*"),
    re.compile(rf"[a-z]{{3}} +{MONTH} +{DAY} +{TIME} +{YEAR}"),
)


def retry_after_ms(value: str, now_ms: int, ms_max: int = DAY_MS) -> int | None:
    """How long to wait, in ms: 1 to `ms_max`; None: nothing usable was said. `now_ms` dates the answer."""
    text = value.strip().lower()
    if SECONDS_ABSURD.fullmatch(text):
        return ms_max
    if seconds := SECONDS.fullmatch(text):
        wait_ms = int(seconds[1]) * 1000 + int((seconds[2] or "").ljust(3, "0"))
    else:
        at_ms = http_date_ms(text, now_ms)
        wait_ms = 0 if at_ms is None else at_ms - now_ms
    return min(wait_ms, ms_max) if wait_ms > 0 else None


def http_date_ms(text: str, now_ms: int) -> int | None:
    """An HTTP date in lower case as ms since the epoch, or None when it is none.

    A year of two digits that would lie more than 50 years ahead is of the last century (RFC 9110 §5.6.7).
    """
    for form in DATES:
        if date := form.fullmatch(text):
            break
    else:
        return None
    if date["m"] not in MONTHS:
        return None
    year, month, day = int(date["y"]), MONTHS.index(date["m"]) + 1, int(date["d"])
    if len(date["y"]) == 2:
        this_year = 1970 + now_ms // 31_556_952_000
        year += this_year // 100 * 100
        year -= 100 if year > this_year + 50 else 0
    hour, minute, second = (int(part) for part in re.findall(TIME, text)[0])
    if not (1 <= day <= days_in(year, month) and hour < 24 and minute < 60 and second <= 60):
        return None
    return ((days_since_epoch(year, month, day) * 24 + hour) * 60 + minute) * 60_000 + second * 1000


def days_in(year: int, month: int) -> int:
    """How many days a month of the Gregorian calendar has."""
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    return (31, 29 if leap else 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)[month - 1]


def days_since_epoch(year: int, month: int, day: int) -> int:
    """Days from 1970-01-01 to a date of the Gregorian calendar, years counted from March."""
    year -= month <= 2
    of_year = (153 * ((month - 3) % 12) + 2) // 5 + day - 1
    return year * 365 + year // 4 - year // 100 + year // 400 + of_year - 719_468
