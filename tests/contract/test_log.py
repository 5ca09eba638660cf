"""What every log must do, whatever holds the records. Offsets may have holes, as Kafka's do.

Not verified: who may write (fencing is the topology's), and power cuts.
"""

from itertools import pairwise

import pytest

from frontlog.avro.errors import OffsetOutOfRange
from frontlog.streams.log import Log
from frontlog.streams.records import BATCH_RECORDS_MAX, NewRecord, Record
from support.stores import Logs

TOPIC, OTHER = "discoveries", "control"
T0 = 1_790_000_000_000


def some(count: int, tag: bytes = b"", start: int = 0) -> list[NewRecord]:
    return [
        NewRecord(T0 + n, b"https://example.org:443", b"%s%d" % (tag, n)) for n in range(start, start + count)
    ]


def append(log: Log, records: list[NewRecord], topic: str = TOPIC, partition: int = 0) -> int:
    with log.begin() as txn:
        base = txn.append(topic, partition, records)
        txn.commit()
    return base


def all_of(log: Log, topic: str = TOPIC, partition: int = 0) -> list[Record]:
    return list(log.scan(topic, partition, log.bounds(topic, partition)[0]))


def contents(records: list[Record]) -> list[NewRecord]:
    return [NewRecord(r.timestamp_ms, r.key, r.value, r.headers) for r in records]


def test_a_new_partition_is_empty(log: Log) -> None:
    assert log.bounds(TOPIC, 0) == (0, 0)
    assert log.read(TOPIC, 0, 0) == []
    assert list(log.scan(TOPIC, 0, 0)) == []
    assert log.offset_at(TOPIC, 0, T0) == 0


def test_records_come_back_as_they_were(log: Log) -> None:
    records = [
        NewRecord(T0, b"", b""),
        NewRecord(T0 - 5, b"key", b"\x00\xff" * 40, (("trace", b""), ("größe", b"\x00"), ("trace", b"2"))),
        NewRecord(0, b"k" * 300, b"v" * 70_000),
        NewRecord(T0 + (1 << 33), b"key", b"last"),
    ]
    base = append(log, records)
    found = log.read(TOPIC, 0, base)
    assert contents(found) == records
    assert [type(record) for record in found] == [Record] * 4
    assert found[0].offset == base
    assert all(a.offset < b.offset for a, b in pairwise(found))
    assert log.bounds(TOPIC, 0)[1] > found[-1].offset


def test_only_committed_records_are_read(log: Log) -> None:
    first = append(log, some(3))
    before = log.bounds(TOPIC, 0)
    with log.begin() as txn:
        txn.append(TOPIC, 0, some(5, b"x"))
        txn.append(OTHER, 1, some(2, b"x"))
        assert len(log.read(TOPIC, 0, first)) == 3
    with pytest.raises(ZeroDivisionError), log.begin() as txn:
        txn.append(TOPIC, 0, some(5, b"x"))
        raise ZeroDivisionError
    with log.begin() as txn:
        txn.append(TOPIC, 0, some(5, b"x"))
        txn.abort()
    assert contents(all_of(log)) == some(3)
    assert all_of(log, OTHER, 1) == []
    append(log, some(1, b"after"))
    assert contents(all_of(log)) == some(3) + some(1, b"after")
    assert log.bounds(TOPIC, 0)[1] > before[1]


def test_a_transaction_spans_topics_and_partitions(log: Log) -> None:
    with log.begin() as txn:
        txn.append(TOPIC, 0, some(2, b"a"))
        txn.append(OTHER, 1, some(2, b"b"))
        txn.append(TOPIC, 0, some(2, b"c"))
        txn.append(TOPIC, 1, [])
        txn.commit()
    assert contents(all_of(log)) == some(2, b"a") + some(2, b"c")
    assert contents(all_of(log, OTHER, 1)) == some(2, b"b")
    assert all_of(log, TOPIC, 1) == all_of(log, OTHER, 0) == []


def test_an_append_is_contiguous_however_large(log: Log) -> None:
    append(log, some(10))
    records = some(2 * BATCH_RECORDS_MAX + 7, b"large")
    base = append(log, records)
    found = list(log.scan(TOPIC, 0, base))
    assert contents(found) == records
    assert [record.offset for record in found] == list(range(base, base + len(records)))


def test_reading_begins_anywhere(log: Log) -> None:
    for n in range(4):
        append(log, some(5, b"%d-" % n))
    records = all_of(log)
    for index, record in enumerate(records):
        assert log.read(TOPIC, 0, record.offset) == records[index:]
        assert list(log.scan(TOPIC, 0, record.offset)) == records[index:]
        assert [r for batch in log.batches(TOPIC, 0, record.offset) for r in batch] == records[index:]
        assert log.read(TOPIC, 0, record.offset + 1) == records[index + 1 :]


@pytest.mark.parametrize(
    ("records_max", "bytes_max", "most", "least"),
    [
        (3, 1000, 3, 3),
        (12, 10_000, 12, 12),
        (100, 10_000, 20, 20),
        (100, 550, 5, 4),
        (100, 1500, 15, 12),
        (100, 1, 1, 1),
        (1, 1, 1, 1),
    ],
)
def test_reading_keeps_its_bounds_but_gives_one_record(
    log: Log, records_max: int, bytes_max: int, most: int, least: int
) -> None:
    records = [NewRecord(T0, b"k" * 10, b"v" * 85, (("h" * 4, b"1"),)) for _ in range(20)]
    for start in range(0, 20, 5):
        append(log, records[start : start + 5])
    everything = all_of(log)
    found = log.read(TOPIC, 0, 0, records_max=records_max, bytes_max=bytes_max)
    assert least <= len(found) <= most
    assert found == everything[: len(found)]
    while more := log.read(TOPIC, 0, found[-1].offset + 1, records_max=records_max, bytes_max=bytes_max):
        assert len(more) <= most
        found += more
    assert found == everything


def test_reading_at_the_end_gives_nothing_and_outside_is_an_error(log: Log) -> None:
    append(log, some(3))
    first, following = log.bounds(TOPIC, 0)
    assert log.read(TOPIC, 0, following) == []
    assert list(log.batches(TOPIC, 0, following)) == []
    for offset in (first - 1, following + 1, following + 1000):
        with pytest.raises(OffsetOutOfRange, match=rf"{TOPIC}/0.*{first}.*{following}.*{offset}"):
            log.read(TOPIC, 0, offset)
        with pytest.raises(OffsetOutOfRange):
            next(log.scan(TOPIC, 0, offset))
    with pytest.raises(OffsetOutOfRange):
        log.read(OTHER, 0, 1)


def test_unknown_topics_are_refused(log: Log) -> None:
    with pytest.raises(KeyError):
        log.bounds("nope", 0)
    with log.begin() as txn, pytest.raises(KeyError):
        txn.append("nope", 0, some(1))


def test_a_scan_goes_on_while_records_are_appended(log: Log) -> None:
    append(log, some(3))
    seen: list[bytes] = []
    for record in log.scan(TOPIC, 0, 0):
        seen.append(record.value)
        if len(seen) in (2, 3):
            append(log, some(1, b"more"))
    assert seen == [b"0", b"1", b"2", b"more0", b"more0"]


def test_times_are_looked_up(log: Log) -> None:
    steps = [(0, 1, 2), (2, 2), (9, 3, 4), (5,), (10, 10, 12)]
    for step in steps:
        append(log, [NewRecord(T0 + 100 * at, b"k", b"v") for at in step])
    records = all_of(log)
    _, following = log.bounds(TOPIC, 0)
    for at in range(-1, 14):
        for timestamp_ms in (T0 + 100 * at - 1, T0 + 100 * at):
            expected = next((r.offset for r in records if r.timestamp_ms >= timestamp_ms), following)
            assert log.offset_at(TOPIC, 0, timestamp_ms) == expected


def test_a_log_outlives_its_process(shared: Logs) -> None:
    append(shared.open(), some(5))
    log = shared.open()
    before = all_of(log)
    assert contents(before) == some(5)
    append(log, some(2, b"more"))
    assert contents(all_of(log)) == some(5) + some(2, b"more")
    assert all_of(log)[:5] == before


APPENDER = """
from frontlog.streams.records import NewRecord
for turn in range(%d):
    with log.begin() as txn:
        values = [b"%%d-%%d" %% (turn, n) for n in range(7)]
        txn.append("control", 0, [NewRecord(1790000000000, b"child", value) for value in values])
        txn.append("discoveries", 0, [NewRecord(1790000000000, b"child", b"%%d" %% turn)])
        txn.commit()
    print(turn, flush=True)
"""


def test_two_processes_append_to_one_partition(shared: Logs) -> None:
    log = shared.open()
    child = shared.child(APPENDER % 40)
    assert child.line() == "0"
    for turn in range(40):
        with log.begin() as txn:
            txn.append(OTHER, 0, [NewRecord(T0, b"parent", b"%d-%d" % (turn, n)) for n in range(7)])
            txn.commit()
    while child.line():
        pass
    assert child.wait() == 0
    records = all_of(log, OTHER, 0)
    for who in (b"parent", b"child"):
        mine = [record.value for record in records if record.key == who]
        assert mine == [b"%d-%d" % (turn, n) for turn in range(40) for n in range(7)]
    # Each append is contiguous: its seven records follow one another.
    for start in range(0, len(records), 7):
        run = records[start : start + 7]
        assert [record.offset for record in run] == list(range(run[0].offset, run[0].offset + 7))
        assert len({(record.key, record.value.split(b"-")[0]) for record in run}) == 1


def test_a_killed_process_leaves_whole_transactions(shared: Logs) -> None:
    log = shared.open()
    for kill in range(4):
        child = shared.child(APPENDER % 1_000_000)
        while int(child.line()) < 3 + kill:
            pass
        child.kill()
        append(log, [NewRecord(T0, b"parent", b"")], OTHER)
    groups: list[list[bytes]] = [[]]
    for record in all_of(log, OTHER):
        if record.key == b"parent":
            groups.append([])
        else:
            groups[-1].append(record.value)
    committed = 0
    for kill, group in enumerate(groups[:4]):
        turns = len(group) // 7
        assert group == [b"%d-%d" % (turn, n) for turn in range(turns) for n in range(7)]
        assert turns >= 4 + kill
        committed += turns
    assert groups[4] == []
    assert len(all_of(log)) == committed
