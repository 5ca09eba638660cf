"""Keeps the tables of shards warm that other workers own: their decisions are folded as they come.

One thread does it for all of a process's standbys, since each store and its transactions belong to one thread. When a
shard is to be owned here, the fold of its tail is short.
"""

import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack

from frontlog.avro.errors import Retriable
from frontlog.state import head as heads
from frontlog.state.lmdb_store import LmdbStore
from frontlog.streams.kafka_fold import fold_tail
from frontlog.streams.kafka_places import ShardLog
from frontlog.streams.kafka_shard import Ground, close_store, open_store, pin_topics
from frontlog.streams.topics import Role, shard_name

FOLLOW_S = 0.3
"""How often the log is looked at."""


class Standbys:
    """Follows shards from `start` to `stop`. `failed` is called in the thread that follows."""

    def __init__(
        self, ground: Ground, shards: Sequence[tuple[Role, int]], *, failed: Callable[[BaseException], None]
    ) -> None:
        self.heads: dict[str, heads.Head] = {}
        self.behind = ""
        """Why they can't be followed at the moment; empty when all is well."""
        self._ground = ground
        self._shards = list(shards)
        self._failed = failed
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="standbys", daemon=True)

    def start(self) -> None:
        """Begin, if there is anything to follow."""
        if self._shards:
            self._thread.start()

    def stop(self) -> None:
        """Fold no more, and wait until another may use the stores; blocks for the chunk under way."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        try:
            with ExitStack() as opened:
                stores = [self._open(role, partition, opened) for role, partition in self._shards]
                while not self._stop.is_set():
                    try:
                        for (role, partition), store in zip(self._shards, stores, strict=True):
                            self._fold(role, partition, store)
                        self.behind = ""
                    except Retriable as exc:
                        self.behind = str(exc)  # the broker is away: stay warm
                    self._stop.wait(FOLLOW_S)
        except BaseException as exc:
            self._failed(exc)

    def _open(self, role: Role, partition: int, opened: ExitStack) -> LmdbStore:
        folder = self._ground.folder / shard_name(role, partition)
        store = open_store(folder)
        opened.callback(close_store, store, folder)
        pin_topics(store, self._ground, role)
        return store

    def _fold(self, role: Role, partition: int, store: LmdbStore) -> None:
        log = ShardLog(self._ground.log, role, self._ground.partitions)
        name = shard_name(role, partition)
        self.heads[name] = fold_tail(store, log, role, partition, following=True, stopped=self._stop.is_set)
