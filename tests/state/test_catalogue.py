"""The catalogue of tables is complete, documented, and what the code opens."""

from frontlog.state import catalogue
from frontlog.state.catalogue import CONTENT_TABLES, DIGESTED, FRONTIER_TABLES, LOG, META, STORE_TABLES
from frontlog.state.head import Head
from frontlog.state.memory_store import MemoryStore
from frontlog.state.row_tables import RowTable
from frontlog.state.rows import ROWS, MarksRow
from frontlog.state.tables import TABLE_NAMES, IndexTable, KeySet, Tables

STATE_TABLES = (*FRONTIER_TABLES, *CONTENT_TABLES)
EVERY = (*STATE_TABLES, META, LOG)


def test_every_table_says_its_key_and_what_it_holds() -> None:
    for table in EVERY:
        assert table.key and table.key == table.key.strip(), table.name
        assert len(table.holds) > 5, table.name
    assert len({table.holds for table in EVERY}) == len(EVERY)


def test_names_are_unique_and_every_table_is_opened() -> None:
    names = [table.name for table in EVERY]
    assert len(set(names)) == len(names)
    assert list(STORE_TABLES) == names
    assert list(TABLE_NAMES) == [table.name for table in STATE_TABLES]


def test_the_digests_cover_all_state_and_nothing_that_holds_digests() -> None:
    assert list(DIGESTED) == [table.name for table in STATE_TABLES]
    assert not META.digested and not LOG.digested
    assert Head().table_digests().keys() == set(DIGESTED)


def test_tables_have_the_kind_that_the_catalogue_says() -> None:
    store = MemoryStore(STORE_TABLES)
    with store.begin(write=True) as txn:
        tables = Tables(txn)
        for table in STATE_TABLES:
            made = getattr(tables, table.name)
            assert made.name == table.name
            assert isinstance(made, (IndexTable, KeySet) if table.row is None else RowTable)
    store.close()


def test_every_row_class_has_its_table() -> None:
    # The one row of `marks` has a class too, but lies in a table that also holds plain values.
    assert {table.row for table in EVERY if table.row is not None} == set(ROWS) - {MarksRow}
    assert all(row.__doc__ for row in ROWS)
    assert catalogue.__doc__
