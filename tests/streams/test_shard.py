"""A shard's life: what a crash leaves and who mends it, writes that fail, owners that are replaced, stores that don't fit.

The rows of the crash table in `streams/shard.py` are each a test here (`test_crash_*`). That a commit is all or nothing
when the process or the machine dies is the store's promise: tests/contract, tests/state/test_lmdb_disk.py.
"""

from typing import Any

import pytest
from msgspec.structs import replace

from frontlog.avro.enums import FetchKind, HostEvent, Reason, State, Topic
from frontlog.avro.errors import ConfigError, Corrupt, Fenced, Incompatible
from frontlog.avro.events import Candidate, HostTransition, OwnershipTaken, Transition
from frontlog.processors.settings import Scope, Settings
from frontlog.state import head as heads
from frontlog.streams import shard as shards
from frontlog.streams.records import NewRecord
from frontlog.streams.shard import Shard
from frontlog.streams.topics import OUTBOX, Role
from support.driver import START_MS, ManualClock
from support.invariants import Twin
from support.shards import (
    FaultyStore,
    append,
    batches,
    crawl,
    decisions,
    new_shard,
    new_store,
    offer,
    opened,
    pause,
    result,
    rows,
    seed,
    urls,
)

URL = "http://a.example/x"


def leased(shard: Shard, clock: ManualClock, url: str = URL) -> Any:
    """Bring a URL so far that it is leased."""
    offer(shard, seed(url))
    for _ in range(6):
        done = shard.step(1)
        for lease in done.leases:
            if lease.kind is FetchKind.PAGE:
                return lease
            offer(shard, result(shard, lease), Topic.FETCH_RESULTS)
        if done.next_ready_ms is not None:
            clock.at_ms = max(clock.at_ms, done.next_ready_ms)
    raise AssertionError("no page was leased")


# --- opening -------------------------------------------------------------------------------------------------


def test_the_first_decisions_of_an_owner() -> None:
    shard = new_shard(owner="me", partitions=4)
    done = shard.open()
    taken = done.decisions[0]
    assert isinstance(taken, OwnershipTaken)
    assert (taken.seq, taken.after_seq, taken.owner_token, taken.owner, taken.partitions) == (
        1,
        0,
        1,
        "me",
        4,
    )
    assert (shard.head.owner_token, shard.head.partitions, shard.head.seq) == (1, 4, 3)
    assert len(done.decisions) == 2, "and the settings"
    again = new_shard(store=shard.store, owner="you", partitions=4)
    done = again.open()
    assert len(done.decisions) == 1, "the same settings are not logged again"
    taken = done.decisions[0]
    assert isinstance(taken, OwnershipTaken)
    assert (taken.seq, taken.after_seq, taken.owner_token) == (4, 3, 2)


def test_other_settings_at_a_start_are_logged_before_they_count() -> None:
    shard = opened()
    offer(shard, seed(URL))
    shard.step(0)
    again = opened(store=shard.store, settings=Settings(scope=Scope(exclude=("x$",))))
    again.step(100)
    assert urls(again)[URL].state is State.BLOCKED


# --- the crash table -----------------------------------------------------------------------------------------


def test_crash_before_an_offered_inputs_batch_is_committed() -> None:
    shard = opened()
    told: list[object] = []
    offer(shard, seed(URL), answer=told.append)
    after = opened(store=shard.store, owner="owner-2")
    assert (told, urls(after)) == ([], {}), "its sender was not answered: it sends again"
    offer(after, seed(URL))
    after.step(0)
    assert URL in urls(after)


def test_crash_while_a_batch_is_made() -> None:
    """What is in the log is read again from the positions."""
    store = FaultyStore()
    shard = opened(store=store)
    append(shard, seed(URL), Topic.DISCOVERIES)
    store.fail_at = store.writes + 3
    with pytest.raises(RuntimeError, match="the write failed"):
        shard.step(0)
    before = rows(shard)
    assert before["urls"] == []
    after = opened(store=store, owner="owner-2")
    assert URL in urls(after), "decided with the first batch of the new owner"
    Twin(after).assert_equal(after)


def test_crash_after_the_commit_before_and_after_leases_are_handed_out() -> None:
    clock = ManualClock()
    shard = opened(clock=clock)
    lease = leased(shard, clock)
    clock.advance(5_000)
    after = new_shard(store=shard.store, clock=clock, owner="owner-2")
    done = after.open()
    released = [e for e in done.decisions if isinstance(e, Transition)]
    assert [(e.from_state, e.to_state, e.reason) for e in released] == [
        (State.LEASED, State.ELIGIBLE, Reason.RELEASED)
    ]
    clock_then = released[0].clock
    assert clock_then is not None
    assert clock_then.next_eligible_ms == clock.at_ms + 1_000, "the gap counts from then"
    offer(after, result(after, lease), Topic.FETCH_RESULTS)
    assert after.step(0).rejects == 1, "the dead process's result, should it still come"
    Twin(after).assert_equal(after)


def test_crash_with_results_in_the_log_that_were_not_decided() -> None:
    """A result that the dead process had logged counts; its page isn't fetched again."""
    clock = ManualClock()
    shard = opened(clock=clock)
    lease = leased(shard, clock)
    append(shard, result(shard, lease), Topic.FETCH_RESULTS)
    after = new_shard(store=shard.store, clock=clock, owner="owner-2")
    done = after.open()
    assert urls(after)[URL].state is State.FETCHED
    assert done.rejects == 0
    assert not [e for e in done.decisions if isinstance(e, Transition) and e.reason is Reason.RELEASED]


@pytest.mark.parametrize("noted", [False, True])
def test_crash_around_the_delivery_of_the_outbox(noted: bool) -> None:
    """Before it, or after it and before it was noted: it is delivered again, and a repeat changes nothing."""
    shard = opened(partitions=2, partition=1)
    other = opened(partitions=2, partition=0)
    offer(shard, replace(pause(cmd="seed"), urls=("http://a.example/", "http://b.example/")), Topic.CONTROL)
    shard.step(0)
    sent = shard.outbox()
    assert len(sent) == 2
    mine = [one for one in sent if one.partition == other.partition]
    for one in mine:
        offer(other, one.value, one.topic)
    other.step(0)
    before = rows(other)
    if noted:
        shard.delivered = sent[-1].offset + 1
        offer(shard, pause(), Topic.CONTROL)
        shard.step(0)
    after = opened(store=shard.store, partitions=2, partition=1, owner="owner-2")
    again = after.outbox()
    assert [one.offset for one in again] == ([] if noted else [0, 1])
    for one in again:
        if one.partition == other.partition:
            offer(other, one.value, one.topic)
    other.step(0)
    assert rows(other) == before
    assert mine, "the other shard got something"


def test_deliveries_are_noted_at_a_clean_end_and_their_offsets_are_not_given_again() -> None:
    shard = opened(partitions=2)
    offer(shard, replace(pause(cmd="seed"), urls=("http://a.example/",)), Topic.CONTROL)
    shard.step(0)
    shard.delivered = 1
    shard.settle_outbox()
    assert shard.log.bounds(OUTBOX, 0) == (1, 1)
    after = opened(store=shard.store, partitions=2)
    assert after.outbox() == []
    offer(after, replace(pause(cmd="seed"), urls=("http://a.example/",)), Topic.CONTROL)
    after.step(0)
    assert [one.offset for one in after.outbox()] == [1]


def test_an_outbox_is_read_in_bounded_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shards, "OUTBOX_MAX", 3)
    shard = opened(partitions=2)
    offer(
        shard,
        replace(pause(cmd="seed"), urls=tuple(f"http://h{n}.example/" for n in range(7))),
        Topic.CONTROL,
    )
    shard.step(0)
    found: list[int] = []
    while pieces := shard.outbox():
        assert len(pieces) <= 3
        found += [one.offset for one in pieces]
        shard.delivered = found[-1] + 1
    assert found == list(range(7))


# --- owners --------------------------------------------------------------------------------------------------


def test_an_owner_that_was_replaced_stops_and_writes_nothing() -> None:
    """Seed 000, invariant 10."""
    first = opened()
    second = opened(store=first.store, owner="owner-2")
    offer(first, seed(URL))
    size = first.store.used_bytes()
    with pytest.raises(Fenced, match="another owner \\(token 2\\)"):
        first.step(0)
    with pytest.raises(Fenced):
        first.settle_outbox()
    assert first.store.used_bytes() == size
    assert first.waiting() == 1
    offer(second, seed(URL))
    second.step(0)
    assert URL in urls(second)


def test_tokens_grow_with_each_owner() -> None:
    store = new_store()
    tokens = [opened(store=store, owner=f"owner-{n}").head.owner_token for n in range(1, 6)]
    assert tokens == [1, 2, 3, 4, 5]
    taken = [e for e in decisions(opened(store=store)) if isinstance(e, OwnershipTaken)]
    assert [e.owner_token for e in taken] == [1, 2, 3, 4, 5, 6]
    assert all(e.after_seq == e.seq - 1 for e in taken)


# --- stores that don't fit -----------------------------------------------------------------------------------


def test_a_clock_behind_the_log_refuses_and_names_both_times() -> None:
    shard = opened(clock=ManualClock(START_MS))
    early = new_shard(store=shard.store, clock=ManualClock(START_MS - 5_001))
    with pytest.raises(ConfigError) as told:
        early.open()
    assert "2026-09-21T14:13:14Z" in str(told.value)
    assert "2026-09-21T14:13:20Z" in str(told.value)
    assert "set the clock right" in str(told.value)


def test_a_clock_a_little_behind_goes_on_without_going_back() -> None:
    shard = opened(clock=ManualClock(START_MS))
    late = opened(store=shard.store, clock=ManualClock(START_MS - 5_000))
    offer(late, seed(URL))
    late.step(0)
    assert [batch.at_ms for batch in batches(late)] == [START_MS] * 3


def changed_head(shard: Shard, **fields: Any) -> None:
    with shard.store.begin(write=True) as txn:
        heads.save(txn, replace(heads.load(txn), **fields))
        txn.commit()


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"fold_version": 99}, "folded by version 99.*frontlog replay rebuild"),
        ({"psl_version": "list 1"}, "made with list 1.*install the pinned version"),
        ({"partitions": 8}, "8 partitions pinned, 1 are configured"),
    ],
)
def test_what_another_version_wrote_is_refused_with_the_way_out(fields: dict[str, Any], told: str) -> None:
    shard = opened()
    changed_head(shard, **fields)
    with pytest.raises(Incompatible, match=f"frontier-0: .*{told}"):
        new_shard(store=shard.store).open()


def test_tables_that_are_not_those_of_the_log_are_refused() -> None:
    shard = opened()
    with shard.log.begin() as txn:
        txn.append(Topic.TRANSITIONS, 0, [NewRecord(START_MS, b"", b"x")])
        txn.append(Topic.OWNERSHIP, 0, [NewRecord(START_MS, b"", b"x")])
        txn.commit()
    with pytest.raises(Corrupt, match=r"ownership ends at offset 3.*replay rebuild"):
        new_shard(store=shard.store).open()


def test_a_content_shard_answers_the_origins_partition() -> None:
    shard = opened(role=Role.CONTENT)
    page = Candidate(
        event_id="e", origin_key="http://a.example:80", partition=3, url=URL, text_sha256=b"x" * 32
    )
    offer(shard, page, Topic.CANDIDATES)
    shard.step(0)
    (delivery,) = shard.outbox()
    assert (delivery.topic, delivery.partition) == (Topic.CONTENT_VERDICTS, 3)


def test_a_crawl_over_many_owners_ends_as_one_over_one() -> None:
    names = [f"http://h{n}.example/{m}" for n in range(3) for m in range(3)]
    clock = ManualClock()
    one = opened(clock=clock)
    for name in names:
        offer(one, seed(name))
    crawl(one, clock)
    store, clock = new_store(), ManualClock()
    many = opened(store=store, clock=clock)
    for name in names:
        offer(many, seed(name))
    for n in range(60):
        for lease in many.step(2).leases:
            if n % 3:
                offer(many, result(many, lease), Topic.FETCH_RESULTS)
        clock.advance(700)
        if n % 5 == 4:
            many = opened(store=store, clock=clock, owner=f"owner-{n}")
    crawl(many, clock)
    assert {url: row.state for url, row in urls(many).items()} == {
        url: row.state for url, row in urls(one).items()
    }
    Twin(many).assert_equal(many)
    assert HostEvent.ERRAND_RELEASED in {e.event for e in decisions(many) if isinstance(e, HostTransition)}
