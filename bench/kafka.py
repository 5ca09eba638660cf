"""`make bench-kafka`: what a crawl on Kafka costs beside an embedded one in the same run, and how quick its workers are.

    python -m bench.kafka --pages 5000 --hosts 300          with PYTHONPATH=tests, for the broker

    embedded   `frontlog crawl` of the synthetic web, everything on
    kafka      two `frontlog worker`, a real broker and the same web on the same cores; events and bytes a page in its topics
    hand-over  SIGTERM and kill -9 of one of two workers under load, until the other has decided in every shard
    owner      decisions a second of one shard whose inputs are there: links of new URLs
    rebuild    the same shard's tables folded from Kafka, with digests
    warm       a shard whose tables are nearly there: from its assignment to its first decision

Processor time is of all processes of the workers with start-up, the broker's and the server's left out. Rows are appended to
bench/results/kafka.jsonl.
"""

import argparse
import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from bench import measure
from bench.crawling import FRONTLOG, UNLIMITED
from bench.run import Place, append, crawl
from bench.synthweb import ROOT, Missing, Server, Web
from bench.weblog import window
from frontlog.avro.codec import encode
from frontlog.avro.enums import SourceKind, Topic
from frontlog.avro.events import Discovery
from frontlog.config import load
from frontlog.state.catalogue import STORE_TABLES
from frontlog.state.lmdb_store import LmdbStore
from frontlog.streams.kafka_fold import fold_tail
from frontlog.streams.kafka_host import KafkaHost
from frontlog.streams.kafka_log import KafkaLog
from frontlog.streams.kafka_places import TOPICS, KafkaCrawl, ShardLog
from frontlog.streams.kafka_shard import KafkaShard
from frontlog.streams.kafka_topics import create
from frontlog.streams.records import NewRecord
from frontlog.streams.topics import Role
from support.broker import Broker, Unavailable, free_ports, jars

RESULTS = ROOT / "bench" / "results" / "kafka.jsonl"
PARTITIONS = 4
SHARDS = PARTITIONS + 1
RATIO_MAX = 1.6
LINKS, LINKS_EACH = 200_000, 100
WAIT_S = 120.0


class Worker:
    """`frontlog worker` with its page /status, sampled like any process that is measured."""

    def __init__(self, crawl: KafkaCrawl, folder: Path, settings: Sequence[str]) -> None:
        (self.port,) = free_ports(1)
        words = ["worker", str(crawl), "--out", str(folder), "--web", f"127.0.0.1:{self.port}"]
        words += ["--scope", "any", "--allow-addresses", "127.0.0.0/8", "--contact", "bench@example.org"]
        argv = [*FRONTLOG, *words, *(word for one in settings for word in ("--set", one))]
        with folder.with_suffix(".err").open("ab") as err:
            self._process = subprocess.Popen(argv, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=err, stderr=err)
        self._sampler = measure.Sampler(self._process.pid)
        self._sampler.start()

    def owned(self, since_ms: int = 0) -> int:
        """Shards that it owns and has decided in since a moment."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/status", timeout=5) as answer:
                shards: dict[str, Any] = json.load(answer)["shards"]
        except OSError:
            return 0
        return sum(not one["standby"] and one["at_ms"] >= since_ms for one in shards.values())

    def signal(self, how: signal.Signals) -> None:
        """Send it a signal, and wait for nothing; nothing but `end` asks how it ended, which would lose what it used."""
        os.kill(self._process.pid, how)

    def end(self) -> tuple[float, float]:
        """End it; processor seconds of all its processes, and the most anonymous memory, MB."""
        if self._process.returncode is None:
            self.signal(signal.SIGTERM)
            _, status, usage = os.wait4(self._process.pid, 0)
            self._process.returncode = os.waitstatus_to_exitcode(status)
            samples, _ = self._sampler.end()
            peak_mb = max((sample.anonymous_bytes for sample in samples), default=0) / 1e6
            return usage.ru_utime + usage.ru_stime, peak_mb
        return 0.0, 0.0


def until(condition: Callable[[], object], what: str, seconds: float = WAIT_S) -> None:
    """Wait until something is so. Raises Missing."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise Missing(f"{what} did not happen in {seconds:.0f} s")
        time.sleep(0.02)


def crawled(place: Place, broker: Broker, pages: int, settings: Sequence[str]) -> dict[str, Any]:
    """Two workers crawl until the server gave so many pages; then hand-overs while they go on."""
    name = KafkaCrawl(broker.bootstrap, "bench")
    create(name, PARTITIONS)
    folders = [place.folder / "one", place.folder / "two"]
    log = place.server.rotate("kafka")
    workers = [Worker(name, folder, settings) for folder in folders]
    try:
        until(lambda: sum(one.owned() for one in workers) == SHARDS, "every shard has an owner")
        seeding = [*FRONTLOG, "seed", *place.server.web.seeds(), "-C", str(name)]
        subprocess.run(seeding, cwd=ROOT, check=True, capture_output=True)
        until(lambda: place.server.stats()["kinds"].get("page", 0) >= pages, "the pages", 3_600)
        ends = [one.end() for one in workers]
        place.server.settled(log)
        found = window(log)
        topics = in_topics(broker, name, found.pages)
        place.server.rotate("hand-over")
        workers = [Worker(name, folder, settings) for folder in folders]
        until(lambda: sum(one.owned() for one in workers) == SHARDS, "every shard has an owner again")
        handed: dict[str, float] = {}
        for how in (signal.SIGTERM, signal.SIGKILL):
            handed[how.name] = _hand_over(workers, how)
            workers[0] = Worker(name, folders[0], settings)
            until(
                lambda: workers[0].owned() > 0 and sum(one.owned() for one in workers) == SHARDS,
                "a share for each",
            )
    finally:
        for one in workers:
            one.end()
    return {
        "pages": found.pages, "pages_s": found.pages / found.span_s,
        "cpu_ms_page": 1_000 * sum(cpu_s for cpu_s, _ in ends) / found.pages,
        "anonymous_mb_max": sum(mb for _, mb in ends),
        "hand_over_s": handed,
        "topics": topics,
    }  # fmt: skip


def _hand_over(workers: list[Worker], how: signal.Signals) -> float:
    """Seconds from the signal to the first decision of the other worker in the last of the shards."""
    time.sleep(2)
    began, began_ms = time.monotonic(), time.time_ns() // 1_000_000
    workers[0].signal(how)
    until(lambda: workers[1].owned(began_ms) == SHARDS, "the hand-over")
    took_s = time.monotonic() - began
    workers[0].end()
    return took_s


def in_topics(broker: Broker, crawl: KafkaCrawl, pages: int) -> dict[str, Any]:
    """Offsets, markers of transactions included, and bytes of Kafka's segments, for a page; in all and by topic."""
    log = KafkaLog(crawl.servers, TOPICS, prefix=crawl.prefix)
    counts: dict[str, float] = {}
    sizes: dict[str, float] = {}
    for folder in sorted((broker.folder / "data").glob(f"{crawl.prefix}*-*")):
        topic, _, number = folder.name.removeprefix(crawl.prefix).rpartition("-")
        first, end = log.bounds(topic, int(number))
        counts[topic] = counts.get(topic, 0) + (end - first) / pages
        sizes[topic] = sizes.get(topic, 0) + sum(file.stat().st_size for file in folder.glob("*.log")) / pages
    log.close()
    return {
        "offsets_page": sum(counts.values()), "bytes_page": sum(sizes.values()),
        "by_topic": {topic: [round(counts[topic], 2), round(sizes[topic])] for topic in counts},
    }  # fmt: skip


def links(crawl: KafkaCrawl, count: int) -> None:
    """Put discoveries of new URLs into partition 0, as pages of many hosts give them."""
    log = KafkaLog(crawl.servers, TOPICS, prefix=crawl.prefix, writer="bench.links")
    now_ms = time.time_ns() // 1_000_000
    records: list[NewRecord] = []
    for at in range(0, count, LINKS_EACH):
        origin = f"http://host{at // LINKS_EACH % 1_000}.example:80"
        urls = tuple(f"{origin.removesuffix(':80')}/articles/2026/{at + n}.html" for n in range(LINKS_EACH))
        empty = ("",) * LINKS_EACH
        event = Discovery(
            event_id=f"bench-{at}", origin_key=origin, source_kind=SourceKind.PAGE, source_url=f"{urls[0]}?from",
            at_ms=now_ms, depth=1, parts=1, urls=urls, raws=empty, anchors=empty, rels=empty,
        )  # fmt: skip
        records.append(NewRecord(now_ms, origin.encode(), encode(event)))
    with log.begin() as txn:
        txn.append(Topic.DISCOVERIES, 0, records)
        txn.commit()
    log.close()


class Timed(NamedTuple):
    """Wall and processor seconds of a piece of work in this process, and what it came to."""

    wall_s: float
    cpu_s: float
    decisions: int

    def told(self, what: str) -> str:
        """A line for people."""
        each_us = 1e6 * self.cpu_s / max(1, self.decisions)
        return f"{what}: {self.decisions / self.wall_s:,.0f} decisions/s, {each_us:.1f} us CPU each ({self.decisions:,})"


async def owned(
    broker: Broker, folder: Path, count: int, settings: Sequence[str]
) -> dict[str, Timed | float]:
    """One shard in this process: decide, rebuild, and open again warm."""
    name = KafkaCrawl(broker.bootstrap, "owner")
    create(name, 1)
    links(name, count)
    given = dict(one.split("=", 1) for one in settings) | {"scope.mode": "any"}
    config = load(
        None, {key: json.loads(value) if value[:1].isdigit() else value for key, value in given.items()}
    )

    def fail(exc: BaseException) -> None:
        raise exc

    host = KafkaHost(name, folder / "owner", config, failed=fail)
    shard = KafkaShard(host.ground, Role.FRONTIER, 0)
    shard.open(lambda: False)
    await shard.take_over()
    while not shard.inputs.caught_up(Topic.CONTROL):
        shard.inputs.poll()
        await asyncio.sleep(0.01)
    began_s, began_cpu_s, first = time.monotonic(), time.process_time(), shard.head.seq
    while shard.head.positions.get(Topic.DISCOVERIES, 0) < count // LINKS_EACH:
        shard.inputs.poll()
        await shard.step(0)
    decided = Timed(time.monotonic() - began_s, time.process_time() - began_cpu_s, shard.head.seq - first)
    shard.close()

    began_s = time.monotonic()
    shard.open(lambda: False)
    await shard.take_over()
    warm_s = time.monotonic() - began_s
    shard.close()

    (folder / "rebuilt").mkdir()
    store = LmdbStore(folder / "rebuilt", STORE_TABLES, durability="none")
    view = ShardLog(host.log, Role.FRONTIER, 1)
    began_s, began_cpu_s = time.monotonic(), time.process_time()
    head = fold_tail(store, view, Role.FRONTIER, 0)
    rebuilt = Timed(time.monotonic() - began_s, time.process_time() - began_cpu_s, head.seq)
    store.close()
    assert head == shard.head, "the rebuilt tables differ"
    await host.close()
    return {"owner": decided, "rebuild": rebuilt, "warm_s": warm_s}


def run(options: argparse.Namespace) -> dict[str, Any]:
    """All of it, told as it comes."""
    with tempfile.TemporaryDirectory(prefix="frontlog-bench-kafka-") as temporary:
        scratch = Path(temporary)
        here = measure.machine(scratch)
        print(f"machine: {here.line()}", flush=True)
        broker = Broker(jars(), scratch / "kafka").start()
        try:
            with Server(Web(options.hosts, 200), scratch) as server:
                server.warm()
                place = Place(server, scratch, ())
                embedded = crawl(place, "embedded", options.pages, UNLIMITED)
                usual = 1_000 * embedded.ended.cpu_s / embedded.window.pages
                usual_s = embedded.window.pages / embedded.window.span_s
                print(f"embedded: {usual_s:.0f} pages/s, {usual:.2f} ms CPU a page", flush=True)
                kafka = crawled(place, broker, options.pages, UNLIMITED)
            ratio = kafka["cpu_ms_page"] / usual
            print(
                f"kafka, two workers: {kafka['pages_s']:.0f} pages/s, {kafka['cpu_ms_page']:.2f} ms CPU a page, {ratio:.2f} "
                f"times the embedded crawl's (at most {RATIO_MAX}); {kafka['anonymous_mb_max']:.0f} MB of both workers"
            )
            print(
                "hand-over under load: "
                + ", ".join(f"{how} {took_s:.1f} s" for how, took_s in kafka["hand_over_s"].items())
            )
            topics = kafka["topics"]
            print(
                f"in Kafka: {topics['offsets_page']:.1f} offsets and {topics['bytes_page']:,.0f} bytes a page"
            )
            print(
                "  " + ", ".join(f"{name} {n} / {size}" for name, (n, size) in topics["by_topic"].items()),
                flush=True,
            )
            alone = asyncio.run(owned(broker, scratch, options.links, UNLIMITED))
        finally:
            broker.close()
    owner, rebuild = alone["owner"], alone["rebuild"]
    assert isinstance(owner, Timed) and isinstance(rebuild, Timed)
    print(owner.told("one owner, new links"))
    print(rebuild.told("rebuild from Kafka, with digests"))
    print(f"warm shard: {alone['warm_s']:.2f} s from its assignment to its first decision", flush=True)
    return {
        "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "machine": here._asdict(), "hosts": options.hosts,
        "embedded": {"pages_s": usual_s, "cpu_ms_page": usual}, "kafka": kafka, "ratio": ratio,
        "owner": owner._asdict(), "rebuild": rebuild._asdict(), "warm_s": alone["warm_s"],
    }  # fmt: skip


def main() -> None:
    """Run; what is missing ends it with a sentence and code 2."""
    parser = argparse.ArgumentParser(prog="python -m bench.kafka", description="Measure a crawl on Kafka.")
    parser.add_argument("--pages", type=int, default=5_000, help="pages of each crawl [5000]")
    parser.add_argument("--hosts", type=int, default=300, help="hosts of the web [300]")
    parser.add_argument("--links", type=int, default=LINKS, help=f"links that one owner decides [{LINKS}]")
    parser.add_argument("--out", type=Path, default=RESULTS, help="a row is appended here")
    options = parser.parse_args()
    try:
        append(options.out, run(options))
    except (Missing, Unavailable) as missing:
        print(f"bench: {missing}", file=sys.stderr)
        raise SystemExit(2) from missing


if __name__ == "__main__":
    main()
