"""Content codings: whole, cut, corrupt, lying, nested, and meant to blow up.

Not verified: memory that the decoders' C code takes for its windows (gzip 32 KiB, br at most 16 MiB).
"""

import gzip
import time
import tracemalloc
import zlib
from collections.abc import Callable

import brotli
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frontlog.fetch.decoding import CHAIN_MAX, MEMBERS_MAX, DecodeStatus, codings_of, decode

TEXT = b"".join(b"<p>line %d of the page</p>\n" % (i * 7919 % 10_007) for i in range(4_000))
MAX = 1_000_000


def raw_deflate(data: bytes) -> bytes:
    coder = zlib.compressobj(wbits=-15)
    return coder.compress(data) + coder.flush()


CODERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "x-gzip": gzip.compress,
    "deflate": zlib.compress,
    "br": brotli.compress,
}


def named_gzip(data: bytes) -> bytes:
    """A member with every optional field of RFC 1952."""
    fields = b"\x04\0abcd" + b"name\0" + b"comment\0" + b"hc"
    return b"\x1f\x8b\x08\x1e\0\0\0\0\0\x03" + fields + gzip.compress(data)[10:]


@pytest.mark.parametrize("coding", CODERS)
def test_whole_bodies(coding: str) -> None:
    for data in (TEXT, b"x", b""):
        decoded = decode(CODERS[coding](data), coding.upper(), MAX)
        assert (decoded.data, decoded.status, decoded.chain) == (data, DecodeStatus.OK, (coding,))


def test_deflate_without_its_header() -> None:
    assert decode(raw_deflate(TEXT), "deflate", MAX).data == TEXT


@pytest.mark.parametrize("value", [None, "", "identity", " , identity,"])
def test_no_coding(value: str | None) -> None:
    decoded = decode(TEXT, value, MAX)
    assert (decoded.data, decoded.status, decoded.chain) == (TEXT, DecodeStatus.OK, ())


@pytest.mark.parametrize("value", ["gzip", "deflate", "br", "zstd", "gzip, br, deflate, gzip"])
def test_no_body(value: str) -> None:
    decoded = decode(b"", value, MAX)
    assert (decoded.data, decoded.status) == (b"", DecodeStatus.OK)


def test_gzip_members_and_what_follows_them() -> None:
    members = gzip.compress(TEXT) + gzip.compress(b"") + gzip.compress(b"end")
    for junk in (b"", b"\0" * 512, b"junk", b"\x1f", b"\x1f\x8b"):
        assert decode(members + junk, "gzip", MAX).data == TEXT + b"end"
        assert decode(members + junk, "gzip", MAX).status is DecodeStatus.OK
    assert decode(gzip.compress(TEXT) * 9, "gzip", 10 * len(TEXT)).data == TEXT * 9


def test_gzip_with_every_optional_field() -> None:
    assert decode(named_gzip(TEXT), "gzip", MAX).data == TEXT
    assert decode(named_gzip(TEXT)[:-4] + b"\0\0\0\0", "gzip", MAX).data == TEXT


@pytest.mark.parametrize("coding", CODERS)
def test_what_was_whole_of_a_cut_body(coding: str) -> None:
    body = CODERS[coding](TEXT)
    longest = 0
    for length in (1, 2, 5, 11, len(body) // 3, len(body) // 2, len(body) - 9, len(body) - 1):
        decoded = decode(body[:length], coding, MAX)
        assert decoded.status is DecodeStatus.TRUNCATED, length
        assert TEXT.startswith(decoded.data)
        assert len(decoded.data) >= longest
        longest = len(decoded.data)
    assert longest > len(TEXT) - 200


@pytest.mark.parametrize(("coding", "at"), [("gzip", -1), ("gzip", -6), ("deflate", -1), ("deflate", -4)])
def test_a_wrong_checksum_loses_nothing(coding: str, at: int) -> None:
    body = bytearray(CODERS[coding](TEXT))
    body[at] ^= 1
    decoded = decode(bytes(body), coding, MAX)
    assert (decoded.data == TEXT, decoded.status) == (True, DecodeStatus.CORRUPT)


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
def test_what_came_before_a_fault_is_kept(coding: str) -> None:
    body = bytearray(CODERS[coding](TEXT))
    middle = len(body) // 2
    body[middle : middle + 64] = b"\xff" * 64
    decoded = decode(bytes(body), coding, MAX)
    assert decoded.status is DecodeStatus.CORRUPT
    assert decoded.data[: len(TEXT) // 3] == TEXT[: len(TEXT) // 3]


@pytest.mark.parametrize("coding", CODERS)
@pytest.mark.parametrize(
    "body", [TEXT, b"<!doctype html><p>x", b"User-agent: *\nDisallow:\n", b"\xef\xbb\xbfhi there"]
)
def test_plain_bodies_that_claim_a_coding(coding: str, body: bytes) -> None:
    decoded = decode(body, coding, MAX)
    assert (decoded.data, decoded.status) == (body, DecodeStatus.PLAIN_DESPITE_HEADER)


def test_a_plain_body_is_held_to_the_cap_too() -> None:
    for coding in (None, "gzip", "zstd"):
        decoded = decode(TEXT, coding, 1_000)
        assert (decoded.data, decoded.status) == (TEXT[:1_000], DecodeStatus.OVERSIZE)


@pytest.mark.parametrize("value", ["zstd", "compress", "utf-8", "none", "aws-chunked", "*"])
def test_codings_that_were_not_offered(value: str) -> None:
    decoded = decode(b"\x28\xb5\x2f\xfdxyz", value, MAX)
    assert (decoded.data, decoded.status) == (b"\x28\xb5\x2f\xfdxyz", DecodeStatus.UNKNOWN_ENCODING)


def test_chains_are_undone_from_the_end() -> None:
    body = brotli.compress(zlib.compress(gzip.compress(TEXT)))
    decoded = decode(body, "gzip, deflate,br", MAX)
    assert (decoded.data, decoded.status, decoded.chain) == (TEXT, DecodeStatus.OK, ("gzip", "deflate", "br"))
    assert len(decoded.chain) == CHAIN_MAX


def test_chains_end_where_they_cannot_be_followed() -> None:
    inner = b"\x28\xb5\x2f\xfdxyz"
    decoded = decode(gzip.compress(inner), "zstd, gzip", MAX)
    assert (decoded.data, decoded.status) == (inner, DecodeStatus.UNKNOWN_ENCODING)
    longer = decode(TEXT, "gzip, gzip, gzip, gzip", MAX)
    assert (longer.data, longer.status) == (TEXT, DecodeStatus.UNKNOWN_ENCODING)


def test_the_first_fault_of_a_chain_is_its_status() -> None:
    inner = gzip.compress(TEXT)
    decoded = decode(gzip.compress(inner)[:-100], "gzip, gzip", MAX)
    assert decoded.status is DecodeStatus.TRUNCATED
    assert TEXT.startswith(decoded.data)
    assert len(decoded.data) > 1_000


@pytest.mark.parametrize("coding", CODERS)
def test_the_cap_is_exact(coding: str) -> None:
    body = CODERS[coding](TEXT)
    whole = decode(body, coding, len(TEXT))
    assert (whole.data == TEXT, whole.status) == (True, DecodeStatus.OK)
    cut = decode(body, coding, len(TEXT) - 1)
    assert (cut.data == TEXT[:-1], cut.status) == (True, DecodeStatus.OVERSIZE)


BOMB_BYTES = 50_000_000


@pytest.mark.parametrize("value", ["gzip", "deflate", "br", "gzip, gzip"])
def test_bombs_stop_at_the_cap(value: str) -> None:
    body = b"\0" * BOMB_BYTES
    for coding in value.split(", "):
        body = brotli.compress(body, quality=1) if coding == "br" else CODERS[coding](body)
    tracemalloc.start()
    started_s = time.process_time()
    decoded = decode(body, value, MAX)
    taken_s, (_, peak_bytes) = time.process_time() - started_s, tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (len(decoded.data), decoded.status) == (MAX, DecodeStatus.OVERSIZE)
    assert peak_bytes < 4 * MAX
    assert taken_s < 0.5


def test_a_million_empty_members_are_an_attack_on_the_clock() -> None:
    body = gzip.compress(b"") * (MEMBERS_MAX * 20)
    started_s = time.process_time()
    assert decode(body, "gzip", MAX).status is DecodeStatus.OVERSIZE
    assert time.process_time() - started_s < 2


@given(st.binary(max_size=300), st.sampled_from(["gzip", "deflate", "br", "gzip, br"]), st.integers(0, 50))
def test_any_bytes_end_within_the_cap(body: bytes, value: str, bytes_max: int) -> None:
    for data in (body, b"\x1f\x8b\x08" + body, b"\x78\x9c" + body, CODERS[value.split(",")[0]](body)):
        assert len(decode(data, value, bytes_max).data) <= bytes_max


@given(st.binary(min_size=1, max_size=2_000), st.data())
def test_one_wrong_byte_never_lengthens_or_raises(data: bytes, draw: st.DataObject) -> None:
    for coding, coder in CODERS.items():
        body = bytearray(coder(data))
        body[draw.draw(st.integers(0, len(body) - 1))] ^= draw.draw(st.integers(1, 255))
        assert len(decode(bytes(body), coding, 5_000).data) <= 5_000


def test_codings_of() -> None:
    assert codings_of("GZip ,, identity , br") == ("gzip", "br")
