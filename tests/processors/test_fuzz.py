"""Parsers of outside bytes: whatever comes in, no exception gets out, and no run takes longer than its bound.

`make fuzz` runs the same targets with coverage as a guide. Not verified here: that the results are right.
"""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.fuzzed import TARGETS, Target

# Time is what is bounded here, and the tracer of coverage takes more of it than a parser.
pytestmark = pytest.mark.no_cover
BOUND_S = 2.0
"""Processor time for an input of 128 KiB or less: a hundred times what the slowest takes, since machines are busy."""


def timed(target: Target, data: bytes) -> None:
    began = time.process_time()
    target.run(data)
    spent_s = time.process_time() - began
    assert spent_s < BOUND_S, f"{spent_s:.1f} s for {len(data)} bytes that begin with {data[:60]!r}"


def mixed(target: Target) -> st.SearchStrategy[bytes]:
    """Inputs made of pieces: seeds, tokens, parts of seeds, any bytes."""
    parts = [seed[at : at + 20] for seed in target.seeds for at in range(0, len(seed), 7)]
    piece = st.one_of(st.sampled_from((*target.seeds, *target.tokens, *parts)), st.binary(max_size=6))
    return st.lists(piece, max_size=24).map(b"".join)


@pytest.mark.parametrize("name", TARGETS)
def test_nothing_raises(name: str) -> None:
    target = TARGETS[name]

    @settings(max_examples=150, deadline=None)
    @given(mixed(target))
    def run(data: bytes) -> None:
        timed(target, data)

    run()


GROWN = [(name, token) for name, target in TARGETS.items() for token in target.tokens]


@pytest.mark.parametrize(("name", "token"), GROWN, ids=[f"{name}-{token!r}" for name, token in GROWN])
def test_what_grows_stays_within_its_bound(name: str, token: bytes) -> None:
    target = TARGETS[name]
    size = target.grown_bytes
    run = token * (size // len(token))
    for data in (
        run,
        target.seeds[0] + run,
        run + target.seeds[0],
        target.seeds[0][:-3] + run[: size // 2],
    ):
        timed(target, data)
