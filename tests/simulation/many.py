"""Runs many seeds in parallel, or one: `make simulate SEEDS=1000`, `make simulate SEED=7`.

    python -m simulation.many --seeds 1000 [--from 0] [--jobs 2]     progress, rate and failures; each failure is shrunk
    python -m simulation.many --seed 7 [--off crash,late.2] …        one run with its whole trace

Ends with 1 when an invariant broke. `--json` prints one line with the counts, for tests.
"""

import argparse
import json
import logging
import multiprocessing
import os
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import replace
from typing import NamedTuple

from simulation.happenings import EXPECTED
from simulation.plan import SIZES, Plan
from simulation.run import simulate
from simulation.shrinking import describe, shrink

SHRINK_RUNS = 120
REPORT_S = 10.0


class Told(NamedTuple):
    """What a run of one seed came to. `failure`: the whole story; empty when all is well."""

    seed: int
    failure: str
    counts: dict[str, int]
    happened: Counter[str]


def one(seed: int, shrink_runs: int) -> Told:
    """Run a seed; for a process of a pool."""
    logging.disable(logging.CRITICAL)
    try:
        result = simulate(Plan.of(seed))
        failure = ""
        if result.violation is not None:
            small = shrink(result, runs_max=shrink_runs)
            failure = describe(small)
            if small.plan != result.plan:
                failure += f"\n    shrunk from: {result.plan.command()}"
    except Exception:
        failure = f"seed {seed}: the simulation itself failed; repeat it with: make simulate SEED={seed}\n"
        return Told(seed, failure + traceback.format_exc(), {}, Counter())
    counts = {name: getattr(result, name) for name in ("steps", "commits", "decisions", "requests", "owners")}
    return Told(seed, failure, counts, result.happened)


def every(seeds: range, jobs: int, shrink_runs: int) -> Iterator[Told]:
    """Run seeds, in the order in which they end."""
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn")) as pool:
        for done in as_completed([pool.submit(one, seed, shrink_runs) for seed in seeds]):
            yield done.result()


def run_many(options: argparse.Namespace) -> int:
    """Run what `--seeds` says and report."""
    began_s = said_s = time.monotonic()
    happened, counts, failures = Counter[str](), Counter[str](), list[str]()
    seeds = range(options.first, options.first + options.seeds)
    for number, told in enumerate(every(seeds, options.jobs, options.shrink), 1):
        happened.update(told.happened)
        counts.update(told.counts)
        now_s = time.monotonic()
        if told.failure:
            failures.append(told.failure)
            print(told.failure, file=sys.stderr if options.json else sys.stdout, flush=True)
        if not options.json and (now_s - said_s >= REPORT_S or number == len(seeds)):
            said_s = now_s
            rate = number / (now_s - began_s)
            print(f"{number} of {len(seeds)} seeds, {rate:.2f} a second, {len(failures)} failed", flush=True)
    missing = [name for name in EXPECTED if not happened[name]]
    if options.json:
        told_of = {
            "seeds": len(seeds),
            "failures": failures,
            "missing": missing,
            "happened": +happened,
            **counts,
        }
        print(json.dumps(told_of))
    else:
        summary = ", ".join(f"{count} {name}" for name, count in counts.items())
        print(f"{summary}; {time.monotonic() - began_s:.0f} s on {options.jobs} processes")
        few = ", ".join(missing[:10]) + (" …" if len(missing) > 10 else "")
        print(
            f"{len(EXPECTED) - len(missing)} of {len(EXPECTED)} kinds of fault and weather happened"
            + f"; not: {few}" * bool(few)
        )
        if options.counts:
            print("\n".join(f"{count:8}  {name}" for name, count in sorted((+happened).items())))
    return 1 if failures else 0


def run_one(options: argparse.Namespace) -> int:
    """Run what `--seed` says, and tell all of it."""
    plan = Plan.of(options.seed)
    sizes = {name: getattr(options, name) for name in SIZES if getattr(options, name) is not None}
    plan = replace(plan, **sizes).off(name for name in options.off.split(",") if name)
    plan = replace(
        plan, shuffled=plan.shuffled and not options.in_order, narrow=plan.narrow and not options.wide,
        lmdb=plan.lmdb and not options.memory,
    )  # fmt: skip
    result = simulate(plan)
    print("\n".join(result.trace))
    if result.violation is None:
        print(f"seed {plan.seed}: all is well; {result.decisions} decisions, {result.requests} requests")
        return 0
    print(describe(result, lines_max=0))
    if options.shrink and not options.off:
        print(describe(shrink(result, runs_max=options.shrink), lines_max=0))
    return 1


def main() -> int:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m simulation.many")
    parser.add_argument("--seeds", type=int, default=100, help="how many")
    parser.add_argument("--from", dest="first", type=int, default=0, help="the first one")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--shrink", type=int, default=SHRINK_RUNS, help="runs to make a failure smaller")
    parser.add_argument("--json", action="store_true", help="one line of counts")
    parser.add_argument("--counts", action="store_true", help="everything that happened")
    parser.add_argument("--seed", type=int, help="one seed, with its trace")
    parser.add_argument("--off", default="", help="faults and weather to leave out, by name")
    parser.add_argument(
        "--in-order", action="store_true", help="callbacks run in the order in which they came"
    )
    parser.add_argument("--wide", action="store_true", help="the real bounds, where the plan has small ones")
    parser.add_argument("--memory", action="store_true", help="stores in memory, where the plan has LMDB")
    for name in SIZES:
        parser.add_argument(f"--{name}", type=float if name == "chaos_s" else int)
    options = parser.parse_args()
    return run_many(options) if options.seed is None else run_one(options)


if __name__ == "__main__":
    sys.exit(main())
