"""What must hold of a crawl's folder, whatever happened to its process: at any kill, and at the end.

Not seen here: what a power cut takes (the machine stays up, and so does its page cache).
"""

import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench.story import Story
from bench.synthweb import ROOT
from bench.weblog import Courtesy
from frontlog.avro.enums import State
from frontlog.avro.errors import FrontlogError
from frontlog.avro.events import BodyRef
from frontlog.fetch.files import LocalFiles
from frontlog.fetch.records import read_record, verify_archive
from frontlog.replay.folder import OpenShard, open_shard, shards_of
from frontlog.state.catalogue import DIGESTED, STORE_TABLES
from frontlog.state.digest import recount
from frontlog.state.head import Head
from frontlog.state.memory_store import MemoryStore
from frontlog.state.rows import UrlRow
from frontlog.state.tables import Tables
from frontlog.streams.fold import fold_batch
from frontlog.streams.playback import Playback
from frontlog.streams.topics import OUTBOX, Role

WAITS = (State.DISCOVERED, State.ELIGIBLE, State.LEASED)
START_MS = 1.0
"""Times are kept in whole milliseconds, rounded down at both ends of a gap."""
END_MS = 10.0
"""How late the server may note that it has answered, after the crawler had the answer: it waits for a core."""
SLEW = 0.01
"""The owner's clock may run so much faster than the server's, while it follows the wall clock."""


def folded(folder: Path) -> list[str]:
    """Log against tables, shard by shard: folding the log from zero gives the head that is stored, and the rows that
    are stored have the digests that the head says."""
    faults: list[str] = []
    for ref in shards_of(folder):
        try:
            with open_shard(ref) as shard:
                faults += [f"{shard.name}: {text}" for text in _shard_faults(shard)]
        except FrontlogError as error:
            faults.append(f"{ref.name}: {error}")
    return faults


def _shard_faults(shard: OpenShard) -> Iterator[str]:
    live, found = shard.head(), Head()
    store = MemoryStore(STORE_TABLES)
    with store.begin(write=True) as txn:
        for batch in Playback(shard.log, shard.ref.role, shard.partition).batches():
            found = fold_batch(
                Tables(txn, found),
                [(one.event, one.record.value) for one in batch.decisions],
                batch.batch,
                batch.written,
            )
        txn.commit()
    for name in ("seq", "owner_token", "log_hash", "positions", "digests"):
        if getattr(found, name) != getattr(live, name):
            yield f"{name} is {getattr(found, name)} when folded, {getattr(live, name)} in the tables"
    with shard.store.begin() as txn:
        for table in DIGESTED:
            digest = recount(txn.scan(table))
            stated = live.digests.get(table, (bytes(16), 0))
            if (digest.value(), digest.rows) != stated:
                yield f"table {table}: {digest.rows} rows that do not have the digest of the head ({stated[1]} rows)"


def bodies(folder: Path, rows: dict[str, UrlRow]) -> list[str]:
    """Every body that a row points at is in the archive, whole, and is the answer to what was requested."""
    files = LocalFiles(folder / "archive")
    faults: list[str] = []
    for row in rows.values():
        if not row.body_file:
            continue
        try:
            record = read_record(
                files, BodyRef(file=row.body_file, offset=row.body_offset, length=row.body_length)
            )
        except (FrontlogError, OSError) as error:
            faults.append(f"{row.url}: {error}")
            continue
        if record.type not in ("response", "revisit"):
            faults.append(f"{row.url}: its body is a {record.type} of {record.target_uri}")
    return faults


def archive(folder: Path) -> list[str]:
    """The archive read whole; only of a crawl that ended by itself."""
    return [f"{p.file}, byte {p.offset}: {p.what}" for p in verify_archive(folder / "archive")]


def settled(folder: Path, story: Story) -> list[str]:
    """Nothing is left open when a crawl has ended with nothing left to fetch."""
    faults = [f"{url} is left {row.state}" for url, row in story.rows.items() if row.state in WAITS]
    faults += story.contradictions
    if story.open_leases:
        faults.append(f"{story.open_leases} leases are still open")
    for ref in shards_of(folder):
        with open_shard(ref) as shard:
            first, end = shard.log.bounds(OUTBOX, shard.partition)
            head = shard.head()
            waiting = {t: shard.log.bounds(t, shard.partition)[1] - n for t, n in head.positions.items()}
            faults += [
                f"{shard.name}: {n} inputs of {topic} were not decided" for topic, n in waiting.items() if n
            ]
            if ref.role is Role.FRONTIER and end != first:
                faults.append(f"{shard.name}: {end - first} records are left in the outbox")
    return faults


def compared(story: Story, wanted: Story) -> list[str]:
    """Against a crawl that was not disturbed: every URL ended where it ends there, and the same pages were given out. The
    web is finite and nothing in it is left to chance, so any difference is a fault, of one of the two."""
    faults: list[str] = []
    for url in sorted({*wanted.rows, *story.rows}):
        usual, row = wanted.rows.get(url), story.rows.get(url)
        if row is None or usual is None or (row.state, row.reason) != (usual.state, usual.reason):
            missing = "missing: " if usual is not None and usual.state is State.FETCHED else ""
            faults.append(f"{missing}{url} is {_where(row)}; undisturbed it is {_where(usual)}")
    ours, theirs = ({e.url for e in one.outputs.values()} for one in (story, wanted))
    faults += [f"missing: {url} was not given out on crawl.fetched" for url in sorted(theirs - ours)]
    return faults + [f"{url} was given out; undisturbed it is not" for url in sorted(ours - theirs)]


def _where(row: UrlRow | None) -> str:
    return "not known" if row is None else f"{row.state} ({row.reason})"


def polite(found: Sequence[Courtesy], gap_ms: float) -> list[str]:
    """No two requests to a host closer than the gap, and never two at once, by the server's own record."""
    least = gap_ms * (1 - SLEW)
    faults: list[str] = []
    for one in found:
        if one.start_ms < least - START_MS:
            faults.append(
                f"host {one.host}: two requests began {one.start_ms:.2f} ms apart; the gap is {gap_ms:.0f} ms"
            )
        elif one.gap_ms < least - END_MS:
            faults.append(
                f"host {one.host}: a request began {one.gap_ms:.2f} ms after an answer; the gap is {gap_ms:.0f} ms"
            )
        if one.in_flight > 1:
            faults.append(f"host {one.host}: {one.in_flight} requests at once")
    return faults


def verified(folder: Path) -> list[str]:
    """`frontlog verify --deep` in a process of its own."""
    command = [sys.executable, "-m", "frontlog", "verify", str(folder), "--deep"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
    if done.returncode == 0:
        return []
    return [
        f"frontlog verify ended with code {done.returncode}:\n{done.stdout[-6_000:]}{done.stderr[-3_000:]}"
    ]
