"""Folders that a crawl can't use, and configurations that it can't follow: what is said, and the exit code."""

import ctypes
import os
import subprocess
from pathlib import Path

import pytest

from frontlog.avro.errors import ConfigError, Corrupt
from support.crawls import QUICK, Running, command, crawl, fetched, here, options, until
from support.processes import environment
from support.site import Answer, Site, fill

PR_CAPBSET_DROP = 24
CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH = 1, 2


def without_privileges() -> None:
    """Let rights count for root, too, in the program that is started next (capabilities(7))."""
    if os.geteuid() == 0:
        libc = ctypes.CDLL(None)
        for capability in (CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH):
            libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)


def unprivileged(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*words), capture_output=True, text=True, timeout=40, env=environment(),
        preexec_fn=without_privileges, check=False,
    )  # fmt: skip


def test_a_folder_in_use_names_who_uses_it(tmp_path: Path) -> None:
    folder = tmp_path / "c"
    with Site() as site:
        fill(site, 2)
        site.put(0, "/1", Answer(b"late", delay_s=20))
        with Running(folder, *options(QUICK), site.url()) as running:
            until(lambda: "/1" in site.paths())
            second = here("crawl", "--out", folder)
            assert second.exit_code == ConfigError.exit_code
            assert f"in use by process {running.pid} (" in second.stderr and "stop it first" in second.stderr
            assert running.is_running
    assert second.stdout == ""


@pytest.mark.parametrize("begun", [False, True])
def test_a_folder_that_may_not_be_written_is_told_before_the_first_request(
    tmp_path: Path, begun: bool
) -> None:
    folder = tmp_path / "c"
    with Site() as site:
        fill(site, 2)
        if begun:
            crawl(folder, site.url(), crawl__pages_max=1)
        else:
            folder.mkdir()
        asked = len(site.asked())
        folder.chmod(0o555)
        done = unprivileged("crawl", "--out", folder, *options(QUICK), site.url())
        folder.chmod(0o755)
        assert len(site.asked()) == asked
    assert done.returncode == ConfigError.exit_code, done.stderr
    assert str(folder) in done.stderr and "Permission denied" in done.stderr
    assert "give yourself the right" in done.stderr and "Traceback" not in done.stderr


def test_a_log_that_may_not_be_written_is_told_before_the_first_request(tmp_path: Path) -> None:
    folder = tmp_path / "c"
    with Site() as site:
        fill(site, 2)
        crawl(folder, site.url(), crawl__pages_max=1)
        asked = len(site.asked())
        (folder / "log" / "frontier-0" / "data.mdb").chmod(0o444)
        done = unprivileged("crawl", "--out", folder)
        assert len(site.asked()) == asked
    assert done.returncode == ConfigError.exit_code, done.stderr
    assert "frontier-0" in done.stderr and "writable for this user" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_archive_that_may_not_be_written_ends_the_crawl_with_what_to_do(tmp_path: Path) -> None:
    folder = tmp_path / "c"
    with Site() as site:
        everything = fill(site, 2)
        crawl(folder, site.url(), crawl__pages_max=1)
        (folder / "archive").chmod(0o555)
        done = unprivileged("crawl", "--out", folder, *options(QUICK))
        (folder / "archive").chmod(0o755)
        assert done.returncode == ConfigError.exit_code, done.stderr
        assert (
            "the archive needs a folder that this user may write" in done.stderr
            and "Traceback" not in done.stderr
        )
        crawl(folder)
    assert fetched(folder) == everything


def test_a_setting_that_does_not_exist_is_named_with_its_line_and_the_nearest_one(tmp_path: Path) -> None:
    folder = tmp_path / "c"
    with Site() as site:
        fill(site, 1)
        crawl(folder, site.url(), crawl__pages_max=1)
        (folder / "frontlog.toml").write_text("[politeness]\ngap_ms_mim = 5\n")
        done = here("crawl", "--out", folder)
    assert done.exit_code == ConfigError.exit_code
    assert "frontlog.toml, line 2" in done.stderr and "did you mean politeness.gap_ms_min?" in done.stderr


def test_a_damaged_log_ends_with_its_exit_code(tmp_path: Path) -> None:
    folder = tmp_path / "c"
    with Site() as site:
        fill(site, 2)
        crawl(folder, site.url(), crawl__pages_max=1)
        (folder / "log" / "content-0" / "data.mdb").write_bytes(b"\0" * 65_536)
        asked = len(site.asked())
        done = here("crawl", "--out", folder, *options(QUICK))
        assert len(site.asked()) == asked
    assert done.exit_code == Corrupt.exit_code, done.stderr
    assert "rebuild" in done.stderr and "Traceback" not in done.stderr
