"""A damaged file is named before LMDB reads it, which would end the process without a word (tested in a child)."""

import subprocess
import sys
from pathlib import Path

import pytest

from frontlog.avro.errors import Corrupt
from frontlog.state.lmdb_store import LmdbStore

PAGE = 4_096
TABLES = ("log", "urls")
READ_ALL = """
import sys
from frontlog.avro.errors import Corrupt
from frontlog.state.lmdb_store import LmdbStore
try:
    store = LmdbStore(sys.argv[1], ("log", "urls"), readonly=True)
    store.check_pages()
except Corrupt as error:
    sys.exit(str(error))
with store.begin() as txn:
    rows = [len(list(txn.scan(table))) for table in ("log", "urls")]
print(rows)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A store with branch, leaf and overflow pages in two tables."""
    store = LmdbStore(tmp_path / "s", TABLES, map_bytes=1 << 22)
    for round_ in range(4):
        with store.begin(write=True) as txn:
            for n in range(300):
                txn.put("urls", b"%05d" % n, bytes((round_,)) * 60)
            txn.put("log", b"%d" % round_, bytes((round_ + 1,)) * (5 * PAGE))
            txn.commit()
    store.close()
    return tmp_path / "s"


def read(folder: Path) -> tuple[int, str]:
    """(exit code, what was said) of a process that reads all there is."""
    done = subprocess.run(
        [sys.executable, "-c", READ_ALL, str(folder)], capture_output=True, text=True, check=False, timeout=60
    )
    return done.returncode, done.stdout + done.stderr


def test_a_whole_file_is_read(folder: Path) -> None:
    assert read(folder) == (0, "[4, 300]\n")


def test_wherever_a_file_is_cut_it_is_read_whole_or_said_to_be_cut(folder: Path) -> None:
    data = folder / "data.mdb"
    whole = data.read_bytes()
    said: list[tuple[int, str]] = []
    for part in (0.25, 0.5, 0.75, 0.9):
        data.write_bytes(whole[: int(len(whole) * part)])
        said.append(read(folder))
    data.write_bytes(whole[:-1])
    said.append(read(folder))
    for code, text in said:
        assert code == 1 and "it was cut" in text and str(data) in text, said


def test_a_file_that_lacks_only_free_pages_is_no_damage(folder: Path) -> None:
    """LMDB needn't write free pages at the end of its file."""
    data = folder / "data.mdb"
    pages = bytearray(data.read_bytes())
    for meta in (0, 1):  # both say that the file has three pages more
        at = meta * PAGE + 16 + 24 + 48 + 48
        pages[at : at + 8] = (int.from_bytes(pages[at : at + 8], "little") + 3).to_bytes(8, "little")
    data.write_bytes(pages)
    assert read(folder) == (0, "[4, 300]\n")


def test_a_page_that_was_overwritten_is_said(folder: Path) -> None:
    """Not every page is in use, and what a page holds isn't looked at; but no damage ends the process unsaid."""
    data = folder / "data.mdb"
    whole = data.read_bytes()
    found = 0
    for number in range(2, len(whole) // PAGE):
        data.write_bytes(whole[: number * PAGE] + bytes(PAGE) + whole[(number + 1) * PAGE :])
        wrong = _fault(data)
        assert wrong == "" or f"page {number} " in wrong
        found += wrong != ""
    assert found >= 5


def _fault(data: Path) -> str:
    import lmdb

    from frontlog.state import lmdb_pages

    env = lmdb.open(str(data.parent), readonly=True, lock=False)
    try:
        with env.begin() as txn:
            return lmdb_pages.fault(data, txn.id(), PAGE)
    finally:
        env.close()


def test_an_open_store_says_it_too(folder: Path) -> None:
    store = LmdbStore(folder, TABLES)
    store.check_pages()
    whole = (folder / "data.mdb").read_bytes()
    with (folder / "data.mdb").open("r+b") as file:
        file.seek(2 * PAGE)
        file.write(bytes(len(whole) - 2 * PAGE))
    with pytest.raises(Corrupt, match="is no page of a tree"):
        store.check_pages()
    store.close()
