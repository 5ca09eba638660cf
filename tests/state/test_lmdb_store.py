"""What only the store in LMDB can do wrong: maps that fill, processes that share, forks, errors by kind.

Full disks and folders that refuse writes: tests/state/test_lmdb_disk.py.
Not verified: power cuts, and files that were cut short from outside (SIGBUS).
"""

import threading
from pathlib import Path

import lmdb
import pytest

from frontlog.avro.errors import ConfigError, Corrupt, Incompatible, MapFull, Retriable, StoreFull
from frontlog.state import lmdb_store
from frontlog.state.lmdb_errors import CLASSES, of_lmdb, of_opening
from frontlog.state.lmdb_store import READER_CHECK_EVERY, LmdbStore
from frontlog.state.store import Durability, Txn, in_write
from support.stores import Child, fill, rows_of

TABLES = ("a", "b")
SMALL = 1 << 20


def write_bytes(txn: Txn, size_bytes: int, table: str = "a") -> None:
    """About this many bytes of rows."""
    txn.put_many(table, [(b"%08d" % n, b"x" * 1000) for n in range(size_bytes // 1000)])


def test_a_full_map_drops_the_transaction_and_grows(tmp_path: Path) -> None:
    store = LmdbStore(tmp_path, TABLES, map_bytes=SMALL)
    fill(store)
    with pytest.raises(MapFull, match="repeat"), store.begin(write=True) as txn:
        write_bytes(txn, 2 * SMALL)
    assert store.map_bytes() == 2 * SMALL
    assert len(rows_of(store)) == 10
    in_write(store, lambda txn: write_bytes(txn, 20 * SMALL))
    assert store.map_bytes() == 32 * SMALL
    assert len(rows_of(store)) == 10 + 20 * SMALL // 1000
    store.close()


def test_a_map_full_at_the_commit_is_the_same(tmp_path: Path) -> None:
    """Near the end of the map a put still fits but the commit doesn't: every size is tried."""
    store = LmdbStore(tmp_path, TABLES, map_bytes=SMALL)
    for count in range(180, 260):
        items = [(b"%08d" % n, b"x" * 3000) for n in range(count)]
        with store.begin(write=True) as txn:
            try:
                txn.clear("a")
                txn.put_many("a", items)
                txn.commit()
            except MapFull:
                break
    else:
        pytest.fail("the map never filled")
    assert len(rows_of(store)) == count - 1 or rows_of(store) == []
    fill(store, "b")
    store.close()


def test_the_map_never_grows_under_a_reader(tmp_path: Path) -> None:
    store = LmdbStore(tmp_path, TABLES, map_bytes=SMALL)
    rows = fill(store)
    reading, leave = threading.Event(), threading.Event()
    seen: list[object] = []

    def read() -> None:
        with store.begin() as txn:
            scan = txn.scan("a")
            seen.append(next(scan))
            reading.set()
            leave.wait(10)
            seen.extend(scan)

    reader = threading.Thread(target=read)
    reader.start()
    reading.wait(10)
    with pytest.raises(MapFull), store.begin(write=True) as txn:
        write_bytes(txn, 2 * SMALL)
    assert store.map_bytes() == SMALL  # not yet: somebody reads
    with store.begin() as txn:
        assert txn.count("a") == 10  # readers don't wait for it
    writer = threading.Thread(target=lambda: in_write(store, lambda txn: write_bytes(txn, SMALL)))
    writer.start()
    writer.join(0.1)
    assert writer.is_alive()
    leave.set()
    writer.join(10)
    reader.join(10)
    assert seen == rows
    assert store.map_bytes() == 2 * SMALL
    assert len(rows_of(store)) == 10 + SMALL // 1000
    store.close()


def test_a_thread_that_reads_cannot_grow_the_map(tmp_path: Path) -> None:
    store = LmdbStore(tmp_path, TABLES, map_bytes=SMALL)
    fill(store)
    with store.begin() as reader:
        with pytest.raises(MapFull), store.begin(write=True) as txn:
            write_bytes(txn, 2 * SMALL)
        with pytest.raises(Retriable, match="end them"):
            store.begin(write=True)
        assert reader.count("a") == 10
    in_write(store, lambda txn: write_bytes(txn, SMALL))
    store.close()


def test_a_reader_that_stays_holds_the_writer_up_for_a_bounded_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lmdb_store, "MAP_WAIT_S", 0.05)
    store = LmdbStore(tmp_path, TABLES, map_bytes=SMALL)
    begun, leave = threading.Event(), threading.Event()

    def read() -> None:
        with store.begin():
            begun.set()
            leave.wait(10)

    reader = threading.Thread(target=read)
    reader.start()
    begun.wait(10)
    with pytest.raises(Retriable, match="end them"):
        in_write(store, lambda txn: write_bytes(txn, 2 * SMALL))
    leave.set()
    reader.join(10)
    in_write(store, lambda txn: write_bytes(txn, 2 * SMALL))
    store.close()


def test_the_map_has_a_bound(tmp_path: Path) -> None:
    store = LmdbStore(tmp_path, TABLES, map_bytes=SMALL, map_bytes_max=3 * SMALL)
    with pytest.raises(StoreFull, match="map_bytes_max"):
        in_write(store, lambda txn: write_bytes(txn, 4 * SMALL))
    assert store.map_bytes() == 3 * SMALL
    fill(store)
    store.close()


@pytest.mark.parametrize("write", [True, False])
def test_a_map_grown_by_another_process_is_adopted(tmp_path: Path, write: bool) -> None:
    store = LmdbStore(tmp_path, TABLES, map_bytes=SMALL)
    fill(store)
    child = Child(
        "import sys\n"
        "from frontlog.state.lmdb_store import LmdbStore\n"
        f"store = LmdbStore(sys.argv[1], {TABLES!r}, map_bytes=1 << 26)\n"
        "with store.begin(write=True) as txn:\n"
        "    txn.put_many('b', [(b'%08d' % n, b'x' * 1000) for n in range(5000)])\n"
        "    txn.commit()\n"
        "store.close()\n",
        str(tmp_path),
    )
    assert child.wait() == 0
    with store.begin(write=write) as txn:
        assert txn.count("b") == 5000
    assert store.map_bytes() == 1 << 26
    fill(store)
    store.close()


def test_a_small_map_opens_a_large_file(tmp_path: Path) -> None:
    store = LmdbStore(tmp_path, TABLES, map_bytes=64 * SMALL)
    in_write(store, lambda txn: write_bytes(txn, 5 * SMALL))
    store.close()
    store = LmdbStore(tmp_path, TABLES, map_bytes=SMALL)
    assert store.map_bytes() == 16 * SMALL
    fill(store, "b")
    store.close()


def test_a_folder_is_open_once_a_process(tmp_path: Path) -> None:
    store = LmdbStore(tmp_path / "x", TABLES)
    (tmp_path / "link").symlink_to(tmp_path / "x")
    for path in (tmp_path / "x", str(tmp_path / "x"), tmp_path / "y" / ".." / "x", tmp_path / "link"):
        with pytest.raises(AssertionError, match="already open in this process"):
            LmdbStore(path, TABLES)
    fill(store)
    store.close()
    LmdbStore(tmp_path / "x", TABLES).close()


def test_a_forked_child_can_neither_use_nor_open_it(tmp_path: Path) -> None:
    child = Child(
        "import os, sys\n"
        "from frontlog.state.lmdb_store import LmdbStore\n"
        "store = LmdbStore(sys.argv[1], ['a'])\n"
        "def refused(use):\n"
        "    try:\n"
        "        use()\n"
        "    except AssertionError as exc:\n"
        "        print('fork' in str(exc), flush=True)\n"
        "if os.fork() == 0:\n"
        "    refused(store.begin)\n"
        "    refused(store.close)\n"
        "    refused(lambda: LmdbStore(sys.argv[1], ['a']))\n"
        "    os._exit(0)\n"
        "os.wait()\n"
        "store.begin(write=True).commit()\n"
        "print('parent', flush=True)\n",
        str(tmp_path),
    )
    assert [child.line() for _ in range(4)] == ["True", "True", "True", "parent"]
    assert child.wait() == 0


def test_readers_that_were_killed_do_not_make_the_file_grow(tmp_path: Path) -> None:
    store = LmdbStore(tmp_path, TABLES, durability="none")
    rows = [(b"k", b"x" * 100_000)]

    def write(times: int) -> int:
        for _ in range(times):
            with store.begin(write=True) as txn:
                txn.put_many("a", rows)
                txn.commit()
        return store.size_bytes()

    write(10)
    child = Child(
        "import sys, time\n"
        "from frontlog.state.lmdb_store import LmdbStore\n"
        f"txn = LmdbStore(sys.argv[1], {TABLES!r}).begin()\n"
        "print(txn.count('a'), flush=True)\n"
        "time.sleep(60)\n",
        str(tmp_path),
    )
    assert child.line() == "1"
    before = store.size_bytes()
    assert write(10) >= before + 900_000  # the reader keeps every version alive
    child.kill()
    grown = write(READER_CHECK_EVERY)
    assert write(50) == grown
    store.close()


def test_durability_can_change_at_each_opening(tmp_path: Path) -> None:
    flags: list[tuple[bool, bool]] = []
    turns: tuple[Durability, ...] = ("fsync", "nometasync", "none", "fsync")
    for turn, durability in enumerate(turns):
        store = LmdbStore(tmp_path, TABLES, durability=durability)
        assert store.durability == durability
        assert len(rows_of(store)) == turn
        fill(store, count=turn + 1)
        found = store._env.flags()  # pyright: ignore[reportPrivateUsage]
        flags.append((found["sync"], found["metasync"]))
        store.sync()
        store.close()
    assert flags == [(True, True), (True, False), (False, False), (True, True)]


def test_a_clean_close_makes_everything_durable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    turns: tuple[Durability, ...] = ("fsync", "nometasync", "none")
    for durability in turns:
        store = LmdbStore(tmp_path, TABLES, durability=durability)
        monkeypatch.setattr(store, "sync", lambda durability=durability: synced.append(durability))
        store.close()
    LmdbStore(tmp_path, TABLES, durability="none", readonly=True).close()
    assert synced == ["nometasync", "none"]


def test_a_read_only_store_reads_beside_a_writer(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="holds no store"):
        LmdbStore(tmp_path / "none", TABLES, readonly=True)
    assert not (tmp_path / "none").exists()
    store = LmdbStore(tmp_path, TABLES)
    rows = fill(store)
    child = Child(
        "import sys\n"
        "from frontlog.state.lmdb_store import LmdbStore\n"
        f"store = LmdbStore(sys.argv[1], {TABLES!r}, readonly=True)\n"
        "with store.begin() as txn:\n"
        "    print(txn.count('a'), store.used_bytes() > 0, flush=True)\n"
        "try:\n"
        "    store.begin(write=True)\n"
        "except AssertionError:\n"
        "    print('refused', flush=True)\n"
        "store.close()\n",
        str(tmp_path),
    )
    with store.begin(write=True) as txn:
        txn.put("a", b"more", b"")
        assert [child.line(), child.line()] == [f"{len(rows)} True", "refused"]
        txn.commit()
    assert child.wait() == 0
    store.close()
    with pytest.raises(Incompatible, match="no table c"):
        LmdbStore(tmp_path, (*TABLES, "c"), readonly=True)
    LmdbStore(tmp_path, (*TABLES, "c")).close()
    LmdbStore(tmp_path, (*TABLES, "c"), readonly=True).close()


def test_tables_are_made_all_or_none(tmp_path: Path) -> None:
    """A process that is killed while it makes a store leaves one that says so, not one of "another version"."""
    with pytest.raises(AssertionError, match="BAD_VALSIZE"):
        LmdbStore(tmp_path, ("a", "b" * 600))
    with pytest.raises(ConfigError, match="no tables yet"):
        LmdbStore(tmp_path, ("a",), readonly=True)
    LmdbStore(tmp_path, ("a",)).close()
    LmdbStore(tmp_path, ("a",), readonly=True).close()
    with pytest.raises(Incompatible, match="has no table b"):
        LmdbStore(tmp_path, TABLES, readonly=True)


def test_a_file_of_something_else_is_corrupt(tmp_path: Path) -> None:
    (tmp_path / "data.mdb").write_bytes(bytes(range(256)) * 64)
    for _ in range(2):
        with pytest.raises(Corrupt, match="rebuild"):
            LmdbStore(tmp_path, TABLES)


KINDS = [
    (lmdb.MapFullError, MapFull),
    (lmdb.DiskError, StoreFull),
    (lmdb.CorruptedError, Corrupt),
    (lmdb.InvalidError, Corrupt),
    (lmdb.VersionMismatchError, Incompatible),
    (lmdb.ReadersFullError, Retriable),
    (lmdb.LockError, Retriable),
    (lmdb.MemoryError, Retriable),
    (lmdb.PanicError, Retriable),
    (lmdb.BadTxnError, AssertionError),
    (lmdb.BadValsizeError, AssertionError),
    (lmdb.ReadonlyError, AssertionError),
    (lmdb.Error, AssertionError),
]


@pytest.mark.parametrize(("theirs", "ours"), KINDS)
def test_errors_say_what_to_do(theirs: type[lmdb.Error], ours: type[Exception]) -> None:
    error = of_lmdb(theirs("what happened"), "put to urls", Path("/some/folder"))
    assert type(error) is ours
    assert "put to urls in /some/folder: what happened" in str(error)


@pytest.mark.parametrize(
    ("code", "ours"),
    [(27, StoreFull), (28, StoreFull), (122, StoreFull), (5, Retriable), (30, ConfigError), (999, Corrupt)],
)
def test_errors_of_the_system_are_told_by_number(tmp_path: Path, code: int, ours: type[Exception]) -> None:
    class Error(Exception):
        """As the library makes them: the number is set from outside."""

    error = Error("mdb_txn_commit")
    vars(error)["code"] = code
    assert type(of_lmdb(error, "commit", tmp_path)) is ours
    assert list(tmp_path.iterdir()) == []


def test_permission_is_a_persons_business_only_while_opening() -> None:
    assert type(of_opening(lmdb.ReadonlyError("denied"), Path("/f"))) is ConfigError


def test_each_error_class_of_the_library_has_a_meaning() -> None:
    theirs = {name for name, kind in vars(lmdb).items() if isinstance(kind, type) and name.endswith("Error")}
    assert theirs - {"Error"} == set(CLASSES)
