"""The bytes of a batch: golden, complete, and noticed when one of them changes."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frontlog.avro.errors import Corrupt, FrontlogError, Incompatible
from frontlog.streams.records import (
    HEADER_BYTES,
    NewRecord,
    decode_batch,
    decode_head,
    encode_batch,
    record_bytes,
)

WHERE = ("control", 3, 77)
HEADERS = st.lists(st.tuples(st.text(max_size=9), st.binary(max_size=20)), max_size=3).map(tuple)
RECORDS = st.builds(
    NewRecord,
    st.one_of(st.integers(-(1 << 50), 1 << 50), st.integers(1_790_000_000_000, 1_790_000_000_300)),
    st.binary(max_size=300),
    st.one_of(st.binary(max_size=300), st.integers(0, 70_000).map(lambda n: b"v" * n)),
    HEADERS,
)
SAMPLE = [
    NewRecord(1_790_000_000_000, b"https://example.org:443", b"discovered", (("trace", b"\x01"),)),
    NewRecord(1_790_000_000_007, b"https://example.org:443", b"eligible"),
]


@given(
    st.lists(RECORDS, max_size=20),
    st.integers(0, 1 << 63),
    st.one_of(st.none(), st.integers(-(1 << 50), 1 << 50)),
    st.integers(0, (1 << 32) - 1),
)
def test_what_goes_in_comes_out(records: list[NewRecord], base: int, top_ms: int | None, gap: int) -> None:
    data = encode_batch(records, base, top_ms, gap)
    assert [tuple(record) for record in decode_batch(data, WHERE)] == [
        (base + n, *record) for n, record in enumerate(records)
    ]
    head = decode_head(data, WHERE)
    times = [record.timestamp_ms for record in records] + ([] if top_ms is None else [top_ms])
    assert (head.base_offset, head.gap, head.next_offset) == (base, gap, base + len(records))
    assert head.top_ms == max(times, default=0)
    assert head.base_ms == min((record.timestamp_ms for record in records), default=0)


def test_golden_bytes() -> None:
    """Format 1 stays readable: these bytes were written once and are in logs."""
    assert encode_batch(SAMPLE[:1], 77, None, 2).hex() == GOLDEN_STORED
    assert [tuple(r) for r in decode_batch(bytes.fromhex(GOLDEN_STORED), WHERE)] == [(77, *SAMPLE[0])]
    assert [tuple(r) for r in decode_batch(bytes.fromhex(GOLDEN_ZSTD), WHERE)] == [
        (5, *SAMPLE[0]),
        (6, *SAMPLE[1]),
        *((7 + n, *SAMPLE[1]) for n in range(8)),
    ]


GOLDEN_STORED = (
    "b1bd3153f11de4c4130000000001000000000000004d00000002000001a0c4506c00000001a0c4506c00000000340001"
    "17010a010c68747470733a2f2f6578616d706c652e6f72673a343433646973636f766572656400057472616365000000"
    "0101"
)
GOLDEN_ZSTD = (
    "b1d7acf240d860ba2a010000000a000000000000000500000000000001a0c4506c00000001a0c4506c070000017028b5"
    "2ffd6070009d020004040100070117010a08010c0068747470733a2f2f6578616d706c652e6f72673a34343364697363"
    "6f7665726564656c696769626c650005747261636500000001010600ba22854c9d5400e20071a03402b801"
)


def test_compression_is_used_when_it_helps() -> None:
    noise = random.Random(1).randbytes(4000)
    for records, codec in (
        (SAMPLE[:1], 0),
        ([NewRecord(0, b"", noise)], 0),
        (SAMPLE * 20, 1),
    ):
        data = encode_batch(records, 0, None)
        head = decode_head(data, WHERE)
        assert head.codec == codec
        raw = HEADER_BYTES + head.body_bytes
        assert len(data) == raw if codec == 0 else len(data) < raw / 3


@pytest.mark.parametrize("records", [SAMPLE[:1], SAMPLE * 20], ids=["stored", "zstd"])
def test_each_changed_byte_is_noticed(records: list[NewRecord]) -> None:
    data = encode_batch(records, 77, None)
    for at in range(len(data)):
        for change in (0x01, 0x80, 0xFF):
            damaged = bytearray(data)
            damaged[at] ^= change
            with pytest.raises(FrontlogError, match="control/3 at offset 77") as caught:
                decode_batch(bytes(damaged), WHERE)
            assert type(caught.value) is (Incompatible if at == 0 else Corrupt)


def test_each_cut_is_noticed() -> None:
    data = encode_batch(SAMPLE * 20, 77, None)
    for size in range(len(data)):
        with pytest.raises(Corrupt, match="control/3 at offset 77"):
            decode_batch(data[:size], WHERE)
    with pytest.raises(Corrupt):
        decode_batch(data + b"\0", WHERE)


def test_the_size_of_a_record_counts_its_headers() -> None:
    assert record_bytes(SAMPLE[0]) == 23 + 10 + 5 + 1
    assert record_bytes(SAMPLE[1]) == 23 + 8
