"""WARC 1.1 records as bytes: one gzip member a record, only arguments in, only bytes out.

ISO 28500:2017 with the recommendations of IIPC's annotated edition; sections are those of its text.
What is stored, and why so:

- The block of a response is its head and its body as received. The body is still content-encoded,
  so `Content-Encoding` is true. It is not chunked any more, so the head must not claim it:
  `Transfer-Encoding`, and a `Content-Length` beside it, stand there under other names (the reasons
  and the measurements are in `fetch/heads.py`).
- `WARC-Payload-Digest` is over the body as stored, `WARC-Block-Digest` over head and body. Both are
  SHA-1 in upper-case Base32, which is what indexes, replay tools and the IIPC's advice have.
- Lines of a response's head end in CRLF (a bare LF becomes one), and lines without any visible ASCII
  character are left out: they hold no field. Readers differ in what ends a head (FastWARC wants
  CRLF twice, warcio stops at a line of white space), and with another end comes another payload.
- A 304 that was asked for, and a body with the digest of an earlier capture, become `revisit` records
  (6.7) that name that capture by URI and date: replay tools look nowhere else. A truncated body
  never does, since a revisit has no room for why it was cut.
- Record ids are version 5 UUIDs of the capture id: the same exchange gives the same records.
- `WARC-Warcinfo-ID` is left out: a record is built before its segment is known, and the `warcinfo`
  at the start of each segment says the same.

Compression is ISA-L's level 1: a page of 46 kB goes to 33 % in 0.12 ms; the whole exchange with its three
digests takes 0.27 ms. Level 2 brings 0.4 % of the page, zlib's level 6 brings 2 % for ten times the time.
"""

import hashlib
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import msgspec
from isal import isal_zlib

from frontlog.fetch.heads import ARCHIVE_PREFIX, FRAMING_NAME

RECORD_BYTES_MAX: Final = 1 << 30
"""No record is larger, inflated. The limits of a fetch lie far below."""

LEVEL: Final = 1
"""ISA-L's compression level, 0 to 3."""

NOT_MODIFIED: Final = "http://netpreserve.org/warc/1.1/revisit/server-not-modified"
IDENTICAL: Final = "http://netpreserve.org/warc/1.1/revisit/identical-payload-digest"

_BASE32: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
_PAIRS: Final = [first + second for first in _BASE32 for second in _BASE32]  # of ten bits each

_TRUNCATED: Final = frozenset({"", "length", "time", "disconnect", "unspecified"})
_IDS: Final = bytes.fromhex("7f0d3c526f0b5d0c9a550d3b8f2f6a11")  # name space of our record ids
_GZIP: Final = 31  # window bits that ask for a gzip header and trailer

_BARE_LF: Final = re.compile(rb"(?<!\r)\n")
_INVISIBLE_LINE: Final = re.compile(rb"\n[^!-~\n]*(?=\n)")
_BREAKS: Final = re.compile(r"[\x00-\x1f\x7f]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Earlier:
    """The capture that a revisit refers to. What is not known stays empty; URI and date must be known."""

    target_uri: str
    date_ms: int
    record_id: str = ""
    payload_digest: str = ""


class Capture(msgspec.Struct, frozen=True, kw_only=True):
    """Finished records, to be appended in one piece.

    `data` holds whole gzip members. The main record (response, revisit, conversion, metadata) is the
    `length` bytes from `offset`. `payload_digest` is of the payload that the main record holds or
    refers to; empty when it has none.
    """

    data: bytes
    offset: int
    length: int
    record_id: str
    type: str
    payload_digest: str


def record_id(capture_id: str, part: str) -> str:
    """The id of one record of a capture, as `urn:uuid:…`: the same for the same arguments, for ever.

    `capture_id` must be unique among all crawls, so it names the crawl besides lease and attempt.
    """
    # What uuid.uuid5 does (RFC 9562 §5.5), three times as fast.
    name = hashlib.sha1(_IDS + f"{capture_id}\n{part}".encode(), usedforsecurity=False)
    octets = bytearray(name.digest()[:16])
    octets[6] = octets[6] & 0x0F | 0x50
    octets[8] = octets[8] & 0x3F | 0x80
    text = octets.hex()
    return f"urn:uuid:{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def digest(first: bytes, *more: bytes) -> str:
    """The labelled SHA-1 of the concatenated parts, in Base32 without padding (5.8)."""
    sha1 = hashlib.sha1(first, usedforsecurity=False)
    for part in more:
        sha1.update(part)
    # Base32 of RFC 4648 §6 for 20 bytes, which need no padding; base64.b32encode takes twice as long.
    n, pair = int.from_bytes(sha1.digest(), "big"), _PAIRS
    return (
        f"sha1:{pair[n >> 150]}{pair[n >> 140 & 1023]}{pair[n >> 130 & 1023]}{pair[n >> 120 & 1023]}"
        f"{pair[n >> 110 & 1023]}{pair[n >> 100 & 1023]}{pair[n >> 90 & 1023]}{pair[n >> 80 & 1023]}"
        f"{pair[n >> 70 & 1023]}{pair[n >> 60 & 1023]}{pair[n >> 50 & 1023]}{pair[n >> 40 & 1023]}"
        f"{pair[n >> 30 & 1023]}{pair[n >> 20 & 1023]}{pair[n >> 10 & 1023]}{pair[n & 1023]}"
    )


def warc_date(at_ms: int) -> str:
    """Milliseconds since the epoch as a `WARC-Date` (5.4): UTC, three digits of fraction."""
    seconds, ms = divmod(at_ms, 1000)
    return f"{_seconds(seconds)}.{ms:03d}Z"


@lru_cache(64)
def _seconds(at_s: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(at_s))


def record(fields: list[tuple[str, str]], *block: bytes, level: int = LEVEL) -> bytes:
    """One record as one gzip member. `fields` are written in order; `Content-Length` is added."""
    return _member(
        "".join([f"{name}: {value}\r\n" for name, value in fields]), len(fields), *block, level=level
    )


def _member(lines: str, count: int, *block: bytes, level: int) -> bytes:
    """The record with `count` lines of fields."""
    length_bytes = sum(map(len, block))
    assert length_bytes <= RECORD_BYTES_MAX, "a record of that size was never fetched"
    # A line break inside a value would be a field of its own: no caller may pass one.
    assert lines.count("\n") == count and lines.count("\r") == count, "a field value with a line break"
    header = f"WARC/1.1\r\n{lines}Content-Length: {length_bytes}\r\n\r\n".encode()
    return isal_zlib.compress(b"".join((header, *block, b"\r\n\r\n")), level, wbits=_GZIP)


def stored_head(head: bytes) -> bytes:
    """A response head as it is stored beside a body without chunks; see the top of this file.

    Ends in its one empty line, and every reader finds it there.
    """
    assert head.strip(), "a response without a head is not HTTP/1"
    if head.count(b"\n") != head.count(b"\r\n"):
        head = _BARE_LF.sub(b"\r\n", head)
    if head.endswith(b"\r\n\r\n"):
        fields = head[:-2]
    else:
        fields = head if head.endswith(b"\r\n") else head + b"\r\n"
    if _INVISIBLE_LINE.search(fields):
        fields = _INVISIBLE_LINE.sub(b"", fields)
    if b"\ntransfer-encoding" in fields.lower():
        fields = FRAMING_NAME.sub(ARCHIVE_PREFIX, fields)
    return fields + b"\r\n"


def build_exchange(
    *,
    capture_id: str,
    target_uri: str,
    started_ms: int,
    ip_address: str,
    request_head: bytes,
    response_head: bytes,
    body: bytes,
    truncated: str = "",
    payload_type: str = "",
    earlier: Earlier | None = None,
    level: int = LEVEL,
) -> Capture:
    """Request and response (or revisit) of one attempt, ready to append.

    `target_uri` is the URL as sent, `started_ms` when that was, `ip_address` what was connected to (no
    brackets). Heads are as on the wire, with their empty line; `body` is without chunks and still
    content-encoded. `truncated` is length, time, disconnect or empty. `payload_type` is the media type
    found by looking at the body, never the header's (5.18). `earlier` is the capture whose validators
    were sent, or that may have had the same body.
    """
    assert truncated in _TRUNCATED, truncated
    head = stored_head(response_head)
    payload_digest = digest(body)
    request_id, response_id = record_id(capture_id, "request"), record_id(capture_id, "response")
    # What is said of every page is written as text: a list of fields takes several times as long.
    common = f"WARC-Date: {warc_date(started_ms)}\r\nWARC-Target-URI: {target_uri}\r\n"
    if ip_address:  # a zone is ours, not the host's
        common += f"WARC-IP-Address: {ip_address.partition('%')[0]}\r\n"
    count = 8 if ip_address else 7

    request = _member(
        f"WARC-Type: request\r\nWARC-Record-ID: <{request_id}>\r\n{common}WARC-Concurrent-To: <{response_id}>\r\n"
        f"Content-Type: application/http; msgtype=request\r\nWARC-Block-Digest: {digest(request_head)}\r\n",
        count, request_head, level=level,
    )  # fmt: skip
    profile = _profile(head, body, truncated, payload_digest, earlier)
    if profile and earlier:
        payload_digest = earlier.payload_digest
        fields = _revisit_fields(profile, earlier)
        block: tuple[bytes, ...] = (head,)
    else:
        fields = [("WARC-Payload-Digest", payload_digest)]
        if payload_type:
            fields.append(("WARC-Identified-Payload-Type", payload_type))
        if truncated:
            fields.append(("WARC-Truncated", truncated))
        block = head, body
    response = _member(
        f"WARC-Type: {'revisit' if profile else 'response'}\r\nWARC-Record-ID: <{response_id}>\r\n{common}"
        f"WARC-Concurrent-To: <{request_id}>\r\n"
        + "".join([f"{name}: {value}\r\n" for name, value in fields])
        + f"Content-Type: application/http; msgtype=response\r\nWARC-Block-Digest: {digest(*block)}\r\n",
        count + len(fields), *block, level=level,
    )  # fmt: skip
    return Capture(
        data=request + response,
        offset=len(request),
        length=len(response),
        record_id=response_id,
        type="revisit" if profile else "response",
        payload_digest=payload_digest,
    )


def build_conversion(
    *, capture_id: str, target_uri: str, made_ms: int, content_type: str, content: bytes, level: int = LEVEL
) -> Capture:
    """Another form of a stored response, such as its visible text (6.8). Its payload is its block.

    So it states the block's digest alone: FastWARC takes a payload digest without HTTP for wrong.
    """
    own_id = record_id(capture_id, f"conversion {content_type}")
    content_digest = digest(content)
    data = record(
        [
            ("WARC-Type", "conversion"),
            ("WARC-Record-ID", f"<{own_id}>"),
            ("WARC-Date", warc_date(made_ms)),
            ("WARC-Target-URI", target_uri),
            ("WARC-Refers-To", f"<{record_id(capture_id, 'response')}>"),
            ("WARC-Block-Digest", content_digest),
            ("Content-Type", content_type),
        ],
        content,
        level=level,
    )
    return Capture(
        data=data,
        offset=0,
        length=len(data),
        record_id=own_id,
        type="conversion",
        payload_digest=content_digest,
    )


def build_metadata(
    *, capture_id: str, target_uri: str, started_ms: int, fields: Mapping[str, str], level: int = LEVEL
) -> Capture:
    """What else is known of a capture, as fields such as `via`, `hopsFromSeed`, `fetchTimeMs` (6.6)."""
    own_id = record_id(capture_id, "metadata")
    block = _fields_block(fields)
    data = record(
        [
            ("WARC-Type", "metadata"),
            ("WARC-Record-ID", f"<{own_id}>"),
            ("WARC-Date", warc_date(started_ms)),
            ("WARC-Target-URI", target_uri),
            ("WARC-Concurrent-To", f"<{record_id(capture_id, 'response')}>"),
            ("WARC-Block-Digest", digest(block)),
            ("Content-Type", "application/warc-fields"),
        ],
        block,
        level=level,
    )
    return Capture(
        data=data, offset=0, length=len(data), record_id=own_id, type="metadata", payload_digest=""
    )


def build_warcinfo(*, filename: str, at_ms: int, info: Mapping[str, str], level: int = LEVEL) -> bytes:
    """The record that starts a segment (6.2), from the fields of `warcinfo_fields`."""
    block = _fields_block(info)
    own_id = record_id(f"{filename}\n{at_ms}\n{digest(block)}", "warcinfo")
    return record(
        [
            ("WARC-Type", "warcinfo"),
            ("WARC-Record-ID", f"<{own_id}>"),
            ("WARC-Date", warc_date(at_ms)),
            ("WARC-Filename", filename),
            ("WARC-Block-Digest", digest(block)),
            ("Content-Type", "application/warc-fields"),
        ],
        block,
        level=level,
    )


def warcinfo_fields(
    *,
    software: str,
    user_agent: str,
    is_part_of: str,
    operator: str = "",
    hostname: str = "",
    description: str = "",
    robots: str = "RFC 9309, obeyed",
) -> dict[str, str]:
    """What a segment says of the crawl, in the names of 6.2 and of Dublin Core; empty values are left out."""
    fields = {
        "software": software,
        "format": "WARC File Format 1.1",
        "conformsTo": "http://iipc.github.io/warc-specifications/specifications/warc-format/warc-1.1/",
        "isPartOf": is_part_of,
        "description": description,
        "operator": operator,
        "hostname": hostname,
        "robots": robots,
        "http-header-user-agent": user_agent,
    }
    return {name: value for name, value in fields.items() if value}


def _fields_block(fields: Mapping[str, str]) -> bytes:
    """`application/warc-fields`: a line a field; control characters in a value become one space."""
    return "".join(f"{name}: {_BREAKS.sub(' ', value)}\r\n" for name, value in fields.items()).encode("utf-8")


def _status(head: bytes) -> int:
    """The status code of a response head; 0 when its first line has none."""
    words = head.split(b"\n", 1)[0].split(None, 2)
    return int(words[1]) if len(words) > 1 and words[1].isdigit() else 0


def _profile(head: bytes, body: bytes, truncated: str, payload_digest: str, earlier: Earlier | None) -> str:
    """The revisit profile that fits, or empty. A 304 that nobody asked for is an answer like any other."""
    if earlier is None:
        return ""
    if not body and _status(head) == 304:
        return NOT_MODIFIED
    return IDENTICAL if body and not truncated and payload_digest == earlier.payload_digest else ""


def _revisit_fields(profile: str, earlier: Earlier) -> list[tuple[str, str]]:
    """What a revisit says of the capture it refers to (6.7.2, 6.7.3)."""
    fields = [
        ("WARC-Profile", profile),
        # Replay tools look a capture up by these two; WARC-Refers-To alone finds nothing there.
        ("WARC-Refers-To-Target-URI", earlier.target_uri),
        ("WARC-Refers-To-Date", warc_date(earlier.date_ms)),
    ]
    if earlier.record_id:
        fields.append(("WARC-Refers-To", f"<{earlier.record_id}>"))
    if earlier.payload_digest:
        fields.append(("WARC-Payload-Digest", earlier.payload_digest))
    if profile == IDENTICAL:
        fields.append(("WARC-Truncated", "length"))  # 6.7.2 demands it for the body left off
    return fields
