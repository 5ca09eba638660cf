"""Makes a failing run small: leaves out what it doesn't need, as long as the same invariant breaks.

First whole kinds of fault and of weather, then single faults, then the size of the web. What is left is what a person
reads. A candidate is a whole run, so the number of runs is bounded; the smallest found by then counts.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace

from simulation.plan import Plan
from simulation.run import simulate
from simulation.simulation import Result

RUNS_MAX = 120


def shrink(failed: Result, *, run: Callable[[Plan], Result] = simulate, runs_max: int = RUNS_MAX) -> Result:
    """The smallest failing run found. `failed` has a violation."""
    assert failed.violation is not None
    best, runs, found = failed, 0, True
    tried = {failed.plan}
    while found:
        found = False
        for plan in smaller(best.plan):
            if plan in tried:
                continue
            if runs == runs_max:
                return best
            tried.add(plan)
            runs += 1
            result = run(plan)
            if result.violation is not None and result.violation.invariant == failed.violation.invariant:
                best, found = result, True
                break
    return best


def smaller(plan: Plan) -> Iterator[Plan]:
    """Plans with one thing less, the largest cuts first."""
    for kind in sorted((*plan.faults, *plan.weather)):
        yield plan.off([kind])
    if plan.shuffled:
        yield replace(plan, shuffled=False)
    if plan.narrow:
        yield replace(plan, narrow=False)
    if plan.lmdb:
        yield replace(plan, lmdb=False)
    for event in plan.events():
        yield plan.off([event.name])
    for size in (plan.sites // 2, plan.sites - 1):
        if size:
            yield replace(plan, sites=size)
    for size in (plan.partitions // 2, plan.partitions - 1):
        if size:
            yield replace(plan, partitions=size)
    for size in (plan.pages // 2, plan.pages - 1):
        if size:
            yield replace(plan, pages=size)


def describe(result: Result, *, lines_max: int = 60) -> str:
    """A failing run for people: what broke, what repeats it, the faults that struck, and the last that happened."""
    broken = result.violation
    assert broken is not None
    plan = result.plan
    number = f" (number {broken.number} of docs/invariants.md)" if broken.number else ""
    said = [f"seed {plan.seed}: {broken.invariant}{number} at {broken.at_s:.3f} s: {broken.what}"]
    said.append(f"    repeat it with: {plan.command()}")
    said.append(
        f"    weather: {', '.join(sorted(plan.weather)) or 'fair'}; {plan.sites} sites, {plan.partitions} partitions"
    )
    said.append(
        "    faults: " + (", ".join(e.name for e in plan.events() if e.at_s <= broken.at_s) or "none")
    )
    left_out = max(0, len(result.trace) - lines_max)
    said += [f"    … {left_out} lines before"] * bool(left_out)
    said += [f"    {line}" for line in result.trace[left_out:]]
    return "\n".join(said)
