"""What decides and what is folded sees no clock, chance, environment or file; read from the source.

Not verified: what a library does behind a function that is allowed, and names reached through `getattr`.
"""

import ast

import pytest

from house.source import modules, names_of, package_of, tree_of

CLOCK = (
    "time",
    "datetime.datetime.now",
    "datetime.datetime.utcnow",
    "datetime.datetime.today",
    "datetime.date.today",
)
# hash() of a string differs from process to process, id() always: neither may reach a row or an order.
CHANCE = ("random", "secrets", "os.urandom", "uuid.uuid1", "uuid.uuid4", "builtins.hash", "builtins.id")
ENVIRONMENT = ("os.environ", "os.environb", "os.getenv", "platform", "locale", "sys.argv")
OUTSIDE = (
    *(
        "aiohttp",
        "asyncio",
        "io",
        "lmdb",
        "multiprocessing",
        "os",
        "pathlib",
        "shutil",
        "socket",
        "ssl",
        "subprocess",
    ),
    *("tempfile", "threading", "builtins.open", "builtins.input", "builtins.print"),
    "frontlog.state.lmdb_store",
)
FORBIDDEN = {
    "frontlog.processors": CLOCK + CHANCE + ENVIRONMENT + OUTSIDE,
    "frontlog.state": CLOCK + CHANCE + ENVIRONMENT,
    "frontlog.avro": CLOCK + CHANCE + ENVIRONMENT,
}


def breaches(tree: ast.Module, forbidden: tuple[str, ...]) -> list[tuple[str, int]]:
    return sorted(
        {(n, line) for n, line in names_of(tree) for f in forbidden if n == f or n.startswith(f"{f}.")}
    )


@pytest.mark.parametrize("module", [name for name in modules() if package_of(name) in FORBIDDEN])
def test_no_clock_chance_environment_or_outside(module: str) -> None:
    assert breaches(tree_of(modules()[module]), FORBIDDEN[package_of(module)]) == []


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("import time\n", [("time", 1)]),
        ("from time import monotonic as m\n", [("time.monotonic", 1)]),
        ("import datetime as dt\nx = dt.datetime.now(dt.UTC)\n", [("datetime.datetime.now", 2)]),
        ("from datetime import datetime\nx = datetime.utcnow\n", [("datetime.datetime.utcnow", 2)]),
        ("def f(x: str) -> int:\n    return hash(x)\n", [("builtins.hash", 2)]),
        ("import os\nhome = os.environ['HOME']\n", [("os.environ", 2)]),
        ("from datetime import datetime\nx = datetime.fromtimestamp(0)\n", []),
        ("import hashlib\ntime_ms = hashlib.sha256(b'').digest()\n", []),
    ],
)
def test_the_reader_finds_what_it_must(source: str, found: list[tuple[str, int]]) -> None:
    assert breaches(ast.parse(source), CLOCK + CHANCE + ENVIRONMENT) == found
