"""The topics of a crawl on Kafka: making them, and holding what is there against what must be.

Decisions are kept until `frontlog retain` cuts them: no limit of time or size, and never compacted, since each decision
counts and not the newest of a key. What exists is never changed from here: a person does that, knowing why.
"""

import time
from collections.abc import Mapping, Set
from typing import Any, NamedTuple

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    ConfigResource,  # pyright: ignore[reportPrivateImportUsage]
    ResourceType,  # pyright: ignore[reportPrivateImportUsage]
)
from confluent_kafka.cimpl import NewTopic

from frontlog.avro.enums import CONTENT_DECISION_TOPICS, DECISION_TOPICS, Topic
from frontlog.avro.errors import ConfigError, Retriable
from frontlog.streams.kafka_client import ADMIN_S_MAX, CALL_S_MAX, MESSAGE_BYTES_MAX, Admin, admin, of_kafka
from frontlog.streams.kafka_places import TOPICS, KafkaCrawl, counts

DAY_MS = 86_400_000
_NO_LIMIT = "-1"
_ANY_TIME = str(2**63 - 1)

KEPT_MS: dict[str, int] = {
    Topic.DISCOVERIES: 30 * DAY_MS,
    Topic.FETCH_RESULTS: 90 * DAY_MS,
    Topic.CANDIDATES: 7 * DAY_MS,
    Topic.CONTENT_VERDICTS: 30 * DAY_MS,
    Topic.FETCHED: 400 * DAY_MS,
    Topic.REMOVED: 400 * DAY_MS,
    Topic.REJECTS: 90 * DAY_MS,
}
"""How long topics are kept that need not be there for ever; the others have no limit."""
DECISIONS = frozenset((*DECISION_TOPICS, *CONTENT_DECISION_TOPICS))
ALWAYS: dict[str, str] = {
    "cleanup.policy": "delete",
    # Records carry the time of their event, which a copy of an old crawl keeps.
    "message.timestamp.type": "CreateTime",
    "message.timestamp.before.max.ms": _ANY_TIME,
    "message.timestamp.after.max.ms": _ANY_TIME,
    "max.message.bytes": str(MESSAGE_BYTES_MAX),
}
"""What every topic must have."""
FOREVER: dict[str, str] = {"retention.ms": _NO_LIMIT, "retention.bytes": _NO_LIMIT}
"""What decisions and control must have."""


class TopicState(NamedTuple):
    """One topic as the brokers have it."""

    topic_id: str
    partitions: int
    settings: Mapping[str, str]


def settings_of(topic: str) -> dict[str, str]:
    """What a topic is made with."""
    kept_ms = KEPT_MS.get(topic)
    limits = FOREVER if kept_ms is None else {"retention.ms": str(kept_ms), "retention.bytes": _NO_LIMIT}
    return {**ALWAYS, **limits}


def required_of(topic: str) -> dict[str, str]:
    """What a topic must have; how long inputs and outputs are kept is a person's to choose."""
    return {**ALWAYS, **(FOREVER if topic in DECISIONS else {})}


def make(client: Admin, prefix: str, partitions: Mapping[str, int], *, replication: int) -> None:
    """Make topics, by name without prefix, each with its settings. Raises what `of_kafka` gives."""
    durable = {"min.insync.replicas": str(replication - 1)} if replication > 2 else {}
    wanted = [
        NewTopic(prefix + topic, count, replication, config={**settings_of(topic), **durable})
        for topic, count in partitions.items()
    ]
    for name, future in client.create_topics(wanted, operation_timeout=ADMIN_S_MAX).items():
        _result(future, f"making topic {name}")
    await_there(client, {prefix + topic for topic in partitions})


def await_there(client: Admin, names: Set[str]) -> None:
    """Wait until a broker knows topics that were just made, and who leads their partitions."""
    until = time.monotonic() + CALL_S_MAX
    while True:
        known = client.list_topics(timeout=CALL_S_MAX).topics
        leaders = [part.leader for name in names if name in known for part in known[name].partitions.values()]
        if names <= known.keys() and leaders and min(leaders) >= 0:
            return
        if time.monotonic() > until:
            raise Retriable(f"topics that were made did not appear within {CALL_S_MAX:.0f} s")
        time.sleep(0.05)


def create(crawl: KafkaCrawl, partitions: int, *, replication: int = 1) -> list[str]:
    """Make the topics of a crawl that are not there; their names. Raises ConfigError when those that are there are not
    what they must be: nothing is made then."""
    client = admin(crawl.servers, f"{crawl.prefix}topics")
    there = look(client, crawl)
    if problems := differences(there, partitions):
        raise ConfigError(
            f"{crawl}: its topics are not what they must be: {'; '.join(problems)}. Nothing was changed"
        )
    missing = {topic: count for topic, count in counts(partitions).items() if topic not in there}
    if missing:
        make(client, crawl.prefix, missing, replication=replication)
    return list(missing)


def look(client: Admin, crawl: KafkaCrawl) -> dict[str, TopicState]:
    """The topics of a crawl that exist, by name without prefix."""
    try:
        known = client.list_topics(timeout=CALL_S_MAX).topics
    except KafkaException as exc:
        raise of_kafka(exc, f"listing the topics of {crawl}") from exc
    names = [crawl.prefix + topic for topic in TOPICS if crawl.prefix + topic in known]
    if not names:
        return {}
    described = client.describe_topics(TopicCollection(names), request_timeout=ADMIN_S_MAX)
    resources = [ConfigResource(ResourceType.TOPIC, name) for name in names]
    configs = client.describe_configs(resources, request_timeout=ADMIN_S_MAX)
    settings: dict[str, dict[str, str]] = {}
    for resource, future in configs.items():
        entries = _result(future, f"looking up the settings of {resource.name}").items()
        settings[resource.name] = {key: str(entry.value) for key, entry in entries}
    found: dict[str, TopicState] = {}
    for name, future in described.items():
        described_one = _result(future, f"looking at topic {name}")
        found[name.removeprefix(crawl.prefix)] = TopicState(
            str(described_one.topic_id), len(described_one.partitions), settings[name]
        )
    return found


def differences(there: Mapping[str, TopicState], partitions: int) -> list[str]:
    """How existing topics differ from what a crawl of N partitions needs, a sentence each."""
    wrong: list[str] = []
    for topic, state in there.items():
        count = counts(partitions)[topic]
        if state.partitions != count:
            wrong.append(
                f"{topic} has {state.partitions} partitions, {count} are wanted: sites would lie in other partitions"
            )
        for name, value in required_of(topic).items():
            is_value = state.settings.get(name, "")
            if is_value != value and not _is_enough(name, is_value, value):
                wrong.append(f"{topic} has {name}={is_value or 'nothing'}, it must be {value}")
    return wrong


def check(crawl: KafkaCrawl, partitions: int = 0) -> tuple[dict[str, TopicState], list[str]]:
    """The topics as they are, and what is wrong with them. `partitions` 0: as many as `transitions` has."""
    there = look(admin(crawl.servers, f"{crawl.prefix}topics"), crawl)
    if not partitions and Topic.TRANSITIONS in there:
        partitions = there[Topic.TRANSITIONS].partitions
    missing = [f"{topic} is missing" for topic in TOPICS if topic not in there]
    return there, missing + differences(there, partitions)


def need(crawl: KafkaCrawl, partitions: int = 0) -> dict[str, TopicState]:
    """The topics of a crawl when all is well with them. Raises ConfigError that names each fault."""
    there, problems = check(crawl, partitions)
    if len(problems) >= len(TOPICS) and not there:
        raise ConfigError(f"{crawl}: it has no topics; run: frontlog topics create {crawl}")
    if problems:
        raise ConfigError(f"{crawl}: {'; '.join(problems)}; see: frontlog topics check {crawl}")
    return there


def members(crawl: KafkaCrawl) -> list[str]:
    """Who is in the group of a crawl's workers now."""
    client = admin(crawl.servers, f"{crawl.prefix}topics")
    (future,) = client.describe_consumer_groups([crawl.group], request_timeout=ADMIN_S_MAX).values()
    try:
        group = future.result(CALL_S_MAX)
    except KafkaException as exc:
        if exc.args[0].code() == KafkaError.GROUP_ID_NOT_FOUND:
            return []
        raise of_kafka(exc, f"looking at the workers of {crawl}") from exc
    return [member.group_instance_id or member.client_id for member in group.members]


def _is_enough(name: str, value: str, wanted: str) -> bool:
    """A larger size serves as well."""
    return name == "max.message.bytes" and value.isdigit() and int(value) >= int(wanted)


def _result(future: Any, doing: str) -> Any:
    try:
        return future.result(CALL_S_MAX)
    except KafkaException as exc:
        raise of_kafka(exc, doing) from exc
