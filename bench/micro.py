"""`make bench-micro`: what single steps cost, in one process on one core.

    python -m bench.micro --known 1000000

Processor time of this process, the best of a few rounds for what is short. `links` is the way of a page's links through
one owner: offered, looked up, decided, folded, logged, committed with fsync; the rest is in memory. What needs the pages
of the synthetic web is left out, and says so, where Go is missing.
"""

import argparse
import hashlib
import json
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from bench import measure
from bench.known import drain, fill_shard
from bench.run import append
from bench.synthweb import ROOT, Missing, Web, binary
from frontlog.avro.codec import decode, encode
from frontlog.avro.enums import Reason, SourceKind, State, Topic
from frontlog.avro.events import Discovery, FirstSeen, Transition
from frontlog.fetch.memory import keep_house
from frontlog.fetch.parse_job import Job, parse
from frontlog.fetch.warc import build_exchange
from frontlog.processors.canonical import identify
from frontlog.processors.page import parse_page
from frontlog.processors.resolve import Base
from frontlog.processors.settings import Scope, Settings
from frontlog.replay.rebuild import rebuild
from frontlog.state.catalogue import STORE_TABLES
from frontlog.state.lmdb_store import LmdbStore
from frontlog.state.rows import UrlRow
from frontlog.streams.batching import Offered
from frontlog.streams.clock import SystemClock
from frontlog.streams.shard import Shard
from frontlog.streams.topics import Role

RESULTS = ROOT / "bench" / "results" / "micro.jsonl"
LINKS_A_PAGE = 62
HOSTS = 75
WARM_PAGES = 4 * HOSTS
PAGES_A_BATCH = 20
ROUND_S = 0.4
ROUNDS = 5
REQUEST = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: bench/1\r\nAccept: text/html\r\n\r\n"
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: 48000\r\n\r\n"
URL = "https://www.example.org/articles/2026/11/some-slug-of-a-page-12345.html?id=7"


class Cost(NamedTuple):
    """One line: what it is, its figures."""

    name: str
    figures: dict[str, float]


def each_us(work: Callable[[], object], count: int = 1) -> float:
    """Processor time of one of the `count` things that a call does, µs: the best round."""
    best = float("inf")
    for _ in range(ROUNDS):
        calls, began = 0, time.process_time()
        while (spent := time.process_time() - began) < ROUND_S / ROUNDS or not calls:
            work()
            calls += 1
        best = min(best, spent / calls)
    return 1e6 * best / count


# --- one owner ---------------------------------------------------------------------------------------------------


class Owner:
    """A frontier shard in a folder of its own, as rebuilding wants it."""

    def __init__(self, folder: Path, durability: str = "fsync") -> None:
        self.folder = folder
        path = folder / "log" / "frontier-0"
        path.mkdir(parents=True)
        assert durability in ("fsync", "none")
        self.store = LmdbStore(path, STORE_TABLES, durability="none" if durability == "none" else "fsync")
        settings = Settings(scope=Scope(mode="any"))
        self.shard = Shard(
            self.store, Role.FRONTIER, 0, 1, clock=SystemClock(), owner="bench", settings=settings
        )
        self.shard.open()


def link_pages(count: int, new: int, start: int, chance: random.Random) -> Iterator[Discovery]:
    """Discoveries of pages: of each one's links `new` are new, the others are those that `warm_up` made known."""
    for page in range(start, start + count):
        number = page % HOSTS
        origin = f"http://127.1.0.{number}:18080"
        base = f"{origin}/articles/2026/11/some-slug-of-a-page-"
        names = [f"{base}{page}-{n}.html" for n in range(new)]
        known = range(WARM_PAGES // HOSTS * LINKS_A_PAGE)
        for pick in chance.sample(known, LINKS_A_PAGE - new):
            names.append(f"{base}{number + pick // LINKS_A_PAGE * HOSTS}-{pick % LINKS_A_PAGE}.html")
        yield Discovery(
            event_id=f"page {page}", origin_key=origin, source_kind=SourceKind.PAGE, source_url=f"{base}x", at_ms=1, depth=1,
            priority=2, part=0, parts=1, chain=(), urls=tuple(names), raws=("",) * LINKS_A_PAGE,
            anchors=("the text of an anchor",) * LINKS_A_PAGE, rels=("",) * LINKS_A_PAGE,
        )  # fmt: skip


def warm_up(owner: Owner) -> None:
    """Make the owner know the links that pages have in common."""
    links(owner, "warm-up", WARM_PAGES, LINKS_A_PAGE, 0)


def links(owner: Owner, name: str, count: int, new: int, start: int) -> Cost:
    """The links of `count` pages through one owner."""
    events = list(link_pages(count, new, start, random.Random(start)))
    offered = [Offered(Topic.DISCOVERIES, event.origin_key.encode(), encode(event)) for event in events]
    began, began_cpu, decisions = time.perf_counter(), time.process_time(), 0
    for at in range(0, count, PAGES_A_BATCH):
        for one in offered[at : at + PAGES_A_BATCH]:
            owner.shard.offer(one)
        decisions += drain(owner.shard)
    cpu_s, wall_s = time.process_time() - began_cpu, time.perf_counter() - began
    figures = {
        "link_checks_cpu_s": count * LINKS_A_PAGE / cpu_s,
        "link_checks_wall_s": count * LINKS_A_PAGE / wall_s,
        "ms_page": 1_000 * cpu_s / count,
        "decisions_cpu_s": decisions / cpu_s,
        "new_a_page": decisions / count,
    }
    return Cost(name, figures)


def owner_costs(scratch: Path, pages: int) -> Iterator[Cost]:
    """Link checks and decisions of one owner, and folding its log from zero."""
    owner = Owner(scratch / "owner")
    warm_up(owner)
    yield links(owner, "links: 20 of 62 new", pages, 20, 1_000)
    yield links(owner, "links: 6 of 62 new, as in a crawl of 20,000 pages", pages, 6, 100_000)
    yield links(owner, "links: none new", pages, 0, 200_000)
    owner.shard.close()
    began = time.process_time()
    done = rebuild(owner.folder, scratch / "rebuilt", lambda _: None, processes=1)
    cpu_s = max(done.cpu_ms / 1_000, 1e-3)
    if not done.equal:
        raise Missing(f"the rebuilt tables differ: {done.differences}")
    folding_s = cpu_s - sum(shard.copy_ms for shard in done.shards) / 1_000
    yield Cost(
        "rebuild from zero, digests checked",
        {
            "decisions": done.records,
            "decisions_cpu_s": done.records / cpu_s,
            "fold_decisions_cpu_s": done.records / max(folding_s, 1e-3),
            "process_cpu_s": time.process_time() - began,
        },
    )


def known_costs(scratch: Path, known: int) -> Iterator[Cost]:
    """The same with many URLs known: its own process, so that its memory is its own."""
    command = [sys.executable, "-m", "bench.micro", "--only-known", str(known), "--scratch", str(scratch)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode != 0:
        raise Missing(f"filling a frontier with {known} URLs failed:\n{done.stderr[-3_000:]}")
    for name, figures in json.loads(done.stdout.splitlines()[-1]):
        yield Cost(name, figures)


def only_known(scratch: Path, known: int) -> list[Cost]:
    """What `known_costs` has done in a process of its own."""
    began = time.process_time()
    owner = Owner(scratch / "known", durability="none")
    fill_shard(owner.shard, known)
    filled_s = time.process_time() - began
    with owner.store.begin() as txn:
        count = txn.count("urls")
    owner.shard.close()
    again = LmdbStore(owner.store.path, STORE_TABLES)
    shard = Shard(
        again, Role.FRONTIER, 0, 1, clock=SystemClock(), owner="bench", settings=owner.shard.settings
    )
    shard.open()
    owner.store, owner.shard = again, shard
    warm_up(owner)
    found = links(owner, f"links: 6 of 62 new, {count:,} URLs known", 500, 6, 100_000)
    anonymous, mapped = measure.memory_of("self")
    memory = {
        "urls": float(count), "anonymous_mb": anonymous / 1e6, "mapped_mb": mapped / 1e6,
        "store_mb": again.size_bytes() / 1e6, "new_urls_cpu_s": count / filled_s,
    }  # fmt: skip
    shard.close()
    return [Cost(f"one owner with {count:,} URLs known", memory), found]


# --- codecs, URLs, pages -----------------------------------------------------------------------------------------


def codec_costs() -> Iterator[Cost]:
    """Avro events and rows of tables."""
    move = Transition(
        seq=123_456, owner_token=7, origin_key="https://www.example.org:443", url=URL, from_state=State.DISCOVERED,
        to_state=State.ELIGIBLE, reason=Reason.ADMITTED, cause_topic="discoveries", cause_offset=99, depth=3,
        first=FirstSeen(source_kind=SourceKind.PAGE, source_url=URL, anchor="the text of an anchor"),
    )  # fmt: skip
    claim = Transition(
        seq=123_457, owner_token=7, origin_key="https://www.example.org:443", url=URL, from_state=State.ELIGIBLE,
        to_state=State.LEASED, reason=Reason.CLAIMED, cause_topic="claim", fence=3, lease_owner="host/boot/1/2",
    )  # fmt: skip
    page = next(link_pages(1, 6, 5, random.Random(1)))
    for name, event in (
        ("a first Transition", move),
        ("a claim", claim),
        (f"a Discovery of {LINKS_A_PAGE} links", page),
    ):
        data = encode(event)
        yield Cost(
            f"Avro: {name}",
            {
                "encode_us": each_us(partial(encode, event)),
                "decode_us": each_us(partial(decode, data)),
                "bytes": len(data),
            },
        )
    row = UrlRow(
        url=URL, state=State.ELIGIBLE, reason=Reason.ADMITTED, source_kind=SourceKind.PAGE, source_url=URL
    )
    data = row.encode()
    figures = {
        "encode_us": each_us(row.encode),
        "decode_us": each_us(lambda: UrlRow.decode(data)),
        "bytes": len(data),
    }
    yield Cost("row of a URL", figures)


def page_costs(scratch: Path, count: int = 200) -> Iterator[Cost]:
    """Pages of the synthetic web: parsing whole, and the identities of their links. Raises Missing."""
    folder = scratch / "pages"
    command = [str(binary()), "dump", "-n", str(count), "-out", str(folder), *Web().flags()]
    subprocess.run(command, check=True, capture_output=True)
    pages: list[tuple[str, bytes]] = []
    for line in (folder / "index.tsv").read_text(encoding="utf-8").splitlines():
        name, url, _ = line.split("\t")
        pages.append((url, (folder / name).read_bytes()))
    found = [(url, parse_page(body, url, "text/html").links.raws) for url, body in pages]
    links_count = sum(len(raws) for _, raws in found)

    def identities() -> None:
        for url, raws in found:
            for href in Base(url).join_all(raws):
                if href is not None:
                    identify(href)

    def parse_all() -> None:
        for job in jobs:
            parse(job)

    jobs = [
        Job(f"page {n}", url, url, "text/html", "frontlog", 1, 1, 4, body)
        for n, (url, body) in enumerate(pages)
    ]
    size = sum(len(body) for _, body in pages) / count
    yield Cost("page: parse, links, text, events, encoded", {"us": each_us(parse_all, count), "bytes": size})
    figures = {"us": 80 * each_us(identities, links_count), "links_a_page": links_count / count}
    yield Cost("identities of 80 links of a page, as found", figures)
    figures = {
        "us": each_us(partial(archive_all, pages), count),
        "sha1_us": each_us(partial(sha1_all, pages), count),
    }
    yield Cost("archive: request and answer of a page, as records", figures)


def archive_all(pages: list[tuple[str, bytes]]) -> None:
    """What the archive's thread does with each page before it is written."""
    for url, body in pages:
        build_exchange(
            capture_id=f"bench/{url}", target_uri=url, started_ms=1, ip_address="127.0.0.1", request_head=REQUEST,
            response_head=ANSWER, body=body,
        )  # fmt: skip


def sha1_all(pages: list[tuple[str, bytes]]) -> None:
    """The floor of one of its digests."""
    for _, body in pages:
        hashlib.sha1(body, usedforsecurity=False).digest()


# --- the command -------------------------------------------------------------------------------------------------


def line_of(cost: Cost) -> str:
    """A cost for people."""
    said = ", ".join(
        f"{name} {value:,.0f}" if abs(value) >= 100 else f"{name} {value:.2f}"
        for name, value in cost.figures.items()
    )
    return f"{cost.name:<52} {said}"


def arguments() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.micro", description="Measure single steps.")
    parser.add_argument(
        "--known", type=int, default=1_000_000, help="URLs that an owner knows [1000000]; 0: leave it out"
    )
    parser.add_argument(
        "--pages", type=int, default=1_000, help="pages whose links go through an owner [1000]"
    )
    parser.add_argument("--only-known", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument(
        "--scratch", type=Path, default=None, help="where stores are made [a temporary folder]"
    )
    parser.add_argument("--out", type=Path, default=RESULTS, help="a row is appended here")
    return parser


def run(options: argparse.Namespace, scratch: Path) -> None:
    """All of it."""
    here = measure.machine(scratch)
    print(f"machine: {here.line()}", flush=True)
    costs: list[Cost] = []

    def tell(found: Iterator[Cost]) -> None:
        for cost in found:
            costs.append(cost)
            print(line_of(cost), flush=True)

    busy, began, own = measure.busy_s(), time.monotonic(), time.process_time()
    tell(codec_costs())
    try:
        tell(page_costs(scratch))
    except Missing as missing:
        print(f"left out, the pages of the synthetic web: {missing}")
    tell(owner_costs(scratch, options.pages))
    other_s = measure.busy_s() - busy - (time.process_time() - own)
    noisy = measure.noisy(other_s, time.monotonic() - began)
    if noisy:
        print(f"NOISY: other work took {other_s:.1f} s of processor time in {time.monotonic() - began:.1f} s")
    if options.known:
        tell(known_costs(scratch, options.known))
    row: dict[str, Any] = {
        "what": "micro", "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "machine": here._asdict(), "noisy": noisy,
        "costs": {cost.name: cost.figures for cost in costs},
    }  # fmt: skip
    append(options.out, row)


def main() -> None:
    """Run; what is missing ends it with a sentence and code 2."""
    options = arguments().parse_args()
    # As the processes do whose steps these are: without it a page costs 0.4 ms more, for memory that comes and goes.
    keep_house()
    if options.only_known:
        print(json.dumps(only_known(options.scratch, options.only_known)))
        return
    base = options.scratch
    scratch = Path(tempfile.mkdtemp(prefix="frontlog-micro-", dir=base))
    try:
        run(options, scratch)
    except Missing as missing:
        print(f"bench-micro: {missing}", file=sys.stderr)
        raise SystemExit(2) from missing
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


if __name__ == "__main__":
    main()
