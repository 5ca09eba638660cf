"""A disk that can be filled: a small file system in memory where it may be mounted, else a quota in the process.

    with small_disk(folder, size_bytes) as disk:
        disk.fill(leave_bytes=4096)
        disk.free()

The mount is a real full disk: the kernel refuses LMDB's and the archive's writes. Its fsync does nothing, so what a power
cut takes isn't seen here. A quota is the second best, for machines where nobody may mount: the crawl runs through this file
(`python -m bench.disk crawl ...`), and while the file named in FRONTLOG_BENCH_QUOTA exists, commits of the store are dropped
and writes of the archive stop half way, as ENOSPC makes them.
"""

import errno
import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

QUOTA = "FRONTLOG_BENCH_QUOTA"
PIECE_BYTES = 4_096


class Disk(Protocol):
    """Room that can be taken away. `program` runs frontlog's command line on it."""

    kind: str
    program: tuple[str, ...]

    def environment(self) -> dict[str, str]: ...

    def fill(self, leave_bytes: int) -> None: ...

    def free(self) -> None: ...


class Mounted:
    """A file system of its own; a file of ballast fills it."""

    kind = "tmpfs"
    program: tuple[str, ...] = (sys.executable, "-m", "frontlog")

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._ballast = folder / "ballast"

    def environment(self) -> dict[str, str]:
        return dict(os.environ)

    def fill(self, leave_bytes: int) -> None:
        """Write ballast until `leave_bytes` or less are free."""
        with self._ballast.open("ab", buffering=0) as file:
            while (room := self._room()) > leave_bytes:
                try:
                    file.write(bytes(min(max(PIECE_BYTES, room - leave_bytes), 1 << 20)))
                except OSError as error:
                    if error.errno != errno.ENOSPC:
                        raise
                    return  # the crawl was quicker

    def _room(self) -> int:
        found = os.statvfs(self._folder)
        return found.f_bavail * found.f_frsize

    def free(self) -> None:
        self._ballast.unlink(missing_ok=True)


class Quota:
    """A file that says "full" to a crawl that runs through this module."""

    kind = "quota"
    program: tuple[str, ...] = (sys.executable, "-m", "bench.disk")

    def __init__(self, folder: Path) -> None:
        self._flag = folder.with_name(f"{folder.name}.full")

    def environment(self) -> dict[str, str]:
        return {**os.environ, QUOTA: str(self._flag)}

    def fill(self, leave_bytes: int) -> None:
        """Full at once: a quota has no last bytes."""
        self._flag.touch()

    def free(self) -> None:
        self._flag.unlink(missing_ok=True)


@contextmanager
def small_disk(folder: Path, size_bytes: int) -> Generator[Disk]:
    """A disk of `size_bytes` at `folder`, or a quota where none may be mounted."""
    folder.mkdir(parents=True, exist_ok=True)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size_bytes}", "frontlog-bench", str(folder)]
    try:
        mounted = subprocess.run(mount, capture_output=True).returncode == 0
    except OSError:
        mounted = False
    if not mounted:
        quota = Quota(folder)
        try:
            yield quota
        finally:
            quota.free()
        return
    try:
        yield Mounted(folder)
    finally:
        subprocess.run(["umount", str(folder)], check=True, capture_output=True)


# --- a crawl under a quota -------------------------------------------------------------------------------------------


def impose(flag: Path) -> None:
    """Let commits and archive writes of this process fail while `flag` exists."""
    from frontlog.avro.errors import StoreFull
    from frontlog.fetch import files
    from frontlog.state.lmdb_store import LmdbTxn

    commit, write = LmdbTxn.commit, files.LocalOut.write

    def refused_commit(self: LmdbTxn) -> None:
        if flag.exists():
            self.abort()
            raise StoreFull("the quota of this test is reached; nothing was written")
        commit(self)

    def half_a_write(self: files.LocalOut, offset: int, data: bytes) -> None:
        if flag.exists():
            write(self, offset, data[: len(data) // 2])
            raise OSError(errno.ENOSPC, "the quota of this test is reached")
        write(self, offset, data)

    LmdbTxn.commit = refused_commit  # type: ignore[method-assign]
    files.LocalOut.write = half_a_write  # type: ignore[method-assign]


def main() -> None:
    """frontlog's command line, under the quota."""
    impose(Path(os.environ[QUOTA]))
    from frontlog.cli import main as frontlog

    frontlog()


if __name__ == "__main__":
    main()
