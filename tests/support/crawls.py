"""Crawls of tests: in this process, or by the command line in one of its own; and proofs of what they left behind."""

import json
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

from click.testing import CliRunner, Result

from frontlog.avro.codec import Undecodable, decode
from frontlog.avro.enums import Reason, State, Topic
from frontlog.avro.events import BodyRef, Event, FetchResult, Transition
from frontlog.cli import main
from frontlog.config import Config, load
from frontlog.fetch.archive import Archive
from frontlog.fetch.files import LocalFiles
from frontlog.fetch.parse_job import Job, Parsed, parse
from frontlog.fetch.parser_pool import ParserPool
from frontlog.fetch.records import read_record, verify_archive
from frontlog.state import head as heads
from frontlog.state.catalogue import DIGESTED, STORE_TABLES
from frontlog.state.digest import Digest
from frontlog.state.lmdb_store import MAP_BYTES, LmdbStore
from frontlog.state.memory_store import MemoryStore
from frontlog.state.rows import UrlRow
from frontlog.state.tables import Tables
from frontlog.streams import crawl as crawl_module
from frontlog.streams.crawl import run_crawl
from frontlog.streams.embedded_log import EmbeddedLog
from frontlog.streams.fold import fold_batch
from frontlog.streams.playback import Playback
from frontlog.streams.stop import StopSignal
from frontlog.streams.summary import Progress, Summary
from frontlog.streams.topics import TOPIC_IDS, Role
from support.processes import Process, environment
from support.site import ALLOW, Site

GAP_MS = 20
QUICK: dict[str, object] = {
    "fetch.allow_addresses": [ALLOW],
    "politeness.gap_ms_min": GAP_MS,
    "politeness.gap_factor": 0,
    "politeness.backoff_ms_min": 0,
    "attempts.retry_ms_min": 50,
    "log.commit_delay_ms": 2,
    "log.durability": "none",
    "parse.workers": 1,
    "crawl.patience_ms": 2_000,
}
"""Settings of a crawl that nobody waits for. (A crash of the process loses nothing under any durability.)"""


def config(**settings: object) -> Config:
    """QUICK with changes; names have `__` for their dot."""
    return load(None, QUICK | {name.replace("__", "."): value for name, value in settings.items()})


class LocalParsers:
    """Stands in for the parser processes, whose start costs more than a small crawl: parses here."""

    def __init__(self, workers: int, timeout_ms: int) -> None:
        self.load = 0

    async def start(self) -> None:
        """Nothing to spawn."""

    async def parse(self, job: Job) -> Parsed:
        return parse(job)

    async def close(self) -> None:
        """Nothing to end."""


def crawl(
    folder: Path,
    *seeds: str,
    stop: StopSignal | None = None,
    on_progress: Callable[[Progress], None] = lambda _: None,
    parsers: bool = False,
    map_bytes: int = MAP_BYTES,
    **settings: object,
) -> Summary:
    """Crawl in this process until an end is reached; with processes that parse, or without."""
    pool = ParserPool if parsers else LocalParsers
    with patch.object(crawl_module, "ParserPool", pool):
        return run_crawl(
            folder,
            config(**settings),
            seeds,
            on_progress=on_progress,
            stop=stop or StopSignal(),
            map_bytes=map_bytes,
        )


# --- the command line in a process of its own --------------------------------------------------------------------


def command(*words: str | Path) -> list[str]:
    return [sys.executable, "-m", "frontlog", *(str(word) for word in words)]


def frontlog(*words: str | Path, seconds: float = 40) -> subprocess.CompletedProcess[str]:
    """A command to its end."""
    return subprocess.run(
        command(*words), capture_output=True, text=True, timeout=seconds, env=environment(), check=False
    )


def here(*words: str | Path) -> Result:
    """A command in this process: another one than that of a crawl that is `Running`. Starting Python takes longer."""
    return CliRunner().invoke(main, [str(word) for word in words], catch_exceptions=False)


def options(settings: dict[str, object]) -> list[str]:
    """Settings as words of a command line."""
    return [word for name, value in settings.items() for word in ("--set", f"{name}={json.dumps(value)}")]


class Running(Process):
    """`frontlog crawl` under way. What it says goes into files in `told`, beside the crawl's folder if it isn't given."""

    def __init__(self, folder: Path, *words: str, told: Path | None = None) -> None:
        super().__init__(command("crawl", "--out", folder, *words), folder, told=told)

    @property
    def lines(self) -> list[dict[str, Any]]:
        """The whole JSON lines on stdout so far."""
        whole = self.output.rpartition("\n")[0]
        return [json.loads(line) for line in whole.splitlines()]

    @property
    def summary(self) -> dict[str, Any]:
        last = self.lines[-1]
        assert last["event"] == "summary", self.errors
        return last


def children(pid: int) -> list[int]:
    """Processes whose parent is `pid`."""
    found: list[int] = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == pid:
            found.append(int(stat.parent.name))
    return found


def is_alive(pid: int) -> bool:
    """Whether a process runs (a zombie doesn't)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def await_death(pids: Iterable[int], *, seconds: float = 20) -> None:
    """Wait until none of the processes runs."""
    until(lambda: not any(is_alive(pid) for pid in pids), seconds=seconds, what="the end of processes")


def until(condition: Callable[[], object], *, seconds: float = 30, what: str = "it") -> None:
    """Wait until a callable says yes."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"{what} did not happen in {seconds} s"
        time.sleep(0.01)


# --- what is in a folder -----------------------------------------------------------------------------------------


class Part(NamedTuple):
    """A shard of a folder, opened to be looked at."""

    name: str
    role: Role
    partition: int
    store: LmdbStore
    log: EmbeddedLog


def parts(folder: Path) -> Iterator[Part]:
    """The shards of a folder that no process is using in this one, one open at a time."""
    for path in sorted((folder / "log").iterdir()):
        role, _, number = path.name.partition("-")
        store = LmdbStore(path, STORE_TABLES, readonly=True)
        try:
            yield Part(path.name, Role(role), int(number), store, EmbeddedLog(store, TOPIC_IDS))
        finally:
            store.close()


def events(folder: Path, topic: Topic) -> list[Event]:
    """The events of a topic in all partitions; what can't be decoded is left out."""
    found: list[Event] = []
    for part in parts(folder):
        first = part.log.bounds(topic, part.partition)[0]
        for record in part.log.scan(topic, part.partition, first):
            try:
                found.append(decode(record.value))
            except Undecodable:
                continue
    return found


def transitions(folder: Path) -> list[Transition]:
    return [event for event in events(folder, Topic.TRANSITIONS) if isinstance(event, Transition)]


def results(folder: Path) -> list[FetchResult]:
    return [event for event in events(folder, Topic.FETCH_RESULTS) if isinstance(event, FetchResult)]


def urls(folder: Path) -> dict[str, UrlRow]:
    """Every known URL's row."""
    found: dict[str, UrlRow] = {}
    for part in parts(folder):
        with part.store.begin() as txn:
            found |= {row.url: row for _, row in Tables(txn).urls.scan()}
    return found


def fetched(folder: Path) -> set[str]:
    return {url for url, row in urls(folder).items() if row.state is State.FETCHED}


def leased(folder: Path) -> Counter[str]:
    """How often each URL was leased."""
    return Counter(
        t.url for t in transitions(folder) if t.to_state is State.LEASED and t.reason is Reason.CLAIMED
    )


def given_back(folder: Path) -> Counter[str]:
    """How often each URL's lease ended without a result."""
    ends = (Reason.RELEASED, Reason.LEASE_EXPIRED)
    return Counter(t.url for t in transitions(folder) if t.to_state is State.ELIGIBLE and t.reason in ends)


# --- proofs ------------------------------------------------------------------------------------------------------


TOLERANCE_S = 0.0015
"""Times in the log are whole milliseconds."""


def assert_polite(site: Site, gap_ms: int = GAP_MS) -> None:
    """No host had two requests at once, or closer than the gap, by the servers' clock."""
    for host in range(site.hosts):
        gaps = site.gaps_s(host)
        assert all(gap >= gap_ms / 1_000 - TOLERANCE_S for gap in gaps), f"host {host}: {sorted(gaps)[:3]}"


def prove(folder: Path) -> None:
    """The log rebuilds the tables, row by row and digest by digest, and everything it points at is in a whole archive."""
    for part in parts(folder):
        _prove_part(part)
    prove_archive(folder)


def _prove_part(part: Part) -> None:
    rebuilt = MemoryStore(STORE_TABLES)
    with rebuilt.begin(write=True) as txn:
        tables = Tables(txn)
        for batch in Playback(part.log, part.role, part.partition).batches():
            tables.head = fold_batch(
                tables, [(d.event, d.record.value) for d in batch.decisions], batch.batch, batch.written
            )
        tables.flush()
        heads.save(txn, tables.head)
        txn.commit()
    with part.store.begin() as live, rebuilt.begin() as other:
        for table in DIGESTED:
            rows = list(live.scan(table))
            assert rows == list(other.scan(table)), f"{part.name}: {table} differs from what the log gives"
            total = Digest()
            for key, value in rows:
                total.add(key, value)
            head = heads.load(live)
            assert (total.value(), total.rows) == head.digests.get(table, (Digest().value(), 0)), (
                f"{part.name}: {table}"
            )
        assert heads.load(live).log_hash == heads.load(other).log_hash, part.name


def prove_archive(folder: Path) -> None:
    """The archive is whole, and every body that a result points at is the one that was captured for it."""
    assert verify_archive(folder / "archive") == []
    files = LocalFiles(folder / "archive")
    for result in results(folder):
        body: BodyRef | None = result.body
        if body is not None:
            assert read_record(files, body).target_uri == result.requested


def archive_of(folder: Path) -> Archive:
    return Archive(folder / "archive", info={}, clock=lambda: 0)


def interrupt(running: Running) -> None:
    running.send(signal.SIGINT)
