"""The owner's clock (DESIGN §3): wall time at start, then monotonic, slewed toward wall time by at most 1 %.

So a step of the system's clock never moves ours by a step, and after a start gaps run on the monotonic clock:
no clock step shortens one.
"""

import threading
import time
from collections.abc import Callable
from typing import Protocol

from frontlog.avro.errors import ConfigError

SLEW = 0.01
BEHIND_MS_MAX = 5_000
"""How far an owner's clock may be behind the log's last time at start."""


class Clock(Protocol):
    """Milliseconds since the epoch, UTC; never goes backwards."""

    def now_ms(self) -> int: ...


class OwnClock(Clock, Protocol):
    """The clock of a process that owns a crawl."""

    def not_before(self, at_ms: int) -> None:
        """Go on from `at_ms`, if that is ahead: what the log says has happened."""
        ...


class SystemClock:
    """The real one. `monotonic` and `wall` give seconds; they are the system's outside of tests."""

    def __init__(
        self, monotonic: Callable[[], float] = time.monotonic, wall: Callable[[], float] = time.time
    ) -> None:
        self._lock = threading.Lock()
        self._monotonic, self._wall = monotonic, wall
        self._mono = monotonic()
        self._at = wall()

    def now_ms(self) -> int:
        with self._lock:
            mono = self._monotonic()
            passed = mono - self._mono
            ours = self._at + passed
            drift = self._wall() - ours
            limit = SLEW * passed
            if drift > limit:
                drift = limit
            elif drift < -limit:
                drift = -limit
            self._mono, self._at = mono, ours + drift
            return int(self._at * 1_000)

    def not_before(self, at_ms: int) -> None:
        """Go on from `at_ms`, if that is ahead. A fetcher whose clock is behind the log's would end requests in its past,
        where their gaps are over already."""
        with self._lock:
            self._at = max(self._at, at_ms / 1_000)


def check_clock(now_ms: int, log_ms: int, where: str) -> None:
    """Refuse to start with a clock behind the log; raises ConfigError naming both times."""
    if now_ms < log_ms - BEHIND_MS_MAX:
        raise ConfigError(
            f"{where}: this machine's clock says {_text(now_ms)}, the log's last entry is of {_text(log_ms)}; "
            "set the clock right, then start again"
        )


def _text(at_ms: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at_ms / 1_000))
