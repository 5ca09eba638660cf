"""Writes that fail: whichever of a batch's writes it is, nothing of it is kept, and it is made again whole."""

from typing import Any

import pytest
from msgspec.structs import replace

from frontlog.avro.enums import Topic
from frontlog.avro.errors import MapFull, StoreFull
from frontlog.streams import shard as shards
from frontlog.streams.batching import Offered
from frontlog.streams.shard import Shard
from frontlog.streams.topics import OUTBOX
from support.driver import ManualClock
from support.invariants import Twin, assert_consistent
from support.shards import (
    FaultyStore,
    decisions,
    events,
    new_shard,
    offer,
    opened,
    pause,
    result,
    rows,
    seed,
    urls,
)

URL = "http://a.example/x"


def script(shard: Shard, clock: ManualClock) -> None:
    """A little of everything: look-ups, robots, pages, retries, control, an expired lease, the outbox."""
    offer(shard, seed("http://a.example/1", 1))
    offer(shard, seed("http://b.example/1", 2))
    offer(shard, replace(pause(cmd="seed"), urls=("http://c.example/",)), Topic.CONTROL)
    offer(shard, b"junk", Topic.FETCH_RESULTS)
    step(shard, 0)
    for _ in range(6):
        done = step(shard, 10)
        for n, lease in enumerate(done.leases):
            offer(
                shard,
                result(shard, lease, status=500 if n % 2 else 200 * (lease.kind.value != "resolve")),
                Topic.FETCH_RESULTS,
            )
        step(shard, 0)
        clock.advance(2_000)
    step(shard, 10)
    clock.advance(100_000)
    step(shard, 0)


def step(shard: Shard, wanted: int) -> Any:
    """A batch; one that failed is tried again, as the host loop does."""
    for _ in range(3):
        try:
            return shard.step(wanted)
        except (StoreFull, OSError):
            continue
    raise AssertionError("a batch failed again and again")


def comparable(shard: Shard) -> Any:
    return rows(shard), list(decisions(shard)), events(shard, Topic.REJECTS), events(shard, OUTBOX)


@pytest.mark.parametrize(
    "error", [StoreFull("no room"), MapFull("grown"), OSError("torn")], ids=lambda e: type(e).__name__
)
def test_any_write_may_fail_and_the_batch_is_made_again_whole(error: Exception) -> None:
    clock = ManualClock()
    store = FaultyStore()
    shard = opened(store=store, clock=clock)
    begun = store.writes
    script(shard, clock)
    total, wanted = store.writes - begun, comparable(shard)
    assert total > 90, "the script writes little"
    for n in range(1, total + 1, 1 if isinstance(error, StoreFull) else 7):
        clock, store = ManualClock(), FaultyStore()
        shard = opened(store=store, clock=clock)
        store.fail_at, store.error = store.writes + n, error
        script(shard, clock)
        assert store.writes > begun + total, "the write did not fail"
        assert comparable(shard) == wanted, f"write {n} of {total}"
    assert_consistent(shard)
    Twin(shard).assert_equal(shard)


@pytest.mark.parametrize("n", range(1, 7))
def test_opening_may_fail_at_any_write_and_leaves_nothing(n: int) -> None:
    store = FaultyStore()
    store.fail_at = n
    with pytest.raises(RuntimeError, match="failed"):
        new_shard(store=store).open()
    assert opened(store=store).head.seq == 3


def test_answers_come_after_the_commit_and_not_for_what_failed() -> None:
    store = FaultyStore()
    shard = opened(store=store)
    told: list[tuple[object, int]] = []
    offer(shard, seed(URL), answer=lambda error: told.append((error, len(urls(shard)))))
    store.fail_at = store.writes + 1
    with pytest.raises(RuntimeError):
        shard.step(0)
    assert (told, shard.waiting()) == ([], 1)
    shard.step(0)
    assert (told, shard.waiting()) == ([(None, 1)], 0)


def test_inputs_keep_their_order_over_a_failure() -> None:
    store = FaultyStore()
    shard = opened(store=store)
    offer(shard, pause(cmd="pause"), Topic.CONTROL)
    store.fail_at = store.writes + 1
    with pytest.raises(RuntimeError):
        shard.step(0)
    offer(shard, pause(cmd="resume"), Topic.CONTROL)
    shard.step(0)
    assert [e.cmd for e in events(shard, Topic.CONTROL)] == ["pause", "resume"]


def test_who_waits_when_it_ends_is_told() -> None:
    shard = opened()
    told: list[Exception | None] = []
    offer(shard, seed(URL), answer=told.append)
    offer(shard, seed(URL))
    error = RuntimeError("over")
    shard.fail_waiting(error)
    assert (told, shard.waiting()) == ([error], 0)


def test_the_queue_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shards, "OFFERED_MAX", 2)
    shard = opened()
    offered = Offered(Topic.DISCOVERIES, b"", b"x")
    assert [shard.offer(offered) for _ in range(3)] == [True, True, False]
    shard.step(0)
    assert shard.offer(offered)
