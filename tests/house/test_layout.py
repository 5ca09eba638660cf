"""The folders at the root are the installed packages: links, lists, sizes.

Not verified here: the wheel itself, which `make check-wheel` builds, installs and runs.
"""

import ast
import re
import tomllib
from pathlib import Path

import pytest

from house.source import PACKAGES, ROOMS, ROOT, folder_of, modules, tree_of

LINES_MAX = 400
# Written by a program from a source that is read instead (docs/adr/0004-events-and-identities.md).
GENERATED = {"avro/events.py"}
FUNCTION_LINES_MAX = 70

PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
SETUPTOOLS = PYPROJECT["tool"]["setuptools"]
SOURCES = sorted(
    path for folder in ("frontlog", *ROOMS, "tests", "tools") for path in (ROOT / folder).rglob("*.py")
)


def ids(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def test_each_folder_with_an_init_is_a_listed_package() -> None:
    on_disk = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    assert on_disk == {"frontlog", *ROOMS}
    assert set(SETUPTOOLS["packages"]) == set(PACKAGES)


def test_each_package_is_mapped_to_its_folder() -> None:
    assert SETUPTOOLS["package-dir"] == {package: folder_of(package).name for package in PACKAGES}


@pytest.mark.parametrize("room", ROOMS)
def test_each_room_is_linked_into_frontlog(room: str) -> None:
    link = ROOT / "frontlog" / room
    assert link.is_symlink(), (
        f"frontlog/{room} must be a symbolic link (a checkout without links can be installed only)"
    )
    assert link.readlink() == Path("..") / room
    assert (link / "__init__.py").samefile(ROOT / room / "__init__.py")


def test_frontlog_holds_no_other_link_or_package() -> None:
    folders = {
        path.name for path in (ROOT / "frontlog").iterdir() if path.is_dir() and path.name != "__pycache__"
    }
    assert folders - {"site"} == set(ROOMS)


@pytest.mark.parametrize("package", PACKAGES)
def test_packages_are_one_level_deep(package: str) -> None:
    folder = folder_of(package)
    nested = [ids(path) for path in folder.rglob("*.py") if path.parent != folder]
    assert not nested, "a sub-package vanishes from the wheel silently; a second level needs an ADR"


@pytest.mark.parametrize("package", PACKAGES)
def test_init_is_a_docstring_and_frontlog_has_its_version(package: str) -> None:
    body = tree_of(folder_of(package) / "__init__.py").body
    assert ast.get_docstring(ast.Module(body, []))
    rest = [re.sub(r"'[0-9.]+'", "VERSION", ast.unparse(node)) for node in body[1:]]
    assert rest == (["__version__ = VERSION"] if package == "frontlog" else [])


@pytest.mark.parametrize("package", PACKAGES)
def test_files_that_are_not_python_are_package_data(package: str) -> None:
    folder = folder_of(package)
    patterns = SETUPTOOLS["package-data"].get(package, [])
    packed = {path for pattern in patterns for path in folder.glob(pattern)}
    data = {
        path
        for path in folder.rglob("*")
        if path.is_file() and path.suffix not in {".py", ".pyc", ".md"} and "__pycache__" not in path.parts
    }
    assert {ids(path) for path in data - packed} == set(), (
        "not matched by package-data: missing from the wheel"
    )


def test_the_console_script_and_the_module_name_the_same_function() -> None:
    assert PYPROJECT["project"]["scripts"] == {"frontlog": "frontlog.cli:main"}
    main = tree_of(modules()["frontlog.__main__"])
    assert "frontlog.cli.main" in {
        f"{node.module}.{alias.name}"
        for node in main.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


@pytest.mark.parametrize("path", SOURCES, ids=ids)
def test_modules_and_functions_fit(path: Path) -> None:
    lines = len(path.read_text(encoding="utf-8").splitlines())
    assert lines <= LINES_MAX or ids(path) in GENERATED, f"{lines} lines; aim at 150, stop at {LINES_MAX}"
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            length = node.end_lineno - node.lineno + 1
            assert length <= FUNCTION_LINES_MAX, f"{node.name}, line {node.lineno}: {length} lines"
