"""One run of an embedded crawl: opens everything, fetches until an end is reached, closes everything.

One event loop fetches and decides; the archive has a thread; pages are parsed in processes. A run ends when nothing is
left, when what is left must wait longer than a person would, when the pages that were asked for are there, or when it
is told to stop. What is paused is waited for as long, since who paused it may resume it.
"""

import asyncio
import contextlib
import sys
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

from frontlog.avro.enums import FetchKind
from frontlog.avro.errors import ConfigError, FrontlogError, StoreFull
from frontlog.fetch.archive_writer import ArchiveWriter
from frontlog.fetch.parser_pool import ParserPool
from frontlog.fetch.pipeline import Pipeline
from frontlog.fetch.resolver import Resolver
from frontlog.fetch.transport import Transport
from frontlog.processors.leased import Lease
from frontlog.state.lmdb_store import MAP_BYTES
from frontlog.state.owner_lock import OwnerLock
from frontlog.streams.clock import OwnClock, SystemClock
from frontlog.streams.crawl_watch import Watch
from frontlog.streams.embedded import ARCHIVE_FOLDER, EmbeddedHost
from frontlog.streams.emitter import ShardEmitter
from frontlog.streams.fetch_side import make_archive, make_rules
from frontlog.streams.options import Config
from frontlog.streams.seeds import forget, inputs, keep
from frontlog.streams.stop import StopSignal
from frontlog.streams.summary import End, Phase, Progress, Summary

TICK_S = 0.1
ROOM_S = 1.0
"""How often a start without room on the disk tries again."""


def run_crawl(
    folder: Path,
    config: Config,
    seeds: Sequence[str],
    *,
    on_progress: Callable[[Progress], None],
    stop: StopSignal,
    clock: OwnClock | None = None,
    map_bytes: int = MAP_BYTES,
) -> Summary:
    """Crawl in `folder` until an end is reached; goes on where an earlier run stopped. Raises FrontlogError.

    `map_bytes`: what the LMDB map of each shard begins with; it grows by itself.
    """
    clock = clock or SystemClock()
    command = " ".join(Path(part).name if i == 0 else part for i, part in enumerate(sys.argv[:3]))
    with OwnerLock(folder, command=command, started_ms=clock.now_ms()):
        waiting = keep(folder, seeds)
        host = EmbeddedHost(folder, config, clock, map_bytes=map_bytes)
        return asyncio.run(_Run(host, on_progress, stop).go(waiting))


class _Run:
    """The parts of a run and how they are tied together."""

    def __init__(self, host: EmbeddedHost, on_progress: Callable[[Progress], None], stop: StopSignal) -> None:
        self.host = host
        self.folder = host.folder
        self.config = host.config
        self.clock = host.clock
        self.stop = stop
        self.archive = ArchiveWriter(
            make_archive(
                self.folder / ARCHIVE_FOLDER, self.config, self.clock, crawl=self.folder.resolve().name
            )
        )
        self.parsers = ParserPool(
            self.config.options.parse.worker_count(), self.config.options.parse.timeout_ms
        )
        self._tell = on_progress
        self.watch = Watch(host, self.archive, self.folder, self.clock, on_progress)
        self.tasks: set[asyncio.Task[None]] = set()
        self.failure: BaseException | None = None
        self._idle_since_s: float | None = None
        self._waking = False

    async def _open(self) -> None:
        """Open the log. Without room on the disk that waits for some, and says so, as a crawl under way does."""
        while True:
            try:
                self.host.open()
                return
            except StoreFull as exc:
                self.host.abandon()
                if self.stop.is_set():
                    raise
                self._tell(Progress(at_ms=self.clock.now_ms(), phase=Phase.STORE_FULL, detail=str(exc)))
                await asyncio.sleep(ROOM_S)

    async def go(self, seeds: Sequence[str]) -> Summary:
        """The whole run."""
        loop = asyncio.get_running_loop()
        woken = asyncio.Event()
        unsubscribe = self.stop.subscribe(lambda _: _threadsafe(loop, woken.set))
        transport = Transport()
        try:
            rules = make_rules(
                self.config, owner=self.host.owner, partitions=self.host.partitions, known=self.host.known
            )
            self.archive.archive.recover()
            await self._open()
            if not seeds and self.host.is_empty():
                raise ConfigError(
                    f"{self.folder}: nothing was ever given to this crawl; give a URL to start from"
                )
            self.archive.start()
            await self.parsers.start()
            resolver = Resolver(self.config.options.fetch.resolve)
            self.host.start(hand_out=self._begin, failed=self._fail)
            emitter = ShardEmitter(dict(enumerate(self.host.runners[:-1])), self.host.content)
            self.pipeline = Pipeline(
                rules, self.clock.now_ms, transport, resolver, self.archive, self.parsers, emitter
            )
            if seeds:
                self._spawn(self._seed(seeds, emitter))
            end = await self._until_end(woken)
        finally:
            unsubscribe()
            await self._close(transport)
        if self.failure is not None:
            raise self.failure
        return self.watch.summary(end)

    async def _seed(self, seeds: Sequence[str], emitter: ShardEmitter) -> None:
        """Bring seeds into the log, however many they are; those that are known change nothing."""
        try:
            await emitter.discoveries(inputs(seeds, self.clock.now_ms(), self.host.partitions))
            forget(self.folder)
        except Exception as exc:
            self._fail(exc)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    def _begin(self, leases: list[Lease]) -> None:
        """Start fetching; called once the log has the leases."""
        for lease in leases:
            self._spawn(self._one(lease))

    async def _one(self, lease: Lease) -> None:
        try:
            result = await self.pipeline.carry_out(lease)
            if lease.kind is FetchKind.PAGE and result.status:
                self.watch.fetched(result.wire_bytes)
        except Exception as exc:
            self._fail(exc)
        finally:
            self.host.slots.give_back()
            if not self._waking:  # results of one batch come together: once for all of them
                self._waking = True
                asyncio.get_running_loop().call_soon(self._wake)

    def _wake(self) -> None:
        """Slots are free again: let the shards claim for them."""
        self._waking = False
        for runner in self.host.runners:
            runner.wake()

    def _fail(self, exc: BaseException) -> None:
        """Something that nobody expected: end the run; the log decides at the next start."""
        if self.failure is None:
            self.failure = exc

    async def _until_end(self, woken: asyncio.Event) -> End:
        """Watch until an end is reached."""
        loop = asyncio.get_running_loop()
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(woken.wait(), TICK_S)
            woken.clear()
            if self.failure is not None or self.archive.failed is not None:
                self._fail(self.archive.failed or FrontlogError("stopped"))
                return End.STOPPED_NOW
            full = bool(self.archive.full) or bool(self.host.full())
            self.host.slots.closed = self.stop.is_set() or full
            if self.stop.is_now() or (
                self.stop.is_set() and full
            ):  # what is in flight can't be finished without room
                return End.STOPPED_NOW
            self.watch.tick(len(self.tasks), finishing=self.stop.is_set())
            if self.tasks or not self.host.idle():
                self._idle_since_s = None
                continue
            end = self._end(loop.time())
            if end is not None:
                return end

    def _end(self, now_s: float) -> End | None:
        """Why an idle run is over; None: it goes on."""
        if self.stop.is_set():
            return End.STOPPED
        if self.host.slots.spent:
            return End.PAGES_MAX
        if self.host.slots.closed:
            return None  # no room on the disk: wait for some
        patience_ms = self.config.options.crawl.patience_ms
        ready = self.host.next_ready_ms()
        is_near = ready is not None and ready <= self.clock.now_ms() + patience_ms
        if is_near and not self.watch.all_paused():
            return None
        if self._idle_since_s is None:
            self._idle_since_s = now_s
            self.watch.look()
        if not self.watch.anything_paused():
            return None if is_near else End.DONE if ready is None else End.PATIENCE
        if (now_s - self._idle_since_s) * 1_000 < patience_ms:
            return None
        return End.PAUSED if ready is None or self.watch.all_paused() else End.PATIENCE

    async def _close(self, transport: Transport) -> None:
        """Let go of everything, whatever happened."""
        self.host.slots.closed = True
        try:
            for task in tuple(self.tasks):
                task.cancel()
            if self.tasks:
                await asyncio.gather(*self.tasks, return_exceptions=True)
            await transport.close()
            await self.parsers.close()
            await asyncio.get_running_loop().run_in_executor(None, self.archive.close)
            if self.host.runners and self.failure is None:
                self.watch.last_look()
        finally:
            self.host.stop()


def _threadsafe(loop: asyncio.AbstractEventLoop, call: Callable[..., object], *args: object) -> None:
    """Call in the loop from another thread; nothing happens when the loop is closed, since nobody waits then."""
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(call, *args)
