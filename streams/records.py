"""Records of the log, and the batches of them that a store holds as one value each.

A batch, all integers big endian (format 1):

    at  bytes  field
     0    1    magic, 0xB1: format 1
     1    8    checksum: xxh3-64 of everything behind this field
     9    1    codec of the body: 0 stored, 1 zstd
    10    4    count of records; 0 marks a position: the log goes on at the base offset
    14    8    base offset: the offset of the first record; the others follow one by one
    22    4    gap: offsets before the base offset that hold no record (0, but for copied logs)
    26    8    base time: the smallest timestamp of the batch, ms, signed
    34    8    top time: the largest timestamp of this partition so far, this batch included, ms, signed
    42    4    bytes of the body before compression
    46         body, compressed by the codec

The body is columns, not records: they are packed and cut by few calls, which takes about half the
time of a varint frame around each record in Python, at the same compressed size.

    for each of: timestamp - base time, key bytes, value bytes, header bytes
        1 byte   width w of the column's numbers: 0, 1, 2, 4 or 8
        w*count  the numbers; w = 0 stands for count zeros
    keys end to end, values end to end, headers end to end

Headers of one record: for each, u16 bytes of the name, the name in UTF-8, u32 bytes of the value,
the value. A record without headers has 0 header bytes.

Base offset minus gap is where the batch before ended. So a batch that is missing shows, although a
log that was copied from Kafka keeps the offsets it had there, with the holes of its markers.

The top time never falls from batch to batch, whatever writers put into timestamps, so that a time
can be looked up by bisection; the first batch whose top time reaches t holds the first record at t
or later. Timestamps are those of the events; the log itself has no clock.
"""

import struct
import threading
from collections.abc import Sequence
from itertools import repeat
from typing import NamedTuple

import xxhash
import zstandard

from frontlog.avro.errors import Corrupt, Incompatible

Headers = tuple[tuple[str, bytes], ...]
Where = tuple[str, int, int]
"""Topic, partition and base offset of a batch, for messages."""

BATCH_RECORDS_MAX = 1_000
BATCH_BYTES_MAX = 1 << 20
RECORD_BYTES_MAX = 4 << 20
"""Bounds of a batch before compression; a record larger than BATCH_BYTES_MAX has a batch of its own."""

HEADER_BYTES = 46
_MAGIC = 0xB1
_STORED, _ZSTD = 0, 1
_ZSTD_LEVEL = 3
_COMPRESS_BYTES_MIN = 128
_HEAD = struct.Struct(">BQBIQIqqI")
_CHECKED_FROM = 9
_NAME = struct.Struct(">H")
_VALUE = struct.Struct(">I")
_WIDTHS = ((0, 1), (1 << 8, 1), (1 << 16, 2), (1 << 32, 4), (1 << 64, 8))
_LETTERS = {1: "B", 2: "H", 4: "I", 8: "Q"}


class NewRecord(NamedTuple):
    """A record to append. `timestamp_ms` is the event's, milliseconds since the epoch, UTC."""

    timestamp_ms: int
    key: bytes
    value: bytes
    headers: Headers = ()


class Record(NamedTuple):
    """A record as it was read."""

    offset: int
    timestamp_ms: int
    key: bytes
    value: bytes
    headers: Headers


class BatchHead(NamedTuple):
    """The fixed part of a stored batch."""

    codec: int
    records: int
    base_offset: int
    gap: int
    base_ms: int
    top_ms: int
    body_bytes: int

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.records


class _Codecs(threading.local):
    # zstd contexts are costly to make and belong to one thread at a time.
    def __init__(self) -> None:
        self.compressor = zstandard.ZstdCompressor(level=_ZSTD_LEVEL)
        self.decompressor = zstandard.ZstdDecompressor()


_codecs = _Codecs()


def record_bytes(record: NewRecord | Record) -> int:
    """Bytes of key, value and headers: what bounds are counted in."""
    size = len(record.key) + len(record.value)
    if record.headers:
        size += sum(len(name) + len(value) for name, value in record.headers)
    return size


def say(where: Where) -> str:
    topic, partition, offset = where
    return f"{topic}/{partition} at offset {offset}"


def top_time(records: Sequence[NewRecord | Record], top_ms: int | None) -> int:
    """The largest timestamp of a partition once a batch is in it; `top_ms` was that before."""
    newest_ms = max((record.timestamp_ms for record in records), default=None)
    if newest_ms is None:
        return top_ms or 0
    return newest_ms if top_ms is None else max(top_ms, newest_ms)


def encode_batch(
    records: Sequence[NewRecord | Record], base_offset: int, top_ms: int | None, gap: int = 0
) -> bytes:
    """The bytes of one batch. `top_ms` is that of the batch before, None for the first of a log."""
    times = [record.timestamp_ms for record in records]
    base_ms = min(times, default=0)
    heads = [_pack_headers(record.headers) if record.headers else b"" for record in records]
    keys = [record.key for record in records]
    values = [record.value for record in records]
    parts = [
        _pack_column([time - base_ms for time in times]),
        _pack_column([len(key) for key in keys]),
        _pack_column([len(value) for value in values]),
        _pack_column([len(head) for head in heads]),
    ]
    body = b"".join(parts + keys + values + heads)
    stored, codec = body, _STORED
    if len(body) >= _COMPRESS_BYTES_MIN:
        packed = _codecs.compressor.compress(body)
        if len(packed) < len(body):
            stored, codec = packed, _ZSTD
    checked = (
        _HEAD.pack(
            _MAGIC, 0, codec, len(records), base_offset, gap, base_ms, top_time(records, top_ms), len(body)
        )[_CHECKED_FROM:]
        + stored
    )
    return bytes((_MAGIC,)) + xxhash.xxh3_64_digest(checked) + checked


def decode_head(data: bytes, where: Where) -> BatchHead:
    """The fixed part of a batch, of which every byte is verified first: Corrupt when one differs."""
    if len(data) < HEADER_BYTES:
        raise Corrupt(f"{say(where)}: a batch of {len(data)} bytes, shorter than its header")
    magic, _, codec, count, base_offset, gap, base_ms, top_ms, body_bytes = _HEAD.unpack_from(data)
    if magic != _MAGIC:
        raise Incompatible(
            f"{say(where)}: batch format 0x{magic:02x}, this version of frontlog reads 0x{_MAGIC:02x}"
        )
    if xxhash.xxh3_64_digest(data[_CHECKED_FROM:]) != data[1:_CHECKED_FROM]:
        raise Corrupt(f"{say(where)}: the batch is damaged (its checksum differs)")
    return BatchHead(codec, count, base_offset, gap, base_ms, top_ms, body_bytes)


def decode_batch(data: bytes, where: Where) -> list[Record]:
    """The records of a batch, verified as by `decode_head`."""
    head = decode_head(data, where)
    if head.records == 0:
        return []
    try:
        body = data[HEADER_BYTES:]
        if head.codec == _ZSTD:
            body = _codecs.decompressor.decompress(body, max_output_size=head.body_bytes)
        if len(body) != head.body_bytes:
            raise ValueError(f"{len(body)} bytes of body, {head.body_bytes} expected")
        return _unpack(body, head)
    except (ValueError, struct.error, zstandard.ZstdError) as exc:
        raise Corrupt(f"{say(where)}: the batch does not decode: {exc}") from exc


def _unpack(body: bytes, head: BatchHead) -> list[Record]:
    count = head.records
    at = 0
    columns: list[Sequence[int]] = []
    for _ in range(4):
        width = body[at]
        letter = _LETTERS.get(width)
        columns.append(struct.unpack_from(f">{count}{letter}", body, at + 1) if letter else (0,) * count)
        at += 1 + width * count
    times, key_bytes, value_bytes, head_bytes = columns
    if at + sum(key_bytes) + sum(value_bytes) + sum(head_bytes) != len(body):
        raise ValueError("lengths that don't add up")
    keys, at = _cut(body, at, key_bytes)
    values, at = _cut(body, at, value_bytes)
    headers = repeat(()) if not any(head_bytes) else map(_unpack_headers, _cut(body, at, head_bytes)[0])
    offsets = range(head.base_offset, head.next_offset)
    base_ms = head.base_ms
    stamps = repeat(base_ms) if not any(times) else [base_ms + delta for delta in times]
    return list(map(Record._make, zip(offsets, stamps, keys, values, headers, strict=False)))


def _cut(body: bytes, at: int, lengths: Sequence[int]) -> tuple[list[bytes], int]:
    """Pieces of these lengths from `at` on, and where they end."""
    pieces: list[bytes] = []
    for length in lengths:
        end = at + length
        pieces.append(body[at:end])
        at = end
    return pieces, at


def _pack_column(numbers: Sequence[int]) -> bytes:
    top = max(numbers, default=0)
    width = 0 if top == 0 else next(width for limit, width in _WIDTHS if top < limit)
    if width == 0:
        return b"\0"
    return struct.pack(f">B{len(numbers)}{_LETTERS[width]}", width, *numbers)


def _pack_headers(headers: Headers) -> bytes:
    parts: list[bytes] = []
    for name, value in headers:
        encoded = name.encode()
        parts += (_NAME.pack(len(encoded)), encoded, _VALUE.pack(len(value)), value)
    return b"".join(parts)


def _unpack_headers(data: bytes) -> Headers:
    headers: list[tuple[str, bytes]] = []
    at = 0
    while at < len(data):
        (size,) = _NAME.unpack_from(data, at)
        at += _NAME.size
        name = data[at : at + size].decode()
        at += size
        (size,) = _VALUE.unpack_from(data, at)
        at += _VALUE.size
        headers.append((name, data[at : at + size]))
        at += size
    if at != len(data):
        raise ValueError("headers longer than their column says")
    return tuple(headers)
