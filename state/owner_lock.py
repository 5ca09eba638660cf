"""One owner a folder: an advisory lock that dies with its process and says who holds it.

    FOLDER/owner.lock    UTF-8 lines: pid=..., started_ms=..., command=...

The lock is flock(2) on that file, so a killed owner never leaves it behind; the text is only for
the message and counts only while the lock is held. The file is never deleted: two processes could
then hold locks on two files of one name.
"""

import fcntl
import os
import threading
import weakref
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple, Self

from frontlog.avro.errors import ConfigError

FILE = "owner.lock"
# `holder` takes the lock for an instant to look; an owner that meets it tries again.
_TRIES_MAX = 5
_TRY_WAIT_S = 0.02


class Holder(NamedTuple):
    """Who holds a folder; zeros and "" when its owner has not written it yet."""

    pid: int
    started_ms: int
    command: str

    def __str__(self) -> str:
        if not self.pid:
            return "another process, which has just started"
        started = datetime.fromtimestamp(self.started_ms / 1000, tz=UTC).isoformat(timespec="seconds")
        return f"process {self.pid} ({self.command}), started {started}"


class OwnerLock:
    """The lock of one folder; a context manager. `command` and `started_ms` are for the others to read."""

    def __init__(self, folder: Path | str, *, command: str, started_ms: int) -> None:
        self._folder = Path(folder).resolve()
        self._text = f"pid={os.getpid()}\nstarted_ms={started_ms}\ncommand={' '.join(command.split())}\n"
        self._fd: int | None = None

    def acquire(self) -> None:
        """Take the lock or raise ConfigError that names the holder. The folder is made if missing."""
        if self._fd is not None:
            raise AssertionError(f"{self._folder} is already locked by this lock")
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            fd = os.open(self._folder / FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as exc:
            raise ConfigError(
                f"cannot lock {self._folder}: {exc.strerror} ({exc.filename}); "
                "make the folder writable for this user, or choose another folder"
            ) from exc
        try:
            self._lock(fd)
            os.ftruncate(fd, 0)
            os.pwrite(fd, self._text.encode(), 0)
        except BaseException:
            os.close(fd)
            raise
        self._fd = fd
        _held.add(self)

    def release(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None
            _held.discard(self)

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(self, *exc: object) -> None:
        self.release()

    def _lock(self, fd: int) -> None:
        for _ in range(_TRIES_MAX):
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                threading.Event().wait(_TRY_WAIT_S)
        raise ConfigError(
            f"{self._folder} is in use by {_parse(fd)}; stop it or use another folder"
        ) from None


def holder(folder: Path | str) -> Holder | None:
    """Who owns a folder now, or None."""
    try:
        fd = os.open(Path(folder) / FILE, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _parse(fd)
    finally:
        os.close(fd)
    return None


def _parse(fd: int) -> Holder:
    text = os.pread(fd, 4096, 0).decode("utf-8", "replace")
    said = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
    try:
        return Holder(int(said["pid"]), int(said["started_ms"]), said["command"])
    except (KeyError, ValueError):
        return Holder(0, 0, "")


_held: "weakref.WeakSet[OwnerLock]" = weakref.WeakSet()


def _after_fork() -> None:
    # A forked child shares the open file: it would keep the folder locked after its parent's death.
    for lock in list(_held):
        lock.release()


os.register_at_fork(after_in_child=_after_fork)
