"""Parser processes and the pages that wait for them.

Each worker gets at most `QUEUE_MAX` pages ahead, so that it never idles and never hoards; further pages wait here, in
order. A page whose turn takes longer than the limit is answered with `ParserFailed`; so is one that was being parsed
when its worker died, once that happened twice. The worker is replaced and the pages behind it are given to others,
without blame. Workers are spawned, never forked. One that can't be started is tried again; after `STARTS_MAX` tries in
a row for each the pool gives up, since then something is wrong with this machine and not with a page.
"""

import asyncio
import contextlib
import math
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Coroutine

import msgspec

from frontlog.avro.enums import Reason
from frontlog.avro.errors import FrontlogError
from frontlog.fetch.parse_job import Job, Parsed
from frontlog.fetch.parse_worker import LENGTH

PROGRAM = ("-m", "frontlog.fetch.parse_worker")
QUEUE_MAX = 4
DEATHS_MAX = 2
"""How often a worker may die while it parses a page before the page is given up."""
START_S_MAX = 60.0
END_S_MAX = 1.0
"""How long a process may take to end after it closed its connection."""
END_POLL_S = 0.01
STARTS_MAX = 5
RESTART_S = 0.5
"""Wait before a start is tried again; it grows with each try."""
LISTING_FACTOR = 3.0
"""A sitemap may take so many times as long as a page: 50 MB take three seconds of an idle processor."""
LIMIT_FACTOR = 4.0
"""A worker ends itself after this many times a page's limit; its owner, if there is one, is quicker."""


class ParserFailed(Exception):
    """No parse came of a page; `reason` is parser_limit or worker_lost."""

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail


class _Page:
    __slots__ = ("data", "deaths", "done", "factor")

    def __init__(self, data: bytes, done: "asyncio.Future[Parsed]", factor: float) -> None:
        self.data = data
        self.done = done
        self.factor = factor
        self.deaths = 0


class _Worker(asyncio.Protocol):
    """One process and the pages that were sent to it, oldest first."""

    def __init__(self, pool: "ParserPool") -> None:
        self.pool = pool
        self.pages: deque[_Page] = deque()
        self.process: subprocess.Popen[bytes] | None = None
        self.is_ready = False
        self.is_killed = False
        self.is_lost = False
        self._timer: asyncio.TimerHandle | None = None
        self._due_s = math.inf
        self._buffer = bytearray()
        self._transport: asyncio.WriteTransport | None = None

    async def start(self, command: list[str]) -> None:
        """Spawn the process and connect to it. Raises OSError."""
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                argv = [*command, str(theirs.fileno()), str(LIMIT_FACTOR * self.pool.timeout_s + 1)]
                self.process = subprocess.Popen(argv, pass_fds=(theirs.fileno(),), stdin=subprocess.DEVNULL)
            except BaseException:
                ours.close()
                raise
        transport, _ = await asyncio.get_running_loop().create_connection(lambda: self, sock=ours)
        self._transport = transport
        self._arm()

    def send(self, page: _Page) -> None:
        """Give a page to the process."""
        assert self._transport is not None
        self.pages.append(page)
        self._transport.write(LENGTH.pack(len(page.data)) + page.data)
        if len(self.pages) == 1 and self.is_ready:
            self._arm()

    def _arm(self) -> None:
        """Time the page whose turn it is, or the start. A timer that rings too early looks again: setting one for each
        page would be for nothing."""
        if self.is_ready and not self.pages:
            self._due_s = math.inf
            return
        loop = asyncio.get_running_loop()
        self._due_s = loop.time() + (
            self.pool.timeout_s * self.pages[0].factor if self.is_ready else START_S_MAX
        )
        if self._timer is None or self._due_s < self._timer.when():
            if self._timer is not None:
                self._timer.cancel()
            self._timer = loop.call_at(self._due_s, self._ring)

    def _ring(self) -> None:
        timer, self._timer = self._timer, None
        if timer is not None and self._due_s > timer.when():
            if self._due_s < math.inf:
                self._timer = asyncio.get_running_loop().call_at(self._due_s, self._ring)
        elif self.is_ready:
            self._too_slow()
        else:
            self.kill()

    def _too_slow(self) -> None:
        page = self.pages.popleft()
        self.pool.fail(page, Reason.PARSER_LIMIT, f"more than {self.pool.timeout_s * page.factor:g} s")
        self.kill()

    def kill(self) -> None:
        """End the process; its connection's end does the rest."""
        self.is_killed = True
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError):
                self.process.kill()
        if self._transport is not None:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while len(self._buffer) >= LENGTH.size and not self.is_killed:
            size = LENGTH.unpack_from(self._buffer)[0]
            end = LENGTH.size + size
            if len(self._buffer) < end:
                return
            reply = bytes(self._buffer[LENGTH.size : end])
            del self._buffer[:end]
            if not size:
                self.is_ready = True
                self.pool.failed_starts = 0
            else:
                self.pool.answer(self.pages.popleft(), reply)
            self._arm()
        self.pool.feed()

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost = True
        if self._timer is not None:
            self._timer.cancel()
        self.pool.lost(self)


class ParserPool:
    """Parser workers of one process. Used from one event loop."""

    def __init__(self, workers: int, timeout_ms: int, *, program: tuple[str, ...] | None = None) -> None:
        self.timeout_s = timeout_ms / 1_000
        self._size = workers
        self._command = [sys.executable, *(program or PROGRAM)]
        self._workers: list[_Worker] = []
        self._waiting: deque[_Page] = deque()
        self._answers = msgspec.msgpack.Decoder(Parsed | str)
        self._jobs = msgspec.msgpack.Encoder()
        self._starting: set[asyncio.Task[None]] = set()
        self._processes: list[subprocess.Popen[bytes]] = []
        self._failure: FrontlogError | None = None
        self._closed = False
        self.failed_starts = 0
        self.restarts = 0

    async def start(self) -> None:
        """Spawn the workers."""
        for _ in range(self._size):
            await self._add(0.0)

    async def _add(self, after_s: float) -> None:
        """Spawn one worker; when that fails, try again later."""
        if after_s:
            await asyncio.sleep(after_s)
        worker = _Worker(self)
        try:
            await worker.start(self._command)
        except OSError as exc:
            self._failed_start(str(exc))
            return
        finally:
            if worker.process is not None:
                self._processes = [p for p in self._processes if p.poll() is None] + [worker.process]
        if not worker.is_lost:
            self._workers.append(worker)
            self.feed()

    def _failed_start(self, detail: str) -> None:
        """A worker ended before it was ready: no page is to blame."""
        self.failed_starts += 1
        if self._workers or self.failed_starts < STARTS_MAX * self._size:
            self._later(self._add(RESTART_S * min(self.failed_starts, STARTS_MAX)))
            return
        self._failure = FrontlogError(
            f"no parser process can be started ({detail}); see what {' '.join(self._command)} says, mend it, and go on "
            "with the crawl: nothing is lost"
        )
        for page in self._waiting:
            if not page.done.done():
                page.done.set_exception(self._failure)
        self._waiting.clear()

    def _later(self, start: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(start)
        self._starting.add(task)
        task.add_done_callback(self._starting.discard)

    async def parse(self, job: Job) -> Parsed:
        """Parse a page. Raises ParserFailed; FrontlogError when no worker can be started."""
        if self._closed:
            raise ParserFailed(Reason.WORKER_LOST, "the parsers are stopped")
        if self._failure is not None:
            raise self._failure
        done: asyncio.Future[Parsed] = asyncio.get_running_loop().create_future()
        page = _Page(self._jobs.encode(job), done, LISTING_FACTOR if job.listing else 1.0)
        self._waiting.append(page)
        self.feed()
        return await page.done

    @property
    def load(self) -> int:
        """Pages that wait or are being parsed."""
        return len(self._waiting) + sum(len(worker.pages) for worker in self._workers)

    @property
    def pids(self) -> list[int]:
        """The processes that take pages."""
        return [worker.process.pid for worker in self._workers if worker.process is not None]

    def feed(self) -> None:
        """Give waiting pages to the workers with most room."""
        while self._waiting:
            worker = min(
                (w for w in self._workers if not w.is_killed), key=lambda w: len(w.pages), default=None
            )
            if worker is None or len(worker.pages) >= QUEUE_MAX:
                return
            page = self._waiting.popleft()
            if not page.done.done():  # else whoever asked for it has gone
                worker.send(page)

    def answer(self, page: _Page, reply: bytes) -> None:
        """A worker answered."""
        try:
            found = self._answers.decode(reply)
        except msgspec.MsgspecError as exc:
            found = f"an answer that can't be read: {exc}"
        if isinstance(found, str):
            self.fail(page, Reason.PARSER_LIMIT, found)
        elif not page.done.done():
            page.done.set_result(found)

    def fail(self, page: _Page, reason: Reason, detail: str) -> None:
        """No parse comes of a page."""
        if not page.done.done():
            page.done.set_exception(ParserFailed(reason, detail))

    def lost(self, worker: _Worker) -> None:
        """A worker ended: replace it, and give its pages to others. The first one killed it, if it was at work and not
        ended by us."""
        if worker in self._workers:
            self._workers.remove(worker)
        if self._closed:
            for page in worker.pages:
                self.fail(page, Reason.WORKER_LOST, "the parsers are stopped")
            return
        pages = deque(worker.pages)
        worker.pages.clear()
        if pages and worker.is_ready and not worker.is_killed:
            pages[0].deaths += 1
            if pages[0].deaths >= DEATHS_MAX:
                self.fail(pages.popleft(), Reason.PARSER_LIMIT, f"its parser died {DEATHS_MAX} times")
        self._waiting.extendleft(reversed(pages))
        self.restarts += 1
        if worker.is_ready:
            worker.kill()
            self._later(self._add(0.0))
        else:
            self._later(self._never_ready(worker))
        self.feed()

    async def _never_ready(self, worker: _Worker) -> None:
        """Say how a worker ended that closed its connection before it was ready: its process ends a moment later."""
        process = worker.process
        for _ in range(round(END_S_MAX / END_POLL_S)):
            if process is None or process.poll() is not None:
                break
            await asyncio.sleep(END_POLL_S)
        code = process.poll() if process is not None else None
        was_killed = worker.is_killed
        worker.kill()
        self._failed_start("it didn't get ready" if code is None or was_killed else f"it ended with {code}")

    async def close(self) -> None:
        """End the workers; pages that wait fail."""
        self._closed = True
        starting = tuple(self._starting)
        for task in starting:
            task.cancel()
        await asyncio.gather(*starting, return_exceptions=True)
        workers, self._workers = self._workers, []
        for worker in workers:
            worker.kill()
            for page in worker.pages:
                self.fail(page, Reason.WORKER_LOST, "the parsers are stopped")
        for page in self._waiting:
            self.fail(page, Reason.WORKER_LOST, "the parsers are stopped")
        self._waiting.clear()
        loop = asyncio.get_running_loop()
        for process in self._processes:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await loop.run_in_executor(None, process.wait)
