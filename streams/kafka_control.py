"""Sending an operator's wish to a crawl on Kafka: a record on `control` of each partition that it concerns."""

from frontlog.avro.codec import encode
from frontlog.avro.enums import Topic
from frontlog.avro.errors import ConfigError
from frontlog.avro.events import Control
from frontlog.processors import control
from frontlog.streams.kafka_log import KafkaLog
from frontlog.streams.kafka_places import TOPICS, KafkaCrawl
from frontlog.streams.kafka_topics import need
from frontlog.streams.records import NewRecord


def send(crawl: KafkaCrawl, wish: Control) -> list[tuple[int, int]]:
    """Append a wish; (partition, offset) of each record, all of them or none. Raises ConfigError."""
    partitions = need(crawl)[Topic.TRANSITIONS].partitions
    try:
        checked = control.check(wish)
        concerned = control.partitions_of(checked, partitions) if checked.cmd in control.ACTS else [0]
    except control.BadControl as exc:
        raise ConfigError(str(exc)) from exc
    log = KafkaLog(crawl.servers, TOPICS, prefix=crawl.prefix, writer=f"{crawl.name}.{wish.event_id}")
    record = NewRecord(wish.at_ms, checked.target.encode(), encode(checked))
    try:
        with log.begin() as txn:
            offsets = [(number, txn.append(Topic.CONTROL, number, [record])) for number in concerned]
            txn.commit()
    finally:
        log.close()
    return offsets
