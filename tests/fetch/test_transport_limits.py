"""The limits of time, size and type, each reached by a server that ignores them.

Not verified here: a host that drops packets (a connect that hangs is made with a full backlog).
"""

import asyncio
import gzip
import socket

import pytest

from frontlog.avro.enums import Reason
from frontlog.fetch.decoding import DecodeStatus
from frontlog.fetch.http_types import FetchFailed, FetchRequest, Limits, Truncation
from frontlog.fetch.transport import Transport
from support.fetching import BRIEF, QUICK, ask, fail, get, run
from support.misbehaving import Line, Server, always, answers, chunked, client_tls, page

# --- time ---------------------------------------------------------------------------------------------------


async def silence(line: Line) -> None:
    await line.hang()


async def slow_head(line: Line) -> None:
    await line.request()
    await line.drip(b"HTTP/1.1 200 OK\r\nX: " + b"a" * 1000, 0.02)


async def slow_body(line: Line) -> None:
    await line.request()
    await line.send(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
    await line.drip(b"a" * 1000, 0.02)


def test_silence_is_a_first_byte_timeout() -> None:
    failed = fail(silence, BRIEF)
    assert (failed.reason, failed.detail) == (Reason.TIMEOUT, "first_byte")
    assert failed.timings.total_ms >= 150
    assert failed.timings.first_byte_ms == 0


def test_a_head_that_drips_meets_the_total_limit() -> None:
    failed = fail(slow_head, BRIEF)
    assert (failed.reason, failed.detail) == (Reason.TIMEOUT, "total")
    assert failed.timings.elapsed_ms >= 400
    assert 0 < failed.timings.first_byte_ms <= failed.timings.total_ms


def test_a_body_that_drips_is_kept_and_marked() -> None:
    answer = get(slow_body, BRIEF)
    assert (answer.truncated, answer.reason, answer.detail) == (Truncation.TIME, Reason.TIMEOUT, "total")
    assert 1 <= len(answer.body) < 30
    assert answer.body == b"a" * len(answer.body)


def test_a_slow_answer_within_the_limits_is_whole() -> None:
    async def script(line: Line) -> None:
        await line.request()
        await asyncio.sleep(0.1)
        await line.drip(page(b"hello"), 0.001, 5)

    answer = get(script)
    assert (answer.body, answer.truncated) == (b"hello", None)
    assert 100 <= answer.timings.first_byte_ms <= answer.timings.total_ms <= answer.timings.elapsed_ms
    assert answer.timings.sent_ms >= 1_000_000


def test_a_connect_that_hangs_is_a_connect_timeout() -> None:
    async def main() -> None:
        with socket.socket() as full:  # nobody accepts, and the queue is full: SYNs are dropped
            full.bind(("127.0.0.1", 0))
            full.listen(0)
            port = full.getsockname()[1]
            fillers = [socket.socket() for _ in range(4)]
            for filler in fillers:
                filler.setblocking(False)
                filler.connect_ex(("127.0.0.1", port))
            await asyncio.sleep(0.05)
            request = FetchRequest(f"http://site.test:{port}/", "http", "site.test", port, "127.0.0.1")
            try:
                async with Transport(ssl_context=client_tls) as transport:
                    await transport.fetch(request, Limits(connect_ms=150))
            finally:
                for filler in fillers:
                    filler.close()

    with pytest.raises(FetchFailed) as failed:
        asyncio.run(main())
    assert (failed.value.reason, failed.value.detail) == (Reason.TIMEOUT, "connect")
    assert failed.value.timings.total_ms == 0
    assert failed.value.timings.elapsed_ms >= 150


def test_a_tls_handshake_that_hangs_is_a_connect_timeout() -> None:
    async def use(server: Server, transport: Transport) -> None:
        with pytest.raises(FetchFailed) as failed:
            await transport.fetch(ask(server, scheme="https"), Limits(connect_ms=150))
        assert (failed.value.reason, failed.value.detail) == (Reason.TIMEOUT, "connect")

    run(silence, use)


def test_a_cancelled_fetch_closes_its_connection() -> None:
    closed: list[bool] = []

    async def script(line: Line) -> None:
        await line.request()
        closed.append(await line.gone())

    async def use(server: Server, transport: Transport) -> None:
        task = asyncio.create_task(transport.fetch(ask(server), QUICK))
        while not server.requests:
            await asyncio.sleep(0.005)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        while not closed:
            await asyncio.sleep(0.005)

    run(script, use)
    assert closed == [True]


# --- size ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "head",
    [b"Content-Length: 500", b"Content-Length: 100000000", b"X: no length", b"Transfer-Encoding: chunked"],
)
def test_the_cap_is_on_bytes_and_not_on_what_is_declared(head: bytes) -> None:
    body = b"x" * 500 if b"chunked" not in head else b"1f4\r\n" + b"x" * 500 + b"\r\n"

    async def script(line: Line) -> None:
        await line.request()
        await line.send(b"HTTP/1.1 200 OK\r\n" + head + b"\r\n\r\n")
        while True:
            await line.send(body)
            await asyncio.sleep(0)

    answer = get(script, Limits(body_bytes_max=300))
    assert answer.body == b"x" * 300
    assert (answer.truncated, answer.reason) == (Truncation.LENGTH, Reason.OVERSIZE)


def test_a_body_of_exactly_the_cap_is_whole() -> None:
    answer = get(always(page(b"x" * 300)), Limits(body_bytes_max=300, decoded_bytes_max=300))
    assert (len(answer.body), answer.truncated, answer.reason) == (300, None, Reason.OK)


def test_a_bomb_stops_at_the_decoded_cap() -> None:
    bomb = gzip.compress(b"\0" * 50_000_000)
    answer = get(always(page(bomb, b"Content-Encoding: gzip")), Limits(decoded_bytes_max=100_000))
    assert (answer.truncated, answer.reason, answer.detail) == (None, Reason.OVERSIZE, "decoded body")
    assert answer.decoded.status is DecodeStatus.OVERSIZE
    assert len(answer.decoded.data) == 100_000
    assert answer.body == bomb


def test_a_large_body_arrives_whole() -> None:
    body = bytes(range(256)) * 20_000
    for reply in (page(body), chunked(body, step_bytes=100_000), b"HTTP/1.1 200 OK\r\n\r\n" + body):
        answer = get(answers(reply))
        assert (answer.truncated, answer.body == body) == (None, True)


# --- types --------------------------------------------------------------------------------------------------


PAGES = Limits(types=("text/html", "image/"))


def test_an_unwanted_type_is_refused_before_its_body_is_read() -> None:
    gone: list[bool] = []

    async def script(line: Line) -> None:
        await line.request()
        await line.send(b"HTTP/1.1 200 OK\r\nContent-Type: Video/MP4; a=b\r\nETag: x\r\n\r\n")
        gone.append(await line.gone())

    async def use(server: Server, transport: Transport) -> None:
        with pytest.raises(FetchFailed) as caught:
            await transport.fetch(ask(server), PAGES)
        while not gone:
            await asyncio.sleep(0.005)
        failures.append(caught.value)

    failures: list[FetchFailed] = []
    run(script, use)
    failed = failures[0]
    assert (failed.reason, failed.detail) == (Reason.BAD_TYPE, "video/mp4")
    assert failed.response is not None
    assert (failed.response.status, failed.response.head.get("etag"), failed.response.body) == (200, "x", b"")
    assert failed.response.truncated is Truncation.LENGTH
    assert gone == [True]


@pytest.mark.parametrize(
    "declared", [b"text/html", b"TEXT/HTML ;charset=x", b"image/png", b"text/html; a=, b"]
)
def test_wanted_types(declared: bytes) -> None:
    reply = page(b"\0\1\2").replace(b"text/html", declared)
    assert get(always(reply), PAGES).reason is Reason.OK


@pytest.mark.parametrize("line", [b"X: y", b"Content-Type:", b"Content-Type: html", b"Content-Type: */*, "])
def test_without_a_declared_type_the_bytes_decide(line: bytes) -> None:
    def reply(body: bytes) -> bytes:
        return page(body).replace(b"Content-Type: text/html", line)

    assert get(always(reply(b" <!doctype html><p>")), PAGES).media_type == "text/html"
    assert get(always(reply(b"")), PAGES).media_type == ""
    failed = fail(always(reply(b"%PDF-1.7")), PAGES)
    assert (failed.reason, failed.detail) == (Reason.BAD_TYPE, "application/pdf, by its bytes")


@pytest.mark.parametrize("status", [b"301 M", b"404 N", b"503 S"])
def test_types_are_asked_of_successes_only(status: bytes) -> None:
    reply = page(b"{}", status=status).replace(b"text/html", b"application/json")
    assert get(always(reply), PAGES).reason is Reason.OK
