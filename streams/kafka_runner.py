"""Runs a shard on Kafka that this process owns, in its event loop.

A runner takes in what arrived, waits a little so that many share a commit, makes a batch and hands its leases out. Anything
unexpected ends the process: the log decides at the next start.
"""

import asyncio
from collections.abc import Callable

from frontlog.avro.enums import Reason, State
from frontlog.avro.events import Transition
from frontlog.processors.leased import Lease
from frontlog.state import head as heads
from frontlog.streams.batching import Done
from frontlog.streams.kafka_shard import Ground, KafkaShard
from frontlog.streams.metrics import Tally
from frontlog.streams.slots import Slots
from frontlog.streams.topics import Role

POLL_S = 0.2
"""How often leases that ran out are swept, and timers looked at."""
BUSY_S, IDLE_S = 0.005, 0.03
"""How often a runner looks for inputs, while some come and while none do."""
REST_MS_MIN = 2


class KafkaRunner:
    """Owns one shard from `run` to `stop`. `hand_out` takes leases, `failed` what nobody expected."""

    def __init__(
        self,
        ground: Ground,
        role: Role,
        partition: int,
        slots: Slots,
        *,
        commit_delay_ms: int,
        share: int,
        hand_out: Callable[[list[Lease]], None],
        failed: Callable[[BaseException], None],
        tally: Tally,
        inputs_bytes_max: int,
    ) -> None:
        self.shard = KafkaShard(ground, role, partition, inputs_bytes_max=inputs_bytes_max)
        self.name = self.shard.name
        self.ready = asyncio.Event()
        self.batches = self.decided = self.rejects = 0
        self.next_ready_ms: int | None = None
        self._slots = slots
        self._commit_delay_s = commit_delay_ms / 1_000
        self._share = share
        self._hand_out = hand_out
        self._failed = failed
        self._tally = tally
        self._stopping = False
        self._more = True
        self._task = asyncio.create_task(self._run(), name=self.name)

    @property
    def head(self) -> heads.Head:
        """How far it has come."""
        return self.shard.head

    def idle(self) -> bool:
        """Nothing waits to be decided."""
        return self.ready.is_set() and not self._more and not self.shard.inputs.count()

    def stop(self) -> None:
        """Make no more batches; `ended` waits for the end of the one under way."""
        self._stopping = True

    async def ended(self) -> None:
        """Wait until another may own the shard."""
        await asyncio.wait([self._task])

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            await loop.run_in_executor(self.shard.ground.pool, self.shard.open, lambda: self._stopping)
            if not self._stopping:
                self._took(await self.shard.take_over())
                self.ready.set()
            await self._batches(loop)
        except BaseException as exc:
            self._failed(exc)
        finally:
            await loop.run_in_executor(self.shard.ground.pool, self.shard.close)

    async def _batches(self, loop: asyncio.AbstractEventLoop) -> None:
        due = loop.time()
        while not self._stopping:
            came = self.shard.inputs.poll()
            if self.shard.inputs.count():
                due = min(due, loop.time() + self._commit_delay_s)
            if loop.time() >= due:
                await self._batch()
                due = loop.time() + self._rest_s()
            pause_s = BUSY_S if came else IDLE_S
            await asyncio.sleep(max(0.0, min(pause_s, due - loop.time())))

    async def _batch(self) -> None:
        wanted = self._slots.reserve(self._share if self._may_claim() else 0)
        leases = 0
        try:
            done = await self.shard.step(wanted)
            leases = len(done.leases)
        finally:
            self._slots.give_back(wanted - leases)
        self._took(done)

    def _took(self, done: Done) -> None:
        """Only behind the commits does anyone act on a batch."""
        self._more = done.more
        self.next_ready_ms = done.next_ready_ms
        self.batches += done.head is not None
        self.decided += len(done.decisions)
        self.rejects += done.rejects
        if done.head is not None:
            self._tally.batch(self.name, done.decisions, done.rejects)
        for event in done.decisions:
            if (
                isinstance(event, Transition)
                and event.to_state is State.FETCHED
                and event.reason is Reason.OK
            ):
                self._slots.fetched()
        if done.leases:
            self._hand_out(done.leases)

    def _may_claim(self) -> bool:
        return self.shard.role is Role.FRONTIER and not self._slots.closed and not self._stopping

    def _rest_s(self) -> float:
        if self._more:
            return 0.0
        if self.next_ready_ms is None or not self._slots.room():
            return POLL_S
        rest_ms = max(self.next_ready_ms - self.shard.ground.clock.now_ms(), REST_MS_MIN)
        return min(POLL_S, rest_ms / 1_000)
