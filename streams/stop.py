"""How a run is told to stop: first in order, then at once.

    0  go on
    1  claim nothing more, finish what is in flight, commit, close the archive, end
    2  end now: the log is whole as it stands, and leases in flight are released at the next start

The level only rises. `StopSignal` may be raised from a signal handler or another thread, so a
subscriber must do no more than wake its loop (`loop.call_soon_threadsafe`): a loop that sleeps in
`select` does not see a handler of Python's own (PEP 475 goes on sleeping).
"""

from collections.abc import Callable

FINISH = 1
NOW = 2


class StopSignal:
    """A level from 0 to 2 and those who want to know when it rises."""

    def __init__(self) -> None:
        self._level = 0
        self._subscribers: list[Callable[[int], None]] = []

    @property
    def level(self) -> int:
        """0: go on; 1: finish what is in flight; 2: end now."""
        return self._level

    def is_set(self) -> bool:
        """Whether nothing more may be claimed."""
        return self._level > 0

    def is_now(self) -> bool:
        """Whether not even what is in flight may be waited for."""
        return self._level >= NOW

    def request(self) -> int:
        """Raise the level by one, up to 2, and tell; returns the level that was reached."""
        self._level = min(NOW, self._level + 1)
        for subscriber in tuple(self._subscribers):
            subscriber(self._level)
        return self._level

    def subscribe(self, callback: Callable[[int], None]) -> Callable[[], None]:
        """Have `callback(level)` called at each rise; at once if it rose already. Returns what ends that."""
        self._subscribers.append(callback)
        if self._level:
            callback(self._level)

        def unsubscribe() -> None:
            if callback in self._subscribers:
                self._subscribers.remove(callback)

        return unsubscribe
