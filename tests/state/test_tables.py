"""Tables are a dict of rows with exact digests, in memory and in LMDB, whatever is done in whatever order.

Not verified: a scan while its table is written, which the rules of a store forbid.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from frontlog.avro.errors import Corrupt
from frontlog.state import head, row_tables
from frontlog.state.catalogue import CONTENT_TABLES, FRONTIER_TABLES, STORE_TABLES
from frontlog.state.digest import recount
from frontlog.state.lmdb_store import LmdbStore
from frontlog.state.memory_store import MemoryStore
from frontlog.state.row_tables import Kept
from frontlog.state.rows import AddressRow, MarksRow, OriginRow, Row, SiteRow
from frontlog.state.store import Item, Store, Txn
from frontlog.state.tables import TABLE_NAMES, Tables
from support.examples import ROW_EXAMPLES, rows_of

Model = dict[str, dict[bytes, Any]]
Op = tuple[Any, ...]

ROW_TABLES = {table.name: table.row for table in (*FRONTIER_TABLES, *CONTENT_TABLES) if table.row is not None}
KEY_SETS = ["due", "leases", "ready"]
INDEXES = [name for name in TABLE_NAMES if name not in ROW_TABLES and name not in KEY_SETS]
COUNTING = OriginRow(origin_key="http://an.origin.that.counts:80")
KEYS = st.sampled_from([b"a", b"aa", b"b", b"c\xff", b"k" * 300])
STOPS = st.none() | KEYS
NAMES = st.sampled_from(sorted(ROW_TABLES))
OPS = st.one_of(
    NAMES.flatmap(lambda name: st.tuples(st.just("put"), st.just(name), KEYS, rows_of(ROW_TABLES[name]))),
    NAMES.flatmap(lambda name: st.tuples(st.just("bytes"), st.just(name), KEYS, rows_of(ROW_TABLES[name]))),
    st.tuples(st.sampled_from(["get", "has", "again", "ahead"]), NAMES, KEYS),
    st.tuples(st.just("count"), KEYS, st.integers(0, 9), st.integers(0, 9), st.integers(0, 1)),
    st.tuples(st.just("scan"), st.sampled_from(TABLE_NAMES), KEYS, STOPS),
    st.tuples(st.just("put"), st.sampled_from(INDEXES), KEYS, st.binary(max_size=3)),
    st.tuples(st.sampled_from(["get", "delete"]), st.sampled_from(INDEXES), KEYS),
    st.tuples(st.sampled_from(["add", "delete"]), st.sampled_from(KEY_SETS), KEYS),
    st.tuples(st.just("first"), st.sampled_from(INDEXES + KEY_SETS), KEYS, STOPS),
    st.tuples(st.just("crawl"), rows_of(MarksRow)),
    st.tuples(st.sampled_from(["flush", "reopen"])),
)


@pytest.fixture(params=["memory", "lmdb"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    made = MemoryStore(STORE_TABLES) if request.param == "memory" else LmdbStore(tmp_path / "s", STORE_TABLES)
    yield made
    made.close()


@pytest.fixture
def txn(store: Store) -> Iterator[Txn]:
    with store.begin(write=True) as opened:
        yield opened


def within(rows: dict[bytes, Any], start: bytes, stop: bytes | None) -> list[tuple[bytes, Any]]:
    return [(k, v) for k, v in sorted(rows.items()) if k >= start and (stop is None or k < stop)]


def reopened(txn: Txn, tables: Tables, kept: Kept | None = None) -> Tables:
    """The tables as the next batch finds them."""
    head.save(txn, msgspec.structs.replace(tables.head, digests=tables.digest_values()))
    return Tables(txn, None, kept)


def writes_of(txn: Txn, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, list[bytes]]]:
    """Every later write to the transaction, which does nothing any more: table and keys."""
    writes: list[tuple[str, list[bytes]]] = []

    def put(_: Txn, table: str, key: bytes, value: bytes) -> None:
        writes.append((table, [key]))

    def put_many(_: Txn, table: str, items: Sequence[Item]) -> None:
        writes.append((table, [key for key, _ in items]))

    monkeypatch.setattr(type(txn), "put", put)
    monkeypatch.setattr(type(txn), "put_many", put_many)
    return writes


def count(tables: Tables, rows: dict[bytes, Any], key: bytes, came: int, waits: int, pages: int) -> None:
    """Count at an origin, in the last of its counts."""
    if key not in rows or rows[key].origin_key != COUNTING.origin_key:
        assert tables.origins.get(key) == rows.get(key)
        rows[key] = COUNTING
        tables.origins.put(key, COUNTING)
    counts = tables.origins.pending(key)
    assert counts is not None
    counts.states, counts.due, counts.pages = counts.states + came, counts.due + waits, counts.pages + pages
    before: OriginRow = rows[key]
    rows[key] = msgspec.structs.replace(
        before,
        states=before.states[:-1] + bytes((before.states[-1] + came,)),
        due=before.due[:-1] + bytes((before.due[-1] + waits,)),
        pages=before.pages + pages,
    )


def step(txn: Txn, tables: Tables, model: Model, op: Op, kept: Kept | None) -> Tables:
    match op:
        case ("put", name, key, row):
            getattr(tables, name).get(key)
            getattr(tables, name).put(key, row)
            model[name][key] = row
        case ("bytes", name, key, row):
            getattr(tables, name).get(key)
            getattr(tables, name).put(key, row.encode())
            model[name][key] = row
        case ("ahead", name, key):
            getattr(tables, name).look_up([key])
        case ("count", key, came, waits, pages):
            count(tables, model["origins"], key, came, waits, pages)
        case ("add", name, key):
            getattr(tables, name).put(key)
            model[name][key] = b""
        case ("again", name, key) if key in model[name]:
            getattr(tables, name).put(key, model[name][key])
        case ("get", name, key):
            assert getattr(tables, name).get(key) == model[name].get(key)
        case ("has", name, key):
            begins = model[name][key].encode()[:2] if key in model[name] else b""
            assert getattr(tables, name).beginnings([key], 2).get(key, b"") == begins
        case ("delete", name, key):
            getattr(tables, name).delete(key)
            model[name].pop(key, None)
        case ("scan", name, start, stop):
            assert list(getattr(tables, name).scan(start, stop)) == within(model[name], start, stop)
        case ("first", name, start, stop):
            assert getattr(tables, name).first(start, stop) == next(
                iter(within(model[name], start, stop)), None
            )
        case ("crawl", row):
            tables.put_crawl(row)
            assert tables.crawl == row
            model["marks"][b"crawl"] = row.encode()
        case ("flush",):
            tables.flush()
        case ("reopen",):
            tables = reopened(txn, tables, kept)
        case _:
            pass
    return tables


def assert_exact(txn: Txn, tables: Tables, model: Model) -> None:
    values = tables.digest_values()
    assert values.keys() == set(TABLE_NAMES)
    for name in TABLE_NAMES:
        stored = dict(txn.scan(name))
        assert stored == {k: v.encode() if isinstance(v, Row) else v for k, v in model[name].items()}
        counted = recount(stored.items())
        assert values[name] == (counted.value(), counted.rows), name


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ops=st.lists(OPS, max_size=25), keeps=st.booleans())
def test_tables_are_a_dict_and_their_digests_a_recount(
    store: Store, monkeypatch: pytest.MonkeyPatch, ops: list[Op], keeps: bool
) -> None:
    monkeypatch.setattr(row_tables, "KEPT_ROWS_MAX", 2)
    monkeypatch.setattr(row_tables, "KEPT_ROW_BYTES_MAX", 150)
    model: Model = {name: {} for name in TABLE_NAMES}
    kept = Kept() if keeps else None
    with store.begin(write=True) as txn:  # never committed: the next example finds an empty store
        tables = Tables(txn, None, kept)
        for op in ops:
            tables = step(txn, tables, model, op, kept)
        assert_exact(txn, tables, model)
        assert_exact(txn, reopened(txn, tables), model)


@pytest.mark.parametrize("name", ROW_TABLES)
def test_a_row_is_seen_before_and_after_it_is_written(name: str, txn: Txn) -> None:
    tables = Tables(txn)
    table, row = getattr(tables, name), ROW_EXAMPLES[ROW_TABLES[name].__name__]
    assert table.get(b"k") is None and not table.beginnings([b"k"], 2)
    table.put(b"k", row)
    assert table.get(b"k") is row and table.beginnings([b"k"], 2) == {b"k": row.encode()[:2]}
    assert txn.get(name, b"k") is None, "a write waits for the flush"
    tables.flush()
    assert txn.get(name, b"k") == row.encode()
    assert getattr(Tables(txn), name).get(b"k") == row
    assert getattr(Tables(txn), name).beginnings([b"k"], 3) == {b"k": row.encode()[:3]}


def test_a_put_without_change_leaves_digest_and_store_alone(
    txn: Txn, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = Tables(txn)
    tables.sites.put(b"a", SiteRow(policy_seq=1))
    tables.due.put(b"k")
    tables.inlinks.put(b"k", b"v")
    before = tables.digest_values()
    again = reopened(txn, tables)
    writes = writes_of(txn, monkeypatch)
    again.sites.put(b"a", SiteRow(policy_seq=1))
    again.sites.put(b"a", SiteRow(policy_seq=2))
    again.sites.put(b"a", SiteRow(policy_seq=1))
    again.due.put(b"k")
    again.due.delete(b"not there")
    again.inlinks.put(b"k", b"v")
    again.inlinks.delete(b"not there")
    assert again.digest_values() == before
    assert writes == []


def test_the_changes_of_a_batch_are_written_once_in_key_order(
    txn: Txn, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = Tables(txn)
    writes = writes_of(txn, monkeypatch)
    for n in (3, 1, 2, 1, 3):
        tables.addresses.put(b"%d" % n, AddressRow(next_ms=n))
    tables.flush()
    tables.flush()
    assert writes == [("addresses", [b"1", b"2", b"3"])]


def test_the_marks_of_a_crawl_are_new_until_they_are_written(txn: Txn) -> None:
    tables = Tables(txn)
    assert tables.crawl == MarksRow()
    assert tables.digests["marks"].rows == 0, "reading writes nothing"
    tables.put_crawl(MarksRow(paused=True, settings="{}"))
    assert tables.crawl.paused
    tables.marks.put(b"cursor", b"x")
    again = reopened(txn, tables)
    assert again.crawl == MarksRow(paused=True, settings="{}")
    assert again.digest_values()["marks"][1] == 2


@pytest.mark.parametrize("name", ROW_TABLES)
def test_a_damaged_row_is_corrupt_and_named(name: str, txn: Txn) -> None:
    txn.put(name, b"\x01k", b"\xff")
    tables = Tables(txn)
    with pytest.raises(Corrupt, match=f"row 016b of table {name} cannot be read"):
        getattr(tables, name).get(b"\x01k")
    with pytest.raises(Corrupt, match=f"row 016b of table {name} cannot be read"):
        list(getattr(tables, name).scan())


def test_damaged_marks_of_a_crawl_are_corrupt(txn: Txn) -> None:
    txn.put("marks", b"crawl", b"\xff")
    with pytest.raises(Corrupt, match="row 637261776c of table marks cannot be read"):
        _ = Tables(txn).crawl


def test_what_a_batch_wrote_is_dropped_with_its_transaction(store: Store) -> None:
    with store.begin(write=True) as txn:
        tables = Tables(txn)
        tables.sites.put(b"a", SiteRow())
        reopened(txn, tables)
    with store.begin() as txn:
        tables = Tables(txn)
        assert tables.sites.get(b"a") is None
        assert tables.digest_values()["sites"] == (bytes(16), 0)
