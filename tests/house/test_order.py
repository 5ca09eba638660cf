"""The order in which tests are run: what is slow is shared out, and nothing is left out.

Not verified: that what `SLOW` in tests/conftest.py names is slow.
"""

from importlib import import_module
from types import SimpleNamespace
from typing import Any

import pytest

from support.order import shared_out, sizes


def test_what_is_slow_begins_the_stretch_of_each_process() -> None:
    seconds = [0, 0, 5, 0, 90, 0, 20, 0, 35, 35, 0, 0, 3]
    order = shared_out(seconds, 3)
    assert sorted(order) == list(range(len(seconds)))
    assert [seconds[number] for number in order] == [90, 0, 0, 0, 35, 20, 0, 0, 35, 5, 3, 0, 0]
    assert [number for number in order if not seconds[number]] == [0, 1, 3, 5, 7, 10, 11]


@pytest.mark.parametrize("processes", [1, 2, 3, 8])
def test_no_test_is_lost_however_many_processes(processes: int) -> None:
    for count in range(12):
        seconds = [count % 3 * number for number in range(count)]
        assert sorted(shared_out(seconds, processes)) == list(range(count))


class Node:
    """What the scheduler needs of a process."""

    shutting_down = False

    def __init__(self, name: str) -> None:
        self.gateway = SimpleNamespace(id=name)
        self.given: list[int] = []

    def send_runtest_some(self, indices: list[int]) -> None:
        self.given += indices


class Options:
    def __init__(self, processes: int) -> None:
        self.processes = processes

    def getvalue(self, name: str) -> list[str]:
        return ["popen"] * self.processes


@pytest.mark.parametrize("processes", [1, 2, 3, 5])
def test_the_stretches_are_those_of_the_scheduler(processes: int) -> None:
    """One that cuts another way would leave all that is slow to one process."""
    scheduler: Any = import_module("xdist.scheduler").WorkStealingScheduling(Options(processes))
    nodes = [Node(f"gw{number}") for number in range(processes)]
    for node in nodes:
        scheduler.add_node(node)
        scheduler.add_node_collection(node, [f"test {number}" for number in range(43)])
    scheduler.schedule()
    assert [len(node.given) for node in nodes] == sizes(43, processes)
    assert [number for node in nodes for number in node.given] == list(range(43))
