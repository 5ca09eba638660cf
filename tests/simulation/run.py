"""Runs a plan, with everything in place."""

import tempfile
from pathlib import Path

from simulation.faults import Faults
from simulation.plan import Plan
from simulation.simulation import Result, Simulation


def simulate(plan: Plan) -> Result:
    """Run a plan; on LMDB in a folder of its own, which goes with it."""
    if not plan.lmdb:
        return Simulation(plan, Faults).run()
    with tempfile.TemporaryDirectory(prefix="simulation-") as folder:
        return Simulation(plan, Faults, Path(folder)).run()
