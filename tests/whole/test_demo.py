"""`frontlog demo` and what `frontlog crawl` prints: JSON lines in a pipe, words if asked for, little when quiet."""

import json
import signal
import subprocess
from collections import Counter
from pathlib import Path

import pytest
from warcio.archiveiterator import ArchiveIterator

from frontlog.avro.enums import Reason, State
from frontlog.commands_site import DEMO_SETTINGS
from frontlog.streams.summary import End
from support.crawls import QUICK, command, frontlog, here, options, prove, urls
from support.processes import environment
from support.site import Site, fill


def test_a_demo_is_a_whole_crawl_that_can_be_stopped_and_gone_on_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "demo"
    with subprocess.Popen(
        command("demo", "--out", folder),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    ) as first:
        assert first.stdout is not None and first.stderr is not None
        seen = 0
        for line in first.stdout:
            told = json.loads(line)
            seen = told.get("pages_run", 0)
            if seen >= 5 and told["event"] == "progress":
                first.send_signal(signal.SIGINT)
                break
        last = json.loads(first.stdout.read().splitlines()[-1])
        errors = first.stderr.read()
    assert first.returncode == 0, errors
    assert (last["event"], last["end"]) == ("summary", End.STOPPED)
    assert "serving the demo site at http://127.0.0.1:" in errors
    monkeypatch.setitem(DEMO_SETTINGS, "attempts.retry_ms_min", 50)
    done = here("demo", "--out", folder, "--text")
    assert done.exit_code == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith(f"Going on with the crawl in {folder} as Mozilla/5.0 (compatible; frontlog/")
    assert any(line.startswith("Crawl ended after ") for line in lines)
    assert [line.split()[0] for line in lines[-4:]] == ["Next:", "frontlog", "frontlog", "frontlog"]
    reasons = Counter(row.reason for row in urls(folder).values() if row.state is not State.FETCHED)
    assert {
        Reason.ROBOTS_DENIED,
        Reason.OUT_OF_SCOPE,
        Reason.GONE,
        Reason.REDIRECT_LOOP,
        Reason.OVERSIZE,
    } <= set(reasons)
    assert sum(row.state is State.FETCHED for row in urls(folder).values()) > 40
    prove(folder)
    records = 0
    for path in (folder / "archive").iterdir():
        with path.open("rb") as file:
            for record in ArchiveIterator(file, check_digests=True):
                record.content_stream().read()
                assert record.digest_checker.passed is not False, record.digest_checker.problems
                records += 1
    assert records > 100, "an independent reader agrees"


def test_a_pipe_gets_json_lines(tmp_path: Path) -> None:
    folder = tmp_path / "c"
    with Site() as site:
        fill(site, 6)
        done = frontlog(
            "crawl", "--out", folder, *options(QUICK | {"politeness.gap_ms_min": 250}), site.url()
        )
    assert done.returncode == 0, done.stderr
    told = [json.loads(line) for line in done.stdout.splitlines()]
    assert [one["event"] for one in told[:2]] == ["start", "progress"] and told[-1]["event"] == "summary"
    assert told[0]["resumed"] is False and told[0]["settings"]["politeness"]["gap_ms_min"] == 250
    assert {one["event"] for one in told[1:-1]} == {"progress"}
    assert told[-1]["pages_run"] == 7 and told[-1]["end"] == End.DONE
    assert "no contact is set" in done.stderr


def test_quiet_is_quiet(tmp_path: Path) -> None:
    with Site() as site:
        fill(site, 1)
        done = frontlog(
            "crawl",
            "--out",
            tmp_path / "c",
            "--quiet",
            "--text",
            "--contact",
            "me@example.org",
            *options(QUICK),
            site.url(),
        )
        assert done.returncode == 0
        assert done.stderr == "frontlog: warning: durability is none: a power cut may lose the folder.\n"
        assert done.stdout.startswith("Crawl ended after ")
        again = here("crawl", "--out", tmp_path / "c", "--quiet")
        assert [json.loads(line)["event"] for line in again.stdout.splitlines()] == ["summary"]
        assert "contact" not in again.stderr, "it is remembered"
    agents = {one.headers["user-agent"] for one in site.asked()}
    assert len(agents) == 1 and next(iter(agents)).endswith("; +mailto:me@example.org)")
