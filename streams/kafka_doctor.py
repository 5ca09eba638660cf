"""`frontlog doctor`: which part of a crawl on Kafka is silent, and what to do, on one screen.

Looked at from outside, with what Kafka and the log tell: nothing is written, no worker is asked. A shard is silent when
inputs wait for it and its last batch is old. Standbys are those that the group assigned; how warm they are isn't seen.
"""

import shutil
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicPartition

from frontlog.avro.codec import Undecodable, decode
from frontlog.avro.enums import Topic
from frontlog.avro.errors import FrontlogError
from frontlog.avro.events import Batch
from frontlog.streams.clock import BEHIND_MS_MAX
from frontlog.streams.kafka_client import ADMIN_S_MAX, CALL_S_MAX, Admin, admin, of_kafka
from frontlog.streams.kafka_log import KafkaLog
from frontlog.streams.kafka_places import TOPICS, KafkaCrawl, ShardLog, partitions_of
from frontlog.streams.kafka_topics import check
from frontlog.streams.summary import Finding
from frontlog.streams.topics import Role, input_topics, shard_name

SILENT_S = 30
"""How old the last batch of a shard may be while inputs wait for it."""
TAIL_OFFSETS = 100
FREE_BYTES_MIN = 1 << 30
SLOW_MS = 1_000
MARKERS = 1
"""Offsets at the end of a topic that hold no input: a transaction's marker."""


def examine(
    crawl: KafkaCrawl,
    *,
    folder: Path | None = None,
    dns: str = "",
    clock: Callable[[], float] = time.time,
) -> list[Finding]:
    """Every finding, in an order in which the first that is bad is the one to mend first."""
    client = admin(crawl.servers, f"{crawl.prefix}doctor")
    found = [*_outside(folder, dns)]
    began = time.monotonic()
    try:
        brokers = client.list_topics(timeout=5).brokers
    except KafkaException as exc:
        said = str(of_kafka(exc, f"asking {crawl.servers}"))
        return [Finding("broker", "bad", said, "start Kafka, or name a broker that runs"), *found]
    took_ms = int((time.monotonic() - began) * 1_000)
    slow = took_ms > SLOW_MS
    found.insert(0, Finding("broker", "warn" if slow else "ok", f"{len(brokers)} answer, in {took_ms} ms"))
    there, problems = check(crawl)
    if problems:
        do = (
            f"frontlog topics create {crawl}"
            if not there
            else f"frontlog topics check {crawl}, and set back what differs"
        )
        return [*found, Finding("topics", "bad", "; ".join(problems[:3]), do)]
    found.append(Finding("topics", "ok", f"{len(there)}, all as they must be"))
    partitions = there[Topic.TRANSITIONS].partitions
    log = KafkaLog(crawl.servers, TOPICS, prefix=crawl.prefix)
    try:
        return [*found, *_members(client, crawl, partitions), *_shards(client, crawl, partitions, log, clock)]
    finally:
        log.close()


def _outside(folder: Path | None, dns: str) -> Iterator[Finding]:
    """What is no part of Kafka: the disk of a worker's folder, and the look-up of a name."""
    if folder is not None:
        try:
            free = shutil.disk_usage(folder).free
            short = free < FREE_BYTES_MIN
            yield Finding(
                "archive",
                "bad" if short else "ok",
                f"{free >> 20:,} MiB free in {folder}",
                "make room" if short else "",
            )
        except OSError as exc:
            yield Finding(
                "archive", "bad", f"{folder}: {exc.strerror}", "name the folder of a worker (its --out)"
            )
    if dns:
        try:
            yield Finding("DNS", "ok", f"{dns} is {socket.getaddrinfo(dns, None)[0][4][0]}")
        except OSError as exc:
            yield Finding(
                "DNS", "bad", f"{dns}: {exc}", "mend the resolver of this machine: no host can be looked up"
            )


def _members(client: Admin, crawl: KafkaCrawl, partitions: int) -> Iterator[Finding]:
    (future,) = client.describe_consumer_groups([crawl.group], request_timeout=ADMIN_S_MAX).values()
    try:
        members: list[Any] = future.result(CALL_S_MAX).members
    except KafkaException:
        members = []
    start = f"start workers: frontlog worker {crawl} --out DIR"
    if not members:
        yield Finding("workers", "bad", "nobody is in the group", start)
        return
    yield Finding("workers", "ok", f"{len(members)}: {', '.join(sorted(_name(one) for one in members)[:4])}")
    owned: set[str] = set()
    warm: set[str] = set()
    for member in members:
        has = {
            (tp.topic.removeprefix(crawl.prefix), tp.partition) for tp in member.assignment.topic_partitions
        }
        for role, owns, follows in (
            (Role.FRONTIER, Topic.DISCOVERIES, Topic.TRANSITIONS), (Role.CONTENT, Topic.CANDIDATES, Topic.DOCUMENTS),
        ):  # fmt: skip
            mine = {number for topic, number in has if topic == owns}
            owned |= {shard_name(role, number) for number in mine}
            warm |= {
                shard_name(role, number) for topic, number in has if topic == follows and number not in mine
            }
    every = _names(partitions)
    nobody = [name for name in every if name not in owned]
    if nobody:
        do = "a rebalance takes some seconds; if it stays, restart the workers"
        yield Finding("ownership", "bad", f"nobody owns {_some(nobody)}", do)
    else:
        yield Finding("ownership", "ok", f"all {len(every)} shards have an owner")
    cold = [name for name in every if name not in warm]
    if cold and len(members) == 1:
        yield Finding("standbys", "warn", "one worker: none", "start a second worker")
    elif cold:
        yield Finding("standbys", "warn", f"none for {_some(cold)}", "see --standbys of the workers")
    else:
        yield Finding("standbys", "ok", "every shard has one")


def _name(member: Any) -> str:
    return str(member.group_instance_id or member.host)


def _names(partitions: int) -> list[str]:
    return [shard_name(role, number) for role, count in _roles(partitions) for number in range(count)]


def _roles(partitions: int) -> tuple[tuple[Role, int], ...]:
    return (Role.FRONTIER, partitions), (Role.CONTENT, partitions_of(Topic.CANDIDATES, partitions))


def _some(names: list[str]) -> str:
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")


def _shards(
    client: Admin, crawl: KafkaCrawl, partitions: int, log: KafkaLog, clock: Callable[[], float]
) -> Iterator[Finding]:
    """Lag, silence and clocks of all shards."""
    positions = _positions(client, crawl)
    now_ms = int(clock() * 1_000)
    waiting: dict[str, int] = {}
    silent: list[str] = []
    ahead: list[str] = []
    never: list[str] = []
    for role, count in _roles(partitions):
        view = ShardLog(log, role, partitions)
        for number in range(count):
            name = shard_name(role, number)
            last = _last_batch(view, number)
            if last is None:
                never.append(name)
                continue
            lag = sum(
                max(
                    0,
                    view.bounds(topic, number)[1]
                    - positions.get((crawl.prefix + topic, number), 0)
                    - MARKERS,
                )
                for topic in input_topics(role)
            )
            if lag:
                waiting[name] = lag
                if now_ms - last.at_ms > SILENT_S * 1_000:
                    silent.append(f"{name} (for {(now_ms - last.at_ms) // 1_000} s)")
            if last.at_ms - now_ms > BEHIND_MS_MAX:
                ahead.append(f"{name} by {(last.at_ms - now_ms) / 1_000:.0f} s")
    if never:
        yield Finding("log", "warn", f"{_some(never)} never decided anything", "start workers")
    most = max(waiting, key=lambda name: waiting[name], default="")
    total = sum(waiting.values())
    yield Finding(
        "lag",
        "ok",
        f"{total:,} inputs wait" + (f", most of them for {most}: {waiting[most]:,}" if most else ""),
    )
    if silent:
        yield Finding("silent", "bad", _some(silent), "read what its worker says, and restart it")
    if ahead:
        yield Finding(
            "clock",
            "bad",
            f"the log is ahead of this clock: {_some(ahead)}",
            "set the clocks of all machines (NTP)",
        )
    else:
        yield Finding("clock", "ok", f"no batch is more than {BEHIND_MS_MAX // 1_000} s ahead of this clock")


def _positions(client: Admin, crawl: KafkaCrawl) -> Mapping[tuple[str, int], int]:
    """What workers published of their positions."""
    (future,) = client.list_consumer_group_offsets(
        [ConsumerGroupTopicPartitions(crawl.group)], request_timeout=ADMIN_S_MAX
    ).values()
    try:
        found: list[TopicPartition] = future.result(CALL_S_MAX).topic_partitions
    except KafkaException:
        return {}
    return {(tp.topic, tp.partition): tp.offset for tp in found}


def _last_batch(log: ShardLog, partition: int) -> Batch | None:
    first, end = log.bounds(Topic.OWNERSHIP, partition)
    last: Batch | None = None
    try:
        for record in log.scan(Topic.OWNERSHIP, partition, max(first, end - TAIL_OFFSETS)):
            event = decode(record.value)
            if isinstance(event, Batch):
                last = event
    except (FrontlogError, Undecodable):
        return last
    return last
