"""The few file operations that an archive needs, behind one seam: a folder on disk, or one in memory.

Names are plain: a folder has no folders below it. An `Out` writes at offsets that its caller counts, so a
write that failed halfway is simply written again. `OSError` is the only way to fail, with its `errno`.

What is promised: after `sync` returns, all that was written to that file survives a crash of the
machine, provided that `sync_folder` returned after `create`. Nothing is, of bytes written since.
"""

import errno
import os
from pathlib import Path
from typing import Final, Protocol

_OPEN_MODE: Final = 0o644


class Out(Protocol):
    """A file that is being written."""

    def write(self, offset: int, data: bytes) -> None:
        """Put all of `data` at `offset`, or raise `OSError` with any part of it written."""
        ...

    def sync(self) -> None: ...

    def truncate(self, size: int) -> None: ...

    def close(self) -> None: ...


class Files(Protocol):
    """A folder of files."""

    def names(self) -> list[str]:
        """All names, sorted."""
        ...

    def size(self, name: str) -> int: ...

    def read(self, name: str, offset: int, length: int) -> bytes:
        """Up to `length` bytes from `offset`; fewer only where the file ends."""
        ...

    def create(self, name: str) -> Out:
        """A new, empty file; `FileExistsError` if the name is taken."""
        ...

    def sync_folder(self) -> None:
        """Make the names of created and removed files durable."""
        ...

    def cut(self, name: str, size: int) -> None:
        """Shorten a file that nobody writes, durably."""
        ...

    def remove(self, name: str) -> None: ...


class LocalFiles:
    """A folder on a local disk, made when the first file is created."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def names(self) -> list[str]:
        if not self._folder.exists():
            return []
        return sorted(entry.name for entry in self._folder.iterdir() if entry.is_file())

    def size(self, name: str) -> int:
        return self._path(name).stat().st_size

    def read(self, name: str, offset: int, length: int) -> bytes:
        fd = os.open(self._path(name), os.O_RDONLY | os.O_CLOEXEC)
        try:
            pieces: list[bytes] = []
            while length > 0 and (piece := os.pread(fd, length, offset)):
                pieces.append(piece)
                offset += len(piece)
                length -= len(piece)
            return pieces[0] if len(pieces) == 1 else b"".join(pieces)
        finally:
            os.close(fd)

    def create(self, name: str) -> "LocalOut":
        self._make_folder(self._folder)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        return LocalOut(os.open(self._path(name), flags, _OPEN_MODE))

    def sync_folder(self) -> None:
        _sync_path(self._folder)

    def cut(self, name: str, size: int) -> None:
        fd = os.open(self._path(name), os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.ftruncate(fd, size)
            os.fsync(fd)
        finally:
            os.close(fd)

    def remove(self, name: str) -> None:
        self._path(name).unlink()

    def _path(self, name: str) -> Path:
        return self._folder / _plain(name)

    def _make_folder(self, folder: Path) -> None:
        """Make missing folders from the top, each one durable in its parent before the next."""
        if folder.is_dir():
            return
        if folder.exists():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder))
        if folder.parent != folder:
            self._make_folder(folder.parent)
        folder.mkdir(exist_ok=True)
        _sync_path(folder.parent)


class LocalOut:
    """A file on a local disk."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def write(self, offset: int, data: bytes) -> None:
        view = memoryview(data)
        while view:
            written = os.pwrite(self._fd, view, offset)
            offset += written
            view = view[written:]

    def sync(self) -> None:
        os.fsync(self._fd)

    def truncate(self, size: int) -> None:
        os.ftruncate(self._fd, size)

    def close(self) -> None:
        os.close(self._fd)


class MemoryFiles:
    """A folder in memory that can lose power: `crash` keeps what was synced and nothing else.

    For tests and simulation. `crash(torn)` keeps that many bytes past each file's synced end, which is what
    an append that was cut short leaves; it does not model later bytes that survive without earlier ones.
    """

    def __init__(self) -> None:
        self.files: dict[str, bytearray] = {}
        self._synced: dict[str, bytes] = {}
        self._durable_names: set[str] = set()

    def names(self) -> list[str]:
        return sorted(self.files)

    def size(self, name: str) -> int:
        return len(self._find(name))

    def read(self, name: str, offset: int, length: int) -> bytes:
        return bytes(self._find(name)[offset : offset + length])

    def create(self, name: str) -> "MemoryOut":
        if _plain(name) in self.files:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), name)
        self.files[name] = bytearray()
        self._synced[name] = b""
        return MemoryOut(self, name)

    def sync_folder(self) -> None:
        self._durable_names = set(self.files)

    def cut(self, name: str, size: int) -> None:
        del self._find(name)[size:]
        self.sync(name)

    def remove(self, name: str) -> None:
        self._find(name)
        del self.files[name], self._synced[name]

    def sync(self, name: str) -> None:
        self._synced[name] = bytes(self._find(name))

    def crash(self, torn: int = 0) -> None:
        """Lose what was not synced, but for `torn` bytes past the synced end of each file."""
        for name, data in list(self.files.items()):
            if name not in self._durable_names:
                del self.files[name], self._synced[name]
                continue
            kept = self._synced[name]
            self.files[name] = bytearray(kept + bytes(data[len(kept) : len(kept) + torn]))
            self.sync(name)

    def _find(self, name: str) -> bytearray:
        if name not in self.files:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
        return self.files[name]


class MemoryOut:
    """A file in memory."""

    def __init__(self, files: MemoryFiles, name: str) -> None:
        self._files = files
        self._name = name

    def write(self, offset: int, data: bytes) -> None:
        held = self._files.files[self._name]
        held.extend(bytes(max(0, offset - len(held))))
        held[offset : offset + len(data)] = data

    def sync(self) -> None:
        self._files.sync(self._name)

    def truncate(self, size: int) -> None:
        del self._files.files[self._name][size:]

    def close(self) -> None:
        return


def _plain(name: str) -> str:
    """A name that cannot lead out of the folder; references come from logs that others may have written."""
    if not name or name.startswith(".") or "/" in name or "\0" in name:
        raise FileNotFoundError(errno.ENOENT, "not a plain file name", name)
    return name


def _sync_path(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
