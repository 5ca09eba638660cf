"""The URL state machine: every (from, to) pair is tried, in `build` and in `apply`, with every reason.

Not verified here: when a move happens (test_results, test_claims, test_discoveries, test_jobs).
"""

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from frontlog.avro.enums import Reason, SourceKind, State
from frontlog.avro.events import BodyRef, FirstSeen, HostClock, Merge, ResultFacts, Transition
from frontlog.processors import url_counts, urls
from frontlog.state.rows import UrlRow
from support.machine import NOW_MS, Bench

R, S = Reason, State
ORIGIN = "http://a.example:80"
URL = "http://a.example/x"
PAIRS = list(itertools.product(State, State))
# DESIGN §5 and seed 000, chapter 2, said a second time: who may become what.
ALLOWED = {
    (S.DISCOVERED, S.ELIGIBLE), (S.DISCOVERED, S.BLOCKED), (S.ELIGIBLE, S.LEASED), (S.ELIGIBLE, S.ELIGIBLE),
    (S.ELIGIBLE, S.BLOCKED), (S.LEASED, S.LEASED), (S.LEASED, S.FETCHED), (S.LEASED, S.ELIGIBLE), (S.LEASED, S.DEFERRED),
    (S.LEASED, S.FAILED), (S.LEASED, S.QUARANTINED), (S.LEASED, S.GONE), (S.LEASED, S.BLOCKED), (S.FETCHED, S.ELIGIBLE),
    (S.FETCHED, S.BLOCKED), (S.DEFERRED, S.ELIGIBLE), (S.DEFERRED, S.BLOCKED), (S.BLOCKED, S.ELIGIBLE),
    (S.QUARANTINED, S.ELIGIBLE), (S.FAILED, S.ELIGIBLE), (S.GONE, S.ELIGIBLE), (S.SUPPRESSED, S.DISCOVERED),
    *((state, S.SUPPRESSED) for state in S if state is not S.SUPPRESSED),
}  # fmt: skip


def bench_with(state: State, **fields: Any) -> Bench:
    """Tables that hold URL in a state, with its indexes and counts."""
    bench = Bench()
    if state is S.NONE:
        return bench
    first = FirstSeen(source_kind=SourceKind.SEED, scope="")
    bench.tables.head = replace(bench.tables.head, at_ms=NOW_MS)
    urls.apply(bench.tables, event_of(S.DISCOVERED, S.ELIGIBLE, R.ADMITTED, first=first))
    bench.force(URL, state, fence=0 if state is S.DISCOVERED else 3, **fields)
    return bench


def event_of(start: State, to: State, reason: Reason, **fields: Any) -> Transition:
    claimed = to is S.LEASED and start is S.ELIGIBLE
    fence = 0 if start in (S.NONE, S.DISCOVERED) else 3 + claimed
    base = Transition(
        seq=9, owner_token=1, origin_key=ORIGIN, url=URL, from_state=start, to_state=to, reason=reason, priority=2,
        fence=fence,
    )  # fmt: skip
    if reason is R.MERGED:
        base = replace(base, merged=Merge(into="http://a.example/y", rules=("slash",)))
    return replace(base, **fields)


def test_the_table_is_the_design() -> None:
    assert set(urls.TABLE) == ALLOWED
    assert all(urls.TABLE.values()), "a pair that no reason may cause"


@pytest.mark.parametrize(("start", "to"), PAIRS, ids=lambda s: s.value)
def test_every_pair_in_build(start: State, to: State) -> None:
    row = UrlRow(url=URL, state=start, reason=R.SEED, source_kind=SourceKind.SEED, fence=3)
    for reason in Reason:
        context = Bench().context("timer")
        if reason in urls.TABLE.get((start, to), ()):
            event = urls.build(context, row, ORIGIN, to, reason)
            assert (event.from_state, event.to_state, event.reason, event.seq) == (start, to, reason, 1)
        else:
            with pytest.raises(urls.NotAllowed, match=URL):
                urls.build(context, row, ORIGIN, to, reason)
            assert context.seq == 0, "a move that was refused took a seq"


@pytest.mark.parametrize(("start", "to"), PAIRS, ids=lambda s: s.value)
def test_every_pair_in_apply(start: State, to: State) -> None:
    first = FirstSeen(source_kind=SourceKind.SEED) if start is S.NONE else None
    refused = bench_with(start)
    before = refused.tables.digest_values()
    for reason in Reason:
        event = event_of(start, to, reason, first=first)
        if reason in urls.TABLE.get((start, to), ()):
            bench = bench_with(start)
            urls.apply(bench.tables, event)
            assert bench.url(URL).state is to
            assert url_counts.by_state(bench.origin(ORIGIN)) == {s: int(s is to) for s in S}
        else:
            with pytest.raises(urls.NotAllowed, match="seq 9"):
                urls.apply(refused.tables, event)
    if start is not S.NONE:
        assert refused.tables.digest_values() == before, "a move that was refused left something behind"


@pytest.mark.parametrize("fence", [-1, 0, 1, 2, 5, 9])
def test_a_fence_grows_by_one_at_a_claim_and_stays_else(fence: int) -> None:
    with pytest.raises(AssertionError, match="fence"):
        urls.apply(bench_with(S.ELIGIBLE).tables, event_of(S.ELIGIBLE, S.LEASED, R.CLAIMED, fence=fence))
    with pytest.raises(AssertionError, match="fence"):
        urls.apply(bench_with(S.LEASED).tables, event_of(S.LEASED, S.FETCHED, R.OK, fence=fence))


def test_apply_refuses_a_move_from_another_state() -> None:
    with pytest.raises(AssertionError, match="the row is FETCHED, the decision says LEASED"):
        urls.apply(bench_with(S.FETCHED).tables, event_of(S.LEASED, S.GONE, R.GONE))


def test_apply_refuses_a_url_that_is_not_known() -> None:
    with pytest.raises(AssertionError, match="not known"):
        urls.apply(Bench().tables, event_of(S.ELIGIBLE, S.BLOCKED, R.OUT_OF_SCOPE))


@pytest.mark.parametrize("state", [s for s in State if s is not S.NONE], ids=lambda s: s.value)
@pytest.mark.parametrize("due_ms", [0, NOW_MS])
def test_a_url_stands_where_its_state_says(state: State, due_ms: int) -> None:
    """In `due` while it waits, in `leases` while it is leased, nowhere else; and it leaves nothing behind."""
    bench = bench_with(state, due_ms=due_ms, deadline_ms=NOW_MS if state is S.LEASED else 0)
    waits = state in (S.ELIGIBLE, S.DEFERRED) or (state is S.FETCHED and due_ms > 0)
    assert len(list(bench.tables.due.scan())) == waits == sum(url_counts.by_class(bench.origin(ORIGIN)))
    assert len(list(bench.tables.leases.scan())) == (state is S.LEASED)
    if (state, S.SUPPRESSED) in ALLOWED:
        fence = 0 if state is S.DISCOVERED else 3
        urls.apply(bench.tables, event_of(state, S.SUPPRESSED, R.SUPPRESSED, fence=fence))
        assert not list(bench.tables.due.scan())
        assert not list(bench.tables.leases.scan())
        assert not any(url_counts.by_class(bench.origin(ORIGIN)))


FACTS = ResultFacts(
    event_id="e", started_ms=NOW_MS, status=200, content_type="text/html", etag='"1"', last_modified="then",
    body=BodyRef(file="f", offset=1, length=2), body_sha256=b"b" * 32, content_hash=b"c" * 32, changed=True, links_out=5,
)  # fmt: skip


def test_a_page_is_written_down() -> None:
    bench = bench_with(S.LEASED, chain=("http://old.example/",))
    urls.apply(bench.tables, event_of(S.LEASED, S.FETCHED, R.OK, result=FACTS))
    row = bench.url(URL)
    assert (row.last_status, row.last_attempt_ms, row.last_success_ms, row.last_change_ms) == (
        200,
        NOW_MS,
        NOW_MS,
        NOW_MS,
    )
    assert (row.etag, row.body_file, row.body_offset, row.content_hash) == ('"1"', "f", 1, b"c" * 32)
    assert row.chain == (), "what comes after a success is a chain of its own"
    assert (bench.origin(ORIGIN).pages, bench.host("a.example").pages) == (1, 1)


def test_not_modified_keeps_what_is_known() -> None:
    bench = bench_with(S.LEASED, etag='"0"', content_hash=b"o" * 32, last_change_ms=7, last_success_ms=7)
    event = event_of(
        S.LEASED, S.FETCHED, R.NOT_MODIFIED, result=replace(FACTS, status=304, etag="", content_hash=b"")
    )
    urls.apply(bench.tables, event)
    row = bench.url(URL)
    assert (row.etag, row.content_hash, row.last_change_ms, row.last_success_ms) == (
        '"0"',
        b"o" * 32,
        7,
        NOW_MS,
    )
    assert bench.origin(ORIGIN).pages == 0


def test_a_failure_keeps_the_last_success() -> None:
    bench = bench_with(S.LEASED, etag='"0"', content_hash=b"o" * 32, last_success_ms=7)
    urls.apply(
        bench.tables, event_of(S.LEASED, S.DEFERRED, R.SERVER_ERROR, result=replace(FACTS, status=500))
    )
    row = bench.url(URL)
    assert (row.last_status, row.last_success_ms, row.etag, row.content_hash) == (500, 7, '"0"', b"o" * 32)


def test_a_page_counts_once_whatever_came_between() -> None:
    bench = bench_with(S.LEASED)
    moves = [
        (S.LEASED, S.FETCHED, R.OK, FACTS), (S.FETCHED, S.ELIGIBLE, R.RECRAWL_FORCED, None),
        (S.ELIGIBLE, S.LEASED, R.CLAIMED, None), (S.LEASED, S.DEFERRED, R.SERVER_ERROR, replace(FACTS, status=500)),
        (S.DEFERRED, S.ELIGIBLE, R.DUE, None), (S.ELIGIBLE, S.LEASED, R.CLAIMED, None), (S.LEASED, S.FETCHED, R.OK, FACTS),
    ]  # fmt: skip
    fence = 3
    for start, to, reason, result in moves:
        fence += to is S.LEASED
        urls.apply(bench.tables, event_of(start, to, reason, result=result, fence=fence))
    assert bench.host("a.example").pages == 1


def test_a_redirect_to_the_same_identity_changes_what_is_requested() -> None:
    bench = bench_with(S.LEASED, requested="http://a.example/%78")
    result = replace(FACTS, status=301, location="http://a.example./x")
    urls.apply(bench.tables, event_of(S.LEASED, S.ELIGIBLE, R.REDIRECTED, result=result))
    row = bench.url(URL)
    assert (row.requested, row.chain, row.last_success_ms) == (
        "http://a.example./x",
        ("http://a.example/%78",),
        0,
    )


def test_first_seen_makes_origin_host_site_and_scope_known() -> None:
    bench = Bench()
    first = FirstSeen(
        source_kind=SourceKind.PAGE, raw="X", requested="http://a.example/%78", chain=("c",), nofollow=True
    )
    urls.apply(bench.tables, event_of(S.DISCOVERED, S.ELIGIBLE, R.ADMITTED, first=first))
    row, site = bench.url(URL), bench.tables.sites.get(b"a.example")
    assert (row.raw, row.requested, row.chain, row.nofollow) == ("X", "http://a.example/%78", ("c",), True)
    assert site is not None and not site.seeded
    assert bench.host("a.example").seeds == ()
    seed = FirstSeen(source_kind=SourceKind.SEED, scope="http://a.example/p/")
    urls.apply(
        bench.tables, event_of(S.DISCOVERED, S.ELIGIBLE, R.ADMITTED, first=seed, url="http://a.example/p/")
    )
    site = bench.tables.sites.get(b"a.example")
    assert site is not None and site.seeded
    assert bench.host("a.example").seeds == ("http://a.example/p/",)
    assert len(bench.host("a.example").origins) == 3, "one origin, three bytes"


def test_a_clock_in_a_transition_moves_host_and_address() -> None:
    bench = bench_with(S.ELIGIBLE)
    clock = HostClock(
        next_eligible_ms=NOW_MS + 5, in_flight=1, address="192.0.2.1", address_reason=R.OK, address_in_flight=1,
        address_next_ms=NOW_MS + 3, address_tail_ms=NOW_MS + 4,
    )  # fmt: skip
    urls.apply(bench.tables, event_of(S.ELIGIBLE, S.LEASED, R.CLAIMED, clock=clock))
    budget = bench.tables.addresses.get(b"192.0.2.1")
    assert budget is not None
    assert (budget.next_ms, budget.in_flight, budget.tail_ms) == (NOW_MS + 3, 1, NOW_MS + 4)
    assert bench.host("a.example").next_eligible_ms == NOW_MS + 5


@given(st.lists(st.tuples(st.sampled_from(list(State)), st.sampled_from(list(Reason))), max_size=60))
def test_any_sequence_leaves_one_state_and_right_counts(wishes: list[tuple[State, Reason]]) -> None:
    """Seed 000, invariant 4: every URL is in exactly one state; what the table lacks is rejected."""
    bench = bench_with(S.ELIGIBLE)
    for to, reason in wishes:
        row = bench.url(URL)
        event = event_of(
            row.state, to, reason, fence=row.fence + (to is S.LEASED and row.state is S.ELIGIBLE)
        )
        try:
            urls.apply(bench.tables, event)
        except urls.NotAllowed:
            assert reason not in urls.TABLE.get((row.state, to), ())
            assert bench.url(URL) == row
        else:
            assert bench.url(URL).state is to
            assert bench.url(URL).fence >= row.fence
    counts = url_counts.by_state(bench.origin(ORIGIN))
    assert counts == {state: int(state is bench.url(URL).state) for state in State}
    assert len(list(bench.tables.leases.scan())) == (bench.url(URL).state is S.LEASED)
