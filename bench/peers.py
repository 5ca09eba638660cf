"""`make bench-peers`: other crawlers on the same web, in the same run, with the same eyes.

    python -m bench.peers --pages 20000 frontlog scrapy colly

Their scripts stand beside the synthetic web and are used where they lie. What they need is installed into the cache
outside the tree: an environment for each Python peer, the built program of a Go one. A peer that can't be had here is left
out, with the reason. All obey robots.txt and have up to 128 requests in flight; none but frontlog keeps bodies, a
durable frontier or a log. Rows are appended to bench/results/peers.jsonl.
"""

import argparse
import hashlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from venv import EnvBuilder

from bench import measure
from bench.crawling import UNLIMITED
from bench.run import Place, append, crawl, row_of
from bench.synthweb import ROOT, Missing, Server, Web, build_go, cache, sources
from bench.weblog import report, window

RESULTS = ROOT / "bench" / "results" / "peers.jsonl"
TIMEOUT_S = 1_800.0
SCRAPY = ("scrapy",)
PIPELINE = (
    "abloom", "can-ada", "fastavro", "httptools", "isal", "lmdb", "lxml", "numpy", "protego", "selectolax", "xxhash",
    "aiohttp",
)  # fmt: skip


class Run(NamedTuple):
    """What a peer's command is made of."""

    seeds: Path
    pages: int
    scratch: Path


def folder() -> Path:
    """Where the peers' scripts lie. Raises Missing."""
    found = sources().parent / "peers"
    if not found.is_dir():
        raise Missing(f"no scripts of other crawlers in {found}")
    return found


def environment(name: str, packages: Sequence[str]) -> Path:
    """The Python of an environment with these packages, made once. Raises Missing."""
    digest = hashlib.sha256(" ".join([sys.version, *packages]).encode()).hexdigest()[:12]
    home = cache() / f"peer-{name}-{digest}"
    python = home / "bin" / "python"
    if (home / "complete").exists():
        return python
    print(f"installing {name} into {home} ...", flush=True)
    EnvBuilder(clear=True, with_pip=True, symlinks=True).create(home)
    env = {**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_ROOT_USER_ACTION": "ignore"}
    command = [str(python), "-m", "pip", "--no-input", "install", "--quiet", *packages]
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    if done.returncode != 0:
        raise Missing(f"{name} can't be installed here: {done.stderr.strip()[-600:]}")
    (home / "complete").touch()
    return python


def scrapy(run: Run) -> list[str]:
    script = folder() / "scrapy_peer.py"
    return [
        str(environment("scrapy", SCRAPY)),
        str(script),
        "--seeds",
        str(run.seeds),
        "--pages",
        str(run.pages),
    ]


def colly(run: Run) -> list[str]:
    return [str(build_go(folder() / "colly", "colly")), "-seeds", str(run.seeds), "-pages", str(run.pages)]


def colly_queue(run: Run) -> list[str]:
    return [*colly(run), "-mode", "queue"]


def pipeline(run: Run) -> list[str]:
    script = folder() / "pipeline.py"
    python = str(environment("pipeline", PIPELINE))
    place = ["--dir", str(run.scratch / "pipeline")]
    return [
        python,
        str(script),
        "--seeds",
        str(run.seeds),
        "--pages",
        str(run.pages),
        *place,
        "--workers",
        "2",
    ]


PEERS: dict[str, tuple[Callable[[Run], list[str]], str]] = {
    "scrapy": (scrapy, "Scrapy, breadth first, all in memory"),
    "colly": (colly, "colly (Go), asynchronous, all in memory"),
    "colly-queue": (colly_queue, "colly (Go), its queue, all in memory"),
    "pipeline": (pipeline, "trial pipeline in Python, two processes: WARC, events, seen set; no frontier"),
}


def version(command: Sequence[str]) -> str:
    """The versions of what a Python peer runs on; empty for others."""
    if not command[0].endswith("python"):
        return ""
    done = subprocess.run([command[0], "-m", "pip", "freeze"], capture_output=True, text=True)
    wanted = {"scrapy", "twisted", "lxml", "httptools", "selectolax"}
    return " ".join(line for line in done.stdout.split() if line.partition("==")[0].lower() in wanted)


def measured(name: str, command: Sequence[str], place: Place) -> dict[str, Any]:
    """Run a peer, and what the server and the machine saw of it."""
    log = place.server.rotate(name)
    server_s, machine_s = place.server.stats()["cpu_s"], measure.busy_s()
    out = place.folder / f"{name}.out"
    ended = measure.run([*place.prefix, *command], cwd=place.folder, out=out, timeout_s=TIMEOUT_S)
    machine_s = measure.busy_s() - machine_s
    server_s = place.server.stats()["cpu_s"] - server_s
    pages, judged = window(place.server.settled(log)), report(log)
    if not pages.pages:
        raise Missing(f"{name} fetched no page (code {ended.code}): {out.read_text(errors='replace')[-600:]}")
    other_s = machine_s - server_s - ended.cpu_s
    return {
        "pages": pages.pages, "cpu_ms_page": 1_000 * ended.cpu_s / pages.pages, "pages_s": pages.pages / pages.span_s,
        "user_s": ended.user_s, "system_s": ended.system_s, "wall_s": ended.wall_s, "span_s": pages.span_s,
        "anonymous_mb_max": ended.peak_anonymous_mb(), "mapped_mb_max": ended.peak_mapped_mb(), "code": ended.code,
        "gap_ms_min": judged.gap_ms_min, "hosts_overlapping": judged.overlapping_hosts,
        "same_url_again": judged.same_url_again, "before_robots": judged.before_robots,
        "server_ms_page": 1_000 * server_s / pages.pages, "other_s": other_s,
        "noisy": measure.noisy(other_s, ended.wall_s), "version": version(command),
    }  # fmt: skip


def line_of(name: str, row: dict[str, Any]) -> str:
    """A row of the table."""
    noisy = " (noisy)" if row["noisy"] else ""
    return (
        f"| {name}{noisy} | {row['pages']:,} | {row['cpu_ms_page']:.2f} | {row['pages_s']:.0f} | "
        f"{row['anonymous_mb_max']:.0f} | {row['mapped_mb_max']:.0f} | {row['server_ms_page']:.2f} |"
    )


def arguments() -> argparse.ArgumentParser:
    """The command line."""
    names = ["frontlog", *PEERS]
    parser = argparse.ArgumentParser(
        prog="python -m bench.peers", description="Measure other crawlers beside frontlog."
    )
    add = parser.add_argument
    add(
        "peers", nargs="*", default=["frontlog", "scrapy", "colly", "pipeline"], help=f"of {', '.join(names)}"
    )
    add("--pages", type=int, default=20_000)
    add("--hosts", type=int, default=300)
    add("--host-pages", type=int, default=200)
    add("--repeats", type=int, default=1)
    add(
        "--mode",
        choices=["unpinned", "pinned"],
        default="unpinned",
        help="pinned: server on CPU 0, crawler on CPU 1",
    )
    add("--scratch", type=Path, default=None, help="where folders are kept [a temporary folder]")
    add("--out", type=Path, default=RESULTS, help="rows are appended here")
    return parser


def run(options: argparse.Namespace, scratch: Path) -> None:
    """All of it."""
    unknown = set(options.peers) - {"frontlog", *PEERS}
    if unknown:
        raise Missing(f"no such peer: {', '.join(sorted(unknown))}")
    pinned = options.mode == "pinned"
    hold = (("taskset", "-c", "0"), ("taskset", "-c", "1")) if pinned else ((), ())
    here = measure.machine(scratch)
    print(
        f"machine: {here.line()}\n{options.mode}, {options.hosts} hosts, {options.pages:,} pages wanted",
        flush=True,
    )
    with Server(Web(options.hosts, options.host_pages), scratch, prefix=hold[0], procs=int(pinned)) as server:
        server.warm()
        seeds = scratch / "seeds.txt"
        seeds.write_text("\n".join(server.web.seeds()) + "\n", encoding="utf-8")
        place = Place(server, scratch, hold[1])
        print("| crawler | pages | CPU ms/page | pages/s | anonymous MB | mapped MB | server ms/page |")
        print("|---|---|---|---|---|---|---|", flush=True)
        for number in range(options.repeats):
            for name in options.peers:
                try:
                    row = _one(name, number, place, Run(seeds, options.pages, scratch))
                except Missing as missing:
                    print(f"left out: {name}: {missing}", flush=True)
                    continue
                print(line_of(name, row), flush=True)
                made = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
                facts = {
                    "what": "peer",
                    "peer": name,
                    "at": made,
                    "machine": here._asdict(),
                    "mode": options.mode,
                }
                append(options.out, {**facts, "hosts": options.hosts, "target": options.pages, **row})


def _one(name: str, number: int, place: Place, wanted: Run) -> dict[str, Any]:
    measure.wait_quiet()
    if name == "frontlog":
        return row_of(crawl(place, f"frontlog-{number}", wanted.pages, UNLIMITED))
    return measured(f"{name}-{number}", PEERS[name][0](wanted), place)


def main() -> None:
    """Run; what is missing altogether ends it with a sentence and code 2."""
    options = arguments().parse_args()
    with tempfile.TemporaryDirectory(prefix="frontlog-peers-") as temporary:
        scratch = options.scratch or Path(temporary)
        scratch.mkdir(parents=True, exist_ok=True)
        try:
            run(options, scratch.resolve())
        except Missing as missing:
            print(f"bench-peers: {missing}", file=sys.stderr)
            raise SystemExit(2) from missing


if __name__ == "__main__":
    main()
