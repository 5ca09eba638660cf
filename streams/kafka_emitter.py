"""The way of a worker's fetchers into the log: each call returns once the broker has its events.

The order of a page's events (candidate, discoveries, result last) is kept by waiting for each, so they need no
transaction: what is repeated after a crash changes nothing.
"""

import asyncio
from typing import NamedTuple

from confluent_kafka import KafkaError, Message

from frontlog.avro.codec import encode
from frontlog.avro.enums import Topic
from frontlog.avro.events import Candidate, Event
from frontlog.streams.clock import Clock
from frontlog.streams.kafka_client import of_kafka, plain_producer
from frontlog.streams.kafka_log import KafkaLog, send
from frontlog.streams.records import NewRecord

UNDER_WAY_BYTES_MAX = 32 << 20
"""Bytes that wait for the broker; a fetch that brings more waits, and so holds its slot."""
_POLL_S, _PAUSE_S = 0.003, 0.02


class _Input(NamedTuple):
    topic: str
    partition: int
    key: bytes
    value: bytes


class KafkaEmitter:
    """Emits into the topics of inputs. Used from one event loop, in which `run` must be running."""

    def __init__(self, log: KafkaLog, client_id: str, clock: Clock) -> None:
        self._log = log
        self._clock = clock
        self._producer = plain_producer(log.servers, client_id)
        self._under_way = 0
        self._bytes = 0

    @property
    def waiting_bytes(self) -> int:
        """Bytes that the broker has not acknowledged."""
        return self._bytes

    async def run(self) -> None:
        """Take in the broker's answers."""
        while True:
            self._producer.poll(0)
            await asyncio.sleep(_POLL_S if self._under_way else _PAUSE_S)

    async def content(self, key: str, event: Candidate) -> None:
        """Offer a candidate to content."""
        await self._send([_Input(Topic.CANDIDATES, 0, key.encode(), encode(event))])

    async def discoveries(self, found: list[tuple[int, str, bytes]]) -> None:
        """Offer encoded discoveries to the owners of their targets."""
        await self._send(
            [_Input(Topic.DISCOVERIES, partition, key.encode(), value) for partition, key, value in found]
        )

    async def result(self, partition: int, key: str, event: Event) -> None:
        """Offer a result to the partition that gave the lease, whoever owns it by now."""
        await self._send([_Input(Topic.FETCH_RESULTS, partition, key.encode(), encode(event))])

    async def control(self, partition: int, key: bytes, value: bytes) -> None:
        """Offer a wish to a partition."""
        await self._send([_Input(Topic.CONTROL, partition, key, value)])

    async def _send(self, inputs: list[_Input]) -> None:
        if not inputs:
            return
        while self._bytes >= UNDER_WAY_BYTES_MAX:
            await asyncio.sleep(_PAUSE_S)
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        left = len(inputs)
        size_bytes = sum(len(one.key) + len(one.value) for one in inputs)

        def delivered(error: KafkaError | None, _message: Message) -> None:
            nonlocal left
            left -= 1
            if left == 0:
                self._under_way -= 1
                self._bytes -= size_bytes
            if done.done():
                return
            if error is not None:
                done.set_exception(of_kafka(error, "bringing a fetch's events into the log"))
            elif left == 0:
                done.set_result(None)

        self._under_way += 1
        self._bytes += size_bytes
        now_ms = self._clock.now_ms()
        for one in inputs:
            record = NewRecord(now_ms, one.key, one.value)
            send(self._producer, self._log.full_name(one.topic), one.partition, record, delivered)
        await done
