"""`frontlog replay rebuild`: fold the log of a crawl from zero into a new folder, and say whether the tables are equal.

    1  copy each shard's log as it is, batch by batch, from one snapshot; and what `meta` holds besides the head
    2  fold every batch of the copy; the chain is checked at each, the digests of all tables every CHUNK_DECISIONS, and
       where those differ at each batch, to name the first one
    3  compare the head that came of it with the head of the source, field by field, table by table

The new folder is a whole crawl: `frontlog crawl --out NEW` goes on with it. Its archive stays where it was and is named
in NEW/archive.from. A fault of the source ends the fold of its shard where it lies, and is told as a difference.

The source may be in use: its snapshot is held for as long as the copy takes.
"""

import gc
import shutil
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from frontlog.avro.codec import body_of
from frontlog.avro.errors import ConfigError, Corrupt, Incompatible
from frontlog.replay import refold
from frontlog.replay.compare import digest_differences, head_differences
from frontlog.replay.folder import ARCHIVE_FROM, LOG_FOLDER, ShardRef, archives, open_shard, shards_of
from frontlog.replay.shapes import Rebuilt, RebuiltShard
from frontlog.replay.workers import Tell, Tick, run_jobs
from frontlog.state import head as heads
from frontlog.state.catalogue import LOG, META, STORE_TABLES
from frontlog.state.lmdb_store import LmdbStore
from frontlog.state.owner_lock import FILE as LOCK_FILE
from frontlog.state.rows import FOLD_VERSION
from frontlog.state.store import Item, Store, Txn, in_write
from frontlog.state.tables import Tables
from frontlog.streams import fold
from frontlog.streams.embedded_log import EmbeddedLog
from frontlog.streams.playback import LoggedBatch, Playback
from frontlog.streams.topics import TOPIC_IDS, Role, decision_topics

COPY_BYTES = 32 << 20
"""Log bytes that one transaction of the copy writes."""
CHUNK_DECISIONS = 20_000
"""Decisions that one transaction of the fold takes; rows stay decoded as long."""


class Job(NamedTuple):
    """One shard to rebuild, and the folder of its new store."""

    ref: ShardRef
    new: Path


def rebuild(folder: Path, new: Path, on_progress: Tell, *, processes: int | None = None) -> Rebuilt:
    """Rebuild the crawl in `folder` into `new`, which must be empty or missing. Raises ConfigError, and what reading a
    store or writing one raises."""
    refs = shards_of(folder)
    if new.exists() and (not new.is_dir() or any(new.iterdir())):
        raise ConfigError(f"{new}: not an empty folder; name a new one")
    began = time.monotonic()
    jobs = [Job(ref, new / LOG_FOLDER / ref.path.name) for ref in refs]
    total = sum(_decisions(ref) for ref in refs)
    done = run_jobs("folding", jobs, rebuild_shard, total, on_progress, processes=processes)
    _carry_over(folder, new)
    differences = tuple(f"{shard.shard}: {text}" for shard in done for text in shard.differences)
    return Rebuilt(
        folder=str(folder),
        new=str(new),
        records=sum(shard.records for shard in done),
        elapsed_ms=int((time.monotonic() - began) * 1_000),
        equal=not differences,
        differences=differences,
        cpu_ms=sum(shard.cpu_ms for shard in done),
        shards=tuple(done),
    )


def _decisions(ref: ShardRef) -> int:
    with open_shard(ref) as shard:
        shard.store.check_pages()
        return shard.head().seq


def _carry_over(folder: Path, new: Path) -> None:
    """What a crawl goes on with besides its log: its configuration, and where its bodies lie."""
    for path in folder.iterdir():
        if path.is_file() and path.name not in (LOCK_FILE, ARCHIVE_FROM):
            shutil.copyfile(path, new / path.name)
    lines = [f"{path.resolve()}\n" for path in archives(folder) if path.is_dir()]
    if lines:
        (new / ARCHIVE_FROM).write_text("".join(lines), encoding="utf-8")


def rebuild_shard(job: Job, tick: Tick) -> RebuiltShard:
    """Rebuild one shard."""
    began, began_cpu = time.monotonic(), time.process_time()
    # Nothing of the new store counts until it is closed, which makes it durable as a whole.
    store = LmdbStore(job.new, STORE_TABLES, durability="none")
    try:
        partition, live = _copy(job.ref, store)
        copied_ms = _ms(began)
        with _no_collection():
            records, differences = _fold(store, job.ref.role, partition, live, tick)
    finally:
        store.close()
    return RebuiltShard(
        shard=job.ref.name,
        records=records,
        elapsed_ms=_ms(began),
        cpu_ms=int((time.process_time() - began_cpu) * 1_000),
        copy_ms=copied_ms,
        differences=differences,
    )


@contextmanager
def _no_collection() -> Generator[None]:
    """Without the search for cycles: events and rows make none, and to look at them all takes a sixth of the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _ms(began: float) -> int:
    return int((time.monotonic() - began) * 1_000)


# --- copying ---------------------------------------------------------------------------------------------------


def _copy(ref: ShardRef, store: Store) -> tuple[int, heads.Head]:
    """Copy the log and what else stands in `meta`; the number of the partition and the head of the source."""
    with open_shard(ref) as shard, shard.store.begin() as txn:
        head = heads.load(txn)
        log = shard.log.within(txn)
        for topic in decision_topics(ref.role):
            first, _ = log.bounds(topic, shard.partition)
            if first:
                raise Incompatible(
                    f"{ref.name}: {topic} begins at offset {first}, since retention cut what was before; "
                    "tables can only be rebuilt from a log that begins at 0"
                )
        for rows in _slices(txn.scan(LOG.name)):
            _write(store, LOG.name, rows)
        rest = [(key, value) for key, value in txn.scan(META.name) if key != heads.KEY]
        _write(store, META.name, rest)
        return shard.partition, head


def _write(store: Store, table: str, rows: list[Item]) -> None:
    def put(txn: Txn) -> None:
        if rows:
            txn.append_many(table, rows)

    in_write(store, put)


def _slices(rows: Iterator[Item]) -> Iterator[list[Item]]:
    """Rows in lists of about COPY_BYTES."""
    taken: list[Item] = []
    size_bytes = 0
    for row in rows:
        taken.append(row)
        size_bytes += len(row[1])
        if size_bytes >= COPY_BYTES:
            yield taken
            taken, size_bytes = [], 0
    if taken:
        yield taken


# --- folding ---------------------------------------------------------------------------------------------------


def _fold(
    store: Store, role: Role, partition: int, live: heads.Head, tick: Tick
) -> tuple[int, tuple[str, ...]]:
    """Fold the copied log; how many decisions, and how the result differs from `live`."""
    folder = _Folder(store, live.seq, tick)
    try:
        folder.run(role, partition)
    except Corrupt as exc:
        return folder.head.seq, (str(exc),)
    differences = list(head_differences(folder.head, live))
    if folder.at_live is not None and folder.at_live is not folder.head:
        # The tables of the source lie behind its log, as a cache may: they are compared where they end.
        differences += digest_differences(folder.at_live.digests, live.digests)
    return folder.head.seq, tuple(differences)


class _Folder:
    """Folds whole batches, many to a transaction."""

    def __init__(self, store: Store, live_seq: int, tick: Tick) -> None:
        self.store = store
        self.head = heads.Head()
        self.at_live: heads.Head | None = None
        self._live_seq = live_seq
        self._tick = tick

    def run(self, role: Role, partition: int) -> None:
        """Fold to the end of the log. Raises Corrupt, with the batches before the fault committed as far as the log
        could be read."""
        batches = Playback(EmbeddedLog(self.store, TOPIC_IDS), role, partition).batches()
        while chunk := self._read(batches):
            before = self.head
            try:
                self._commit(chunk)
            except Corrupt:
                for batch in chunk:  # somewhere in here: batch by batch it shows where
                    self._commit([batch])
                raise
            self._tick(self.head.seq - before.seq)

    def _read(self, batches: Iterator[LoggedBatch]) -> list[LoggedBatch]:
        """The next chunk. It ends where the tables of the source end, so that they can be compared there."""
        chunk: list[LoggedBatch] = []
        decisions = 0
        while decisions < CHUNK_DECISIONS and (batch := next(batches, None)) is not None:
            chunk.append(batch)
            decisions += len(batch.decisions) + 1
            if batch.batch.seq == self._live_seq:
                break
        return chunk

    def _commit(self, chunk: list[LoggedBatch]) -> None:
        def work(txn: Txn) -> heads.Head:  # may run again, from the same head, when the map had to grow
            tables = Tables(txn)
            for batch in chunk:
                _chained(tables.head, batch)
                decisions = (one.event for one in batch.decisions)
                refold.apply_batch(tables, decisions, batch.batch, batch.written)
            last = chunk[-1].batch
            wrong = refold.prove(tables, last)
            if wrong:
                raise Corrupt(f"batch of seq {last.seq}: {'; '.join(wrong)}")
            head = replace(tables.head, fold_version=FOLD_VERSION)
            heads.save(txn, head)
            return head

        self.head = in_write(self.store, work)
        if self.head.seq == self._live_seq:
            self.at_live = self.head


def _chained(head: heads.Head, batch: LoggedBatch) -> None:
    """Hold a batch against the chain that the batches before it began."""
    found = fold.chain_hash(head.log_hash, (body_of(one.record.value) for one in batch.decisions))
    if found != batch.batch.log_hash:
        raise Corrupt(
            f"batch of seq {batch.batch.seq}: the log's chain breaks here; its decisions are not those that were written"
        )
