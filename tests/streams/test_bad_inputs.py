"""Inputs that nobody can use: each is a reject with its place and its bytes, and stops no other."""

from collections.abc import Iterator
from typing import Any

import pytest

from frontlog.avro.codec import encode
from frontlog.avro.enums import Reason, Topic
from frontlog.avro.events import Candidate, Discovery, Event
from frontlog.processors import machine
from frontlog.processors.context import Decided
from frontlog.processors.control import from_json
from support.invariants import Twin
from support.shards import append, events, links, offer, opened, pause, seed, urls

URL = "http://a.example/x"
PAGE = Candidate(origin_key="http://a.example:80", url=URL, text_sha256=b"x" * 32)
BAD = [
    (Topic.DISCOVERIES, b"", Reason.UNDECODABLE),
    (Topic.DISCOVERIES, b"not avro", Reason.UNDECODABLE),
    (Topic.DISCOVERIES, b"\xc3\x01" + b"\xee" * 40, Reason.UNDECODABLE),
    (Topic.DISCOVERIES, encode(seed(URL))[:-3], Reason.UNDECODABLE),
    (Topic.DISCOVERIES, encode(seed(URL)) + b"!", Reason.UNDECODABLE),
    (Topic.FETCH_RESULTS, encode(seed(URL)), Reason.UNDECODABLE),
    (Topic.DISCOVERIES, encode(PAGE), Reason.UNDECODABLE),
    (Topic.DISCOVERIES, encode(pause()), Reason.UNDECODABLE),
    (Topic.DISCOVERIES, encode(links(1, depth=70_000)), Reason.UNDECODABLE),
    (Topic.DISCOVERIES, encode(links(1, priority=-1)), Reason.UNDECODABLE),
    (Topic.CONTROL, b"{", Reason.BAD_CONTROL),
    (Topic.CONTROL, b'{"cmd": "fly"}', Reason.BAD_CONTROL),
]  # fmt: skip


@pytest.mark.parametrize(("topic", "value", "reason"), BAD)
@pytest.mark.parametrize("foreign", [False, True])
def test_a_bad_input_is_a_reject_with_its_place_and_stops_no_other(
    topic: Topic, value: bytes, reason: Reason, foreign: bool
) -> None:
    shard = opened()
    (append if foreign else offer)(shard, value, topic)
    offset = shard.log.bounds(topic, 0)[1] - 1 if foreign else 0
    offer(shard, seed("http://good.example/"))
    done = shard.step(0)
    (reject,) = events(shard, Topic.REJECTS)
    assert (reject.topic, reject.partition, reject.offset, reject.reason) == (topic.value, 0, offset, reason)
    assert reject.value == (value[:4_096] if value[:2] != b'{"' else encode(from_json(value))), (
        "its bytes are kept"
    )
    assert reject.detail
    assert done.rejects == 1
    assert "http://good.example/" in urls(shard)
    assert shard.step(0).head is None, "it is not tried again"


def test_every_bad_input_at_once() -> None:
    shard = opened()
    for topic, value, _ in BAD:
        offer(shard, value, topic)
    assert shard.step(0).rejects == len(BAD)
    Twin(shard).assert_equal(shard)


@pytest.fixture
def trap(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Deciding a seed of `boom.example` applies something and then raises, as a bug would."""
    told: list[str] = []
    decide = machine.decide

    def trapped(view: Any, event: Event, ctx: Any) -> Iterator[Decided]:
        for step in decide(view, event, ctx):
            yield step
            if isinstance(event, Discovery) and "boom" in event.origin_key:
                told.append(event.origin_key)
                raise ZeroDivisionError("a bug")

    monkeypatch.setattr(machine, "decide", trapped)
    return told


def test_an_input_that_breaks_the_machine_is_left_out_and_stops_no_other(trap: list[str]) -> None:
    shard = opened()
    for name in ("a.example", "boom1.example", "b.example", "boom2.example", "c.example"):
        offer(shard, seed(f"http://{name}/"))
    done = shard.step(0)
    assert sorted(urls(shard)) == ["http://a.example/", "http://b.example/", "http://c.example/"], (
        "nothing half done"
    )
    rejects = events(shard, Topic.REJECTS)
    assert [(r.offset, r.reason) for r in rejects] == [(1, Reason.UNDECODABLE), (3, Reason.UNDECODABLE)]
    assert "ZeroDivisionError: a bug" in rejects[0].detail
    assert (done.inputs, len(shard.poisoned), len(trap)) == (5, 2, 2)
    Twin(shard).assert_equal(shard)


def test_a_poison_is_known_by_its_bytes_since_its_place_may_change(trap: list[str]) -> None:
    """Between two attempts another process may append: the record that comes to the place is innocent."""
    shard = opened()
    offer(shard, seed("http://boom.example/"))
    attempt = shard._attempt  # pyright: ignore[reportPrivateUsage]

    def interrupted(*args: Any) -> Any:
        if trap and shard.log.bounds(Topic.DISCOVERIES, 0)[1] == 0:
            append(shard, seed("http://innocent.example/"), Topic.DISCOVERIES)
        return attempt(*args)

    shard._attempt = interrupted  # type: ignore[method-assign,assignment]  # pyright: ignore[reportPrivateUsage]
    shard.step(0)
    assert list(urls(shard)) == ["http://innocent.example/"]
    assert [r.offset for r in events(shard, Topic.REJECTS)] == [1]
