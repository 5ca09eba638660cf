"""The log inside a store: batches of records as rows of one table.

    key      topic id (1 byte), partition (2 bytes), base offset (8 bytes), big endian
    value    a batch, see frontlog.streams.records

The batches of a partition lie together in the order of their offsets, so the end of a log is the
last row of its range and any offset is one look-up. Offsets are given inside the store's write
transaction, of which there is one at a time in all processes: so a second process may append (the
command line to `control`) and nothing is kept between transactions that it could make stale.

Log and tables are one commit when both are written through one transaction of the store:

    with store.begin(write=True) as txn:
        log.within(txn).append("transitions", 3, records)
        txn.put("urls", key, row)
        txn.commit()

After a cut of everything an empty batch stays, so that offsets are never given twice.
"""

import struct
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Self

from frontlog.avro.errors import Corrupt
from frontlog.state.store import Store, Txn, in_write
from frontlog.streams.log import READ_BYTES_MAX, READ_RECORDS_MAX, out_of_range
from frontlog.streams.records import (
    BATCH_BYTES_MAX,
    BATCH_RECORDS_MAX,
    RECORD_BYTES_MAX,
    BatchHead,
    NewRecord,
    Record,
    decode_batch,
    decode_head,
    encode_batch,
    record_bytes,
    say,
    top_time,
)

TABLE = "log"
CUT_BATCHES_MAX = 1_000
"""Batches that one transaction cuts."""

_CHUNK_BYTES = 1 << 20
_KEY = struct.Struct(">BHQ")
_OFFSET_END = b"\xff" * 8

Batch = Sequence[NewRecord | Record]


class EmbeddedLogTxn:
    """The log inside one transaction of the store, which the caller commits. Sees its own appends."""

    def __init__(self, topics: Mapping[str, int], txn: Txn, table: str) -> None:
        self._topics = topics
        self._txn = txn
        self._table = table

    def append(self, topic: str, partition: int, records: Sequence[NewRecord]) -> int:
        """Append; the offset of the first record. Records are at most RECORD_BYTES_MAX (asserted)."""
        newest = self._newest(topic, partition)
        base = newest.next_offset if newest else 0
        # A position mark has the key that the first batch behind it takes, so its gap is taken over.
        gap = newest.gap if newest and newest.records == 0 else 0
        self._write(topic, partition, _batched(records), base, gap, newest)
        return base

    def append_kept(self, topic: str, partition: int, records: Sequence[Record]) -> None:
        """Append records that keep their offsets, which grow and lie at or behind `next`: a copy."""
        for run in _runs(records):
            newest = self._newest(topic, partition)
            end = newest.next_offset if newest else 0
            base = run[0].offset
            if base < end:
                raise AssertionError(f"{topic}/{partition}: offset {base} is taken, the next is {end}")
            gap = base - end
            if newest and newest.records == 0 and gap == 0:
                gap = newest.gap
            self._write(topic, partition, _batched(run), base, gap, newest)

    def skip_to(self, topic: str, partition: int, offset: int) -> None:
        """Let the log go on at `offset`: a copy of a log that ends in a hole, or begins behind 0."""
        newest = self._newest(topic, partition)
        end = newest.next_offset if newest else 0
        if offset < end:
            raise AssertionError(f"{topic}/{partition}: cannot skip back from {end} to {offset}")
        if offset > end:
            self._mark(topic, partition, offset, newest)

    def bounds(self, topic: str, partition: int) -> tuple[int, int]:
        newest = self._newest(topic, partition)
        if newest is None:
            return 0, 0
        oldest = self._txn.first(self._table, *self._range(topic, partition))
        assert oldest is not None, "a log with a last batch has a first one"
        return _offset_of(oldest[0]), newest.next_offset

    def read(
        self,
        topic: str,
        partition: int,
        offset: int,
        *,
        records_max: int = READ_RECORDS_MAX,
        bytes_max: int = READ_BYTES_MAX,
    ) -> list[Record]:
        found: list[Record] = []
        size_bytes = 0
        for head, data in self.stored(topic, partition, offset):
            if len(found) >= records_max or size_bytes >= bytes_max:
                return found
            records = decode_batch(data, (topic, partition, head.base_offset))
            whole = head.base_offset >= offset and len(found) + head.records <= records_max
            if whole and size_bytes + head.body_bytes <= bytes_max:
                found += records
                size_bytes += head.body_bytes
                continue
            for record in records:
                if record.offset < offset:
                    continue
                size_bytes += record_bytes(record)
                if found and (len(found) >= records_max or size_bytes > bytes_max):
                    return found
                found.append(record)
        return found

    def stored(self, topic: str, partition: int, offset: int) -> Iterator[tuple[BatchHead, bytes]]:
        """Stored batches from the one with `offset` on; each is where the one before says."""
        first, following = self.bounds(topic, partition)
        if not first <= offset <= following:
            raise out_of_range(topic, partition, offset, first, following)
        if offset == following:
            return
        start, stop = self._range(topic, partition)
        holding = self._txn.last(self._table, start, self._key(topic, partition, offset + 1))
        if holding is None:
            raise Corrupt(
                f"{say((topic, partition, offset))}: no batch at or before it; its tree of pages is damaged"
            )
        end: int | None = None
        for key, data in self._txn.scan(self._table, holding[0], stop):
            head = _head(topic, partition, key, data)
            if end is not None and head.base_offset - head.gap != end:
                raise Corrupt(f"{say((topic, partition, end))}: the batch is missing")
            end = head.next_offset
            yield head, data

    def offset_at(self, topic: str, partition: int, timestamp_ms: int) -> int:
        low, following = self.bounds(topic, partition)
        high = following
        start, _ = self._range(topic, partition)
        while low < high:
            middle = (low + high) // 2
            row = self._txn.last(self._table, start, self._key(topic, partition, middle + 1))
            if row is None:
                raise Corrupt(
                    f"{say((topic, partition, middle))}: no batch at or before it; its tree of pages is damaged"
                )
            head = _head(topic, partition, *row)
            if head.top_ms >= timestamp_ms:
                high = min(middle, head.base_offset)
            else:
                low = max(middle + 1, head.next_offset)
        # Behind a cut the top time may come from a record that is gone: look on from there.
        for head, data in self.stored(topic, partition, low):
            for record in decode_batch(data, (topic, partition, head.base_offset)):
                if record.timestamp_ms >= timestamp_ms:
                    return record.offset
        return following

    def cut(
        self, topic: str, partition: int, before_offset: int, *, batches_max: int = CUT_BATCHES_MAX
    ) -> int:
        """Delete batches that lie wholly before an offset, at most `batches_max`; how many it were."""
        first, following = self.bounds(topic, partition)
        if before_offset > following:
            raise out_of_range(topic, partition, before_offset, first, following)
        newest = self._newest(topic, partition)
        doomed: list[bytes] = []
        for key, data in self._txn.scan(self._table, *self._range(topic, partition)):
            head = _head(topic, partition, key, data)
            # A mark at the end is what keeps the next offset of an empty log.
            last_mark = head.records == 0 and head == newest
            if head.next_offset > before_offset or last_mark or len(doomed) == batches_max:
                break
            doomed.append(key)
        for key in doomed:
            self._txn.delete(self._table, key)
        if doomed and newest and self._newest(topic, partition) is None:
            self._mark(topic, partition, newest.next_offset, newest)
        return len(doomed)

    def _write(
        self,
        topic: str,
        partition: int,
        batches: Iterator[Batch],
        base: int,
        gap: int,
        newest: BatchHead | None,
    ) -> None:
        top_ms = newest.top_ms if newest else None
        rows: list[tuple[bytes, bytes]] = []
        for batch in batches:
            data = encode_batch(batch, base, top_ms, gap)
            rows.append((self._key(topic, partition, base), data))
            top_ms = top_time(batch, top_ms)
            base, gap = base + len(batch), 0
        self._txn.put_many(self._table, rows)

    def _mark(self, topic: str, partition: int, offset: int, newest: BatchHead | None) -> None:
        gap = offset - newest.next_offset if newest else offset
        top_ms = newest.top_ms if newest else None
        self._txn.put(self._table, self._key(topic, partition, offset), encode_batch([], offset, top_ms, gap))

    def _newest(self, topic: str, partition: int) -> BatchHead | None:
        row = self._txn.last(self._table, *self._range(topic, partition))
        return _head(topic, partition, *row) if row else None

    def _key(self, topic: str, partition: int, offset: int) -> bytes:
        return _KEY.pack(self._topics[topic], partition, offset)

    def _range(self, topic: str, partition: int) -> tuple[bytes, bytes]:
        start = self._key(topic, partition, 0)
        return start, start[:-8] + _OFFSET_END


class EmbeddedOwnTxn(EmbeddedLogTxn):
    """The log in a write transaction of its own."""

    def commit(self) -> None:
        self._txn.commit()

    def abort(self) -> None:
        self._txn.abort()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._txn.abort()


class EmbeddedLog:
    """See `frontlog.streams.log.Log`. `topics` maps each name to its id, 0..255, for ever."""

    def __init__(self, store: Store, topics: Mapping[str, int], *, table: str = TABLE) -> None:
        ids = list(topics.values())
        if len(set(ids)) != len(ids) or not all(0 <= number <= 255 for number in ids):
            raise AssertionError(f"topic ids must differ and lie in 0..255: {dict(topics)}")
        self._store = store
        self._topics = dict(topics)
        self._table = table

    def within(self, txn: Txn) -> EmbeddedLogTxn:
        """The log inside a transaction of the same store, which the caller commits."""
        return EmbeddedLogTxn(self._topics, txn, self._table)

    def begin(self) -> EmbeddedOwnTxn:
        return EmbeddedOwnTxn(self._topics, self._store.begin(write=True), self._table)

    def bounds(self, topic: str, partition: int) -> tuple[int, int]:
        with self._store.begin() as txn:
            return self.within(txn).bounds(topic, partition)

    def read(
        self,
        topic: str,
        partition: int,
        offset: int,
        *,
        records_max: int = READ_RECORDS_MAX,
        bytes_max: int = READ_BYTES_MAX,
    ) -> list[Record]:
        with self._store.begin() as txn:
            log = self.within(txn)
            return log.read(topic, partition, offset, records_max=records_max, bytes_max=bytes_max)

    def batches(self, topic: str, partition: int, offset: int) -> Iterator[list[Record]]:
        while chunk := self._chunk(topic, partition, offset):
            for head, data in chunk:
                records = decode_batch(data, (topic, partition, head.base_offset))
                if head.base_offset < offset:
                    records = records[offset - head.base_offset :]
                offset = head.next_offset
                if records:
                    yield records

    def scan(self, topic: str, partition: int, offset: int) -> Iterator[Record]:
        return chain.from_iterable(self.batches(topic, partition, offset))

    def offset_at(self, topic: str, partition: int, timestamp_ms: int) -> int:
        with self._store.begin() as txn:
            return self.within(txn).offset_at(topic, partition, timestamp_ms)

    def cut(self, topic: str, partition: int, before_offset: int) -> int:
        """Delete the batches that lie wholly before an offset, in transactions of bounded size; how
        many it were. Offsets are not given again, and `next` stays what it is."""
        total = 0
        while done := in_write(
            self._store, lambda txn: self.within(txn).cut(topic, partition, before_offset)
        ):
            total += done
        return total

    def _chunk(self, topic: str, partition: int, offset: int) -> list[tuple[BatchHead, bytes]]:
        """Some stored batches, so that no read transaction is open while they are used."""
        chunk: list[tuple[BatchHead, bytes]] = []
        size_bytes = 0
        with self._store.begin() as txn:
            for head, data in self.within(txn).stored(topic, partition, offset):
                chunk.append((head, data))
                size_bytes += len(data)
                if size_bytes >= _CHUNK_BYTES:
                    break
        return chunk


def _batched(records: Batch) -> Iterator[Batch]:
    """Records in batches within the bounds of a batch."""
    start = size_bytes = 0
    for index, record in enumerate(records):
        more_bytes = record_bytes(record)
        if more_bytes > RECORD_BYTES_MAX:
            raise AssertionError(f"a record of {more_bytes} bytes; at most {RECORD_BYTES_MAX} are allowed")
        full = index - start == BATCH_RECORDS_MAX or size_bytes + more_bytes > BATCH_BYTES_MAX
        if full and index > start:
            yield records[start:index]
            start, size_bytes = index, 0
        size_bytes += more_bytes
    if start < len(records):
        yield records[start:]


def _runs(records: Sequence[Record]) -> Iterator[Sequence[Record]]:
    """Stretches of records whose offsets follow one another."""
    start = 0
    for index in range(1, len(records) + 1):
        if index == len(records) or records[index].offset != records[index - 1].offset + 1:
            yield records[start:index]
            start = index


def _offset_of(key: bytes) -> int:
    return int.from_bytes(key[-8:])


def _head(topic: str, partition: int, key: bytes, data: bytes) -> BatchHead:
    """The head of a stored batch, verified: whole, and in its own place."""
    where = (topic, partition, _offset_of(key))
    head = decode_head(data, where)
    if head.base_offset != where[2]:
        raise Corrupt(f"{say(where)}: the batch of offset {head.base_offset} is stored there")
    return head
