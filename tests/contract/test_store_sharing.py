"""What every store must do between threads and, when it is durable, between processes and their deaths.

Not verified: durability after a power cut (processes are killed, the machine is not).
"""

import sys
import threading
from collections.abc import Callable, Iterator

import pytest

from frontlog.state.store import Store
from support.stores import Stores, fill, rows_of, wait_until


def in_thread(work: Callable[[], object]) -> list[object]:
    """What the work returns or raises in another thread, within ten seconds."""
    done: list[object] = []

    def run() -> None:
        try:
            done.append(work())
        except BaseException as exc:
            done.append(exc)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(10)
    return done


def test_a_write_transaction_belongs_to_its_thread(store: Store) -> None:
    with store.begin(write=True) as txn:
        for work in (
            lambda: txn.put("a", b"other", b""),
            lambda: txn.delete("a", b"other"),
            txn.commit,
            txn.abort,
        ):
            assert [type(done) for done in in_thread(work)] == [AssertionError]
        txn.put("a", b"k", b"own")
        txn.commit()
    assert rows_of(store) == [(b"k", b"own")]
    fill(store)  # the next writer is not blocked


def test_a_thread_has_one_write_transaction(store: Store) -> None:
    with store.begin(write=True) as txn:
        with pytest.raises(AssertionError, match="wait for itself"):
            store.begin(write=True)
        txn.put("a", b"k", b"")
        txn.commit()
    assert rows_of(store) == [(b"k", b"")]


def test_a_writer_waits_for_the_one_before(store: Store) -> None:
    begun = threading.Event()

    def second() -> None:
        begun.set()
        with store.begin(write=True) as txn:
            value = txn.get("a", b"k") or b""
            txn.put("a", b"k", value + b"2")
            txn.commit()

    thread = threading.Thread(target=second)
    with store.begin(write=True) as txn:
        thread.start()
        begun.wait()
        thread.join(0.05)
        assert thread.is_alive()
        txn.put("a", b"k", b"1")
        txn.commit()
    thread.join(10)
    assert rows_of(store) == [(b"k", b"12")]


@pytest.fixture
def hasty() -> Iterator[None]:
    """Threads that interrupt one another far more often than usual."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(usual)


@pytest.mark.usefixtures("hasty")
def test_readers_in_other_threads_never_see_half_a_transaction(store: Store) -> None:
    stop = threading.Event()
    wrong: list[object] = []

    def read() -> None:
        while not stop.is_set():
            with store.begin() as txn:
                try:
                    a, b = list(txn.scan("a")), dict(txn.scan("b"))
                    same = all(b.get(key) == value == txn.get("b", key) for key, value in a)
                    if not same or len(b) != txn.count("a"):
                        wrong.append((a, b))
                except BaseException as exc:
                    wrong.append(exc)

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    for turn in range(60):
        with store.begin(write=True) as txn:
            for table in ("a", "b"):
                txn.put_many(table, [(b"k%d" % (turn * 7 % n), b"%d" % turn) for n in range(1, 40)])
                txn.delete(table, b"k%d" % (turn % 5))
            txn.commit()
    stop.set()
    for reader in readers:
        reader.join(10)
    assert wrong == []


def test_rows_outlive_the_store(durable: Stores) -> None:
    rows = fill(durable.open())
    assert rows_of(durable.open()) == rows


@pytest.mark.parametrize("committed", [False, True], ids=["before the commit", "after the commit"])
def test_a_killed_process_leaves_whole_transactions(durable: Stores, committed: bool) -> None:
    fill(durable.open(), count=3)
    durable.close()
    child = durable.child(
        "with store.begin(write=True) as txn:\n"
        "    txn.put_many('a', [(b'%06d' % n, b'x' * 200) for n in range(20000)])\n"
        "    txn.clear('b')\n"
        f"    {'txn.commit()' if committed else 'pass'}\n"
        "    print('written', flush=True)\n"
        "    time.sleep(60)\n"
    )
    assert child.line() == "written"
    child.kill()
    store = durable.open()
    assert len(rows_of(store)) == 3 + 20000 * committed
    fill(store)  # and the dead writer blocks nobody


def test_processes_share_a_store(durable: Stores) -> None:
    store = durable.open()
    fill(store, count=3)
    child = durable.child(
        "for _ in range(50):\n"
        "    with store.begin(write=True) as txn:\n"
        "        txn.put('b', b'n', b'%d' % (int(txn.get('b', b'n') or 0) + 1))\n"
        "        txn.commit()\n"
        "with store.begin() as txn:\n"
        "    print(txn.count('a'), flush=True)\n"
        "store.close()\n"
    )
    for _ in range(50):
        with store.begin(write=True) as txn:
            txn.put("b", b"n", b"%d" % (int(txn.get("b", b"n") or 0) + 1))
            txn.commit()
    assert child.line() == "3"
    assert child.wait() == 0
    wait_until(lambda: rows_of(store, "b") == [(b"n", b"100")])
