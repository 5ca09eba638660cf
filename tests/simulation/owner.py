"""One simulated process that owns the crawl: the real shards, runners, pipeline and archive on a loop of its own.

It is put together as `streams/crawl.py` does it; only what stands behind the seams of store, files, transport, resolver,
parsers and clock is simulated. Its inputs pass a `Post` that may delay or misdirect them.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from pathlib import Path
from random import Random

from frontlog.avro.errors import StoreFull
from frontlog.avro.events import Candidate, Event
from frontlog.fetch.archive import Archive
from frontlog.fetch.http_types import Limits
from frontlog.fetch.pipeline import Pipeline, Rules
from frontlog.processors.leased import Lease
from frontlog.streams.clock import SystemClock
from frontlog.streams.crawl import ROOM_S
from frontlog.streams.embedded import EmbeddedHost
from frontlog.streams.emitter import ShardEmitter
from frontlog.streams.options import Config, Fetch, Log, Options
from frontlog.streams.seeds import inputs
from frontlog.streams.shard import Shard
from frontlog.streams.topics import Role, shard_name
from simulation.answers import BODY_BYTES_MAX, HEADER_BYTES_MAX
from simulation.client import LEASE, SimArchiveWriter, SimKnown, SimParsers, SimResolver, SimTransport
from simulation.disk import Damage, Disk, SimFiles, SimStore
from simulation.loop import ProcessLoop, Scheduler
from simulation.plan import Plan
from simulation.servers import Servers

LIMITS = Limits(
    connect_ms=2_000, first_byte_ms=4_000, total_ms=8_000, header_bytes_max=HEADER_BYTES_MAX, body_bytes_max=BODY_BYTES_MAX,
    decoded_bytes_max=2 * BODY_BYTES_MAX, types=("text/html", "application/xhtml+xml", "text/plain"),
)  # fmt: skip
SLOTS = 8
WARC_INFO = {"software": "simulation"}


class Post:
    """What may happen to inputs on their way: one of the coming ones is late, or sent to a wrong partition."""

    def __init__(self, partitions: int, rng: Random, happened: Counter[str]) -> None:
        self.happened = happened
        self.late_s: list[float] = []
        self.misroute = self.under_way = 0
        self._partitions = partitions
        self._rng = rng

    def partition(self, right: int) -> int:
        """Where an input goes."""
        if self.misroute and self._partitions > 1:
            self.misroute -= 1
            self.happened["misroute"] += 1
            return (right + self._rng.randrange(1, self._partitions)) % self._partitions
        return right


class PostedEmitter:
    """The real emitter behind the post."""

    def __init__(self, inner: ShardEmitter, post: Post) -> None:
        self._inner = inner
        self._post = post

    async def content(self, key: str, event: Candidate) -> None:
        await self._inner.content(key, event)

    async def discoveries(self, found: list[tuple[int, str, bytes]]) -> None:
        await self._inner.discoveries([(self._post.partition(p), key, value) for p, key, value in found])

    async def result(self, partition: int, key: str, event: Event) -> None:
        if self._post.late_s:
            self._post.under_way += 1
            await asyncio.sleep(self._post.late_s.pop(0))
            self._post.under_way -= 1
            self._post.happened["late"] += 1
        elif self._post.under_way:
            self._post.happened["late: another result overtakes it"] += 1
        await self._inner.result(self._post.partition(partition), key, event)


class SimHost(EmbeddedHost):
    """The real host on simulated stores."""

    def __init__(self, owner: "Owner", config: Config) -> None:
        super().__init__(Path("simulated"), config, owner.clock)
        self.owner = f"sim/{owner.number}"
        self._of = owner

    def _shard(self, role: Role, partition: int, count: int) -> Shard:
        name = shard_name(role, partition)
        store = SimStore(
            self._of.disk.store(name), self._of.damage, lambda: self._of.committed(self._of, name)
        )
        partitions = self.partitions if role is Role.FRONTIER else count
        return Shard(
            store,
            role,
            partition,
            partitions,
            clock=self.clock,
            owner=self.owner,
            settings=self.config.settings,
        )


class Owner:
    """A process. It ends by itself when something failed (`failure`), when it was asked to (`stopping`), or is killed."""

    def __init__(
        self, number: int, plan: Plan, scheduler: Scheduler, disk: Disk, servers: Servers, wall: Callable[[], float],
        committed: "Callable[[Owner, str], None]", post: Post, seeds: list[str], happened: Counter[str],
    ) -> None:  # fmt: skip
        self.number = number
        self.plan = plan
        self.scheduler = scheduler
        self.disk = disk
        self.servers = servers
        self.committed = committed
        self.post = post
        self.seeds = seeds
        self.loop = ProcessLoop(scheduler)
        self.clock = SystemClock(lambda: scheduler.now, wall)
        self.happened = happened
        self.damage = Damage(lambda: scheduler.now, scheduler.block, happened)
        config = Config(
            settings=plan.settings(),
            options=Options(
                fetch=Fetch(slots=SLOTS), log=Log(partitions=plan.partitions, commit_delay_ms=20)
            ),
        )
        self.host = SimHost(self, config)
        self.archive = Archive(
            SimFiles(disk.files, self.damage), info=WARC_INFO, clock=self.clock.now_ms,
            segment_bytes_max=20_000, segment_age_ms_max=60_000,
        )  # fmt: skip
        self.writer = SimArchiveWriter(self.archive)
        self.parsers_lost = 0
        self.tokens: dict[str, int] = {}
        """Shard → the token that it took it over with."""
        self.tick_s = 0.5
        self.tasks: dict[asyncio.Task[None], None] = {}
        self.began_s = scheduler.now
        self.at_hand_out: Callable[[], None] | None = None
        """What happens to the process when it has just handed leases out."""
        self.at_lease: Callable[[Lease], bool] | None = None
        """Looks at each lease that is handed out, until it says that it did what it is for."""
        self.opened = False
        self.stopping = False
        self.replaced = False
        self.ended = False
        self.failure: BaseException | None = None

    def launch(self) -> None:
        """Start it; what it does is done by the scheduler."""
        self.loop.call_soon(lambda: self._spawn(self._main()))

    def idle(self) -> bool:
        """Whether it has nothing in hand."""
        return self.opened and not self.ended and not self.tasks_left() and self.host.idle()

    def tasks_left(self) -> int:
        return len(self.tasks) - 1  # its own

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = self.loop.create_task(work)
        self.tasks[task] = None
        task.add_done_callback(lambda t: self.tasks.pop(t, None))

    async def _main(self) -> None:
        try:
            self.archive.recover()
            await self._open()
            self.host.start(hand_out=self._begin, failed=self._fail)
            emitter = ShardEmitter(dict(enumerate(self.host.runners[:-1])), self.host.content)
            rules = Rules(
                "sim", "simbot/1.0", LIMITS, (), self.plan.partitions, known=self.host.known,
                counts_sites=self.host.config.settings.scope.pages_per_site_max > 0,
            )  # fmt: skip
            self.pipeline = Pipeline(
                rules, self.clock.now_ms, SimTransport(self.servers, self.number), SimResolver(self.servers), self.writer,
                SimParsers(self._parser_lost, SimKnown(self.disk, self.happened)), PostedEmitter(emitter, self.post),
            )  # fmt: skip
            self.opened = True
            if self.seeds:
                self._spawn(self._seed(emitter))
            await self._until_end()
        except Exception as exc:
            self._fail(exc)
        await self._close()

    async def _open(self) -> None:
        """Open the log; without room for that it waits for some."""
        while True:
            try:
                self.host.open()
                return
            except StoreFull:
                self.happened["full_log: a start"] += 1
                self.host.abandon()
                await asyncio.sleep(ROOM_S)

    async def _seed(self, emitter: ShardEmitter) -> None:
        try:
            await emitter.discoveries(inputs(self.seeds, self.clock.now_ms(), self.plan.partitions))
        except Exception as exc:
            self._fail(exc)

    async def _until_end(self) -> None:
        while self.failure is None and self.writer.failed is None:
            full = bool(self.writer.full) or bool(self.host.full())
            self.host.slots.closed = self.stopping or full
            if self.stopping and (full or (not self.tasks_left() and self.host.idle())):
                return
            await asyncio.sleep(self.tick_s)
        self._fail(self.writer.failed or RuntimeError("stopped"))

    def _begin(self, leases: list[Lease]) -> None:
        for lease in leases:
            self._spawn(self._one(lease))
            if self.at_lease is not None and self.at_lease(lease):
                self.at_lease = None
        if self.at_hand_out is not None:
            self.at_hand_out()

    async def _one(self, lease: Lease) -> None:
        LEASE.set(lease)
        try:
            await self.pipeline.carry_out(lease)
        except Exception as exc:
            self._fail(exc)
        finally:
            self.host.slots.give_back()
            for runner in self.host.runners:
                runner.wake()

    def _parser_lost(self) -> bool:
        if self.parsers_lost:
            self.parsers_lost -= 1
            self.happened["lost_parser"] += 1
            return True
        return False

    def _fail(self, exc: BaseException) -> None:
        if self.failure is None:
            self.failure = exc

    async def _close(self) -> None:
        """Let go of everything, whatever happened."""
        self.host.slots.closed = True
        others = [task for task in self.tasks if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        try:
            if self.opened:
                self.writer.close()
        except Exception as exc:
            self._fail(exc)
        try:
            self.host.stop()
        except Exception as exc:
            self._fail(exc)
        self.ended = True
