"""The runner of a shard: group commit, slots, leases, the outbox, a full disk, and the end."""

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

import pytest
from msgspec.structs import replace

from frontlog.avro.codec import encode
from frontlog.avro.enums import Topic
from frontlog.avro.errors import StoreFull
from frontlog.processors.leased import Lease
from frontlog.streams import shard_runner
from frontlog.streams.batching import Offered
from frontlog.streams.shard import Answer, Delivery, Shard
from frontlog.streams.shard_runner import ShardRunner
from frontlog.streams.slots import Slots
from support.driver import ManualClock
from support.shards import FaultyStore, append, batches, opened, pause, result, seed, urls

URL = "http://a.example/x"


class Stage:
    """A runner with what it is tied to, in a running loop."""

    def __init__(self, shard: Shard, *, slots: int = 10, delay_ms: int = 5, room: bool = True) -> None:
        self.shard, self.slots = shard, Slots(slots)
        self.leases: list[Lease] = []
        self.sent: list[tuple[Delivery, Answer]] = []
        self.failures: list[BaseException] = []
        self.room = room
        self.runner = ShardRunner(
            shard, self.slots, commit_delay_ms=delay_ms, share=2, hand_out=self.leases.extend, deliver=self._deliver,
            failed=self.failures.append,
        )  # fmt: skip

    def _deliver(self, delivery: Delivery, answer: Answer) -> bool:
        if self.room:
            self.sent.append((delivery, answer))
        return self.room

    def offer(self, event: Any, topic: Topic = Topic.DISCOVERIES, answer: Answer | None = None) -> bool:
        return self.runner.offer(Offered(topic, b"", encode(event), event), answer)

    def has_leases(self, count: int) -> bool:
        return len(self.leases) == count

    async def until(self, condition: Callable[[], Any]) -> None:
        for _ in range(2_000):
            if condition():
                return
            await asyncio.sleep(0.002)
        raise AssertionError("it did not happen in time")


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(test, 30))


def test_inputs_that_come_together_are_one_batch() -> None:
    async def go() -> None:
        stage = Stage(opened())
        stage.runner.start()
        await stage.until(stage.runner.idle)
        told: list[object] = []
        for n in range(20):
            assert stage.offer(seed(f"http://h{n}.example/"), answer=told.append)
        assert not stage.runner.idle()
        await stage.until(lambda: len(told) == 20)
        assert (told, stage.runner.batches) == ([None] * 20, 1)
        assert len(batches(stage.shard)) == 2
        stage.runner.end()

    run(go())


def test_leases_keep_their_slots_and_the_rest_comes_back() -> None:
    async def go() -> None:
        stage = Stage(opened(), slots=3)
        stage.runner.start()
        for n in range(5):
            stage.offer(seed(f"http://h{n}.example/"))
        await stage.until(lambda: len(stage.leases) == 3)
        assert (stage.slots.in_use, stage.slots.room()) == (3, False)
        stage.slots.give_back()
        stage.runner.wake()
        await stage.until(lambda: len(stage.leases) == 4)
        assert stage.slots.in_use == 3
        stage.runner.end()

    run(go())


def test_pages_are_counted() -> None:
    async def go() -> None:
        clock = ManualClock()
        stage = Stage(opened(clock=clock))
        stage.runner.start()
        stage.offer(seed(URL))
        for n in range(1, 4):
            await stage.until(partial(stage.has_leases, n))
            stage.offer(result(stage.shard, stage.leases[-1]), Topic.FETCH_RESULTS)
            clock.advance(2_000)
        await stage.until(lambda: stage.slots.pages == 1)
        stage.runner.end()

    run(go())


def test_a_wish_of_another_process_is_seen_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shard_runner, "POLL_S", 0.02)

    async def go() -> None:
        stage = Stage(opened())
        stage.runner.start()
        await stage.until(stage.runner.idle)
        append(stage.shard, pause(), Topic.CONTROL)
        await stage.until(lambda: stage.shard.head.positions.get(Topic.CONTROL) == 1)
        stage.runner.end()

    run(go())


def test_while_all_is_paused_it_rests() -> None:
    async def go() -> None:
        shard = opened()
        stage = Stage(shard)
        steps = 0
        step = shard.step

        def counted(wanted: int) -> Any:
            nonlocal steps
            steps += 1
            return step(wanted)

        shard.step = counted  # type: ignore[method-assign]
        stage.offer(seed(URL))
        stage.offer(pause(), Topic.CONTROL)
        stage.runner.start()
        await stage.until(stage.runner.idle)
        steps = 0
        await asyncio.sleep(0.3)
        assert steps <= 4, "it turns without a rest"
        assert stage.leases == []
        stage.runner.end()

    run(go())


# --- the outbox ----------------------------------------------------------------------------------------------


def wish(*urls_: str) -> Any:
    return replace(pause(cmd="seed"), urls=urls_)


def test_the_outbox_is_noted_when_all_of_it_is_durable() -> None:
    async def go() -> None:
        stage = Stage(opened(partitions=2))
        stage.runner.start()
        stage.offer(wish("http://a.example/", "http://b.example/"), Topic.CONTROL)
        await stage.until(lambda: len(stage.sent) == 2)
        first, second = stage.sent
        assert not stage.runner.idle()
        first[1](None)
        await asyncio.sleep(0.05)
        assert (stage.shard.delivered, len(stage.sent)) == (0, 2), (
            "half of it is durable: nothing is noted or sent again"
        )
        second[1](None)
        await stage.until(stage.runner.idle)
        await stage.until(lambda: stage.shard.delivered == 2)
        stage.runner.end()
        assert stage.shard.outbox() == []

    run(go())


def test_an_answer_just_before_the_end_is_noted() -> None:
    """Else the next start would deliver again, and `log copy` take a crawl that ended well for one that did not."""

    async def go() -> None:
        stage = Stage(opened(partitions=2))
        stage.runner.start()
        stage.offer(wish("http://a.example/", "http://b.example/"), Topic.CONTROL)
        await stage.until(lambda: len(stage.sent) == 2)
        for _, answer in stage.sent:
            answer(None)
        stage.runner.end()
        assert (stage.shard.delivered, stage.shard.outbox()) == (2, [])

    run(go())


def test_an_answer_that_is_missing_at_the_end_is_not_noted() -> None:
    async def go() -> None:
        stage = Stage(opened(partitions=2))
        stage.runner.start()
        stage.offer(wish("http://a.example/", "http://b.example/"), Topic.CONTROL)
        await stage.until(lambda: len(stage.sent) == 2)
        stage.sent[0][1](None)
        stage.runner.end()
        assert (stage.shard.delivered, len(stage.shard.outbox())) == (0, 2)

    run(go())


def test_a_target_without_room_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shard_runner, "POLL_S", 0.02)

    async def go() -> None:
        stage = Stage(opened(partitions=2), room=False)
        stage.runner.start()
        stage.offer(wish("http://a.example/"), Topic.CONTROL)
        await stage.until(lambda: stage.shard.outbox())
        await asyncio.sleep(0.1)
        assert (stage.sent, stage.runner.idle()) == ([], False)
        stage.room = True
        await stage.until(lambda: stage.sent)
        stage.sent[0][1](None)
        await stage.until(stage.runner.idle)
        stage.runner.end()

    run(go())


def test_what_a_dying_target_did_not_take_stays() -> None:
    async def go() -> None:
        stage = Stage(opened(partitions=2))
        stage.runner.start()
        stage.offer(wish("http://a.example/"), Topic.CONTROL)
        await stage.until(lambda: stage.sent)
        stage.sent[0][1](RuntimeError("over"))
        await asyncio.sleep(0.02)
        stage.runner.end()
        assert len(stage.shard.outbox()) == 1

    run(go())


# --- trouble -------------------------------------------------------------------------------------------------


def test_a_full_disk_is_told_and_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shard_runner, "RETRY_S", 0.05)

    async def go() -> None:
        store = FaultyStore()
        stage = Stage(opened(store=store))
        stage.runner.start()
        await stage.until(stage.runner.idle)
        store.error, store.fail_at = StoreFull("no room on the disk"), store.writes + 1
        told: list[object] = []
        stage.offer(seed(URL), answer=told.append)
        await stage.until(lambda: stage.runner.full)
        assert (stage.runner.full, told, stage.slots.in_use) == ("no room on the disk", [], 0)
        await stage.until(lambda: told == [None])
        assert (stage.runner.full, stage.failures) == ("", [])
        assert URL in urls(stage.shard)
        stage.runner.end()

    run(go())


def test_anything_else_ends_the_run_and_tells_who_waits() -> None:
    async def go() -> None:
        store = FaultyStore()
        stage = Stage(opened(store=store))
        stage.runner.start()
        await stage.until(stage.runner.idle)
        store.error, store.fail_at = OSError("torn"), store.writes + 1
        told: list[Exception | None] = []
        stage.offer(seed(URL), answer=told.append)
        await stage.until(lambda: stage.failures)
        assert [type(error) for error in (*stage.failures, *told)] == [OSError, OSError]
        assert (stage.runner.ended, stage.slots.in_use, stage.offer(seed(URL))) == (True, 0, False)

    run(go())


def test_the_end_makes_durable_what_waits_and_takes_no_more() -> None:
    async def go() -> None:
        stage = Stage(opened(), delay_ms=10_000)
        stage.runner.start()
        await stage.until(stage.runner.idle)
        told: list[object] = []
        stage.offer(seed(URL), answer=told.append)
        stage.runner.end()
        assert told == [None]
        assert URL in urls(stage.shard)
        assert not stage.offer(seed("http://b.example/"))
        assert stage.leases == [], "nothing is claimed at the end"

    run(go())


def test_a_full_queue_refuses() -> None:
    async def go() -> None:
        stage = Stage(opened(), delay_ms=10_000)
        offered = Offered(Topic.DISCOVERIES, b"", b"x")
        assert [stage.runner.offer(offered, None) for _ in range(4_001)] == [True] * 4_000 + [False]
        stage.runner.end()

    run(go())
