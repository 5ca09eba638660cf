"""Content codings undone under a cap, so that neither a bomb nor a lie of a server costs more than the cap.

Automatic decoders fail in both directions: they take a truncated gzip body as whole, and lose a plain
body that claims to be gzip. Here every ending has its own status, and whatever could be decoded is kept.

Decoded are gzip (also `x-gzip`, several members, junk after the last), deflate (zlib as RFC 9110 §8.4.1.2
says, and the raw form that servers send) and br. `ACCEPT_ENCODING` offers gzip and br only: deflate is
ambiguous, and zstd bodies cannot be read back by today's WARC readers. An unoffered coding ends the chain
with the bytes as they are.
"""

from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import Final

import brotli
import msgspec
from isal import isal_zlib

ACCEPT_ENCODING: Final = "gzip, br"
CHAIN_MAX = 3
MEMBERS_MAX = 4096
SLICE_BYTES = 65_536
SALVAGE_SLICE_BYTES = 128
GZIP_MAGIC = b"\x1f\x8b\x08"
GZIP_HCRC, GZIP_EXTRA, GZIP_NAME, GZIP_COMMENT = 2, 4, 8, 16
RAW, ZLIB, GZIP = -15, 15, 31


class DecodeStatus(StrEnum):
    """How the decoding of a body ended; `later`: it was left to whoever parses it."""

    OK = "ok"
    TRUNCATED = "truncated"
    CORRUPT = "corrupt"
    PLAIN_DESPITE_HEADER = "plain_despite_header"
    OVERSIZE = "oversize"
    UNKNOWN_ENCODING = "unknown_encoding"
    LATER = "later"


WHOLE = frozenset({DecodeStatus.OK, DecodeStatus.PLAIN_DESPITE_HEADER})
"""What is all there, decoded."""
LEFT = frozenset({"gzip", "br"})
"""Values of Content-Encoding that whoever parses a page may undo, in place of the process that fetches."""


class Decoded(msgspec.Struct, frozen=True):
    """A decoded body. `data` is what could be had, at most the cap; `chain` the codings as applied."""

    data: bytes
    status: DecodeStatus
    chain: tuple[str, ...]


Outcome = tuple[bytes, DecodeStatus]


def decode(body: bytes, content_encoding: str | None, decoded_bytes_max: int) -> Decoded:
    """Undo the codings of a Content-Encoding value, the last applied first; never raises.

    Every stage is held to the cap; the first ending that is not `ok` is the status of the whole.
    """
    chain = codings_of(content_encoding)
    if not chain or not body:
        oversize = len(body) > decoded_bytes_max
        return Decoded(
            body[:decoded_bytes_max], DecodeStatus.OVERSIZE if oversize else DecodeStatus.OK, chain
        )
    if len(chain) > CHAIN_MAX:
        return Decoded(body[:decoded_bytes_max], DecodeStatus.UNKNOWN_ENCODING, chain)
    data, status = body, DecodeStatus.OK
    for coding in reversed(chain):
        decoder = DECODERS.get(coding)
        data, stage = decoder(data, decoded_bytes_max) if decoder else (data, DecodeStatus.UNKNOWN_ENCODING)
        if status is DecodeStatus.OK:
            status = stage
        if stage is DecodeStatus.UNKNOWN_ENCODING or not data:
            break
    if len(data) > decoded_bytes_max:  # kept as it came, and longer than a decoded body may be
        data, status = data[:decoded_bytes_max], DecodeStatus.OVERSIZE
    return Decoded(data, status, chain)


def codings_of(content_encoding: str | None) -> tuple[str, ...]:
    """The codings of a header value in the order in which they were applied, without `identity`."""
    if not content_encoding:
        return ()
    names = (part.strip().lower() for part in content_encoding.split(","))
    return tuple(name for name in names if name and name != "identity")


def gunzip(data: bytes, bytes_max: int) -> Outcome:
    """Undo gzip (RFC 1952): every member, to the end or to what is no member."""
    if not data.startswith(GZIP_MAGIC[: len(data)]):
        return data, DecodeStatus.PLAIN_DESPITE_HEADER
    whole, out, at, size = memoryview(data), list[bytes](), 0, 0
    for _ in range(MEMBERS_MAX):
        used, pieces, status = inflate(whole[at:], GZIP, bytes_max - size)
        if status is DecodeStatus.CORRUPT:
            pieces = salvage(whole[at:], gzip_header_bytes(data, at), bytes_max - size)
        out += pieces
        size += sum(map(len, pieces))
        at += used
        if status is not DecodeStatus.OK or data[at : at + 3] != GZIP_MAGIC:
            return b"".join(out)[:bytes_max], status
    return b"".join(out), DecodeStatus.OVERSIZE  # so many members are an attack on the clock


def inflate_http(data: bytes, bytes_max: int) -> Outcome:
    """Undo deflate: the zlib format (RFC 1950), else raw (RFC 1951), else taken for plain."""
    zlib_format = len(data) >= 2 and data[0] & 0x0F == 8 and (data[0] << 8 | data[1]) % 31 == 0
    view = memoryview(data)
    _, pieces, status = inflate(view, ZLIB if zlib_format else RAW, bytes_max)
    if status is DecodeStatus.CORRUPT:
        pieces = salvage(view, 2 if zlib_format else 0, bytes_max)
        if not zlib_format and looks_plain(data):
            return data, DecodeStatus.PLAIN_DESPITE_HEADER
    return b"".join(pieces)[:bytes_max], status


def unbrotli(data: bytes, bytes_max: int) -> Outcome:
    """Undo br (RFC 7932), slice by slice, since the decoder gives nothing of a slice that fails."""
    decoder, out, size = brotli.Decompressor(), list[bytes](), 0
    try:
        for part in slices(data, SLICE_BYTES):
            while piece := decoder.process(part, output_buffer_limit=SLICE_BYTES):
                out.append(piece)
                size += len(piece)
                if size > bytes_max:
                    return b"".join(out)[:bytes_max], DecodeStatus.OVERSIZE
                if decoder.is_finished():  # what follows the end is junk
                    break
                part = b""  # what it holds back comes first
            if decoder.is_finished():
                return b"".join(out), DecodeStatus.OK
    except brotli.error:
        if looks_plain(data):
            return data, DecodeStatus.PLAIN_DESPITE_HEADER
        return b"".join(out), DecodeStatus.CORRUPT
    return b"".join(out), DecodeStatus.TRUNCATED


def inflate(data: memoryview, form: int, bytes_max: int) -> tuple[int, list[bytes], DecodeStatus]:
    """(bytes used, pieces, status) of one compressed stream; pieces hold at most one byte over the cap."""
    stream = isal_zlib.decompressobj(form)
    out, size, at = list[bytes](), 0, 0
    try:
        while at < len(data):
            part = data[at : at + SLICE_BYTES]
            piece = stream.decompress(part, bytes_max - size + 1)
            out.append(piece)
            at += len(part)
            size += len(piece)
            if size > bytes_max:
                return at, out, DecodeStatus.OVERSIZE
            if stream.eof:
                return at - len(stream.unused_data), out, DecodeStatus.OK
    except isal_zlib.error:
        return at, out, DecodeStatus.CORRUPT
    return at, out, DecodeStatus.TRUNCATED


def salvage(data: memoryview, header_bytes: int, bytes_max: int) -> list[bytes]:
    """What a broken stream gave before it broke; its checksum is not asked.

    A call that fails gives none of its output, so the stream is read again in small slices.
    """
    stream = isal_zlib.decompressobj(RAW)
    out, size = list[bytes](), 0
    try:
        for at in range(header_bytes, len(data), SALVAGE_SLICE_BYTES):
            piece = stream.decompress(data[at : at + SALVAGE_SLICE_BYTES], bytes_max - size + 1)
            out.append(piece)
            size += len(piece)
            if size > bytes_max or stream.eof:
                break
    except isal_zlib.error:
        pass
    return out


def gzip_header_bytes(data: bytes, at: int) -> int:
    """How long the header of the member at `at` is (RFC 1952 §2.3); past the end when it is cut."""
    flags = data[at + 3] if len(data) > at + 3 else 0
    end = at + 10
    if flags & GZIP_EXTRA:
        end += 2 + int.from_bytes(data[end : end + 2], "little")
    for flag in (GZIP_NAME, GZIP_COMMENT):
        if flags & flag:
            zero = data.find(b"\0", end)
            end = len(data) if zero < 0 else zero + 1
    return end + (2 if flags & GZIP_HCRC else 0) - at


def looks_plain(data: bytes) -> bool:
    """Whether the first kilobyte is text: no control bytes but white space (MIME Sniffing §3, §7.1)."""
    return not any(b < 32 and b not in b"\t\n\f\r\x1b" for b in data[:1024])


def slices(data: bytes, slice_bytes: int) -> Iterator[bytes]:
    """The data in slices, the last one shorter."""
    for at in range(0, len(data), slice_bytes):
        yield data[at : at + slice_bytes]


DECODERS: dict[str, Callable[[bytes, int], Outcome]] = {
    "gzip": gunzip,
    "x-gzip": gunzip,
    "deflate": inflate_http,
    "br": unbrotli,
}
