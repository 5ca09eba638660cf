"""The log on Apache Kafka: see `frontlog.streams.log.Log`.

    log = KafkaLog("broker:9092", ["discoveries", "control"], prefix="news.", writer="me")

A record lies in the topic `prefix + name`, in the partition that the caller names: the partition is never left to a
client, whose partitioners differ. What is read is committed; `next` of `bounds` lies before any open transaction.

A transaction waits at its end until what it wrote can be read, since Kafka answers a commit before its markers stand
in every partition. Each writer needs a name of its own (`transactional.id`): two with one name shut each other out.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import chain
from typing import Self, TypeVar

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from frontlog.avro.errors import Fenced, FrontlogError, Retriable
from frontlog.streams import kafka_client
from frontlog.streams.kafka_client import CALL_S_MAX, TXN_TIMEOUT_MS, of_kafka
from frontlog.streams.kafka_reader import AT_HEADER, Readers
from frontlog.streams.kafka_visible import await_visible
from frontlog.streams.log import READ_BYTES_MAX, READ_RECORDS_MAX, out_of_range
from frontlog.streams.records import RECORD_BYTES_MAX, NewRecord, Record, record_bytes

Result = TypeVar("Result")


class KafkaLogTxn:
    """One transaction of a log's producer. Nothing is sent before the first append."""

    def __init__(self, log: "KafkaLog", producer: Callable[[], Producer]) -> None:
        self._log = log
        self._producer_of = producer
        self._producer: Producer | None = None
        self._ends: dict[tuple[str, int], int] = {}
        self._open = True

    def append(self, topic: str, partition: int, records: Sequence[NewRecord]) -> int:
        """Append, and wait until the broker has given offsets. Raises Retriable when another writer came in between:
        the transaction is then to be aborted and repeated."""
        name = self._log.full_name(topic)
        if not self._open:
            raise AssertionError("the transaction has ended")
        if not records:
            return self._log.bounds(topic, partition)[1]
        if self._producer is None:
            self._producer = self._producer_of()
            _call(self._producer.begin_transaction, "beginning a transaction")
        offsets: list[int] = []
        errors: list[KafkaError] = []

        def delivered(error: KafkaError | None, message: Message) -> None:
            offset = message.offset()
            if error is not None:
                errors.append(error)
            elif offset is not None:
                offsets.append(offset)

        for record in records:
            send(self._producer, name, partition, record, delivered)
        left = self._producer.flush(CALL_S_MAX)
        if errors:
            raise self._log.failed(of_kafka(errors[0], f"appending to {topic}/{partition}"))
        if left or len(offsets) != len(records):
            raise Retriable(f"appending to {topic}/{partition}: not acknowledged within {CALL_S_MAX:.0f} s")
        if offsets[-1] - offsets[0] != len(records) - 1:
            raise Retriable(
                f"appending to {topic}/{partition}: another writer's records came in between; repeat the transaction"
            )
        self._ends[name, partition] = offsets[-1] + 1
        return offsets[0]

    def commit(self) -> None:
        """Commit, and wait until a reader sees it. Raises Fenced when another writer took the name over, and
        Retriable when it is not known whether it was committed."""
        if not self._open:
            raise AssertionError("the transaction has ended")
        self._open = False
        if self._producer is None:
            return
        producer = self._producer
        try:
            producer.commit_transaction(CALL_S_MAX)
        except KafkaException as exc:
            raise self._log.failed(of_kafka(exc, "committing")) from exc
        await_visible(self._log.readers, self._ends, self._log.timeout_ms)

    def abort(self) -> None:
        """Drop what was appended."""
        if self._open and self._producer is not None:
            self._open = False
            try:
                self._producer.abort_transaction(CALL_S_MAX)
            except KafkaException as exc:
                error = self._log.failed(of_kafka(exc, "aborting"))
                if not isinstance(error, Retriable):
                    raise error from exc
        self._open = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.abort()


class KafkaLog:
    """`topics`: the names that may be used; an unknown one is a KeyError. `writer`: the transactional id of `begin`."""

    def __init__(
        self,
        servers: str,
        topics: Collection[str],
        *,
        prefix: str = "",
        writer: str = "",
        timeout_ms: int = TXN_TIMEOUT_MS,
    ) -> None:
        self.servers = servers
        self.prefix = prefix
        self.timeout_ms = timeout_ms
        self._names = {topic: prefix + topic for topic in topics}
        self._writer = writer
        self.readers = Readers(servers, f"{prefix}reader")
        self._producer: Producer | None = None
        self._fenced: Fenced | None = None

    def full_name(self, topic: str) -> str:
        """The topic as Kafka knows it. Raises KeyError."""
        return self._names[topic]

    def begin(self) -> KafkaLogTxn:
        """A transaction; of one log there is one at a time."""
        return KafkaLogTxn(self, self._fenced_producer)

    def _fenced_producer(self) -> Producer:
        if self._fenced is not None:
            raise self._fenced
        if self._producer is None:
            if not self._writer:
                raise AssertionError("this log was opened for reading: it has no writer's name")
            self._producer = fenced_producer(self.servers, self._writer, timeout_ms=self.timeout_ms)
        return self._producer

    def failed(self, error: FrontlogError) -> FrontlogError:
        """Note how a transaction failed. Who was shut out stays so; otherwise the next transaction gets a new producer,
        which aborts what this one left."""
        if isinstance(error, Fenced):
            self._fenced = error
        self._producer = None
        return error

    def bounds(self, topic: str, partition: int) -> tuple[int, int]:
        name = self._names[topic]
        with self.readers.one() as reader:
            return reader.bounds(name, partition)

    def read(
        self,
        topic: str,
        partition: int,
        offset: int,
        *,
        records_max: int = READ_RECORDS_MAX,
        bytes_max: int = READ_BYTES_MAX,
    ) -> list[Record]:
        found: list[Record] = []
        size_bytes = 0
        for records in self.batches(topic, partition, offset):
            for record in records:
                size_bytes += record_bytes(record)
                if found and (len(found) >= records_max or size_bytes > bytes_max):
                    return found
                found.append(record)
            if len(found) >= records_max:
                return found
        return found

    def batches(self, topic: str, partition: int, offset: int) -> Iterator[list[Record]]:
        name = self._names[topic]
        with self.readers.one() as reader:
            first, following = reader.bounds(name, partition)
            if not first <= offset <= following:
                raise out_of_range(topic, partition, offset, first, following)
            yield from reader.records(name, partition, offset, following)

    def scan(self, topic: str, partition: int, offset: int) -> Iterator[Record]:
        return chain.from_iterable(self.batches(topic, partition, offset))

    def offset_at(self, topic: str, partition: int, timestamp_ms: int) -> int:
        """As in `Log`. Kafka's index counts the markers of transactions, which carry the broker's time, so the records
        behind the offset that it names are looked at."""
        name = self._names[topic]
        with self.readers.one() as reader:
            at = reader.offset_at(name, partition, timestamp_ms)
            first, following = reader.bounds(name, partition)
            if at is None or at >= following:
                return following
            for records in reader.records(name, partition, max(at, first), following):
                for record in records:
                    if record.timestamp_ms >= timestamp_ms:
                        return record.offset
        return following

    def close(self) -> None:
        """Close what is idle."""
        self.readers.close()
        self._producer = None


def fenced_producer(servers: str, transactional_id: str, *, timeout_ms: int = TXN_TIMEOUT_MS) -> Producer:
    """A producer that has shut out any other with its id, whose open transaction is aborted. Raises Retriable."""
    made = kafka_client.producer(servers, transactional_id, transactional_id, timeout_ms=timeout_ms)
    doing = f"taking {transactional_id} over"
    # Connected first, the next call takes some milliseconds; alone it takes half a second.
    _call(lambda: made.list_topics(timeout=CALL_S_MAX), doing)
    _call(lambda: made.init_transactions(CALL_S_MAX), doing)
    return made


def send(
    producer: Producer,
    name: str,
    partition: int,
    record: NewRecord,
    delivered: Callable[[KafkaError | None, Message], None],
) -> None:
    """Give a record to the producer; waits when its queue is full."""
    size_bytes = record_bytes(record)
    if size_bytes > RECORD_BYTES_MAX:
        raise AssertionError(f"a record of {size_bytes} bytes; at most {RECORD_BYTES_MAX} are allowed")
    headers: list[tuple[str, str | bytes | None]] = list(record.headers)
    at_ms = record.timestamp_ms
    if at_ms <= 0:
        headers.append((AT_HEADER, b"%d" % at_ms))
        at_ms = 1
    while True:
        try:
            producer.produce(
                name, record.value, record.key, partition, on_delivery=delivered, timestamp=at_ms, headers=headers
            )  # fmt: skip
            return
        except BufferError:
            producer.poll(0.1)
        except KafkaException as exc:
            raise of_kafka(exc, f"appending to {name}/{partition}") from exc


def _call(call: Callable[[], Result], doing: str) -> Result:
    try:
        return call()
    except KafkaException as exc:
        error: FrontlogError = of_kafka(exc, doing)
        raise error from exc
