"""Dates of sitemaps, feeds and robots meta directives."""

import datetime as dt
from email.utils import format_datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from frontlog.processors.dates import date_ms, mail_ms, w3c_ms

MAY_17_MS = 1_715_931_000_000


@pytest.mark.parametrize(
    ("text", "at_ms"),
    [
        ("2024", 1_704_067_200_000),
        ("2024-05", 1_714_521_600_000),
        ("2024-05-17", 1_715_904_000_000),
        ("2024-02-29", 1_709_164_800_000),
        ("2024-05-17T07:30Z", MAY_17_MS),
        (" 2024-05-17t09:30:00+02:00\n", MAY_17_MS),
        ("2024-05-17T09:30:00+0200", MAY_17_MS),
        ("2024-05-17T00:00:00-07:30", MAY_17_MS),
        ("2024-05-17 07:30:00", MAY_17_MS),
        ("2024-05-17T07:30:00.12345Z", MAY_17_MS + 123),
        ("1969-12-31T23:59:59Z", -1_000),
    ],
)
def test_w3c_forms(text: str, at_ms: int) -> None:
    assert w3c_ms(text) == date_ms(text) == at_ms


@pytest.mark.parametrize(
    "text",
    [
        "Fri, 17 May 2024 07:30:00 GMT",
        "Friday, 17-May-24 07:30:00 GMT",
        "Fri May 17 07:30:00 2024",
        "Fri May 17 03:30:00 EDT 2024",
        "17 May 2024 07:30 UT",
        "fri,  17 may 2024\n 09:30:00 +0200",
        "17-May-2024 02:30:00 EST",
        "17 May 2024 07:30:00 XYZ",
    ],
)
def test_forms_of_mail_and_http(text: str) -> None:
    assert mail_ms(text) == date_ms(text) == MAY_17_MS


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            "soon",
            "2024-13-01",
            "2024-02-30",
            "2023-02-29",
            "2024-5-1",
            "2024-05-17T25:00Z",
            "2024-05-17T07:61Z",
        ),
        *(
            "2024-05-17T07:30+99:00",
            "17.05.2024",
            "05/17/2024",
            "31 Feb 2024",
            "17 Foo 2024",
            "0 May 2024",
            "1715931000",
        ),
        *(
            "20240517",
            "2024-05-17T",
            "2024-05-17T07",
            "٢٠٢٤",
            "9" * 100,
            "2024-00-01",
            "17 May 2024 07:30 +9900",
        ),
    ],
)
def test_what_is_no_date(text: str) -> None:
    assert date_ms(text) is None


@settings(deadline=None)
@given(st.datetimes(dt.datetime(1900, 1, 1), dt.datetime(2200, 1, 1)), st.integers(-14 * 60, 14 * 60))
def test_dates_that_others_write(when: dt.datetime, minutes: int) -> None:
    zone = dt.timezone(dt.timedelta(minutes=minutes))
    when = when.replace(microsecond=when.microsecond // 1000 * 1000, tzinfo=zone)
    at_ms = (when - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) // dt.timedelta(milliseconds=1)
    assert w3c_ms(when.isoformat()) == at_ms
    assert mail_ms(format_datetime(when)) == at_ms // 1000 * 1000


@settings(deadline=None)
@given(st.text(alphabet="0123456789 -:tTzZ+.,mayJun", max_size=70))
def test_no_text_raises(text: str) -> None:
    assert isinstance(date_ms(text), int | None)
