"""Tallies: how much each rule merged, and each trap rule refused, at an origin; and the signal when it is suddenly much.

A rule that is right merges a few spellings of a page; one that is wrong merges a site. So each rule is counted for each
origin in windows of an hour, and the URL that makes a window's count reach the limit raises a `Signal`, once a window.
Counts only grow: they say what a rule did, not what is left of it.
"""

from collections.abc import Iterable

from msgspec.structs import replace

from frontlog.avro.events import Event, Signal
from frontlog.processors.context import Context
from frontlog.state import keys
from frontlog.state.rows import TallyRow
from frontlog.state.tables import Tables

WINDOW_MS = 3_600_000


def key_of(origin: bytes, name: str) -> bytes:
    """Key in `tallies`."""
    return origin + name.encode()


def _counted(row: TallyRow, at_ms: int) -> TallyRow:
    """The row with one URL more."""
    fresh = at_ms - row.window_ms >= WINDOW_MS
    return replace(
        row,
        total=row.total + 1,
        window=1 if fresh else row.window + 1,
        window_ms=at_ms if fresh else row.window_ms,
    )


def count(tables: Tables, origin_key: str, names: Iterable[str]) -> None:
    """Count one URL under each name: part of the fold of the decision that merged or refused it."""
    origin = keys.origin_id(origin_key)
    for name in names:
        key = key_of(origin, name)
        row = tables.tallies.get(key) or TallyRow(origin_key=origin_key, name=name)
        tables.tallies.put(key, _counted(row, tables.head.at_ms))


def signals(view: Tables, ctx: Context, limit: int, origin_key: str, names: Iterable[str]) -> list[Event]:
    """The signals that counting one URL more under each name will raise; `limit` 0: none."""
    origin = keys.origin_id(origin_key)
    raised: list[Event] = []
    for name in names if limit else ():
        row = view.tallies.get(key_of(origin, name)) or TallyRow(origin_key=origin_key, name=name)
        after = _counted(row, ctx.now_ms)
        if after.window == limit:
            raised.append(
                Signal(
                    seq=ctx.next_seq(), owner_token=ctx.owner_token, origin_key=origin_key, name=name, count=limit,
                    started_ms=after.window_ms, cause_topic=ctx.cause.topic, cause_partition=ctx.cause.partition,
                    cause_offset=ctx.cause.offset,
                )
            )  # fmt: skip
    return raised


def apply(tables: Tables, event: Signal) -> None:
    """Fold a signal."""
    key = key_of(keys.origin_id(event.origin_key), event.name)
    row = tables.tallies.get(key)
    assert row is not None, f"seq {event.seq}: a signal about {event.name}, which was never counted"
    tables.tallies.put(key, replace(row, signalled_ms=tables.head.at_ms))
