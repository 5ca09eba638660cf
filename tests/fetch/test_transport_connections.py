"""Connections that break, are kept, are spoilt, and are secured.

Not verified here: real certificates and routes of the Internet.
"""

import asyncio
import gzip

import pytest

from frontlog.avro.enums import Reason
from frontlog.avro.errors import Retriable
from frontlog.fetch.decoding import DecodeStatus
from frontlog.fetch.http_types import FetchFailed, Truncation
from frontlog.fetch.transport import Transport
from support.fetching import QUICK, ask, fail, get, run
from support.misbehaving import Line, Server, always, answers, client_tls, page, server_tls

# --- broken connections -------------------------------------------------------------------------------------


def test_nothing_listens() -> None:
    async def main() -> None:
        async with Server(always(b"")) as server, Transport(ssl_context=client_tls) as transport:
            request = ask(server)
            await server.__aexit__(None, None, None)
            await transport.fetch(request, QUICK)

    with pytest.raises(FetchFailed) as failed:
        asyncio.run(main())
    assert failed.value.reason is Reason.CONNECTION_REFUSED


@pytest.mark.parametrize("sent", [b"", b"HTTP/1.1 200 OK\r\nContent-Ty"])
@pytest.mark.parametrize("how", ["close", "reset"])
def test_a_connection_that_ends_before_the_head_does(sent: bytes, how: str) -> None:
    async def script(line: Line) -> None:
        await line.request()
        await line.send(sent)
        await asyncio.sleep(0.02)
        if how == "reset":
            line.reset()

    failed = fail(script)
    assert failed.reason is Reason.CONNECTION_RESET
    assert f"{len(sent)} bytes of a head" in failed.detail


# A reset right behind the bytes may overtake them, so it comes after a pause only.
@pytest.mark.parametrize(("how", "pause_s"), [("close", 0), ("close", 0.02), ("reset", 0.02)])
@pytest.mark.parametrize("head", [b"Content-Length: 10", b"Transfer-Encoding: chunked"])
def test_what_came_of_a_body_is_kept(how: str, pause_s: float, head: bytes) -> None:
    async def script(line: Line) -> None:
        await line.request()
        framed = b"5\r\nhello\r\n" if b"chunked" in head else b"hello"
        await line.send(b"HTTP/1.1 200 OK\r\n" + head + b"\r\n\r\n" + framed)
        await asyncio.sleep(pause_s)
        if how == "reset":
            line.reset()

    answer = get(script)
    assert (answer.body, answer.truncated, answer.reason) == (
        b"hello",
        Truncation.DISCONNECT,
        Reason.TRUNCATED,
    )


@pytest.mark.parametrize(
    "tail", [b"zz\r\nworld\r\n0\r\n\r\n", b"5\r\nworldwide\r\n", b"-5\r\nworld", b"99999999999999999\r\nw"]
)
def test_bad_chunks_end_the_body(tail: bytes) -> None:
    async def script(line: Line) -> None:
        await line.request()
        await line.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n" + tail)
        await line.hang()

    answer = get(script)
    assert answer.body[:5] == b"hello"
    assert answer.truncated is Truncation.DISCONNECT
    assert answer.reason is Reason.PROTOCOL_ERROR
    assert answer.timings.elapsed_ms < QUICK.total_ms


@pytest.mark.parametrize("late", [b"lo\r\nzz\r\n", b"lo\r\nk", b"loworld"])
def test_a_bad_chunk_right_behind_a_good_one_ends_the_wait(late: bytes) -> None:
    async def script(line: Line) -> None:
        await line.request()
        await line.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel")
        await asyncio.sleep(0.02)
        await line.send(late)
        await line.hang()

    answer = get(script)
    assert (answer.body, answer.reason) == (b"hello", Reason.PROTOCOL_ERROR)


def test_trailers_are_bounded() -> None:
    async def script(line: Line) -> None:
        await line.request()
        await line.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX: ")
        for _ in range(1_000):
            await line.send(b"a" * 1_000)
        await line.hang()

    answer = get(script)
    assert (answer.body, answer.reason) == (b"hello", Reason.PROTOCOL_ERROR)


def test_a_gzip_body_that_was_cut_gives_what_was_whole() -> None:
    text = b"".join(b"<p>line %d</p>" % i for i in range(5_000))
    coded = gzip.compress(text)
    reply = page(coded, b"Content-Encoding: gzip").replace(coded, coded[: len(coded) // 2])
    answer = get(answers(reply))
    assert (answer.truncated, answer.reason) == (Truncation.DISCONNECT, Reason.TRUNCATED)
    assert answer.decoded.status is DecodeStatus.TRUNCATED
    assert text.startswith(answer.decoded.data)
    assert len(answer.decoded.data) > len(text) // 3


# --- connections that are kept ------------------------------------------------------------------------------


def test_connections_are_kept_and_idle_ones_are_bounded() -> None:
    async def main() -> None:
        async with (
            Server(always(page())) as server,
            Transport(ssl_context=client_tls, idle_max=2) as transport,
        ):
            first = await transport.fetch(ask(server), QUICK)
            again = await transport.fetch(ask(server), QUICK)
            assert (first.reused, again.reused, server.connections) == (False, True, 1)
            assert (first.timings.connect_ms > 0, again.timings.connect_ms) == (True, 0)
            for host in ("a.test", "b.test"):  # the pool is by name: site.test has rested longest and goes
                assert not (await transport.fetch(ask(server, host=host), QUICK)).reused
            assert not (await transport.fetch(ask(server), QUICK)).reused
            assert (await transport.fetch(ask(server, host="b.test"), QUICK)).reused
            assert server.connections == 4

    asyncio.run(main())


def test_idle_connections_are_closed_after_a_while() -> None:
    gone: list[bool] = []

    async def script(line: Line) -> None:
        await line.request()
        await line.send(page())
        gone.append(await line.gone())

    async def main() -> None:
        async with Server(script) as server, Transport(ssl_context=client_tls, idle_ms=50) as transport:
            await transport.fetch(ask(server), QUICK)
            while not gone:
                await asyncio.sleep(0.01)
            await transport.fetch(ask(server), QUICK)
            assert server.connections == 2

    asyncio.run(main())
    assert gone[0]


@pytest.mark.parametrize("line", [b"Connection: close", b"Connection: x, Close"])
def test_a_server_that_closes_is_believed(line: bytes) -> None:
    async def use(server: Server, transport: Transport) -> None:
        for _ in range(2):
            assert not (await transport.fetch(ask(server), QUICK)).reused
        assert server.connections == 2

    run(always(page(b"x", line)), use)


def test_http_1_0_is_kept_only_when_it_says_so() -> None:
    async def use(server: Server, transport: Transport) -> None:
        assert [(await transport.fetch(ask(server), QUICK)).reused for _ in range(3)] == [False, False, True]

    plain = page().replace(b"HTTP/1.1", b"HTTP/1.0")
    keep = page(b"x", b"Connection: keep-alive").replace(b"HTTP/1.1", b"HTTP/1.0")
    replies = iter([plain, keep, keep])

    async def script(line: Line) -> None:
        while await line.request():
            await line.send(next(replies))

    run(script, use)


def test_a_kept_connection_that_fails_is_reported_and_not_repeated() -> None:
    async def script(line: Line) -> None:
        await line.request()
        await line.send(page())
        await line.request()  # and closes without a word

    async def use(server: Server, transport: Transport) -> None:
        await transport.fetch(ask(server), QUICK)
        with pytest.raises(FetchFailed) as failed:
            await transport.fetch(ask(server), QUICK)
        assert failed.value.reason is Reason.CONNECTION_RESET
        assert "on a kept connection" in failed.value.detail
        assert len(server.requests) == 2
        assert server.connections == 1

    run(script, use)


@pytest.mark.parametrize("unasked", [b"", page(b"poison"), b"junk"])
def test_a_kept_connection_that_spoke_unasked_is_not_used(unasked: bytes) -> None:
    async def script(line: Line) -> None:
        await line.request()
        await line.send(page(b"good"))
        await asyncio.sleep(0.02)
        await line.send(unasked)
        if unasked:
            await line.hang()

    async def use(server: Server, transport: Transport) -> None:
        assert (await transport.fetch(ask(server), QUICK)).body == b"good"
        blocked = asyncio.get_running_loop().time() + 0.05
        while asyncio.get_running_loop().time() < blocked:
            await asyncio.sleep(0.01)
        assert (await transport.fetch(ask(server), QUICK)).body == b"good"
        assert server.connections == 2

    run(script, use)


def test_a_kept_connection_that_is_closed_in_that_instant_is_not_used() -> None:
    lines: list[Line] = []

    async def script(line: Line) -> None:
        lines.append(line)
        while await line.request():
            await line.send(page())

    async def use(server: Server, transport: Transport) -> None:
        await transport.fetch(ask(server), QUICK)
        lines[0].end()  # nothing is awaited before the next fetch: the loop does not know yet
        answer = await transport.fetch(ask(server), QUICK)
        assert (answer.reason, answer.reused, len(lines)) == (Reason.OK, False, 2)

    run(script, use)


def test_bytes_after_an_answer_spoil_the_connection_only() -> None:
    for extra in (b"junk", page(b"second")):

        async def use(server: Server, transport: Transport) -> None:
            for _ in range(2):
                assert (await transport.fetch(ask(server), QUICK)).body == b"first"
            assert server.connections == 2

        run(always(page(b"first") + extra), use)


def test_many_at_once_share_a_bounded_pool() -> None:
    busy: list[int] = [0, 0]

    async def script(line: Line) -> None:
        await line.request()
        busy[0] += 1
        busy[1] = max(busy)
        await asyncio.sleep(0.01)
        busy[0] -= 1
        await line.send(page())
        await line.hang()

    async def main() -> None:
        transport = Transport(ssl_context=client_tls, connections_max=3)
        async with Server(script) as server, transport:
            fetches = [transport.fetch(ask(server, host=f"h{i}.test"), QUICK) for i in range(12)]
            assert {answer.reason for answer in await asyncio.gather(*fetches)} == {Reason.OK}

    asyncio.run(main())
    assert busy[1] == 3


def test_closing_the_transport_blames_no_host() -> None:
    async def use(server: Server, transport: Transport) -> None:
        task = asyncio.create_task(transport.fetch(ask(server), QUICK))
        while not server.requests:
            await asyncio.sleep(0.005)
        await transport.close()
        with pytest.raises(Retriable):
            await task
        with pytest.raises(Retriable):
            await transport.fetch(ask(server), QUICK)

    async def script(line: Line) -> None:
        await line.request()
        await line.hang()

    run(script, use)


# --- TLS ----------------------------------------------------------------------------------------------------


def test_tls_is_verified_against_the_name_on_the_pinned_address() -> None:
    names: list[str | None] = []
    context = server_tls()
    context.sni_callback = lambda _, name, __: names.append(name)

    async def use(server: Server, transport: Transport) -> None:
        for reused in (False, True):
            answer = await transport.fetch(ask(server, scheme="https"), QUICK)
            assert (answer.body, answer.peer_address, answer.reused) == (b"<p>hello</p>", "127.0.0.1", reused)

    run(always(page()), use, context)
    assert names == ["site.test"]


@pytest.mark.parametrize(
    ("host", "leaf"), [("other.test", "site"), ("site.test", "expired"), ("127.0.0.2", "site")]
)
def test_certificates_that_do_not_fit(host: str, leaf: str) -> None:
    async def use(server: Server, transport: Transport) -> None:
        with pytest.raises(FetchFailed) as failed:
            await transport.fetch(ask(server, host=host, scheme="https"), QUICK)
        assert failed.value.reason is Reason.TLS_FAILED
        assert server.requests == []

    run(always(page()), use, server_tls(leaf))


def test_an_ip_address_as_host_is_verified_too() -> None:
    async def use(server: Server, transport: Transport) -> None:
        answer = await transport.fetch(ask(server, host="127.0.0.1", scheme="https"), QUICK)
        assert answer.reason is Reason.OK

    run(always(page()), use, server_tls())


def test_an_unknown_root_is_refused_by_default() -> None:
    async def main() -> None:
        async with Server(always(page()), tls=server_tls()) as server, Transport() as transport:
            await transport.fetch(ask(server, scheme="https"), QUICK)

    with pytest.raises(FetchFailed) as failed:
        asyncio.run(main())
    assert failed.value.reason is Reason.TLS_FAILED


@pytest.mark.parametrize("host", ["a..b", "x" * 64 + ".test"])
def test_a_name_that_tls_cannot_carry(host: str) -> None:
    async def use(server: Server, transport: Transport) -> None:
        with pytest.raises(FetchFailed) as failed:
            await transport.fetch(ask(server, host=host, scheme="https"), QUICK)
        assert failed.value.reason is Reason.TLS_FAILED

    run(always(page()), use, server_tls())


def test_plain_http_where_tls_is_expected() -> None:
    async def script(line: Line) -> None:
        await line.send(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await line.hang()

    async def use(server: Server, transport: Transport) -> None:
        with pytest.raises(FetchFailed) as failed:
            await transport.fetch(ask(server, scheme="https"), QUICK)
        assert failed.value.reason is Reason.TLS_FAILED

    run(script, use)


def test_a_tls_body_that_is_cut_is_kept() -> None:
    async def script(line: Line) -> None:
        await line.request()
        await line.send(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello")
        await asyncio.sleep(0.02)
        line.reset()

    async def use(server: Server, transport: Transport) -> None:
        answer = await transport.fetch(ask(server, scheme="https"), QUICK)
        assert (answer.body, answer.truncated) == (b"hello", Truncation.DISCONNECT)

    run(script, use, server_tls())
