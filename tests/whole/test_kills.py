"""A crawl in a real process that is killed three times, and once has its disk filled: the short form of `make kills`.

Not verified: power cuts. Needs Go and the sources of the synthetic web; in CI they must be there.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench.synthweb import Missing, binary
from house.source import ROOT
from support.processes import environment


@pytest.fixture(scope="module", autouse=True)
def _synthetic_web() -> None:
    try:
        binary()
    except Missing as missing:
        if os.environ.get("CI"):
            pytest.fail(f"CI needs the synthetic web: {missing}")
        pytest.skip(str(missing))


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("kills", "fulls"), [(3, 0), (0, 1)], ids=["kill -9", "a full disk"])
def test_nothing_is_lost_doubled_or_impolite(tmp_path: Path, kills: int, fulls: int) -> None:
    command = [sys.executable, "-m", "bench.kills", "--n", str(kills), "--fulls", str(fulls)]
    command += [
        "--hosts",
        "6",
        "--host-pages",
        "8",
        "--set",
        "log.durability=none",
        "--set",
        "parse.workers=1",
    ]
    command += ["--scratch", str(tmp_path / "crawls"), "--out", str(tmp_path / "rows.jsonl")]
    done = subprocess.run(command, cwd=ROOT, env=environment(traced=False), capture_output=True, text=True)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    found = json.loads(done.stdout.splitlines()[-1])
    assert (found["kills"], found["faults"]) == (kills + fulls, 0)
    rows = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text(encoding="utf-8").splitlines()]
    assert sum(len(row["kills"]) for row in rows) == kills + fulls
    assert all(row["fetched"] > 0 for row in rows)
