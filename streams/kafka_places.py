"""Where things lie on Kafka: which topics a crawl has there, of how many partitions, and which of them a shard uses.

A crawl is named `kafka://SERVERS/NAME`; its topics are `NAME.discoveries` and so on. Frontier's N shards and content's C
share `ownership` and `rejects`, where in the embedded log each shard has partition 0 of its own environment. Here
content's shard k has partition N + k of those two, and k of its own topics.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from frontlog.avro.enums import Topic
from frontlog.avro.errors import ConfigError
from frontlog.streams.log import READ_BYTES_MAX, READ_RECORDS_MAX, Log, LogTxn, OwnLogTxn
from frontlog.streams.records import NewRecord, Record
from frontlog.streams.topics import CONTENT_PARTITIONS, Role, shard_name

SCHEME = "kafka://"
CONTENT_TOPICS = (Topic.CANDIDATES, Topic.DOCUMENTS)
SHARED_TOPICS = (Topic.OWNERSHIP, Topic.REJECTS)
TOPICS = tuple(topic.value for topic in Topic if topic is not Topic.CENSUS)
"""What a crawl has on Kafka. What is for other shards is written to them in the same transaction: no outbox."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")
_SERVERS = re.compile(r"[^\s/,]+:\d{1,5}(?:,[^\s/,]+:\d{1,5})*")


class KafkaCrawl(NamedTuple):
    """A crawl on Kafka: the brokers to ask first, and its name."""

    servers: str
    name: str

    @property
    def prefix(self) -> str:
        """What stands before the names of its topics."""
        return f"{self.name}."

    @property
    def group(self) -> str:
        """The consumer group of its workers."""
        return f"{self.name}.workers"

    def __str__(self) -> str:
        return f"{SCHEME}{self.servers}/{self.name}"


def parse(text: str) -> KafkaCrawl:
    """A crawl from `kafka://HOST:PORT[,HOST:PORT…]/NAME`. Raises ConfigError."""
    servers, slash, name = text.removeprefix(SCHEME).partition("/")
    if (
        not text.startswith(SCHEME)
        or not slash
        or not _SERVERS.fullmatch(servers)
        or not _NAME.fullmatch(name)
    ):
        raise ConfigError(
            f"{text}: not a crawl on Kafka; write kafka://HOST:PORT/NAME, as in kafka://127.0.0.1:9092/news, the name of "
            "letters, digits, - and _"
        )
    return KafkaCrawl(servers, name)


def partitions_of(topic: str, partitions: int) -> int:
    """How many partitions a topic of a crawl of N frontier partitions has."""
    if topic in CONTENT_TOPICS:
        return CONTENT_PARTITIONS
    return partitions + (CONTENT_PARTITIONS if topic in SHARED_TOPICS else 0)


def place(role: Role, partitions: int, topic: str, partition: int) -> int:
    """Kafka's partition of a topic for the shard `partition` of a role."""
    return partitions + partition if role is Role.CONTENT and topic in SHARED_TOPICS else partition


def transactional_id(crawl: str, role: Role, partition: int) -> str:
    """Names crawl and shard, so that the broker shuts a former owner out, and tools show who owns what."""
    return f"{crawl}.{shard_name(role, partition)}"


class ShardLog:
    """A log as the shards of one role see it, who say their own number for every topic."""

    def __init__(self, log: Log, role: Role, partitions: int) -> None:
        self.log = log
        self.role = role
        self.partitions = partitions

    def place(self, topic: str, partition: int) -> int:
        """Where the shard's partition of a topic lies."""
        return place(self.role, self.partitions, topic, partition)

    def begin(self) -> OwnLogTxn:
        return self.log.begin()

    def within(self, txn: LogTxn) -> "ShardTxn":
        """A transaction of the log, in the shards' numbers."""
        return ShardTxn(self, txn)

    def bounds(self, topic: str, partition: int) -> tuple[int, int]:
        return self.log.bounds(topic, self.place(topic, partition))

    def read(
        self,
        topic: str,
        partition: int,
        offset: int,
        *,
        records_max: int = READ_RECORDS_MAX,
        bytes_max: int = READ_BYTES_MAX,
    ) -> list[Record]:
        where = self.place(topic, partition)
        return self.log.read(topic, where, offset, records_max=records_max, bytes_max=bytes_max)

    def batches(self, topic: str, partition: int, offset: int) -> Iterator[list[Record]]:
        return self.log.batches(topic, self.place(topic, partition), offset)

    def scan(self, topic: str, partition: int, offset: int) -> Iterator[Record]:
        return self.log.scan(topic, self.place(topic, partition), offset)

    def offset_at(self, topic: str, partition: int, timestamp_ms: int) -> int:
        return self.log.offset_at(topic, self.place(topic, partition), timestamp_ms)


class ShardTxn:
    """Appends in the shards' numbers."""

    def __init__(self, log: ShardLog, txn: LogTxn) -> None:
        self._log = log
        self._txn = txn

    def append(self, topic: str, partition: int, records: Sequence[NewRecord]) -> int:
        return self._txn.append(topic, self._log.place(topic, partition), records)


def counts(partitions: int) -> Mapping[str, int]:
    """The number of partitions of each topic of a crawl."""
    return {topic: partitions_of(topic, partitions) for topic in TOPICS}
