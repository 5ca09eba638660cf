"""`frontlog doctor` beside crawls that lack something: it names that part, and what to do.

Not verified: that what it says to do helps.
"""

import time
from pathlib import Path

import pytest

from frontlog.streams.kafka_doctor import examine
from frontlog.streams.kafka_places import KafkaCrawl
from frontlog.streams.kafka_topics import create
from frontlog.streams.summary import Finding
from support.broker import Broker, free_ports
from support.crawls import here, until
from support.workers import Worker


def bad(found: list[Finding]) -> dict[str, str]:
    return {one.part: f"{one.seen} -> {one.do}" for one in found if one.state == "bad"}


def test_a_broker_that_is_away_is_the_first_thing(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    found = examine(KafkaCrawl(f"127.0.0.1:{port}", "x"), folder=tmp_path, dns="localhost")
    assert list(bad(found)) == ["broker"]
    assert {one.part: one.state for one in found} == {"broker": "bad", "archive": "ok", "DNS": "ok"}
    wrong = examine(KafkaCrawl(f"127.0.0.1:{port}", "x"), folder=tmp_path / "none", dns="none.invalid")
    assert list(bad(wrong)) == ["broker", "archive", "DNS"]


@pytest.mark.timeout(120)
def test_each_part_that_is_missing_is_named(kafka: Broker, tmp_path: Path) -> None:
    crawl = KafkaCrawl(kafka.bootstrap, "sick")
    assert "frontlog topics create" in bad(examine(crawl))["topics"]
    create(crawl, 2)
    assert "frontlog worker" in bad(examine(crawl))["workers"]
    with Worker(crawl, tmp_path / "one") as one:
        until(lambda: one.owns.count(",") == 2)
        until(lambda: not bad(examine(crawl)))
        states = {found.part: found.state for found in examine(crawl)}
        assert states == {
            "broker": "ok", "topics": "ok", "workers": "ok", "ownership": "ok", "standbys": "warn",
            "lag": "ok", "clock": "ok",
        }  # fmt: skip
        with Worker(crawl, tmp_path / "two") as two:
            until(lambda: two.owns)
            until(lambda: any(f.part == "standbys" and f.state == "ok" for f in examine(crawl)))
        one.kill()
    for _ in range(3):
        assert here("pause", "--all", "-C", str(crawl)).exit_code == 0
    late = bad(examine(crawl, clock=lambda: time.time() + 100))
    assert "frontier-0 (for 1" in late["silent"]
    assert "frontier-1" in bad(examine(crawl, clock=lambda: time.time() - 100))["clock"]
    until(lambda: here("doctor", str(crawl)).exit_code == 1)  # when the session of the last worker has ended
    shown = here("doctor", str(crawl))
    assert "start workers" in shown.output
    assert shown.output.startswith("ok    broker")
