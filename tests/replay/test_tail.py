"""`tail`: any topic, decoded, from any offset or the newest, filtered, and on as records come."""

import json
from itertools import islice
from pathlib import Path

import msgspec
import pytest

from frontlog.avro.enums import Topic
from frontlog.avro.errors import ConfigError
from frontlog.replay.plain import plain, read
from frontlog.replay.shapes import Record
from frontlog.replay.tail import WINDOW_RECORDS, tail
from frontlog.streams.topics import OUTBOX
from support.driver import Driver
from support.faults_forged import busy
from support.web import synthetic

URL = "http://a.example/1"


def partition_of(folder: Path) -> int:
    return int(busy(folder).rpartition("-")[2])


@pytest.mark.parametrize("topic", [*(topic.value for topic in Topic), OUTBOX])
def test_every_topic_can_be_read_and_goes_into_json(honest: Path, topic: str) -> None:
    records = list(tail(honest, topic))
    assert [(r.at_ms, r.partition, r.offset) for r in records] == sorted(
        (r.at_ms, r.partition, r.offset) for r in records
    )
    assert len({(r.shard, r.offset) for r in records}) == len(records)
    for record in records:
        assert record.topic == topic
        assert json.loads(msgspec.json.encode(record))["type"] == record.type
    empty = {Topic.CENSUS.value, OUTBOX}
    assert bool(records) == (topic not in empty)


def test_the_newest_records_are_shown_in_order(honest: Path) -> None:
    whole = list(tail(honest, "transitions"))
    assert list(tail(honest, "transitions", limit=7)) == whole[-7:]
    assert list(tail(honest, "transitions", limit=10**6)) == whole


def test_it_begins_at_an_offset_and_ends_at_a_limit(honest: Path) -> None:
    partition = partition_of(honest)
    found = list(tail(honest, "transitions", partition=partition, start=5, limit=3))
    assert [(one.partition, one.offset) for one in found] == [(partition, 5), (partition, 6), (partition, 7)]
    assert list(tail(honest, "transitions", partition=partition, start=10**9)) == [], "nothing is there yet"


def test_records_are_picked_by_type_origin_and_url(honest: Path) -> None:
    def types(**wanted: str) -> set[str]:
        return {one.type for one in tail(honest, "transitions", **wanted)}  # type: ignore[arg-type]

    assert types(kind="HostTransition") == {"HostTransition"}
    assert {one.key for one in tail(honest, "policies", origin="http://a.example:80")} == {
        "http://a.example:80"
    }
    found = list(tail(honest, "transitions", url="HTTP://A.example:80/1#part", limit=50))
    assert found
    assert {one.event["url"] for one in found} == {URL}
    links = list(tail(honest, "discoveries", url=URL))
    assert links
    assert all(URL in one.event["urls"] for one in links)
    asked = list(tail(honest, "content-verdicts", url=URL))
    assert [one.event["candidate"]["url"] for one in asked] == [URL]
    assert list(tail(honest, "transitions", url="http://a.example/none", limit=5)) == []


def test_the_newest_are_looked_for_as_far_back_as_they_lie(tmp_path: Path) -> None:
    with Driver(tmp_path, partitions=1, web=synthetic(1, 3)) as crawl:
        crawl.seed("http://s0.example/")
        crawl.run()
        for n in range(WINDOW_RECORDS + 10):
            crawl.seed(f"http://t{n}.example/")
        crawl.step(0)
    wanted = "http://s0.example/"
    found = [
        one.event["url"] for one in tail(tmp_path, "transitions", kind="Transition", url=wanted, limit=2)
    ]
    assert found == [wanted, wanted]


def test_what_cannot_be_decoded_is_shown_as_such(honest: Path) -> None:
    broken = [one for one in tail(honest, "control") if one.type == "undecodable"]
    assert [one.event["value"] for one in broken] == ["no wish"]
    assert "not an Avro" in broken[0].event["error"]
    assert [one.type for one in tail(honest, "control", kind="undecodable")] == ["undecodable"]


def test_a_wish_in_json_is_shown_as_the_event_that_it_is(honest: Path) -> None:
    found = list(tail(honest, "control", kind="Control"))
    assert [(one.event["cmd"], one.event["target"]) for one in found] == [("block", "c.example")]


def test_bytes_are_text_where_they_are_text() -> None:
    assert plain(b"\xff", "text") == "hex:ff"
    assert plain(b"ab", "body_sha256") == "6162"
    kind, event, fields = read("control", b'{"cmd":1}')
    assert (kind, event) == ("undecodable", None)
    assert "cmd" in fields["error"]


def test_an_unknown_partition_is_said(honest: Path) -> None:
    with pytest.raises(ConfigError, match="no partition 9"):
        next(tail(honest, "transitions", partition=9))


def test_it_goes_on_as_records_come(crawl: Path) -> None:
    from support.stores import Child

    partition = partition_of(crawl)
    stream = tail(crawl, "control", partition=partition, follow=True)
    before = list(islice(stream, len(list(tail(crawl, "control", partition=partition)))))
    child = Child(
        "import sys\n"
        "from pathlib import Path\n"
        "from frontlog.avro.enums import ScopeKind\n"
        "from frontlog.avro.events import Control\n"
        "from frontlog.streams.control import send\n"
        "send(Path(sys.argv[1]), Control(cmd='pause', target_kind=ScopeKind.PARTITION, target=sys.argv[2], at_ms=5))\n",
        str(crawl),
        str(partition),
    )
    assert child.wait() == 0
    record: Record = next(stream)
    assert record not in before
    assert (record.event["cmd"], record.event["target"]) == ("pause", str(partition))
    stream.close()  # type: ignore[attr-defined]


def test_a_filter_that_can_match_nothing_is_refused(honest: Path) -> None:
    with pytest.raises(ConfigError, match="did you mean HostTransition"):
        list(tail(honest, "transitions", kind="HostTransitions"))
    with pytest.raises(ConfigError, match="no origin"):
        list(tail(honest, "transitions", origin="a.example"))


def test_an_origin_may_leave_its_port_out(honest: Path) -> None:
    found = list(tail(honest, "transitions", origin="HTTP://a.example"))
    assert found == list(tail(honest, "transitions", origin="http://a.example:80"))
    assert found
