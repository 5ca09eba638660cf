"""The embedded host: every shard of a crawl in this process (DESIGN §3).

crawl folder/log/frontier-0 …   one LMDB environment a shard, log and tables together
crawl folder/archive            WARC segments
crawl folder/owner.lock         held while a process owns the crawl
"""

import contextlib
import os
import socket
from collections.abc import Callable
from pathlib import Path

from frontlog.avro.errors import ConfigError
from frontlog.processors.leased import Lease
from frontlog.state import head as heads
from frontlog.state.catalogue import META, STORE_TABLES
from frontlog.state.lmdb_store import MAP_BYTES, LmdbStore
from frontlog.streams.batching import Offered
from frontlog.streams.clock import BEHIND_MS_MAX, OwnClock
from frontlog.streams.options import Config
from frontlog.streams.shard import Answer, Delivery, Shard
from frontlog.streams.shard_runner import ShardRunner
from frontlog.streams.slots import Slots
from frontlog.streams.survey import Survey, look_at_hosts
from frontlog.streams.topics import CONTENT_PARTITIONS, Role, shard_name

LOG_FOLDER = "log"
ARCHIVE_FOLDER = "archive"
DURABILITY_KEY = b"durability"
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def process_name(started_ms: int) -> str:
    """What this process is called in leases and ownership: host, boot, pid, start."""
    boot = BOOT_ID.read_text(encoding="ascii").strip()[:8] if BOOT_ID.exists() else "-"
    return f"{socket.gethostname()}/{boot}/{os.getpid()}/{started_ms}"


class EmbeddedHost:
    """Opens the shards of a folder and runs them in the running event loop. The folder's lock is held by the caller."""

    def __init__(self, folder: Path, config: Config, clock: OwnClock, *, map_bytes: int = MAP_BYTES) -> None:
        self.folder = folder
        self.config = config
        self.clock = clock
        self.owner = process_name(clock.now_ms())
        self.partitions = config.options.log.partitions
        self.shards: list[Shard] = []
        self.runners: list[ShardRunner] = []
        self.slots = Slots(config.options.fetch.slots)
        self._map_bytes = map_bytes
        self._rejects = 0

    def open(self) -> None:
        """Open every shard: fold nothing twice, take ownership, release what a dead process left. Raises FrontlogError;
        `stop` closes what was opened by then."""
        for role, count in ((Role.FRONTIER, self.partitions), (Role.CONTENT, CONTENT_PARTITIONS)):
            for partition in range(count):
                self.shards.append(self._shard(role, partition, count))
                self._check_partitions()
        self.clock.not_before(max(self._last_ms(shard) for shard in self.shards))
        for shard in self.shards:
            self._rejects += shard.open().rejects
            with shard.store.begin(write=True) as txn:
                txn.put(META.name, DURABILITY_KEY, self.config.options.log.durability.encode())
                txn.commit()
        survey = Survey()
        for shard in self.frontier():
            with shard.store.begin() as txn:
                look_at_hosts(txn, survey, self.clock.now_ms())
        self.slots = Slots(self.config.options.fetch.slots, self.config.options.crawl.pages_max, survey.pages)

    def abandon(self) -> None:
        """Close what `open` had opened when it failed, so that it can be tried again."""
        shards, self.shards = self.shards, []
        self._rejects = 0
        for shard in shards:
            shard.close()

    def _shard(self, role: Role, partition: int, count: int) -> Shard:
        path = self._path(role, partition)
        path.mkdir(parents=True, exist_ok=True)
        store = LmdbStore(
            path, STORE_TABLES, durability=self.config.options.log.durability, map_bytes=self._map_bytes
        )
        try:
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
        except BaseException:
            store.close()
            raise

    def _path(self, role: Role, partition: int) -> Path:
        return self.folder / LOG_FOLDER / shard_name(role, partition)

    def _last_ms(self, shard: Shard) -> int:
        """The last time that a shard's log has, where this clock may go on from it; 0 if it is too far behind, which
        opening the shard refuses."""
        with shard.store.begin() as txn:
            last_ms = heads.load(txn).at_ms
        return last_ms if last_ms - self.clock.now_ms() <= BEHIND_MS_MAX else 0

    def _check_partitions(self) -> None:
        """The number of partitions was settled when the crawl was made; another one would lose or misplace sites. It is
        looked at with every shard, so that a wrong setting makes none that weren't there."""
        with self.shards[0].store.begin() as txn:
            made = heads.load(txn).partitions
        if made not in (0, self.partitions) or self._path(Role.FRONTIER, self.partitions).exists():
            raise ConfigError(
                f"{self.folder}: its log has {made or 'more'} partitions, log.partitions says {self.partitions}; set it to "
                "what it was when the crawl was made"
            )

    def frontier(self) -> list[Shard]:
        """The shards that decide about URLs."""
        return [shard for shard in self.shards if shard.role is Role.FRONTIER]

    @property
    def content(self) -> ShardRunner:
        """The runner of content's shard."""
        return self.runners[-1]

    def known(self) -> tuple[str, ...]:
        """The folders where parsers look up which links are no news, by partition. None where a power cut may undo in one
        shard what a page of another was read by."""
        if self.config.options.log.durability != "fsync":
            return ()
        return tuple(str(self._path(Role.FRONTIER, number)) for number in range(self.partitions))

    def start(self, hand_out: Callable[[list[Lease]], None], failed: Callable[[BaseException], None]) -> None:
        """Start running the shards."""
        share = max(1, self.slots.total // self.partitions)
        for shard in self.shards:
            self.runners.append(
                ShardRunner(
                    shard, self.slots, commit_delay_ms=self.config.options.log.commit_delay_ms, hand_out=hand_out,
                    share=share, deliver=self._deliver, failed=failed,
                )
            )  # fmt: skip
        for runner in self.runners:
            runner.start()

    def _deliver(self, delivery: Delivery, answer: Answer) -> bool:
        """Offer an outbox's input to the frontier shard that it is for; if there is none, the first passes it on."""
        offered = Offered(
            delivery.topic, delivery.key, delivery.value, delivery.event, (delivery.source, delivery.offset)
        )
        number = delivery.partition if delivery.partition < self.partitions else 0
        return self.runners[number].offer(offered, answer)

    def is_empty(self) -> bool:
        """Whether the log knows no URL and nobody has asked for one."""
        for shard in self.frontier():
            with shard.store.begin() as txn:
                if txn.count("urls") or shard.outbox() or shard.has_control():
                    return False
        return True

    def idle(self) -> bool:
        """Whether no shard has anything to decide, commit or deliver."""
        return all(runner.idle() for runner in self.runners)

    def next_ready_ms(self) -> int | None:
        """When the first host of any shard can be claimed; None: nothing waits."""
        times = [t.next_ready_ms for t in self.runners if t.next_ready_ms is not None]
        return min(times, default=None)

    def rejects(self) -> int:
        """Inputs that could not be used, since `open`."""
        return self._rejects + sum(runner.rejects for runner in self.runners)

    def full(self) -> str:
        """Why a shard can't commit at the moment; empty when all can."""
        return next((t.full for t in self.runners if t.full), "")

    def stop(self) -> None:
        """Commit what waits, end the runners and close the stores; all of them, whatever one of them says."""
        with contextlib.ExitStack() as every:
            for shard in self.shards:
                every.callback(shard.close)
                every.callback(shard.fail_waiting, RuntimeError("the crawl has ended"))
            for runner in reversed(self.runners):
                every.callback(runner.end)
