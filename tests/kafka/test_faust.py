"""What of Faust's internals the worker touches, held against the Faust that is installed.

When a test here fails, `streams/faust_host.py` must follow Faust; no other module knows them. Not verified: what Faust does
with them, which tests/kafka/test_worker.py sees from outside.
"""

import inspect
from importlib.metadata import entry_points
from typing import Any, cast

import pytest
from faust.assignor.client_assignment import CopartitionedAssignment
from faust.assignor.partition_assignor import PartitionAssignor
from faust.tables.manager import TableManager
from faust.tables.recovery import Recovery
from faust.transport.drivers.aiokafka import AIOKafkaConsumerThread, Consumer

from frontlog.streams.faust_host import EvenAssignor, LogRecovery, LogTableManager
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


@pytest.mark.parametrize(
    ("partitions", "members", "joined", "wanted"),
    [
        (4, 3, 3, [2, 1, 1]),
        (8, 5, 5, [2, 2, 2, 1, 1]),
        (64, 8, 9, [8] + [7] * 8),
        (4, 2, 6, [1, 1, 1, 1, 0, 0]),
        (1, 1, 2, [1, 0]),
    ],
)
def test_partitions_are_spread_evenly(partitions: int, members: int, joined: int, wanted: list[int]) -> None:
    def spread(given: dict[str, CopartitionedAssignment]) -> dict[str, CopartitionedAssignment]:
        made = EvenAssignor({"t"}, given, partitions, 1)
        return dict(made.get_assignment())

    def empty() -> CopartitionedAssignment:
        return CopartitionedAssignment(topics={"t"})

    first = spread({str(n): empty() for n in range(members)})
    before = {name: set(one.actives) for name, one in first.items()}
    after = spread(first | {str(n): empty() for n in range(members, joined)})
    assert sorted((len(one.actives) for one in after.values()), reverse=True) == wanted
    assert set().union(*(one.actives for one in after.values())) == set(range(partitions))
    moved = sum(len(before[name] - after[name].actives) for name in before)
    assert moved == sum(len(after[str(n)].actives) for n in range(members, joined))
    if joined > 1:
        assert all(len(one.standbys & one.actives) == 0 for one in after.values())
        assert set().union(*(one.standbys for one in after.values())) == set(range(partitions))
