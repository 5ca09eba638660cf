"""Many deadlines under one timer of the loop.

Nearly everything that is timed here ends long before its time, so a timer for each would be made and cancelled for
nothing. The timer is set for the earliest deadline that was known when it was set; when it rings, whoever is due is told,
and it is set again for the earliest that is left.
"""

import asyncio
import math
from typing import Protocol


class Timed(Protocol):
    """What has a deadline: `due_s` is of the loop's clock, in seconds."""

    due_s: float

    def ring(self) -> None:
        """Its time is over. It is not waited for any more."""
        ...


class Deadlines:
    """Those that wait, in the order in which they came. Used from one event loop."""

    def __init__(self) -> None:
        """Nobody waits."""
        self._waiting: dict[Timed, None] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._at_s = math.inf

    def add(self, one: Timed) -> None:
        """Ring it when it is due, unless it is removed before."""
        self._waiting[one] = None
        if one.due_s < self._at_s:
            self._set(one.due_s)

    def sooner(self, due_s: float) -> None:
        """The deadline of one that waits came nearer; one that moves away needs nothing."""
        if due_s < self._at_s:
            self._set(due_s)

    def remove(self, one: Timed) -> None:
        """It came to its end in time, or is not there."""
        self._waiting.pop(one, None)

    def _set(self, due_s: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._at_s = due_s
        self._timer = asyncio.get_running_loop().call_at(due_s, self._ring)

    def _ring(self) -> None:
        now_s = max(
            self._at_s, asyncio.get_running_loop().time()
        )  # a loop may be early by its clock's resolution
        self._timer, self._at_s = None, math.inf
        for one in [one for one in self._waiting if one.due_s <= now_s]:
            del self._waiting[one]
            one.ring()
        if self._waiting:
            self.sooner(min(one.due_s for one in self._waiting))
