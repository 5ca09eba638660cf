"""The embedded host: its shards in a folder, what it refuses, how they reach each other, and a clean end.

Not verified here: fetching (tests/cli, tests/whole).
"""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from frontlog.avro.codec import encode
from frontlog.avro.enums import Topic, Verdict
from frontlog.avro.errors import ConfigError
from frontlog.avro.events import Candidate, ContentVerdict
from frontlog.processors.sites import partition_of, site_of
from frontlog.streams.batching import Offered
from frontlog.streams.clock import SystemClock
from frontlog.streams.embedded import EmbeddedHost, process_name
from frontlog.streams.options import Config, Fetch, Log, Options
from frontlog.streams.shard import Delivery
from frontlog.streams.topics import Role
from support.shards import events, seed, urls

MAP_BYTES = 1 << 22


def config(partitions: int = 2) -> Config:
    log = Log(durability="none", commit_delay_ms=1, partitions=partitions)
    return Config(options=Options(log=log, fetch=Fetch(slots=4)))


def made(folder: Path, partitions: int = 2) -> EmbeddedHost:
    host = EmbeddedHost(folder, config(partitions), SystemClock(), map_bytes=MAP_BYTES)
    host.open()
    return host


@pytest.fixture
def host(tmp_path: Path) -> Iterator[EmbeddedHost]:
    host = made(tmp_path)
    yield host
    host.stop()


async def settled(host: EmbeddedHost) -> None:
    for _ in range(2_000):
        if host.idle():
            return
        await asyncio.sleep(0.002)
    raise AssertionError("it is never idle")


def offer(host: EmbeddedHost, partition: int, event: object, topic: Topic = Topic.DISCOVERIES) -> None:
    assert host.runners[partition].offer(Offered(topic, b"", encode(event)), None)  # type: ignore[arg-type]


def test_a_folder_for_each_shard(host: EmbeddedHost, tmp_path: Path) -> None:
    assert sorted(path.name for path in (tmp_path / "log").iterdir()) == [
        "content-0",
        "frontier-0",
        "frontier-1",
    ]
    assert [(shard.role, shard.partition) for shard in host.shards] == [
        (Role.FRONTIER, 0), (Role.FRONTIER, 1), (Role.CONTENT, 0),
    ]  # fmt: skip
    assert len(host.frontier()) == 2
    assert host.is_empty()


@pytest.mark.parametrize("partitions", [1, 3])
def test_the_number_of_partitions_is_settled_when_a_crawl_is_made(tmp_path: Path, partitions: int) -> None:
    made(tmp_path).stop()
    again = EmbeddedHost(tmp_path, config(partitions), SystemClock(), map_bytes=MAP_BYTES)
    with pytest.raises(ConfigError, match=f"log.partitions says {partitions}"):
        again.open()
    again.stop()
    made(tmp_path).stop()


def test_an_input_in_the_wrong_partition_reaches_the_right_one(host: EmbeddedHost) -> None:
    async def go() -> None:
        host.start(hand_out=lambda leases: None, failed=lambda exc: None)
        for name in ("a.example", "b.example", "c.example", "d.example"):
            wrong = 1 - partition_of(site_of(name), 2)
            offer(host, wrong, seed(f"http://{name}/"))
        await asyncio.sleep(0.05)
        await settled(host)

    asyncio.run(go())
    for partition, shard in enumerate(host.frontier()):
        for url in urls(shard):
            assert partition_of(site_of(url.split("/")[2]), 2) == partition
    assert sum(len(urls(shard)) for shard in host.frontier()) == 4
    assert not host.is_empty()


def test_a_verdict_for_a_partition_that_there_is_not_is_passed_on(host: EmbeddedHost) -> None:
    """Its number is the word of whoever wrote the candidate."""
    name = "a.example"
    page = Candidate(
        event_id="e", origin_key=f"http://{name}:80", url=f"http://{name}/", text_sha256=b"x" * 32
    )
    verdict = ContentVerdict(verdict=Verdict.NEW, candidate=page)

    async def go() -> None:
        host.start(hand_out=lambda leases: None, failed=lambda exc: None)
        offer(host, partition_of(name, 2), seed(f"http://{name}/"))
        await settled(host)
        delivery = Delivery("content-0", 0, Topic.CONTENT_VERDICTS, 77, b"", encode(verdict))
        told: list[object] = []
        assert host._deliver(delivery, told.append)  # pyright: ignore[reportPrivateUsage]
        await asyncio.sleep(0.05)
        await settled(host)
        assert told == [None]

    asyncio.run(go())
    assert len(events(host.frontier()[partition_of(name, 2)], Topic.FETCHED)) == 1


def test_a_candidate_goes_all_the_way_to_the_output(host: EmbeddedHost) -> None:
    name = "b.example"
    home = partition_of(name, 2)
    page = Candidate(
        event_id="e",
        origin_key=f"http://{name}:80",
        url=f"http://{name}/",
        partition=home,
        text_sha256=b"x" * 32,
    )

    async def go() -> None:
        host.start(hand_out=lambda leases: None, failed=lambda exc: None)
        offer(host, home, seed(f"http://{name}/"))
        await settled(host)
        assert host.content.offer(Offered(Topic.CANDIDATES, b"", encode(page)), None)
        await asyncio.sleep(0.05)
        await settled(host)

    asyncio.run(go())
    assert [event.event_id for event in events(host.frontier()[home], Topic.FETCHED)] == ["e"]


def test_every_store_is_closed_whatever_one_of_them_says(tmp_path: Path) -> None:
    host = made(tmp_path)

    def refuses() -> None:
        raise OSError("cannot close")

    first = host.shards[0]
    close, first.close = first.close, refuses  # type: ignore[method-assign]
    with pytest.raises(OSError, match="cannot close"):
        host.stop()
    close()
    made(tmp_path).stop()


def test_a_process_has_a_name_of_its_own() -> None:
    name = process_name(5)
    assert name.endswith("/5")
    assert len(name.split("/")) == 4


def test_settings_reach_every_frontier_shard(tmp_path: Path) -> None:
    made(tmp_path).stop()
    other = replace(
        config(), settings=replace(Config().settings, scope=replace(Config().settings.scope, depth_max=3))
    )
    host = EmbeddedHost(tmp_path, other, SystemClock(), map_bytes=MAP_BYTES)
    host.open()
    seqs = [shard.head.seq for shard in host.frontier()]
    host.stop()
    host = EmbeddedHost(tmp_path, other, SystemClock(), map_bytes=MAP_BYTES)
    host.open()
    assert [shard.head.seq - seq for shard, seq in zip(host.frontier(), seqs, strict=True)] == [2, 2]
    host.stop()
