"""Response heads: what is read from them, and why the archive stores a body without its chunks.

Not verified: that every reader of WARC files reads the form; warcio and FastWARC are asked.
"""

import gzip
import io
import time
from contextlib import suppress

import pytest
from fastwarc import ArchiveIterator as FastIterator
from hypothesis import given
from hypothesis import strategies as st
from warcio.archiveiterator import ArchiveIterator

from frontlog.fetch.heads import BadHead, Head, content_length, framing, head_end, looks_like_http, read_head
from frontlog.fetch.warc import digest, stored_head
from support.misbehaving import chunked


def head_of(*lines: bytes, status: bytes = b"HTTP/1.1 200 OK") -> Head:
    return read_head(b"\r\n".join((status, *lines)) + b"\r\n\r\n")


@pytest.mark.parametrize(
    ("data", "end"),
    [
        (b"", -1),
        (b"HTTP/1.1 200 OK\r\n\r", -1),
        (b"HTTP/1.1 200 OK\r\n\r\nbody\r\n\r\n", 19),
        (b"HTTP/1.1 200 OK\n\nbody", 17),
        (b"HTTP/1.1 200 OK\n\r\nbody", 18),
        (b"HTTP/1.1 200 OK\r\n\nbody", 18),
        (b"HTTP/1.1 200 OK\n\n\r\nbody", 17),
        (b"HTTP/1.1 200 OK\n\r\n\nbody", 18),
    ],
)
def test_where_a_head_ends(data: bytes, end: int) -> None:
    assert head_end(data) == end
    for start in range(len(data)):  # in two pieces, cut anywhere
        if head_end(data[:start]) < 0:
            assert head_end(data, start) == end


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ((b"A: b",), (("A", "b"),)),
        ((b"A:b", b"a:  c\t "), (("A", "b"), ("a", "c"))),
        ((b"A :b", b"B\t: c"), (("A", "b"), ("B", "c"))),
        ((b"A: b", b" c", b"\td "), (("A", "b c d"),)),
        ((b" lost", b"A: b"), (("A", "b"),)),
        ((b"A:", b" b"), (("A", "b"),)),
        ((b"A: b", b"  ", b"B: c"), (("A", "b"), ("B", "c"))),
        ((b"no colon", b": no name", b"two words: x", b"A(: x", b"A: b"), (("A", "b"),)),
        ((b"A: b\0c\rd",), (("A", "b c d"),)),
        ((b"A: \xe9\xc3\xa9",), (("A", "\xe9\xc3\xa9"),)),
        ((b"A: b:c", b"B:"), (("A", "b:c"), ("B", ""))),
    ],
)
def test_lines(lines: tuple[bytes, ...], expected: tuple[tuple[str, str], ...]) -> None:
    assert head_of(*lines).headers == expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (b"HTTP/1.1 200 OK", ("HTTP/1.1", 200, "OK")),
        (b"HTTP/1.0 404 Not  Found ", ("HTTP/1.0", 404, "Not  Found")),
        (b"HTTP/1.1 200", ("HTTP/1.1", 200, "")),
        (b"HTTP/1.1  200 \t", ("HTTP/1.1", 200, "")),
        (b"HTTP/1.1 999 \xe9\r", ("HTTP/1.1", 999, "\xe9")),
        (b"HTTP/1.9 200 OK", ("HTTP/1.1", 200, "OK")),
    ],
)
def test_status_lines(line: bytes, expected: tuple[str, int, str]) -> None:
    head = head_of(status=line)
    assert (head.version, head.status, head.phrase) == expected


@pytest.mark.parametrize(
    "line",
    [b"", b"HTTP/2 200", b"HTTP/1.1", b"HTTP/1.1 OK", b"HTTP/1.1 099 x", b"HTTP/1.1 200OK", b"ICY 200 OK"],
)
def test_bad_status_lines(line: bytes) -> None:
    with pytest.raises(BadHead):
        head_of(status=line)


@pytest.mark.parametrize(
    ("lines", "length"),
    [
        ((), None),
        ((b"Content-Length:",), None),
        ((b"Content-Length: 0",), 0),
        ((b"Content-Length: 007",), 7),
        ((b"Content-Length: 7", b"content-length: 7,7"), 7),
    ],
)
def test_lengths(lines: tuple[bytes, ...], length: int | None) -> None:
    assert content_length(head_of(*lines)) == length


@pytest.mark.parametrize("value", [b"7, 8", b"07, 7", b"-1", b"+1", b"1.0", b"0x1", b"\xb2", b"1" * 19])
def test_impossible_lengths(value: bytes) -> None:
    with pytest.raises(BadHead):
        content_length(head_of(b"Content-Length: " + value))


HTTP_1_1, HTTP_1_0 = b"HTTP/1.1 200 OK", b"HTTP/1.0 200 OK"
LENGTH, CHUNKED = b"Content-Length: 7", b"Transfer-Encoding: chunked"


@pytest.mark.parametrize(
    ("lines", "status", "body_line", "keep"),
    [
        ((LENGTH,), HTTP_1_1, LENGTH, True),
        ((LENGTH, b"Connection: close"), HTTP_1_1, LENGTH, False),
        ((LENGTH,), HTTP_1_0, LENGTH, False),
        ((LENGTH, b"Connection: Keep-Alive"), HTTP_1_0, LENGTH, True),
        ((), HTTP_1_1, b"", False),
        ((b"Transfer-Encoding: Chunked",), HTTP_1_1, CHUNKED, True),
        ((b"Transfer-Encoding: gzip, chunked",), HTTP_1_1, CHUNKED, True),
        ((CHUNKED, LENGTH), HTTP_1_1, CHUNKED, False),
        ((CHUNKED,), HTTP_1_0, CHUNKED, False),
        ((b"Transfer-Encoding: gzip",), HTTP_1_1, b"", False),
        ((b"Transfer-Encoding: identity", LENGTH), HTTP_1_1, LENGTH, True),
        ((LENGTH,), b"HTTP/1.1 304 N", b"", True),
        ((CHUNKED,), b"HTTP/1.1 204 N", b"", True),
        ((b"Connection: close",), b"HTTP/1.1 304 N", b"", False),
    ],
)
def test_framing(lines: tuple[bytes, ...], status: bytes, body_line: bytes, keep: bool) -> None:
    connection = b"Connection: keep-alive" if keep else b"Connection: close"
    said = [b"%s %s -" % tuple(status.split()[:2]), *filter(None, (body_line, connection)), b"", b""]
    assert framing(head_of(*lines, status=status)) == (b"\r\n".join(said), keep)


@pytest.mark.parametrize(
    ("lines", "media_type"),
    [
        ((), ""),
        ((b"Content-Type: Text/HTML; charset=x",), "text/html"),
        ((b"Content-Type: text/plain", b"Content-Type: text/html"), "text/html"),
        ((b"Content-Type: text/plain", b"Content-Type: html"), "text/plain"),
        ((b"Content-Type: text/",), ""),
        ((b"Content-Type: application/xhtml+xml",), "application/xhtml+xml"),
    ],
)
def test_media_types(lines: tuple[bytes, ...], media_type: str) -> None:
    assert head_of(*lines).media_type == media_type


def test_location_keeps_every_byte() -> None:
    assert head_of(b"Location: /a%20b?\xe9=\xc3\xa9\x7f").location == "/a%20b?%E9=%C3%A9%7F"
    assert head_of(b"Location:").location is None
    assert head_of().location is None


def test_all_content_codings() -> None:
    lines = (b"Content-Encoding: gzip", b"Content-Encoding: br", b"Transfer-Encoding: deflate, chunked")
    assert head_of(*lines).content_codings == "gzip, br, deflate"
    assert head_of(b"Transfer-Encoding: chunked").content_codings is None


@given(st.binary(max_size=200))
def test_any_bytes_are_a_head_or_refused(data: bytes) -> None:
    for raw in (data, b"HTTP/1.1 200 " + data, b"HTTP/1.1 200 OK\r\n" + data):
        try:
            head = read_head(raw)
            framing(head)
        except BadHead:
            continue
        assert all(c not in "\0\r\n" for _, value in head.headers for c in value)


@pytest.mark.parametrize("filler", [b" ", b"\t", b"\r", b" \r", b"a ", b"\r\n ", b"a:\r\n"])
def test_hostile_heads_take_no_time(filler: bytes) -> None:
    started_s = time.process_time()
    for raw in (b"HTTP/1.1 200" + filler * 30_000, b"HTTP/1.1 200 OK\r\nX: " + filler * 30_000 + b"x"):
        try:
            framing(read_head(raw))
        except BadHead:
            continue
    assert time.process_time() - started_s < 1


def test_the_first_bytes_tell() -> None:
    assert all(looks_like_http(b"HTTP/1.1 200 OK"[:n]) for n in range(16))
    assert not any(looks_like_http(data) for data in (b"h", b"HTTP/2", b"<html>", b"SSH-2.0", b"\x15\x03"))


# --- the archive's form ------------------------------------------------------------------------------------

TEXT = b"<p>hello, archive</p>" * 40
LOOKS_CHUNKED = b"5\r\nhello\r\n0\r\n\r\n"


def record(head: bytes, stored: bytes, payload: bytes) -> bytes:
    """A response record by hand, since ours is only ever written in the chosen form."""
    block = head + stored
    fields = (
        "WARC/1.1",
        "WARC-Type: response",
        "WARC-Record-ID: <urn:uuid:09959aa4-b44b-4b93-903a-18964f062e9b>",
        "WARC-Date: 2026-01-01T00:00:00Z",
        "WARC-Target-URI: http://site.test/",
        "Content-Type: application/http; msgtype=response",
        f"WARC-Block-Digest: {digest(block)}",
        f"WARC-Payload-Digest: {digest(payload)}",
        f"Content-Length: {len(block)}\r\n\r\n",
    )
    return gzip.compress("\r\n".join(fields).encode() + block + b"\r\n\r\n")


def read_back(warc: bytes, decoded: bytes) -> list[str]:
    """What of the record the readers get wrong."""
    wrong: list[str] = []
    for found in ArchiveIterator(io.BytesIO(warc), check_digests=True):
        found.raw_stream.read()
        wrong += [] if found.digest_checker.passed else ["warcio: digests"]
    for found in ArchiveIterator(io.BytesIO(warc)):
        wrong += [] if found.content_stream().read() == decoded else ["warcio: content"]
    for mode in ("none", "all"):
        body = b""
        with suppress(OSError):  # at the record or at its body, as the chunks would have it
            for fast in FastIterator(io.BytesIO(warc), parse_http=True, auto_decode=mode):
                body = fast.reader.read()
        body = gzip.decompress(body) if mode == "none" and body[:2] == b"\x1f\x8b" else body
        wrong += [] if body == decoded else [f"FastWARC: content, auto_decode={mode}"]
    for fast in FastIterator(io.BytesIO(warc), parse_http=True):
        wrong += [] if fast.verify_payload_digest() else ["FastWARC: payload digest"]
    return wrong


@pytest.mark.parametrize("body", [TEXT, LOOKS_CHUNKED])
@pytest.mark.parametrize("coding", [b"", b"gzip"])
def test_the_stored_form_is_the_one_that_readers_read(body: bytes, coding: bytes) -> None:
    payload = gzip.compress(body) if coding else body
    lines = (b"Content-Encoding: " + coding,) if coding else ()
    wire = chunked(payload, *lines, step_bytes=100)
    head, framed = wire[: head_end(wire)], wire[head_end(wire) :]

    assert read_back(record(stored_head(head), payload, payload), body) == []

    as_received = read_back(record(head, framed, payload), body)
    assert {"warcio: digests", "FastWARC: payload digest"} <= set(as_received)
    header_kept = read_back(record(head, payload, payload), body)
    assert "FastWARC: content, auto_decode=all" in header_kept
    if payload == LOOKS_CHUNKED:
        assert "warcio: content" in header_kept
