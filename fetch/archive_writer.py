"""The thread that makes bodies durable: builds records, writes them, and fsyncs many at once.

`store` is awaited by many fetches; each batch of what waits becomes one flush, and all of them learn where their
record lies only when it is durable. A busy archive lets records gather for a few times as long as its last batch took,
since each flush has a cost of its own however little is in it; one that had nothing to do begins at once.

When there is no room nothing is lost: what waits goes on waiting, `full` is set so that nothing more is claimed, and the
flush is tried again every second. A record that can't be built is the failure of the fetch that it belongs to; a file that
can't be written is everybody's.
"""

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

from frontlog.avro.errors import Retriable, StoreFull
from frontlog.avro.events import BodyRef
from frontlog.fetch.archive import Archive
from frontlog.fetch.warc import Capture

RETRY_S = 1.0
BATCH_MAX = 256
REST_FACTOR = 4.0
"""Records gather for so many times as long as the last batch took, from its end on."""
REST_S_MAX = 0.02
"""Records wait no longer than this to be grouped."""


class _Waiting(NamedTuple):
    build: Callable[[], Capture]
    loop: asyncio.AbstractEventLoop
    done: "asyncio.Future[BodyRef]"


class ArchiveWriter:
    """Owns an `Archive` that was recovered; started once, closed once."""

    def __init__(self, archive: Archive) -> None:
        self.archive = archive
        self.full = ""
        """Why nothing can be written at the moment; empty when all is well."""
        self.failed: BaseException | None = None
        self.flushes = 0
        self._waiting: deque[_Waiting] = deque()
        self._wake = threading.Condition()
        self._stopping = False
        self._idle = False
        """Whether the thread waits to be told of work; else it comes to look by itself."""
        self._rests_until_s = 0.0
        self._thread = threading.Thread(target=self._run, name="archive", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def store(self, build: Callable[[], Capture]) -> "asyncio.Future[BodyRef]":
        """Have records built and written; done once they are durable. Fails with what `build` raises, and with what ended
        the thread: FrontlogError for a folder that can't be written."""
        loop = asyncio.get_running_loop()
        waiting = _Waiting(build, loop, loop.create_future())
        with self._wake:
            if self.failed is not None:
                waiting.done.set_exception(self.failed)
                return waiting.done
            self._waiting.append(waiting)
            if self._idle:
                self._idle = False
                self._wake.notify()
        return waiting.done

    @property
    def load(self) -> int:
        """Captures that wait."""
        return len(self._waiting)

    def close(self) -> None:
        """Write what waits, end the segment, stop the thread. What there is no room for is given up."""
        with self._wake:
            self._stopping = True
            self._wake.notify()
        if self._thread.is_alive():
            self._thread.join()
        if self.failed is None and not self.full:
            self.archive.close()

    def _run(self) -> None:
        while True:
            batch = self._gathered()
            if not batch:
                return
            began_s = time.monotonic()
            try:
                answers = [self._placed(one.build) for one in batch]
                self._flush()
                ended_s = time.monotonic()
                self._rests_until_s = ended_s + min(REST_FACTOR * (ended_s - began_s), REST_S_MAX)
            except BaseException as exc:
                with self._wake:
                    self.failed = exc
                    batch += self._waiting
                    self._waiting.clear()
                _tell(batch, [exc] * len(batch))
                return
            _tell(batch, answers)

    def _gathered(self) -> list[_Waiting]:
        """What waits, once there is something and the rest is over; empty: there is nothing, and nothing more will come."""
        with self._wake:
            self._idle = not self._waiting
            self._wake.wait_for(lambda: self._waiting or self._stopping)
            self._idle = False
            rest_s = self._rests_until_s - time.monotonic()
            if rest_s > 0:
                self._wake.wait_for(lambda: self._stopping, rest_s)
            return [self._waiting.popleft() for _ in range(min(len(self._waiting), BATCH_MAX))]

    def _placed(self, build: Callable[[], Capture]) -> BodyRef | Exception:
        """Where one record will lie, or why it can't be built. Flushes when as much waits as may."""
        try:
            capture = build()
        except Exception as exc:  # one strange answer must not end the archive of all others
            return exc
        try:
            return self.archive.append(capture)
        except StoreFull:
            self._flush()
            return self.archive.append(capture)

    def _flush(self) -> None:
        """Flush, again and again while there is no room; stopping gives up."""
        while True:
            try:
                self.archive.flush()
            except Retriable as exc:
                self.full = str(exc)
                with self._wake:
                    if self._wake.wait_for(lambda: self._stopping, RETRY_S):
                        raise
                continue
            self.full = ""
            self.flushes += 1
            return


def _tell(batch: list[_Waiting], answers: "Sequence[BodyRef | BaseException]") -> None:
    """Answer everyone, with one wake-up of each loop."""
    by_loop: dict[
        asyncio.AbstractEventLoop, list[tuple[asyncio.Future[BodyRef], BodyRef | BaseException]]
    ] = {}
    for one, answer in zip(batch, answers, strict=True):
        by_loop.setdefault(one.loop, []).append((one.done, answer))
    for loop, pairs in by_loop.items():
        try:
            loop.call_soon_threadsafe(_settle, pairs)
        except RuntimeError:  # the loop is closed: nobody waits any more
            continue


def _settle(pairs: "list[tuple[asyncio.Future[BodyRef], BodyRef | BaseException]]") -> None:
    for done, answer in pairs:
        if done.done():
            continue
        if isinstance(answer, BaseException):
            done.set_exception(answer)
        else:
            done.set_result(answer)
