"""Fixtures that more than one room uses."""

import os
from collections.abc import Iterator

import pytest
from hypothesis import settings

from support.broker import Broker, Unavailable, jars

# A busy machine is no fault of an example; what may take only so long has a bound of its own in its test.
settings.register_profile("frontlog", deadline=None)
settings.load_profile("frontlog")


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
