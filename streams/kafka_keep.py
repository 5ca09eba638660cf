"""Writing records to Kafka so that they keep the offsets that they had, for copies of a log.

Kafka counts offsets itself, one a record and one a marker of a transaction. So into an empty partition

    records that follow one another      go without a transaction
    a hole of one offset                 the record before it is committed in a transaction: its marker is the hole
    a hole of n > 1                      a transaction of n - 1 empty records is dropped: they and its marker are the hole
    what retention cut from the front    is written as empty records, and deleted

Every offset that Kafka answers is held against the one that is wanted.
"""

import time
from collections.abc import Sequence
from typing import Self

from confluent_kafka import KafkaError, KafkaException, Message, Producer, TopicPartition

from frontlog.avro.errors import Corrupt, Retriable
from frontlog.streams import kafka_client
from frontlog.streams.kafka_client import CALL_S_MAX, of_kafka
from frontlog.streams.kafka_log import fenced_producer, send
from frontlog.streams.kafka_reader import Readers
from frontlog.streams.kafka_visible import await_visible
from frontlog.streams.log import Log
from frontlog.streams.records import NewRecord, Record

_FILLER = NewRecord(1, b"", b"")


class Keeper:
    """Writes one partition after the other: `begin`, `keep` as often as there are records, `end`."""

    def __init__(self, servers: str, name: str) -> None:
        self._servers = servers
        self._name = name
        self._plain: Producer = kafka_client.plain_producer(servers, f"{name}.copy")
        self._fenced: Producer | None = None
        self._readers = Readers(servers, f"{name}.copy")
        self._topic = ""
        self._partition = 0
        self._at = 0
        self._held: Record | None = None
        self._wrong: list[str] = []

    def begin(self, topic: str, partition: int, first: int) -> None:
        """Begin an empty partition whose first record will have the offset `first`."""
        self._topic, self._partition, self._at, self._held = topic, partition, 0, None
        if first:
            for _ in range(first):
                self._send(self._plain, _FILLER)
            self._flush(self._plain)
            admin = kafka_client.admin(self._servers, f"{self._name}.copy")
            for future in admin.delete_records(
                [TopicPartition(topic, partition, first)], request_timeout=kafka_client.ADMIN_S_MAX
            ).values():
                try:
                    future.result(CALL_S_MAX)
                except KafkaException as exc:
                    raise of_kafka(exc, f"deleting the front of {topic}/{partition}") from exc

    def keep(self, records: Sequence[Record]) -> None:
        """Write records; their offsets grow."""
        for record in records:
            self._to(record.offset)
            self._held = record

    def end(self, end: int) -> None:
        """Write what is held back, so that the next record gets the offset `end`. Raises Corrupt when Kafka gave other
        offsets, as when the partition was not empty."""
        self._to(end)
        self._flush(self._plain)

    def _to(self, offset: int) -> None:
        """Write the record that is held back, and a hole if there is one before `offset`."""
        held, self._held = self._held, None
        gap = offset - self._at - (held is not None)
        assert gap >= 0, f"offset {offset} behind {self._at}"
        if held is not None and gap != 1:
            self._send(self._plain, held)
        if gap:
            self._flush(self._plain)
            self._hole(offset, [held] if held is not None and gap == 1 else [], gap)

    def _hole(self, end: int, kept: Sequence[Record], gap: int) -> None:
        """A transaction that ends at the offset `end`: committed with its one record, or dropped."""
        if self._fenced is None:
            self._fenced = fenced_producer(self._servers, f"{self._name}.copy")
        producer = self._fenced
        try:
            producer.begin_transaction()
            for record in kept:
                self._send(producer, record)
            for _ in range(0 if kept else gap - 1):
                self._send(producer, _FILLER)
            self._flush(producer)
            (producer.commit_transaction if kept else producer.abort_transaction)(CALL_S_MAX)
        except KafkaException as exc:
            raise of_kafka(exc, f"copying to {self._topic}/{self._partition}") from exc
        self._at += 1
        assert self._at == end, f"the hole ends at {self._at}, not at {end}"
        await_visible(self._readers, {(self._topic, self._partition): end}, kafka_client.TXN_TIMEOUT_MS)

    def _send(self, producer: Producer, record: NewRecord | Record) -> None:
        wanted = self._at

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                self._wrong.append(str(error))
            elif message.offset() != wanted:
                self._wrong.append(f"offset {message.offset()} was given, {wanted} is wanted")

        new = NewRecord(
            record.timestamp_ms, record.key, record.value, () if record is _FILLER else record.headers
        )
        send(producer, self._topic, self._partition, new, delivered)
        self._at += 1
        producer.poll(0)

    def _flush(self, producer: Producer) -> None:
        until = time.monotonic() + CALL_S_MAX
        while producer.flush(1.0):
            if time.monotonic() > until:
                raise Retriable(f"copying to {self._topic}/{self._partition}: the broker does not answer")
        if self._wrong:
            raise Corrupt(
                f"{self._topic}/{self._partition}: {self._wrong[0]}; is somebody else writing there?"
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._readers.close()


def begins_at(log: Log, topic: str, partition: int) -> int:
    """The first offset that a partition holds."""
    return log.bounds(topic, partition)[0]
