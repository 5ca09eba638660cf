"""Fixtures that more than one room uses."""

import os
import sys
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import coverage
import pytest
from hypothesis import settings

from house.source import ROOT
from support.broker import Broker, Unavailable, end_shared, jars, shared
from support.order import shared_out

# `bench/` stands at the root, which comes last: its folders `avro`, `state` ... must not hide other packages of these names.
if str(ROOT) not in sys.path:
    sys.path.append(str(ROOT))

# A busy machine is no fault of an example; what may take only so long has a bound of its own in its test.
# FRONTLOG_EXAMPLES=5000 tries more of them where a test doesn't say how many.
settings.register_profile(
    "frontlog", deadline=None, max_examples=int(os.environ.get("FRONTLOG_EXAMPLES", "100"))
)
settings.load_profile("frontlog")

SLOW = {
    "kafka/test_chaos": 90,
    "whole/test_kills": 35,
    "simulation/test_seeds.py::test_no_invariant_breaks": 35,
    "kafka/test_cluster.py::test_make_cluster": 30,
    "kafka/test_schema_registry.py::test_a_crawl": 20,
    "kafka/test_worker": 20,
    "kafka/test_operating": 20,
    "kafka/test_doctor": 20,
    "streams/test_partition_rules": 15,
    "kafka/test_kafka_host": 10,
    "kafka/test_consume": 10,
    "fetch/test_parser_pool": 3,
    "simulation/": 3,
    "kafka/": 3,
    "whole/": 3,
}
"""Roughly how many seconds a test takes that takes long, by the place it is in; most of these wait more than they work."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what is slow, in each of the processes that share the tests."""
    processes = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    items[:] = [items[number] for number in shared_out([_seconds(item) for item in items], processes)]


def _seconds(item: pytest.Item) -> int:
    return next((seconds for place, seconds in SLOW.items() if f"tests/{place}" in item.nodeid), 0)


BROKER = pytest.StashKey[Path]()
"""Where the processes of one run find the broker that they share."""


def pytest_configure(config: pytest.Config) -> None:
    """The process that hands out the tests names the place, and ends the broker when all of them are done."""
    given: str | None = getattr(config, "workerinput", {}).get("broker")
    config.stash[BROKER] = Path(given or tempfile.mkdtemp(prefix="frontlog-tests-"))


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """pytest-cov pauses its own coverage for `no_cover`; in a process of pytest-xdist the one that begins with every process
    (`patch` in pyproject.toml) would go on in its place."""
    paused: list[coverage.Coverage] = []
    while item.get_closest_marker("no_cover") and (running := coverage.Coverage.current()) is not None:
        running.stop()
        paused.append(running)
    try:
        return (yield)
    finally:
        for one in reversed(paused):
            one.start()


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell a process that is given tests (pytest-xdist)."""
    node.workerinput["broker"] = str(node.config.stash[BROKER])


def pytest_unconfigure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        end_shared(config.stash[BROKER])


@pytest.fixture(scope="session")
def kafka_jars() -> Path:
    """Kafka's jars. Where none can be had the tests are skipped, but never in CI."""
    try:
        return jars()
    except Unavailable as exc:
        if os.environ.get("CI") == "true":
            pytest.fail(f"no broker, and CI must have one: {exc}")
        pytest.skip(f"needs a broker: {exc}")


@pytest.fixture(scope="session")
def kafka(kafka_jars: Path, pytestconfig: pytest.Config) -> Broker:
    """A broker for all tests of the run, in whatever process: names of crawls are used once, and nobody stops it."""
    return shared(kafka_jars, pytestconfig.stash[BROKER])


@pytest.fixture
def kafka_to_kill(kafka_jars: Path, tmp_path: Path) -> Iterator[Broker]:
    """A broker of one test's own."""
    broker = Broker(kafka_jars, tmp_path / "kafka")
    try:
        yield broker.start()
    finally:
        broker.close()
