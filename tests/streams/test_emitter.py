"""Emissions of fetchers: each call returns once its events are durable, waits while there is no room, and tells failures."""

import asyncio
from collections.abc import Callable

import pytest

from frontlog.avro.codec import decode
from frontlog.avro.enums import FetchKind, Reason, Topic
from frontlog.avro.events import Candidate, FetchResult
from frontlog.streams.batching import Offered
from frontlog.streams.emitter import ShardEmitter

Answer = Callable[[Exception | None], None]


class Target:
    """Takes inputs up to a bound; a test answers them."""

    def __init__(self, room: int = 100) -> None:
        self.room = room
        self.offered: list[tuple[Offered, Answer | None]] = []

    def offer(self, offered: Offered, answer: Answer | None) -> bool:
        if len(self.offered) >= self.room:
            return False
        self.offered.append((offered, answer))
        return True

    def answer(self, error: Exception | None = None) -> None:
        for _, answer in self.offered:
            assert answer is not None
            answer(error)
        self.offered.clear()


CANDIDATE = Candidate(origin_key="http://a.example:80", text_sha256=b"x" * 32)
RESULT = FetchResult(kind=FetchKind.PAGE, reason=Reason.OK)


def test_an_emission_is_over_when_it_is_durable() -> None:
    async def go() -> None:
        one, content = Target(), Target()
        emitter = ShardEmitter({1: one}, content)
        task = asyncio.create_task(emitter.content("k", CANDIDATE))
        await asyncio.sleep(0)
        offered = content.offered[0][0]
        assert (offered.topic, offered.key, offered.event) == (Topic.CANDIDATES, b"k", CANDIDATE)
        assert decode(offered.value) == CANDIDATE
        assert not task.done()
        content.answer()
        await task
        task = asyncio.create_task(emitter.result(1, "o", RESULT))
        await asyncio.sleep(0)
        assert (one.offered[0][0].topic, one.offered[0][0].event) == (Topic.FETCH_RESULTS, RESULT)
        one.answer()
        await task

    asyncio.run(go())


def test_discoveries_go_to_their_owners_and_are_over_when_all_are_durable() -> None:
    async def go() -> None:
        targets = {0: Target(), 1: Target()}
        emitter = ShardEmitter(targets, Target())
        await emitter.discoveries([])
        task = asyncio.create_task(emitter.discoveries([(0, "a", b"1"), (1, "b", b"2"), (0, "c", b"3")]))
        await asyncio.sleep(0)
        assert [(o.key, o.value) for o, _ in targets[0].offered] == [(b"a", b"1"), (b"c", b"3")]
        targets[0].answer()
        await asyncio.sleep(0)
        assert not task.done()
        targets[1].answer()
        await task

    asyncio.run(go())


def test_a_full_shard_makes_its_senders_wait() -> None:
    async def go() -> None:
        full = Target(room=0)
        task = asyncio.create_task(ShardEmitter({0: full}, Target()).result(0, "o", RESULT))
        await asyncio.sleep(0.05)
        assert (full.offered, task.done()) == ([], False)
        full.room = 1
        while not full.offered:
            await asyncio.sleep(0.001)
        full.answer()
        await task

    asyncio.run(go())


def test_what_could_not_be_made_durable_is_told() -> None:
    async def go() -> None:
        target = Target()
        task = asyncio.create_task(
            ShardEmitter({0: target}, Target()).discoveries([(0, "a", b"1"), (0, "b", b"2")])
        )
        await asyncio.sleep(0)
        target.answer(RuntimeError("over"))
        with pytest.raises(RuntimeError, match="over"):
            await task

    asyncio.run(go())
