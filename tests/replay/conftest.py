"""One honest crawl that all tests of this room share; each works on a copy."""

import shutil
from pathlib import Path

import pytest

from support.looking import crawl_small


@pytest.fixture(scope="session")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An honest crawl; not to be changed."""
    folder = tmp_path_factory.mktemp("honest") / "crawl"
    crawl_small(folder)
    return folder


@pytest.fixture
def crawl(honest: Path, tmp_path: Path) -> Path:
    """A copy of the honest crawl."""
    return Path(shutil.copytree(honest, tmp_path / "crawl"))
