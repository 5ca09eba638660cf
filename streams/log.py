"""The log as the rest of frontlog sees it: topics of partitions of records, appended in transactions.

    with log.begin() as txn:
        base = txn.append("control", 0, [NewRecord(now_ms, key, value)])
        txn.commit()

    for record in log.scan("control", 0, offset=base): ...

What every implementation keeps (tests/contract/test_log.py):

- within a partition offsets grow; they may have holes (Kafka's transaction markers), so a reader
  goes on at the last offset + 1 and never counts;
- readers see committed transactions only, whole and in order; what was read once stays;
- `bounds` is (first, next): the log holds first <= offset < next, and the next append gets an
  offset of at least `next`, also after everything was cut away or the process died;
- reading at `next` gives nothing, outside the bounds raises OffsetOutOfRange: whoever asks there
  has a position of another log, or one that retention has overtaken;
- several processes may append to a partition; each append is contiguous.

Topics are a catalogue given at construction: an unknown name is a KeyError.
"""

from collections.abc import Iterator, Sequence
from typing import Protocol, Self

from frontlog.avro.errors import OffsetOutOfRange
from frontlog.streams.records import NewRecord, Record

READ_RECORDS_MAX = 1_000
READ_BYTES_MAX = 4 << 20


class LogTxn(Protocol):
    """Appends that become visible together."""

    def append(self, topic: str, partition: int, records: Sequence[NewRecord]) -> int:
        """The offset of the first record (of the next one to come when there are none)."""
        ...


class OwnLogTxn(LogTxn, Protocol):
    """A transaction of the log's own; leaving its block without `commit` drops the appends."""

    def commit(self) -> None: ...

    def abort(self) -> None: ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *exc: object) -> None: ...


class BatchLog(LogTxn, Protocol):
    """The log of one shard inside the transaction of a batch: see `Log`."""

    def bounds(self, topic: str, partition: int) -> tuple[int, int]: ...

    def read(
        self, topic: str, partition: int, offset: int, *, records_max: int = READ_RECORDS_MAX
    ) -> list[Record]: ...


class Log(Protocol):
    def begin(self) -> OwnLogTxn: ...

    def bounds(self, topic: str, partition: int) -> tuple[int, int]:
        """(first, next); (0, 0) for a partition that was never written."""
        ...

    def read(
        self,
        topic: str,
        partition: int,
        offset: int,
        *,
        records_max: int = READ_RECORDS_MAX,
        bytes_max: int = READ_BYTES_MAX,
    ) -> list[Record]:
        """Records from `offset` on, within both bounds but at least one, unless it is `next`. Bytes are
        those of keys, values and headers; a log may count what it adds to them."""
        ...

    def batches(self, topic: str, partition: int, offset: int) -> Iterator[list[Record]]:
        """All records from `offset` to the end, also what is appended meanwhile, in lists of no fixed
        size, none empty: the fast way to replay. Nothing is held open between two lists."""
        ...

    def scan(self, topic: str, partition: int, offset: int) -> Iterator[Record]:
        """The records of `batches`, one by one."""
        ...

    def offset_at(self, topic: str, partition: int, timestamp_ms: int) -> int:
        """The first offset whose record has this timestamp or a later one; `next` when none has."""
        ...


def out_of_range(topic: str, partition: int, offset: int, first: int, following: int) -> OffsetOutOfRange:
    """The error of a read outside the bounds."""
    return OffsetOutOfRange(
        f"{topic}/{partition}: the log holds offsets from {first} up to, not including, {following}; "
        f"{offset} was asked for"
    )
