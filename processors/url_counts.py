"""What an origin counts of its URLs: how many are in each state, and how many of each class wait in `due`."""

import struct

from msgspec.structs import replace

from frontlog.avro.enums import State
from frontlog.state.rows import CLASSES, STATE_INDEX, STATES, OriginRow, UrlRow

_COUNT = struct.Struct(">I")
_COUNTS = struct.Struct(f">{len(STATES)}I")
_CLASSES = struct.Struct(f">{CLASSES}I")
_STATE_ONES = {state: 1 << 32 * (len(STATES) - 1 - i) for state, i in STATE_INDEX.items()}
_CLASS_ONES = tuple(1 << 32 * (CLASSES - 1 - i) for i in range(CLASSES))


def waits(state: State, due_ms: int) -> bool:
    """Whether a URL in this state stands in `due`."""
    return state is State.ELIGIBLE or state is State.DEFERRED or (state is State.FETCHED and due_ms > 0)


def moved(origin: OriginRow, old: UrlRow | None, new: UrlRow, *, page: bool) -> OriginRow:
    """The origin's counts after one of its URLs moved, or became known."""
    if old is None:
        waiting = waits(new.state, new.due_ms)
        return replace(
            origin,
            states=_one_more(origin.states, _STATE_ONES[new.state]),
            due=_one_more(origin.due, _CLASS_ONES[new.priority]) if waiting else origin.due,
        )
    states, due = bytearray(origin.states), bytearray(origin.due)
    _count(states, STATE_INDEX[new.state], 1)
    if waits(new.state, new.due_ms):
        _count(due, new.priority, 1)
    _count(states, STATE_INDEX[old.state], -1)
    if waits(old.state, old.due_ms):
        _count(due, old.priority, -1)
    return replace(origin, states=bytes(states), due=bytes(due), pages=origin.pages + page)


def _one_more(counts: bytes, one: int) -> bytes:
    """A row of counts, one of them raised: they are the digits of one number, of which none reaches 2^32."""
    return (int.from_bytes(counts, "big") + one).to_bytes(len(counts), "big")


def _count(counts: bytearray, index: int, change: int) -> None:
    """Change one of a row of counts."""
    at = 4 * index
    _COUNT.pack_into(counts, at, _COUNT.unpack_from(counts, at)[0] + change)


def by_state(origin: OriginRow) -> dict[State, int]:
    """State → number of the origin's URLs in it."""
    return dict(zip(STATES, _COUNTS.unpack(origin.states), strict=True))


def by_class(origin: OriginRow) -> tuple[int, ...]:
    """How many URLs of each priority class wait in `due`."""
    return tuple(_CLASSES.unpack(origin.due))
