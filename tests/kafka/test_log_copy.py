"""`frontlog log copy`: a real crawl moves to Kafka and back; partitions, offsets, seqs and digests stay.

Not verified: a log whose front retention cut, beyond one topic of inputs, and a target that somebody else writes to.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from frontlog.replay.folder import open_shard, shards_of
from frontlog.streams.kafka_keep import Keeper
from frontlog.streams.kafka_log import KafkaLog
from frontlog.streams.kafka_places import TOPICS, KafkaCrawl
from frontlog.streams.kafka_topics import create
from frontlog.streams.records import Record
from support.broker import Broker
from support.crawls import crawl, here
from support.site import Site, fill


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A crawl that has ended."""
    folder = tmp_path_factory.mktemp("crawls") / "done"
    with Site(hosts=3) as site:
        fill(site, 12)
        crawl(folder, *(site.url(host) for host in range(3)))
    yield folder


def everything(folder: Path) -> dict[str, object]:
    """Every record of the topics that Kafka has, and the heads."""
    found: dict[str, object] = {}
    for ref in shards_of(folder):
        with open_shard(ref) as shard:
            found[ref.name] = shard.head()
            for topic in TOPICS:
                first, _ = shard.log.bounds(topic, shard.partition)
                found[f"{ref.name} {topic}"] = list(shard.log.scan(topic, shard.partition, first))
    return found


def test_a_crawl_moves_to_kafka_and_back(kafka: Broker, done: Path, tmp_path: Path) -> None:
    there, back, again = (
        f"kafka://{kafka.bootstrap}/moved",
        tmp_path / "back",
        f"kafka://{kafka.bootstrap}/again",
    )
    assert "has the digest of the source" in here("log", "copy", done, there).output
    copied = here("log", "copy", "--json", "--archive", done / "archive", there, back)
    assert json.loads(copied.output)["equal"]
    assert everything(back) == everything(done)
    verified = here("verify", back)
    assert verified.exit_code == 0, verified.output
    # What came from Kafka has its holes, and takes them along.
    assert json.loads(here("log", "copy", "--json", back, again).output)["equal"]


def test_a_place_that_is_taken_is_refused(kafka: Broker, done: Path, tmp_path: Path) -> None:
    there = f"kafka://{kafka.bootstrap}/taken"
    copied = here("log", "copy", done, there)
    assert copied.exit_code == 0, copied.output
    for source, target in ((done, there), (there, done), (done, tmp_path), (there, there)):
        refused = here("log", "copy", source, target)
        assert refused.exit_code == 2, refused.output


@pytest.mark.parametrize(
    "offsets",
    [[0, 1, 2], [0, 2, 4], [1, 2, 5], [0, 4, 5, 7], [3], [0, 3]],
    ids=str,
)
@pytest.mark.parametrize("tail", [0, 1, 3])
def test_holes_stay_where_they_are(kafka: Broker, offsets: list[int], tail: int) -> None:
    name = f"holes-{'-'.join(map(str, offsets))}-{tail}"
    target = KafkaCrawl(kafka.bootstrap, name)
    create(target, 1)
    records = [Record(offset, 1_790_000_000_000 + offset, b"k", b"%d" % offset, ()) for offset in offsets]
    with Keeper(target.servers, name) as keeper:
        keeper.begin(f"{name}.control", 0, offsets[0])
        keeper.keep(records[:1])
        keeper.keep(records[1:])
        keeper.end(offsets[-1] + 1 + tail)
    log = KafkaLog(target.servers, TOPICS, prefix=target.prefix)
    assert log.bounds("control", 0) == (offsets[0], offsets[-1] + 1 + tail)
    assert list(log.scan("control", 0, offsets[0])) == records
    log.close()
