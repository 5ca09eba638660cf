"""A store is a fixed set of tables of sorted byte strings, read and written in transactions.

    store.begin()              a snapshot: what was committed when it began, whatever happens later
    store.begin(write=True)    the only writer (of all threads and processes); sees its own writes

    with store.begin(write=True) as txn:
        txn.put("urls", key, row)
        txn.commit()                      # leaving the block without it, or by an error, aborts

Rules that every implementation keeps (tests/contract/test_store.py):

- keys are 1..KEY_BYTES_MAX bytes, values any bytes, empty ones too; order is that of the bytes;
- all or nothing: after a commit every process sees all writes, after anything else none;
- a write transaction belongs to the thread that began it and never spans an await: a commit from
  another thread was seen to block the next writer for ever without an error;
- a table is not written while one of the transaction's scans of it runs. `scan_chunks` is the
  pattern for "walk and change";
- values are complete copies: they outlive the transaction, its scans don't.

Breaking a rule is a bug of the caller and raises AssertionError (unknown tables: KeyError), also
under `python -O`, since some of these would damage the file. What the world does raises
`frontlog.avro.errors`: `MapFull` and `StoreFull` (nothing was written; repeat the whole
transaction), `Retriable`, `Corrupt`, `Incompatible`, `ConfigError`.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Literal, Protocol, Self, TypeVar

from frontlog.avro.errors import MapFull

KEY_BYTES_MAX = 511
WRITE_ATTEMPTS_MAX = 10

Durability = Literal["fsync", "nometasync", "none"]
"""What a commit survives. Every one survives the death of the process.

`fsync`: a power cut, too. `nometasync`: a power cut may undo the last commits, never damage the
file. `none`: a power cut may damage the file; only for what can be rebuilt from elsewhere.
"""

T = TypeVar("T")
Item = tuple[bytes, bytes]


class Txn(Protocol):
    """One transaction. Ranges are `start <= key < stop`; `stop=None` is the end of the table."""

    def get(self, table: str, key: bytes) -> bytes | None: ...

    def get_many(self, table: str, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        """Key → value of those that have a row."""
        ...

    def put(self, table: str, key: bytes, value: bytes) -> None:
        """Write one row, over an older one."""
        ...

    def put_many(self, table: str, items: Sequence[Item]) -> None:
        """Write rows, over older ones; fastest when sorted by key. The last of equal keys wins."""
        ...

    def append_many(self, table: str, items: Sequence[Item]) -> None:
        """Write rows in ascending key order, all behind the last key of the table (asserted)."""
        ...

    def delete(self, table: str, key: bytes) -> bool:
        """True when there was a row."""
        ...

    def scan(self, table: str, start: bytes = b"", stop: bytes | None = None) -> Iterator[Item]:
        """Rows in ascending order, own writes included. The table is not to be written meanwhile."""
        ...

    def scan_reverse(self, table: str, start: bytes = b"", stop: bytes | None = None) -> Iterator[Item]:
        """The rows of `scan`, the last one first."""
        ...

    def first(self, table: str, start: bytes = b"", stop: bytes | None = None) -> Item | None: ...

    def last(self, table: str, start: bytes = b"", stop: bytes | None = None) -> Item | None: ...

    def count(self, table: str) -> int:
        """Rows of a table, in constant time."""
        ...

    def clear(self, table: str) -> None:
        """Delete every row of a table."""
        ...

    def commit(self) -> None: ...

    def abort(self) -> None:
        """Drop all writes and end; does nothing when the transaction has ended."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *exc: object) -> None: ...


class Store(Protocol):
    """Tables of one folder (or of memory). Opened once a process, never used across a fork."""

    @property
    def path(self) -> Path | None:
        """The folder; None for a store in memory."""
        ...

    @property
    def durability(self) -> Durability: ...

    def begin(self, *, write: bool = False) -> Txn:
        """A writer waits until the one before it, in whatever process, has ended."""
        ...

    def size_bytes(self) -> int:
        """Bytes that the store takes on the disk."""
        ...

    def used_bytes(self) -> int:
        """Bytes of it that hold rows; the rest is kept for later writes."""
        ...

    def close(self) -> None:
        """Make everything durable and end; an assertion when a transaction is open."""
        ...


def scan_chunks(
    txn: Txn, table: str, start: bytes = b"", stop: bytes | None = None, rows_max: int = 500
) -> Iterator[list[Item]]:
    """The rows of a scan in lists, each read before it is given out.

    The caller may write the table between two lists: what it puts or deletes at or before the
    last key given out changes nothing any more, what lies behind it is seen.
    """
    while rows := list(islice(txn.scan(table, start, stop), rows_max)):
        yield rows
        start = rows[-1][0] + b"\0"


def delete_range(txn: Txn, table: str, start: bytes = b"", stop: bytes | None = None) -> int:
    """Delete `start <= key < stop`; how many rows that were."""
    deleted = 0
    for rows in scan_chunks(txn, table, start, stop):
        for key, _ in rows:
            txn.delete(table, key)
        deleted += len(rows)
    return deleted


def in_write(store: Store, work: Callable[[Txn], T], *, attempts_max: int = WRITE_ATTEMPTS_MAX) -> T:
    """Run `work` in a write transaction and commit; repeat it whole while the map has to grow.

    `work` may run several times and must keep nothing of a run that failed.
    """
    for attempt in range(1, attempts_max + 1):
        try:
            with store.begin(write=True) as txn:
                result = work(txn)
                txn.commit()
                return result
        except MapFull:
            if attempt == attempts_max:
                raise
    raise AssertionError("attempts_max must be at least 1")
