"""A crawl's folder, opened for looking: which shards it has, their stores read-only, and where its archive lies.

    DIR/log/frontier-0/ …  one LMDB store a shard: log and tables     DIR/archive/      WARC segments
    DIR/log/content-0/                                                DIR/archive.from  see `archives`

Nothing here writes, so a crawl may be looked at while another process runs it: every transaction sees a whole commit.
Keep transactions short on a running crawl, since LMDB can't give pages free again that an open one may still read.
"""

import re
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from frontlog.avro.errors import ConfigError
from frontlog.state import head as heads
from frontlog.state.catalogue import LOG, STORE_TABLES
from frontlog.state.lmdb_store import LmdbStore
from frontlog.state.owner_lock import Holder, holder
from frontlog.streams.embedded_log import EmbeddedLog
from frontlog.streams.topics import TOPIC_IDS, Role

LOG_FOLDER = "log"
ARCHIVE_FOLDER = "archive"
ARCHIVE_FROM = "archive.from"
_NAME = re.compile(r"(frontier|content)-(\d{1,5})")


class ShardRef(NamedTuple):
    """A shard on disk. `partition` is the number that its records have in the log."""

    name: str
    role: Role
    partition: int
    path: Path


class OpenShard(NamedTuple):
    """A shard whose store is open for reading."""

    ref: ShardRef
    store: LmdbStore
    log: EmbeddedLog

    @property
    def name(self) -> str:
        return self.ref.name

    @property
    def partition(self) -> int:
        return self.ref.partition

    def head(self) -> heads.Head:
        """The head as it stands now."""
        with self.store.begin() as txn:
            return heads.load(txn)


def shards_of(folder: Path) -> list[ShardRef]:
    """The shards of a crawl, frontier first. Raises ConfigError when the folder is no crawl, or has no log yet."""
    if not folder.is_dir():
        what = "not a folder" if folder.exists() else "there is no such folder"
        raise ConfigError(f"{folder}: {what}; name the folder of a crawl (its --out)")
    log = folder / LOG_FOLDER
    if not log.is_dir():
        raise ConfigError(
            f"{folder}: holds no crawl: there is no {LOG_FOLDER} folder in it; name the folder that was given to "
            "`frontlog crawl --out`"
        )
    named = [
        (m, path)
        for path in log.iterdir()
        if (m := _NAME.fullmatch(path.name)) and (path / "data.mdb").exists()
    ]
    numbers = {(m[1], int(m[2])): path for m, path in named}
    frontiers = sorted(number for role, number in numbers if role == Role.FRONTIER)
    if not frontiers:
        raise ConfigError(
            f"{log}: holds no shard of a log; the crawl has not begun, or its log was moved elsewhere"
        )
    if frontiers != list(range(len(frontiers))):
        raise ConfigError(
            f"{log}: has the shards {frontiers} of the frontier and not those between; restore the missing ones"
        )
    contents = sorted(number for role, number in numbers if role == Role.CONTENT)
    refs = [_ref(Role.FRONTIER, n, n, numbers[Role.FRONTIER, n]) for n in frontiers]
    return refs + [_ref(Role.CONTENT, n, n, numbers[Role.CONTENT, n]) for n in contents]


def _ref(role: Role, number: int, partition: int, path: Path) -> ShardRef:
    return ShardRef(f"{role.value}-{number}", role, partition, path)


@contextmanager
def open_shard(ref: ShardRef) -> Generator[OpenShard]:
    """A shard's store and log, read-only. Raises ConfigError, Incompatible or Corrupt."""
    store = LmdbStore(ref.path, STORE_TABLES, readonly=True)
    try:
        with store.begin() as txn:
            first = txn.first(LOG.name)
        # The log itself says which number its records have; the folder's name is for people.
        found = ref if first is None else ref._replace(partition=int.from_bytes(first[0][1:3], "big"))
        yield OpenShard(found, store, EmbeddedLog(store, TOPIC_IDS))
    finally:
        store.close()


def owner_of(folder: Path) -> Holder | None:
    """The process that crawls in a folder now."""
    return holder(folder)


def archives(folder: Path) -> list[Path]:
    """Folders in which body references of a crawl may lie, its own first. A rebuilt crawl has no copy of the archive:
    `archive.from` names the one that its older references point into."""
    found = [folder / ARCHIVE_FOLDER]
    note = folder / ARCHIVE_FROM
    if note.is_file():
        found += [Path(line) for line in note.read_text(encoding="utf-8").splitlines() if line.strip()]
    return found


def log_bytes(folder: Path) -> int:
    """Bytes of log and tables on disk."""
    return sum(path.stat().st_size for path in (folder / LOG_FOLDER).glob("*/data.mdb"))


def archive_size(folder: Path) -> tuple[int, int]:
    """(bytes, files) of the crawl's own archive."""
    sizes = [path.stat().st_size for path in (folder / ARCHIVE_FOLDER).glob("*.warc.gz")]
    return sum(sizes), len(sizes)
