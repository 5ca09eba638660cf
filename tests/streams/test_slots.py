"""Fetch slots and the budget of pages: never more than there are, and all of them come back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frontlog.streams.slots import Slots


@pytest.mark.parametrize(
    ("total", "taken", "share", "got"),
    [
        (10, 0, 2, 5), (10, 0, 8, 8), (10, 0, 20, 10), (10, 5, 2, 2), (10, 9, 2, 1), (10, 10, 2, 0), (1, 0, 1, 1),
        (10, 0, 0, 0),
    ],
)  # fmt: skip
def test_a_batch_takes_half_of_what_is_free_or_its_share(
    total: int, taken: int, share: int, got: int
) -> None:
    slots = Slots(total)
    assert slots.reserve(taken) >= taken or not taken
    slots.give_back(slots.in_use - taken)
    assert slots.reserve(share) == got
    assert slots.in_use == taken + got


@pytest.mark.parametrize(
    ("pages_max", "pages", "got"), [(0, 99, 10), (5, 0, 5), (5, 3, 2), (5, 5, 0), (5, 6, 0), (50, 0, 10)]
)
def test_no_more_than_the_pages_that_may_still_come(pages_max: int, pages: int, got: int) -> None:
    slots = Slots(10, pages_max, pages)
    assert slots.room() is (got > 0)
    assert slots.reserve(10) == got
    assert slots.spent is (pages_max > 0 and pages >= pages_max)


def test_nothing_is_taken_when_it_is_closed() -> None:
    slots = Slots(10)
    slots.closed = True
    assert (slots.reserve(5), slots.room()) == (0, False)
    slots.closed = False
    assert slots.reserve(5) == 5


@given(
    st.integers(1, 20),
    st.integers(1, 30),
    st.lists(st.tuples(st.sampled_from("rbpf"), st.integers(0, 9)), max_size=60),
)
def test_pages_are_never_overshot_whatever_is_in_flight(
    total: int, pages_max: int, steps: list[tuple[str, int]]
) -> None:
    """A slot comes back when its result is durable, with a page (p) or without (f); an unused one (b) at once."""
    slots, in_flight, pages = Slots(total, pages_max), 0, 0
    for what, n in steps:
        if what == "r":
            in_flight += slots.reserve(n)
        elif in_flight:
            if what == "p":
                slots.fetched()
                pages += 1
            slots.give_back()
            in_flight -= 1
        assert slots.in_use == in_flight <= total
        assert pages + in_flight <= pages_max
        assert slots.room() is (in_flight < total and pages + in_flight < pages_max)
