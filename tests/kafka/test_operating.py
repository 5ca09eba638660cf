"""What an operator does with Kafka's own tools, and what comes of it: the acts of docs/operating.md with the real tools.

kcat is tried where it is installed.
"""

import json
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from frontlog.avro.codec import Undecodable, decode
from frontlog.avro.enums import Topic
from frontlog.avro.events import Event, PartitionPaused, Reject
from frontlog.streams.kafka_log import KafkaLog
from frontlog.streams.kafka_places import TOPICS, KafkaCrawl
from frontlog.streams.kafka_topics import create
from frontlog.streams.records import NewRecord
from support.broker import Broker
from support.crawls import here, until
from support.site import Site, fill
from support.workers import Worker

pytestmark = pytest.mark.timeout(180)
PRODUCER = "org.apache.kafka.tools.ConsoleProducer"
GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
DELETE = "org.apache.kafka.tools.DeleteRecordsCommand"
TRANSACTIONS = "org.apache.kafka.tools.TransactionsCommand"
TOPIC = "org.apache.kafka.tools.TopicCommand"
CONFIGS = "kafka.admin.ConfigCommand"
PARTITIONS = 2


class Desk:
    """A crawl of an operator: its topics, its log, and Kafka's tools on its broker."""

    def __init__(self, broker: Broker, name: str, folder: Path) -> None:
        self.broker = broker
        self.crawl = KafkaCrawl(broker.bootstrap, name)
        create(self.crawl, PARTITIONS)
        self.log = KafkaLog(self.crawl.servers, TOPICS, prefix=self.crawl.prefix, writer=f"{name}.desk")
        self.folder = folder

    def worker(self) -> Worker:
        return Worker(self.crawl, self.folder / "worker")

    def tool(self, name: str, *words: str, given: str = "") -> str:
        done = self.broker.tool(name, "--bootstrap-server", self.broker.bootstrap, *words, given=given)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    def events(self, topic: Topic, partition: int) -> list[Event]:
        found: list[Event] = []
        for record in self.log.scan(topic, partition, self.log.bounds(topic, partition)[0]):
            try:
                found.append(decode(record.value))
            except Undecodable:
                continue
        return found

    def pauses(self, partition: int) -> list[bool]:
        decided = self.events(Topic.OWNERSHIP, partition)
        return [event.paused for event in decided if isinstance(event, PartitionPaused)]

    def delete(self, topic: str, partition: int, before: int) -> None:
        wish = {
            "partitions": [{"topic": self.crawl.prefix + topic, "partition": partition, "offset": before}],
            "version": 1,
        }
        path = self.folder / "delete.json"
        path.write_text(json.dumps(wish))
        self.tool(DELETE, "--offset-json-file", str(path))


@pytest.fixture
def desk(kafka: Broker, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Desk]:
    one = Desk(kafka, request.node.name.removeprefix("test_")[:60].replace("_", "-"), tmp_path)
    yield one
    one.log.close()


def owned(worker: Worker) -> Callable[[], object]:
    return lambda: len(worker.owns.split(", ")) == PARTITIONS + 1


def test_json_on_control_is_an_act_that_survives(desk: Desk) -> None:
    with desk.worker() as worker:
        until(owned(worker))
        wish = json.dumps({"cmd": "pause", "target": {"partition": 1}, "actor": "ops", "reason": "try"})
        # A key chooses the partition; whichever it is, the wish is passed on to the one that it names.
        for key in ("a", "b"):
            keyed = ("--property", "parse.key=true")
            desk.tool(PRODUCER, "--topic", f"{desk.crawl.name}.control", *keyed, given=f"{key}\t{wish}\n")
        until(lambda: desk.pauses(1) == [True, True])
        assert desk.pauses(0) == []
        desk.tool(
            PRODUCER, "--topic", f"{desk.crawl.name}.control", given='{"cmd": "dance"}\n{"cmd": 7}\nno JSON\n'
        )
        until(lambda: len(rejects(desk)) == 3)
        assert any("unknown cmd 'dance'; one of pause, resume" in text for text in rejects(desk))
        worker.kill()
    with desk.worker() as again:
        until(owned(again))
        shown = here("pause", "--partition", "1", "-C", str(desk.crawl))
        assert shown.exit_code == 0
        until(lambda: desk.pauses(1) == [True, True, True])  # `control` is read while paused
        if shutil.which("kcat"):
            subprocess.run(
                ["kcat", "-P", "-b", desk.broker.bootstrap, "-t", f"{desk.crawl.name}.control", "-p", "1", "-k", "ops"],
                input='{"cmd":"resume","target":{"partition":1}}', text=True, check=True, timeout=30,
            )  # fmt: skip
            until(lambda: desk.pauses(1)[-1] is False)
            newest = [
                "kcat",
                "-C",
                "-b",
                desk.broker.bootstrap,
                "-t",
                f"{desk.crawl.name}.ownership",
                "-p",
                "1",
                "-o",
                "-20",
            ]
            found = subprocess.run(
                [*newest, "-e", "-X", "isolation.level=read_committed"], capture_output=True, check=True, timeout=30
            )  # fmt: skip
            assert found.stdout.startswith(b"\xc3\x01")


def ended(worker: Worker) -> None:
    worker.send(signal.SIGTERM)
    assert worker.wait() == 0, worker.errors


def rejects(desk: Desk) -> list[str]:
    found = [event for number in range(PARTITIONS) for event in desk.events(Topic.REJECTS, number)]
    return [str(event.detail) for event in found if isinstance(event, Reject)]


def test_positions_are_shown_and_never_read_back(desk: Desk) -> None:
    group = desk.crawl.group
    with Site() as site, desk.worker() as worker:
        fill(site, 5)
        until(owned(worker))
        assert here("seed", site.url(), "-C", str(desk.crawl)).exit_code == 0
        until(lambda: len(site.paths()) == 6)
        until(lambda: lags(desk).get(f"{desk.crawl.name}.fetch-results", 9) <= 1)
        owner = f"{desk.crawl.name}.frontier-0"
        assert owner in desk.tool(TRANSACTIONS, "list")
        assert "Empty" in (shown := desk.tool(TRANSACTIONS, "describe", "--transactional-id", owner)) or (
            "CompleteCommit" in shown
        )
        refused = desk.broker.tool(GROUPS, "--bootstrap-server", desk.broker.bootstrap, *reset(group))
        assert "inactive" in refused.stdout + refused.stderr
        ended(worker)
        before = [desk.log.bounds(Topic.TRANSITIONS, number) for number in range(PARTITIONS)]
        until(lambda: "PARTITION" in desk.tool(GROUPS, *reset(group)), seconds=40)
    with desk.worker() as again:
        until(owned(again))
        until(lambda: lags(desk).get(f"{desk.crawl.name}.fetch-results", 9) <= 1)
        assert [desk.log.bounds(Topic.TRANSITIONS, number) for number in range(PARTITIONS)] == before
        assert len(site.paths()) == 6


def reset(group: str) -> list[str]:
    return ["--group", group, "--reset-offsets", "--to-earliest", "--all-topics", "--execute"]


def lags(desk: Desk) -> dict[str, int]:
    """The largest lag of each topic, as kafka-consumer-groups tells it."""
    found: dict[str, int] = {}
    for line in desk.tool(GROUPS, "--describe", "--group", desk.crawl.group).splitlines():
        words = line.split()
        if len(words) > 5 and words[0] == desk.crawl.group and words[5].isdigit():
            found[words[1]] = max(found.get(words[1], 0), int(words[5]))
    return found


def test_deleted_inputs_matter_only_beyond_the_position(desk: Desk) -> None:
    junk = [NewRecord(1_790_000_000_000, b"", b"junk %d" % n) for n in range(10)]
    with desk.log.begin() as txn:
        txn.append(Topic.DISCOVERIES, 0, junk)
        txn.commit()
    with desk.worker() as worker:
        until(owned(worker))
        until(lambda: len(rejects(desk)) == 10)
        ended(worker)
    desk.delete("discoveries", 0, 5)
    with desk.worker() as worker:
        until(owned(worker))
        ended(worker)
    with desk.log.begin() as txn:
        txn.append(Topic.DISCOVERIES, 0, junk)
        txn.commit()
    desk.delete("discoveries", 0, 15)
    with desk.worker() as worker:
        assert worker.wait() == 4
        assert "inputs were deleted before they were decided" in worker.errors


def test_a_log_that_is_not_ours_is_refused(desk: Desk) -> None:
    with desk.worker() as worker:
        until(owned(worker))
        ended(worker)
    topic = f"{desk.crawl.name}.policies"
    desk.tool(TOPIC, "--delete", "--topic", topic)
    until(lambda: topic not in desk.tool(TOPIC, "--list"))
    create(desk.crawl, PARTITIONS)
    with desk.worker() as worker:
        assert worker.wait() == 4
        assert "policies was made anew" in worker.errors
    desk.tool(TOPIC, "--alter", "--topic", f"{desk.crawl.name}.control", "--partitions", "5")
    with desk.worker() as worker:
        assert worker.wait() == 2
        assert "control has 5 partitions, 2 are wanted" in worker.errors


def test_decisions_that_were_deleted_are_missed_by_who_must_fold_them(desk: Desk) -> None:
    with desk.worker() as worker:
        until(owned(worker))
        ended(worker)
    desk.delete("ownership", 0, 2)
    with desk.worker() as worker:  # its tables lie beyond
        until(owned(worker))
        ended(worker)
    shutil.rmtree(desk.folder / "worker" / "state")
    with desk.worker() as worker:
        assert worker.wait() == 4
        assert "ownership holds offsets from 2" in worker.errors


def test_a_quota_slows_one_part_and_loses_nothing(desk: Desk) -> None:
    """Ten seconds' worth passes at once; what is behind it waits until the rate, over ten seconds, is below the quota:
    600 kB take a minute."""
    batches, rate = 15, 10_000
    client = ("--entity-type", "clients", "--entity-name", f"{desk.crawl.name}.inputs")
    with desk.worker() as worker:
        until(owned(worker))
        desk.tool(CONFIGS, "--alter", "--add-config", f"consumer_byte_rate={rate}", *client)
        for _ in range(batches):
            junk(desk, [random.randbytes(1_000) for _ in range(40)])
        time.sleep(2)
        assert len(rejects(desk)) < batches * 40
        desk.tool(CONFIGS, "--alter", "--delete-config", "consumer_byte_rate", *client)
        until(lambda: len(rejects(desk)) == batches * 40, seconds=60)
        ended(worker)


def junk(desk: Desk, values: list[bytes]) -> None:
    with desk.log.begin() as txn:
        txn.append(Topic.DISCOVERIES, 0, [NewRecord(1_790_000_000_000, b"", value) for value in values])
        txn.commit()
