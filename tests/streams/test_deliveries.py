"""What an outbox brings twice, as after a crash, is taken once; and room on a disk is believed when it is seen."""

import pytest

from frontlog.avro.codec import encode
from frontlog.avro.enums import Topic
from frontlog.avro.errors import StoreFull
from frontlog.streams.batching import Offered
from frontlog.streams.shard import Shard
from support.shards import FaultyStore, opened, seed


def bring(shard: Shard, source: str, *offsets: int) -> list[Exception | None]:
    """Offer deliveries of an outbox, make a batch, and give the answers."""
    answers: list[Exception | None] = []
    for offset in offsets:
        event = seed(f"http://{source}.example/{offset}")
        offered = Offered(Topic.DISCOVERIES, b"", encode(event), event, (source, offset))
        assert shard.offer(offered, answers.append)
    shard.step(0)
    return answers


def taken(shard: Shard) -> int:
    return shard.log.bounds(Topic.DISCOVERIES, shard.partition)[1]


def test_a_delivery_that_comes_again_is_answered_and_not_taken() -> None:
    shard = opened()
    assert bring(shard, "content-0", 3, 4, 7) == [None] * 3
    seq = shard.head.seq
    assert bring(shard, "content-0", 3, 4, 7) == [None] * 3
    assert (taken(shard), shard.head.seq) == (3, seq)
    assert bring(shard, "content-0", 7, 8) == [None] * 2
    assert taken(shard) == 4


def test_outboxes_are_told_apart() -> None:
    shard = opened()
    bring(shard, "content-0", 5)
    bring(shard, "frontier-1", 0, 5)
    assert taken(shard) == 3


def test_a_new_owner_knows_what_was_delivered() -> None:
    store = FaultyStore()
    bring(opened(store=store), "content-0", 1, 2)
    again = opened(store=store)
    bring(again, "content-0", 1, 2, 3)
    assert taken(again) == 3


def test_what_a_dropped_batch_held_counts_as_not_delivered() -> None:
    store = FaultyStore()
    shard = opened(store=store)
    store.error, store.fail_at = StoreFull("no room"), store.writes + 1
    with pytest.raises(StoreFull):
        bring(shard, "content-0", 1)
    store.fail_at = 0
    shard.step(0)
    assert taken(shard) == 1


def test_an_input_of_another_way_has_no_source_and_is_always_taken() -> None:
    shard = opened()
    event = seed("http://a.example/")
    for _ in range(2):
        shard.offer(Offered(Topic.DISCOVERIES, b"", encode(event), event))
        shard.step(0)
    assert taken(shard) == 2


def test_a_probe_finds_out_whether_there_is_room() -> None:
    store = FaultyStore()
    shard = opened(store=store)
    before = shard.head
    shard.probe()
    store.error, store.fail_at = StoreFull("no room"), store.writes + 2
    with pytest.raises(StoreFull):
        shard.probe()
    assert shard.head == before
