"""Who imports whom, read from the source, functions and TYPE_CHECKING included; not what importlib does.

`make check-imports` (import-linter) holds the same contracts; this runs with the other tests.
"""

import ast
import subprocess
import sys
from graphlib import CycleError, TopologicalSorter

import pytest

from house.source import PACKAGES, ROOMS, imports_of, modules, package_of, tree_of, used_modules

ABOVE = {package: PACKAGES[: PACKAGES.index(package)] for package in PACKAGES}
# A third-party library that one module, or one room, has to itself.
ONLY_IN = {
    "lmdb": ("frontlog.state.lmdb_store",),
    "aiohttp": ("frontlog", "frontlog.fetch"),
    "fastwarc": ("frontlog.fetch", "frontlog.replay"),
    "click": ("frontlog",),
    "faust": ("frontlog.streams",),
    "confluent_kafka": ("frontlog.streams",),
    "prometheus_client": ("frontlog.streams.metrics",),
}


@pytest.mark.parametrize("module", modules())
def test_imports_are_absolute_and_through_frontlog(module: str) -> None:
    path = modules()[module]
    relative = [
        node.lineno for node in ast.walk(tree_of(path)) if isinstance(node, ast.ImportFrom) and node.level
    ]
    assert relative == [], "relative imports"
    second_copies = [(name, line) for name, line in imports_of(path) if name.partition(".")[0] in ROOMS]
    assert second_copies == [], "a room imported by its folder's name is a second copy of the module"


@pytest.mark.parametrize("module", modules())
def test_a_room_imports_only_what_stands_below_it(module: str) -> None:
    upwards = {used for used in used_modules(module) if package_of(used) in ABOVE[package_of(module)]}
    assert upwards - {"frontlog"} == set()


@pytest.mark.parametrize("package", PACKAGES)
def test_no_cycle_inside_a_room(package: str) -> None:
    inside = {name for name in modules() if package_of(name) == package}
    try:
        TopologicalSorter({name: used_modules(name) & inside - {package} for name in inside}).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


@pytest.mark.parametrize("library", ONLY_IN)
def test_a_library_stays_where_it_belongs(library: str) -> None:
    users = {
        module
        for module, path in modules().items()
        if any(name.partition(".")[0] == library for name, _ in imports_of(path))
    }
    strangers = {user for user in users if not {user, package_of(user)} & set(ONLY_IN[library])}
    assert strangers == set()


def test_the_embedded_path_knows_no_kafka() -> None:
    """A user of `frontlog crawl` has no Kafka client installed, and none is loaded where one is."""
    code = "import sys, frontlog.cli; print(sorted({m.partition('.')[0] for m in sys.modules}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "'frontlog'" in done.stdout
    assert not {"'confluent_kafka'", "'faust'", "'mode'"} & set(done.stdout.strip("[]\n").split(", "))
