"""A worker as a Faust application. All that touches Faust's internals is in this module; tests/kafka/test_faust.py fails
when they move.

Faust's part: membership of the consumer group, an assignment in which the topics of a shard stay together, actives and
standbys (declared by tables whose changelog is the decision log), the worker's life cycle and its web server. Ours:
recovery, in place of Faust's, which waits for ever on a log that ends in a transaction's marker, or is skipped; and all
records, which our own consumers read. Faust subscribes to the topics for the assignment's sake and fetches none of them:
they are paused inside its client. At Faust's level they are not, or the client would leave the group.
"""

import asyncio
import os
import socket
from collections.abc import Callable, MutableMapping
from typing import Any, cast

import faust
from aiokafka.errors import IllegalStateError
from faust.assignor import partition_assignor
from faust.assignor.client_assignment import CopartitionedAssignment
from faust.assignor.copartitioned_assignor import CopartitionedAssignor
from faust.tables.manager import TableManager
from faust.tables.recovery import RebalanceAgain, Recovery, ServiceStopped
from faust.types import TP
from mode import Service

from frontlog.avro.enums import INPUT_TOPICS, Topic
from frontlog.avro.errors import ConfigError, Retriable
from frontlog.state.store import Store
from frontlog.streams.kafka_host import KafkaHost, ShardKey
from frontlog.streams.kafka_metrics import values_of
from frontlog.streams.kafka_places import KafkaCrawl, partitions_of
from frontlog.streams.metrics import CONTENT_TYPE, Exposition
from frontlog.streams.topics import Role

TOGETHER: dict[Role, tuple[Topic, tuple[Topic, ...]]] = {
    Role.FRONTIER: (Topic.TRANSITIONS, INPUT_TOPICS),
    Role.CONTENT: (Topic.DOCUMENTS, (Topic.CANDIDATES,)),
}
"""Of each role: the topic that stands for its tables (Faust's changelog), and the inputs that go with it."""
SESSION_S = 6.0
HEARTBEAT_S = 1.5
REBALANCE_S = 20.0
PUBLISH_S = 1.0
NEVER_S = 1e9
_LOOK_S = 0.02


class LogRecovery(Recovery):
    """In place of Faust's recovery: the host owns and follows what was assigned, and folds it from the log."""

    @Service.task
    async def _slurp_changelogs(self) -> None:
        """Nothing: our own consumers read the log."""

    @Service.task
    async def _publish_stats(self) -> None:
        """Nothing is recovered here that Faust could count."""

    @Service.task
    async def _restart_recovery(self) -> None:
        app, loose = cast("LogApp", self.app), cast("Any", self)
        while not self.should_stop:
            if await loose.wait_for_stopped(self.signal_recovery_start):
                return
            self.signal_recovery_start.clear()
            try:
                await self._assign(app)
            except RebalanceAgain:
                continue
            except ServiceStopped:
                return
            except (
                IllegalStateError
            ) as exc:  # the client has lost what it was given, as when the broker died meanwhile
                app.host.fail(Retriable(f"{app.crawl}: Kafka took back what it had given: {exc}"))
                return
            except Exception as exc:
                app.host.fail(exc)
                return

    async def _assign(self, app: "LogApp") -> None:
        consumer, loose = cast("Any", app.consumer), cast("Any", self)
        await app.host.start()
        epoch = app.epoch
        actives, standbys = app.assigned()
        inner = consumer._thread._consumer
        ours = [tp for tp in inner.assignment() if tp.topic in app.data_topics]
        inner.pause(*ours)
        await app.host.revoke()
        if app.epoch != epoch:  # what was given is taken back already
            return
        app.host.assign(actives, standbys)
        while app.epoch == epoch and not app.host.ready():
            await loose._wait(asyncio.sleep(_LOOK_S))
        if app.epoch != epoch:
            return
        await cast("Any", app).on_rebalance_complete.send()
        if consumer.assignment():  # empty when there are more workers than shards
            consumer.resume_partitions(consumer.assignment())
            await loose._wait(consumer.perform_seek(), timeout=app.conf.broker_request_timeout)
        self.completed.set()
        app.flow_control.resume()
        consumer.resume_flow()
        await cast("Any", app)._fetcher.maybe_start()
        if app.epoch != epoch:
            return
        self.tables.on_actives_ready()
        self.tables.on_standbys_ready()
        app.on_rebalance_end()
        app.need_all_owned()
        app.told(f"owns {_names(actives)}; stands by for {_names(standbys)}")


class LogTableManager(TableManager):
    """Faust's, with our recovery."""

    @property
    def recovery(self) -> Recovery:
        if self._recovery is None:
            loose = cast("Any", self)
            self._recovery = LogRecovery(self.app, loose, beacon=loose.beacon, loop=self.loop)
        return self._recovery


class EvenAssignor(CopartitionedAssignor):
    """Spreads partitions evenly, 2/1/1 where Faust's gives 2/2/0, and moves no more than that takes."""

    def get_assignment(self) -> MutableMapping[str, CopartitionedAssignment]:
        least, more = divmod(self.num_partitions, self._num_clients)
        everyone = list(self._client_assignments.values())
        for rank, one in enumerate(sorted(everyone, key=lambda one: -len(one.actives))):
            one.unassign_extras(least + (rank < more), self.replicas)
        self._unassign_overassigned(active=True)
        for partition in self._get_unassigned(active=True):
            full = sum(len(one.actives) > least for one in everyone) >= more
            roomy = [one for one in everyone if len(one.actives) < least + (not full)]
            warm = [one for one in roomy if one.partition_assigned(partition, active=False)]
            chosen = min(warm or roomy, key=lambda one: len(one.actives))
            if warm:
                chosen.unassign_partition(partition, active=False)
            chosen.assign_partition(partition, active=True)
        self._assign(active=False)
        return self._client_assignments


class LogApp(faust.App):
    """The application. `host` owns and follows; `epoch` counts the times that everything was revoked."""

    host: KafkaHost
    crawl: KafkaCrawl
    told: Callable[[str], None]
    data_topics: frozenset[str] = frozenset()
    epoch: int = 0

    def shard_stores(self) -> list[Store]:
        """The stores of the shards that are owned here, for tables of `lmdb://`."""
        return [runner.shard.store for runner in self.host.runners.values() if runner.ready.is_set()]

    def status(self) -> dict[str, Any]:
        """What this worker owns and follows, and how far: the page /status."""
        return {
            "crawl": str(self.crawl),
            "fetching": len(self.host.fetches),
            "pages": self.host.pages,
            "shards": {
                name: {
                    "standby": standby, "seq": head.seq, "owner_token": head.owner_token, "at_ms": head.at_ms,
                    "log_hash": head.log_hash.hex(), "positions": head.positions,
                }
                for name, (standby, head) in self.host.heads().items()
            },
        }  # fmt: skip

    def assigned(self) -> tuple[list[ShardKey], list[ShardKey]]:
        """What Faust has given this worker: (to own, to follow). Raises ConfigError when a shard's topics were torn."""
        assignor = self.assignor
        actives = {tp for tp in assignor.assigned_actives() if tp.topic in self.data_topics}
        owned: list[ShardKey] = []
        followed: list[ShardKey] = []
        for role, (changelog, inputs) in TOGETHER.items():
            by_topic = {
                topic: {tp.partition for tp in actives if tp.topic == self.crawl.prefix + topic}
                for topic in (changelog, *inputs)
            }
            mine = by_topic[changelog]
            if any(numbers != mine for numbers in by_topic.values()):
                raise ConfigError(
                    f"{self.crawl}: topics of one shard were given to different workers: "
                    f"{ {str(topic): sorted(numbers) for topic, numbers in by_topic.items()} }; "
                    f"their numbers of partitions differ: frontlog topics check {self.crawl}"
                )
            owned += [(role, number) for number in sorted(mine)]
            warm = {
                tp.partition
                for tp in assignor.assigned_standbys()
                if tp.topic == self.crawl.prefix + changelog
            }
            followed += [(role, number) for number in sorted(warm - mine)]
        return owned, followed

    def need_all_owned(self) -> None:
        """Whether the group's leader gave every shard to somebody. When it looked while a broker was starting, topics were
        missing for it, and it would not look again for minutes. Raises Retriable."""
        given: dict[str, dict[str, list[int]]] = cast("Any", self.assignor).changelog_distribution
        for role, (changelog, _) in TOGETHER.items():
            topic = self.crawl.prefix + changelog
            owned = {number for topics in given.values() for number in topics.get(topic, ())}
            missing = set(range(partitions_of(changelog, self.host.partitions))) - owned
            if missing:
                raise Retriable(
                    f"{self.crawl}: nobody was given {_names([(role, number) for number in sorted(missing)])}, since Kafka "
                    "was only starting"
                )

    async def stop(self) -> None:
        """End in good order: the shards first, so that others may have them at once."""
        if not self.should_stop:
            await self.host.close()
        await super().stop()


def make_app(
    crawl: KafkaCrawl,
    host: KafkaHost,
    *,
    told: Callable[[str], None],
    instance: str = "",
    standbys: int = 1,
    web: tuple[str, int] | None = None,
) -> LogApp:
    """The application of a worker. `instance`: a name that stays, for static membership: a worker that is back within the
    session moves nothing. `web`: where its web server listens."""
    made = LogApp(
        crawl.group,
        broker=f"kafka://{crawl.servers.replace(',', ';')}",
        version=1,
        store="lmdb://",
        canonical_url=f"http://{socket.gethostname()}/{os.getpid()}",  # one for each worker: what it has goes by it
        TableManager=LogTableManager,
        topic_partitions=host.partitions,
        topic_allow_declare=False,
        topic_disable_leader=True,
        key_serializer="raw",
        value_serializer="raw",
        table_standby_replicas=standbys,
        datadir=str(host.ground.folder.parent / "faust"),
        processing_guarantee="at_least_once",
        stream_wait_empty=False,
        consumer_group_instance_id=instance or None,
        broker_session_timeout=SESSION_S,
        broker_heartbeat_interval=HEARTBEAT_S,
        broker_rebalance_timeout=REBALANCE_S,
        broker_request_timeout=30.0,
        # Faust watches how its own streams get on, and knows nothing of the runners.
        stream_processing_timeout=NEVER_S,
        broker_commit_livelock_soft_timeout=NEVER_S,
        web_enabled=web is not None,
        web_bind=web[0] if web else "127.0.0.1",
        web_port=web[1] if web else 6066,
    )
    made.host, made.crawl, made.told = host, crawl, told
    made.data_topics = frozenset(
        crawl.prefix + topic for changelog, inputs in TOGETHER.values() for topic in (changelog, *inputs)
    )
    cast("Any", partition_assignor).CopartitionedAssignor = EvenAssignor
    loose = cast("Any", made)
    for role, (changelog, inputs) in TOGETHER.items():
        loose.Table(
            role.value, partitions=partitions_of(changelog, host.partitions), key_type=bytes, value_type=bytes,
            changelog_topic=loose.topic(crawl.prefix + changelog, acks=False),
        )  # fmt: skip
        loose.agent(loose.topic(*[crawl.prefix + topic for topic in inputs]), name=role.value)(_subscribe)
    loose.on_partitions_revoked.connect(_revoked)

    async def publish() -> None:
        await _publish_positions(made)

    loose.timer(PUBLISH_S, name="positions")(publish)

    async def status(view: Any, _request: Any) -> Any:
        return view.json(made.status())

    loose.page("/status", name="status")(status)
    exposition = Exposition(lambda: values_of(host))

    async def metrics(view: Any, _request: Any) -> Any:
        return view.bytes(exposition.text(), headers={"Content-Type": CONTENT_TYPE})

    loose.page("/metrics", name="metrics")(metrics)
    return made


async def _subscribe(stream: Any) -> None:
    """Holds the subscription; our own consumers read these topics."""
    async for _ in stream:
        raise AssertionError("Faust fetched an input")


async def _publish_positions(app: LogApp) -> None:
    """Tell the group how far inputs were decided, so that Kafka's tools show the lag. It is never read back."""
    at = {TP(topic, partition): offset for (topic, partition), offset in app.host.positions().items()}
    epoch, loose = app.epoch, cast("Any", app)
    if at and not loose.rebalancing:
        try:
            await loose.consumer._thread.commit(at)
        except Exception as exc:  # a rebalance came in between: told again in a second
            if app.epoch == epoch and not loose.rebalancing:
                app.told(f"the group was not told its positions: {exc}")


async def _revoked(app: LogApp, _revoked: set[TP], **_: Any) -> None:
    """Everything is revoked at each rebalance; the group goes on when the shards are free."""
    app.epoch += 1
    await app.host.revoke()


def _names(shards: list[ShardKey]) -> str:
    return ", ".join(f"{role.value}-{number}" for role, number in shards) or "nothing"
