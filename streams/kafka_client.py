"""Clients of Kafka: their settings in one place, and what their errors mean to frontlog.

Every consumer reads committed transactions only and is told where to begin; none joins a group or commits an offset.
Every producer is idempotent and given a transactional id; the partition is always named.
"""

from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any, Protocol, cast

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from frontlog.avro.errors import ConfigError, Fenced, FrontlogError, OffsetOutOfRange, Retriable
from frontlog.streams.records import RECORD_BYTES_MAX

MESSAGE_BYTES_MAX = 2 * RECORD_BYTES_MAX
"""What a topic, a producer and a consumer allow a batch to be: one record of the largest size and its frame."""
CALL_S_MAX = 30.0
ADMIN_S_MAX = 20.0
"""What a client for topics gives a call; less than its callers wait."""
TXN_TIMEOUT_MS = 20_000
"""How long an open transaction of a writer that died may hold up readers."""
LINGER_MS = 5
QUEUED_BYTES_MAX = 16 << 20
"""What a consumer fetches ahead, unless it is told to be content with less."""

_FENCED = {
    KafkaError._FENCED,  # pyright: ignore[reportPrivateUsage]
    KafkaError.PRODUCER_FENCED,
    KafkaError.INVALID_PRODUCER_EPOCH,
    KafkaError.TRANSACTION_COORDINATOR_FENCED,
    # What a producer says of every later call once it was fenced: a worker that was stopped and goes on hears nothing else.
    KafkaError._FATAL,  # pyright: ignore[reportPrivateUsage]
}
_OUT_OF_RANGE = {
    KafkaError.OFFSET_OUT_OF_RANGE,
    KafkaError._AUTO_OFFSET_RESET,  # pyright: ignore[reportPrivateUsage]
}
_MISSING = {
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_TOPIC,  # pyright: ignore[reportPrivateUsage]
}
_REFUSED = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    KafkaError.SASL_AUTHENTICATION_FAILED,
    KafkaError._AUTHENTICATION,  # pyright: ignore[reportPrivateUsage]
    KafkaError.INVALID_TRANSACTION_TIMEOUT,
}
_AWAY = {
    KafkaError._DESTROY_BROKER,  # pyright: ignore[reportPrivateUsage, reportAttributeAccessIssue, reportUnknownMemberType]
    KafkaError._TRANSPORT,  # pyright: ignore[reportPrivateUsage]
    KafkaError._ALL_BROKERS_DOWN,  # pyright: ignore[reportPrivateUsage]
    KafkaError._TIMED_OUT,  # pyright: ignore[reportPrivateUsage]
    KafkaError._MSG_TIMED_OUT,  # pyright: ignore[reportPrivateUsage]
    KafkaError._RESOLVE,  # pyright: ignore[reportPrivateUsage]
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError.CONCURRENT_TRANSACTIONS,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.REPLICA_NOT_AVAILABLE,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.NOT_COORDINATOR,
}
END_OF_PARTITION = KafkaError._PARTITION_EOF  # pyright: ignore[reportPrivateUsage]


def of_kafka(exc: BaseException | KafkaError, doing: str) -> FrontlogError:
    """The error of frontlog that says what the caller does about one of Kafka's. `doing`: what was tried, and where."""
    error = exc if isinstance(exc, KafkaError) else _error_of(exc)
    if error is None:
        return FrontlogError(f"{doing}: {exc}")
    code, said = error.code(), f"{doing}: {error.name()}: {error.str()}"
    if code in _FENCED:
        return Fenced(f"{said}; another owner has the partition")
    if code in _OUT_OF_RANGE:
        return OffsetOutOfRange(said)
    if code in _MISSING:
        return ConfigError(f"{said}; run: frontlog topics create")
    if code in _REFUSED:
        return ConfigError(said)
    if code == KafkaError._UNKNOWN_PARTITION:  # pyright: ignore[reportPrivateUsage]
        # Topics were looked at when the process began: more likely a broker is starting, and knows none of them yet.
        return Retriable(f"{said}; is the broker starting? Otherwise run: frontlog topics create")
    if code in _AWAY or error.retriable():
        return Retriable(said)
    return FrontlogError(said)


def _error_of(exc: BaseException) -> KafkaError | None:
    first = exc.args[0] if isinstance(exc, KafkaException) and exc.args else None
    return first if isinstance(first, KafkaError) else None


def consumer(
    servers: str, client_id: str, *, wait_ms: int = 10, queued_bytes_max: int = QUEUED_BYTES_MAX
) -> Consumer:
    """A consumer that is assigned by hand. `wait_ms`: how long the broker may hold a fetch when there is nothing."""
    return Consumer(
        {
            **_common(servers, client_id),
            "group.id": client_id,  # required by the library; no group is joined
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "auto.offset.reset": "error",
            "enable.partition.eof": True,
            "fetch.wait.max.ms": wait_ms,
            "fetch.error.backoff.ms": 20,
            "queued.max.messages.kbytes": max(1, min(queued_bytes_max, QUEUED_BYTES_MAX) >> 10),
            "fetch.message.max.bytes": min(
                MESSAGE_BYTES_MAX, queued_bytes_max
            ),  # one larger record comes all the same
        }
    )


def producer(
    servers: str, client_id: str, transactional_id: str, *, timeout_ms: int = TXN_TIMEOUT_MS
) -> Producer:
    """A transactional producer, which is still to be fenced in with `init_transactions`."""
    return Producer(
        {
            **_producing(servers, client_id),
            "transactional.id": transactional_id,
            "transaction.timeout.ms": timeout_ms,
        }
    )


def plain_producer(servers: str, client_id: str) -> Producer:
    """A producer without transactions, whose records are there at once; each of them once."""
    return Producer({**_producing(servers, client_id), "enable.idempotence": True})


def _producing(servers: str, client_id: str) -> dict[str, Any]:
    return {
        **_common(servers, client_id),
        "linger.ms": LINGER_MS,
        "compression.type": "lz4",
        "message.max.bytes": MESSAGE_BYTES_MAX,
        "queue.buffering.max.kbytes": 256 * 1_024,
    }


class Admin(Protocol):
    """What is used of the library's client for topics, whose own types are partly unknown. One that is collected fails
    the calls under way: keep it until they are answered, which `request_timeout` bounds; wait longer than that."""

    def list_topics(self, *, timeout: float) -> Any: ...

    def create_topics(
        self, new_topics: Sequence[NewTopic], *, operation_timeout: float
    ) -> dict[str, Future[Any]]: ...

    def describe_topics(
        self, topics: TopicCollection, *, request_timeout: float
    ) -> dict[str, Future[Any]]: ...

    def describe_configs(
        self, resources: Sequence[Any], *, request_timeout: float
    ) -> dict[Any, Future[Any]]: ...

    def describe_consumer_groups(
        self, group_ids: Sequence[str], *, request_timeout: float
    ) -> dict[str, Future[Any]]: ...

    def list_consumer_group_offsets(
        self, list_consumer_group_offsets_request: Sequence[Any], *, request_timeout: float
    ) -> dict[str, Future[Any]]: ...

    def delete_records(
        self, topic_partition_offsets: Sequence[TopicPartition], *, request_timeout: float
    ) -> dict[Any, Future[Any]]: ...


def admin(servers: str, client_id: str) -> Admin:
    """A client for topics and their settings."""
    return cast("Admin", AdminClient(_common(servers, client_id)))


def _common(servers: str, client_id: str) -> dict[str, Any]:
    return {
        "bootstrap.servers": servers,
        "client.id": client_id,
        "log_level": 2,  # what goes wrong is told by errors; a broker that is away would fill the terminal
        "reconnect.backoff.max.ms": 1_000,
        "topic.metadata.refresh.interval.ms": 30_000,
        "socket.keepalive.enable": True,
        "socket.nagle.disable": True,
    }
