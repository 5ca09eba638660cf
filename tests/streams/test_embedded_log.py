"""What the embedded log adds: one commit with the tables, cuts, copies that keep offsets, damage that shows.

Not verified: bytes that were changed together with their checksum (the log's hash chain is for that).
"""

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from frontlog.avro.errors import Corrupt, FrontlogError, OffsetOutOfRange
from frontlog.state.lmdb_store import LmdbStore
from frontlog.state.memory_store import MemoryStore
from frontlog.state.store import Item, Store
from frontlog.streams.embedded_log import CUT_BATCHES_MAX, EmbeddedLog
from frontlog.streams.records import BATCH_BYTES_MAX, RECORD_BYTES_MAX, NewRecord, Record

TOPICS = {"transitions": 4, "control": 3}
TABLES = ("log", "urls")
TOPIC = "transitions"


@pytest.fixture(params=["memory", "lmdb"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    made: Store = MemoryStore(TABLES)
    if request.param == "lmdb":
        made = LmdbStore(tmp_path / "store", TABLES, durability="none")
    yield made
    made.close()


def new(*times: int) -> list[NewRecord]:
    return [NewRecord(time, b"k", b"v%d" % time) for time in times]


def append(log: EmbeddedLog, records: list[NewRecord], partition: int = 0) -> int:
    with log.begin() as txn:
        base = txn.append(TOPIC, partition, records)
        txn.commit()
    return base


def times_of(log: EmbeddedLog, offset: int | None = None) -> list[int]:
    start = log.bounds(TOPIC, 0)[0] if offset is None else offset
    return [record.timestamp_ms for record in log.scan(TOPIC, 0, start)]


def stored(store: Store) -> list[Item]:
    with store.begin() as txn:
        return list(txn.scan("log"))


@pytest.mark.parametrize("commit", [True, False])
def test_log_and_tables_are_one_commit(store: Store, commit: bool) -> None:
    log = EmbeddedLog(store, TOPICS)
    append(log, new(1))
    with store.begin(write=True) as txn:
        inside = log.within(txn)
        assert inside.append(TOPIC, 0, new(2, 3)) == 1
        txn.put("urls", b"u", b"row")
        assert inside.bounds(TOPIC, 0) == (0, 3)
        assert [r.timestamp_ms for r in inside.read(TOPIC, 0, 1)] == [2, 3]
        assert log.within(txn).append(TOPIC, 0, new(4)) == 3
        assert log.bounds(TOPIC, 0) == (0, 1)
        if commit:
            txn.commit()
    assert times_of(log) == ([1, 2, 3, 4] if commit else [1])
    with store.begin() as txn:
        assert txn.get("urls", b"u") == (b"row" if commit else None)


def test_a_cut_deletes_whole_batches_and_keeps_offsets(store: Store) -> None:
    log = EmbeddedLog(store, TOPICS)
    for start in range(0, 12, 4):
        append(log, new(*range(start, start + 4)))
    append(log, new(99), partition=1)
    assert log.cut(TOPIC, 0, 3) == 0
    assert log.cut(TOPIC, 0, 7) == 1
    assert log.bounds(TOPIC, 0) == (4, 12)
    assert times_of(log) == list(range(4, 12))
    with pytest.raises(OffsetOutOfRange, match="4 up to, not including, 12; 3 was asked for"):
        log.read(TOPIC, 0, 3)
    with pytest.raises(OffsetOutOfRange):
        log.cut(TOPIC, 0, 13)
    assert log.cut(TOPIC, 0, 12) == 2
    assert log.bounds(TOPIC, 0) == (12, 12)
    assert log.cut(TOPIC, 0, 12) == 0
    assert log.read(TOPIC, 0, 12) == []
    assert times_of(log) == []
    assert log.offset_at(TOPIC, 0, 0) == 12
    assert append(log, new(5)) == 12
    assert log.bounds(TOPIC, 0) == (12, 13)
    assert times_of(log) == [5]
    assert log.bounds(TOPIC, 1) == (0, 1)


def test_a_long_cut_takes_several_transactions(store: Store) -> None:
    log = EmbeddedLog(store, TOPICS)
    with log.begin() as txn:
        for time in range(CUT_BATCHES_MAX + 5):
            txn.append(TOPIC, 0, new(time))
        assert txn.cut(TOPIC, 0, CUT_BATCHES_MAX + 2) == CUT_BATCHES_MAX
        txn.abort()
    with log.begin() as txn:
        for time in range(CUT_BATCHES_MAX + 5):
            txn.append(TOPIC, 0, new(time))
        txn.commit()
    assert log.cut(TOPIC, 0, CUT_BATCHES_MAX + 2) == CUT_BATCHES_MAX + 2
    assert log.bounds(TOPIC, 0) == (CUT_BATCHES_MAX + 2, CUT_BATCHES_MAX + 5)


def test_a_copy_keeps_offsets_with_their_holes(store: Store) -> None:
    log = EmbeddedLog(store, TOPICS)
    with log.begin() as txn:
        txn.skip_to(TOPIC, 0, 100)
        records = [Record(n, n, b"k", b"v", ()) for n in (101, 102, 105, 106, 110)]
        txn.append_kept(TOPIC, 0, records)
        txn.skip_to(TOPIC, 0, 113)
        with pytest.raises(AssertionError):
            txn.append_kept(TOPIC, 0, records[:1])
        with pytest.raises(AssertionError):
            txn.skip_to(TOPIC, 0, 112)
        txn.commit()
    assert log.bounds(TOPIC, 0) == (100, 113)
    assert list(log.scan(TOPIC, 0, 100)) == records
    for offset in range(100, 114):
        expected = [record for record in records if record.offset >= offset]
        assert log.read(TOPIC, 0, offset) == list(log.scan(TOPIC, 0, offset)) == expected
    assert append(log, new(7)) == 113
    assert times_of(log) == [101, 102, 105, 106, 110, 7]


STEPS = st.one_of(
    st.tuples(st.just("append"), st.lists(st.integers(0, 30), min_size=1, max_size=4)),
    st.tuples(st.just("kept"), st.lists(st.integers(0, 30), min_size=1, max_size=3)),
    st.tuples(st.just("skip"), st.just([0])),
    st.tuples(st.just("cut"), st.lists(st.integers(0, 40), min_size=1, max_size=1)),
)


@settings(deadline=None, max_examples=100)
@given(st.lists(STEPS, max_size=12))
def test_a_log_is_a_list_with_offsets(steps: list[tuple[str, list[int]]]) -> None:
    log = EmbeddedLog(MemoryStore(TABLES), TOPICS)
    batches: list[list[Record]] = []
    following = 0
    for step, numbers in steps:
        with log.begin() as txn:
            if step == "append":
                assert txn.append(TOPIC, 0, new(*numbers)) == following
                batches.append([Record(following + n, *record) for n, record in enumerate(new(*numbers))])
                following += len(numbers)
            elif step == "kept":
                hole = numbers[0] % 3
                records = [Record(following + hole + 2 * n, *r) for n, r in enumerate(new(*numbers))]
                txn.append_kept(TOPIC, 0, records)
                batches += [[record] for record in records]
                following = records[-1].offset + 1
            elif step == "skip":
                following += 3
                txn.skip_to(TOPIC, 0, following)
            else:
                before = min(numbers[0], following)
                txn.cut(TOPIC, 0, before)
                batches = [batch for batch in batches if batch[-1].offset >= before]
            txn.commit()
    model = [record for batch in batches for record in batch]
    first, end = log.bounds(TOPIC, 0)
    assert end == following
    assert first <= (model[0].offset if model else end)
    for offset in range(first, end + 1):
        assert log.read(TOPIC, 0, offset) == [r for r in model if r.offset >= offset]
    assert list(log.scan(TOPIC, 0, first)) == model
    for time in range(-1, 32, 2):
        expected = next((r.offset for r in model if r.timestamp_ms >= time), end)
        assert log.offset_at(TOPIC, 0, time) == expected


def damage(store: Store, change: Callable[[list[Item]], list[Item]]) -> None:
    with store.begin(write=True) as txn:
        rows = list(txn.scan("log"))
        txn.clear("log")
        txn.put_many("log", change(rows))
        txn.commit()


def flip(data: bytes, at: int) -> bytes:
    return data[:at] + bytes((data[at] ^ 0x10,)) + data[at + 1 :]


DAMAGES: dict[str, Callable[[list[Item]], list[Item]]] = {
    "a bit of the body": lambda rows: [
        rows[0],
        (rows[1][0], flip(rows[1][1], -1 % len(rows[1][1]))),
        rows[2],
    ],
    "a bit of the count": lambda rows: [rows[0], (rows[1][0], flip(rows[1][1], 13)), rows[2]],
    "a row of another offset": lambda rows: [rows[0], (rows[1][0], rows[0][1]), rows[2]],
    "a row that is missing": lambda rows: [rows[0], rows[2]],
    "a row cut short": lambda rows: [rows[0], (rows[1][0], rows[1][1][:20]), rows[2]],
}


@pytest.mark.parametrize("change", DAMAGES.values(), ids=DAMAGES.keys())
def test_damage_names_the_place(store: Store, change: Callable[[list[Item]], list[Item]]) -> None:
    log = EmbeddedLog(store, TOPICS)
    for start in (0, 10, 20):
        append(log, new(*range(start, start + 10)))
    damage(store, change)
    for reading in (
        lambda: log.read(TOPIC, 0, 0),
        lambda: times_of(log),
    ):
        with pytest.raises(FrontlogError, match=r"transitions/0 at offset 10\b") as caught:
            reading()
        assert type(caught.value) is Corrupt
    batches = log.batches(TOPIC, 0, 0)
    with pytest.raises(Corrupt):
        list(batches)


def test_a_batch_in_the_place_of_another_is_noticed(store: Store) -> None:
    """The last row says where the log ends: believed blindly, ten records would be written over."""
    log = EmbeddedLog(store, TOPICS)
    for start in (0, 10):
        append(log, new(*range(start, start + 10)))
    damage(store, lambda rows: [rows[0], (rows[1][0], rows[0][1])])
    for use in (
        lambda: log.bounds(TOPIC, 0),
        lambda: log.read(TOPIC, 0, 10),
        lambda: log.cut(TOPIC, 0, 5),
        lambda: log.offset_at(TOPIC, 0, 5),
        lambda: append(log, new(1)),
    ):
        with pytest.raises(
            Corrupt, match="transitions/0 at offset 10: the batch of offset 0 is stored there"
        ):
            use()


def test_large_appends_are_stored_in_bounded_batches(store: Store) -> None:
    log = EmbeddedLog(store, TOPICS)
    large = [NewRecord(n, b"k", bytes((n,)) * (BATCH_BYTES_MAX // 3)) for n in range(8)]
    large.insert(3, NewRecord(9, b"", bytes(RECORD_BYTES_MAX)))
    append(log, large)
    assert [tuple(r)[1:] for r in log.scan(TOPIC, 0, 0)] == [tuple(r) for r in large]
    assert [int.from_bytes(key[-8:]) for key, _ in stored(store)] == [0, 2, 3, 4, 6, 8]
    with pytest.raises(AssertionError, match=str(RECORD_BYTES_MAX)):
        append(log, [NewRecord(0, b"k", bytes(RECORD_BYTES_MAX))])
    assert log.bounds(TOPIC, 0) == (0, 9)


def test_a_scan_survives_a_cut_behind_it_and_says_so_before_it(store: Store) -> None:
    log = EmbeddedLog(store, TOPICS)
    noise = random.Random(1)
    for start in range(0, 3000, 100):
        append(log, [NewRecord(n, b"k", noise.randbytes(1500)) for n in range(start, start + 100)])
    behind = log.scan(TOPIC, 0, 1000)
    assert next(behind).offset == 1000
    log.cut(TOPIC, 0, 1000)
    assert len(list(behind)) == 1999
    overtaken = log.batches(TOPIC, 0, 1000)
    next(overtaken)
    log.cut(TOPIC, 0, 3000)
    with pytest.raises(OffsetOutOfRange):
        list(overtaken)


@pytest.mark.parametrize("topics", [{"a": 1, "b": 1}, {"a": 256}, {"a": -1}])
def test_topic_ids_are_distinct_bytes(topics: dict[str, int]) -> None:
    with pytest.raises(AssertionError, match="topic ids"):
        EmbeddedLog(MemoryStore(TABLES), topics)
