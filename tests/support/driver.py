"""Drives the shards of a crawl in a test: pipe records in, read records out, move the clock, look into tables.

    with Driver(tmp_path / "crawl", web=synthetic(hosts=4, pages=10)) as crawl:
        crawl.seed("http://s0.example/")
        crawl.run()
        assert crawl.state("http://s0.example/") is State.FETCHED

It is what Kafka's TopologyTestDriver is to a topology: no threads, no sockets, no waiting. The shards are the real
ones; the fetchers are scripted (`support/web.py`) and write what the real ones write, in the same order: body, candidate,
discoveries, fetch-result. Time moves only when the test (or `run`) moves it.
"""

import heapq
from collections.abc import Iterator
from itertools import count as counter
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from msgspec.structs import replace

from frontlog.avro.codec import Undecodable, decode, encode
from frontlog.avro.enums import FetchKind, SourceKind, State, Topic
from frontlog.avro.errors import MapFull
from frontlog.avro.events import Control, Discovery, Event, FetchResult
from frontlog.fetch import known_links
from frontlog.fetch.archive import Archive
from frontlog.processors import canonical
from frontlog.processors.control import seed_discovery
from frontlog.processors.leased import Lease
from frontlog.processors.settings import Settings
from frontlog.processors.sites import partition_of, site_of
from frontlog.state import keys
from frontlog.state.catalogue import STORE_TABLES
from frontlog.state.lmdb_store import LmdbStore
from frontlog.state.memory_store import MemoryStore
from frontlog.state.rows import HostRow, UrlRow
from frontlog.state.store import Store
from frontlog.state.tables import Tables
from frontlog.streams.batching import Done, Offered
from frontlog.streams.records import Record
from frontlog.streams.shard import Shard
from frontlog.streams.topics import OUTBOX, Role, shard_name
from support.fetcher import Answered, answer
from support.web import Web

START_MS = 1_790_000_000_000
ROUNDS_MAX = 1_000_000


class ManualClock:
    """A clock that stands until it is moved."""

    def __init__(self, at_ms: int = START_MS) -> None:
        self.at_ms = at_ms

    def now_ms(self) -> int:
        return self.at_ms

    def advance(self, ms: int) -> None:
        self.at_ms += ms


def _only(event: Discovery, places: list[int]) -> list[Discovery]:
    """A discovery with some of its links; none without any."""
    if not places:
        return []
    columns = {
        name: tuple(getattr(event, name)[i] for i in places) for name in ("urls", "raws", "anchors", "rels")
    }
    return [replace(event, **columns)]


class Driver:
    """A whole crawl in one thread. `folder` None: stores in memory, which end with the driver. `leaves_out`: fetchers leave
    out links to URLs that are known by then."""

    def __init__(
        self,
        folder: Path | None = None,
        *,
        web: Web | None = None,
        settings: Settings | None = None,
        partitions: int = 4,
        start_ms: int = START_MS,
        archive: bool = False,
        shard_class: type[Shard] = Shard,
        leaves_out: bool = False,
    ) -> None:
        self.folder = folder
        self.web = web or Web()
        self.settings = settings or Settings()
        self.partitions = partitions
        self.clock = ManualClock(start_ms)
        self.shard_class = shard_class
        self.leaves_out = leaves_out
        self.leases: dict[tuple[FetchKind, str, int], Lease] = {}
        """Leases handed out and not answered yet."""
        self.shards: dict[str, Shard] = {}
        self.next_ready_ms: int | None = None
        self.last: tuple[int, FetchResult] | None = None
        """The result that was written last, and the partition that it went to."""
        self._memory: dict[str, MemoryStore] = {}
        self._flights: list[tuple[int, int, Lease, Answered]] = []
        self._order = counter()
        self._starts = counter(1)
        self._archive: Archive | None = None
        if archive:
            assert folder is not None, "an archive needs a folder"
            self._archive = Archive(folder / "archive", info={"software": "driver"}, clock=self.clock.now_ms)
            self._archive.recover()
        self._open()

    # --- life -------------------------------------------------------------------------------------------------

    def _open(self) -> None:
        owner = f"driver-{next(self._starts)}"
        for role, count in ((Role.FRONTIER, self.partitions), (Role.CONTENT, 1)):
            for number in range(count):
                name = shard_name(role, number)
                shard = self.shard_class(
                    self._store(name), role, number, count,
                    clock=self.clock, owner=owner, settings=self.settings,
                )  # fmt: skip
                shard.open()
                self.shards[name] = shard

    def _store(self, name: str) -> Store:
        if self.folder is not None:
            return LmdbStore(self.folder / "log" / name, STORE_TABLES, durability="none", map_bytes=1 << 24)
        if name not in self._memory:
            self._memory[name] = MemoryStore(STORE_TABLES)
        return self._memory[name]

    def restart(self) -> None:
        """A new owner process: what was in flight is lost, its leases are released."""
        self.close()
        self._flights.clear()
        self.leases.clear()
        self._open()

    def close(self) -> None:
        for shard in self.shards.values():
            if self.folder is not None:
                shard.close()
        self.shards.clear()
        if self._archive is not None:
            self._archive.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self.close()

    # --- records in -------------------------------------------------------------------------------------------

    def partition_of(self, origin_key: str) -> int:
        return partition_of(site_of(keys.split_origin_key(origin_key)[1]), self.partitions)

    def frontier(self, partition: int) -> Shard:
        return self.shards[shard_name(Role.FRONTIER, partition)]

    @property
    def content(self) -> Shard:
        return self.shards[shard_name(Role.CONTENT, 0)]

    def pipe(
        self, topic: Topic, event: Event | bytes, partition: int | None = None, *, key: str = ""
    ) -> None:
        """Offer an input to the partition that it belongs to; raw bytes need a partition."""
        origin_key = str(getattr(event, "origin_key", ""))
        if topic is Topic.CANDIDATES:
            shard = self.content
        else:
            shard = self.frontier(self.partition_of(origin_key) if partition is None else partition)
        data = event if isinstance(event, bytes) else encode(event)
        kept = None if isinstance(event, bytes) else event
        shard.offer(Offered(topic, (key or origin_key).encode(), data, kept))

    def seed(self, *urls: str, kind: SourceKind = SourceKind.SEED) -> None:
        """Give seeds, as the command line does."""
        for number, url in enumerate(urls):
            found = canonical.canonicalize(url)
            assert isinstance(found, canonical.Identity), f"{url}: {found}"
            tag = f"{self.clock.at_ms}-{number}"
            self.pipe(Topic.DISCOVERIES, seed_discovery(tag, url, found, kind, self.clock.at_ms))

    def control(self, wish: Control | bytes, partition: int = 0) -> None:
        """Give an operator's wish to a partition, as an event or as JSON."""
        self.pipe(Topic.CONTROL, wish, partition)

    # --- time -------------------------------------------------------------------------------------------------

    def step(self, wanted: int = 100) -> list[Lease]:
        """One batch of every shard, then the outboxes; the leases that were given."""
        leases: list[Lease] = []
        ready: list[int] = []
        for shard in self.shards.values():
            leases += self._batch(shard, wanted, ready)
        self.deliver()
        self.next_ready_ms = min(ready, default=None)
        for lease in leases:
            self.leases[lease.kind, lease.url, lease.fence] = lease
        return leases

    def _batch(self, shard: Shard, wanted: int, ready: list[int]) -> list[Lease]:
        leases: list[Lease] = []
        for _ in range(ROUNDS_MAX):
            done: Done = shard.step(wanted if shard.role is Role.FRONTIER else 0)
            leases += done.leases
            if not done.more:
                if done.next_ready_ms is not None:
                    ready.append(done.next_ready_ms)
                return leases
        raise AssertionError("a shard always has more to do")

    def deliver(self) -> None:
        """Bring what the outboxes hold to its shards, until nothing is left."""
        while sum(self._deliver(shard) for shard in self.shards.values()):
            pass

    def _deliver(self, shard: Shard) -> bool:
        found = shard.outbox()
        targets: dict[str, Shard] = {}
        for one in found:
            target = self.frontier(one.partition)
            target.offer(Offered(one.topic, one.key, one.value))
            targets[target.name] = target
        for target in targets.values():
            target.step(0)
        if found:
            shard.delivered = found[-1].offset + 1
            _settled(shard)
        return bool(found)

    def run(
        self,
        *,
        wanted: int = 100,
        until_ms: int | None = None,
        quantum_ms: int = 0,
        rounds_max: int = ROUNDS_MAX,
    ) -> int:
        """Crawl until nothing is left to do, or until a time; how many rounds it took. `quantum_ms`: the least time
        between two rounds, as a group commit has it."""
        for rounds in range(rounds_max):
            for lease in self.step(wanted):
                self.serve(lease)
            due = [self._flights[0][0]] if self._flights else []
            if self.next_ready_ms is not None:
                due.append(max(self.next_ready_ms, self.clock.at_ms))
            if not due or (until_ms is not None and min(due) > until_ms):
                if until_ms is not None:
                    self.clock.at_ms = max(self.clock.at_ms, until_ms)
                return rounds
            self.clock.at_ms = max(self.clock.at_ms + quantum_ms, min(due))
            self.land()
        return rounds_max

    # --- fetching ---------------------------------------------------------------------------------------------

    def serve(self, lease: Lease) -> None:
        """Start the fetch of a lease now; `land` writes what came of it when its time has come."""
        answered = self.answer(lease)
        heapq.heappush(self._flights, (answered.result.ended_ms, next(self._order), lease, answered))

    def land(self) -> None:
        """Write the results that have ended by now."""
        while self._flights and self._flights[0][0] <= self.clock.at_ms:
            _, _, lease, answered = heapq.heappop(self._flights)
            self.write(lease, answered)

    def lose(self, draw: float) -> None:
        """Drop one fetch under way, as a worker that died: its lease runs out. `draw` from [0, 1) says which."""
        if self._flights:
            _, _, lease, _ = self._flights.pop(int(draw * len(self._flights)))
            heapq.heapify(self._flights)
            self.leases.pop((lease.kind, lease.url, lease.fence), None)

    def write(self, lease: Lease, answered: Answered) -> None:
        """Offer what came of a lease, in the order of the real fetcher."""
        self.leases.pop((lease.kind, lease.url, lease.fence), None)
        if answered.candidate is not None:
            self.pipe(Topic.CANDIDATES, answered.candidate)
        for discovery in answered.discoveries:
            self.pipe(Topic.DISCOVERIES, discovery)
        if self._archive is not None:
            self._archive.flush()
        self.pipe(Topic.FETCH_RESULTS, answered.result, lease.partition)
        self.last = lease.partition, answered.result

    def answer(self, lease: Lease) -> Answered:
        """What the scripted web says to a lease, as the fetcher would put it."""
        answered = answer(self.web, lease, self.clock.at_ms, self._archive)
        if not self.leaves_out or answered.result.parse is None:
            return answered
        left_out, kept = bytearray(), list[Discovery]()
        for event in answered.discoveries:
            origin = keys.origin_id(event.origin_key)
            found = {keys.url_key(origin, url): i for i, url in enumerate(event.urls)}
            store = self.frontier(self.partition_of(event.origin_key)).store
            known = known_links.settled_in(store, event.origin_key, list(found), event.depth, "")
            left_out += b"".join(known_links.short_of(key) for key in found if key in known)
            kept += _only(event, [i for key, i in found.items() if key not in known])
        parse = replace(answered.result.parse, links_known=bytes(left_out))
        return Answered(answered.candidate, kept, replace(answered.result, parse=parse))

    # --- records out ------------------------------------------------------------------------------------------

    def records(self, topic: str, partition: int | None = None) -> Iterator[tuple[int, Record]]:
        """(partition, record) of a topic, partition by partition."""
        for shard in self.shards.values():
            if _holds(shard, topic) and partition in (None, shard.partition):
                first = shard.log.bounds(topic, shard.partition)[0]
                for record in shard.log.scan(topic, shard.partition, first):
                    yield shard.partition, record

    def read(self, topic: str, partition: int | None = None) -> list[Event]:
        """The events of a topic; what can't be decoded is left out."""
        found: list[Event] = []
        for _, record in self.records(topic, partition):
            try:
                found.append(decode(record.value))
            except Undecodable:
                continue
        return found

    # --- tables -----------------------------------------------------------------------------------------------

    def url(self, url: str) -> UrlRow | None:
        """The row of a URL in any spelling."""
        found = canonical.canonicalize(url)
        assert isinstance(found, canonical.Identity), url
        shard = self.frontier(self.partition_of(found.origin_key))
        with shard.store.begin() as txn:
            return Tables(txn).urls.get(keys.url_key(keys.origin_id(found.origin_key), found.identity))

    def state(self, url: str) -> State:
        row = self.url(url)
        return State.NONE if row is None else row.state

    def host(self, name: str) -> HostRow | None:
        """The row of a host."""
        shard = self.frontier(partition_of(site_of(name), self.partitions))
        with shard.store.begin() as txn:
            return Tables(txn).hosts.get(keys.host_id(name))

    def rows(self, table: str, partition: int | None = None) -> list[tuple[bytes, Any]]:
        """Decoded rows (or values) of a table, partition by partition."""
        found: list[tuple[bytes, Any]] = []
        for shard in self.shards.values():
            if partition is None or shard.partition == partition:
                with shard.store.begin() as txn:
                    found += list(getattr(Tables(txn), table).scan())
        return found


def _settled(shard: Shard) -> None:
    """Note what was delivered; again when the map had to grow."""
    while True:
        try:
            shard.settle_outbox()
            return
        except MapFull:
            continue


def _holds(shard: Shard, topic: str) -> bool:
    """Whether a topic belongs to what a shard decides (rejects and ownership to both)."""
    content = topic in (Topic.CANDIDATES, Topic.DOCUMENTS)
    both = topic in (Topic.OWNERSHIP, Topic.REJECTS, OUTBOX)
    return both or content == (shard.role is Role.CONTENT)
