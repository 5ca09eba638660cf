"""A worker's inside without a membership: a whole crawl on a real broker, owned here, moved, killed between two commits.

Not verified: who says what is owned (tests/kafka/test_worker.py), more than one broker.
"""

import asyncio
import inspect
import json
from itertools import count
from pathlib import Path

import pytest

from frontlog.avro.codec import decode
from frontlog.avro.enums import Topic
from frontlog.avro.errors import MapFull
from frontlog.avro.events import Fetched
from frontlog.state import head as heads
from frontlog.state.store import Txn
from frontlog.streams.kafka_log import KafkaLog
from frontlog.streams.kafka_places import TOPICS, KafkaCrawl
from frontlog.streams.kafka_topics import create
from support.broker import Broker
from support.crawls import assert_polite, fetched, here
from support.kafka_crawls import PARTITIONS, crawl_all
from support.site import Site, fill


@pytest.mark.parametrize("full", [False, True])
def test_a_crawl_on_kafka_is_one_that_verifies(
    kafka: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, full: bool
) -> None:
    """Also when a store's map is full behind Kafka's commit, again and again: the log has the batch, so it is folded."""
    saves = count()

    def save(txn: Txn, head: heads.Head) -> None:
        caller = inspect.stack()[1].function
        if caller == "_attempt" and next(saves) % 3 == 2:
            raise MapFull("behind the commit")
        kept(txn, head)

    kept = heads.save
    if full:
        monkeypatch.setattr(heads, "save", save)
    crawl = KafkaCrawl(kafka.bootstrap, f"whole-{full}")
    create(crawl, PARTITIONS)
    with Site(hosts=3) as site:
        wanted = fill(site, 8)
        asyncio.run(crawl_all(crawl, tmp_path / "worker", [site.url(n) for n in range(3)], len(wanted)))
        copied = here(
            "log", "copy", "--json", "--archive", tmp_path / "worker/archive", str(crawl), tmp_path / "back"
        )
        assert json.loads(copied.output)["equal"]
        assert fetched(tmp_path / "back") == wanted
        verified = here("verify", tmp_path / "back")
        assert verified.exit_code == 0, verified.output
        assert_polite(site)
    log = KafkaLog(crawl.servers, TOPICS, prefix=crawl.prefix)
    outputs = [record for number in range(PARTITIONS) for record in log.scan(Topic.FETCHED, number, 0)]
    log.close()
    assert len(outputs) == len(wanted)
    assert not full or next(saves) > 10
    for record in outputs:
        event, headers = decode(record.value), dict(record.headers)
        assert isinstance(event, Fetched)
        assert headers == {
            "event_id": event.event_id.encode(), "type": b"Fetched", "schema": record.value[2:10].hex().encode(),
        }  # fmt: skip
