"""What may not stand in any file of the repository: paths of a machine, hosts of package registries, secrets.

Text files only, those that git tracks or would track; skipped where there is no git checkout (an sdist).
"""

import re
import subprocess
from pathlib import Path

import pytest

from house.source import ROOT

SIZE_BYTES_MAX = 512 * 1024
# A folder name right after the first slash, a user or project after it; in a URL or a relative path it has a
# character of a name in front.
MACHINE_PATH = r"(?<![\w.~:/<%*-])/(?:home|Users|root|work|workspace|farm|builds?)/[\w.-]+"
REGISTRY = r"\b(?:pypi\.org|pythonhosted\.org|registry\.npmjs\.org|proxy\.golang\.org|repo1?\.maven\.org)\b"
SECRET = r"-----BEGIN [A-Z ]*PRIVATE KEY-----|\bAKIA[0-9A-Z]{16}\b|\bgh[pousr]_[A-Za-z0-9]{36}\b"
FORBIDDEN = re.compile(f"{MACHINE_PATH}|{REGISTRY}|{SECRET}|{re.escape(str(ROOT))}/")


def tracked() -> list[Path]:
    command = ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        listed = subprocess.run(command, capture_output=True, check=True, text=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"not a git checkout that can be read: {error}")
    paths = (ROOT / name for name in listed.split("\0") if name)
    return [path for path in paths if path.is_file() and not path.is_symlink()]


def test_no_machine_path_registry_or_secret() -> None:
    found: list[str] = []
    for path in tracked():
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue  # binary: golden Avro, archives
        for number, line in enumerate(text.splitlines(), 1):
            if match := FORBIDDEN.search(line):
                found.append(f"{path.relative_to(ROOT)}:{number}: {match[0]}")
    assert found == []


def test_no_large_file() -> None:
    large = {str(path.relative_to(ROOT)): path.stat().st_size for path in tracked()}
    assert {name: size for name, size in large.items() if size > SIZE_BYTES_MAX} == {}


@pytest.mark.parametrize(
    ("line", "hit"),
    [
        ("see " + "/home" + "/ann/src", True),
        ('"' + "/work" + '/main"', True),
        ("https://example.com/home/ann", False),
        ("docs/work/plan.md", False),
        ("Disallow: /home/", False),
        ("index at " + "pypi" + ".org", True),
        (str(ROOT) + "/x", True),
    ],
)
def test_the_pattern_finds_what_it_must(line: str, hit: bool) -> None:
    assert bool(FORBIDDEN.search(line)) is hit
