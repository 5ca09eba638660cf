"""Reading partitions of Kafka from positions that the caller names.

A `Reader` holds one consumer and looks into one partition at a time; a `Readers` lends them out, since a consumer
costs a few threads and its first look at a topic a round trip.
"""

import threading
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import cast

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from frontlog.avro.errors import ConfigError, Retriable
from frontlog.streams.kafka_client import CALL_S_MAX, END_OF_PARTITION, consumer, of_kafka
from frontlog.streams.records import Headers, Record

CHUNK_RECORDS = 2_000
LEADER_S_MAX = 10.0
_LEADER_PAUSE_S = 0.05
_POLL_S = 0.5
_QUIET_POLLS_MAX = int(CALL_S_MAX / _POLL_S)
AT_HEADER = "frontlog-at-ms"
"""Carries a timestamp that Kafka's clients can't send: 0 and below mean "now" to them."""


class Reader:
    """One consumer. Used by one thread at a time."""

    def __init__(self, servers: str, client_id: str) -> None:
        self._consumer: Consumer = consumer(servers, client_id)

    def bounds(self, topic: str, partition: int) -> tuple[int, int]:
        """(first, next) of what is committed: `next` lies before any transaction that is still open."""
        where = TopicPartition(topic, partition)
        until = time.monotonic() + LEADER_S_MAX
        while True:
            try:
                found = self._consumer.get_watermark_offsets(where, timeout=CALL_S_MAX)
            except KafkaException as exc:
                error = of_kafka(exc, f"looking up the ends of {topic}/{partition}")
                # A topic that was just made, a leader that moves, a broker that is starting and knows no topic yet.
                if isinstance(error, Retriable | ConfigError) and time.monotonic() < until:
                    time.sleep(_LEADER_PAUSE_S)
                    continue
                raise error from exc
            if not found:  # the library's word for a time-out is None, whatever its types say
                raise Retriable(f"the ends of {topic}/{partition} were not told within {CALL_S_MAX:.0f} s")
            return found[0], found[1]

    def offset_at(self, topic: str, partition: int, timestamp_ms: int) -> int | None:
        """The first offset at or behind which a record may have this time or a later one; None: none has."""
        try:
            (found,) = self._consumer.offsets_for_times(
                [TopicPartition(topic, partition, max(timestamp_ms, 0))], timeout=CALL_S_MAX
            )
        except KafkaException as exc:
            raise of_kafka(exc, f"looking up a time in {topic}/{partition}") from exc
        return found.offset if found.offset >= 0 else None

    def records(self, topic: str, partition: int, offset: int, end: int) -> Iterator[list[Record]]:
        """Records from `offset` on in lists, none empty, until nothing committed is left at or behind `end`, which is
        asked for again there."""
        self._assign([TopicPartition(topic, partition, offset)], f"reading {topic}/{partition}")
        quiet = 0
        while offset < end:
            found, reached = self._poll(topic, partition)
            quiet = 0 if found or reached is not None else quiet + 1
            if quiet > _QUIET_POLLS_MAX:
                raise Retriable(f"reading {topic}/{partition} at {offset}: nothing for {CALL_S_MAX:.0f} s")
            if found:
                offset = found[-1].offset + 1
                yield found
            if reached is not None:
                offset = max(offset, reached)
            if offset >= end:
                end = self.bounds(topic, partition)[1]

    def _poll(self, topic: str, partition: int) -> tuple[list[Record], int | None]:
        """What has arrived, and the offset up to which the partition is known to hold no more, if that was told."""
        found: list[Record] = []
        reached: int | None = None
        first = self._consumer.poll(_POLL_S)  # `consume` would wait for as many as it was asked for
        if first is None:
            return found, reached
        for message in (first, *self._consumer.consume(CHUNK_RECORDS, 0)):
            error = message.error()
            if error is None:
                found.append(record_of(message))
            elif error.code() == END_OF_PARTITION:
                reached = message.offset()
            else:
                raise of_kafka(error, f"reading {topic}/{partition}")
        return found, reached

    def _assign(self, where: list[TopicPartition], doing: str) -> None:
        try:
            self._consumer.assign(where)
        except KafkaException as exc:
            raise of_kafka(exc, doing) from exc

    def rest(self) -> None:
        """Fetch no more until it is used again."""
        self._consumer.unassign()

    def close(self) -> None:
        """Let go of the connections."""
        self._consumer.close()


class Readers:
    """Lends readers out, one to each that is at work."""

    def __init__(self, servers: str, client_id: str) -> None:
        self._servers = servers
        self._client_id = client_id
        self._idle: list[Reader] = []
        self._lock = threading.Lock()

    @contextmanager
    def one(self) -> Generator[Reader]:
        """A reader, for as long as the block lasts. One that failed is not lent again."""
        with self._lock:
            reader = self._idle.pop() if self._idle else None
        reader = reader or Reader(self._servers, self._client_id)
        try:
            yield reader
        except GeneratorExit:  # whoever read had enough
            self._back(reader)
            raise
        except BaseException:
            reader.close()
            raise
        self._back(reader)

    def _back(self, reader: Reader) -> None:
        reader.rest()
        with self._lock:
            self._idle.append(reader)

    def close(self) -> None:
        """Close those that nobody uses."""
        with self._lock:
            idle, self._idle = self._idle, []
        for reader in idle:
            reader.close()


def record_of(message: Message) -> Record:
    """A message as a record of the log; what has no key or value has an empty one."""
    carried = cast("list[tuple[str, bytes | None]] | None", message.headers())
    at_ms = message.timestamp()[1]
    headers: Headers = ()
    if carried:
        headers = tuple((name, value or b"") for name, value in carried if name != AT_HEADER)
        for name, value in carried:
            if name == AT_HEADER and value:
                at_ms = int(value)
    offset = message.offset()
    assert offset is not None
    return Record(offset, at_ms, message.key() or b"", message.value() or b"", headers)
