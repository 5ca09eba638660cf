"""Where the time goes: a crawl with clocks around its coarse steps.

    python -m bench.steps OUT.json crawl --out DIR ...      as `frontlog crawl ...`, and OUT.json in the end

A step is a function that runs without waiting; what it calls of other steps is taken off it. Each costs two looks at two
clocks, about a microsecond, some tens of times a page: the rates of such a run are a few per cent lower than without.
Processor time is of the thread that works; wall time shows where a thread waits for the disk. What no step names is the
rest: the event loop, sockets, HTTP, the pipes to the parsers. Parsers are processes of their own (`measure.Sampler`).
"""

import json
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from frontlog.fetch import archive, ending, parser_pool, pipeline, transport
from frontlog.processors import hosts, machine
from frontlog.state import head, lmdb_store
from frontlog.streams import batching, crawl_watch, fold, shard

STEPS: tuple[tuple[ModuleType | type, str, str], ...] = (
    (batching.BatchMaker, "append", "log: write inputs"),
    (batching.BatchMaker, "take_inputs", "decide: inputs"),
    (batching.BatchMaker, "take_timers", "decide: timers and jobs"),
    (batching.BatchMaker, "take_claims", "decide: claims"),
    (hosts, "settle", "decide: when hosts are next ready"),
    (machine, "apply", "fold: apply decisions to rows"),
    (batching, "encode", "encode decisions and outputs"),
    (batching, "read_input", "decode inputs"),
    (fold, "digests_of", "tables: encode rows, write them, digest them"),
    (fold, "chain_hash", "hash chain"),
    (batching.BatchMaker, "_write", "log: write decisions and outputs"),
    (head, "save", "head"),
    (lmdb_store.LmdbTxn, "commit", "commit, durable"),
    (shard.Shard, "outbox", "outbox: read what is for other shards"),
    (shard.Shard, "_note_delivered", "outbox: note and cut what was delivered"),
    (shard.Shard, "_attempt", "batch: the rest"),
    (pipeline, "build_exchange", "archive thread: build records, compress, hash"),
    (archive.Archive, "append", "archive thread: place records"),
    (archive.Archive, "flush", "archive thread: write and fsync"),
    (transport, "request_bytes", "fetch: build requests"),
    (ending, "decode", "fetch: undo content codings"),
    (parser_pool.ParserPool, "answer", "parse: decode what parsers answer"),
    (crawl_watch.Watch, "tick", "progress: count and tell"),
)


class Clocks:
    """Processor and wall time by step and thread; nested steps are taken off the one around them."""

    def __init__(self) -> None:
        self.spent: dict[str, list[float]] = {}
        self._local = threading.local()

    def wrap(self, owner: ModuleType | type, name: str, step: str) -> None:
        """Put a clock around a function of a module or class."""
        function: Callable[..., Any] = getattr(owner, name)
        total = self.spent.setdefault(step, [0.0, 0.0, 0])
        local = self._local

        def timed(*args: Any, **kwargs: Any) -> Any:
            stack: list[list[float]] = local.__dict__.setdefault("stack", [])
            inner = [0.0, 0.0]
            stack.append(inner)
            cpu, wall = time.thread_time(), time.perf_counter()
            try:
                return function(*args, **kwargs)
            finally:
                cpu, wall = time.thread_time() - cpu, time.perf_counter() - wall
                stack.pop()
                total[0] += cpu - inner[0]
                total[1] += wall - inner[1]
                total[2] += 1
                if stack:
                    stack[-1][0] += cpu
                    stack[-1][1] += wall

        setattr(owner, name, timed)


def main() -> None:
    """Run frontlog's command line with clocks on."""
    out = Path(sys.argv.pop(1))
    clocks = Clocks()
    for owner, name, step in STEPS:
        clocks.wrap(owner, name, step)
    from frontlog.cli import main as frontlog

    began_cpu, began = time.thread_time(), time.perf_counter()
    try:
        frontlog()
    finally:
        loop_s, wall_s = time.thread_time() - began_cpu, time.perf_counter() - began
        found = {
            "process_cpu_s": time.process_time(),
            "loop_cpu_s": loop_s,
            "wall_s": wall_s,
            "steps": {
                step: {"cpu_s": c, "wall_s": w, "calls": int(n)} for step, (c, w, n) in clocks.spent.items()
            },
        }
        out.write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main()
