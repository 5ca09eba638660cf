"""What of Faust's internals the worker touches, held against the Faust that is installed.

When a test here fails, `streams/faust_host.py` must follow Faust; no other module knows them. Not verified: what Faust does
with them, which tests/kafka/test_worker.py sees from outside.
"""

import inspect
from importlib.metadata import entry_points
from typing import Any, cast

import pytest
from faust.assignor.partition_assignor import PartitionAssignor
from faust.tables.manager import TableManager
from faust.tables.recovery import Recovery
from faust.transport.drivers.aiokafka import AIOKafkaConsumerThread, Consumer

from frontlog.streams.faust_host import LogRecovery, LogTableManager
from frontlog.streams.faust_store import LmdbStore

RECOVERY: Any = Recovery
ASYNC_TASKS = ("_restart_recovery", "_slurp_changelogs", "_publish_stats")


@pytest.mark.parametrize("name", ASYNC_TASKS)
def test_every_task_of_recovery_is_replaced(name: str) -> None:
    assert name in vars(Recovery) and name in vars(LogRecovery)


def test_recovery_has_no_other_task() -> None:
    """A task that is new would run beside ours."""
    for names in RECOVERY._tasks.values():
        assert set(names) == set(ASYNC_TASKS)
    stock: Any
    stock, ours = (inspect.getattr_static(kind, "recovery") for kind in (TableManager, LogTableManager))
    assert isinstance(stock, property) and "_recovery" in inspect.getsource(cast("Any", stock.fget))
    assert isinstance(ours, property) and ours is not stock


def test_what_recovery_uses_is_there() -> None:
    stock = inspect.getsource(RECOVERY)
    for name in (
        "signal_recovery_start", "self.completed", "async def _wait", "wait_for_stopped", "_fetcher", "maybe_start",
        "resume_flow", "flow_control.resume", "on_rebalance_complete", "app.on_rebalance_end()", "perform_seek",
    ):  # fmt: skip
        assert name in stock, name
    for owner, names in (
        (TableManager, ("on_actives_ready", "on_standbys_ready")),
        (PartitionAssignor, ("assigned_actives", "assigned_standbys")),
        (Consumer, ("perform_seek", "resume_partitions", "resume_flow", "assignment")),
    ):
        for name in names:
            assert callable(getattr(owner, name)), name
    assert "self._consumer" in inspect.getsource(AIOKafkaConsumerThread)
    assert "self._thread" in inspect.getsource(Consumer.__mro__[1])


def test_the_store_is_found_by_its_name() -> None:
    (found,) = entry_points(group="faust.stores", name="lmdb")
    assert found.load() is LmdbStore
    assert not getattr(LmdbStore, "__abstractmethods__", None)
