"""The head row comes back as it was saved, and a damaged one is Corrupt."""

from collections.abc import Iterator

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frontlog.avro.errors import Corrupt
from frontlog.state import head
from frontlog.state.catalogue import DIGESTED, META, STORE_TABLES
from frontlog.state.digest import recount
from frontlog.state.head import Head
from frontlog.state.memory_store import MemoryStore
from frontlog.state.store import Txn

ROWS = [(b"k", b"v"), (b"l", b"")]
SAVED = Head(
    seq=7,
    owner_token=3,
    at_ms=1_790_000_000_000,
    log_hash=bytes(range(32)),
    fold_version=1,
    partitions=4,
    psl_version="2026-01-01",
    positions={"discoveries": 5, "control": 0},
    next={"transitions": 9},
    digests={"urls": (recount(ROWS).value(), 2)},
)


@pytest.fixture
def txn() -> Iterator[Txn]:
    store = MemoryStore(STORE_TABLES)
    with store.begin(write=True) as opened:
        yield opened
    store.close()


def test_an_empty_store_has_a_new_head(txn: Txn) -> None:
    assert head.load(txn) == Head()
    assert Head().seq == 0
    assert Head().log_hash == bytes(32)


def test_a_head_comes_back_as_it_was(txn: Txn) -> None:
    head.save(txn, SAVED)
    assert head.load(txn) == SAVED
    head.save(txn, msgspec.structs.replace(SAVED, seq=8))
    assert head.load(txn).seq == 8


def test_equal_heads_are_equal_bytes(txn: Txn) -> None:
    head.save(txn, SAVED)
    first = txn.get(META.name, head.KEY)
    turned = dict(reversed(SAVED.positions.items()))
    head.save(txn, msgspec.structs.replace(SAVED, positions=turned))
    assert txn.get(META.name, head.KEY) == first


def test_its_digests_go_on_from_where_they_were() -> None:
    digests = SAVED.table_digests()
    assert digests.keys() == set(DIGESTED)
    digests["urls"].add(b"m", b"w")
    assert digests["urls"].value() == recount([*ROWS, (b"m", b"w")]).value()
    assert digests["urls"].rows == 3
    assert (digests["due"].value(), digests["due"].rows) == (bytes(16), 0)
    assert SAVED.table_digests()["urls"].rows == 2, "a copy moves, not the head"


def broken(data: bytes) -> None:
    store = MemoryStore(STORE_TABLES)
    with store.begin(write=True) as txn:
        txn.put(META.name, head.KEY, data)
        with pytest.raises(Corrupt, match=r"head row .* rebuild: frontlog replay rebuild"):
            head.load(txn)
    store.close()


def test_a_head_that_was_cut_is_corrupt() -> None:
    data = msgspec.msgpack.encode(SAVED)
    for length in range(len(data)):
        broken(data[:length])
    broken(data + b"\0")


@pytest.mark.parametrize(
    "value", [7, [], {"seq": "7"}, {"positions": {"control": None}}, {"digests": {"urls": [b""]}}]
)
def test_a_head_of_other_types_is_corrupt(value: object) -> None:
    broken(msgspec.msgpack.encode(value))


@given(st.data())
def test_damage_gives_a_head_or_corrupt_and_nothing_else(data: st.DataObject) -> None:
    whole = bytearray(msgspec.msgpack.encode(SAVED))
    for _ in range(data.draw(st.integers(1, 3))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    store = MemoryStore(STORE_TABLES)
    with store.begin(write=True) as txn:
        txn.put(META.name, head.KEY, bytes(whole))
        try:
            assert isinstance(head.load(txn), Head)
        except Corrupt as exc:
            assert exc.exit_code == 4
    store.close()
