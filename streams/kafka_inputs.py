"""The inputs of one shard on Kafka: fetched ahead by a consumer of its own, from positions that the tables hold.

What was fetched waits here until a batch took it. A topic whose queue is full is paused, and that one alone: a flood of
discoveries holds up neither results nor an operator's word.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from frontlog.avro.errors import OffsetOutOfRange
from frontlog.streams.kafka_client import END_OF_PARTITION, consumer, of_kafka
from frontlog.streams.kafka_reader import record_of
from frontlog.streams.log import READ_RECORDS_MAX
from frontlog.streams.records import NewRecord, Record, record_bytes

WAITING_MAX = 4_000
"""Inputs of one topic that wait for a batch; beyond it the topic is paused until half of them are taken."""
INPUTS_BYTES_MAX = 256 << 20
"""Bytes of inputs that a worker holds for all of its shards, half of them in the clients' queues. Each shard has its share,
which may be overshot by what one look takes."""
POLL_RECORDS_MAX = 1_000
POLL_CHUNK = 100
"""Records after which queues are looked at, whether they are full."""
WAIT_MS = 100


class _Waiting:
    """One topic: what waits, up to where it was fetched, and whether that was its end."""

    def __init__(self, offset: int, bytes_max: int) -> None:
        self.records: deque[Record] = deque()
        self.size_bytes = 0
        self.bytes_max = bytes_max
        self.end = offset
        self.caught_up = False
        self.paused = False

    def full(self) -> bool:
        return len(self.records) >= WAITING_MAX or self.size_bytes >= self.bytes_max

    def half_empty(self) -> bool:
        return len(self.records) <= WAITING_MAX // 2 and self.size_bytes <= self.bytes_max // 2


class KafkaInputs:
    """`topics`: full name by topic; `positions`: where each goes on; `bytes_max`: what may wait here and in the
    client. Used by one thread."""

    def __init__(
        self,
        servers: str,
        client_id: str,
        topics: Mapping[str, str],
        partition: int,
        positions: Mapping[str, int],
        *,
        bytes_max: int = INPUTS_BYTES_MAX,
    ) -> None:
        half = bytes_max // 2
        self._names = dict(topics)
        self._topics = {name: topic for topic, name in topics.items()}
        self._partition = partition
        self._waiting = {topic: _Waiting(positions.get(topic, 0), half // len(topics)) for topic in topics}
        self._consumer: Consumer = consumer(servers, client_id, wait_ms=WAIT_MS, queued_bytes_max=half)
        try:
            self._consumer.assign(
                [TopicPartition(name, partition, self._waiting[topic].end) for topic, name in topics.items()]
            )
        except KafkaException as exc:
            raise of_kafka(exc, f"reading inputs of partition {partition}") from exc

    def poll(self) -> int:
        """Take in what has arrived, without waiting; how many records. Raises OffsetOutOfRange when what a position names
        was deleted, and what else the broker says."""
        taken = 0
        for _ in range(POLL_RECORDS_MAX // POLL_CHUNK):
            messages = self._consumer.consume(POLL_CHUNK, 0)
            taken += sum(map(self._took, messages))
            for topic, one in self._waiting.items():
                if not one.paused and one.full():
                    self._consumer.pause([TopicPartition(self._names[topic], self._partition)])
                    one.paused = True
            if len(messages) < POLL_CHUNK:
                break
        return taken

    def _took(self, message: Message) -> bool:
        """Keep what the client has brought; whether it is a record."""
        topic = self._topics[message.topic() or ""]
        one = self._waiting[topic]
        error = message.error()
        if error is None:
            record = record_of(message)
            one.records.append(record)
            one.size_bytes += record_bytes(record)
            one.end = record.offset + 1
            one.caught_up = False
        elif error.code() == END_OF_PARTITION:
            one.caught_up = True
        else:
            self._refused(topic, error)
        return error is None

    def _refused(self, topic: str, error: Any) -> None:
        found = of_kafka(error, f"reading {self._names[topic]}/{self._partition}")
        if isinstance(found, OffsetOutOfRange):
            low, high = self._consumer.get_watermark_offsets(
                TopicPartition(self._names[topic], self._partition), timeout=10
            )
            raise OffsetOutOfRange(
                f"{self._names[topic]}/{self._partition}: the tables go on at offset {self._waiting[topic].end}, the topic "
                f"holds offsets from {low} up to, not including, {high}: inputs were deleted before they were decided"
            )
        raise found

    def caught_up(self, topic: str) -> bool:
        """Whether all that was in the topic when it was last looked at is here."""
        return self._waiting[topic].caught_up

    def all_caught_up(self) -> bool:
        """The same of every topic."""
        return all(one.caught_up or one.paused for one in self._waiting.values())

    def count(self) -> int:
        """Inputs that wait."""
        return sum(len(one.records) for one in self._waiting.values())

    def lags(self, positions: Mapping[str, int]) -> dict[str, int]:
        """By topic how many offsets lie between what was decided and the end that the broker named last; asks nobody."""
        found: dict[str, int] = {}
        for topic, name in self._names.items():
            where = TopicPartition(name, self._partition)
            _, end = self._consumer.get_watermark_offsets(where, cached=True)
            if end >= 0:  # it has named one
                found[topic] = max(0, end - positions.get(topic, 0))
        return found

    def bounds(self, topic: str) -> tuple[int, int]:
        """(first, next) of what is here; (0, 0) of a topic that is no input of this shard."""
        one = self._waiting.get(topic)
        if one is None:
            return 0, 0
        return one.records[0].offset if one.records else one.end, one.end

    def read(self, topic: str, offset: int, records_max: int) -> list[Record]:
        """What is here from `offset` on."""
        records = self._waiting[topic].records
        skipped = 0
        if records and records[0].offset < offset:
            skipped = next((i for i, one in enumerate(records) if one.offset >= offset), len(records))
        return list(islice(records, skipped, skipped + records_max))

    def drop(self, positions: Mapping[str, int]) -> None:
        """Forget what was decided, and fetch on where a queue has room again."""
        for topic, one in self._waiting.items():
            following = positions.get(topic, 0)
            while one.records and one.records[0].offset < following:
                one.size_bytes -= record_bytes(one.records.popleft())
            if one.paused and one.half_empty():
                self._consumer.resume([TopicPartition(self._names[topic], self._partition)])
                one.paused = False

    def close(self) -> None:
        """Fetch no more."""
        self._consumer.close()


class KafkaBatch:
    """The log inside one batch of a shard (`frontlog.streams.log.BatchLog`): reads what waits, keeps what is appended."""

    def __init__(self, inputs: KafkaInputs) -> None:
        self._inputs = inputs
        self.appended: list[tuple[str, Sequence[NewRecord]]] = []

    def append(self, topic: str, partition: int, records: Sequence[NewRecord]) -> int:
        """Keep records for the transaction. Kafka gives offsets when it has them, so 0 stands for the first."""
        self.appended.append((topic, records))
        return 0

    def bounds(self, topic: str, partition: int) -> tuple[int, int]:
        return self._inputs.bounds(topic)

    def read(
        self, topic: str, partition: int, offset: int, *, records_max: int = READ_RECORDS_MAX
    ) -> list[Record]:
        return self._inputs.read(topic, offset, records_max)
