"""Parser processes and the pages that wait for them.

Each worker gets at most `QUEUE_MAX` pages ahead, so that it never idles and never hoards; further pages wait here, in
order. A page whose turn takes longer than the limit, or that kills its worker, is answered with `ParserFailed`: the
worker is replaced and the pages behind it are given to others. Workers are spawned, never forked.
"""

import asyncio
import contextlib
import socket
import subprocess
import sys
from collections import deque

import msgspec

from frontlog.avro.enums import Reason
from frontlog.fetch.parse_job import Job, Parsed
from frontlog.fetch.parse_worker import LENGTH

QUEUE_MAX = 4
TRIES_MAX = 2
"""How often a page may be given to a worker that dies under it."""


class ParserFailed(Exception):
    """No parse came of a page; `reason` is parser_limit or worker_lost."""

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail


class _Page:
    __slots__ = ("data", "done", "tries")

    def __init__(self, data: bytes, done: "asyncio.Future[Parsed]") -> None:
        self.data = data
        self.done = done
        self.tries = 0


class _Worker(asyncio.Protocol):
    """One process and the pages that were sent to it, oldest first."""

    def __init__(self, pool: "ParserPool") -> None:
        self.pool = pool
        self.pages: deque[_Page] = deque()
        self.process: subprocess.Popen[bytes] | None = None
        self.timer: asyncio.TimerHandle | None = None
        self._buffer = bytearray()
        self._transport: asyncio.WriteTransport | None = None

    async def start(self) -> None:
        """Spawn the process and connect to it."""
        ours, theirs = socket.socketpair()
        command = [sys.executable, "-m", "frontlog.fetch.parse_worker", str(theirs.fileno())]
        self.process = subprocess.Popen(command, pass_fds=(theirs.fileno(),), stdin=subprocess.DEVNULL)
        theirs.close()
        transport, _ = await asyncio.get_running_loop().create_connection(lambda: self, sock=ours)
        self._transport = transport

    def send(self, page: _Page) -> None:
        """Give a page to the process."""
        assert self._transport is not None
        page.tries += 1
        self.pages.append(page)
        self._transport.write(LENGTH.pack(len(page.data)) + page.data)
        if len(self.pages) == 1:
            self._arm()

    def _arm(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
        if self.pages:
            self.timer = asyncio.get_running_loop().call_later(self.pool.timeout_s, self._too_slow)

    def _too_slow(self) -> None:
        page = self.pages.popleft()
        self.pool.fail(page, Reason.PARSER_LIMIT, f"more than {self.pool.timeout_s:g} s")
        self.kill()

    def kill(self) -> None:
        """End the process; its connection's end does the rest."""
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError):
                self.process.kill()
        if self._transport is not None:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while len(self._buffer) >= LENGTH.size:
            size = LENGTH.unpack_from(self._buffer)[0]
            end = LENGTH.size + size
            if len(self._buffer) < end:
                return
            reply = bytes(self._buffer[LENGTH.size : end])
            del self._buffer[:end]
            page = self.pages.popleft()
            self._arm()
            self.pool.answer(page, reply)
        self.pool.feed()

    def connection_lost(self, exc: Exception | None) -> None:
        if self.timer is not None:
            self.timer.cancel()
        self.pool.lost(self)


class ParserPool:
    """Parser workers of one process. Used from one event loop."""

    def __init__(self, workers: int, timeout_ms: int) -> None:
        self.timeout_s = timeout_ms / 1_000
        self._size = workers
        self._workers: list[_Worker] = []
        self._waiting: deque[_Page] = deque()
        self._answers = msgspec.msgpack.Decoder(Parsed | str)
        self._jobs = msgspec.msgpack.Encoder()
        self._starting: set[asyncio.Task[None]] = set()
        self._closed = False
        self.restarts = 0

    async def start(self) -> None:
        """Spawn the workers."""
        for _ in range(self._size):
            await self._add()

    async def _add(self) -> None:
        worker = _Worker(self)
        await worker.start()
        self._workers.append(worker)
        self.feed()

    async def parse(self, job: Job) -> Parsed:
        """Parse a page; raises ParserFailed."""
        if self._closed:
            raise ParserFailed(Reason.WORKER_LOST, "the parsers are stopped")
        page = _Page(self._jobs.encode(job), asyncio.get_running_loop().create_future())
        self._waiting.append(page)
        self.feed()
        return await page.done

    @property
    def load(self) -> int:
        """Pages that wait or are being parsed."""
        return len(self._waiting) + sum(len(worker.pages) for worker in self._workers)

    def feed(self) -> None:
        """Give waiting pages to the workers with most room."""
        while self._waiting and self._workers:
            worker = min(self._workers, key=lambda w: len(w.pages))
            if len(worker.pages) >= QUEUE_MAX:
                return
            worker.send(self._waiting.popleft())

    def answer(self, page: _Page, reply: bytes) -> None:
        """A worker answered."""
        found = self._answers.decode(reply)
        if isinstance(found, str):
            self.fail(page, Reason.PARSER_LIMIT, found)
        elif not page.done.done():
            page.done.set_result(found)

    def fail(self, page: _Page, reason: Reason, detail: str) -> None:
        """No parse comes of a page."""
        if not page.done.done():
            page.done.set_exception(ParserFailed(reason, detail))

    def lost(self, worker: _Worker) -> None:
        """A worker ended: replace it, and give its pages to others. The first one may have killed it."""
        if worker in self._workers:
            self._workers.remove(worker)
        if worker.process is not None:
            worker.process.poll()
        if self._closed:
            for page in worker.pages:
                self.fail(page, Reason.WORKER_LOST, "the parsers are stopped")
            return
        self.restarts += 1
        pages = list(worker.pages)
        if pages and pages[0].tries >= TRIES_MAX:
            self.fail(pages.pop(0), Reason.PARSER_LIMIT, "its parser died, twice")
        self._waiting.extendleft(reversed(pages))
        task = asyncio.get_running_loop().create_task(self._add())
        self._starting.add(task)
        task.add_done_callback(self._starting.discard)

    async def close(self) -> None:
        """End the workers; pages that wait fail."""
        self._closed = True
        for task in tuple(self._starting):
            task.cancel()
        workers, self._workers = self._workers, []
        for worker in workers:
            worker.kill()
        for page in self._waiting:
            self.fail(page, Reason.WORKER_LOST, "the parsers are stopped")
        self._waiting.clear()
        loop = asyncio.get_running_loop()
        for worker in workers:
            if worker.process is not None:
                await loop.run_in_executor(None, worker.process.wait)
