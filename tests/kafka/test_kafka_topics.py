"""The topics of a crawl: made with the right policies, told apart when they are wrong, and never changed."""

import re
from typing import Any, cast

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions, NewTopic

from frontlog.avro.errors import ConfigError
from frontlog.streams import kafka_topics
from frontlog.streams.kafka_places import (
    TOPICS,
    KafkaCrawl,
    ShardLog,
    counts,
    parse,
    place,
    transactional_id,
)
from frontlog.streams.log import Log
from frontlog.streams.topics import Role
from support.broker import Broker
from support.stores import wait_until


def admin(kafka: Broker) -> Any:
    return cast("Any", AdminClient({"bootstrap.servers": kafka.bootstrap}))


def done(futures: dict[str, Any]) -> None:
    for future in futures.values():
        future.result(30)


@pytest.mark.parametrize("text", ["kafka://a:1/news", "kafka://a.example:9092,b:9093/my-crawl_2"])
def test_a_crawl_has_one_way_to_be_written(text: str) -> None:
    assert str(parse(text)) == text


@pytest.mark.parametrize(
    "text", ["", "a:1/news", "kafka://a:1", "kafka://a:1/", "kafka:///news", "kafka://a/news", "kafka://a:1/a.b", "kafka://a:1/x/y"]
)  # fmt: skip
def test_other_ways_are_refused_with_an_example(text: str) -> None:
    with pytest.raises(ConfigError, match=re.escape("kafka://127.0.0.1:9092/news")):
        parse(text)


def test_content_lies_behind_the_frontier_where_they_share() -> None:
    assert place(Role.FRONTIER, 4, "ownership", 3) == 3
    assert place(Role.CONTENT, 4, "ownership", 0) == place(Role.CONTENT, 4, "rejects", 0) == 4
    assert place(Role.CONTENT, 4, "candidates", 0) == place(Role.CONTENT, 4, "documents", 0) == 0
    assert counts(4)["ownership"] == counts(4)["rejects"] == 5
    assert transactional_id("news", Role.CONTENT, 0) == "news.content-0"


def test_a_shard_says_its_own_number(log: Log) -> None:
    view = ShardLog(log, Role.CONTENT, 1)
    assert view.place("discoveries", 0) == 0
    assert view.bounds("discoveries", 0) == log.bounds("discoveries", 0)


def test_topics_are_made_once_and_found_right(kafka: Broker) -> None:
    crawl = KafkaCrawl(kafka.bootstrap, "made")
    assert kafka_topics.check(crawl)[1] == [f"{topic} is missing" for topic in TOPICS]
    with pytest.raises(ConfigError, match="topics create"):
        kafka_topics.need(crawl)
    assert sorted(kafka_topics.create(crawl, 3)) == sorted(TOPICS)
    assert kafka_topics.create(crawl, 3) == []
    there = kafka_topics.need(crawl)
    assert {topic: state.partitions for topic, state in there.items()} == counts(3)
    for topic in ("transitions", "policies", "ownership", "documents"):
        kept = {name: there[topic].settings[name] for name in kafka_topics.FOREVER}
        assert kept == {"retention.ms": "-1", "retention.bytes": "-1"}
        assert there[topic].settings["cleanup.policy"] == "delete"
    assert len({state.topic_id for state in there.values()}) == len(TOPICS)
    with pytest.raises(ConfigError, match="transitions has 3 partitions, 4 are wanted"):
        kafka_topics.create(crawl, 4)


def test_what_is_wrong_is_told_and_left_alone(kafka: Broker) -> None:
    crawl, client = KafkaCrawl(kafka.bootstrap, "wrong"), admin(kafka)
    compacted = {**kafka_topics.ALWAYS, "cleanup.policy": "compact", "retention.ms": "604800000"}
    done(client.create_topics([NewTopic("wrong.transitions", 2, 1, config=compacted)]))
    kafka_topics.await_there(client, {"wrong.transitions"})
    with pytest.raises(ConfigError, match=r"cleanup.policy=compact, it must be delete.*Nothing was changed"):
        kafka_topics.create(crawl, 2)
    there, problems = kafka_topics.check(crawl)
    assert list(there) == ["transitions"]
    assert "transitions has retention.ms=604800000, it must be -1" in problems


def test_added_partitions_and_a_topic_made_anew_show(kafka: Broker) -> None:
    crawl, client = KafkaCrawl(kafka.bootstrap, "grown"), admin(kafka)
    kafka_topics.create(crawl, 2)
    before = kafka_topics.need(crawl, 2)
    done(client.create_partitions([NewPartitions("grown.control", 5)]))
    wait_until(lambda: "control has 5 partitions, 2 are" in " ".join(kafka_topics.check(crawl, 2)[1]))
    done(client.delete_topics(["grown.rejects"]))
    wait_until(lambda: "rejects is missing" in kafka_topics.check(crawl, 2)[1])
    kafka_topics.make(client, "grown.", {"rejects": 3}, replication=1)
    wait_until(lambda: kafka_topics.check(crawl, 2)[0]["rejects"].topic_id != before["rejects"].topic_id)
    after = kafka_topics.check(crawl, 2)[0]
    assert after["transitions"].topic_id == before["transitions"].topic_id


@pytest.fixture
def log() -> Log:
    from frontlog.state.memory_store import MemoryStore
    from frontlog.streams.embedded_log import EmbeddedLog

    return EmbeddedLog(MemoryStore(("log",)), {"discoveries": 1})
