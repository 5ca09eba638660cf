"""A worker's inside, whoever says which shards are its own: runners, standbys, fetching, and the watch over the topics.

    start()                      be ready to fetch
    assign(actives, standbys)    begin to own and to follow
    revoke()                     own and follow nothing any more; returns when others may
    close()                      fetch no more, revoke, and let go of everything

A membership (Faust's in `frontlog.streams.faust_host`) calls these from one event loop. Fetching goes on through a
rebalance: results go to the partition that gave the lease, whoever owns it by then.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable, Collection, Coroutine
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from frontlog.avro.enums import Topic
from frontlog.avro.errors import ConfigError
from frontlog.fetch.archive_writer import ArchiveWriter
from frontlog.fetch.parser_pool import ParserPool
from frontlog.fetch.pipeline import Pipeline
from frontlog.fetch.resolver import Resolver
from frontlog.fetch.transport import Transport
from frontlog.processors.leased import Lease
from frontlog.state import head as heads
from frontlog.streams.clock import SystemClock
from frontlog.streams.embedded import ARCHIVE_FOLDER, process_name
from frontlog.streams.fetch_side import make_archive, make_rules
from frontlog.streams.kafka_emitter import KafkaEmitter
from frontlog.streams.kafka_inputs import INPUTS_BYTES_MAX
from frontlog.streams.kafka_log import KafkaLog
from frontlog.streams.kafka_places import TOPICS, KafkaCrawl
from frontlog.streams.kafka_runner import KafkaRunner
from frontlog.streams.kafka_shard import Ground
from frontlog.streams.kafka_standby import Standbys
from frontlog.streams.kafka_topics import check, need
from frontlog.streams.metrics import Tally
from frontlog.streams.options import Config
from frontlog.streams.schema_registry import frames
from frontlog.streams.slots import Slots
from frontlog.streams.topics import Role, shard_name

STATE_FOLDER = "state"
WATCH_S = 30.0
"""How often the topics are held against what they must be."""
ROOM_S = 0.1
FINISH_S = 1.0
"""How long fetches in flight have when the worker ends; the leases of the others run out."""
WAITERS = 32

ShardKey = tuple[Role, int]


class KafkaHost:
    """`folder` holds the tables and the archive of this worker alone. `failed` is called once, with what ends it."""

    def __init__(
        self, crawl: KafkaCrawl, folder: Path, config: Config, *, failed: Callable[[BaseException], None]
    ) -> None:
        self.crawl = crawl
        self.config = config
        self.clock = SystemClock()
        there = need(crawl)
        self.partitions = there[Topic.TRANSITIONS].partitions
        self.log = KafkaLog(crawl.servers, TOPICS, prefix=crawl.prefix)
        self.slots = Slots(config.options.fetch.slots)
        self.runners: dict[ShardKey, KafkaRunner] = {}
        self.standbys: Standbys | None = None
        self.fetches: set[asyncio.Task[None]] = set()
        owner = process_name(self.clock.now_ms())
        registry = config.options.schema_registry.url
        self.ground = Ground(
            crawl, self.log, self.partitions, {topic: one.topic_id for topic, one in there.items()},
            folder / STATE_FOLDER, self.clock, owner, config.settings, ThreadPoolExecutor(WAITERS, "kafka"),
            frames(registry, crawl) if registry else {},
        )  # fmt: skip
        self.archive = ArchiveWriter(
            make_archive(folder / ARCHIVE_FOLDER, config, self.clock, crawl=crawl.name)
        )
        self.pages = 0
        self.tally = Tally()
        self._closing = False
        self._failed = failed
        self._failure: BaseException | None = None
        self._rules = make_rules(config, owner=owner, partitions=self.partitions, known=self._known)
        self.parsers = ParserPool(config.options.parse.worker_count(), config.options.parse.timeout_ms)
        self._pipeline: Pipeline | None = None
        self._emitter: KafkaEmitter | None = None
        self._by_host: Counter[str] = Counter()
        self._transport: Transport | None = None
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Be ready to fetch; nothing is owned yet. Nothing happens the second time."""
        if self._pipeline is not None:
            return
        self.archive.archive.recover()
        self.archive.start()
        await self.parsers.start()
        self._emitter = emitter = KafkaEmitter(self.log, f"{self.crawl.prefix}fetch", self.clock)
        self._transport = Transport()
        self._pipeline = Pipeline(
            self._rules, self.clock.now_ms, self._transport, Resolver(self.config.options.fetch.resolve),
            self.archive, self.parsers, emitter,
        )  # fmt: skip
        self._keep(emitter.run())
        self._keep(self._watch())
        self._keep(self._room())

    def _keep(self, work: Coroutine[Any, Any, None]) -> None:
        """A task for as long as the worker lives."""

        async def guarded() -> None:
            try:
                await work
            except Exception as exc:
                self.fail(exc)

        self._tasks.append(asyncio.create_task(guarded()))

    def fail(self, exc: BaseException) -> None:
        """Something that nobody expected, or that a person must mend: it ends the worker."""
        if self._failure is None:
            self._failure = exc
            self._failed(exc)

    def assign(self, actives: Collection[ShardKey], standbys: Collection[ShardKey]) -> None:
        """Begin to own and to follow these, after `start` and `revoke`. It doesn't wait, so that nothing is taken back
        meanwhile; `ready` says when all of them decide."""
        assert not self.runners and self.standbys is None, "revoke comes before assign"
        assert self._pipeline is not None, "start comes before assign"
        if self._closing:  # a rebalance that comes while this worker ends gives it nothing
            return
        frontier = sum(role is Role.FRONTIER for role, _ in actives)
        share = max(1, self.slots.total // max(1, frontier))
        for role, partition in sorted(actives):
            self.runners[role, partition] = KafkaRunner(
                self.ground, role, partition, self.slots, commit_delay_ms=self.config.options.log.commit_delay_ms,
                share=share, hand_out=self._begin, failed=self.fail, tally=self.tally,
                inputs_bytes_max=INPUTS_BYTES_MAX // len(actives),
            )  # fmt: skip
        self.standbys = Standbys(self.ground, sorted(set(standbys) - set(actives)), failed=self.fail)
        self.standbys.start()

    def _known(self) -> tuple[str, ...]:
        """The folders where parsers look up which links are no news, by partition: those of the shards that decide
        here. They hold only what Kafka has committed."""
        return tuple(
            str(self.ground.folder / shard_name(Role.FRONTIER, number))
            if runner and runner.ready.is_set()
            else ""
            for number in range(self.partitions)
            for runner in (self.runners.get((Role.FRONTIER, number)),)
        )

    def ready(self) -> bool:
        """Whether every shard that was assigned decides by now."""
        return all(runner.ready.is_set() for runner in self.runners.values())

    async def revoke(self) -> None:
        """Own and follow nothing."""
        runners, self.runners = list(self.runners.values()), {}
        standbys, self.standbys = self.standbys, None
        for runner in runners:
            runner.stop()
        if standbys is not None:
            await asyncio.get_running_loop().run_in_executor(self.ground.pool, standbys.stop)
        for runner in runners:
            await runner.ended()

    def heads(self) -> dict[str, tuple[bool, heads.Head]]:
        """(whether it is a standby, how far it has come) of each shard here."""
        found = {runner.name: (False, runner.head) for runner in self.runners.values()}
        if self.standbys is not None:
            found |= {name: (True, head) for name, head in self.standbys.heads.items()}
        return found

    def positions(self) -> dict[tuple[str, int], int]:
        """How far the inputs of each shard that is owned here were decided: (topic, partition) → next offset."""
        return {
            (self.log.full_name(topic), runner.shard.partition): offset
            for runner in self.runners.values()
            if runner.ready.is_set()
            for topic, offset in runner.head.positions.items()
        }

    def _begin(self, leases: list[Lease]) -> None:
        """Start fetching; called once the log has the leases."""
        for lease in leases:
            task = asyncio.create_task(self._one(lease))
            self.fetches.add(task)
            task.add_done_callback(self.fetches.discard)

    async def _one(self, lease: Lease) -> None:
        assert self._pipeline is not None
        self._by_host[lease.host] += 1
        self.tally.most("frontlog_host_connections_max", self._by_host[lease.host])
        try:
            result = await self._pipeline.carry_out(lease)
            self.pages += bool(result.status)
            self.tally.add(
                "frontlog_results_total", (f"{result.status // 100}xx" if result.status else "failed",)
            )
        except Exception as exc:
            self.fail(exc)
        finally:
            self.slots.give_back()
            self._by_host[lease.host] -= 1
            if not self._by_host[lease.host]:
                del self._by_host[lease.host]

    def emitted_bytes(self) -> int:
        """Bytes of fetches' events that the broker has not acknowledged."""
        return self._emitter.waiting_bytes if self._emitter is not None else 0

    async def _watch(self) -> None:
        """Hold the topics against what they were at the start, again and again."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(WATCH_S)
            there, problems = await loop.run_in_executor(self.ground.pool, check, self.crawl, self.partitions)
            known = self.ground.topic_ids
            problems += [f"{t} was made anew" for t, one in there.items() if one.topic_id != known.get(t)]
            if problems:
                raise ConfigError(
                    f"{self.crawl}: {'; '.join(problems)}; see: frontlog topics check {self.crawl}"
                )

    async def _room(self) -> None:
        """Claim nothing while the archive has no room: what is fetched could not be kept."""
        while True:
            if self.archive.failed is not None:
                raise self.archive.failed
            self.slots.closed = self._closing or bool(self.archive.full)
            await asyncio.sleep(ROOM_S)

    async def close(self) -> None:
        """End in good order: what is in flight has a moment, what is owned goes on elsewhere."""
        self._closing = self.slots.closed = True
        if self.fetches:
            await asyncio.wait(tuple(self.fetches), timeout=FINISH_S)
        for task in tuple(self.fetches):
            task.cancel()
        if self.fetches:
            await asyncio.gather(*self.fetches, return_exceptions=True)
        await self.revoke()
        for task in self._tasks:
            task.cancel()
        if self._transport is not None:
            await self._transport.close()
            await self.parsers.close()
            await asyncio.get_running_loop().run_in_executor(None, self.archive.close)
        with contextlib.suppress(Exception):
            self.log.close()
        self.ground.pool.shutdown(wait=False)
