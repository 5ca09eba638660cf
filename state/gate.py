"""Who is inside the stores of this process: one writer and counted readers each, each folder once.

LMDB has no protection of its own against two mistakes: a thread that begins a second write
transaction waits for itself for ever, and a map that is resized under an open transaction takes
the memory away from under it. The gate refuses the first and makes room for the second:
`alone` waits until nobody is inside and keeps everybody out while its block runs. The registry
refuses a third: a folder that is opened a second time shares its locks with the first, and the
first close frees them under the other.
"""

import os
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path


class Gate:
    """Transactions enter and leave; `alone` is for what must not meet any."""

    def __init__(self) -> None:
        self._changed = threading.Condition(threading.Lock())
        self._writer: int | None = None
        self._readers: dict[int, int] = {}
        self._waiting = 0
        self._draining = 0

    def enter(self, *, write: bool) -> int:
        """Wait for admission; the caller's thread, which `leave` wants back."""
        me = threading.get_ident()
        with self._changed:
            if write:
                if self._writer == me:
                    raise AssertionError("this thread has a write transaction open: it would wait for itself")
                while self._writer is not None or self._held_out(me):
                    self._wait()
                self._writer = me
            else:
                while self._held_out(me):
                    self._wait()
                self._readers[me] = self._readers.get(me, 0) + 1
        return me

    def leave(self, thread: int, *, write: bool) -> None:
        with self._changed:
            if write:
                assert self._writer == thread, "the writer that leaves is not the one that entered"
                self._writer = None
            else:
                left = self._readers[thread] - 1
                if left:
                    self._readers[thread] = left
                else:
                    del self._readers[thread]
            if self._waiting or self._draining:
                self._changed.notify_all()

    @contextmanager
    def alone(self, wait_s: float) -> Generator[bool]:
        """True when nobody is inside, which then holds for the block. False when somebody still is
        after `wait_s` seconds, or at once when it is the calling thread itself."""
        me = threading.get_ident()
        with self._changed:
            self._draining += 1
            try:
                own = self._writer == me or me in self._readers
                yield not own and self._changed.wait_for(self._empty, wait_s)
            finally:
                self._draining -= 1
                self._changed.notify_all()

    def inside(self) -> int:
        """Open transactions of this process."""
        with self._changed:
            return sum(self._readers.values()) + (self._writer is not None)

    def _wait(self) -> None:
        self._waiting += 1
        try:
            self._changed.wait()
        finally:
            self._waiting -= 1

    def _empty(self) -> bool:
        return self._writer is None and not self._readers

    def _held_out(self, thread: int) -> bool:
        # A thread that is inside already may enter again: to hold it out would keep it inside.
        return self._draining > 0 and thread not in self._readers and self._writer != thread


_registry_lock = threading.Lock()
_registry: dict[Path, int] = {}


def register(folder: Path) -> None:
    """Note that this process opens a folder; an assertion when it, or the parent that forked it, has."""
    with _registry_lock:
        pid = _registry.get(folder)
        if pid is not None:
            whose = "this process" if pid == os.getpid() else f"process {pid}, which forked this one"
            raise AssertionError(f"{folder} is already open in {whose}: one environment a process")
        _registry[folder] = os.getpid()


def unregister(folder: Path) -> None:
    with _registry_lock:
        _registry.pop(folder, None)
