"""`lmdb://`: our tables as a store of Faust's, for reading. Entry point `lmdb` of the group `faust.stores`.

A `faust.Table(store="lmdb://", changelog_topic=…)` of a worker shows the rows of the shards that are here; the decision log
writes them, Faust never does. What Faust asks of a store to recover it is refused: recovery is the host's.
"""

from collections.abc import Callable, Iterator
from typing import Any, NoReturn

from faust.stores.base import Store
from faust.types import TP

from frontlog.state.store import Store as Rows

ReadOnly = TypeError


class LmdbStore(Store[bytes, bytes]):
    """A row's key is `table ‖ 0 ‖ key`, as in b"hosts\\0…"; its value the row's bytes (docs/reference/tables.md).

    The app that uses it has `shard_stores`, which gives the open stores of this process.
    """

    def _stores(self) -> list[Rows]:
        given: Callable[[], list[Rows]] = getattr(self.app, "shard_stores", list)
        return given()

    def __getitem__(self, key: bytes) -> bytes:
        table, _, row_key = key.partition(b"\0")
        for store in self._stores():
            with store.begin() as txn:
                value = txn.get(table.decode(), row_key)
            if value is not None:
                return value
        raise KeyError(key)

    def __contains__(self, key: object) -> bool:
        try:
            self[key if isinstance(key, bytes) else b""]
        except KeyError:
            return False
        return True

    def __iter__(self) -> Iterator[bytes]:
        return iter(())

    def __len__(self) -> int:
        return 0

    def __setitem__(self, key: bytes, value: bytes) -> NoReturn:
        raise ReadOnly("tables are a fold of the log: only a decision changes them")

    def __delitem__(self, key: bytes) -> NoReturn:
        raise ReadOnly("tables are a fold of the log: only a decision changes them")

    def persisted_offset(self, tp: TP) -> int | None:
        """None: how far the tables are folded is not Faust's to know."""
        return None

    def apply_changelog_batch(self, batch: Any, to_key: Any, to_value: Any) -> NoReturn:
        """Never called: recovery is the host's."""
        raise AssertionError("Faust may not recover these tables")

    def reset_state(self) -> None:
        """Nothing: a state that does not fit its log is refused, not dropped."""

    async def backup_partition(self, *_args: Any, **_options: Any) -> None:
        """Nothing: the log is the backup."""

    def restore_backup(self, *_args: Any, **_options: Any) -> None:
        """Nothing: see `backup_partition`."""
