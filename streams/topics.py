"""The topic catalogue of the embedded log, and which shard holds what (DESIGN §2).

A shard is one partition with its tables: frontier partitions come first, content's behind them. Topic ids are
bytes of keys in the log: they are never given to another topic.
"""

from enum import StrEnum

from frontlog.avro.enums import (
    CONTENT_DECISION_TOPICS,
    CONTENT_INPUT_TOPICS,
    DECISION_TOPICS,
    INPUT_TOPICS,
    Topic,
)

OUTBOX = "outbox"
"""Inputs for other shards, committed with the batch that made them and delivered behind it; internal."""

TOPIC_IDS: dict[str, int] = {
    Topic.DISCOVERIES: 1,
    Topic.FETCH_RESULTS: 2,
    Topic.CONTROL: 3,
    Topic.CANDIDATES: 4,
    Topic.CONTENT_VERDICTS: 5,
    Topic.TRANSITIONS: 6,
    Topic.POLICIES: 7,
    Topic.OWNERSHIP: 8,
    Topic.DOCUMENTS: 9,
    Topic.FETCHED: 10,
    Topic.REMOVED: 11,
    Topic.CENSUS: 12,
    Topic.REJECTS: 13,
    OUTBOX: 14,
}
CONTENT_PARTITIONS = 1


class Role(StrEnum):
    """What a shard decides."""

    FRONTIER = "frontier"
    CONTENT = "content"


def input_topics(role: Role) -> tuple[Topic, ...]:
    """A shard's inputs, in the order in which a batch takes them."""
    return INPUT_TOPICS if role is Role.FRONTIER else CONTENT_INPUT_TOPICS


def decision_topics(role: Role) -> tuple[Topic, ...]:
    """A shard's decisions; a reader merges them by seq."""
    return DECISION_TOPICS if role is Role.FRONTIER else CONTENT_DECISION_TOPICS


def shard_name(role: Role, partition: int) -> str:
    """The folder of a shard, relative to the crawl's `log` folder."""
    return f"{role.value}-{partition}"
