"""The simulation over a fixed set of seeds: no invariant breaks, and every kind of fault and of weather really happened.

    make simulate SEEDS=1000      more seeds          make simulate SEED=7      one, with its trace

Not verified: see the head of `invariants.py`, and docs/invariants.md.
"""

import json
import subprocess
import sys
from typing import Any

import pytest

from house.source import ROOT
from simulation.plan import Plan
from simulation.run import simulate
from support.processes import environment

# Coverage's tracer more than doubles what a seed takes; what the simulation reaches is reached by other tests, too.
pytestmark = pytest.mark.no_cover
SEEDS = 72
"""Enough for everything in `happenings.EXPECTED` to happen."""


@pytest.mark.timeout(900)
def test_no_invariant_breaks_while_every_fault_and_every_kind_of_weather_happens() -> None:
    command = [sys.executable, "-m", "simulation.many", "--json", "--jobs", "2", "--shrink", "40"]
    command += ["--seeds", str(SEEDS)]
    done = subprocess.run(
        command, cwd=ROOT, env=environment(traced=False), capture_output=True, text=True, check=False
    )
    found: dict[str, Any] = json.loads(done.stdout)
    assert not found["failures"], "\n".join(found["failures"])
    assert found["missing"] == []


def test_a_seed_gives_the_same_run_again() -> None:
    plan = Plan.of(3)
    first, second = simulate(plan), simulate(plan)
    assert first.trace == second.trace
    assert (first.steps, first.commits, first.happened) == (second.steps, second.commits, second.happened)


def test_a_fault_left_out_leaves_the_others_as_they_were() -> None:
    plan = Plan.of(4)
    events = plan.events()
    gone = events[len(events) // 2].name
    assert plan.off([gone]).events() == [event for event in events if event.name != gone]
    kind = sorted(plan.faults)[0]
    assert plan.off([kind]).events() == [event for event in events if event.kind is not kind]
