"""Fixtures that more than one room uses."""

import os
from collections.abc import Iterator

import pytest
from hypothesis import settings

from support.broker import Broker, Unavailable, jars

# A busy machine is no fault of an example; what may take only so long has a bound of its own in its test.
settings.register_profile("frontlog", deadline=None)
settings.load_profile("frontlog")

SLOW = (
    "simulation/test_seeds",
    "kafka/test_chaos",
    "whole/test_kills",
    "streams/test_partition_rules",
    "kafka/",
    "whole/",
)
"""What takes longest begins first, so that nothing long is left when all else is done."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put slow tests first; within one of the places all stay in their order."""

    def rank(item: pytest.Item) -> int:
        return next((n for n, place in enumerate(SLOW) if f"tests/{place}" in item.nodeid), len(SLOW))

    items.sort(key=rank)


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker for the whole session. Where none can be had the tests are skipped, but never in CI."""
    try:
        libs = jars()
    except Unavailable as exc:
        if os.environ.get("CI") == "true":
            pytest.fail(f"no broker, and CI must have one: {exc}")
        pytest.skip(f"needs a broker: {exc}")
    broker = Broker(libs, tmp_path_factory.mktemp("kafka"))
    try:
        yield broker.start()
    finally:
        broker.close()
