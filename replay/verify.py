"""`frontlog verify`: hold the log of a crawl against every rule, and its tables against the log.

Each shard is read once, batch by batch, in a process of its own where that pays; every check (`checks_*.py`) sees every
decision and writes down what breaks its rule. The checks of moves, fences, gaps and verdicts share no code with the
machines that decide; folding alone calls `apply`, to prove the digests.

What is not verified stands in NOT_VERIFIED, and goes into the report.
"""

import tempfile
import time
from collections.abc import Collection, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from frontlog.avro.codec import Undecodable, decode
from frontlog.avro.enums import Topic
from frontlog.avro.errors import FrontlogError
from frontlog.avro.events import Reject, Removed
from frontlog.fetch.records import verify_archive
from frontlog.replay import (
    checks_between,
    checks_content,
    checks_identity,
    checks_inputs,
    checks_learning,
    checks_log,
    checks_outputs,
    checks_policy,
    checks_politeness,
    checks_sitemaps,
    checks_traps,
    checks_urls,
)
from frontlog.replay.checks_fold import Digests, Fold, Live, Rows
from frontlog.replay.folder import OpenShard, ShardRef, archives, open_shard, owner_of, shards_of
from frontlog.replay.ledger import Fault, Ledger, Source
from frontlog.replay.routing import LIST_VERSION
from frontlog.replay.shapes import Check, Problem, Report
from frontlog.replay.watch import KEPT_MAX, Audience, Output, Refused, Scene, Watch
from frontlog.replay.workers import Tell, Tick, run_jobs
from frontlog.state import head as heads
from frontlog.state.catalogue import STORE_TABLES
from frontlog.state.lmdb_store import LmdbStore
from frontlog.state.store import Txn
from frontlog.streams.embedded_log import EmbeddedLogTxn
from frontlog.streams.records import Record
from frontlog.streams.topics import OUTBOX, TOPIC_IDS, Role, decision_topics, input_topics

NOT_VERIFIED: tuple[str, ...] = (
    "that the log's end is there: a log cut at a whole batch, tables and all, looks like one that never went further",
    "inputs, outputs and the Batch events themselves are not in the hash chain: a change there shows only where it "
    "contradicts a decision",
    "that fetch-results tell the truth, and that the clocks of fetchers are right",
    "that addresses are public: the networks that a crawl may go to are no part of its log",
    "that the standards make of a spelling what its identity says, and that what was refused for another reason than "
    "robots.txt and rules of identity had to be",
    "the texts and prints that documents were compared by, and the fields of outputs beyond id and URL",
)
WHILE_RUNNING = (
    "what passes between partitions, since the crawl was running and its shards were not seen at one moment"
)
OTHER_LIST = "which partition a site belongs to, since the log was made with another public suffix list"

WATCHES: tuple[type[Watch], ...] = (
    *checks_log.CHECKS,
    *checks_inputs.CHECKS,
    *checks_urls.CHECKS,
    *checks_identity.CHECKS,
    *checks_traps.CHECKS,
    *checks_learning.CHECKS,
    *checks_politeness.CHECKS,
    *checks_policy.CHECKS,
    *checks_sitemaps.CHECKS,
    *checks_outputs.CHECKS,
    *checks_content.CHECKS,
)
FOLDED: tuple[type[Watch], ...] = (Digests, Live, Rows)


class Segments(Watch):
    """The archive as a whole, with --deep."""

    name = "segments"
    doc = "every record of every WARC segment is whole, its digests fit, and each request stands before its answer"


CATALOGUE: tuple[type[Watch], ...] = (*WATCHES, *FOLDED, *checks_between.CHECKS, Segments)
"""Every check, in the order of the report."""


class Job(NamedTuple):
    """One shard to verify. `skip`: names of checks that are left out."""

    ref: ShardRef
    partitions: int
    archive: tuple[Path, ...]
    deep: bool
    running: bool
    skip: frozenset[str]


class ShardReport(NamedTuple):
    """What was found in a shard, and what it has for the others."""

    shard: str
    checks: list[Check]
    records: int
    decisions: int
    voided: int
    notes: checks_between.Notes
    other_list: bool


def verify(
    folder: Path,
    deep: bool,
    on_progress: Tell,
    *,
    skip: Collection[str] = (),
    processes: int | None = None,
) -> Report:
    """Verify a crawl; `deep` also recounts and compares every row of its tables. Raises ConfigError for a folder that is
    no crawl; what is wrong with its log or tables is in the report."""
    began = time.monotonic()
    refs = shards_of(folder)
    running = owner_of(folder) is not None
    frontiers = sum(ref.role is Role.FRONTIER for ref in refs)
    jobs = [
        Job(ref, frontiers if ref.role is Role.FRONTIER else len(refs) - frontiers, tuple(archives(folder)), deep,
            running, frozenset(skip))
        for ref in refs
    ]  # fmt: skip
    total = sum(_seq(ref) for ref in refs)
    found = run_jobs("verifying", jobs, verify_shard, total, on_progress, processes=processes)
    checks = _merged([check for shard in found for check in shard.checks])
    notes: list[str] = list(NOT_VERIFIED)
    if running:
        notes.append(WHILE_RUNNING)
    else:
        between = [shard.notes for shard in found]
        judged = (checks_between.answered(between), checks_between.left_out(between))
        checks += [check for check in judged if check.name not in skip]
    if deep and Segments.name not in skip:
        checks.append(_segments(archives(folder), running=running))
    if any(shard.other_list for shard in found):
        notes.append(OTHER_LIST)
    return Report(
        folder=str(folder),
        checks=tuple(checks),
        records=sum(shard.records for shard in found),
        elapsed_ms=int((time.monotonic() - began) * 1_000),
        deep=deep,
        not_verified=tuple(notes),
        decisions=sum(shard.decisions for shard in found),
        voided=sum(shard.voided for shard in found),
        running=running,
    )


def _seq(ref: ShardRef) -> int:
    with open_shard(ref) as shard:
        shard.store.check_pages()  # all are looked at here, before any is read through
        return shard.head().seq


def _merged(found: list[Check]) -> list[Check]:
    """The checks of all shards as one each, in the order of the catalogue."""
    merged: list[Check] = []
    for kind in CATALOGUE:
        same = [check for check in found if check.name == kind.name]
        if same:
            problems = [problem for check in same for problem in check.problems]
            count = sum(check.problems_count for check in same)
            examined = sum(check.examined for check in same)
            merged.append(Check(kind.name, kind.doc, examined, count, tuple(problems[:KEPT_MAX])))
    return merged


def _segments(folders: list[Path], *, running: bool) -> Check:
    """Read the archive whole."""
    count = 0
    wrong: list[Problem] = []
    for folder in folders:
        if folder.is_dir():
            count += sum(1 for _ in folder.glob("*.warc.gz"))
            found = verify_archive(folder, live=running)
            wrong += [Problem(f"{folder / one.file}, byte {one.offset}", one.what) for one in found]
    return Check(Segments.name, Segments.doc, count, len(wrong), tuple(wrong[:KEPT_MAX]))


# --- one shard -------------------------------------------------------------------------------------------------


def verify_shard(job: Job, tick: Tick) -> ShardReport:
    """Read one shard and hold it against every check that is not skipped."""
    with ExitStack() as stack:
        shard = stack.enter_context(open_shard(job.ref))
        # One snapshot says where everything ends. With `deep` it is kept for the rows, which makes the file of a
        # running crawl grow meanwhile.
        snapshot = stack.enter_context(shard.store.begin())
        live = heads.load(snapshot)
        log, faults = shard.log.within(snapshot), list[Fault]()
        bounds = {topic: _bounds(log, topic, shard.partition, faults) for topic in TOPIC_IDS}
        outbox = _waiting(log, shard.partition, bounds[OUTBOX], faults)
        if not job.deep:
            snapshot.abort()
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="frontlog-verify-")))
        store = LmdbStore(scratch, STORE_TABLES, durability="none")
        stack.callback(store.close)
        reading = _Reading(job, shard, bounds, live, store, faults)
        reading.note_waiting(outbox)
        return reading.report(snapshot, tick)


def _bounds(log: EmbeddedLogTxn, topic: str, partition: int, faults: list[Fault]) -> tuple[int, int]:
    """(first, next) of a topic; a topic whose ends can't be read is a fault, and is not read at all."""
    try:
        return log.bounds(topic, partition)
    except FrontlogError as exc:
        faults.append(Fault("records", f"{topic}/{partition}", str(exc), 0))
        return 0, 0


def _waiting(
    log: EmbeddedLogTxn, partition: int, bounds: tuple[int, int], faults: list[Fault]
) -> list[Record]:
    """What waits in the outbox, which a running crawl empties meanwhile."""
    found: list[Record] = []
    at, end = bounds
    try:
        while at < end:
            found += log.read(OUTBOX, partition, at)
            at = found[-1].offset + 1
    except FrontlogError as exc:
        faults.append(Fault("records", f"{OUTBOX}/{partition}/{at}", str(exc), 0))
    return found


class _Reading:
    """The reading of one shard."""

    def __init__(
        self,
        job: Job,
        shard: OpenShard,
        bounds: dict[str, tuple[int, int]],
        live: heads.Head,
        scratch: LmdbStore,
        faults: list[Fault],
    ) -> None:
        self.job = job
        self.shard = shard
        self.bounds = bounds
        self.live = live
        self.faults = faults
        self.read = sum(end - first for first, end in bounds.values())
        role, partition = job.ref.role, shard.partition
        self.other_list = live.psl_version not in ("", LIST_VERSION)
        self.scene = Scene(
            shard.name, role, partition, job.partitions, rejects=self._rejects(), fetched=self._fetched,
            removed=self._removals(), archive=job.archive,
        )  # fmt: skip
        skip = job.skip | ({"routing"} if self.other_list else set[str]())
        self.audience = Audience(self.scene, [check for check in WATCHES if check.name not in skip])
        self.digests, self.compared, self.rows = Digests(self.scene), Live(self.scene), Rows(self.scene)
        self.fold = Fold(scratch, self.digests)
        ends = {topic: end for topic, (_, end) in bounds.items()}
        self.ledger = Ledger(shard.log, partition, decision_topics(role), input_topics(role), ends)
        self.notes = checks_between.Notes()

    def report(self, snapshot: Txn, tick: Tick) -> ShardReport:
        """Read it all."""
        decisions = 0
        for batch in self.ledger.batches():
            self.audience.show(batch)
            self.fold.take(batch)
            self.notes.take(batch)
            decisions += len(batch.decisions) + 1
            tick(len(batch.decisions) + 1)
        self.audience.end()
        self.fold.flush()
        self.fold.compare(self.live, self.compared)
        if self.job.deep:
            self.fold.compare_rows(snapshot, self.live, self.rows)
        self._read_rest()
        self.notes.end(self.scene.book.urls)
        return ShardReport(
            self.shard.name, self._checks(), self.read, decisions, self.ledger.voided, self.notes, self.other_list,
        )  # fmt: skip

    def _checks(self) -> list[Check]:
        watches = {watch.name: watch for watch in self.audience.watches}
        for fault in dict.fromkeys(
            self.faults + self.ledger.faults
        ):  # a topic that is read twice tells it twice
            if fault.kind in watches:
                watches[fault.kind].fault(None, fault.what, where=fault.where)
        if "records" in watches:
            watches["records"].examined = self.read
        folded = [self.digests, self.compared, *([self.rows] if self.job.deep else [])]
        return [watch.result() for watch in (*watches.values(), *folded) if watch.name not in self.job.skip]

    # --- topics that are read besides the decisions ------------------------------------------------------------

    def _records(self, topic: str, start: int = 0) -> Iterator[Output]:
        """The records of a topic up to where it ended; what can't be decoded is a fault of `records`."""
        partition = self.shard.partition
        first, end = self.bounds[topic]
        source = Source(self.shard.log, topic, partition, max(first, start), end, self.faults)
        while (record := source.next()) is not None:
            try:
                yield Output(record.offset, record.timestamp_ms, decode(record.value))
            except Undecodable as exc:
                if topic not in input_topics(self.job.ref.role):  # those the owner will refuse
                    self.faults.append(Fault("records", source.where(record.offset), str(exc), 0))

    def _fetched(self) -> Iterator[Output]:
        return self._records(Topic.FETCHED)

    def _rejects(self) -> dict[tuple[str, int], list[Refused]]:
        found: dict[tuple[str, int], list[Refused]] = {}
        for one in self._records(Topic.REJECTS):
            if isinstance(one.event, Reject):
                found.setdefault((one.event.topic, one.event.offset), []).append(
                    Refused(one.offset, one.event)
                )
        return found

    def _removals(self) -> dict[str, Output]:
        return {
            one.event.event_id: one for one in self._records(Topic.REMOVED) if isinstance(one.event, Removed)
        }

    def _read_rest(self) -> None:
        """Inputs that wait to be decided: read, so that damage shows, and noted."""
        for topic in input_topics(self.job.ref.role):
            for one in self._records(topic, self.live.positions.get(topic, 0)):
                self.notes.input(one.event)

    def note_waiting(self, outbox: list[Record]) -> None:
        """Answers of content that are still on their way."""
        for record in outbox:
            try:
                event = decode(record.value)
            except Undecodable as exc:
                where = f"{OUTBOX}/{self.shard.partition}/{record.offset}"
                self.faults.append(Fault("records", where, str(exc), 0))
                continue
            self.notes.input(event)
