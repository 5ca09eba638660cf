"""The contract of `Files`, for the folder on disk and the one in memory."""

import os
from pathlib import Path

import pytest

from frontlog.fetch.files import Files, LocalFiles, MemoryFiles


@pytest.fixture(params=["local", "memory"])
def files(request: pytest.FixtureRequest, tmp_path: Path) -> Files:
    return LocalFiles(tmp_path / "a" / "b") if request.param == "local" else MemoryFiles()


def put(files: Files, name: str, data: bytes) -> None:
    out = files.create(name)
    out.write(0, data)
    out.sync()
    out.close()
    files.sync_folder()


def test_a_folder_that_is_not_there_is_empty(files: Files) -> None:
    assert files.names() == []


def test_writes_land_where_they_are_put(files: Files) -> None:
    out = files.create("x")
    out.write(0, b"abcdef")
    out.write(4, b"EFGH")
    out.write(10, b"k")
    assert files.read("x", 0, 99) == b"abcdEFGH\0\0k"
    out.truncate(3)
    out.write(3, b"!")
    out.sync()
    out.close()
    assert files.read("x", 0, 99) == b"abc!"
    assert files.size("x") == 4


def test_reads_are_short_only_at_the_end(files: Files) -> None:
    put(files, "x", bytes(range(100)))
    assert files.read("x", 10, 5) == bytes(range(10, 15))
    assert files.read("x", 95, 50) == bytes(range(95, 100))
    assert files.read("x", 100, 1) == files.read("x", 5, 0) == b""


def test_names_are_sorted_and_taken_once(files: Files) -> None:
    for name in "b", "a", "c":
        put(files, name, name.encode())
    assert files.names() == ["a", "b", "c"]
    with pytest.raises(FileExistsError):
        files.create("b")
    assert files.read("b", 0, 9) == b"b"


def test_a_file_can_be_cut_and_removed(files: Files) -> None:
    put(files, "x", b"abcdef")
    files.cut("x", 2)
    assert files.read("x", 0, 9) == b"ab"
    files.remove("x")
    assert files.names() == []


@pytest.mark.parametrize("name", ["", ".", "..", ".x", "a/b", "/etc/hostname", "../x", "a\0"])
def test_no_name_leads_out_of_the_folder(files: Files, name: str) -> None:
    put(files, "x", b"")
    for act in (files.create, files.size, files.remove):
        with pytest.raises(FileNotFoundError):
            act(name)
    with pytest.raises(FileNotFoundError):
        files.read(name, 0, 1)


def test_what_is_missing_is_said_to_be_missing(files: Files) -> None:
    put(files, "x", b"")
    for act in (files.size, files.remove):
        with pytest.raises(FileNotFoundError):
            act("y")


def test_on_disk_a_file_in_the_way_is_not_a_folder(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"")
    files = LocalFiles(tmp_path / "a")
    for act in (files.names, lambda: files.create("x")):
        with pytest.raises(NotADirectoryError):
            act()


def test_on_disk_a_short_write_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = os.pwrite

    def short(fd: int, data: memoryview, offset: int) -> int:
        return whole(fd, data[:3], offset)

    monkeypatch.setattr(os, "pwrite", short)
    files = LocalFiles(tmp_path)
    put(files, "x", b"abcdefgh")
    assert files.read("x", 0, 99) == b"abcdefgh"


def test_on_disk_subfolders_are_not_files(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    assert LocalFiles(tmp_path).names() == []


def test_in_memory_a_crash_keeps_what_was_synced() -> None:
    files = MemoryFiles()
    put(files, "kept", b"abc")
    out = files.create("kept2")
    out.write(0, b"xyz")
    out.sync()
    files.sync_folder()
    out.write(3, b"123456")
    late = files.create("nameless")
    late.write(0, b"x")
    late.sync()
    files.crash(torn=2)
    assert files.names() == ["kept", "kept2"]
    assert (files.read("kept", 0, 9), files.read("kept2", 0, 9)) == (b"abc", b"xyz12")
