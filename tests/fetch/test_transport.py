"""What the transport sends, where to, and what it keeps of whole answers.

Not verified here: HTTP/2, which the transport never offers.
"""

import asyncio
import gzip
import socket

import pytest

from frontlog.avro.enums import Reason
from frontlog.fetch.connector import PinnedProtocol
from frontlog.fetch.decoding import DecodeStatus
from frontlog.fetch.http_types import FetchFailed, FetchRequest
from frontlog.fetch.transport import Transport, request_bytes
from support.fetching import QUICK, ask, get, run
from support.misbehaving import Line, Server, always, answers, chunked, client_tls, page

# --- what is sent -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "target"),
    [
        ("", b"/"),
        ("/", b"/"),
        ("?", b"/?"),
        ("/a?", b"/a?"),
        ("/a%27b'c%26&d%3A:?x=%2520+%20'\"|{}^`", b"/a%27b'c%26&d%3A:?x=%2520+%20'\"|{}^`"),
        ("//x/../y/./%2e%2E/", b"//x/../y/./%2e%2E/"),
        ("/a#fragment?no", b"/a"),
        ("/a?u=http://b@c/#x", b"/a?u=http://b@c/"),
        ("/%zz%", b"/%zz%"),
    ],
)
def test_the_target_is_sent_byte_for_byte(path: str, target: bytes) -> None:
    answer = get(always(page()), path=path)
    assert answer.request_head.startswith(b"GET " + target + b" HTTP/1.1\r\nHost: site.test:")


def test_only_what_the_caller_gives_is_sent() -> None:
    async def use(server: Server, transport: Transport) -> None:
        headers = (("user-AGENT", "x/1"), ("If-None-Match", 'W/"\xe9"'), ("Accept", "a"), ("Accept", "b"))
        answer = await transport.fetch(ask(server, headers=headers), QUICK)
        host = b"site.test:%d" % server.port
        sent = b'\r\nuser-AGENT: x/1\r\nIf-None-Match: W/"\xe9"\r\nAccept: a\r\nAccept: b\r\n\r\n'
        assert server.requests == [b"GET / HTTP/1.1\r\nHost: " + host + sent]
        assert answer.request_head == server.requests[0]

    run(always(page()), use)


@pytest.mark.parametrize(
    "request_",
    [
        FetchRequest("http://site.test/", "http", "other.test", 80, "127.0.0.1"),
        FetchRequest("http://site.test/", "http", "site.test", 81, "127.0.0.1"),
        FetchRequest("http://site.test/", "https", "site.test", 443, "127.0.0.1"),
        FetchRequest("http://u:p@site.test/", "http", "site.test", 80, "127.0.0.1"),
        FetchRequest("http://site.test/a b", "http", "site.test", 80, "127.0.0.1"),
        FetchRequest("http://site.test/\r\nX: y", "http", "site.test", 80, "127.0.0.1"),
        FetchRequest("http://site.test/\xe9", "http", "site.test", 80, "127.0.0.1"),
        FetchRequest("http://site.test/", "http", "site.test", 80, "localhost"),
        FetchRequest("http://site.test/", "http", "site.test", 80, "127.1"),
        FetchRequest("http://site.test/", "http", "site.test", 80, "127.0.0.1", (("Host", "x"),)),
        FetchRequest("http://site.test/", "http", "site.test", 80, "127.0.0.1", (("X", "a\r\nY: b"),)),
        FetchRequest("http://site.test/", "http", "site.test", 80, "127.0.0.1", (("X: y\r\nZ", "a"),)),
    ],
)
def test_a_malformed_request_is_the_callers_bug(request_: FetchRequest) -> None:
    async def main() -> None:
        async with Transport(ssl_context=client_tls) as transport:
            await transport.fetch(request_, QUICK)

    with pytest.raises(ValueError, match=r"."):
        asyncio.run(main())


def test_host_has_no_default_port_and_brackets_stay() -> None:
    async def use(server: Server, transport: Transport) -> None:
        answer = await transport.fetch(ask(server, host="[::1]"), QUICK)
        assert answer.request_head == b"GET / HTTP/1.1\r\nHost: [::1]:%d\r\n\r\n" % server.port

    run(always(page()), use)

    plain = FetchRequest("https://site.test/", "https", "site.test", 443, "127.0.0.1")
    assert request_bytes(plain) == b"GET / HTTP/1.1\r\nHost: site.test\r\n\r\n"


# --- where it is sent ---------------------------------------------------------------------------------------


def test_the_given_address_is_used_and_no_name_is_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("all_proxy", "http://127.0.0.1:1")

    async def main() -> None:
        async with (
            Server(always(page(b"one"))) as one,
            Server(always(page(b"two")), address="127.0.0.2", port=one.port) as two,
            Transport(ssl_context=client_tls) as transport,
        ):
            monkeypatch.setattr(socket, "getaddrinfo", lookup_is_a_bug)
            # `localhost` resolves to 127.0.0.1: the judged address wins, and the pool keeps the two apart
            for address, body in (("127.0.0.2", b"two"), ("127.0.0.1", b"one"), ("127.0.0.2", b"two")):
                request = FetchRequest(
                    f"http://localhost:{one.port}/", "http", "localhost", one.port, address
                )
                answer = await transport.fetch(request, QUICK)
                assert (answer.body, answer.peer_address) == (body, address)
            assert (one.connections, two.connections) == (1, 1)

    asyncio.run(main())


def test_ipv6_is_spoken_too() -> None:
    async def main() -> None:
        try:
            socket.create_server(("::1", 0), family=socket.AF_INET6).close()
        except OSError as exc:
            pytest.skip(f"no IPv6 loopback here: {exc}")
        transport = Transport(ssl_context=client_tls)
        async with Server(always(page()), address="::1") as server, transport:
            for address in ("::1", "0:0:0:0:0:0:0:1"):
                url = f"http://site.test:{server.port}/"
                answer = await transport.fetch(
                    FetchRequest(url, "http", "site.test", server.port, address), QUICK
                )
                assert (answer.reason, answer.peer_address) == (Reason.OK, "::1")

    asyncio.run(main())


def lookup_is_a_bug(host: str, *_: object, **__: object) -> list[object]:
    raise AssertionError(f"looked {host} up")


def test_a_socket_that_is_elsewhere_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:

    def elsewhere(_: PinnedProtocol) -> str:
        return "10.0.0.5"

    monkeypatch.setattr(PinnedProtocol, "peer_address", elsewhere)
    requests: list[bytes] = []

    async def use(server: Server, transport: Transport) -> None:
        with pytest.raises(FetchFailed) as failed:
            await transport.fetch(ask(server), QUICK)
        assert failed.value.reason is Reason.BLOCKED_NETWORK
        assert failed.value.response is None
        requests.extend(server.requests)

    run(always(page()), use)
    assert requests == []


# --- whole answers ------------------------------------------------------------------------------------------


def test_an_answer_is_kept_as_it_came() -> None:
    reply = b"HTTP/1.1 200  Fine \r\nsErver:x \r\nX-Two: 1\r\nX-Two:\t2\r\nContent-Length: 5\r\n\r\nhello"
    answer = get(answers(reply))
    assert answer.head.raw == reply[:-5]
    assert (answer.status, answer.head.phrase, answer.head.version) == (200, "Fine", "HTTP/1.1")
    assert answer.head.headers == (("sErver", "x"), ("X-Two", "1"), ("X-Two", "2"), ("Content-Length", "5"))
    assert answer.head.all("x-two") == ["1", "2"]
    assert (answer.body, answer.decoded.data, answer.truncated) == (b"hello", b"hello", None)
    assert (answer.reason, answer.media_type, answer.peer_address) == (Reason.OK, "text/plain", "127.0.0.1")


@pytest.mark.parametrize("step_bytes", [1, 7, 10_000])
def test_chunks_are_joined(step_bytes: int) -> None:
    body = bytes(range(256)) * 40
    answer = get(answers(chunked(body, step_bytes=step_bytes)))
    assert (answer.body, answer.truncated, answer.reason) == (body, None, Reason.OK)
    assert b"\r\nTransfer-Encoding: chunked\r\n" in answer.head.raw


def test_chunk_extensions_and_trailers_are_passed_over() -> None:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    answer = get(always(head + b'5;a="b"\r\nhello\r\n0;x\r\nX-T: 1\r\n\r\n'))
    assert (answer.body, answer.reason) == (b"hello", Reason.OK)


def test_content_coding_is_undone_and_the_wire_form_kept() -> None:
    body = b"<p>hello</p>" * 1000
    answer = get(answers(chunked(gzip.compress(body), b"Content-Encoding: gzip")))
    assert answer.decoded.data == body
    assert gzip.decompress(answer.body) == body
    assert answer.decoded.chain == ("gzip",)


@pytest.mark.parametrize(
    ("coding", "body", "status", "reason"),
    [
        (b"gzip", gzip.compress(b"hello" * 99, mtime=0)[:-9], DecodeStatus.TRUNCATED, Reason.TRUNCATED),
        (
            b"gzip",
            gzip.compress(b"hello", mtime=0)[:-8] + b"\0" * 8,
            DecodeStatus.CORRUPT,
            Reason.DECODE_FAILED,
        ),
        (b"zstd", b"\x28\xb5\x2f\xfd", DecodeStatus.UNKNOWN_ENCODING, Reason.DECODE_FAILED),
        (b"gzip", b"<p>hello</p>", DecodeStatus.PLAIN_DESPITE_HEADER, Reason.OK),
    ],
)
def test_a_whole_body_with_a_bad_coding(
    coding: bytes, body: bytes, status: DecodeStatus, reason: Reason
) -> None:
    answer = get(always(page(body, b"Content-Encoding: " + coding)))
    assert (answer.body, answer.truncated) == (body, None)
    assert (answer.decoded.status, answer.reason) == (status, reason)
    assert answer.detail == "" or reason is not Reason.OK


def test_a_transfer_coding_besides_chunked_is_undone_too() -> None:
    reply = chunked(gzip.compress(b"hello")).replace(b"chunked", b"gzip, chunked")
    assert get(answers(reply)).decoded.data == b"hello"


@pytest.mark.parametrize("version", [b"HTTP/1.0", b"HTTP/1.1"])
def test_a_body_without_a_length_ends_with_the_connection(version: bytes) -> None:
    answer = get(answers(version + b" 200 OK\r\n\r\n<p>hello"))
    assert (answer.body, answer.truncated, answer.media_type) == (b"<p>hello", None, "text/html")
    assert answer.head.version == version.decode()


@pytest.mark.parametrize("status", [b"204 No", b"304 Not Modified"])
@pytest.mark.parametrize("line", [b"X: y", b"Content-Length: 100", b"Transfer-Encoding: chunked"])
def test_statuses_without_a_body_end_at_the_head(status: bytes, line: bytes) -> None:
    answer = get(always(b"HTTP/1.1 " + status + b"\r\n" + line + b"\r\n\r\n"))
    assert (answer.body, answer.truncated, answer.reason) == (b"", None, Reason.OK)


def test_interim_answers_are_passed_over() -> None:
    interim = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"
    answer = get(always(interim + page(b"hello")))
    assert (answer.status, answer.body) == (200, b"hello")
    assert answer.head.raw.startswith(b"HTTP/1.1 200 OK")


def test_interim_answers_in_pieces() -> None:
    async def script(line: Line) -> None:
        await line.request()
        await line.drip(b"\r\nHTTP/1.1 102 P\r\n\r\n" + page(b"hello"), 0, 3)

    assert get(script).body == b"hello"


@pytest.mark.parametrize("status", [301, 404, 418, 500, 503, 599, 999])
def test_any_status_is_an_answer_and_no_redirect_is_followed(status: int) -> None:
    answer = get(always(page(b"x", b"Location: /b\xe9\xc3\xa9", status=b"%d Foo" % status)))
    assert (answer.status, answer.reason) == (status, Reason.OK)
    assert answer.head.location == "/b%E9%C3%A9"


def test_cookies_are_not_sent_back() -> None:
    async def use(server: Server, transport: Transport) -> None:
        for _ in range(2):
            await transport.fetch(ask(server), QUICK)
        assert b"ookie" not in server.requests[1]

    run(always(page(b"x", b"Set-Cookie: a=b; Path=/")), use)
