"""Single shards for tests of `streams/`: a clock that is moved by hand, a store that fails when it is told to, and
short ways to offer inputs and to read what came of them."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Self, cast

from msgspec.structs import replace

from frontlog.avro.codec import decode, encode
from frontlog.avro.enums import FetchKind, Reason, ScopeKind, SourceKind, Topic
from frontlog.avro.events import Batch, Control, Discovery, Event, FetchResult, ParseFacts
from frontlog.processors import canonical
from frontlog.processors.control import seed_discovery
from frontlog.processors.leased import Lease
from frontlog.processors.settings import Settings
from frontlog.state.catalogue import DIGESTED, STORE_TABLES
from frontlog.state.memory_store import MemoryStore
from frontlog.state.store import Item, Store, Txn
from frontlog.state.tables import Tables
from frontlog.streams.batching import Offered
from frontlog.streams.records import NewRecord
from frontlog.streams.shard import Answer, Shard
from frontlog.streams.topics import Role, decision_topics
from support.driver import START_MS, ManualClock

ADDRESS = "198.51.100.7"


class FaultyTxn:
    """A transaction that counts what it writes and fails at the n-th write."""

    def __init__(self, inner: Txn, wrote: Callable[[], None]) -> None:
        self._inner = inner
        self._wrote = wrote

    def put(self, table: str, key: bytes, value: bytes) -> None:
        self._wrote()
        self._inner.put(table, key, value)

    def put_many(self, table: str, items: Sequence[Item]) -> None:
        self._wrote()
        self._inner.put_many(table, items)

    def append_many(self, table: str, items: Sequence[Item]) -> None:
        self._wrote()
        self._inner.append_many(table, items)

    def delete(self, table: str, key: bytes) -> bool:
        self._wrote()
        return self._inner.delete(table, key)

    def commit(self) -> None:
        self._wrote()
        self._inner.commit()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def __enter__(self) -> Self:
        self._inner.__enter__()
        return self

    def __exit__(self, *exc: object) -> None:
        self._inner.__exit__(*exc)


class FaultyStore:
    """A store in memory whose write number `fail_at` (from 1, commits included) raises `error`; 0: none."""

    def __init__(self) -> None:
        self.inner = MemoryStore(STORE_TABLES)
        self.fail_at = 0
        self.error: Exception = RuntimeError("the write failed")
        self.writes = 0

    def begin(self, *, write: bool = False) -> Txn:
        txn = cast("Txn", self.inner.begin(write=write))
        return cast("Txn", FaultyTxn(txn, self._count)) if write else txn

    def _count(self) -> None:
        self.writes += 1
        if self.writes == self.fail_at:
            raise self.error

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


def new_store() -> Store:
    return MemoryStore(STORE_TABLES)


def new_shard(
    store: Store | FaultyStore | None = None,
    *,
    role: Role = Role.FRONTIER,
    partition: int = 0,
    partitions: int = 1,
    clock: ManualClock | None = None,
    owner: str = "owner-1",
    settings: Settings | None = None,
) -> Shard:
    """A shard that isn't opened yet."""
    return Shard(
        cast("Store", store or new_store()), role, partition, partitions, clock=clock or ManualClock(), owner=owner,
        settings=settings or Settings(),
    )  # fmt: skip


def opened(**fields: Any) -> Shard:
    """A shard that has its partition."""
    shard = new_shard(**fields)
    shard.open()
    return shard


def offer(
    shard: Shard, event: Event | bytes, topic: Topic = Topic.DISCOVERIES, answer: Answer | None = None
) -> None:
    """Offer an input; an event goes as the process's own does, decoded already."""
    value = event if isinstance(event, bytes) else encode(event)
    assert shard.offer(Offered(topic, b"k", value, None if isinstance(event, bytes) else event), answer)


def append(shard: Shard, event: Event | bytes, topic: Topic) -> int:
    """Append an input as another process does; its offset."""
    value = event if isinstance(event, bytes) else encode(event)
    with shard.log.begin() as txn:
        offset = txn.append(topic, shard.partition, [NewRecord(START_MS, b"k", value)])
        txn.commit()
    return offset


def seed(url: str, n: int = 0) -> Discovery:
    found = canonical.canonicalize(url)
    assert isinstance(found, canonical.Identity)
    return seed_discovery(f"{n} {url}", url, found, SourceKind.SEED, START_MS)


def links(count: int, name: str = "a.example", **fields: Any) -> Discovery:
    """Seeds `http://name/0` and so on."""
    found = tuple(f"http://{name}/{n}" for n in range(count))
    base = Discovery(
        event_id=name, origin_key=f"http://{name}:80", source_kind=SourceKind.SEED, priority=2, parts=1, urls=found,
        raws=("",) * count, anchors=("",) * count, rels=("",) * count,
    )  # fmt: skip
    return replace(base, **fields)


def pause(kind: ScopeKind = ScopeKind.CRAWL, target: str = "", cmd: str = "pause") -> Control:
    return Control(cmd=cmd, target_kind=kind, target=target, actor="test")


def result(shard: Shard, lease: Lease, **fields: Any) -> FetchResult:
    """A good result of a lease, now."""
    now_ms = shard.clock.now_ms()
    asked = lease.kind is not FetchKind.RESOLVE
    base = FetchResult(
        event_id=f"{lease.kind.value} {lease.fence} {lease.url}", kind=lease.kind, origin_key=lease.origin_key,
        host=lease.host, url=lease.url, requested=lease.requested, fence=lease.fence, asker=lease.asker, started_ms=now_ms,
        ended_ms=now_ms, address=lease.address if asked else ADDRESS, status=200 * asked, reason=Reason.OK,
        chain=lease.chain, ttl_ms=86_400_000,
        parse=ParseFacts(text_sha256=b"t" * 32) if lease.kind is FetchKind.PAGE else None,
    )  # fmt: skip
    return replace(base, **fields)


def crawl(shard: Shard, clock: ManualClock, *, rounds_max: int = 200, **fields: Any) -> int:
    """Answer every lease well until nothing is left; how many leases there were."""
    answered = 0
    for _ in range(rounds_max):
        done = shard.step(100)
        for lease in done.leases:
            offer(shard, result(shard, lease, **fields), Topic.FETCH_RESULTS)
            answered += 1
        if done.leases or done.more or shard.waiting():
            continue
        if done.next_ready_ms is None:
            return answered
        clock.at_ms = max(clock.at_ms, done.next_ready_ms)
    raise AssertionError("it doesn't come to an end")


def decisions(shard: Shard) -> Iterator[Event]:
    """Every decision of a shard's log, in seq order, Batch events included."""
    found: list[Any] = []
    for topic in decision_topics(shard.role):
        found += [decode(record.value) for record in shard.log.scan(topic, shard.partition, 0)]
    yield from sorted(found, key=lambda event: event.seq)


def batches(shard: Shard) -> list[Batch]:
    return [event for event in decisions(shard) if isinstance(event, Batch)]


def events(shard: Shard, topic: str) -> list[Any]:
    """The events of a topic, from its first record on."""
    first = shard.log.bounds(topic, shard.partition)[0]
    return [decode(record.value) for record in shard.log.scan(topic, shard.partition, first)]


def rows(shard: Shard) -> dict[str, list[Item]]:
    """Every row of every digested table."""
    with shard.store.begin() as txn:
        return {table: list(txn.scan(table)) for table in DIGESTED}


def urls(shard: Shard) -> dict[str, Any]:
    """The row of each URL."""
    with shard.store.begin() as txn:
        return {row.url: row for _, row in Tables(txn).urls.scan()}
