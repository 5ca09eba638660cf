"""A folder has one owner, whose death frees it.

Not verified: locks over network file systems.
"""

import fcntl
import os
import threading
from pathlib import Path

import pytest

from frontlog.avro.errors import ConfigError
from frontlog.state.owner_lock import FILE, Holder, OwnerLock, holder
from support.stores import Child, wait_until

STARTED_MS = 1_790_000_000_000
OWNER = """
import sys, time
from frontlog.state.owner_lock import OwnerLock
lock = OwnerLock(sys.argv[1], command="frontlog crawl https://example.org/", started_ms=1790000000000)
lock.acquire()
print("locked", flush=True)
"""


def lock(folder: Path) -> OwnerLock:
    return OwnerLock(folder, command="frontlog  crawl\nx", started_ms=STARTED_MS)


def test_a_second_owner_is_told_who_the_first_is(tmp_path: Path) -> None:
    child = Child(OWNER + "import os; print(os.getpid(), flush=True); time.sleep(60)", str(tmp_path / "new"))
    assert child.line() == "locked"
    pid = int(child.line())
    with pytest.raises(ConfigError) as caught, lock(tmp_path / "new"):
        pass
    assert str(caught.value) == (
        f"{tmp_path / 'new'} is in use by process {pid} (frontlog crawl https://example.org/), "
        "started 2026-09-21T14:13:20+00:00; stop it or use another folder"
    )
    assert holder(tmp_path / "new") == Holder(pid, STARTED_MS, "frontlog crawl https://example.org/")
    child.kill()
    with lock(tmp_path / "new"):
        assert holder(tmp_path / "new") == Holder(os.getpid(), STARTED_MS, "frontlog crawl x")


def test_a_lock_ends_with_its_block(tmp_path: Path) -> None:
    assert holder(tmp_path) is None
    with lock(tmp_path) as held:
        with pytest.raises(ConfigError, match=f"process {os.getpid()}"):
            lock(tmp_path).acquire()
        with pytest.raises(AssertionError):
            held.acquire()
    assert holder(tmp_path) is None
    assert (tmp_path / FILE).exists()
    with lock(tmp_path):
        pass


def test_looking_does_not_keep_an_owner_out(tmp_path: Path) -> None:
    """`holder` locks for an instant; an owner that meets it waits for that instant."""
    (tmp_path / FILE).write_bytes(b"")
    fd = os.open(tmp_path / FILE, os.O_RDONLY)
    fcntl.flock(fd, fcntl.LOCK_SH)
    looking = threading.Timer(0.03, os.close, (fd,))
    looking.start()
    with lock(tmp_path):
        looking.join(10)


def test_a_forked_child_does_not_keep_the_lock(tmp_path: Path) -> None:
    child = Child(
        OWNER + "import os\n"
        "if os.fork() == 0:\n"
        "    print('child', flush=True)\n"
        "    time.sleep(2)\n"
        "    os._exit(0)\n"
        "time.sleep(60)\n",
        str(tmp_path),
    )
    assert [child.line(), child.line()] == ["locked", "child"]
    child.kill()
    with lock(tmp_path):
        pass


def test_a_holder_that_has_not_written_yet_is_still_one(tmp_path: Path) -> None:
    with lock(tmp_path):
        (tmp_path / FILE).write_bytes(b"")
        found = holder(tmp_path)
        assert found is not None
        assert "another process" in str(found)
    wait_until(lambda: holder(tmp_path) is None)
