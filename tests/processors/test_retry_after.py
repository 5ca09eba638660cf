"""Retry-After in both forms, and everything that is neither."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frontlog.processors.retry_after import DAY_MS, http_date_ms, retry_after_ms

NOW = datetime(2026, 11, 6, 8, 49, 37, tzinfo=UTC)
NOW_MS = int(NOW.timestamp() * 1000)


@pytest.mark.parametrize(
    ("value", "wait_ms"),
    [
        ("120", 120_000),
        (" 120\t", 120_000),
        ("1", 1_000),
        ("0.5", 500),
        ("1.0005", 1_000),
        ("00030", 30_000),
        ("86400", DAY_MS),
        ("86401", DAY_MS),
        ("31536000", DAY_MS),
        ("9" * 5_000, DAY_MS),
        ("Fri, 06 Nov 2026 08:50:37 GMT", 60_000),
        ("fri, 6 nov 2026 08:50:37 gmt", 60_000),
        ("Friday, 06-Nov-26 08:50:37 GMT", 60_000),
        ("Fri Nov  6 08:50:37 2026", 60_000),
        ("Fri, 06 Nov 2026 08:50:37 UTC", 60_000),
        ("Fri, 06 Nov 2026 08:50:37", 60_000),
        ("Fri, 06 Nov 9999 08:50:37 GMT", DAY_MS),
    ],
)
def test_usable(value: str, wait_ms: int) -> None:
    assert retry_after_ms(value, NOW_MS) == wait_ms


@pytest.mark.parametrize(
    "value",
    [
        "", "0", "0.0", "-1", "-120", "+5", "1e3", "soon", "120s", "٣", "1,5", "120, 120", "nan", "inf",
        "Fri, 06 Nov 2026 08:49:37 GMT",  # now
        "Sun, 06 Nov 1994 08:49:37 GMT",
        "Sunday, 06-Nov-94 08:49:37 GMT",  # 1994, not 2094
        "Fri, 31 Feb 2027 08:49:37 GMT",
        "Fri, 29 Feb 2100 08:49:37 GMT",
        "Fri, 06 Foo 2027 08:49:37 GMT",
        "Fri, 00 Nov 2027 08:49:37 GMT",
        "Fri, 06 Nov 2027 24:49:37 GMT",
        "Fri, 06 Nov 2027 08:61:37 GMT",
        "Fri, 06 Nov 2027 08:49:99 GMT",
        "Fri, 06 Nov 2027 08:49:37 +0100",
        "2027-11-06T08:49:37Z",
    ],
)  # fmt: skip
def test_unusable(value: str) -> None:
    assert retry_after_ms(value, NOW_MS) is None


def test_the_clamp_is_the_callers() -> None:
    assert retry_after_ms("7200", NOW_MS, 3_600_000) == 3_600_000
    assert retry_after_ms("60", NOW_MS, 3_600_000) == 60_000


@given(st.datetimes(min_value=datetime(1970, 1, 1), max_value=datetime(9999, 12, 31, 23, 59, 59)))
def test_dates_agree_with_the_calendar(when: datetime) -> None:
    when = when.replace(microsecond=0, tzinfo=UTC)
    expected = int(when.timestamp()) * 1000
    for form in ("%a, %d %b %Y %H:%M:%S GMT", "%a %b %e %H:%M:%S %Y"):
        text = when.strftime(form)
        if when.year < 1000:
            continue
        assert http_date_ms(text.lower(), NOW_MS) == expected


@given(st.text(), st.integers(0, 2**42), st.integers(1, 2**40))
def test_any_text_gives_none_or_a_wait_within_the_clamp(value: str, now_ms: int, ms_max: int) -> None:
    wait_ms = retry_after_ms(value, now_ms, ms_max)
    assert wait_ms is None or 1 <= wait_ms <= ms_max
