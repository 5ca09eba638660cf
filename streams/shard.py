"""The host of one shard: opens its store, takes ownership, makes batches, hands out what was committed.

What a crash leaves, and who mends it (embedded: log and tables are one commit):

| the process dies                                  | the store holds        | at the next start                        |
|---------------------------------------------------|------------------------|------------------------------------------|
| before an offered input's batch is committed      | nothing of it          | its sender was not answered: sends again |
| while a batch is made                             | the batch before       | inputs are read again from the positions |
| during the commit                                 | all of it or nothing   | as one of the two rows above or below    |
| after the commit, before leases are handed out    | leases nobody works on | released, the gap counts from then       |
| after leases were handed out                      | leases                 | released, the gap counts from then       |
| after the commit, before the outbox is delivered  | the outbox             | delivered again; a repeat changes nothing|
| after a delivery, before it is noted              | the outbox             | delivered again; its target knows it     |

A shard is used by one thread.
"""

from collections import deque
from collections.abc import Callable
from itertools import islice
from typing import NamedTuple

from msgspec.structs import replace

from frontlog import __version__
from frontlog.avro.enums import Topic
from frontlog.avro.errors import Corrupt, Fenced, Incompatible, MapFull
from frontlog.avro.events import Event, OwnershipTaken
from frontlog.processors import partition as partitions_machine
from frontlog.processors.context import Context, Decided
from frontlog.processors.settings import Settings
from frontlog.processors.sites import PSL_VERSION
from frontlog.state import head as heads
from frontlog.state.catalogue import META
from frontlog.state.row_tables import Kept
from frontlog.state.rows import FOLD_VERSION
from frontlog.state.store import Store, Txn, in_write
from frontlog.state.tables import Tables
from frontlog.streams.batching import BatchMaker, Done, Offered, Poison, Poisoned
from frontlog.streams.clock import Clock, check_clock
from frontlog.streams.embedded_log import EmbeddedLog
from frontlog.streams.topics import OUTBOX, TOPIC_IDS, Role, shard_name

OFFERED_MAX = 4_000
"""Inputs that wait for a batch; a sender beyond that waits."""
OUTBOX_KEY = b"outbox"
OUTBOX_MAX = 1_000
RECEIVED_KEY = b"received from "
PROBE_KEY = b"probe"
Answer = Callable[[Exception | None], None]


class Waiting(NamedTuple):
    """An offered input and who wants to know when it is durable."""

    offered: Offered
    answer: Answer | None


class Delivery(NamedTuple):
    """An input that the outbox of the shard `source` holds for another; `offset` is noted once it is durable there."""

    source: str
    offset: int
    topic: Topic
    partition: int
    key: bytes
    value: bytes
    event: Event | None = None
    """What `value` holds, where this process decided it."""


class Shard:
    """One partition with its log and tables. `owner` names this process in leases and ownership."""

    def __init__(
        self,
        store: Store,
        role: Role,
        partition: int,
        partitions: int,
        *,
        clock: Clock,
        owner: str,
        settings: Settings,
    ) -> None:
        self.store = store
        self.log = EmbeddedLog(store, TOPIC_IDS)
        self.role = role
        self.partition = partition
        self.partitions = partitions
        self.clock = clock
        self.owner = owner
        self.settings = settings
        self.name = shard_name(role, partition)
        self.head = heads.Head()
        self._head_bytes = b""
        self._offered: deque[Waiting] = deque()
        self._poison: dict[Poison, str] = {}
        self._kept = Kept()
        self.poisoned: list[str] = []
        self._outbox: deque[Delivery] | None = None  # None: some of it is only in the log
        self.delivered = 0
        """Everything in the outbox before this offset is durable where it belongs."""

    def open(self) -> Done:
        """Check what the store holds, take ownership and release what a dead process left; one batch."""
        with self.store.begin() as txn:
            self.head = heads.load(txn)
            self._check(txn)
            note = txn.get(META.name, OUTBOX_KEY)
            self.delivered = int.from_bytes(note, "big") if note else 0
        return self._commit([], 0, self._start)

    def _check(self, txn: Txn) -> None:
        head = self.head
        if head.seq == 0:
            return
        check_head(head, self.name, self.clock.now_ms(), self.partitions)
        log = self.log.within(txn)
        for topic, following in head.next.items():
            end = log.bounds(topic, self.partition)[1]
            if end != following:
                raise Corrupt(
                    f"{self.name}: {topic} ends at offset {end}, but the tables were folded up to {following}: log and "
                    "tables don't belong together; run: frontlog replay rebuild DIR NEW"
                )

    def _start(self, made: BatchMaker) -> None:
        """The first decisions of a new owner."""
        take_over(made, self.head, self.settings)
        if self.role is Role.FRONTIER and not made.results_wait:
            made.take(partitions_machine.release_all(made.tables, made.ctx))

    def offer(self, offered: Offered, answer: Answer | None = None) -> bool:
        """Put an input into the queue for the next batch; False when the queue is full.
        `answer` is called when the input is durable, with None, or with what went wrong."""
        if len(self._offered) >= OFFERED_MAX:
            return False
        self._offered.append(Waiting(offered, answer))
        return True

    def waiting(self) -> int:
        """Inputs in the queue."""
        return len(self._offered)

    def has_control(self) -> bool:
        """Whether another process appended inputs that are not decided yet."""
        with self.store.begin() as txn:
            log = self.log.within(txn)
            position = self.head.positions.get(Topic.CONTROL, 0)
            return log.bounds(Topic.CONTROL, self.partition)[1] > position

    def step(self, wanted: int) -> Done:
        """One batch: everything offered by now, and claims for `wanted` slots. Answers are given after the commit.
        On an error nothing was written, and the same inputs are tried again with the next batch."""
        taken = list(self._offered)
        done = self._commit([w.offered for w in taken], wanted, _ordinary)
        for one in taken:
            self._offered.popleft()
            if one.answer is not None:
                one.answer(None)
        return done

    def fail_waiting(self, error: Exception) -> None:
        """Tell everyone who still waits that nothing comes any more."""
        while self._offered:
            one = self._offered.popleft()
            if one.answer is not None:
                one.answer(error)

    def _commit(self, offered: list[Offered], wanted: int, work: Callable[[BatchMaker], None]) -> Done:
        """Make a batch and commit it; again when the map had to grow or one input was poison."""
        start = work is not _ordinary
        while True:
            try:
                return self._attempt(offered, wanted, work, start)
            except MapFull:
                continue
            except Corrupt as exc:
                raise Corrupt(
                    f"{self.name}: {exc}; nothing was written: see with `frontlog verify DIR` what else is damaged, then "
                    "restore the folder from a copy, or what can be read with `frontlog replay rebuild DIR NEW`"
                ) from exc
            except Poisoned as exc:
                if exc.poison in self._poison:
                    raise
                self._poison[exc.poison] = str(exc)
                self.poisoned.append(str(exc))

    def _attempt(
        self, offered: list[Offered], wanted: int, work: Callable[[BatchMaker], None], start: bool
    ) -> Done:
        kept, self._kept = self._kept, Kept()  # good again once what this batch changes in it is committed
        with self.store.begin(write=True) as txn:
            head = self._own_head(txn)
            now_ms = max(self.clock.now_ms(), head.at_ms)
            ctx = Context(
                now_ms=now_ms, seq=head.seq, owner_token=head.owner_token + start, owner=self.owner,
                partition=self.partition, partitions=self.partitions,
            )  # fmt: skip
            made = BatchMaker(
                Tables(txn, head, kept), self.log.within(txn), ctx, self.role, poison=self._poison
            )
            fresh, received = self._unseen(txn, offered)
            made.append(fresh)
            work(made)
            made.take_inputs()
            made.take_timers()
            made.take_claims(wanted)
            done = made.finish(wanted)
            if done.head is None:
                self._kept = kept
                return done
            new = replace(done.head, fold_version=FOLD_VERSION)
            head_bytes = heads.save(txn, new)
            self._note_delivered(txn)
            for key, following in received.items():
                txn.put(META.name, key, following.to_bytes(8, "big"))
            txn.commit()
        self.head, self._head_bytes, self._kept = new, head_bytes, kept
        self._keep_outbox(done)
        return done

    def _own_head(self, txn: Txn) -> heads.Head:
        """The head that the store holds, if it is the one that this owner left; nothing is written by any other."""
        if self._head_bytes and txn.get(META.name, heads.KEY) == self._head_bytes:
            return self.head
        head = heads.load(txn)
        if head.seq != self.head.seq or head.owner_token != self.head.owner_token:
            raise Fenced(
                f"{self.name}: another owner (token {head.owner_token}) decided up to seq {head.seq}"
            )
        return head

    def _unseen(self, txn: Txn, offered: list[Offered]) -> tuple[list[Offered], dict[bytes, int]]:
        """The inputs that no outbox brought before, and up to where each outbox's are in this log with them. An outbox
        delivers in order, so one number a source tells."""
        fresh: list[Offered] = []
        received: dict[bytes, int] = {}
        for one in offered:
            if one.source is not None:
                name, offset = one.source
                key = RECEIVED_KEY + name.encode()
                if key not in received:
                    received[key] = int.from_bytes(txn.get(META.name, key) or b"", "big")
                if offset < received[key]:
                    continue
                received[key] = offset + 1
            fresh.append(one)
        return fresh, received

    def outbox(self) -> list[Delivery]:
        """What waits for other shards, oldest first, at most OUTBOX_MAX."""
        kept = self._outbox
        if kept is not None:
            while kept and kept[0].offset < self.delivered:
                kept.popleft()
            return list(islice(kept, OUTBOX_MAX))
        first, end = self.log.bounds(OUTBOX, self.partition)
        at = max(first, self.delivered)
        if at >= end:
            self._outbox = deque()
            return []
        found: list[Delivery] = []
        for record in self.log.read(OUTBOX, self.partition, at, records_max=OUTBOX_MAX):
            topic, _, number = dict(record.headers)["to"].decode().rpartition("/")
            found.append(
                Delivery(self.name, record.offset, Topic.named(topic), int(number), record.key, record.value)
            )
        return found

    def _keep_outbox(self, done: Done) -> None:
        """Keep what a batch put into the outbox, so that it needn't be read again; with too much of it, it is."""
        kept = self._outbox
        if kept is None or not done.outbox:
            return
        if len(kept) + len(done.outbox) > OUTBOX_MAX:
            self._outbox = None
            return
        kept += [
            Delivery(
                self.name, one.offset, one.emission.topic, one.emission.partition, one.record.key, one.record.value,
                one.emission.event,
            )
            for one in done.outbox
        ]  # fmt: skip

    def _note_delivered(self, txn: Txn) -> None:
        """Note, with the batch, up to where the outbox was delivered, and cut it there."""
        log = self.log.within(txn)
        first, _ = log.bounds(OUTBOX, self.partition)
        if self.delivered > first:
            txn.put(META.name, OUTBOX_KEY, self.delivered.to_bytes(8, "big"))
            log.cut(OUTBOX, self.partition, self.delivered)

    def settle_outbox(self) -> None:
        """Note deliveries that no batch noted yet; for a clean end."""

        def note(txn: Txn) -> None:
            self._own_head(txn)
            self._note_delivered(txn)

        in_write(self.store, note)

    def probe(self) -> None:
        """Commit next to nothing, to see whether there is room. Raises Retriable."""
        with self.store.begin(write=True) as txn:
            self._own_head(txn)
            txn.put(META.name, PROBE_KEY, b"")
            txn.commit()

    def close(self) -> None:
        """Close the store."""
        self.store.close()


def _ordinary(_made: BatchMaker) -> None:
    """A batch that is not the first of an owner has nothing of its own to say."""


def check_head(head: heads.Head, name: str, now_ms: int, partitions: int) -> None:
    """Whether this process can go on from the tables of a shard. Raises ConfigError and Incompatible."""
    check_clock(now_ms, head.at_ms, name)
    if head.fold_version != FOLD_VERSION:
        raise Incompatible(
            f"{name}: its tables were folded by version {head.fold_version}, this frontlog folds version "
            f"{FOLD_VERSION}; run: frontlog replay rebuild DIR NEW"
        )
    if head.partitions != partitions:
        raise Incompatible(
            f"{name}: the log has {head.partitions} partitions pinned, {partitions} are configured; "
            "set log.partitions back, or copy the crawl into a new folder"
        )
    if head.psl_version != PSL_VERSION:
        raise Incompatible(
            f"{name}: the log was made with {head.psl_version}, here is {PSL_VERSION}; sites may lie in other "
            "partitions: install the pinned version"
        )


def take_over(made: BatchMaker, head: heads.Head, settings: Settings) -> None:
    """The first decisions of a new owner: that it owns, the settings, and what was logged for it by now. Results that a
    dead process had logged count; with too many of them, its leases run out."""
    taken = OwnershipTaken(
        seq=made.ctx.next_seq(), owner_token=made.ctx.owner_token, after_seq=head.seq, owner=made.ctx.owner,
        software=__version__, fold_version=FOLD_VERSION, partitions=made.ctx.partitions, psl_version=PSL_VERSION,
        at_ms=made.ctx.now_ms,
    )  # fmt: skip
    made.take([Decided(decisions=[taken])])
    if made.role is Role.FRONTIER:
        made.take([partitions_machine.settle_settings(made.tables, made.ctx, settings)])
        made.take_inputs()
