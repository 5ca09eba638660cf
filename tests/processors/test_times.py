"""Times as text, held against the standard library."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frontlog.processors.times import rfc3339

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FIRST_MS = int((datetime(1, 1, 1, tzinfo=UTC) - EPOCH).total_seconds()) * 1_000
LAST_MS = int((datetime(9999, 12, 31, tzinfo=UTC) - EPOCH).total_seconds()) * 1_000


@pytest.mark.parametrize(
    ("at_ms", "text"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (-1, "1969-12-31T23:59:59.999Z"),
        (951_782_400_000, "2000-02-29T00:00:00.000Z"),
        (4_107_542_399_999, "2100-02-28T23:59:59.999Z"),
        (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
        (1_790_000_000_123, "2026-09-21T14:13:20.123Z"),
    ],
)
def test_known_times(at_ms: int, text: str) -> None:
    assert rfc3339(at_ms) == text


@given(st.integers(FIRST_MS, LAST_MS))
def test_any_time_is_what_datetime_says(at_ms: int) -> None:
    at = EPOCH + timedelta(milliseconds=at_ms)
    assert rfc3339(at_ms) == f"{at:%Y-%m-%dT%H:%M:%S}.{at_ms % 1_000:03}Z".zfill(24)
