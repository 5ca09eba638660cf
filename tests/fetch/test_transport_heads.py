"""Heads that strict parsers refuse, and what is no head at all."""

import pytest

from frontlog.avro.enums import Reason
from frontlog.fetch.transport import Transport
from support.fetching import QUICK, ask, fail, run
from support.misbehaving import Line, Server, always, chunked


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5, 5\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length : 5\r\nX-A : b\r\n\r\n",
        b"HTTP/1.1 200 OK\nContent-Length: 5\n\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX: a\0b\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX-Long: " + b"a" * 9_000 + b"\r\nContent-Length: 5\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X-Many: a\r\n" * 300 + b"Content-Length: 5\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nno colon\r\nHTTP/1.1 200 OK\r\nbad name: x\r\n: y\r\nContent-Length: 5\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: a\r\n b\r\nContent-Length:\r\n 5\r\n\r\n",
        b"HTTP/1.1 200\r\nContent-Length: 5\r\n\r\n",
        b"\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nUpgrade: h2,h2c\r\nConnection: Upgrade\r\nContent-Length: 5\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nSec-WebSocket-Key1: x\r\nContent-Length: 5\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\nContent-Length: 5\r\n\r\n",
        b"HTTP/1.1 200 \xe9\xff\r\nX-\xe9: \xff\r\nContent-Length: 5\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: a\rb\r\nContent-Length: 5\r\n\r\n",
    ],
)
def test_what_browsers_accept_is_accepted_and_the_connection_kept(head: bytes) -> None:
    async def use(server: Server, transport: Transport) -> None:
        for _ in range(2):
            answer = await transport.fetch(ask(server), QUICK)
            assert (answer.body, answer.truncated, answer.reason) == (b"hello", None, Reason.OK)
            assert answer.head.raw == head.lstrip(b"\r\n")
        assert server.connections == 1

    run(always(head + b"hello"), use)


def test_transfer_encoding_beats_content_length_and_the_connection_is_not_kept() -> None:
    async def use(server: Server, transport: Transport) -> None:
        for _ in range(2):
            assert (await transport.fetch(ask(server), QUICK)).body == b"hello"
        assert server.connections == 2

    run(always(chunked(b"hello", b"Content-Length: 3")), use)


@pytest.mark.parametrize(
    "reply",
    [
        b"SSH-2.0-OpenSSH_9.9\r\n",
        b"<html>HTTP/0.9",
        b"HTTP/2.0 200 OK\r\n\r\n",
        b"HTTP/1.1 20 OK\r\n\r\n",
        b"HTTP/1.1 OK\r\n\r\n",
        b"HTTP/1.1 2000 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5e0\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nContent-Length: 0x5\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nContent-Length: \xb2\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999999\r\n\r\nhello",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
    ],
)
def test_what_is_not_http_is_a_protocol_error(reply: bytes) -> None:
    async def script(line: Line) -> None:
        await line.request()
        await line.send(reply)
        await line.hang()  # not waited for: the refusal comes from the bytes

    failed = fail(script)
    assert failed.reason is Reason.PROTOCOL_ERROR
    assert failed.timings.elapsed_ms < QUICK.first_byte_ms


@pytest.mark.parametrize(
    "reply",
    [
        b"HTTP/1.1 200 OK\r\nX: " + b"a" * 20_001,
        b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 5_000,
        b"HTTP/1.1 100 C\r\n\r\n" * 2_000,
        b"HTTP/1.1 200 OK\r\nX: " + b"a" * 19_990 + b"\r\n\r\nhello",
    ],
)
def test_the_header_limit_counts_every_byte_of_every_head(reply: bytes) -> None:
    async def script(line: Line) -> None:
        await line.request()
        await line.send(reply)
        await line.hang()

    assert fail(script).reason is Reason.HEADER_OVERSIZE
