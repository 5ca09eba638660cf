"""A disk that runs full under a crawl: fetching pauses and says why, goes on when there is room, and nothing is lost.

The disk is a small tmpfs of its own, so that nothing else runs full. Not seen here: a quota, and a remote store.
"""

import contextlib
import os
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Generator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from frontlog.avro.enums import State
from frontlog.avro.errors import Retriable
from frontlog.errors import STOPPED_NOW
from frontlog.streams.summary import End, Phase
from support.crawls import QUICK, Running, crawl, fetched, here, leased, options, prove, transitions, until
from support.site import Answer, Site, fill

DISK_BYTES = 12 << 20
LEASE_S = 4
WORDS = options(
    QUICK
    | {
        "scope.mode": "any",
        "politeness.gap_ms_min": 60,
        "limits.total_ms": 3_000,
        "attempts.lease_ms": LEASE_S * 1_000,
    }
)


@pytest.fixture
def disk(tmp_path: Path) -> Generator[Path]:
    """A file system of its own. Needs the right to mount; in CI it must be there."""
    where = tmp_path / "disk"
    where.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(where)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode and not os.environ.get("CI"):
        pytest.skip(f"no file system of its own can be mounted: {done.stderr.strip()}")
    assert not done.returncode, done.stderr
    yield where
    subprocess.run(["umount", "--lazy", str(where)], check=True)


def fill_up(disk: Path) -> Path:
    """A file that takes all the room there is."""
    ballast = disk / "ballast"
    with ballast.open("ab", buffering=0) as file, contextlib.suppress(OSError):
        for size in (1 << 16, 1 << 12):
            with contextlib.suppress(OSError):
                while True:
                    file.write(bytes(size))
    return ballast


def heavy_web(site: Site) -> set[str]:
    """Pages with 30 kB of noise each, so that neither log nor archive can go on without room."""
    everything, chance = fill(site, 8), Random(1)
    for (host, path), answer in list(site.pages.items()):
        assert isinstance(answer, Answer)
        noise = "".join(chance.choices("abcdefghijklmnopqrstuvwxyz0123456789", k=30_000)).encode()
        site.put(host, path, answer._replace(body=answer.body + b"<!--" + noise + b"-->"))
    return everything


def full(running: Running) -> dict[str, Any] | None:
    """The progress that says that there is no room."""
    return next((one for one in running.lines if one.get("phase") == Phase.STORE_FULL), None)


def test_a_crawl_waits_for_room_and_goes_on(disk: Path) -> None:
    folder = disk / "c"
    with Site(hosts=3) as site:
        everything = heavy_web(site)
        with Running(folder, *WORDS, site.url(), told=disk.parent) as running:
            until(lambda: all(site.paths(host) for host in range(3)))  # no robots.txt is on its way
            ballast = fill_up(disk)
            until(lambda: full(running), what="progress that says that there is no room")
            time.sleep(2.5)  # what was claimed before every part of it met the full disk is asked for
            asked = len(site.asked())
            time.sleep(LEASE_S)
            assert len(site.asked()) == asked, "nothing is fetched while there is no room"
            assert running.is_running, running.errors
            said = full(running)
            assert said is not None and "room" in said["detail"], "it says what to do"
            assert said["detail"].count(str(folder)) == 1, "it says where"
            ballast.unlink()
            assert running.wait() == 0, running.errors
        late = [one for one in transitions(folder) if one.to_state is State.DEFERRED]
        assert running.summary["end"] == End.DONE, (late, running.summary["waiting"])
    assert fetched(folder) == everything
    assert set(leased(folder).values()) == {1}, "nothing was lost, nothing was fetched twice"
    assert set(Counter((one.host, one.path) for one in site.asked()).values()) == {1}
    prove(folder)


def test_a_crawl_without_room_can_be_stopped_and_goes_on_later(disk: Path) -> None:
    folder = disk / "c"
    with Site(hosts=3) as site:
        everything = heavy_web(site)
        with Running(folder, *WORDS, site.url(), told=disk.parent) as running:
            site.await_requests(8)
            ballast = fill_up(disk)
            until(lambda: full(running), what="progress that says that there is no room")
            running.send(signal.SIGTERM)
            assert running.wait(10) in (STOPPED_NOW, Retriable.exit_code), running.errors
        assert "Traceback" not in running.errors
        new = here("crawl", "--out", disk / "new", site.url())
        assert new.exit_code == Retriable.exit_code, new.stderr
        assert "No space left" in new.stderr and "make room and run the command again" in new.stderr
        ballast.unlink()
        assert crawl(folder, scope__mode="any").end is End.DONE
    assert fetched(folder) == everything
    prove(folder)
