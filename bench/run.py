"""`make bench`: a crawl of the synthetic web with everything on, and what it costs.

    python -m bench.run --pages 20000 --hosts 300

Everything is durable (fsync), bodies go into WARC, pages are parsed, robots.txt is obeyed; only the gap between two
requests to a host is 0. The server counts the pages: a page is one 200 answer with a full page. Processor time is of all
processes with start-up; pages/s is from the first page's request to the last one's answer in the server's log.

A second, shorter crawl with clocks around its steps says where the time goes (`bench/steps.py`); it isn't in the figures.
Rows are appended to bench/results/frontlog.jsonl.
"""

import argparse
import itertools
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from bench import measure
from bench.crawling import FRONTLOG, NOTHING, UNLIMITED, Stored, crawl_arguments, deciding, said, stored
from bench.known import fill_folder
from bench.synthweb import ROOT, Missing, Server, Web
from bench.weblog import Report, Window, report, window

RESULTS = ROOT / "bench" / "results" / "frontlog.jsonl"
STEPS_PAGES_MAX = 5_000
TIMEOUT_S = 3_600.0
SHARE = 10_000
"""Pages at the beginning and at the end whose cost is compared."""


class Place(NamedTuple):
    """Where a crawl runs: the server, folders, the processor it is held to."""

    server: Server
    folder: Path
    prefix: tuple[str, ...]


class Measured(NamedTuple):
    """One crawl, measured. `before`: what the folder held; `machine_s`: processor seconds of the whole machine
    meanwhile, `server_s` of the server."""

    ended: measure.Ended
    window: Window
    report: Report
    summary: dict[str, Any]
    folder: Path
    before: Stored
    machine_s: float
    server_s: float

    @property
    def other_s(self) -> float:
        """Processor seconds that neither crawler nor server spent."""
        return self.machine_s - self.server_s - self.ended.cpu_s


def crawl(
    place: Place,
    name: str,
    pages: int,
    settings: Sequence[str],
    *,
    program: Sequence[str] = FRONTLOG,
    known: int = 0,
) -> Measured:
    """Crawl into a new folder, which knows `known` URLs already, and measure. Raises Missing when the crawl failed, with
    what it said."""
    folder = place.folder / name
    before = NOTHING
    if known:
        fill_folder(folder, known, deciding(settings))
        before = stored(folder)
    seeds = place.folder / "seeds.txt"
    seeds.write_text("\n".join(place.server.web.seeds()) + "\n", encoding="utf-8")
    log = place.server.rotate(name)
    command = [*place.prefix, *program, *crawl_arguments(folder, seeds, pages, settings)]
    server_s, machine_s = place.server.stats()["cpu_s"], measure.busy_s()
    out = place.folder / f"{name}.out"
    ended = measure.run(command, cwd=ROOT, out=out, timeout_s=TIMEOUT_S)
    machine_s = measure.busy_s() - machine_s
    server_s = place.server.stats()["cpu_s"] - server_s
    summary = said(out).summary
    if ended.code != 0 or summary is None:
        raise Missing(f"the crawl ended with code {ended.code}:\n{said(out).other[-4_000:]}")
    place.server.settled(log)
    return Measured(ended, window(log), report(log), summary, folder, before, machine_s, server_s)


def row_of(found: Measured) -> dict[str, Any]:
    """The figures of a crawl. Times in ms or s, sizes in bytes or MB (10^6), as the names say."""
    ended, pages, summary = found.ended, found.window.pages, found.summary
    disk, before = stored(found.folder), found.before
    commits, flushes = summary["batches_run"], summary["flushes_run"]
    durable = summary["durability"] == "fsync"
    return {
        "pages": pages,
        "cpu_ms_page": 1_000 * ended.cpu_s / pages,
        "pages_s": pages / found.window.span_s,
        "user_s": ended.user_s,
        "system_s": ended.system_s,
        "wall_s": ended.wall_s,
        "span_s": found.window.span_s,
        "cpu_by_process_s": {name: round(s, 2) for name, s in sorted(ended.by_process.items())},
        "anonymous_mb_max": ended.peak_anonymous_mb(),
        "mapped_mb_max": ended.peak_mapped_mb(),
        "log_bytes_page": (disk.log_table_bytes - before.log_table_bytes) / pages,
        "tables_bytes_page": (disk.tables_bytes - before.tables_bytes) / pages,
        "store_file_bytes_page": (disk.log_bytes - before.log_bytes) / pages,
        "known": before.urls,
        "archive_bytes_page": summary["archive_bytes"] / pages,
        "records": disk.records,
        "urls": disk.urls,
        "durability": summary["durability"],
        "file_system": measure.file_system(found.folder),
        "commits": commits,
        "archive_flushes": flushes,
        "fsyncs": (2 * commits if durable else 0) + flushes,
        "pages_per_fsync": pages / ((2 * commits if durable else 0) + flushes),
        "gap_ms_min": found.report.gap_ms_min,
        "hosts_overlapping": found.report.overlapping_hosts,
        "same_url_again": found.report.same_url_again,
        "before_robots": found.report.before_robots,
        "disallowed": found.report.disallowed,
        "server_ms_page": 1_000 * found.server_s / pages,
        "other_s": found.other_s,
        "noisy": measure.noisy(found.other_s, ended.wall_s),
        "ends": summary["end"],
        **ageing(ended, found.window),
    }  # fmt: skip


def ageing(ended: measure.Ended, pages: Window) -> dict[str, Any]:
    """Cost by thousand pages, and the last `SHARE` against the first: {} when there were too few."""
    step = max(1_000, pages.pages // 20)
    marks = pages.ends_ns[::step]
    curve = [1_000 * ended.cpu_between(a, b) / step for a, b in itertools.pairwise(marks)]
    found: dict[str, Any] = {"curve_pages": step, "curve_ms_page": [round(c, 3) for c in curve]}
    share = SHARE if pages.pages >= 2 * SHARE else pages.pages // 4
    if len(pages.ends_ns) < 2 * share or share < 500:
        return found
    ends = pages.ends_ns
    first = 1_000 * ended.cpu_between(ends[0], ends[share - 1]) / share
    last = 1_000 * ended.cpu_between(ends[-share], ends[-1]) / share
    found |= {
        "share_pages": share,
        "first_ms_page": first,
        "last_ms_page": last,
        "last_to_first": last / first if first else 0,
    }
    return found


def steps_of(place: Place, pages: int, settings: Sequence[str]) -> dict[str, Any]:
    """Where the time goes, by a crawl of its own: CPU and wall ms a page by step."""
    out = place.folder / "steps.json"
    found = crawl(place, "steps", pages, settings, program=(sys.executable, "-m", "bench.steps", str(out)))
    told: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
    n = found.window.pages
    steps = {
        name: {
            "cpu_ms_page": 1_000 * s["cpu_s"] / n,
            "wall_ms_page": 1_000 * s["wall_s"] / n,
            "calls_page": s["calls"] / n,
        }
        for name, s in told["steps"].items()
    }
    loop = sum(s["cpu_s"] for name, s in told["steps"].items() if not name.startswith("archive thread"))
    parsers = sum(s for name, s in found.ended.by_process.items() if name.endswith("parse_worker"))
    rest = {
        "event loop, sockets, HTTP, tasks: the rest of the main thread": told["loop_cpu_s"] - loop,
        "parsers: parse, links, identities, encode (other processes)": parsers,
        "other threads, start-up, imports": found.ended.cpu_s - parsers - told["loop_cpu_s"]
        - sum(s["cpu_s"] for name, s in told["steps"].items() if name.startswith("archive thread")),
    }  # fmt: skip
    for name, cpu_s in rest.items():
        steps[name] = {"cpu_ms_page": 1_000 * cpu_s / n, "wall_ms_page": 0.0, "calls_page": 0.0}
    return {
        "pages": n,
        "cpu_ms_page": 1_000 * found.ended.cpu_s / n,
        "loop_busy": told["loop_cpu_s"] / told["wall_s"],
        "steps": steps,
    }


# --- what is printed ---------------------------------------------------------------------------------------------


def lines_of(row: dict[str, Any]) -> list[str]:
    """A run for people."""
    kept = f"{row['durability']} on {row['file_system']}"
    lines = [
        f"{row['pages']:,} pages at {row['pages_s']:.0f} pages/s, {row['cpu_ms_page']:.2f} ms CPU a page of all processes "
        f"({row['user_s']:.1f} s user, {row['system_s']:.1f} s system); server {row['server_ms_page']:.2f} ms a page",
        f"  by process, s: {', '.join(f'{name} {s}' for name, s in row['cpu_by_process_s'].items())}",
        f"  memory of all processes at most: {row['anonymous_mb_max']:.0f} MB anonymous, "
        f"{row['mapped_mb_max']:.0f} MB mapped files",
        f"  bytes a page: log {row['log_bytes_page']:,.0f}, tables {row['tables_bytes_page']:,.0f}, store files "
        f"{row['store_file_bytes_page']:,.0f}, archive {row['archive_bytes_page']:,.0f}",
        f"  durability {kept}: {row['commits']:,} commits (a data sync and a synchronous meta page each) and "
        f"{row['archive_flushes']:,} archive fsyncs, {row['pages_per_fsync']:.1f} pages for each",
        f"  by the server: smallest gap of a host {row['gap_ms_min']:.2f} ms, "
        f"hosts with two requests at once {row['hosts_overlapping']}, same URL again {row['same_url_again']}, "
        f"before robots.txt {row['before_robots']}, disallowed {row['disallowed']}",
    ]  # fmt: skip
    if "last_to_first" in row:
        lines.append(
            f"  ms a page, first {row['share_pages']:,}: {row['first_ms_page']:.2f}, last: {row['last_ms_page']:.2f} "
            f"({row['last_to_first']:.2f} times)"
        )
    lines.append(f"  cost along the way, ms a page for each {row['curve_pages']:,}: {row['curve_ms_page']}")
    if row["noisy"]:
        lines.append(
            f"  NOISY: other work took {row['other_s']:.1f} s of processor time during the {row['wall_s']:.1f} s of the run"
        )
    return lines


def step_lines(found: dict[str, Any]) -> list[str]:
    """Where the time goes, most first."""
    ordered = sorted(found["steps"].items(), key=lambda item: -item[1]["cpu_ms_page"])
    return [
        f"where the time goes ({found['pages']:,} pages of another crawl, {found['cpu_ms_page']:.2f} ms CPU a page, "
        f"main thread busy {100 * found['loop_busy']:.0f} %):",
        "    CPU ms/page  wall ms/page  calls/page  step",
        *(
            f"    {s['cpu_ms_page']:11.3f}  {s['wall_ms_page']:12.3f}  {s['calls_page']:10.2f}  {name}"
            for name, s in ordered
        ),
    ]


def summary_line(rows: Sequence[dict[str, Any]]) -> str:
    """min / median / max of what targets are about."""

    def mmm(name: str, form: str) -> str:
        values = [row[name] for row in rows]
        return " / ".join(form.format(v) for v in (min(values), statistics.median(values), max(values)))

    noisy = sum(row["noisy"] for row in rows)
    return (
        f"{len(rows)} runs, {noisy} noisy: CPU ms/page {mmm('cpu_ms_page', '{:.2f}')}, pages/s {mmm('pages_s', '{:.0f}')}, "
        f"anonymous MB {mmm('anonymous_mb_max', '{:.0f}')}, log bytes/page {mmm('log_bytes_page', '{:.0f}')}"
    )


def append(path: Path, row: dict[str, Any]) -> None:
    """Keep a row."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")


# --- the command -------------------------------------------------------------------------------------------------


def arguments() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.run", description="Measure a crawl of the synthetic web."
    )
    parser.add_argument("--pages", type=int, default=20_000, help="pages to crawl [20000]")
    parser.add_argument("--hosts", type=int, default=300, help="hosts of the web [300]")
    parser.add_argument("--host-pages", type=int, default=200, help="pages of a host [200]")
    parser.add_argument(
        "--known", type=int, default=0, help="URLs that the frontier knows before it starts [0]"
    )
    parser.add_argument("--repeats", type=int, default=1, help="runs [1]")
    parser.add_argument(
        "--mode",
        choices=["unpinned", "pinned"],
        default="unpinned",
        help="pinned: server on CPU 0, crawler on CPU 1",
    )
    parser.add_argument(
        "--set",
        dest="settings",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a setting of the crawl",
    )
    parser.add_argument("--web", default="", help="more flags of `synthweb serve`, one string")
    parser.add_argument(
        "--no-steps", action="store_true", help="don't crawl again to see where the time goes"
    )
    parser.add_argument(
        "--no-warm", action="store_true", help="let the server compress pages while it is measured"
    )
    parser.add_argument(
        "--scratch", type=Path, default=None, help="where crawls are kept [a temporary folder]"
    )
    parser.add_argument("--out", type=Path, default=RESULTS, help="rows are appended here")
    return parser


def run(options: argparse.Namespace) -> None:
    """The whole of it."""
    pinned = options.mode == "pinned"
    with tempfile.TemporaryDirectory(prefix="frontlog-bench-") as temporary:
        scratch = options.scratch or Path(temporary)
        scratch.mkdir(parents=True, exist_ok=True)
        here = measure.machine(scratch)
        print(f"machine: {here.line()}", flush=True)
        web = Web(options.hosts, options.host_pages, tuple(options.web.split()))
        hold = (("taskset", "-c", "0"), ("taskset", "-c", "1")) if pinned else ((), ())
        settings = (*UNLIMITED, *options.settings)
        with Server(web, scratch, prefix=hold[0], procs=int(pinned)) as server:
            if not options.no_warm:
                server.warm()
            place = Place(server, scratch, hold[1])
            rows = [_one(place, options, settings, n, here) for n in range(options.repeats)]
            if len(rows) > 1:
                print(summary_line(rows))
            if not options.no_steps:
                found = steps_of(place, min(options.pages, STEPS_PAGES_MAX), settings)
                print("\n".join(step_lines(found)))
                append(options.out, {"what": "steps", **found})


def _one(
    place: Place, options: argparse.Namespace, settings: Sequence[str], number: int, here: measure.Machine
) -> dict[str, Any]:
    measure.wait_quiet()
    load = measure.machine(place.folder).load
    found = crawl(place, f"crawl-{int(time.time())}-{number}", options.pages, settings, known=options.known)
    row = {
        "what": "crawl", "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "machine": here._asdict(), "load": load,
        "mode": options.mode, "hosts": options.hosts, "host_pages": options.host_pages, "target": options.pages,
        "settings": list(settings), **row_of(found),
    }  # fmt: skip
    append(options.out, row)
    print("\n".join(lines_of(row)), flush=True)
    return row


def main() -> None:
    """Run; what is missing ends it with a sentence and code 2."""
    options = arguments().parse_args()
    try:
        run(options)
    except Missing as missing:
        print(f"bench: {missing}", file=sys.stderr)
        raise SystemExit(2) from missing


if __name__ == "__main__":
    main()
