"""A disk that is full and folders that refuse writes: the real thing, in processes with limits of their own.

Not verified: quotas (EDQUOT goes the way of ENOSPC) and disks that report errors.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

# Runs in the small place: fills it, then shows that nothing of the failed batch is there and that the
# store goes on. `room` is what a person would do: make room.
FILLER = """
import sys
from pathlib import Path
from frontlog.avro.errors import StoreFull
from frontlog.state.lmdb_store import LmdbStore
folder = Path(sys.argv[1])
ballast = folder / "ballast"
ballast.write_bytes(b"x" * 1_000_000)
store = LmdbStore(folder / "store", ["a", "b"])
with store.begin(write=True) as txn:
    txn.put("b", b"k", b"kept")
    txn.commit()
batches = 0
while True:
    try:
        with store.begin(write=True) as txn:
            txn.put_many("a", [(b"%04d-%04d" % (batches, n), b"x" * 900) for n in range(500)])
            txn.commit()
        batches += 1
    except StoreFull as exc:
        print(exc)
        break
def show():
    with store.begin() as txn:
        assert txn.get("b", b"k") == b"kept"
        assert txn.count("a") == 500 * batches == sum(1 for _ in txn.scan("a"))
show()
for _ in range(3):
    try:
        with store.begin(write=True) as txn:
            txn.put_many("a", [(b"%04d-%04d" % (batches, n), b"x" * 900) for n in range(500)])
            txn.commit()
        raise SystemExit("the disk is not full")
    except StoreFull:
        show()
room()
with store.begin(write=True) as txn:
    txn.put_many("a", [(b"%04d-%04d" % (batches, n), b"x" * 900) for n in range(500)])
    txn.commit()
batches += 1
show()
store.close()
store = LmdbStore(folder / "store", ["a", "b"])
show()
print("usable", batches)
"""

LIMIT = """
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (4 << 20, resource.RLIM_INFINITY))
def room():
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
"""
UNLINK = """
def room():
    ballast.unlink()
"""
OPENER = """
import sys
from frontlog.avro.errors import ConfigError
from frontlog.state.lmdb_store import LmdbStore
from frontlog.state.owner_lock import OwnerLock
for use in (lambda: LmdbStore(sys.argv[1], ["a"]), OwnerLock(sys.argv[1], command="", started_ms=0).acquire):
    try:
        use()
    except ConfigError as exc:
        print(exc)
"""


def run(code: str, folder: Path, *under: str) -> list[str]:
    """What Python prints in a process of its own, under another command if given."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    command = [*under, sys.executable, "-c", code, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=50, env=env, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def mounted(folder: Path, options: str) -> list[str]:
    """A command that runs another with a tmpfs on the folder; the mount is gone with its process."""
    return ["unshare", "-m", "sh", "-c", f'mount -t tmpfs -o {options} tmpfs "$0" && exec "$@"', str(folder)]


def needs(*command: str) -> None:
    """Skip where a command that sets the scene is not allowed, or not there."""
    try:
        subprocess.run([*command, "true"], capture_output=True, timeout=10, check=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip(f"needs the right to run {command[0]}")


def check(lines: list[str]) -> None:
    assert "make room on the disk" in lines[0]
    assert "store" in lines[0]
    assert int(lines[1].removeprefix("usable ")) >= 2


def test_a_file_that_may_not_grow_is_a_full_disk(tmp_path: Path) -> None:
    check(run(LIMIT + FILLER, tmp_path))


def test_a_full_disk_keeps_nothing_of_the_batch_and_recovers(tmp_path: Path) -> None:
    small = mounted(tmp_path, "size=4m")
    needs(*small)
    check(run(UNLINK + FILLER, tmp_path, *small))


def refusals(lines: list[str], folder: Path, why: str) -> None:
    assert len(lines) == 2
    for line in lines:
        assert str(folder) in line
        assert why in line
        assert "choose another folder" in line


def test_a_read_only_disk_says_what_to_do(tmp_path: Path) -> None:
    read_only = mounted(tmp_path, "ro")
    needs(*read_only)
    refusals(run(OPENER, tmp_path, *read_only), tmp_path, "Read-only file system")


def test_a_folder_without_permission_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "ours").mkdir(mode=0o555)
    # The superuser may write everywhere, unless it gives that up.
    under = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"] if os.geteuid() == 0 else []
    needs(*under)
    for folder in (tmp_path / "ours", tmp_path / "ours" / "new"):
        refusals(run(OPENER, folder, *under), folder, "Permission denied")


@pytest.mark.parametrize("below", ["", "below"])
def test_a_file_in_the_place_of_a_folder_says_what_to_do(tmp_path: Path, below: str) -> None:
    (tmp_path / "file").write_bytes(b"")
    why = "Not a directory" if below else "File exists"
    refusals(run(OPENER, tmp_path / "file" / below), tmp_path / "file", why)
