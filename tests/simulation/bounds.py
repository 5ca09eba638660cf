"""Bounds of the product that a run sets anew: a small web never reaches the real ones, and what happens there shows nowhere.

In a `narrow` plan batches take a few inputs and make a few decisions, queues hold two, jobs look at two rows a step, pages
send their links in pieces. All of them are promised to be no more than a matter of speed.
"""

from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from types import ModuleType
from unittest.mock import patch

from frontlog.fetch import parts
from frontlog.processors import claims, jobs, partition
from frontlog.streams import batching, shard, shard_runner
from simulation.plan import Plan

NARROW: tuple[tuple[ModuleType, str, int, int], ...] = (
    (batching, "DECISIONS_MAX", 1, 12), (batching, "INPUTS_MAX", 1, 4), (shard, "OFFERED_MAX", 2, 8),
    (shard, "OUTBOX_MAX", 1, 3), (partition, "EXPIRED_MAX", 1, 3), (claims, "REFUSED_MAX", 1, 3),
    (claims, "HOSTS_LOOKED_MAX", 1, 3), (jobs, "ROWS_A_STEP", 2, 4), (parts, "LINKS_MAX", 1, 3),
)  # fmt: skip
"""Module, name, and between which values it is."""


@contextmanager
def in_force(plan: Plan) -> Generator[None]:
    """The bounds of a plan. Foreign inputs and old leases are looked for less often than in the world, too: an idle hour
    is no use to anyone."""
    poll_s = plan.rng("poll").choice((0.2, 1.0) if plan.hasty else (5.0, 15.0))
    rng = plan.rng("bounds")
    with ExitStack() as stack:
        stack.enter_context(patch.object(shard_runner, "POLL_S", poll_s))
        for module, name, low, high in NARROW if plan.narrow else ():
            stack.enter_context(patch.object(module, name, rng.randint(low, high)))
        yield
