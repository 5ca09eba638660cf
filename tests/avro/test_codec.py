"""Events to bytes and back; bytes that are no event say what is wrong with them.

Not verified: that every damage is noticed. A flipped bit inside a string is another string; against that stand
the log's hashes.
"""

import io
import math
import struct
from typing import Any, TypeVar, cast

import fastavro
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from frontlog.avro import codec
from frontlog.avro.codec import FRAME_BYTES, MARKER, Undecodable, body_of, decode, encode, schema_fingerprint
from frontlog.avro.errors import FrontlogError
from frontlog.avro.events import RECORDS, Event, FirstSeen, Position, Transition
from frontlog.avro.schemas import Json, fingerprint, inlined, load_all
from support.examples import EVENT_EXAMPLES, events_of

T = TypeVar("T", bound=Event)
POSITION = Position(topic="control", from_offset=1, to_offset=-2)


@pytest.mark.parametrize("cls", RECORDS, ids=lambda cls: cls.__name__)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_any_event_comes_back_as_it_was(cls: type[Event], data: st.DataObject) -> None:
    event = data.draw(events_of(cls))
    encoded = encode(event)
    assert decode(encoded) == event
    assert type(decode(encoded)) is cls
    assert encoded == MARKER + schema_fingerprint(cls) + body_of(encoded)
    assert encode(decode(encoded)) == encoded


@settings(max_examples=50, deadline=None)
@given(data=st.data())
def test_fields_that_are_read_together_are_read_as_apart(data: st.DataObject) -> None:
    # Most of their fields as they are by default, as in a log: what one event left to remember serves the next.
    first = _usual(data, FirstSeen)
    event = replace(_usual(data, Transition), first=data.draw(st.none() | st.just(first)))
    encoded = encode(event)
    for _ in range(2):
        assert decode(encoded) == event
        with pytest.raises(Undecodable):
            decode(encoded[: data.draw(st.integers(FRAME_BYTES, len(encoded) - 1))])
    plain = cast("Any", fastavro).schemaless_reader(
        io.BytesIO(body_of(encoded)), fastavro.parse_schema(inlined("Transition")), None
    )
    assert (plain["seq"], plain["detail"], plain["cause_topic"]) == (
        event.seq,
        event.detail,
        event.cause_topic,
    )
    assert (plain["fence"], plain["lease_owner"], plain["failures"]) == (
        event.fence,
        event.lease_owner,
        event.failures,
    )


def _usual(data: st.DataObject, cls: type[T]) -> T:
    """An event with one or two fields that are not as usual."""
    drawn: dict[str, Any] = codec.asdict(data.draw(events_of(cls)))
    fields = {field.name: field for field in msgspec.structs.fields(cls)}
    other = data.draw(st.sets(st.sampled_from(sorted(fields)), max_size=2))
    return cls(**{name: drawn[name] for name, field in fields.items() if field.required or name in other})


def test_the_bytes_are_those_of_the_avro_specification() -> None:
    # Avro 1.12, "Binary encoding": length and numbers as zig-zag varints.
    assert body_of(encode(POSITION)) == b"\x0econtrol" + b"\x02" + b"\x03"
    assert encode(POSITION)[:2] == b"\xc3\x01"


@pytest.mark.parametrize("number", [math.inf, -math.inf, -0.0, 5e-324])
def test_a_double_keeps_its_bits(number: float) -> None:
    event = EVENT_EXAMPLES["ParseFacts"]
    cls = type(event)
    again = decode(encode(cls(**{**codec.asdict(event), "text_ratio": number})))
    assert struct.pack("<d", codec.asdict(again)["text_ratio"]) == struct.pack("<d", number)


# Avro 1.12, "Schema Fingerprints": the values of the project's own test table.
SPEC = {"null": 7195948357588979594, "boolean": -6970731678124411036, "int": 8247732601305521295}


@pytest.mark.parametrize("name", SPEC)
def test_the_fingerprint_of_a_primitive_is_that_of_the_specification(name: str) -> None:
    assert fingerprint(name) == struct.pack("<q", SPEC[name])


def test_every_record_has_a_fingerprint_of_its_own() -> None:
    marks = {schema_fingerprint(cls) for cls in RECORDS}
    assert len(marks) == len(RECORDS)
    assert all(fingerprint(inlined(cls.__name__)) in marks for cls in RECORDS)


@pytest.mark.parametrize(
    "data", [b"", b"\xc3", b"\xc3\x01", b"\xc3\x01\0\0\0", b'{"cmd":"pause"}', b"\0" * 40]
)
def test_bytes_without_the_frame_are_named(data: bytes) -> None:
    with pytest.raises(Undecodable, match=f"starts with {data[:2].hex() or 'nothing'}, wanted c301"):
        decode(data)


def test_an_unknown_fingerprint_is_named() -> None:
    data = MARKER + bytes(range(8)) + body_of(encode(POSITION))
    with pytest.raises(Undecodable, match=r"fingerprint 0001020304050607: .*upgrade"):
        decode(data)


def test_the_fingerprint_of_something_that_is_no_event_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    other: Json = {"type": "record", "name": "Other", "namespace": "frontlog", "fields": []}
    monkeypatch.setattr(codec, "released", lambda: {fingerprint(other): other})
    with pytest.raises(Undecodable, match=fingerprint(other).hex()):
        decode(MARKER + fingerprint(other))


@pytest.mark.parametrize("name", EVENT_EXAMPLES)
def test_an_event_that_was_cut_anywhere_is_damaged(name: str) -> None:
    data = encode(EVENT_EXAMPLES[name])
    for length in range(FRAME_BYTES, len(data)):
        with pytest.raises(Undecodable, match=f"damaged Avro body under fingerprint {data[2:10].hex()}"):
            decode(data[:length])


@pytest.mark.parametrize("name", EVENT_EXAMPLES)
def test_bytes_behind_an_event_are_counted_and_named(name: str) -> None:
    with pytest.raises(Undecodable, match=f"3 bytes left over behind a {name}"):
        decode(encode(EVENT_EXAMPLES[name]) + b"abc")


@given(name=st.sampled_from(sorted(EVENT_EXAMPLES)), data=st.data())
def test_damage_gives_an_event_or_undecodable_and_nothing_else(name: str, data: st.DataObject) -> None:
    whole = bytearray(encode(EVENT_EXAMPLES[name]))
    for _ in range(data.draw(st.integers(1, 4))):
        whole[data.draw(st.integers(FRAME_BYTES, len(whole) - 1))] = data.draw(st.integers(0, 255))
    try:
        event = decode(bytes(whole))
    except Undecodable as exc:
        assert str(exc)
    else:
        assert type(event).__name__ == name


@given(st.binary(max_size=200))
def test_a_body_of_noise_gives_an_event_or_undecodable(noise: bytes) -> None:
    for cls in RECORDS:
        try:
            assert type(decode(MARKER + schema_fingerprint(cls) + noise)) is cls
        except Undecodable:
            continue


def test_undecodable_is_one_of_our_errors() -> None:
    assert issubclass(Undecodable, FrontlogError)


def test_an_enum_symbol_out_of_range_is_damaged() -> None:
    # A Verdict is the second field of a ContentVerdict: an empty string, then its index.
    data = MARKER + schema_fingerprint(type(EVENT_EXAMPLES["ContentVerdict"])) + b"\0" + b"\x7e"
    assert len(load_all()["Verdict"]["symbols"]) < 0x3F
    with pytest.raises(Undecodable, match="damaged"):
        decode(data)
