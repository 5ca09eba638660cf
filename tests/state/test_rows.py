"""Rows to bytes and back. Equal rows are equal bytes; the bytes of each class are those that were committed.

Not verified: that every damage is noticed here. A flipped bit in a number is another number; the digests find it.
"""

import struct

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from frontlog.avro.enums import PolicyAct, Reason, SourceKind, State
from frontlog.state.rows import (
    FIRST_FIELDS,
    ROWS,
    AddressRow,
    HostRow,
    PolicyRow,
    Row,
    SiteRow,
    UrlRow,
    encode_first,
)
from support import golden
from support.examples import ROW_EXAMPLES, rows_of

GOLDEN = golden.read(golden.ROWS_FILE)
DAMAGED = (struct.error, ValueError, IndexError)
EACH = pytest.mark.parametrize("cls", ROWS, ids=lambda cls: cls.__name__)


def seed_row(**fields: object) -> UrlRow:
    return UrlRow("http://a/", State.ELIGIBLE, Reason.SEED, SourceKind.SEED, **fields)  # type: ignore[arg-type]


@EACH
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_any_row_comes_back_as_it_was(cls: type[Row], data: st.DataObject) -> None:
    row = data.draw(rows_of(cls))
    again = cls.decode(row.encode())
    assert again == row
    assert type(again) is cls
    assert again.encode() == row.encode()


@EACH
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_rows_are_equal_when_their_bytes_are(cls: type[Row], data: st.DataObject) -> None:
    one, another = data.draw(rows_of(cls)), data.draw(rows_of(cls))
    field = data.draw(st.sampled_from(cls.__struct_fields__))
    other = msgspec.structs.replace(one, **{field: getattr(another, field)})
    assert (one == other) == (one.encode() == other.encode())


@given(row=rows_of(UrlRow))
def test_a_row_of_a_new_url_has_the_bytes_of_any_row(row: UrlRow) -> None:
    fields = {name: getattr(row, name) for name in FIRST_FIELDS}
    assert encode_first(*fields.values()) == UrlRow(**fields).encode()


@pytest.mark.parametrize("chain", [(), ("",), ("", ""), ("a",), ("a", ""), ("", "a"), ("", "é", "")])
def test_a_tuple_keeps_its_empty_strings(chain: tuple[str, ...]) -> None:
    row = HostRow("a", seeds=chain)
    assert HostRow.decode(row.encode()).seeds == chain


def test_neighbouring_strings_are_kept_apart() -> None:
    rows = [
        PolicyRow(PolicyAct.BLOCK, actor=actor, note=note)
        for actor, note in [("ab", ""), ("a", "b"), ("", "ab")]
    ]
    assert len({row.encode() for row in rows}) == 3
    assert [PolicyRow.decode(row.encode()) for row in rows] == rows


def test_the_layout_is_what_the_module_says() -> None:
    # Fixed numbers, big endian, 8 bytes each; an enum and a bool one byte; no variable field.
    assert AddressRow(next_ms=1, in_flight=-1, tail_ms=2).encode() == struct.pack(">qqq", 1, -1, 2)
    assert SiteRow(policy_seq=7, paused=True, linked=9).encode() == struct.pack(
        ">q????qI", 7, False, True, False, False, 0, 9
    )
    assert seed_row().encode()[0] == list(State).index(State.ELIGIBLE)


def test_every_row_class_has_golden_bytes() -> None:
    assert GOLDEN.keys() == ROW_EXAMPLES.keys() == {cls.__name__ for cls in ROWS}


@EACH
def test_the_example_has_its_golden_bytes(cls: type[Row]) -> None:
    example = ROW_EXAMPLES[cls.__name__]
    assert example.encode().hex() == GOLDEN[cls.__name__].hex(), golden.__doc__
    assert cls.decode(GOLDEN[cls.__name__]) == example


@EACH
def test_a_row_that_was_cut_or_has_bytes_left_over_raises(cls: type[Row]) -> None:
    data = ROW_EXAMPLES[cls.__name__].encode()
    for length in range(len(data)):
        with pytest.raises(DAMAGED):
            cls.decode(data[:length])
    with pytest.raises(ValueError, match=f"row has {len(data) + 1} bytes, wanted {len(data)}"):
        cls.decode(data + b"\0")


@EACH
@given(data=st.data())
def test_damage_gives_a_row_or_one_of_three_errors(cls: type[Row], data: st.DataObject) -> None:
    whole = bytearray(ROW_EXAMPLES[cls.__name__].encode())
    for _ in range(data.draw(st.integers(1, 3))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    try:
        assert type(cls.decode(bytes(whole))) is cls
    except DAMAGED:
        return


def test_an_enum_beyond_its_symbols_and_text_that_is_not_utf_8_raise() -> None:
    data = seed_row().encode()
    with pytest.raises(IndexError):
        UrlRow.decode(b"\xff" + data[1:])
    with pytest.raises(UnicodeDecodeError):
        UrlRow.decode(data.replace(b"http", b"\xfftp:"))


@pytest.mark.parametrize(
    "fields", [{"depth": -1}, {"depth": 1 << 16}, {"fence": 1 << 32}, {"due_ms": 1 << 63}]
)
def test_a_number_that_does_not_fit_is_not_written_cut(fields: dict[str, int]) -> None:
    with pytest.raises(struct.error):
        seed_row(**fields).encode()


@EACH
def test_a_row_cannot_be_changed(cls: type[Row]) -> None:
    with pytest.raises(AttributeError):
        setattr(ROW_EXAMPLES[cls.__name__], cls.__struct_fields__[0], 1)


def test_a_page_is_what_its_last_success_brought_unless_it_redirected() -> None:
    assert seed_row(last_success_ms=1).brought_page
    assert not seed_row().brought_page
    assert not seed_row(last_success_ms=1, location="http://b/").brought_page
