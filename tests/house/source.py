"""What the tests of the house read: the rooms, their modules, and what each module imports and names."""

import ast
import builtins
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# From the top down: each room imports only what stands after it.
ROOMS = ("replay", "streams", "fetch", "processors", "state", "avro")
PACKAGES = ("frontlog", *(f"frontlog.{room}" for room in ROOMS))


def folder_of(package: str) -> Path:
    """The real folder of a package: `frontlog.state` lives in `state`."""
    return ROOT / package.rpartition(".")[2]


@cache
def modules() -> dict[str, Path]:
    """Every module of the seven packages by its installed name."""
    found: dict[str, Path] = {}
    for package in PACKAGES:
        for path in sorted(folder_of(package).glob("*.py")):
            found[package if path.stem == "__init__" else f"{package}.{path.stem}"] = path
    return found


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def package_of(module: str) -> str:
    """`frontlog.state` for `frontlog.state.rows`, `frontlog` for `frontlog.cli`."""
    while module not in PACKAGES:
        module = module.rpartition(".")[0]
    return module


@cache
def imports_of(path: Path) -> tuple[tuple[str, int], ...]:
    """(dotted name, line) of each absolute import; `from a.b import c` gives `a.b.c`, a module or not."""
    return tuple(_imports(tree_of(path)))


def _imports(tree: ast.Module) -> Iterator[tuple[str, int]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            assert node.module is not None
            yield from ((f"{node.module}.{alias.name}", node.lineno) for alias in node.names)


@cache
def used_modules(module: str) -> frozenset[str]:
    """The modules of frontlog that a module imports, by installed name, itself left out."""
    known, used = modules(), set[str]()
    for name, _ in imports_of(known[module]):
        while name and name not in known:
            name = name.rpartition(".")[0]
        if name:
            used.add(name)
    return frozenset(used - {module})


def names_of(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """(dotted name, line) of what a module names, with its imports resolved and builtins spelled out.

    `from datetime import datetime as d; d.now()` gives `datetime.datetime.now`; `open(...)` gives
    `builtins.open`.
    """
    bound: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                bound[alias.asname or alias.name.partition(".")[0]] = (
                    alias.name if alias.asname else alias.name.partition(".")[0]
                )
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            bound |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
    yield from _imports(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute | ast.Name):
            name = _dotted(node, bound)
            if name is not None:
                yield name, node.lineno


def _dotted(node: ast.expr, bound: dict[str, str]) -> str | None:
    attributes: list[str] = []
    while isinstance(node, ast.Attribute):
        attributes.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return None
    root = bound.get(node.id) or (f"builtins.{node.id}" if hasattr(builtins, node.id) else None)
    return None if root is None else ".".join([root, *reversed(attributes)])
