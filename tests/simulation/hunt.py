"""Which invariants catch which mutant, over many seeds: `python -m simulation.hunt --seeds 20 [NAME …]`.

Prints for each mutant how many seeds catch it, and for each invariant that was the first to see it the seed that shows it
soonest. Ends with 1 when a mutant lives.
"""

import argparse
import logging
import multiprocessing
import os
import sys
from collections import defaultdict
from concurrent.futures import ProcessPoolExecutor, as_completed

from simulation import mutants_gates, mutants_log, mutants_owners, mutants_politeness
from simulation.mutants import Mutant

MUTANTS: dict[str, Mutant] = {
    one.name: one
    for room in (mutants_politeness, mutants_gates, mutants_owners, mutants_log)
    for one in room.MUTANTS
}


def hunt(name: str, seeds: range, *, quick: bool) -> tuple[str, str, dict[str, tuple[int, int]]]:
    """(mutant, how many seeds caught it, invariant → (steps until then, seed) of the soonest). `quick`: no longer than until
    the invariants saw it that its entry names."""
    logging.disable(logging.CRITICAL)
    found: dict[str, list[tuple[int, int]]] = defaultdict(list)
    tried = 0
    for tried, seed in enumerate(seeds, 1):  # noqa: B007
        result = MUTANTS[name].run(seed)
        if result.violation is not None:
            found[result.violation.invariant].append((result.steps, seed))
        if quick and set(found) >= set(MUTANTS[name].caught):
            break
    caught = sum(len(ones) for ones in found.values())
    return name, f"{caught} of {tried} seeds", {invariant: min(ones) for invariant, ones in found.items()}


def main() -> int:
    """Read the command line and hunt."""
    parser = argparse.ArgumentParser(prog="python -m simulation.hunt")
    parser.add_argument("names", nargs="*", default=[], help="mutants; all of them without")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--from", dest="first", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="stop when the invariants saw it that should")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    alive: list[str] = []
    with ProcessPoolExecutor(options.jobs, multiprocessing.get_context("spawn")) as pool:
        names = options.names or list(MUTANTS)
        seeds = range(options.first, options.first + options.seeds)
        for task in as_completed([pool.submit(hunt, name, seeds, quick=options.quick) for name in names]):
            name, caught, by = task.result()
            alive += [] if by else [name]
            shown = ", ".join(
                f"{invariant}:{seed} ({steps})" for invariant, (steps, seed) in sorted(by.items())
            )
            print(f"{name}: caught by {caught}: {shown}", flush=True)
    print(f"{len(alive)} of {len(names)} live: {', '.join(alive) or 'none'}")
    return 1 if alive else 0


if __name__ == "__main__":
    sys.exit(main())
