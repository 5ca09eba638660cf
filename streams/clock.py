"""The owner's clock (DESIGN §3): wall time at start, then monotonic, slewed toward wall time by at most 1 %.

So a step of the system's clock never moves ours by a step, and after a start gaps run on the monotonic clock:
no clock step shortens one.
"""

import threading
import time
from typing import Protocol

from frontlog.avro.errors import ConfigError

SLEW = 0.01
BEHIND_MS_MAX = 5_000
"""How far an owner's clock may be behind the log's last time at start."""


class Clock(Protocol):
    """Milliseconds since the epoch, UTC; never goes backwards."""

    def now_ms(self) -> int: ...


class SystemClock:
    """The real one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._mono = time.monotonic()
        self._at = time.time()

    def now_ms(self) -> int:
        with self._lock:
            mono = time.monotonic()
            passed = mono - self._mono
            ours = self._at + passed
            drift = time.time() - ours
            limit = SLEW * passed
            self._mono, self._at = mono, ours + max(-limit, min(limit, drift))
            return int(self._at * 1_000)


def check_clock(now_ms: int, log_ms: int, where: str) -> None:
    """Refuse to start with a clock behind the log; raises ConfigError naming both times."""
    if now_ms < log_ms - BEHIND_MS_MAX:
        raise ConfigError(
            f"{where}: this machine's clock says {_text(now_ms)}, the log's last entry is of {_text(log_ms)}; "
            "set the clock right, then start again"
        )


def _text(at_ms: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at_ms / 1_000))
