"""What every store must do, whatever holds the rows.

Threads, processes and crashes: tests/contract/test_store_sharing.py.
"""

from collections.abc import Callable

import pytest

from frontlog.avro.errors import MapFull
from frontlog.state.store import KEY_BYTES_MAX, Store, Txn, delete_range, in_write, scan_chunks
from support.stores import Stores, fill, rows_of


def test_a_commit_shows_every_write_and_an_abort_none(store: Store) -> None:
    with store.begin(write=True) as txn:
        txn.put("a", b"k", b"1")
        txn.put("a", b"k", b"2")
        txn.put("b", b"empty", b"")
        assert txn.get("a", b"k") == b"2"
        txn.commit()
    with store.begin(write=True) as txn:
        txn.put("a", b"k", b"3")
        txn.put("b", b"more", b"x")
        assert txn.delete("b", b"empty")
        txn.abort()
    assert rows_of(store) == [(b"k", b"2")]
    assert rows_of(store, "b") == [(b"empty", b"")]


def test_leaving_the_block_without_a_commit_drops_the_writes(store: Store) -> None:
    with store.begin(write=True) as txn:
        txn.put("a", b"k", b"1")
    with pytest.raises(ZeroDivisionError), store.begin(write=True) as txn:
        txn.put("a", b"k", b"1")
        raise ZeroDivisionError
    assert rows_of(store) == []


def test_delete_says_whether_there_was_a_row(store: Store) -> None:
    fill(store)
    with store.begin(write=True) as txn:
        assert txn.delete("a", b"k03")
        assert not txn.delete("a", b"k03")
        assert not txn.delete("a", b"never")
        assert txn.get("a", b"k03") is None
        txn.commit()
    assert len(rows_of(store)) == 9


def test_a_snapshot_keeps_what_it_began_with(store: Store) -> None:
    rows = fill(store)
    with store.begin() as early:
        with store.begin(write=True) as txn:
            txn.put("a", b"k00", b"changed")
            txn.delete("a", b"k01")
            txn.put("a", b"new", b"x")
            with store.begin() as during:
                assert list(during.scan("a")) == rows
                txn.commit()
                assert list(during.scan("a")) == rows
        with store.begin(write=True) as txn:
            txn.clear("a")
            txn.commit()
        assert list(early.scan("a")) == rows
        assert list(early.scan_reverse("a")) == rows[::-1]
        assert early.get("a", b"k01") == b"v1"
        assert early.get("a", b"new") is None
        assert early.count("a") == len(rows)
        assert early.last("a") == rows[-1]
    assert rows_of(store) == []


RANGES = [
    (b"", None, range(10)),
    (b"k03", None, range(3, 10)),
    (b"k03", b"k06", range(3, 6)),
    (b"k03\0", b"k06\0", range(4, 7)),
    (b"", b"k00", range(0)),
    (b"", b"k01", range(1)),
    (b"k06", b"k03", range(0)),
    (b"k06", b"k06", range(0)),
    (b"z", None, range(0)),
    (b"a", b"b", range(0)),
    (b"k09", b"z" * (KEY_BYTES_MAX + 1), range(9, 10)),
]


@pytest.mark.parametrize(("start", "stop", "found"), RANGES)
@pytest.mark.parametrize("own", [True, False], ids=["own writes", "committed"])
def test_ranges(store: Store, start: bytes, stop: bytes | None, found: range, own: bool) -> None:
    rows = [(b"k%02d" % n, b"v%d" % n) for n in range(10)]
    with store.begin(write=True) as txn:
        txn.put_many("a", [*rows, (b"k05x", b"")])
        if not own:
            txn.commit()
    with store.begin(write=True) as txn:
        if own:
            txn.put_many("a", [*rows, (b"k05x", b"")])
        txn.delete("a", b"k05x")
        expected = [rows[n] for n in found]
        assert list(txn.scan("a", start, stop)) == expected
        assert list(txn.scan_reverse("a", start, stop)) == expected[::-1]
        assert txn.first("a", start, stop) == (expected[0] if expected else None)
        assert txn.last("a", start, stop) == (expected[-1] if expected else None)


def test_an_empty_table_has_no_rows(store: Store) -> None:
    with store.begin() as txn:
        assert (txn.first("a"), txn.last("a"), txn.get("a", b"k")) == (None, None, None)
        assert list(txn.scan("a")) == list(txn.scan_reverse("a")) == []
        assert txn.count("a") == 0


def test_put_many_lets_the_last_of_equal_keys_win(store: Store) -> None:
    with store.begin(write=True) as txn:
        txn.put_many("a", [(b"b", b"1"), (b"a", b"2"), (b"b", b"3")])
        txn.put_many("a", [])
        assert list(txn.scan("a")) == [(b"a", b"2"), (b"b", b"3")]


def test_append_many_takes_only_what_lies_behind(store: Store) -> None:
    with store.begin(write=True) as txn:
        txn.append_many("a", [(b"a", b"1"), (b"c", b"2")])
        txn.append_many("a", [(b"d", b"3")])
        txn.append_many("a", [])
        txn.commit()
    for items in ([(b"d", b"")], [(b"e", b""), (b"e", b"")], [(b"f", b""), (b"e", b"")]):
        with store.begin(write=True) as txn, pytest.raises(AssertionError):
            txn.append_many("a", items)
    assert rows_of(store) == [(b"a", b"1"), (b"c", b"2"), (b"d", b"3")]


def test_count_and_clear(store: Store) -> None:
    fill(store)
    fill(store, "b", 3)
    with store.begin(write=True) as txn:
        txn.put("a", b"k00", b"again")
        txn.put("a", b"x", b"")
        txn.delete("a", b"k01")
        txn.delete("a", b"none")
        assert txn.count("a") == 10
        txn.clear("a")
        assert txn.count("a") == 0
        assert txn.first("a") is None
        txn.put("a", b"y", b"after")
        assert list(txn.scan("a")) == [(b"y", b"after")]
        txn.commit()
    assert rows_of(store) == [(b"y", b"after")]
    assert len(rows_of(store, "b")) == 3


def test_a_table_is_not_written_while_it_is_scanned(store: Store) -> None:
    fill(store)
    changes: list[Callable[[Txn], object]] = [
        lambda txn: txn.put("a", b"x", b""),
        lambda txn: txn.delete("a", b"k09"),
        lambda txn: txn.clear("a"),
    ]
    for change in changes:
        with store.begin(write=True) as txn, pytest.raises(AssertionError, match="scan_chunks"):
            for _ in txn.scan("a"):
                change(txn)
    with store.begin(write=True) as txn:
        for key, value in txn.scan("a"):
            txn.put("b", key, value)
        txn.commit()
    assert rows_of(store, "b") == rows_of(store)


def test_chunks_let_a_walk_change_its_table(store: Store) -> None:
    fill(store)
    seen: list[bytes] = []
    with store.begin(write=True) as txn:
        for rows in scan_chunks(txn, "a", b"k02", rows_max=3):
            seen += [key for key, _ in rows]
            txn.put("a", b"k00", b"behind")
            txn.delete("a", b"k08")
            txn.put("a", b"k09x", b"ahead")
        txn.commit()
    assert seen == [b"k02", b"k03", b"k04", b"k05", b"k06", b"k07", b"k09", b"k09x"]


def test_chunks_miss_no_key_however_close(store: Store) -> None:
    keys = [b"k" + b"\0" * n for n in range(9)]
    with store.begin(write=True) as txn:
        txn.put_many("a", [(key, b"") for key in keys])
        chunks = list(scan_chunks(txn, "a", rows_max=2))
    assert [key for rows in chunks for key, _ in rows] == keys
    assert [len(rows) for rows in chunks] == [2, 2, 2, 2, 1]


def test_delete_range_deletes_what_a_scan_shows(store: Store) -> None:
    rows = fill(store, count=1200)
    with store.begin(write=True) as txn:
        expected = [key for key, _ in txn.scan("a", b"k10", b"k90")]
        assert delete_range(txn, "a", b"k10", b"k90") == len(expected) > 500
        assert txn.count("a") == len(rows) - len(expected)
        assert list(txn.scan("a", b"k10", b"k90")) == []


@pytest.mark.parametrize("key", [b"", b"x" * (KEY_BYTES_MAX + 1)], ids=["empty", "too long"])
def test_keys_have_bounds(store: Store, key: bytes) -> None:
    with store.begin(write=True) as txn:
        txn.put("a", b"x" * KEY_BYTES_MAX, b"fits")
        with pytest.raises(AssertionError):
            txn.put("a", key, b"")
        with pytest.raises(AssertionError):
            txn.put_many("a", [(key, b"")])
        txn.commit()
    assert rows_of(store) == [(b"x" * KEY_BYTES_MAX, b"fits")]


def test_a_read_transaction_writes_nothing(store: Store) -> None:
    with store.begin() as txn:
        for write in (
            lambda: txn.put("a", b"k", b""),
            lambda: txn.put_many("a", [(b"k", b"")]),
            lambda: txn.append_many("a", [(b"k", b"")]),
            lambda: txn.delete("a", b"k"),
            lambda: txn.clear("a"),
        ):
            with pytest.raises(AssertionError):
                write()


def test_an_ended_transaction_does_nothing_more(store: Store) -> None:
    fill(store)
    for end in ("commit", "abort"):
        for write in (True, False):
            txn = store.begin(write=write)
            running = txn.scan("a")
            next(running)
            getattr(txn, end)()
            with pytest.raises(AssertionError):
                txn.get("a", b"k00")
            with pytest.raises(AssertionError):
                list(running)
            with pytest.raises(AssertionError):
                txn.put("a", b"k", b"")
            with pytest.raises(AssertionError):
                txn.commit()
            txn.abort()


def test_unknown_tables_are_refused(store: Store) -> None:
    with store.begin(write=True) as txn:
        for use in (
            lambda: txn.get("nope", b"k"),
            lambda: txn.put("nope", b"k", b""),
            lambda: txn.first("nope"),
            lambda: list(txn.scan("nope")),
        ):
            with pytest.raises(KeyError):
                use()


def test_a_store_closes_only_when_nothing_is_open(stores: Stores) -> None:
    store = stores.open()
    with store.begin(), pytest.raises(AssertionError, match="open"):
        store.close()
    store.close()
    store.close()
    with pytest.raises(AssertionError, match="closed"):
        store.begin()


def test_sizes_grow_with_the_rows(store: Store) -> None:
    before = store.used_bytes()
    with store.begin(write=True) as txn:
        txn.put_many("a", [(b"%05d" % n, b"x" * 100) for n in range(2000)])
        txn.commit()
    assert 200_000 <= store.used_bytes() - before <= 800_000
    assert store.size_bytes() >= store.used_bytes() - before


@pytest.mark.parametrize(("failures", "kept"), [(0, True), (3, True), (4, False)])
def test_in_write_repeats_while_the_map_grows(
    store: Store, monkeypatch: pytest.MonkeyPatch, failures: int, kept: bool
) -> None:
    begin, left = store.begin, iter(range(failures))

    def failing(*, write: bool = False) -> Txn:
        if next(left, None) is not None:
            raise MapFull("full")
        return begin(write=write)

    monkeypatch.setattr(store, "begin", failing)
    try:
        in_write(store, lambda txn: txn.put("a", b"k", b"v"), attempts_max=4)
    except MapFull:
        assert not kept
    monkeypatch.undo()
    assert rows_of(store) == ([(b"k", b"v")] if kept else [])
