"""The doors that a newcomer takes: choosing a Python, the list of targets, a URL as it was typed.

Not verified here: that .venv can be made, which needs the network; `.ci/run` does it on a clean machine.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

from house.source import ROOT


def fake(folder: Path, name: str, body: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
    path.chmod(0o755)


def choose(folder: Path, **env: str) -> subprocess.CompletedProcess[str]:
    """Runs tools/python.sh where only the programs of `folder` are found."""
    command = ["/bin/sh", str(ROOT / "tools" / "python.sh"), "-c", "print('ran')"]
    return subprocess.run(
        command, env={"PATH": str(folder), **env}, capture_output=True, text=True, check=False
    )


def test_a_shim_that_fails_is_passed_over(tmp_path: Path) -> None:
    fake(tmp_path, "python3.13", "exit 127")
    fake(tmp_path, "python3.12", "exit 1")
    fake(tmp_path, "python3", f'exec {sys.executable} "$@"')
    assert choose(tmp_path).stdout == "ran\n"


def test_no_python_is_said_in_words(tmp_path: Path) -> None:
    fake(tmp_path, "python3", "exit 1")
    done = choose(tmp_path)
    assert done.returncode == 1
    assert "needs Python 3.11 or newer" in done.stderr


def test_a_named_python_is_the_only_one_tried(tmp_path: Path) -> None:
    fake(tmp_path, "python3", f'exec {sys.executable} "$@"')
    assert choose(tmp_path, PYTHON=str(tmp_path / "missing")).returncode == 1
    assert choose(tmp_path, PYTHON=sys.executable).stdout == "ran\n"


def test_every_target_is_phony_or_a_stamp_and_says_what_it_does() -> None:
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):(?!=)", text, re.MULTILINE))
    helped = set(re.findall(r"^([a-z-]+):.*## ", text, re.MULTILINE))
    phony = set(re.findall(r"^\.PHONY: (help .*)$", text, re.MULTILINE)[0].split())
    assert targets == helped == phony


def test_make_alone_lists_the_targets() -> None:
    env = {key: value for key, value in os.environ.items() if not key.startswith("MAKE")}
    done = subprocess.run(["make", "-C", str(ROOT)], env=env, capture_output=True, text=True, check=True)
    assert "make crawl" in done.stdout
    assert "make check" in done.stdout


def test_a_url_reaches_the_shell_as_it_was_typed(tmp_path: Path) -> None:
    url = "https://example.com/?a=$HOME&b=$(id)'\";x"
    show = tmp_path / "show.mk"
    show.write_text('show:\n\t@printf "%s" "$$URL"\n', encoding="utf-8")
    command = ["make", "-s", "-C", str(ROOT), "-f", "Makefile", "-f", str(show), "show", f"URL={url}"]
    env = {key: value for key, value in os.environ.items() if not key.startswith("MAKE")}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    assert done.stdout == url
