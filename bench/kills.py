"""`make kills N=20`: a real crawl is killed at random moments, and nothing may be lost, doubled or impolite.

    python -m bench.kills --n 20 --fulls 6 --seed 1

A crawl of the synthetic web runs in a process of its own. It is killed with kill -9 at a moment drawn uniformly from a window
that is a few times its start-up, and started again, N times; a crawl that comes to its end before that is judged, and
the next kills hit a new one. Then the same on a small disk that is filled at random moments.

Judged at the end of each crawl, against one that nobody disturbed and the server's own log:

- every page that the undisturbed crawl fetches is there;
- no URL was asked for twice unless its lease had run out, or had been released because its process was dead: each case is
  printed with the moves that the log has; and no request came without a lease;
- no two requests to a host came closer than the gap, nor at once;
- the archive is whole, every body that the tables point at is there, `frontlog verify --deep` finds nothing;
- folding the log gives the tables, at the end and in the copy that was taken at each kill; nothing is left undecided.
"""

import argparse
import json
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from bench import measure, proofs
from bench.crawling import FRONTLOG
from bench.disk import Disk, small_disk
from bench.killing import Kill, Ran, Setup, environment, fill_once, finish, kill_once
from bench.run import append
from bench.story import Again, Story, hold, read_story
from bench.synthweb import ROOT, Missing, Server, Visit, Web, courtesies, visits

RESULTS = ROOT / "bench" / "results" / "kills.jsonl"
WEB = ("-latency-ms", "40", "-jitter-ms", "120", "-slow", "0", "-traps", "0", "-errors", "0")
"""Answers take a while, so that there are leases to lose; the web is finite, and nothing in it asks for a second try."""
STARTING_SHARE = 0.3
"""The part of the window that start-up takes: about as many kills hit it."""
DISK_BYTES = 256 << 20


class Bench(NamedTuple):
    """What all crawls share. `window_s`: moments are drawn from it; `wanted`: what an undisturbed crawl comes to."""

    options: argparse.Namespace
    server: Server
    scratch: Path
    seeds: Path
    chance: random.Random
    wanted: Story
    window_s: float


class Verdict(NamedTuple):
    """What became of one crawl."""

    kills: list[Kill]
    faults: list[str]
    again: list[Again]
    notes: list[str]
    facts: dict[str, Any]


def settings(options: argparse.Namespace) -> tuple[str, ...]:
    """Of every crawl."""
    return (
        f"politeness.gap_ms_min={options.gap_ms}",
        "politeness.gap_factor=0",
        "crawl.patience_ms=30000",
        *options.settings,
    )


def setup(bench: Bench, name: str, folder: Path, disk: Disk | None = None) -> Setup:
    """Folders of a crawl."""
    scratch = bench.scratch / name
    scratch.mkdir(parents=True)
    program, env = (FRONTLOG, environment()) if disk is None else (disk.program, disk.environment())
    return Setup(folder, bench.seeds, settings(bench.options), scratch, program, env)


def undisturbed(options: argparse.Namespace, server: Server, scratch: Path, seeds: Path) -> Bench:
    """Crawl once without a kill: what there is to fetch, and how long a start takes."""
    chance = random.Random(options.seed)
    bench = Bench(options, server, scratch, seeds, chance, Story(), 0.0)
    at = setup(bench, "undisturbed", scratch / "undisturbed" / "crawl")
    log, began_ns = server.rotate("undisturbed"), time.time_ns()
    ran = finish(at, 0)
    found = sorted(visits(server.settled(log)))
    verdict = judge(bench._replace(wanted=read_story(at.folder)), at, [], ran, found, began_ns // 1_000_000)
    if verdict.faults or not found:
        raise Missing(
            "a crawl that nobody disturbed has faults:\n" + "\n".join(verdict.faults or [ran.said.other])
        )
    start_s = (found[0].start_ns - began_ns) / 1e9
    window_s = options.window_s or start_s / STARTING_SHARE
    print(
        f"undisturbed: {verdict.facts['fetched']} URLs fetched of {verdict.facts['urls']} known, {len(found)} requests in {ran.seconds:.1f} s; the first "
        f"{start_s:.2f} s after the start. Kills: {options.n}, seed {options.seed}, uniform in the first {window_s:.2f} s after each start",
        flush=True,
    )
    return bench._replace(wanted=read_story(at.folder), window_s=window_s)


def one_crawl(bench: Bench, name: str, number: int, count: int, disk: Disk | None, folder: Path) -> Verdict:
    """Kill one crawl up to `count` times, let it end, judge it."""
    at = setup(bench, name, folder, disk)
    log, began_ms = bench.server.rotate(name), time.time_ns() // 1_000_000
    kills: list[Kill] = []
    ran: Ran | None = None
    while ran is None and len(kills) < count:
        moment_s = bench.chance.uniform(0, bench.window_s)
        turn = number + len(kills)
        done = (
            kill_once(at, turn, moment_s)
            if disk is None
            else fill_once(at, turn, moment_s + bench.window_s * STARTING_SHARE, disk, bench.chance)
        )
        if isinstance(done, Ran):
            ran = done
        else:
            kills.append(done)
            print(f"  {done.line()}", flush=True)
    ran = ran or finish(at, 10_000)
    found = sorted(visits(bench.server.settled(log)))
    return judge(bench, at, kills, ran, found, began_ms)


def judge(
    bench: Bench, at: Setup, kills: Sequence[Kill], ran: Ran, found: list[Visit], began_ms: int
) -> Verdict:
    """Everything that must hold at the end of a crawl, and of each copy."""
    summary = ran.said.summary
    faults = [text for one in kills for text in one.faults]
    if ran.code != 0 or summary is None or summary["end"] != "done":
        ended = summary["end"] if summary else ran.said.other[-3_000:]
        faults.append(f"the last run ended with code {ran.code}: {ended}")
    story = read_story(at.folder)
    bases = {n: seed.rstrip("/") for n, seed in enumerate(bench.server.web.seeds())}
    held = hold(story, found, bases, began_ms)
    missing, other = proofs.compared(story, bench.wanted)
    least = courtesies(found)
    faults += [f"missing: {text}" for text in missing] + held.unleased
    faults += [f"asked twice: {one.url}: {one.fault}" for one in held.again if one.fault]
    faults += proofs.polite(least, bench.options.gap_ms)
    faults += proofs.archive(at.folder) + proofs.bodies(at.folder, story.rows)
    faults += proofs.folded(at.folder) + proofs.settled(at.folder, story) + proofs.verified(at.folder)
    for one in kills:
        faults += [f"at kill {one.number}: {text}" for text in _copy_faults(one)]
    facts = {
        "requests": held.requests, "asked_again": len(held.again), "owners": story.owners, "urls": len(story.rows),
        "fetched": sum(row.state == "FETCHED" for row in story.rows.values()), "outputs": len(story.outputs), "outputs_repeated": story.repeats, "rejects": len(story.rejects),
        "start_ms_min": min((c.start_ms for c in least), default=0), "gap_ms_min": min((c.gap_ms for c in least), default=0),
    }  # fmt: skip
    return Verdict(
        list(kills),
        faults,
        held.again,
        [f"differs: {t}" for t in other] + [f"reject: {t}" for t in story.rejects],
        facts,
    )


def _copy_faults(one: Kill) -> list[str]:
    """What was left at a kill must be consistent by itself; its archive may end in a torn record."""
    if one.snapshot is None or one.left.decisions == 0:
        return []
    return proofs.folded(one.snapshot) + proofs.bodies(one.snapshot, read_story(one.snapshot).rows)


# --- the command -------------------------------------------------------------------------------------------------


def told(name: str, verdict: Verdict) -> list[str]:
    """A crawl for people."""
    f = verdict.facts
    lines = [
        f"{name}: {len(verdict.kills)} kills, {f['owners']} owners; {f['requests']} requests, {f['fetched']} URLs fetched of {f['urls']}, "
        f"{f['outputs']} outputs ({f['outputs_repeated']} of them twice), {f['rejects']} rejects; smallest time between two starts at a host {f['start_ms_min']:.2f} ms, "
        f"from an answer to the next request {f['gap_ms_min']:.2f} ms; {f['asked_again']} URLs were asked for again (s since the crawl began):"
    ]
    lines += [f"    {one.url}: {one.moves}" for one in verdict.again]
    lines += [f"  {note}" for note in verdict.notes]
    return lines + [f"  FAULT {fault}" for fault in verdict.faults]


def arguments() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.kills",
        description="Kill a crawl at random moments, and judge what it comes to.",
    )
    parser.add_argument("--n", type=int, default=20, help="kills [20]")
    parser.add_argument("--fulls", type=int, default=6, help="how often a disk is filled [6]")
    parser.add_argument("--seed", type=int, default=1, help="of the moments [1]")
    parser.add_argument("--hosts", type=int, default=12)
    parser.add_argument("--host-pages", type=int, default=20)
    parser.add_argument(
        "--gap-ms", type=int, default=50, help="smallest gap between two requests to a host [50]"
    )
    parser.add_argument(
        "--window-s",
        type=float,
        default=0.0,
        help="moments are drawn from so many seconds after each start [by start-up]",
    )
    parser.add_argument("--set", dest="settings", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument(
        "--scratch", type=Path, default=None, help="where folders are kept [a temporary folder]"
    )
    parser.add_argument("--out", type=Path, default=RESULTS, help="rows are appended here")
    return parser


def run(options: argparse.Namespace, scratch: Path) -> list[Verdict]:
    """All of it."""
    here = measure.machine(scratch)
    print(f"machine: {here.line()}", flush=True)
    verdicts: list[Verdict] = []
    seeds = scratch / "seeds.txt"
    with Server(Web(options.hosts, options.host_pages, WEB), scratch) as server:
        seeds.write_text("\n".join(server.web.seeds()) + "\n", encoding="utf-8")
        bench = undisturbed(options, server, scratch, seeds)
        for what, wanted in (("kills", options.n), ("fulls", options.fulls)):
            done = 0
            while done < wanted:
                name = f"{what}-{done}"
                verdict = _crawl(bench, what, name, done, wanted - done)
                done += max(1, len(verdict.kills))
                verdicts.append(verdict)
                print("\n".join(told(name, verdict)), flush=True)
                append(options.out, _row(options, name, verdict, here))
    return verdicts


def _crawl(bench: Bench, what: str, name: str, number: int, count: int) -> Verdict:
    if what == "kills":
        return one_crawl(bench, name, number, count, None, bench.scratch / name / "crawl")
    folder = bench.scratch / f"{name}-disk"
    with small_disk(folder, DISK_BYTES) as disk:
        print(f"  a disk of its own: {disk.kind}", flush=True)
        return one_crawl(bench, name, number, count, disk, folder / "crawl")


def _row(options: argparse.Namespace, name: str, verdict: Verdict, here: measure.Machine) -> dict[str, Any]:
    kills = [
        {"number": k.number, "after_s": round(k.after_s, 3), **k.left._asdict(), "what": k.what}
        for k in verdict.kills
    ]
    return {
        "what": "kills", "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "machine": here._asdict(), "name": name,
        "seed": options.seed, "hosts": options.hosts, "host_pages": options.host_pages, "gap_ms": options.gap_ms, "kills": kills,
        **verdict.facts, "faults": verdict.faults, "notes": verdict.notes,
    }  # fmt: skip


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
    open_ones = sum(bool(one.left.pages + one.left.errands) for one in kills)
    faults = sum(len(verdict.faults) for verdict in verdicts)
    print(
        json.dumps(
            {"kills": len(kills), "with_open_leases": open_ones, "crawls": len(verdicts), "faults": faults}
        )
    )
    raise SystemExit(1 if faults else 0)


if __name__ == "__main__":
    main()
