"""`make kills N=20`: a real crawl is killed at random moments, and nothing may be lost, doubled or impolite.

    python -m bench.kills --n 20 --fulls 6 --seed 1

A crawl of the synthetic web runs in a process of its own. It is killed with kill -9 at a moment drawn uniformly from a
window that is a few times its start-up, and started again, N times; a crawl that comes to its end before that is judged,
and the next kills hit a new one. Three kinds of crawl:

    quick   most kills: a short gap, many pages, something always in flight
    slow    a quarter: the gap is longer than a start takes, so that one that a restart forgets shows
    full    a small disk is filled at random moments; then room comes back, or the process is killed first

Judged at the end of each crawl, against one that nobody disturbed and the server's own log:

- every page that the undisturbed crawl fetches is there, and was given out;
- no URL was asked for twice unless its lease had run out, or had been released because its process was dead: each case
  is printed with the moves that the log has; and no request came without a lease;
- no two requests to a host came closer than the gap, nor at once;
- the archive is whole, every body that the tables point at is there, `frontlog verify --deep` finds nothing;
- folding the log gives the tables, at the end and in the copy that was taken at each kill; nothing is left undecided.

Not seen: what a power cut takes, since the machine stays up.
"""

import argparse
import json
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

from bench import measure
from bench.crawling import FRONTLOG
from bench.disk import Disk, small_disk
from bench.judging import Undisturbed, Verdict, judge, told
from bench.killing import Kill, Ran, Setup, environment, fill_once, finish, kill_once
from bench.run import append
from bench.story import Story, read_story
from bench.synthweb import ROOT, Missing, Server, Web
from bench.weblog import report, visits

RESULTS = ROOT / "bench" / "results" / "kills.jsonl"
FINITE = ("-slow", "0", "-traps", "0", "-errors", "0")
"""The web is finite, and nothing in it asks for a second try."""
QUICK = (*FINITE, "-latency-ms", "40", "-jitter-ms", "120")
SLOW = (*FINITE, "-latency-ms", "3000", "-jitter-ms", "3000")
"""Answers take a while, so that there are leases to lose."""
FEW_PAGES = r"scope.include=['(-[0-3]\.html|/[0-3]/|[?&]id=[0-3]&cat=\w+|_\([0-3]\)|//[^/]+/)$']"
"""The first four pages of a host, in each of synthweb's four styles of URL."""
STARTING_SHARE = 0.3
"""The part of the window that start-up takes: about as many kills hit it."""
SLOW_SHARE = 4
DISK_BYTES = 256 << 20


class Kind(NamedTuple):
    """A kind of crawl: how many kills, the flags of its web, the gap, and what else is set."""

    name: str
    kills: int
    web: tuple[str, ...]
    gap_ms: int
    more: tuple[str, ...] = ()


class Bench(NamedTuple):
    """What the crawls of a kind share. `window_s`: moments are drawn from it."""

    options: argparse.Namespace
    kind: Kind
    server: Server
    scratch: Path
    seeds: Path
    chance: random.Random
    usual: Undisturbed
    window_s: float


def setup(bench: Bench, name: str, folder: Path, disk: Disk | None = None) -> Setup:
    """The folders and settings of a crawl."""
    scratch = bench.scratch / name
    scratch.mkdir(parents=True)
    program, env = (FRONTLOG, environment()) if disk is None else (disk.program, disk.environment())
    gaps = (
        f"politeness.gap_ms_min={bench.kind.gap_ms}",
        "politeness.gap_factor=0",
        # Which of two equal pages is fetched before they are merged depends on the order, which a kill changes.
        "learning.mode=off",
        "crawl.patience_ms=60000",
    )
    settings = (*gaps, *bench.kind.more, *bench.options.settings)
    return Setup(folder, bench.seeds, settings, scratch, program, env)


def undisturbed(bench: Bench) -> Bench:
    """Crawl once without a kill: what there is to fetch, and how long a start takes."""
    name = f"{bench.kind.name}-undisturbed"
    at = setup(bench, name, bench.scratch / name / "crawl")
    log, began_ns = bench.server.rotate(name), time.time_ns()
    ran = finish(at, 0)
    found = sorted(visits(bench.server.settled(log)))
    if ran.code != 0 or not found:
        raise Missing(f"a crawl that nobody disturbed ended with code {ran.code}:\n{ran.said.other[-4_000:]}")
    usual = bench.usual._replace(story=read_story(at.folder))
    verdict = judge(usual, at, [], ran, found, began_ns // 1_000_000)
    pages, wanted = len({(v.host, v.target) for v in found if v.kind == "page"}), bench.server.web.allowed()
    if not bench.kind.more and report(log).pages_distinct != wanted:
        verdict.faults.append(
            f"{report(log).pages_distinct} pages were fetched by {pages} URLs; the web has {wanted}"
        )
    if verdict.faults:
        raise Missing("a crawl that nobody disturbed has faults:\n" + "\n".join(verdict.faults))
    start_s = (found[0].start_ns - began_ns) / 1e9
    window_s = bench.options.window_s or start_s / STARTING_SHARE
    print(
        f"{bench.kind.name}, undisturbed: {verdict.facts['fetched']} URLs fetched of {verdict.facts['urls']} known, "
        f"{len(found)} requests in {ran.seconds:.1f} s with a gap of {bench.kind.gap_ms} ms; the first request came "
        f"{start_s:.2f} s after the start, so moments are uniform in the first {window_s:.2f} s after each start",
        flush=True,
    )
    return bench._replace(usual=usual, window_s=window_s)


def one_crawl(bench: Bench, name: str, number: int, disk: Disk | None, folder: Path) -> Verdict:
    """Kill one crawl until there were as many kills as wanted, let it end, judge it."""
    at = setup(bench, name, folder, disk)
    log, began_ms = bench.server.rotate(name), time.time_ns() // 1_000_000
    kills: list[Kill] = []
    ran: Ran | None = None
    while ran is None and number + len(kills) < bench.kind.kills:
        moment_s = bench.chance.uniform(0, bench.window_s)
        turn = number + len(kills)
        if disk is None:
            done = kill_once(at, turn, moment_s)
        else:  # a crawl that has not begun has nothing to say about a full disk
            done = fill_once(at, turn, moment_s + bench.window_s * STARTING_SHARE, disk, bench.chance)
        if isinstance(done, Ran):
            ran = done
        else:
            kills.append(done)
            print(f"  {done.line()}", flush=True)
    ran = ran or finish(at, 10_000)
    found = sorted(visits(bench.server.settled(log)))
    return judge(bench.usual, at, kills, ran, found, began_ms)


def all_crawls(bench: Bench, here: measure.Machine) -> list[Verdict]:
    """As many crawls as it takes."""
    verdicts: list[Verdict] = []
    done = empty = 0
    while done < bench.kind.kills:
        name = f"{bench.kind.name}-{done}-{empty}"
        verdict = _crawl(bench, name, done)
        verdicts.append(verdict)
        done += len(verdict.kills)
        empty += not verdict.kills
        if empty > 20:
            raise Missing(
                f"{bench.kind.name}: the crawls end before they are killed; give --window-s or more pages"
            )
        print("\n".join(told(name, verdict)), flush=True)
        append(bench.options.out, _row(bench, name, verdict, here))
    return verdicts


def _crawl(bench: Bench, name: str, number: int) -> Verdict:
    if bench.kind.name != "full":
        return one_crawl(bench, name, number, None, bench.scratch / name / "crawl")
    folder = bench.scratch / f"{name}-disk"
    with small_disk(folder, DISK_BYTES) as disk:
        print(f"  a disk of its own: {disk.kind}", flush=True)
        return one_crawl(bench, name, number, disk, folder / "crawl")


def _row(bench: Bench, name: str, verdict: Verdict, here: measure.Machine) -> dict[str, Any]:
    kills = [
        {"number": k.number, "after_s": round(k.after_s, 3), **k.left._asdict(), "what": k.what}
        for k in verdict.kills
    ]
    options = bench.options
    return {
        "what": "kills", "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "machine": here._asdict(),
        "name": name, "seed": options.seed, "hosts": options.hosts, "host_pages": options.host_pages,
        "gap_ms": bench.kind.gap_ms, "window_s": bench.window_s, "kills": kills, **verdict.facts,
        "faults": verdict.faults, "notes": verdict.notes,
    }  # fmt: skip


# --- the command -------------------------------------------------------------------------------------------------


def arguments() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.kills",
        description="Kill a crawl at random moments, and judge what it comes to.",
    )
    add = parser.add_argument
    add("--n", type=int, default=20, help="kills, a quarter of them of a slow crawl [20]")
    add("--fulls", type=int, default=6, help="how often a disk is filled [6]")
    add("--seed", type=int, default=1, help="of the moments [1]")
    add("--hosts", type=int, default=12)
    add("--host-pages", type=int, default=20)
    add("--gap-ms", type=int, default=50, help="gap between two requests to a host, of quick crawls [50]")
    add("--slow-gap-ms", type=int, default=0, help="of slow crawls [twice a start, 2000 at least]")
    add(
        "--window-s",
        type=float,
        default=0.0,
        help="moments lie in so many seconds after each start [by start-up]",
    )
    add("--set", dest="settings", action="append", default=[], metavar="NAME=VALUE")
    add("--scratch", type=Path, default=None, help="where folders are kept [a temporary folder]")
    add("--out", type=Path, default=RESULTS, help="rows are appended here")
    return parser


def run(options: argparse.Namespace, scratch: Path) -> list[Verdict]:
    """All of it."""
    here = measure.machine(scratch)
    slow = options.n // SLOW_SHARE
    print(
        f"machine: {here.line()}\nseed {options.seed}, {options.n} kills, {options.fulls} full disks",
        flush=True,
    )
    chance = random.Random(options.seed)
    verdicts: list[Verdict] = []
    start_s = 0.0
    for kind in (
        Kind("quick", options.n - slow, QUICK, options.gap_ms),
        Kind("full", options.fulls, QUICK, options.gap_ms),
        Kind("slow", slow, SLOW, options.slow_gap_ms, (FEW_PAGES,)),
    ):
        if not kind.kills:
            continue
        if not kind.gap_ms:
            kind = kind._replace(gap_ms=int(max(2_000, 2_000 * start_s)))
        with Server(Web(options.hosts, options.host_pages, kind.web), scratch) as server:
            seeds = scratch / f"{kind.name}.txt"
            seeds.write_text("\n".join(server.web.seeds()) + "\n", encoding="utf-8")
            bases = {n: seed.rstrip("/") for n, seed in enumerate(server.web.seeds())}
            usual = Undisturbed(Story(), kind.gap_ms, bases)
            bench = undisturbed(Bench(options, kind, server, scratch, seeds, chance, usual, 0.0))
            start_s = bench.window_s * STARTING_SHARE
            verdicts += all_crawls(bench, here)
    return verdicts


def main() -> None:
    """Run; code 1 when something did not hold, 2 when something is missing here."""
    options = arguments().parse_args()
    with tempfile.TemporaryDirectory(prefix="frontlog-kills-") as temporary:
        scratch = options.scratch or Path(temporary)
        scratch.mkdir(parents=True, exist_ok=True)
        try:
            verdicts = run(options, scratch.resolve())
        except Missing as missing:
            print(f"kills: {missing}", file=sys.stderr)
            raise SystemExit(2) from missing
    kills = [one for verdict in verdicts for one in verdict.kills]
    found = {
        "kills": len(kills),
        "with_open_leases": sum(bool(one.left.pages + one.left.errands) for one in kills),
        "with_own_leases": sum(bool(one.left.own) for one in kills),
        "crawls": len(verdicts),
        "asked_again": sum(len(verdict.again) for verdict in verdicts),
        "faults": sum(len(verdict.faults) for verdict in verdicts),
    }
    print(json.dumps(found))
    raise SystemExit(1 if found["faults"] else 0)


if __name__ == "__main__":
    main()
