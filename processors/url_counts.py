"""What an origin counts of its URLs: how many are in each state, and how many of each class wait in `due`."""

import struct

from frontlog.avro.enums import State
from frontlog.state.row_tables import Pending
from frontlog.state.rows import CLASSES, STATE_INDEX, STATES, OriginRow, UrlRow

_COUNTS = struct.Struct(f">{len(STATES)}I")
_CLASSES = struct.Struct(f">{CLASSES}I")
# An origin's counts are the digits of one number, of which none reaches 2^32.
_STATE_ONES = {state: 1 << 32 * (len(STATES) - 1 - i) for state, i in STATE_INDEX.items()}
_CLASS_ONES = tuple(1 << 32 * (CLASSES - 1 - i) for i in range(CLASSES))
# To look a member up in its class takes longer than what follows.
_ELIGIBLE, _DEFERRED, _FETCHED = State.ELIGIBLE, State.DEFERRED, State.FETCHED


def waits(state: State, due_ms: int) -> bool:
    """Whether a URL in this state stands in `due`."""
    return state is _ELIGIBLE or state is _DEFERRED or (state is _FETCHED and due_ms > 0)


def came(origin: Pending, state: State, priority: int, *, waiting: bool) -> None:
    """Count a URL that became known."""
    origin.known += 1
    origin.states += _STATE_ONES[state]
    if waiting:
        origin.due += _CLASS_ONES[priority]


def moved(origin: Pending, old: UrlRow, new: UrlRow, *, page: bool) -> None:
    """Count a URL that moved."""
    origin.states += _STATE_ONES[new.state] - _STATE_ONES[old.state]
    origin.pages += page
    if waits(new.state, new.due_ms):
        origin.due += _CLASS_ONES[new.priority]
    if waits(old.state, old.due_ms):
        origin.due -= _CLASS_ONES[old.priority]


def by_state(origin: OriginRow) -> dict[State, int]:
    """State → number of the origin's URLs in it."""
    return dict(zip(STATES, _COUNTS.unpack(origin.states), strict=True))


def by_class(origin: OriginRow) -> tuple[int, ...]:
    """How many URLs of each priority class wait in `due`."""
    return tuple(_CLASSES.unpack(origin.due))
