"""Every mutant of the crawler is caught, and every invariant catches one.

    python -m simulation.hunt        which invariants catch which mutant, over many seeds

A mutant is run at the seeds that its entry names, and must break the invariant that stands there; a change of the product
moves what a seed does, so a few more are tried before a mutant counts as alive.
"""

from collections import Counter

import pytest

from simulation.hunt import MUTANTS
from simulation.invariants import NUMBERS
from simulation.mutants import Mutant
from simulation.plan import Plan
from simulation.run import simulate
from simulation.shrinking import describe, shrink

# As in test_seeds.py: the tracer would take longer than the crawler.
pytestmark = pytest.mark.no_cover
MORE_SEEDS = 25
PAIRS = [(mutant, name, seed) for mutant in MUTANTS.values() for name, seed in mutant.caught.items()]


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("mutant", "invariant", "seed"), PAIRS, ids=[f"{mutant.name}-{name}" for mutant, name, _ in PAIRS]
)
def test_a_mutant_is_caught(mutant: Mutant, invariant: str, seed: int) -> None:
    found = Counter[str]()
    for number in (seed, *range(MORE_SEEDS)):
        violation = mutant.run(number).violation
        found[violation.invariant if violation is not None else "nothing"] += 1
        if found[invariant]:
            return
    pytest.fail(f"{invariant} did not catch it; what happened over the seeds: {dict(found)}")


def test_every_invariant_catches_a_mutant() -> None:
    assert {name for _, name, _ in PAIRS} == set(NUMBERS)


def test_a_mutant_leaves_nothing_behind() -> None:
    before = simulate(Plan.of(3))
    MUTANTS["the_gap_is_halved"].run(3)
    after = simulate(Plan.of(3))
    assert before.violation is None
    assert before.trace == after.trace


def test_a_failure_is_shrunk_and_says_what_repeats_it() -> None:
    mutant, invariant = MUTANTS["a_lease_is_handed_out_that_nobody_decided"], "asked_with_a_lease_of_the_log"
    seed = mutant.caught[invariant]
    with pytest.MonkeyPatch.context() as patch:
        mutant.breaks(patch)
        failed = simulate(mutant.plan(seed))
        small = shrink(failed, runs_max=60)
    assert failed.violation is not None and small.violation is not None
    assert small.violation.invariant == failed.violation.invariant == invariant
    assert len(small.plan.events()) < len(failed.plan.events()) or not failed.plan.events()
    assert len(small.plan.weather) < len(failed.plan.weather)
    told = describe(small)
    assert f"make simulate SEED={seed} ARGS='--off " in told
    assert f"{invariant} (number 1 of docs/invariants.md)" in told
