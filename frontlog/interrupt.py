"""Ctrl-C, in two steps: first finish what is in flight, then stop at once. SIGTERM is the first step.

A third Ctrl-C, or five seconds after the second, the process ends without further ado. That is safe: the
log and tables are one commit, and what was in flight is released at the next start.
"""

import os
import signal
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType

from frontlog.errors import STOPPED_NOW
from frontlog.streams.stop import NOW, StopSignal

GRACE_S = 5.0
FIRST = (
    "Stopping: nothing more is claimed, what is in flight is finished and stored. "
    "Press Ctrl-C again to stop at once."
)
SECOND = "Stopping at once: what was in flight is fetched again next time."


@contextmanager
def interrupts(stop: StopSignal, note: Callable[[str], None]) -> Generator[None]:
    """Let SIGINT and SIGTERM raise `stop` while a crawl runs; the handlers before are put back.

    Outside the main thread, where no handler can be set, it does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    timer = threading.Timer(GRACE_S, os._exit, (STOPPED_NOW,))
    timer.daemon = True

    def handle(number: int, frame: FrameType | None) -> None:
        if stop.is_now():
            os._exit(STOPPED_NOW)
        if number == signal.SIGTERM and stop.is_set():
            return  # a service manager may send it more than once; it is patient
        is_second = stop.request() >= NOW
        note(SECOND if is_second else FIRST)
        if is_second:
            timer.start()

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        timer.cancel()
        for number, handler in before.items():
            signal.signal(number, handler)
