"""WARC records, judged by readers that others wrote: warcio and FastWARC, both with digests checked."""

import base64
import gzip
import hashlib
import io
import re
import uuid
import zlib
from dataclasses import dataclass

import pytest
from fastwarc import ArchiveIterator as FastIterator
from hypothesis import given, settings
from hypothesis import strategies as st
from warcio.archiveiterator import ArchiveIterator

from frontlog.fetch.records import inflate_member, parse_record, record_problems
from frontlog.fetch.warc import (
    IDENTICAL,
    NOT_MODIFIED,
    Capture,
    Earlier,
    build_conversion,
    build_exchange,
    build_metadata,
    build_warcinfo,
    digest,
    record,
    record_id,
    stored_head,
    warc_date,
    warcinfo_fields,
)

URL = "http://site.test/a%20b?q=%C3%A4"
REQUEST = (
    b"GET /a%20b?q=%C3%A4 HTTP/1.1\r\nHost: site.test\r\nUser-Agent: Mozilla/5.0 (compatible; T/1)\r\n\r\n"
)
STARTED_MS = 1_796_083_200_123
PLAIN = b"<!doctype html><p>hello</p>" * 40
GZIPPED = gzip.compress(PLAIN, mtime=0)
BINARY = bytes(range(256)) * 40
BIG = BINARY * 400  # 4 MB
HTML = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n"
INFO = warcinfo_fields(
    software="frontlog/test", user_agent="Mozilla/5.0 (compatible; T/1)", is_part_of="crawl-1"
)


@dataclass(frozen=True)
class Seen:
    """A record as one reader saw it. `verdict` is what it made of the digests."""

    type: str
    fields: dict[str, str]
    payload: bytes
    verdict: bool
    http: list[tuple[str, str]]


def seen_by_warcio(data: bytes) -> list[Seen]:
    seen: list[Seen] = []
    iterator = ArchiveIterator(io.BytesIO(data), check_digests=True)
    for found in iterator:
        payload = found.raw_stream.read()
        http = found.http_headers.headers if found.http_headers else []
        verdict = found.digest_checker.passed is not False and not found.digest_checker.problems
        seen.append(Seen(found.rec_type, dict(found.rec_headers.headers), payload, verdict, http))
    assert iterator.err_count == 0
    return seen


def seen_by_fastwarc(data: bytes) -> list[Seen]:
    blocks = [found.verify_block_digest() for found in FastIterator(io.BytesIO(data), parse_http=False)]
    seen: list[Seen] = []
    for found in FastIterator(io.BytesIO(data), parse_http=True):
        fields = found.headers.to_dict()
        kind = str(found.record_type).rpartition(".")[2]
        verdict = blocks[len(seen)]
        if "WARC-Payload-Digest" in fields and kind != "revisit":
            verdict = verdict and found.verify_payload_digest()
        http = list(found.http_headers) if found.is_http else []
        seen.append(Seen(kind, fields, found.reader.read(), verdict, http))
    return seen


READERS = {"warcio": seen_by_warcio, "fastwarc": seen_by_fastwarc}


def exchange(head: bytes = HTML + b"\r\n", body: bytes = PLAIN, **more: object) -> Capture:
    arguments: dict[str, object] = {
        "capture_id": "crawl-1/2/33",
        "target_uri": URL,
        "started_ms": STARTED_MS,
        "ip_address": "192.0.2.7",
        "request_head": REQUEST,
        "response_head": head,
        "body": body,
    }
    return build_exchange(**{**arguments, **more})  # type: ignore[arg-type]


def main_record(capture: Capture) -> bytes:
    """The inflated bytes of the record that the capture points at."""
    return inflate_member(capture.data[capture.offset : capture.offset + capture.length])


CASES: dict[str, tuple[bytes, bytes, str]] = {
    "plain": (HTML + b"Content-Length: %d\r\n\r\n" % len(PLAIN), PLAIN, ""),
    "gzip-encoded": (HTML + b"Content-Encoding: gzip\r\n\r\n", GZIPPED, ""),
    "chunked origin": (HTML + b"Transfer-Encoding: chunked\r\n\r\n", PLAIN, ""),
    "chunked, and a length": (HTML + b"transfer-encoding : Chunked\r\ncontent-length: 9\r\n\r\n", PLAIN, ""),
    "chunked and gzip": (HTML + b"Content-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n", GZIPPED, ""),
    "chunked, body like a chunk": (
        HTML + b"Transfer-Encoding: chunked\r\n\r\n",
        b"5\r\nhello\r\n0\r\n\r\n",
        "",
    ),
    "truncated by length": (HTML + b"Content-Length: 99999\r\n\r\n", PLAIN, "length"),
    "truncated by disconnect": (HTML + b"Content-Length: 99999\r\n\r\n", PLAIN[:7], "disconnect"),
    "truncated by time": (HTML + b"Transfer-Encoding: chunked\r\n\r\n", PLAIN[:7], "time"),
    "truncated gzip": (HTML + b"Content-Encoding: gzip\r\n\r\n", GZIPPED[:-9], "disconnect"),
    "empty": (HTML + b"Content-Length: 0\r\n\r\n", b"", ""),
    "redirect": (b"HTTP/1.1 302 Found\r\nLocation: /\xe4\r\n\r\n", b"", ""),
    "unasked 304": (b'HTTP/1.1 304 Not Modified\r\nETag: "x"\r\nTransfer-Encoding: chunked\r\n\r\n', b"", ""),
    "binary": (b"HTTP/1.1 200 OK\r\nContent-Type: image/png\r\n\r\n", BINARY, ""),
    "body begins with empty lines": (HTML + b"\r\n", b"\r\n\r\n\n\nbody", ""),
    "body begins with a header": (HTML + b"\r\n", b"Transfer-Encoding: chunked\r\n\r\nbody", ""),
    "body ends with a record": (HTML + b"\r\n", b"x\r\n\r\nWARC/1.1\r\nWARC-Type: response\r\n\r\n", ""),
    "latin-1 header": (HTML + b"X-Name: J\xfcrgen \xa0\r\n\r\n", PLAIN, ""),
    "utf-8 header": (HTML + b"X-Name: J\xc3\xbcrgen\r\n\r\n", PLAIN, ""),
    "odd bytes": (
        HTML + b"A:\x00\x01\r\nB: a\rb\r\nno colon\r\n: empty\r\nD\xff: x\r\nE: \x7f\r\n\r\n",
        PLAIN,
        "",
    ),
    "folded line": (HTML + b"A: b\r\n\tc\r\n\r\n", PLAIN, ""),
    "folded white space": (HTML + b"A: b\r\n \t \r\nB: c\r\n\r\n", PLAIN, ""),
    "lines of odd white space": (
        HTML + b"A: b\r\n\x85\r\n\x0b\x0c\r\n\xa0\r\n\xe3\x80\x80\r\n\x1c\r\nB: c\r\n\r\n",
        PLAIN,
        "",
    ),
    "an empty line inside": (HTML + b"\r\nB: c\r\n\r\n", PLAIN, ""),
    "bare LF": (b"HTTP/1.1 200 OK\nContent-Type: text/html\n\n", b"\n\nbody", ""),
    "mixed line ends": (b"HTTP/1.1 200 OK\r\nContent-Type: text/html\n\r\n", PLAIN, ""),
    "CR before CRLF": (HTML + b"A: b\r\r\n\r\n", PLAIN, ""),
    "no empty line": (b"HTTP/1.1 200 OK\r\nA: b", PLAIN, ""),
    "no phrase": (b"HTTP/1.1 200\r\n\r\n", PLAIN, ""),
    "HTTP/1.0": (b"HTTP/1.0 200 OK\r\n\r\n", PLAIN, ""),
    "many lines": (HTML + b"Set-Cookie: a=b\r\n" * 900 + b"\r\n", PLAIN, ""),
    "big": (HTML + b"\r\n", BIG, ""),
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("case", CASES)
def test_both_readers_read_every_exchange(case: str, reader: str) -> None:
    head, body, truncated = CASES[case]
    capture = exchange(head, body, truncated=truncated)
    warcinfo = build_warcinfo(filename="a.warc.gz", at_ms=STARTED_MS, info=INFO)
    seen = READERS[reader](warcinfo + capture.data)
    assert [record.type for record in seen] == ["warcinfo", "request", "response"]
    assert [record.verdict for record in seen] == [True] * 3
    request, response = seen[1:]
    assert request.payload == b""
    assert response.payload == body
    assert response.fields["WARC-Payload-Digest"] == sha1(body) == capture.payload_digest
    assert response.fields.get("WARC-Truncated", "") == truncated
    for kept in request.fields, response.fields:
        assert kept["WARC-Target-URI"] == URL
        assert kept["WARC-Date"] == "2026-12-01T00:00:00.123Z"
        assert kept["WARC-IP-Address"] == "192.0.2.7"
    assert (
        request.fields["WARC-Concurrent-To"] == response.fields["WARC-Record-ID"] == f"<{capture.record_id}>"
    )
    assert response.fields["WARC-Concurrent-To"] == request.fields["WARC-Record-ID"]
    assert "transfer-encoding" not in [name.lower().strip() for name, _ in response.http]
    assert record_problems(parse_record(main_record(capture))) == []


def sha1(body: bytes) -> str:
    return "sha1:" + base64.b32encode(hashlib.sha1(body).digest()).decode()


@pytest.mark.parametrize("case", ["gzip-encoded", "chunked and gzip"])
def test_the_stored_body_decodes_to_the_page(case: str) -> None:
    head, body, _ = CASES[case]
    decoded = [
        found.content_stream().read() for found in ArchiveIterator(io.BytesIO(exchange(head, body).data))
    ]
    assert decoded[1] == PLAIN


TOKENS = [
    b"\r\n",
    b"\n",
    b"\r",
    b" ",
    b"\t",
    b"\x0b",
    b"\x85",
    b"\xa0",
    b"\xe3\x80\x80",
    b"\x1c",
    b"\0",
    b":",
    b"A: b\r\n",
]
FRAMING = [b"Transfer-Encoding: chunked\r\n", b"Content-Length: 3\r\n", b"Content-Encoding: gzip\r\n"]
JUNK = st.lists(st.sampled_from(TOKENS + FRAMING) | st.binary(max_size=5), max_size=14).map(b"".join)


@settings(max_examples=100, deadline=None)
@given(JUNK, JUNK)
def test_whatever_a_head_holds_every_reader_finds_the_same_payload(junk: bytes, body: bytes) -> None:
    capture = exchange(HTML + junk, body)
    for reader in READERS.values():
        found = reader(capture.data)[-1]
        assert (found.payload, found.verdict) == (body, True)
    own = parse_record(main_record(capture))
    assert own.payload == body
    assert own.http_head.startswith(HTML)
    assert record_problems(own) == [] or re.search(rb"(?im)^content-length", junk)


@pytest.mark.parametrize(
    ("head", "stored"),
    [
        (HTML + b"\r\n", HTML + b"\r\n"),
        (HTML + b"A:  b \r\nno colon\r\n\r\n", HTML + b"A:  b \r\nno colon\r\n\r\n"),
        (b"HTTP/1.1 200 OK\nA: b\n\n", b"HTTP/1.1 200 OK\r\nA: b\r\n\r\n"),
        (b"HTTP/1.1 200 OK", b"HTTP/1.1 200 OK\r\n\r\n"),
        (HTML + b"A: b\r\n \r\n\r\nB: c\r\n\r\n", HTML + b"A: b\r\nB: c\r\n\r\n"),
        (HTML + b"X-Transfer-Encoding: chunked\r\n\r\n", HTML + b"X-Transfer-Encoding: chunked\r\n\r\n"),
        (
            HTML + b"Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n",
            HTML + b"X-Archive-Orig-Transfer-Encoding: chunked\r\nX-Archive-Orig-Content-Length: 3\r\n\r\n",
        ),
    ],
)
def test_a_head_is_kept_but_for_what_would_mislead(head: bytes, stored: bytes) -> None:
    assert stored_head(head) == stored
    assert stored_head(stored) == stored


# --- what was asked for, and has come before ----------------------------------------------------------


EARLIER = Earlier(
    target_uri="http://site.test/older",
    date_ms=STARTED_MS - 86_400_000,
    record_id=record_id("crawl-1/2/30", "response"),
    payload_digest=digest(PLAIN),
)
NOT_MODIFIED_HEAD = b'HTTP/1.1 304 Not Modified\r\nETag: "x"\r\n\r\n'


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize(
    ("head", "body", "profile"),
    [
        (NOT_MODIFIED_HEAD, b"", NOT_MODIFIED),
        (HTML + b"Transfer-Encoding: chunked\r\n\r\n", PLAIN, IDENTICAL),
    ],
)
def test_a_revisit_names_the_earlier_capture(head: bytes, body: bytes, profile: str, reader: str) -> None:
    capture = exchange(head, body, earlier=EARLIER)
    revisit = READERS[reader](capture.data)[1]
    assert (revisit.type, capture.type) == ("revisit", "revisit")
    assert revisit.payload == b""
    assert revisit.verdict
    assert revisit.fields["WARC-Profile"] == profile
    assert revisit.fields["WARC-Refers-To-Target-URI"] == "http://site.test/older"
    assert revisit.fields["WARC-Refers-To-Date"] == "2026-11-30T00:00:00.123Z"
    assert revisit.fields["WARC-Refers-To"] == f"<{EARLIER.record_id}>"
    assert revisit.fields["WARC-Payload-Digest"] == digest(PLAIN) == capture.payload_digest
    assert revisit.fields.get("WARC-Truncated", "") == ("length" if profile == IDENTICAL else "")
    assert len(revisit.http) == len(head.split(b"\r\n")) - 3
    assert record_problems(parse_record(main_record(capture))) == []


def test_a_304_whose_earlier_digest_is_unknown_states_none() -> None:
    earlier = Earlier(target_uri=URL, date_ms=STARTED_MS)
    found = parse_record(main_record(exchange(NOT_MODIFIED_HEAD, b"", earlier=earlier)))
    assert found.type == "revisit"
    assert found.get("WARC-Payload-Digest") == found.get("WARC-Refers-To") == ""


@pytest.mark.parametrize(
    ("head", "body", "more"),
    [
        (HTML + b"\r\n", PLAIN, {}),
        (HTML + b"\r\n", PLAIN + b"x", {"earlier": EARLIER}),
        (HTML + b"\r\n", PLAIN, {"earlier": EARLIER, "truncated": "length"}),
        (HTML + b"\r\n", b"", {"earlier": Earlier(target_uri=URL, date_ms=1, payload_digest=digest(b""))}),
        (NOT_MODIFIED_HEAD, b"", {}),
        (NOT_MODIFIED_HEAD, b"junk", {"earlier": EARLIER}),
    ],
)
def test_anything_else_is_a_response(head: bytes, body: bytes, more: dict[str, object]) -> None:
    capture = exchange(head, body, **more)
    assert capture.type == "response"
    assert parse_record(main_record(capture)).payload == body


# --- the other records, and what holds for all --------------------------------------------------------


@pytest.mark.parametrize("reader", READERS)
def test_warcinfo_conversion_and_metadata(reader: str) -> None:
    text = build_conversion(
        capture_id="crawl-1/2/33",
        target_uri=URL,
        made_ms=STARTED_MS,
        content_type="text/plain",
        content="h\xe4llo\n".encode(),
    )
    facts = build_metadata(
        capture_id="crawl-1/2/33", target_uri=URL, started_ms=STARTED_MS, fields={"via": "http://a/\r\nX: y"}
    )
    warcinfo = build_warcinfo(filename="a.warc.gz", at_ms=STARTED_MS, info=INFO)
    seen = READERS[reader](warcinfo + text.data + facts.data)
    assert [record.type for record in seen] == ["warcinfo", "conversion", "metadata"]
    assert all(record.verdict for record in seen)
    lines = dict(line.split(": ", 1) for line in seen[0].payload.decode().splitlines())
    assert lines == INFO
    assert {"software", "format", "conformsTo", "isPartOf", "robots", "http-header-user-agent"} == set(lines)
    assert seen[0].fields["WARC-Filename"] == "a.warc.gz"
    assert "WARC-Target-URI" not in seen[0].fields
    assert seen[1].payload == "h\xe4llo\n".encode()
    assert seen[1].fields["WARC-Refers-To"] == f"<{record_id('crawl-1/2/33', 'response')}>"
    assert "WARC-Concurrent-To" not in seen[1].fields  # 5.7 forbids it
    assert seen[2].payload == b"via: http://a/ X: y\r\n"
    assert seen[2].fields["WARC-Concurrent-To"] == f"<{record_id('crawl-1/2/33', 'response')}>"


def test_an_operator_and_a_host_are_said_when_given() -> None:
    fields = warcinfo_fields(
        software="s",
        user_agent="u",
        is_part_of="c",
        operator="Ann <ann@x.test>",
        hostname="h",
        description="d",
    )
    assert (fields["operator"], fields["hostname"], fields["description"]) == ("Ann <ann@x.test>", "h", "d")


def test_each_record_is_a_gzip_member_of_its_own_and_the_main_one_is_pointed_at() -> None:
    capture = exchange()
    first = zlib.decompressobj(31)
    request = first.decompress(capture.data)
    assert len(capture.data) - len(first.unused_data) == capture.offset
    assert request.startswith(b"WARC/1.1\r\nWARC-Type: request\r\n")
    assert zlib.decompress(first.unused_data, 31) == main_record(capture)
    assert len(first.unused_data) == capture.length
    assert main_record(capture).startswith(b"WARC/1.1\r\nWARC-Type: response\r\n")


def test_the_same_arguments_give_the_same_record_and_another_capture_other_ids() -> None:
    assert main_record(exchange()) == main_record(exchange())
    ids = {exchange(capture_id=f"crawl-1/2/{n}").record_id for n in range(50)}
    assert len(ids) == 50


def test_record_ids_are_version_5_uuids() -> None:
    parsed = uuid.UUID(record_id("a", "response"))
    assert parsed == uuid.uuid5(uuid.UUID("7f0d3c52-6f0b-5d0c-9a55-0d3b8f2f6a11"), "a\nresponse")
    assert (parsed.version, parsed.variant) == (5, uuid.RFC_4122)


def test_dates_have_milliseconds() -> None:
    assert warc_date(0) == "1970-01-01T00:00:00.000Z"
    assert warc_date(951_782_400_007) == "2000-02-29T00:00:00.007Z"


def test_addresses_lose_their_zone_and_may_be_unknown() -> None:
    local = parse_record(main_record(exchange(ip_address="fe80::1%eth0", payload_type="text/html")))
    assert local.get("WARC-IP-Address") == "fe80::1"
    assert local.get("warc-identified-payload-type") == "text/html"
    assert parse_record(main_record(exchange(ip_address=""))).get("WARC-IP-Address") == ""


@pytest.mark.parametrize("bad", ["http://a/\r\nWARC-Type: request", "http://a/\n", "http://a/\rb"])
def test_no_value_can_smuggle_in_a_field(bad: str) -> None:
    with pytest.raises(AssertionError, match="line break"):
        exchange(target_uri=bad)


@pytest.mark.parametrize("level", [0, 1, 2, 3])
def test_every_level_gives_what_zlib_reads(level: int) -> None:
    data = record([("WARC-Type", "metadata")], BINARY, level=level)
    header = b"WARC/1.1\r\nWARC-Type: metadata\r\nContent-Length: 10240\r\n\r\n"
    assert zlib.decompress(data, 31) == header + BINARY + b"\r\n\r\n"
