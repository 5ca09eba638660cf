"""The embedded host: every shard of a crawl in this process (DESIGN §3).

crawl folder/log/frontier-0 …   one LMDB environment a shard, log and tables together
crawl folder/archive            WARC segments
crawl folder/owner.lock         held while a process owns the crawl
"""

import asyncio
import os
import socket
from collections.abc import Callable, Sequence
from pathlib import Path

from frontlog.avro.codec import encode
from frontlog.avro.enums import SourceKind, Topic
from frontlog.avro.errors import ConfigError
from frontlog.processors import canonical
from frontlog.processors.control import seed_discovery
from frontlog.processors.leased import Lease
from frontlog.processors.sites import partition_of, site_of
from frontlog.state.catalogue import META, STORE_TABLES
from frontlog.state.lmdb_store import LmdbStore
from frontlog.streams.batching import Offered
from frontlog.streams.clock import Clock
from frontlog.streams.options import Config
from frontlog.streams.shard import Answer, Delivery, Shard
from frontlog.streams.shard_runner import ShardRunner
from frontlog.streams.slots import Slots
from frontlog.streams.survey import Survey, look_at_hosts
from frontlog.streams.topics import CONTENT_PARTITIONS, Role, shard_name

LOG_FOLDER = "log"
ARCHIVE_FOLDER = "archive"
FULL_RETRY_S = 0.02
DURABILITY_KEY = b"durability"
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def process_name(started_ms: int) -> str:
    """What this process is called in leases and ownership: host, boot, pid, start."""
    boot = BOOT_ID.read_text(encoding="ascii").strip()[:8] if BOOT_ID.exists() else "-"
    return f"{socket.gethostname()}/{boot}/{os.getpid()}/{started_ms}"


class EmbeddedHost:
    """Opens the shards of a folder and runs them in the running event loop. The folder's lock is held by the caller."""

    def __init__(self, folder: Path, config: Config, clock: Clock) -> None:
        self.folder = folder
        self.config = config
        self.clock = clock
        self.owner = process_name(clock.now_ms())
        self.partitions = config.options.log.partitions
        self.shards: list[Shard] = []
        self.runners: list[ShardRunner] = []
        self.slots = Slots(config.options.fetch.slots)
        self.failure: BaseException | None = None

    def open(self) -> None:
        """Open every shard: fold nothing twice, take ownership, release what a dead process left."""
        for role, count in ((Role.FRONTIER, self.partitions), (Role.CONTENT, CONTENT_PARTITIONS)):
            for partition in range(count):
                path = self.folder / LOG_FOLDER / shard_name(role, partition)
                path.mkdir(parents=True, exist_ok=True)
                store = LmdbStore(path, STORE_TABLES, durability=self.config.options.log.durability)
                shard = Shard(
                    store, role, partition, self.partitions if role is Role.FRONTIER else count, clock=self.clock,
                    owner=self.owner, settings=self.config.settings,
                )  # fmt: skip
                self.shards.append(shard)
        self._check_partitions()
        for shard in self.shards:
            shard.open()
            with shard.store.begin(write=True) as txn:
                txn.put(META.name, DURABILITY_KEY, self.config.options.log.durability.encode())
                txn.commit()
        survey = Survey()
        for shard in self.frontier():
            with shard.store.begin() as txn:
                look_at_hosts(txn, survey, self.clock.now_ms())
        self.slots = Slots(self.config.options.fetch.slots, self.config.options.crawl.pages_max, survey.pages)

    def _check_partitions(self) -> None:
        """A folder with more shards than are configured would lose those behind."""
        more = self.folder / LOG_FOLDER / shard_name(Role.FRONTIER, self.partitions)
        if more.exists():
            raise ConfigError(
                f"{self.folder}: its log has more than the {self.partitions} partitions that log.partitions says; "
                "set log.partitions to what it was when the crawl was made"
            )

    def frontier(self) -> list[Shard]:
        """The shards that decide about URLs."""
        return [shard for shard in self.shards if shard.role is Role.FRONTIER]

    @property
    def content(self) -> ShardRunner:
        """The runner of content's shard."""
        return self.runners[-1]

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
        offered = Offered(delivery.topic, delivery.key, delivery.value)
        number = delivery.partition if delivery.partition < self.partitions else 0
        return self.runners[number].offer(offered, answer)

    async def seed(self, seeds: Sequence[str]) -> None:
        """Offer seeds, as fast as the shards take them; those that are known change nothing. Raises ConfigError for
        what is no URL, before any is offered."""
        now_ms = self.clock.now_ms()
        offers: list[tuple[ShardRunner, Offered]] = []
        for raw in seeds:
            found = canonical.canonicalize(raw)
            if isinstance(found, canonical.Refused):
                raise ConfigError(f"seed {raw!r}: {found.reason.value}; give an absolute http or https URL")
            event = seed_discovery(f"{now_ms} {found.identity}", raw, found, SourceKind.SEED, now_ms)
            runner = self.runners[partition_of(site_of(found.host), self.partitions)]
            offers.append(
                (runner, Offered(Topic.DISCOVERIES, found.origin_key.encode(), encode(event), event))
            )
        for runner, offered in offers:
            while not runner.offer(offered, None):
                if runner.ended:
                    return  # the run is over; its failure says why
                await asyncio.sleep(FULL_RETRY_S)

    def idle(self) -> bool:
        """Whether no shard has anything to decide, commit or deliver."""
        return all(runner.idle() for runner in self.runners)

    def next_ready_ms(self) -> int | None:
        """When the first host of any shard can be claimed; None: nothing waits."""
        times = [t.next_ready_ms for t in self.runners if t.next_ready_ms is not None]
        return min(times, default=None)

    def full(self) -> str:
        """Why a shard can't commit at the moment; empty when all can."""
        return next((t.full for t in self.runners if t.full), "")

    def stop(self) -> None:
        """Commit what waits, end the runners and close the stores."""
        for runner in self.runners:
            runner.end()
        for shard in self.shards:
            shard.fail_waiting(RuntimeError("the crawl has ended"))
            shard.close()
