"""Workers as an operator runs them: processes of their own on a real broker, killed, stopped and joined by others.

Not verified: several brokers, and machines whose clocks differ.
"""

import json
import signal
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from frontlog.streams.kafka_places import KafkaCrawl
from frontlog.streams.kafka_topics import create, members
from frontlog.streams.metrics import ROWS
from support.broker import Broker, free_ports
from support.crawls import assert_polite, here, until
from support.site import Site, fill
from support.workers import Worker, prove

pytestmark = pytest.mark.timeout(150)
PARTITIONS = 4
HOSTS = 6


@pytest.fixture
def site() -> Iterator[Site]:
    with Site(hosts=HOSTS) as one:
        yield one


def seed(crawl: KafkaCrawl, site: Site) -> None:
    given = here("seed", *(site.url(n) for n in range(site.hosts)), "-C", str(crawl))
    assert given.exit_code == 0, given.output


def pages(site: Site) -> set[str]:
    return {site.url(one.host, one.path) for one in site.asked() if one.path != "/robots.txt"}


def end(*workers: Worker) -> None:
    """Stop workers as a supervisor does, and see that they end well."""
    for worker in workers:
        worker.send(signal.SIGTERM)
    for worker in workers:
        assert worker.wait() == 0, worker.errors


def test_two_workers_share_a_crawl_and_one_that_is_killed_is_replaced(
    kafka: Broker, tmp_path: Path, site: Site
) -> None:
    crawl = KafkaCrawl(kafka.bootstrap, "shared")
    create(crawl, PARTITIONS)
    wanted = fill(site, 60)
    folders = [tmp_path / name for name in ("one", "two", "three")]
    with ExitStack() as ended:
        one, two = (ended.enter_context(Worker(crawl, folder)) for folder in folders[:2])
        until(
            lambda: one.owns and two.owns and len((one.owns + ", " + two.owns).split(", ")) == PARTITIONS + 1
        )
        seed(crawl, site)
        until(lambda: len(pages(site)) > len(wanted) // 8)
        one.kill()
        three = ended.enter_context(Worker(crawl, folders[2]))
        until(lambda: len(pages(site)) == len(wanted), seconds=90)
        until(lambda: three.owns)
        time.sleep(1)
        end(two, three)
    prove(crawl, folders, tmp_path / "copy")
    assert_polite(site)
    again = {
        path: count for path, count in Counter((o.host, o.path) for o in site.asked()).items() if count > 1
    }
    assert len(again) <= 2 * HOSTS, again  # what was in flight when its worker was killed, and robots.txt


def shards(port: int) -> dict[str, dict[str, object]]:
    """What the page /status of a worker tells of its shards; nothing while there is no page."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/status", timeout=5) as answer:
            found: dict[str, dict[str, object]] = json.load(answer)["shards"]
            return found
    except OSError:
        return {}


def metrics(port: int) -> dict[str, dict[tuple[str, ...], float]]:
    """What /metrics tells, as Prometheus' own parser reads it: sample → values of its labels → value."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
        assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        text = answer.read().decode()
    found: dict[str, dict[tuple[str, ...], float]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, {})[tuple(sample.labels.values())] = sample.value
    return found


def test_a_worker_that_stops_hands_over_at_once(kafka: Broker, tmp_path: Path, site: Site) -> None:
    crawl = KafkaCrawl(kafka.bootstrap, "handed")
    create(crawl, PARTITIONS)
    (port,) = free_ports(1)
    web = ("--web", f"127.0.0.1:{port}")
    with Worker(crawl, tmp_path / "one") as one, Worker(crawl, tmp_path / "two", *web) as two:
        until(lambda: one.owns and two.owns)
        until(lambda: len(members(crawl)) == 2)
        until(lambda: len(shards(port)) == PARTITIONS + 1)
        owned = sorted(name for name, shard in shards(port).items() if not shard["standby"])
        assert owned == sorted(two.owns.split(", "))
        told = metrics(port)
        assert {name for name in told if name.startswith("frontlog_")} <= ROWS.keys()
        assert [shard for (shard,), own in told["frontlog_shard_owned"].items() if own] == owned
        # What it owned before the other joined was counted, too.
        until(lambda: {(shard,) for shard in owned} <= metrics(port)["frontlog_batches_total"].keys())
        until(lambda: {shard for shard, _ in metrics(port)["frontlog_input_lag"]} == set(owned))
        assert told["frontlog_fetch_slots_used"][()] == 0 and told["process_cpu_seconds_total"][()] > 0
        one.send(signal.SIGTERM)
        began = time.monotonic()
        until(lambda: len(two.owns.split(", ")) == PARTITIONS + 1)
        assert time.monotonic() - began < 6  # 3 on a machine that does nothing else
        assert one.wait() == 0
        end(two)


def test_what_a_person_must_mend_is_told_at_the_start(kafka: Broker, tmp_path: Path) -> None:
    with Worker(KafkaCrawl(kafka.bootstrap, "nothing-there"), tmp_path / "one") as worker:
        assert worker.wait() == 2
        assert "frontlog topics create" in worker.errors
