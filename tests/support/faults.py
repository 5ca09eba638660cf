"""Faults planted for `verify`: a table of them, filled by `faults_machines.py`, `faults_flow.py` and `faults_forged.py`."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

Plant = Callable[[Path, pytest.MonkeyPatch], None]


@dataclass(frozen=True)
class Fault:
    """Something that must not be, and the check that must find it: alone, or with others beside it.

    `forged`: `plant` changes an honest crawl in its folder; else it crawls into the folder with a machine that is wrong.
    The machine stays wrong while `verify` runs, as in a build that has the bug. `deep`: only `--deep` looks there.
    """

    check: str
    plant: Plant
    forged: bool
    deep: bool
    alone: bool

    @property
    def name(self) -> str:
        return f"{self.check}-{self.plant.__name__}"


FAULTS: list[Fault] = []


def fault(check: str, *, forged: bool, deep: bool = False, alone: bool = True) -> Callable[[Plant], Plant]:
    """Enter a fault in the table."""

    def enter(plant: Plant) -> Plant:
        FAULTS.append(Fault(check, plant, forged, deep, alone))
        return plant

    return enter


def always(value: object) -> Callable[..., object]:
    """A function that says the same whatever it is asked."""

    def say(*_: object) -> object:
        return value

    return say
