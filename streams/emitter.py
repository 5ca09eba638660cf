"""The way of the fetchers' events into the shards' logs: each call returns once its events are durable.

Waiting is the back-pressure: a shard whose queue is full makes its senders wait, and so holds their slots.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Protocol

from frontlog.avro.codec import encode
from frontlog.avro.enums import Topic
from frontlog.avro.events import Candidate, Event
from frontlog.streams.batching import Offered

FULL_RETRY_S = 0.02


class Target(Protocol):
    """A shard that inputs can be offered to."""

    def offer(self, offered: Offered, answer: Callable[[Exception | None], None] | None) -> bool: ...


class ShardEmitter:
    """Emits into the shards of this process."""

    def __init__(self, frontier: Mapping[int, Target], content: Target) -> None:
        self._frontier = frontier
        self._content = content

    async def content(self, key: str, event: Candidate) -> None:
        """Offer a candidate to content."""
        await self._offer([(self._content, Offered(Topic.CANDIDATES, key.encode(), encode(event), event))])

    async def discoveries(self, found: list[tuple[int, str, bytes]]) -> None:
        """Offer encoded discoveries to the owners of their targets."""
        if found:
            frontier, topic = (
                self._frontier,
                Topic.DISCOVERIES,
            )  # an enum's member is looked up anew each time
            await self._offer(
                [
                    (frontier[partition], Offered(topic, key.encode(), value))
                    for partition, key, value in found
                ]
            )

    async def result(self, partition: int, key: str, event: Event) -> None:
        """Offer a result to the partition that gave the lease."""
        await self._offer(
            [(self._frontier[partition], Offered(Topic.FETCH_RESULTS, key.encode(), encode(event), event))]
        )

    async def _offer(self, inputs: list[tuple[Target, Offered]]) -> None:
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        left = len(inputs)

        def answer(error: Exception | None) -> None:
            nonlocal left
            left -= 1
            if done.done():
                return
            if error is not None:
                done.set_exception(error)
            elif left == 0:
                done.set_result(None)

        for target, offered in inputs:
            while not target.offer(offered, answer):
                await asyncio.sleep(FULL_RETRY_S)
        await done
