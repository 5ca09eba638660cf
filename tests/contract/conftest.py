"""Fixtures of the contract suites; a new implementation is added to tests/support/stores.py alone."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from frontlog.state.store import Store
from frontlog.streams.log import Log
from support.stores import DURABLE_STORES, KAFKA, LOGS, SHARED_LOGS, STORES, KafkaLogs, Logs, Stores

# The first of them waits for the broker.
ON_KAFKA = pytest.param(KAFKA, marks=pytest.mark.timeout(150))


@pytest.fixture(params=sorted(STORES))
def stores(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stores]:
    made = STORES[request.param](tmp_path)
    yield made
    made.close()


@pytest.fixture
def store(stores: Stores) -> Store:
    return stores.open()


@pytest.fixture(params=sorted(DURABLE_STORES))
def durable(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stores]:
    made = STORES[request.param](tmp_path)
    yield made
    made.close()


def make_logs(request: pytest.FixtureRequest, tmp_path: Path) -> Logs:
    if request.param == KAFKA:
        return KafkaLogs(request.getfixturevalue("kafka").bootstrap)
    return LOGS[request.param](tmp_path)


@pytest.fixture(params=[*sorted(LOGS), ON_KAFKA])
def logs(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Logs]:
    made = make_logs(request, tmp_path)
    yield made
    made.close()


@pytest.fixture
def log(logs: Logs) -> Log:
    return logs.open()


@pytest.fixture(params=[*sorted(SHARED_LOGS), ON_KAFKA])
def shared(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Logs]:
    made = make_logs(request, tmp_path)
    yield made
    made.close()
