"""Any sequence of operations on a store gives what a dict gives; Hypothesis chooses the sequence.

Not verified: several threads and processes (tests/contract/test_store.py).
"""

import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from frontlog.state.store import Item, Store, Txn
from support.stores import DURABLE_STORES, STORES, Stores

Model = dict[str, dict[bytes, bytes]]

TABLES = st.sampled_from(["a", "b"])
KEYS = st.one_of(st.binary(min_size=1, max_size=2), st.sampled_from([b"k", b"k\0", b"k\xff", b"x" * 511]))
# Values of several pages make LMDB use overflow pages and spill.
VALUES = st.one_of(st.binary(max_size=8), st.integers(0, 9000).map(lambda n: b"v" * n))
STOPS = st.one_of(st.none(), KEYS)


def within(rows: dict[bytes, bytes], start: bytes, stop: bytes | None) -> list[Item]:
    return [(k, v) for k, v in sorted(rows.items()) if k >= start and (stop is None or k < stop)]


class StoreMachine(RuleBasedStateMachine):
    kind: str

    @initialize()
    def start(self) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.stores: Stores = STORES[self.kind](self.folder)
        self.store: Store = self.stores.open()
        self.committed: Model = {"a": {}, "b": {}}
        self.model: Model = {"a": {}, "b": {}}
        self.txn: Txn | None = None
        self.snapshots: list[tuple[Txn, Model]] = []

    def teardown(self) -> None:
        for snapshot, _ in self.snapshots:
            snapshot.abort()
        if self.txn is not None:
            self.txn.abort()
        self.stores.close()
        shutil.rmtree(self.folder)

    def writing(self) -> Txn:
        if self.txn is None:
            self.txn = self.store.begin(write=True)
            self.model = {table: dict(rows) for table, rows in self.committed.items()}
        return self.txn

    @rule(table=TABLES, key=KEYS, value=VALUES)
    def put(self, table: str, key: bytes, value: bytes) -> None:
        self.writing().put(table, key, value)
        self.model[table][key] = value

    @rule(table=TABLES, items=st.lists(st.tuples(KEYS, VALUES), max_size=5))
    def put_many(self, table: str, items: list[Item]) -> None:
        self.writing().put_many(table, items)
        self.model[table].update(items)

    @rule(table=TABLES, items=st.lists(st.tuples(KEYS, VALUES), max_size=3, unique_by=lambda item: item[0]))
    def append_many(self, table: str, items: list[Item]) -> None:
        txn = self.writing()
        last = max(self.model[table], default=b"")
        items = [item for item in sorted(items) if item[0] > last]
        txn.append_many(table, items)
        self.model[table].update(items)

    @rule(table=TABLES, key=KEYS)
    def delete(self, table: str, key: bytes) -> None:
        assert self.writing().delete(table, key) == (self.model[table].pop(key, None) is not None)

    @rule(table=TABLES)
    def clear(self, table: str) -> None:
        self.writing().clear(table)
        self.model[table].clear()

    @precondition(lambda self: self.txn is not None)
    @rule()
    def commit(self) -> None:
        self.writing().commit()
        self.txn, self.committed = None, self.model

    @precondition(lambda self: self.txn is not None)
    @rule()
    def abort(self) -> None:
        self.writing().abort()
        self.txn = None

    @precondition(lambda self: len(self.snapshots) < 3)
    @rule()
    def snapshot(self) -> None:
        rows = {table: dict(rows) for table, rows in self.committed.items()}
        self.snapshots.append((self.store.begin(), rows))

    @precondition(lambda self: self.snapshots)
    @rule()
    def forget(self) -> None:
        self.snapshots.pop(0)[0].abort()

    @precondition(lambda self: self.txn is None and not self.snapshots and self.kind in DURABLE_STORES)
    @rule()
    def reopen(self) -> None:
        self.store = self.stores.open()

    @rule(table=TABLES, key=KEYS, start=st.one_of(st.just(b""), KEYS), stop=STOPS)
    def look(self, table: str, key: bytes, start: bytes, stop: bytes | None) -> None:
        views = [*self.snapshots]
        if self.txn is not None:
            views.append((self.txn, self.model))
        with self.store.begin() as fresh:
            for txn, model in [*views, (fresh, self.committed)]:
                rows, expected = model[table], within(model[table], start, stop)
                assert txn.get(table, key) == rows.get(key)
                assert txn.count(table) == len(rows)
                assert list(txn.scan(table, start, stop)) == expected
                assert list(txn.scan_reverse(table, start, stop)) == expected[::-1]
                assert txn.first(table, start, stop) == (expected[0] if expected else None)
                assert txn.last(table, start, stop) == (expected[-1] if expected else None)


@pytest.mark.parametrize("kind", sorted(STORES))
def test_a_store_is_a_dict_with_transactions(kind: str) -> None:
    machine: Any = type("Machine", (StoreMachine,), {"kind": kind})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=40,
            stateful_step_count=30,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow],
        ),
    )
