"""Answers damaged at random: each fetch ends in time, in an answer or a failure, and nothing is logged.

What it does not verify: that the outcome is the right one; the tables of the other files do.
"""

import asyncio
import gzip
import logging
import random

import pytest

from frontlog.avro.enums import Reason
from frontlog.fetch.http_types import FetchFailed, Limits, Truncation
from frontlog.fetch.transport import Transport
from support.fetching import ask
from support.misbehaving import Line, Server, chunked, client_tls, page

ROUNDS = 250
LIMITS = Limits(first_byte_ms=5_000, total_ms=5_000, header_bytes_max=2_000, body_bytes_max=3_000)
SOUND = (
    page(b"hello" * 20),
    page() + page(),
    chunked(b"hello" * 30),
    chunked(b"hello" * 10, step_bytes=1),
    chunked(gzip.compress(b"x" * 500), b"Content-Encoding: gzip"),
    b"HTTP/1.1 200 OK\r\n\r\nbody",
    b"HTTP/1.1 100 Continue\r\n\r\n" + page(),
    b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nA: b\r\n\r\n",
)
PIECES = (
    b"\r\n", b"\n", b"\0", b":", b" ", b";", b"\xff", b"0\r\n\r\n", b"ffffffffffffffff\r\n", b"HTTP/1.1 ",
    b"Content-Length: 3\r\n", b"Transfer-Encoding: chunked\r\n", b"Connection: close\r\n",
    b"HTTP/1.1 101 S\r\n\r\n",
)  # fmt: skip


def damaged(chance: random.Random) -> bytes:
    """A sound answer with up to four faults."""
    reply = bytearray(chance.choice(SOUND))
    for _ in range(chance.randrange(5)):
        at = chance.randrange(len(reply) + 1)
        match chance.randrange(4):
            case 0:
                reply[at:at] = chance.choice(PIECES)
            case 1:
                del reply[at : at + chance.randrange(1, 9)]
            case 2:
                reply[at : at + 1] = bytes([chance.randrange(256)])
            case _:
                reply[at:at] = reply[chance.randrange(len(reply) + 1) :][: chance.randrange(40)]
    return bytes(reply)


@pytest.mark.parametrize("seed", [1, 2])
def test_damaged_answers(seed: int, caplog: pytest.LogCaptureFixture) -> None:
    chance = random.Random(seed)
    reply = b""

    async def script(line: Line) -> None:
        await line.request()
        await line.drip(reply, 0, chance.choice((1, 7, 10_000)))
        if chance.randrange(4) == 0:
            line.reset()

    async def main() -> None:
        nonlocal reply
        transport = Transport(ssl_context=client_tls)
        async with Server(script) as server, transport:
            for _ in range(ROUNDS):
                reply = damaged(chance)
                try:
                    answer = await transport.fetch(ask(server), LIMITS)
                except FetchFailed as failed:
                    assert failed.reason is not Reason.TIMEOUT, reply
                    continue
                assert answer.head.raw in reply
                assert len(answer.body) <= LIMITS.body_bytes_max
                assert answer.truncated is not Truncation.TIME, (reply, answer.body)

    with caplog.at_level(logging.WARNING):
        asyncio.run(main())
    assert caplog.messages == []
