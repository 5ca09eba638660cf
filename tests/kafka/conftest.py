"""Tests here start processes and a broker: they have more time than others."""

from pathlib import Path

import pytest

SECONDS = 180


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(SECONDS))
