"""What the log on Kafka does beyond the contract of all logs: names shut each other out, and errors say what to do.

Not verified: more than one broker, TLS and SASL.
"""

import os

import pytest
from confluent_kafka import KafkaError

from frontlog.avro.errors import Fenced, Retriable
from frontlog.streams.kafka_client import of_kafka
from frontlog.streams.kafka_log import KafkaLog
from frontlog.streams.kafka_places import TOPICS, KafkaCrawl
from frontlog.streams.kafka_topics import create
from frontlog.streams.records import NewRecord
from support.broker import Broker, free_ports

T0 = 1_790_000_000_000
RECORD = NewRecord(T0, b"key", b"value")


@pytest.fixture(scope="module")
def crawl(kafka: Broker) -> KafkaCrawl:
    made = KafkaCrawl(
        kafka.bootstrap, f"logs-{os.getpid()}"
    )  # tests of a module may run in several processes
    create(made, 2)
    return made


def opened(crawl: KafkaCrawl, writer: str) -> KafkaLog:
    return KafkaLog(crawl.servers, TOPICS, prefix=crawl.prefix, writer=writer, timeout_ms=2_000)


def put(log: KafkaLog, topic: str, partition: int = 0) -> int:
    with log.begin() as txn:
        offset = txn.append(topic, partition, [RECORD])
        txn.commit()
    return offset


def test_a_second_owner_shuts_the_first_out(crawl: KafkaCrawl) -> None:
    first, second = (opened(crawl, f"{crawl.name}.frontier-0") for _ in range(2))
    put(first, "transitions")
    with first.begin() as open_txn:
        open_txn.append("transitions", 0, [RECORD, RECORD])
        put(second, "transitions")
        with pytest.raises(Fenced):
            open_txn.commit()
    with pytest.raises(Fenced), first.begin() as txn:
        txn.append("transitions", 0, [RECORD])
        txn.commit()
    assert len(list(second.scan("transitions", 0, 0))) == 2
    put(second, "transitions")


def test_what_a_fenced_producer_says_of_all_that_follows_is_that_it_is_fenced() -> None:
    later = KafkaError(KafkaError._FATAL)  # pyright: ignore[reportPrivateUsage]
    assert isinstance(of_kafka(later, "appending"), Fenced)


def test_writers_of_other_names_leave_each_other_alone(crawl: KafkaCrawl) -> None:
    first, second = opened(crawl, f"{crawl.name}.one"), opened(crawl, f"{crawl.name}.two")
    assert put(first, "control", 1) < put(second, "control", 1) < put(first, "control", 1)


def test_what_is_not_there_is_named(crawl: KafkaCrawl, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("frontlog.streams.kafka_reader.LEADER_S_MAX", 0.0)
    with pytest.raises(Retriable, match=r"is the broker starting.*topics create"):
        KafkaLog(crawl.servers, ["discoveries"], prefix="nobody.").bounds("discoveries", 0)
    with pytest.raises(Retriable, match="control/7"):
        opened(crawl, "").bounds("control", 7)


def test_a_broker_that_is_away_can_be_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("frontlog.streams.kafka_reader.CALL_S_MAX", 0.3)
    monkeypatch.setattr("frontlog.streams.kafka_reader.LEADER_S_MAX", 0.0)
    (port,) = free_ports(1)
    with pytest.raises(Retriable):
        KafkaLog(f"127.0.0.1:{port}", ["discoveries"]).bounds("discoveries", 0)


@pytest.mark.parametrize("at_ms", [-5, 0, 1, T0])
def test_times_that_kafka_cannot_carry_come_back(crawl: KafkaCrawl, at_ms: int) -> None:
    log = opened(crawl, f"{crawl.name}.times")
    with log.begin() as txn:
        offset = txn.append("rejects", 2, [NewRecord(at_ms, b"", b"", (("a", b"b"),))])
        txn.commit()
    (found,) = log.read("rejects", 2, offset, records_max=1)
    assert (found.timestamp_ms, found.headers) == (at_ms, (("a", b"b"),))
