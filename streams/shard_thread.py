"""The thread that runs one shard: waits for work, groups it, makes a batch, hands out leases, delivers the outbox.

Group commit: after the first input arrives it waits `commit_delay_s`, so that one fsync serves many. While there is no
room on the disk it makes no batch, tells why, and tries again every second; anything else unexpected ends the crawl,
and the log decides at the next start.
"""

import threading
import time
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
"""How soon a record that another process appended to `control` is seen."""
SWEEP_MS = 1_000
RETRY_S = 1.0


class ShardThread(threading.Thread):
    """Runs a shard that was opened. `hand_out` takes leases; `deliver` offers an input to another shard and returns at
    once, False when that one has no room; `share` is the least number of slots that a batch asks for."""

    def __init__(
        self,
        shard: Shard,
        slots: Slots,
        *,
        commit_delay_ms: int,
        hand_out: Callable[[list[Lease]], None],
        share: int,
        deliver: Callable[[Delivery, Answer], bool],
        failed: Callable[[BaseException], None],
    ) -> None:
        super().__init__(name=shard.name, daemon=True)
        self.shard = shard
        self.slots = slots
        self.full = ""
        """Why nothing can be committed at the moment; empty when all is well."""
        self.idle = False
        """Nothing is waiting, being decided, or on its way to another shard."""
        self.next_ready_ms: int | None = None
        self.batches = self.decided = self.rejects = 0
        self.last: Done | None = None
        self._commit_delay_s = commit_delay_ms / 1_000
        self._hand_out = hand_out
        self._deliver = deliver
        self._share = share
        self._lock = threading.Lock()
        self._under_way = 0
        self._sent_to = 0
        self._held = False
        self._failed = failed
        self._wake = threading.Event()
        self._stopping = False
        self._sweep_ms = 0

    def wake(self) -> None:
        """There may be something to do."""
        self._wake.set()

    def offer(self, offered: Offered, answer: Answer | None, wait_s: float | None = None) -> bool:
        """Offer an input to the shard and wake it."""
        self.idle = False
        taken = self.shard.offer(offered, answer, wait_s=wait_s)
        self._wake.set()
        return taken

    def stop(self) -> None:
        """End after the batch under way; what waits is committed first."""
        self._stopping = True
        self._wake.set()

    def run(self) -> None:
        try:
            while not (self._stopping and not self.shard.waiting()):
                self._turn()
            self.shard.settle_outbox()
        except BaseException as exc:
            self.shard.fail_waiting(exc if isinstance(exc, Exception) else RuntimeError(repr(exc)))
            self._failed(exc)

    def _turn(self) -> None:
        """Wait for something to do, then do it."""
        busy = self._due()
        if not busy:
            self.idle = self._under_way == 0 and not self._held
            self._wake.wait(self._rest_s())
            busy = self._due()
            if not busy:
                return
        self.idle = False
        if self.shard.waiting() and self._commit_delay_s and not self._stopping:
            time.sleep(self._commit_delay_s)
        self._wake.clear()
        self._batch()
        self._send_outbox()

    def _due(self) -> bool:
        """Whether a batch would find something: inputs, a host whose turn came, leases to sweep, control."""
        if self._under_way == 0 and self._sent_to > self.shard.delivered:
            self.shard.delivered = self._sent_to
            self._send_outbox()
        if self.shard.waiting() or (self.last is not None and self.last.more) or self.last is None:
            return True
        now_ms = self.shard.clock.now_ms()
        ready = self.next_ready_ms is not None and self.next_ready_ms <= now_ms
        if ready and not self._stopping and self.slots.room() and not self.full:
            return True
        if now_ms - self._sweep_ms >= SWEEP_MS:
            self._sweep_ms = now_ms
            return self.shard.role is Role.FRONTIER
        return self.shard.role is Role.FRONTIER and self.shard.has_control()

    def _rest_s(self) -> float:
        if self.next_ready_ms is None:
            return POLL_S
        until_s = (self.next_ready_ms - self.shard.clock.now_ms()) / 1_000
        return min(POLL_S, max(until_s, 0.005))

    def _batch(self) -> None:
        share = self._share if self.shard.role is Role.FRONTIER and not self._stopping else 0
        wanted = self.slots.reserve(share)
        leases = 0
        try:
            done = self.shard.step(wanted)
            leases = len(done.leases)
        except Retriable as exc:
            self.full = str(exc)
            time.sleep(RETRY_S)
            return
        finally:
            self.slots.give_back(wanted - leases)
        self.full = ""
        self.last = done
        self.next_ready_ms = done.next_ready_ms
        self.batches += 1
        self.decided += len(done.decisions)
        self.rejects += done.rejects
        self._count(done)
        if done.leases:
            self._hand_out(done.leases)

    def _count(self, done: Done) -> None:
        for event in done.decisions:
            if isinstance(event, Transition) and event.to_state is State.FETCHED and event.reason is Reason.OK:
                self.slots.fetched()

    def _send_outbox(self) -> None:
        """Offer what the outbox holds to its shards. It is noted as delivered when all of them made it durable; until
        then no more is sent, so that inputs keep their order."""
        if self._under_way:
            return
        self._held = False
        for delivery in self.shard.outbox():
            with self._lock:
                self._under_way += 1
            if not self._deliver(delivery, self._answered):
                self._answered(None)
                self._held = True  # the other one has no room: sent again later
                return
            self._sent_to = delivery.offset + 1

    def _answered(self, error: Exception | None) -> None:
        """One delivery is durable, or its shard is ending: then it stays in the outbox for the next start."""
        with self._lock:
            self._under_way -= 1 if error is None else 0
        self._wake.set()
