"""docs/invariants.md names what exists: files, names in them, tests, checks of the simulation and of `verify`.

Not verified: that a named test or piece of code does what the page says of it, and that every check of `verify` has its
place here.
"""

import ast
import re

import pytest

from frontlog.replay.verify import CATALOGUE
from house.source import ROOT
from simulation.invariants import NUMBERS

PAGE = (ROOT / "docs" / "invariants.md").read_text(encoding="utf-8")
SECTIONS = re.split(r"^## ", PAGE, flags=re.MULTILINE)[1:]
PARTS = ["Code", "Tests", "Simulation", "verify", "Not checked"]
BESIDE = 0


def number_of(section: str) -> int:
    found = re.match(r"(\d+)\. ", section)
    return int(found[1]) if found else BESIDE


def parts_of(section: str) -> dict[str, str]:
    """Each point of a section: what stands before its colon, and the text behind it."""
    points = re.split(r"^- ", section, flags=re.MULTILINE)[1:]
    return {name: text for name, _, text in (point.partition(": ") for point in points)}


def quoted(text: str) -> list[str]:
    return re.findall(r"`([^`]+)`", text)


def names_in(path: str) -> set[str]:
    """Functions, classes with their methods (`Class.method`), and names that a module assigns."""
    found: set[str] = set()
    for node in ast.walk(ast.parse((ROOT / path).read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.ClassDef):
            inner = [one for one in node.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)]
            found |= {node.name, *(f"{node.name}.{one.name}" for one in inner)}
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found |= {target.id for target in targets if isinstance(target, ast.Name)}
    return found


def test_there_are_twelve_and_what_stands_beside_them() -> None:
    assert [number_of(section) for section in SECTIONS] == [*range(1, 13), BESIDE]
    assert all(list(parts_of(section)) == PARTS for section in SECTIONS)


@pytest.mark.parametrize("section", SECTIONS, ids=lambda section: str(number_of(section)))
@pytest.mark.parametrize("part", ["Code", "Tests"])
def test_files_and_names_exist(section: str, part: str) -> None:
    path, missing = "", list[str]()
    for name in quoted(parts_of(section)[part]):
        if "/" in name:
            path = name
            if not (ROOT / path).is_file():
                missing.append(path)
        elif name not in names_in(path):
            missing.append(f"{path} {name}")
    assert missing == []


@pytest.mark.parametrize("section", SECTIONS, ids=lambda section: str(number_of(section)))
def test_checks_exist_and_stand_under_their_number(section: str) -> None:
    parts = parts_of(section)
    named = set(quoted(parts["Simulation"]))
    assert named <= set(NUMBERS)
    assert named >= {name for name, number in NUMBERS.items() if number == number_of(section)}
    assert set(quoted(parts["verify"])) <= {check.name for check in CATALOGUE}
