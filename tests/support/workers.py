"""Workers on Kafka as processes of their own, and what a crawl there came to, judged from outside.

    python -m support.workers crash …        `frontlog …` that ends at random moments of a batch

Judged: what `frontlog verify` holds of the log when it is copied into a folder; the tables of every worker, live ones and
standbys, folded to the log's end, against those that the copy gave; the site's own record of who asked when.
"""

import os
import random
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from frontlog.state import head as heads
from frontlog.state.catalogue import STORE_TABLES
from frontlog.state.lmdb_store import LmdbStore
from frontlog.streams import kafka_shard
from frontlog.streams.kafka_fold import fold_tail
from frontlog.streams.kafka_log import KafkaLog
from frontlog.streams.kafka_places import TOPICS, KafkaCrawl, ShardLog
from frontlog.streams.kafka_topics import members
from frontlog.streams.topics import Role
from support.crawls import QUICK, command, here, options, parts, until
from support.processes import Process

SETTINGS = QUICK | {"limits.total_ms": 3_000, "attempts.lease_ms": 4_000}
"""A fetch that a killed worker had in flight is tried again soon."""
CRASHES_PER_BATCH = 0.02


class Worker(Process):
    """`frontlog worker`, ended with the block."""

    def __init__(
        self,
        crawl: KafkaCrawl,
        folder: Path,
        *words: str,
        crash: bool = False,
        settings: dict[str, object] | None = None,
        traced: bool = True,
    ) -> None:
        argv = command("worker", str(crawl), "--out", folder, *options(SETTINGS | (settings or {})), *words)
        if crash:
            argv[1:3] = ["-m", "support.workers", "crash"]
        super().__init__(argv, folder, traced=traced)

    @property
    def owns(self) -> str:
        """What it said last that it owns."""
        said = [line for line in self.errors.splitlines() if line.startswith("worker: owns")]
        return said[-1].partition("owns ")[2].partition(";")[0] if said else ""


def prove(crawl: KafkaCrawl, folders: Iterable[Path], copy: Path) -> None:
    """Copy a crawl whose workers have ended, verify it, and hold the tables of every worker against it."""
    folders = list(folders)
    until(lambda: not members(crawl), what="the end of the workers' sessions")
    held = [path for folder in folders if (path := folder / "archive").is_dir()]
    archives = [word for path in held for word in ("--archive", path)]
    copied = here("log", "copy", *archives, str(crawl), copy)
    assert copied.exit_code == 0, copied.output
    verified = here("verify", copy)
    assert verified.exit_code == 0, verified.output
    rebuilt: dict[str, heads.Head] = {}
    for part in parts(copy):
        with part.store.begin() as txn:
            rebuilt[part.name] = heads.load(txn)
    partitions = sum(name.startswith(Role.FRONTIER) for name in rebuilt)
    log = KafkaLog(crawl.servers, TOPICS, prefix=crawl.prefix)
    try:
        for folder in folders:
            for path in sorted((folder / "state").glob("*-*")):
                role, _, number = path.name.partition("-")
                store = LmdbStore(path, STORE_TABLES, durability="none")
                try:
                    view = ShardLog(log, Role(role), partitions)
                    assert fold_tail(store, view, Role(role), int(number)) == rebuilt[path.name], path
                finally:
                    store.close()
    finally:
        log.close()


def _crash() -> None:
    """Make this process end at random moments of a batch: sent and not committed, or committed in Kafka alone."""
    chance = random.Random(os.getpid())
    publish = kafka_shard.KafkaShard._publish  # pyright: ignore[reportPrivateUsage]

    async def crashing(self: Any, appended: Any) -> dict[str, int]:
        fate = chance.random() / CRASHES_PER_BATCH
        if fate < 0.5:
            self._producer = _Dying(self._producer)
        ends = await publish(self, appended)
        if fate < 1:
            os._exit(137)
        return ends

    kafka_shard.KafkaShard._publish = crashing  # type: ignore[method-assign]  # pyright: ignore[reportPrivateUsage]


class _Dying:
    """A producer that sends, and ends the process in place of committing."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def commit_transaction(self, seconds: float) -> None:
        self._inner.flush(seconds)
        os._exit(137)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


if __name__ == "__main__":
    from frontlog.cli import main

    assert sys.argv.pop(1) == "crash"
    _crash()
    main()
