"""What is slow slows fetching and never fills memory; a flood of discoveries holds up no result; a topic that somebody
changed ends a worker that runs; a lease that was not committed is fetched by nobody.

Not verified: how much memory that is, which bench/RESULTS.md tells of whole crawls.
"""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,  # pyright: ignore[reportPrivateImportUsage]
    ConfigEntry,  # pyright: ignore[reportPrivateImportUsage]
    ConfigResource,  # pyright: ignore[reportPrivateImportUsage]
    ResourceType,  # pyright: ignore[reportPrivateImportUsage]
)
from confluent_kafka.cimpl import NewPartitions

from frontlog.avro.codec import decode
from frontlog.avro.enums import HostEvent, State, Topic
from frontlog.avro.errors import ConfigError, Retriable
from frontlog.avro.events import HostTransition, Transition
from frontlog.fetch.archive_writer import ArchiveWriter
from frontlog.streams import kafka_host, kafka_inputs, kafka_topics
from frontlog.streams.batching import Done
from frontlog.streams.kafka_emitter import KafkaEmitter
from frontlog.streams.kafka_host import KafkaHost
from frontlog.streams.kafka_inputs import KafkaInputs
from frontlog.streams.kafka_log import KafkaLog
from frontlog.streams.kafka_places import TOPICS, KafkaCrawl
from frontlog.streams.kafka_runner import KafkaRunner
from frontlog.streams.kafka_shard import KafkaShard
from frontlog.streams.records import NewRecord, record_bytes
from support.broker import Broker
from support.crawls import LocalParsers
from support.kafka_crawls import ALL, PARTITIONS, host_of, seed, until
from support.site import Site, fill

SLOTS = 3
HOSTS = 6
NOW_MS = 1_790_000_000_000


@pytest.fixture(autouse=True)
def parsers(monkeypatch: pytest.MonkeyPatch) -> None:
    """No process is started to parse a few words."""
    monkeypatch.setattr(kafka_host, "ParserPool", LocalParsers)


@pytest.fixture
def crawl(kafka: Broker, request: pytest.FixtureRequest) -> KafkaCrawl:
    name = "".join(c if c.isalnum() else "-" for c in request.node.name.removeprefix("test_"))
    one = KafkaCrawl(kafka.bootstrap, name[:60].strip("-"))
    kafka_topics.create(one, PARTITIONS)
    return one


@pytest.fixture
def log(crawl: KafkaCrawl) -> Iterator[KafkaLog]:
    one = KafkaLog(crawl.servers, TOPICS, prefix=crawl.prefix, writer=f"{crawl.name}.test")
    yield one
    one.close()


def append(log: KafkaLog, topic: Topic, values: list[bytes]) -> None:
    with log.begin() as txn:
        txn.append(topic, 0, [NewRecord(NOW_MS, b"", value) for value in values])
        txn.commit()


@pytest.mark.parametrize(
    ("owner", "name"), [(ArchiveWriter, "store"), (LocalParsers, "parse"), (KafkaEmitter, "result")]
)
def test_a_slow_part_stops_fetching_at_the_slots(
    crawl: KafkaCrawl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owner: type, name: str
) -> None:
    """Archive, parser, broker: while one of them does not answer, no more is asked for than there are slots."""

    async def work() -> None:
        gate = asyncio.Event()
        stuck = 0
        quick: Callable[..., Any] = getattr(owner, name)

        async def slow(*args: Any, **more: Any) -> Any:
            nonlocal stuck
            stuck += 1
            await gate.wait()
            return await quick(*args, **more)

        monkeypatch.setattr(owner, name, slow)
        failures: list[BaseException] = []
        with Site(hosts=HOSTS) as site:
            wanted = fill(site, 2)
            host = host_of(crawl, tmp_path, failures, fetch__slots=SLOTS)
            await host.start()
            host.assign(ALL, [])
            await until(host, failures, host.ready)
            await seed(host, [site.url(n) for n in range(HOSTS)])
            await until(host, failures, lambda: stuck == SLOTS)
            before = len(site.asked())
            await asyncio.sleep(0.5)
            assert stuck == SLOTS == host.slots.in_use == len(host.fetches) and len(site.asked()) == before
            gate.set()
            await until(host, failures, lambda: host.slots.pages >= len(wanted))
            await host.close()
        assert not failures

    asyncio.run(work())


def test_inputs_wait_in_the_log_and_not_in_memory(crawl: KafkaCrawl, log: KafkaLog) -> None:
    append(log, Topic.DISCOVERIES, [bytes(20_000) for _ in range(200)])
    append(log, Topic.CONTROL, [b"word"])
    bytes_max = 1 << 20
    names = {topic.value: log.full_name(topic) for topic in (Topic.DISCOVERIES, Topic.CONTROL)}
    inputs = KafkaInputs(crawl.servers, "bounded", names, 0, {}, bytes_max=bytes_max)
    try:
        for _ in range(400):
            inputs.poll()
            if inputs.all_caught_up() and inputs.bounds(Topic.CONTROL) == (0, 1):
                break
            asyncio.run(asyncio.sleep(0.01))
        waiting = inputs.read(Topic.DISCOVERIES, 0, 1_000)
        assert 0 < len(waiting) < 200
        one = record_bytes(waiting[0])
        assert sum(map(record_bytes, waiting)) <= bytes_max / 4 + kafka_inputs.POLL_CHUNK * one
        taken = 0
        while taken < 200:  # what is taken makes room for what follows, nothing is lost
            first, end = inputs.bounds(Topic.DISCOVERIES)
            assert first == taken
            taken = end
            inputs.drop({Topic.DISCOVERIES: end})
            inputs.poll()
    finally:
        inputs.close()


def test_a_flood_of_discoveries_holds_up_no_result(
    crawl: KafkaCrawl, log: KafkaLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the time the result is taken, discoveries that came long before it still wait."""
    flood = 3 * kafka_inputs.WAITING_MAX
    for _ in range(3):
        append(log, Topic.DISCOVERIES, [b"junk"] * (flood // 3))
    append(log, Topic.FETCH_RESULTS, [b"junk"])
    seen: list[dict[str, int]] = []
    took = KafkaRunner._took  # pyright: ignore[reportPrivateUsage]

    def noting(self: KafkaRunner, done: Done) -> None:
        took(self, done)
        if self.name == "frontier-0" and done.head is not None:
            seen.append(dict(done.head.positions))

    monkeypatch.setattr(KafkaRunner, "_took", noting)

    async def work() -> None:
        failures: list[BaseException] = []
        host = host_of(crawl, tmp_path, failures)
        await host.start()
        host.assign(ALL, [])
        await until(host, failures, lambda: seen and seen[-1].get(Topic.DISCOVERIES, 0) >= flood)
        await host.close()

    asyncio.run(work())
    first = next(at for at in seen if at.get(Topic.FETCH_RESULTS))
    assert first.get(Topic.DISCOVERIES, 0) < flood


def test_a_lease_that_was_not_committed_is_fetched_by_nobody(
    crawl: KafkaCrawl, log: KafkaLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = KafkaShard._transact  # pyright: ignore[reportPrivateUsage]

    def refusing(self: KafkaShard, appended: Any) -> dict[str, int]:
        decided = [
            decode(one.value) for topic, records in appended if topic == Topic.TRANSITIONS for one in records
        ]
        if any(is_lease(event) for event in decided):
            raise Retriable("not committed")
        return commit(self, appended)

    monkeypatch.setattr(KafkaShard, "_transact", refusing)

    async def work() -> None:
        failures: list[BaseException] = []
        with Site() as site:
            fill(site, 1)
            host = host_of(crawl, tmp_path, failures)
            await host.start()
            host.assign(ALL, [])
            await until(host, failures, host.ready)
            await seed(host, [site.url()])
            await told(failures)
            assert isinstance(failures[0], Retriable) and not host.fetches and site.asked() == []
            await host.close()

    asyncio.run(work())


def is_lease(event: object) -> bool:
    if isinstance(event, Transition):
        return event.to_state is State.LEASED
    return isinstance(event, HostTransition) and event.event is HostEvent.ERRAND_LEASED


async def told(failures: list[BaseException], seconds: float = 30) -> None:
    for _ in range(int(seconds / 0.05)):
        if failures:
            return
        await asyncio.sleep(0.05)
    raise AssertionError("nothing was told")


def add_partitions(admin: Any, crawl: KafkaCrawl) -> None:
    admin.create_partitions([NewPartitions(f"{crawl.name}.control", 5)])[f"{crawl.name}.control"].result(30)


def delete(admin: Any, crawl: KafkaCrawl) -> None:
    admin.delete_topics([f"{crawl.name}.rejects"])[f"{crawl.name}.rejects"].result(30)


def make_anew(admin: Any, crawl: KafkaCrawl) -> None:
    delete(admin, crawl)
    for _ in range(100):
        if f"{crawl.name}.rejects" not in admin.list_topics(timeout=10).topics:
            break
    kafka_topics.make(admin, crawl.prefix, {"rejects": PARTITIONS + 1}, replication=1)


def limit(admin: Any, crawl: KafkaCrawl) -> None:
    entry = ConfigEntry("retention.ms", "604800000", incremental_operation=AlterConfigOpType.SET)
    wish = ConfigResource(ResourceType.TOPIC, f"{crawl.name}.transitions", incremental_configs=[entry])
    for future in admin.incremental_alter_configs([wish]).values():
        future.result(30)


@pytest.mark.parametrize(
    ("act", "said"),
    [
        (limit, "transitions has retention.ms=604800000, it must be -1"),
        (add_partitions, "control has 5 partitions, 2 are wanted"),
        (delete, "rejects is missing"),
        (make_anew, "rejects was made anew"),
    ],
)
def test_a_topic_that_somebody_changed_ends_a_worker_that_runs(
    crawl: KafkaCrawl,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    act: Callable[[Any, KafkaCrawl], None],
    said: str,
) -> None:
    monkeypatch.setattr(kafka_host, "WATCH_S", 0.3)

    async def work() -> None:
        failures: list[BaseException] = []
        host: KafkaHost = host_of(crawl, tmp_path, failures)
        act(cast("Any", AdminClient({"bootstrap.servers": crawl.servers})), crawl)
        await host.start()  # which looks at the topics again after a while
        await told(failures)
        assert isinstance(failures[0], ConfigError)
        assert said in str(failures[0])
        await host.close()

    asyncio.run(work())
