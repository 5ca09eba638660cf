"""Sending an operator's wish: a record on `control`, whether a crawl is running or not.

The wish is checked here with the same code that decides it, so that a typing error is told at once; what was appended
holds, since the owner decides it from the log, within POLL_S of a running crawl or at its next start.
"""

from pathlib import Path

from frontlog.avro.codec import encode
from frontlog.avro.enums import Topic
from frontlog.avro.errors import ConfigError, Retriable
from frontlog.avro.events import Control
from frontlog.processors import control
from frontlog.state import head
from frontlog.state.catalogue import STORE_TABLES
from frontlog.state.lmdb_store import LmdbStore
from frontlog.state.store import in_write
from frontlog.streams.embedded import LOG_FOLDER
from frontlog.streams.embedded_log import EmbeddedLog
from frontlog.streams.records import NewRecord
from frontlog.streams.topics import TOPIC_IDS, Role, shard_name


def send(folder: Path, wish: Control) -> list[tuple[int, int]]:
    """Append a wish to the partitions it concerns; (partition, offset) of each. Raises ConfigError; Retriable
    when the crawl is only being begun."""
    try:
        checked = control.check(wish)
        partitions = (
            control.partitions_of(checked, _partitions(folder)) if checked.cmd in control.ACTS else [0]
        )
    except control.BadControl as exc:
        raise ConfigError(str(exc)) from exc
    return [(partition, _append(folder, partition, checked)) for partition in partitions]


def _partitions(folder: Path) -> int:
    """The number of frontier partitions that the log has pinned."""
    store = _open(folder, 0)
    try:
        with store.begin() as txn:
            found = head.load(txn).partitions
    finally:
        store.close()
    if not found:
        raise Retriable(f"{folder}: its crawl is only being begun; try again in a second")
    return found


def _open(folder: Path, partition: int) -> LmdbStore:
    path = folder / LOG_FOLDER / shard_name(Role.FRONTIER, partition)
    if not path.is_dir():
        raise ConfigError(
            f"{folder}: holds no crawl; name the folder that was given to `frontlog crawl --out`"
        )
    return LmdbStore(path, STORE_TABLES)


def _append(folder: Path, partition: int, wish: Control) -> int:
    store = _open(folder, partition)
    try:
        log = EmbeddedLog(store, TOPIC_IDS)
        record = NewRecord(wish.at_ms, wish.target.encode(), encode(wish))
        return in_write(store, lambda txn: log.within(txn).append(Topic.CONTROL, partition, [record]))
    finally:
        store.close()
