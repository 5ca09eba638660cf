"""The crawler with one thing broken at a time: what each invariant is for. A mutant that nothing catches is a hole in the
net.

Each mutant patches the product's own modules, as little as gives up one promise. `caught` names the invariants that must
see it, each with a seed at which it is the first to do so; `needs` are the faults and the weather under which it shows,
which are added to the seed's plan. They stand in `mutants_politeness.py`, `mutants_gates.py`, `mutants_owners.py` and
`mutants_log.py`.

    python -m simulation.hunt        which invariants catch which mutant, over many seeds
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import pytest

from simulation.plan import Fault, Plan, Weather
from simulation.run import simulate
from simulation.simulation import Result

Patch = pytest.MonkeyPatch
Breaks = Callable[[Patch], None]
Need = Fault | Weather


@dataclass(frozen=True)
class Mutant:
    """One broken crawler. `caught`: invariant → a seed that shows it."""

    name: str
    breaks: Breaks
    caught: dict[str, int]
    needs: frozenset[Need]

    def plan(self, seed: int) -> Plan:
        """A seed's plan with what the mutant needs to show."""
        plan = Plan.of(seed)
        faults = {need for need in self.needs if isinstance(need, Fault)}
        weather = {need for need in self.needs if isinstance(need, Weather)}
        return replace(plan, faults=plan.faults | faults, weather=plan.weather | weather)

    def run(self, seed: int) -> Result:
        """Run the broken crawler."""
        with pytest.MonkeyPatch.context() as patch:
            self.breaks(patch)
            return simulate(self.plan(seed))


def entering(into: list[Mutant]) -> Callable[..., Callable[[Breaks], Breaks]]:
    """A decorator that lists a mutant: `@mutant("invariant:seed other:seed", needs=[…])`."""

    def mutant(caught: str, needs: Iterable[Need] = ()) -> Callable[[Breaks], Breaks]:
        seeds = {name: int(seed) for name, _, seed in (one.partition(":") for one in caught.split())}

        def enter(breaks: Breaks) -> Breaks:
            into.append(Mutant(breaks.__name__, breaks, seeds, frozenset(needs)))
            return breaks

        return enter

    return mutant


def always(value: object) -> Callable[..., object]:
    """A function that says the same whatever it is asked."""

    def say(*_: object, **__: object) -> object:
        return value

    return say
