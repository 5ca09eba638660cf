"""A whole crawl on Kafka in this process, without a membership: the host owns every shard."""

import asyncio
from collections.abc import Callable
from pathlib import Path

from frontlog.streams.kafka_emitter import KafkaEmitter
from frontlog.streams.kafka_host import KafkaHost, ShardKey
from frontlog.streams.kafka_places import KafkaCrawl
from frontlog.streams.seeds import inputs
from frontlog.streams.topics import Role
from support.crawls import config

PARTITIONS = 2
QUIET_CHECKS = 8
ALL: list[ShardKey] = [*((Role.FRONTIER, n) for n in range(PARTITIONS)), (Role.CONTENT, 0)]


def host_of(crawl: KafkaCrawl, folder: Path, failures: list[BaseException], **more: object) -> KafkaHost:
    return KafkaHost(crawl, folder, config(**more), failed=failures.append)


async def until(
    host: KafkaHost, failures: list[BaseException], condition: Callable[[], object], seconds: float = 40
) -> None:
    for _ in range(int(seconds / 0.05)):
        assert not failures, failures
        if condition():
            return
        await asyncio.sleep(0.05)
    raise AssertionError(f"it did not happen; {host.heads()}")


async def seed(host: KafkaHost, urls: list[str]) -> None:
    emitter = KafkaEmitter(host.log, "seeds", host.clock)
    polling = asyncio.create_task(emitter.run())
    await emitter.discoveries(inputs(urls, host.clock.now_ms(), host.partitions))
    polling.cancel()


async def crawl_all(crawl: KafkaCrawl, folder: Path, urls: list[str], pages: int, **more: object) -> None:
    failures: list[BaseException] = []
    host = host_of(crawl, folder, failures, **more)
    await host.start()
    host.assign(ALL, [])
    await until(host, failures, host.ready)
    await seed(host, urls)
    await until(host, failures, lambda: host.slots.pages >= pages)
    quiet = 0
    while quiet < QUIET_CHECKS:  # what is on its way between shards shows in none of them
        await until(host, failures, lambda: not host.fetches and all(r.idle() for r in host.runners.values()))
        before = host.positions()
        await asyncio.sleep(0.1)
        quiet = quiet + 1 if host.positions() == before else 0
    await host.close()
    assert not failures
