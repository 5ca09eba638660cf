"""Runs one shard in an event loop: waits for work, groups it, makes a batch, hands out leases, delivers the outbox.

Group commit: the first input that arrives starts a timer of `commit_delay_ms`, so that one fsync serves many; of a busy
shard it is longer (`REST_FACTOR`), since each batch has a cost of its own however little is in it. While there is no room
on the disk no batch is made, `full` says why, and it is tried again every second; anything else unexpected ends the crawl,
and the log decides at the next start.

A batch runs in the loop's own thread and blocks it for as long as it takes. Threads were tried and dropped: LMDB calls give
up the interpreter's lock one by one, and each then waits for the others to let go of it (docs/adr/0005).
"""

import asyncio
from collections.abc import Callable

from frontlog.avro.enums import Reason, State
from frontlog.avro.errors import Retriable
from frontlog.avro.events import Transition
from frontlog.processors.leased import Lease
from frontlog.streams.batching import Done, Offered
from frontlog.streams.shard import Answer, Delivery, Shard
from frontlog.streams.slots import Slots
from frontlog.streams.topics import Role

POLL_S = 0.2
"""How soon a record that another process appended to `control` is seen, and leases that ran out are swept."""
RETRY_S = 1.0
REST_MS_MIN = 2
REST_FACTOR = 8.0
"""A shard waits at least this many times as long as its last batch took, so that inputs gather."""
REST_S_MAX = 0.1
"""Inputs wait no longer than this to be grouped, unless `commit_delay_ms` says so."""


class ShardRunner:
    """Runs a shard that was opened. `hand_out` takes leases; `deliver` offers an input to another shard, False when that
    one has no room; `share` is the least number of slots that a batch asks for."""

    def __init__(
        self,
        shard: Shard,
        slots: Slots,
        *,
        commit_delay_ms: int,
        share: int,
        hand_out: Callable[[list[Lease]], None],
        deliver: Callable[[Delivery, Answer], bool],
        failed: Callable[[BaseException], None],
    ) -> None:
        self.shard = shard
        self.slots = slots
        self.full = ""
        """Why nothing can be committed at the moment; empty when all is well."""
        self.next_ready_ms: int | None = None
        self.batches = self.decided = self.rejects = 0
        self._commit_delay_s = commit_delay_ms / 1_000
        self._took_s = 0.0
        self._share = share
        self._hand_out = hand_out
        self._deliver = deliver
        self._failed = failed
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        self._more = True
        self._under_way = 0
        self._sent_to = 0
        self._held = False
        self.ended = False
        """Nothing is taken any more: the run is over, or failed."""

    def start(self) -> None:
        """Make the first batch soon."""
        self._schedule(0)

    def offer(self, offered: Offered, answer: Answer | None) -> bool:
        """Put an input into the queue; False when it is full."""
        if self.ended or not self.shard.offer(offered, answer):
            return False
        self._schedule(0 if self._more else self._delay_s())
        return True

    def wake(self) -> None:
        """A slot is free: claim for it, with the inputs that are due by then."""
        if self.next_ready_ms is not None and self.next_ready_ms <= self.shard.clock.now_ms():
            self._schedule(self._delay_s())

    def idle(self) -> bool:
        """Nothing is waiting, being decided, or on its way to another shard."""
        return not (self._more or self.shard.waiting() or self._under_way or self._held)

    def end(self) -> None:
        """Make what waits durable, note what was delivered, and run no more."""
        if self._timer is not None:
            self._timer.cancel()
        self.ended = True
        if self.shard.waiting() and not self.full:
            self.shard.step(0)
        if not self.full:
            self._note_sent()  # answers may have come since the last batch
            self.shard.settle_outbox()

    def _schedule(self, delay_s: float) -> None:
        """Run within `delay_s`, or sooner if that was planned already."""
        at = self._loop.time() + delay_s
        if self.ended or (self._timer is not None and self._timer_at <= at):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = at
        self._timer = self._loop.call_at(at, self._run)

    def _delay_s(self) -> float:
        """How long inputs that came are left to gather."""
        return max(self._commit_delay_s, min(REST_FACTOR * self._took_s, REST_S_MAX))

    def _run(self) -> None:
        self._timer = None
        began = self._loop.time()
        try:
            self._batch()
            self._send_outbox()
        except Retriable as exc:
            self.full = str(exc)
            self._schedule(RETRY_S)
            return
        except BaseException as exc:
            self.ended = True
            self.shard.fail_waiting(exc if isinstance(exc, Exception) else RuntimeError(repr(exc)))
            self._failed(exc)
            return
        self._took_s = self._loop.time() - began
        self._schedule(self._rest_s())

    def _batch(self) -> None:
        """One batch, if there is anything for it."""
        wanted = self.slots.reserve(self._share if self._may_claim() else 0)
        leases = 0
        try:
            done = self.shard.step(wanted)
            leases = len(done.leases)
        finally:
            self.slots.give_back(wanted - leases)
        if self.full and done.head is None:
            self.shard.probe()  # nothing had to be written, which says nothing about room
        self.full = ""
        self._more = done.more
        self.next_ready_ms = done.next_ready_ms
        self.batches += done.head is not None
        self.decided += len(done.decisions)
        self.rejects += done.rejects
        self._count(done)
        if done.leases:
            self._hand_out(done.leases)

    def _may_claim(self) -> bool:
        return self.shard.role is Role.FRONTIER and not self.slots.closed

    def _rest_s(self) -> float:
        """How long nothing needs to be done."""
        if self._more or self.shard.waiting():
            return 0.0
        if self.next_ready_ms is None or not self.slots.room():
            return POLL_S
        rest_ms = max(self.next_ready_ms - self.shard.clock.now_ms(), REST_MS_MIN)
        return min(
            POLL_S, max(rest_ms / 1_000, self._delay_s())
        )  # hosts whose turn comes meanwhile share the commit

    def _count(self, done: Done) -> None:
        for event in done.decisions:
            if (
                isinstance(event, Transition)
                and event.to_state is State.FETCHED
                and event.reason is Reason.OK
                and (event.result is None or event.result.sitemap is None)
            ):
                self.slots.fetched()

    def _send_outbox(self) -> None:
        """Offer what the outbox holds to its shards. It is noted as delivered when all of them made it durable; until then
        no more is sent, so that inputs keep their order."""
        if self._under_way:
            return
        self._note_sent()
        self._held = False
        for delivery in self.shard.outbox():
            self._under_way += 1
            if not self._deliver(delivery, self._answered):
                self._under_way -= 1
                self._held = True  # the other one has no room: sent again later
                return
            self._sent_to = delivery.offset + 1

    def _note_sent(self) -> None:
        """What was sent is delivered, once all of it is durable."""
        if not self._under_way:
            self.shard.delivered = max(self.shard.delivered, self._sent_to)

    def _answered(self, error: Exception | None) -> None:
        """One delivery is durable, or its shard is ending: then it stays in the outbox for the next start."""
        if error is None:
            self._under_way -= 1
            if self._under_way == 0:
                self._schedule(self._delay_s())
