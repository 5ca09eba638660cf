"""Every pair of states, with every reason: what the table has is built and folded, everything else is refused twice."""

import itertools

import pytest
from msgspec.structs import replace

from frontlog.avro.enums import Reason, SourceKind, State
from frontlog.avro.events import FirstSeen, ResultFacts, Transition
from frontlog.processors import url_counts, urls
from frontlog.processors.context import Context
from frontlog.state import keys
from frontlog.state.catalogue import STORE_TABLES
from frontlog.state.memory_store import MemoryStore
from frontlog.state.rows import UrlRow
from frontlog.state.tables import Tables

ORIGIN = "http://e.example:80"
URL = "http://e.example/a"
KEY = keys.url_key(keys.origin_id(ORIGIN), URL)
PAIRS = tuple(itertools.product(State, State))
FIRST = FirstSeen(raw="", requested="", source_kind=SourceKind.PAGE, source_url="", anchor="", nofollow=False)


def context() -> Context:
    return Context(now_ms=1_000, seq=10, owner_token=1, owner="me", partition=0, partitions=1)


def row_in(state: State) -> UrlRow:
    deadline = 5_000 if state is State.LEASED else 0
    return UrlRow(
        url=URL, state=state, reason=Reason.OK, source_kind=SourceKind.PAGE, fence=3, deadline_ms=deadline
    )


def tables_with(row: UrlRow) -> Tables:
    """Tables in which the URL has come to the row's state along the table itself."""
    tables = Tables(MemoryStore(STORE_TABLES).begin(write=True))
    path = path_to(row.state)
    fence = 0
    for before, after in itertools.pairwise(path):
        claimed = after is State.LEASED and before is State.ELIGIBLE
        fence += claimed
        reason = sorted(urls.TABLE[before, after])[0]
        urls.apply(tables, transition(before, after, reason, fence, first=before is State.NONE))
    return tables


def path_to(state: State) -> list[State]:
    """A shortest way from NONE to a state along the table."""
    paths = [[State.NONE]]
    while True:
        path = paths.pop(0)
        if path[-1] is state:
            return path
        paths += [[*path, to] for (start, to) in urls.TABLE if start is path[-1] and to not in path]


def transition(before: State, after: State, reason: Reason, fence: int, *, first: bool = False) -> Transition:
    return Transition(
        seq=1, owner_token=1, origin_key=ORIGIN, url=URL, from_state=before, to_state=after, reason=reason,
        first=FIRST if first else None, fence=fence, deadline_ms=5_000 if after is State.LEASED else 0,
    )  # fmt: skip


@pytest.mark.parametrize(("before", "after"), PAIRS, ids=lambda s: s.value)
def test_build_makes_what_the_table_has_and_nothing_else(before: State, after: State) -> None:
    allowed = urls.TABLE.get((before, after), frozenset())
    for reason in Reason:
        if reason in allowed:
            event = urls.build(context(), row_in(before), ORIGIN, after, reason)
            assert (event.from_state, event.to_state, event.reason, event.seq) == (before, after, reason, 11)
        else:
            with pytest.raises(urls.NotAllowed):
                urls.build(context(), row_in(before), ORIGIN, after, reason)


@pytest.mark.parametrize(("before", "after"), PAIRS, ids=lambda s: s.value)
def test_apply_folds_what_the_table_has_and_refuses_the_rest(before: State, after: State) -> None:
    allowed = urls.TABLE.get((before, after), frozenset())
    if before is State.NONE:
        fence = 0
    else:
        row = tables_with(row_in(before)).urls.get(KEY)
        assert row is not None and row.state is before
        fence = row.fence
    claimed = before is State.ELIGIBLE and after is State.LEASED
    for reason in (*sorted(allowed)[:2], next(r for r in Reason if r not in allowed)):
        tables = tables_with(row_in(before))
        event = transition(before, after, reason, fence + claimed, first=before is State.NONE)
        if reason not in allowed:
            with pytest.raises(AssertionError):
                urls.apply(tables, event)
            continue
        urls.apply(tables, event)
        found = tables.urls.get(KEY)
        assert found is not None and found.state is after and found.reason is reason


@pytest.mark.parametrize(
    "after", [s for s in State if (State.LEASED, s) in urls.TABLE], ids=lambda s: s.value
)
def test_a_fence_that_is_not_the_rows_is_never_folded(after: State) -> None:
    tables = tables_with(row_in(State.LEASED))
    row = tables.urls.get(KEY)
    assert row is not None
    reason = sorted(urls.TABLE[State.LEASED, after])[0]
    for fence in (row.fence - 1, row.fence + 1):
        with pytest.raises(AssertionError, match="fence"):
            urls.apply(tables, transition(State.LEASED, after, reason, fence))


def test_a_state_other_than_the_rows_is_never_folded() -> None:
    tables = tables_with(row_in(State.ELIGIBLE))
    with pytest.raises(AssertionError, match="ELIGIBLE"):
        urls.apply(tables, transition(State.LEASED, State.FETCHED, Reason.OK, 0))


def test_due_and_leases_hold_a_url_exactly_while_it_waits_or_is_leased() -> None:
    for state in (s for s in State if s is not State.NONE):
        tables = tables_with(row_in(state))
        row = tables.urls.get(KEY)
        assert row is not None
        due = [key for key, _ in tables.due.scan()]
        leases = [key for key, _ in tables.leases.scan()]
        waits = url_counts.waits(state, row.due_ms)
        assert due == ([keys.due_key(KEY, row.priority, row.due_ms)] if waits else [])
        leased = state is State.LEASED
        assert leases == ([keys.lease_key(row.deadline_ms, keys.LEASE_URL, KEY)] if leased else [])
        origin = tables.origins.get(keys.origin_id(ORIGIN))
        assert origin is not None
        assert url_counts.by_state(origin) == {s: int(s is state) for s in State}
        assert sum(url_counts.by_class(origin)) == waits


def test_a_redirect_to_the_same_identity_changes_what_is_requested() -> None:
    tables = tables_with(row_in(State.LEASED))
    row = tables.urls.get(KEY)
    assert row is not None
    event = urls.build(
        context(), row, ORIGIN, State.ELIGIBLE, Reason.REDIRECTED,
        result=result_with(location="http://e.example/a?"),
    )  # fmt: skip
    urls.apply(tables, replace(event, fence=row.fence))
    found = tables.urls.get(KEY)
    assert found is not None
    assert (found.state, found.requested, found.chain) == (State.ELIGIBLE, "http://e.example/a?", (URL,))


def result_with(location: str) -> ResultFacts:
    return ResultFacts(
        event_id="r", started_ms=900, status=301, content_type="", etag="", last_modified="", location=location,
        body_sha256=b"",
        content_hash=b"", changed=False, links_out=0,
    )  # fmt: skip
