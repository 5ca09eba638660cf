"""The owner's clock: steps of the system's clock, slewing, and going on from the log."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frontlog.avro.errors import ConfigError
from frontlog.streams.clock import BEHIND_MS_MAX, SLEW, SystemClock, check_clock


class Times:
    """Monotonic and wall time that a test moves."""

    def __init__(self) -> None:
        self.mono, self.wall = 100.0, 1_790_000_000.0

    def clock(self) -> SystemClock:
        return SystemClock(lambda: self.mono, lambda: self.wall)

    def passes(self, seconds: float, step: float = 0.0) -> None:
        self.mono += seconds
        self.wall += seconds + step


def test_it_starts_with_wall_time_and_goes_on_with_it() -> None:
    times = Times()
    clock = times.clock()
    assert clock.now_ms() == 1_790_000_000_000
    times.passes(1.5)
    assert clock.now_ms() == 1_790_000_001_500


@pytest.mark.parametrize("step", [3_600.0, -3_600.0, 86_400.0, -1e9])
def test_a_step_of_the_systems_clock_moves_it_by_a_hundredth_of_the_time_at_most(step: float) -> None:
    times = Times()
    clock = times.clock()
    times.passes(10, step)
    assert abs(clock.now_ms() - 1_790_000_010_000) <= 100
    for _ in range(10):
        before = clock.now_ms()
        times.passes(1)
        assert 989 <= clock.now_ms() - before <= 1_011


def test_a_small_drift_is_made_up_for() -> None:
    times = Times()
    clock = times.clock()
    times.passes(1, 0.05)
    for _ in range(10):
        times.passes(1)
        clock.now_ms()
    assert abs(clock.now_ms() - times.wall * 1_000) <= 1


@given(st.lists(st.tuples(st.floats(0, 100), st.floats(-1e6, 1e6)), max_size=30))
def test_it_never_goes_back_nor_runs_away(moves: list[tuple[float, float]]) -> None:
    times = Times()
    clock = times.clock()
    for seconds, step in moves:
        before = clock.now_ms()
        times.passes(seconds, step)
        passed = clock.now_ms() - before
        assert seconds * (1 - SLEW) * 1_000 - 1 <= passed <= seconds * (1 + SLEW) * 1_000 + 1


def test_it_goes_on_from_the_log() -> None:
    times = Times()
    clock = times.clock()
    clock.not_before(1_790_000_004_000)
    assert clock.now_ms() == 1_790_000_004_000
    clock.not_before(0)
    assert clock.now_ms() == 1_790_000_004_000
    times.passes(1)
    assert 1_790_000_004_989 <= clock.now_ms() <= 1_790_000_005_000


@pytest.mark.parametrize(
    ("behind_ms", "refused"), [(0, False), (BEHIND_MS_MAX, False), (BEHIND_MS_MAX + 1, True), (-9, False)]
)
def test_a_clock_behind_the_log_is_refused(behind_ms: int, refused: bool) -> None:
    log_ms = 1_790_000_000_000
    if not refused:
        check_clock(log_ms - behind_ms, log_ms, "frontier-0")
        return
    with pytest.raises(ConfigError, match=r"frontier-0: .*2026-09-21T14:13:14Z.*2026-09-21T14:13:20Z"):
        check_clock(log_ms - behind_ms, log_ms, "frontier-0")
