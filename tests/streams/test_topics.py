"""The topic catalogue: ids are for ever, and every topic has its place."""

from frontlog.avro.enums import Topic
from frontlog.streams.batching import TOPIC_OF
from frontlog.streams.topics import OUTBOX, TOPIC_IDS, Role, decision_topics, input_topics, shard_name

# Bytes of keys in every log that was written: never changed, never given to another topic.
IDS = {
    "discoveries": 1, "fetch-results": 2, "control": 3, "candidates": 4, "content-verdicts": 5, "transitions": 6,
    "policies": 7, "ownership": 8, "documents": 9, "crawl.fetched": 10, "crawl.removed": 11, "census": 12, "rejects": 13,
    "outbox": 14,
}  # fmt: skip


def test_ids_are_what_they_always_were() -> None:
    assert {str(topic): number for topic, number in TOPIC_IDS.items()}.items() >= IDS.items()
    assert set(TOPIC_IDS) == {*Topic, OUTBOX}
    assert len(set(TOPIC_IDS.values())) == len(TOPIC_IDS)


def test_inputs_and_decisions_of_each_role() -> None:
    assert input_topics(Role.FRONTIER) == (
        Topic.CONTROL, Topic.FETCH_RESULTS, Topic.CONTENT_VERDICTS, Topic.DISCOVERIES,
    )  # fmt: skip
    assert input_topics(Role.CONTENT) == (Topic.CANDIDATES,)
    assert set(decision_topics(Role.FRONTIER)) | set(decision_topics(Role.CONTENT)) == set(TOPIC_OF.values())
    for role in Role:
        assert not set(input_topics(role)) & set(decision_topics(role))


def test_folders() -> None:
    assert (shard_name(Role.FRONTIER, 3), shard_name(Role.CONTENT, 0)) == ("frontier-3", "content-0")
