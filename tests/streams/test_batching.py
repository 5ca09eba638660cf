"""One batch: the order of its inputs, its bounds, its proof, and inputs that nobody can use."""

import hashlib

import pytest
from msgspec.structs import replace

from frontlog.avro.codec import body_of, encode
from frontlog.avro.enums import FetchKind, PolicyAct, Reason, RobotsState, ScopeKind, State, Topic, Verdict
from frontlog.avro.events import (
    Batch,
    Candidate,
    ContentVerdict,
    CursorMoved,
    Document,
    Event,
    FetchResult,
    HostTransition,
    OperatorPolicy,
    OwnershipTaken,
    RobotsPolicy,
    Transition,
)
from frontlog.streams import batching
from frontlog.streams.topics import OUTBOX, Role, input_topics
from support.driver import ManualClock
from support.invariants import Twin
from support.shards import (
    append,
    batches,
    crawl,
    decisions,
    events,
    links,
    offer,
    opened,
    pause,
    result,
    rows,
    seed,
    urls,
)

URL = "http://a.example/x"


# --- order ---------------------------------------------------------------------------------------------------


def test_inputs_are_taken_topic_by_topic_then_timers_then_claims() -> None:
    clock = ManualClock()
    shard = opened(clock=clock)
    offer(shard, seed(URL))
    offer(shard, seed("http://b.example/"))
    first, second = shard.step(2).leases
    offer(shard, result(shard, first), Topic.FETCH_RESULTS)
    clock.advance(90_000)
    verdict = ContentVerdict(
        verdict=Verdict.NEW,
        candidate=Candidate(origin_key="http://a.example:80", url=URL, text_sha256=b"x" * 32),
    )
    offer(shard, seed("http://c.example/"))
    offer(shard, verdict, Topic.CONTENT_VERDICTS)
    offer(shard, pause(ScopeKind.HOST, "d.example"), Topic.CONTROL)
    done = shard.step(1)
    causes = [getattr(event, "cause_topic", "") for event in done.decisions]
    order = list(dict.fromkeys(cause for cause in causes if cause))
    assert order == ["control", "fetch-results", "discoveries", "timer", "claim"]
    expired = [e for e in done.decisions if isinstance(e, HostTransition) and e.host == second.host]
    assert expired[0].reason is Reason.LEASE_EXPIRED
    assert len(events(shard, Topic.FETCHED)) == 1


def test_a_result_that_came_by_the_deadline_is_decided_before_the_lease_runs_out() -> None:
    clock = ManualClock()
    shard = opened(clock=clock)
    offer(shard, seed(URL))
    (lease,) = shard.step(1).leases
    clock.advance(1_000_000)
    offer(shard, result(shard, lease), Topic.FETCH_RESULTS)
    done = shard.step(0)
    assert [e.reason for e in done.decisions if isinstance(e, HostTransition)] == [Reason.OK]
    assert done.rejects == 0


def test_no_lease_runs_out_while_results_are_left_for_a_later_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = ManualClock()
    shard = opened(clock=clock)
    for n in range(4):
        offer(shard, seed(f"http://h{n}.example/"))
    leases = shard.step(4).leases
    clock.advance(1_000_000)
    for lease in leases:
        offer(shard, result(shard, lease), Topic.FETCH_RESULTS)
    monkeypatch.setattr(batching, "INPUTS_MAX", 1)
    reasons: list[Reason] = []
    for _ in range(4):
        done = shard.step(0)
        reasons += [event.reason for event in done.decisions if isinstance(event, HostTransition)]
    assert reasons == [Reason.OK] * 4


def test_inputs_of_another_process_come_in_the_order_of_their_offsets() -> None:
    shard = opened()
    append(shard, pause(ScopeKind.HOST, "a.example"), Topic.CONTROL)
    append(shard, b'{"cmd": "resume", "target": {"host": "a.example"}}', Topic.CONTROL)
    offer(shard, pause(ScopeKind.HOST, "b.example"), Topic.CONTROL)
    assert shard.has_control()
    done = shard.step(0)
    acts = [(e.act.value, e.scope, e.cause_offset) for e in done.decisions if isinstance(e, OperatorPolicy)]
    assert acts == [("pause", "a.example", 0), ("resume", "a.example", 1), ("pause", "b.example", 2)]
    assert not shard.has_control()


# --- bounds --------------------------------------------------------------------------------------------------


def test_a_batch_takes_a_bounded_number_of_inputs_and_the_rest_follows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(batching, "INPUTS_MAX", 3)
    shard = opened()
    for n in range(8):
        offer(shard, seed(f"http://h{n}.example/"))
    taken = [(done.inputs, done.more) for done in (shard.step(0) for _ in range(3))]
    assert taken == [(3, True), (3, True), (2, False)]
    assert len(urls(shard)) == 8
    assert shard.step(0).head is None


def test_a_batch_stops_taking_inputs_when_it_has_its_decisions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batching, "DECISIONS_MAX", 10)
    shard = opened()
    for n in range(4):
        offer(shard, links(4, f"h{n}.example"))
    offer(shard, pause(ScopeKind.HOST, "x.example"), Topic.CONTROL)
    counts: list[int] = []
    while True:
        done = shard.step(0)
        counts.append(len(done.decisions))
        if not done.more:
            break
    assert counts[0] == 1 + 12, "the input that filled it is decided whole"
    assert max(counts) <= 10 + 4
    assert len(urls(shard)) == 16


def test_claims_and_jobs_stop_at_the_bound_and_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batching, "DECISIONS_MAX", 10)
    shard = opened()
    for n in range(30):
        offer(shard, seed(f"http://h{n}.example/"))
    while shard.step(0).more:
        pass
    done = shard.step(100)
    assert (len(done.decisions), len(done.leases), done.more) == (10, 10, True)
    offer(shard, pause(cmd="block"), Topic.CONTROL)
    offer(shard, pause(cmd="unblock"), Topic.CONTROL)
    while (done := shard.step(100)).more:
        assert len(done.decisions) <= 10
    assert len(done.leases) <= 10


def test_a_batch_that_its_inputs_fill_says_that_a_job_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    shard = opened()
    offer(shard, seed(URL))
    offer(shard, pause(cmd="block"), Topic.CONTROL)
    shard.step(0)
    monkeypatch.setattr(batching, "DECISIONS_MAX", 2)
    offer(shard, pause(cmd="unblock"), Topic.CONTROL)
    assert shard.step(0).more
    while shard.step(0).more:
        pass
    assert [row.state for row in urls(shard).values()] == [State.ELIGIBLE]


# --- the proof -----------------------------------------------------------------------------------------------


def test_a_batch_proves_itself() -> None:
    shard = opened()
    before = shard.head
    offer(shard, seed(URL))
    offer(shard, seed("http://b.example/"))
    shard.step(7)
    batch = batches(shard)[-1]
    assert (batch.first_seq, batch.at_ms, batch.claims_wanted) == (before.seq + 1, shard.clock.now_ms(), 7)
    assert [(p.topic, p.from_offset, p.to_offset) for p in batch.positions] == [("discoveries", 0, 2)]
    inside = [e for e in decisions(shard) if batch.first_seq <= getattr(e, "seq", 0) < batch.seq]
    assert [getattr(e, "seq", 0) for e in inside] == list(range(batch.first_seq, batch.seq))
    chain = hashlib.sha256(before.log_hash + b"".join(body_of(encode(e)) for e in inside)).digest()
    assert batch.log_hash == chain == shard.head.log_hash
    assert {d.table: (d.digest, d.rows) for d in batch.digests} == {
        table: value for table, value in shard.head.digests.items() if value[1]
    }
    assert batch.settings_version == 2, "the settings were the second decision"


def test_with_nothing_to_say_nothing_is_written() -> None:
    shard = opened()
    size = shard.store.used_bytes()
    done = shard.step(100)
    assert (done.head, done.decisions, done.leases) == (None, [], [])
    assert shard.store.used_bytes() == size


def test_an_input_that_changes_nothing_moves_its_position_only() -> None:
    shard = opened()
    offer(shard, seed(URL))
    shard.step(0)
    tables = rows(shard)
    offer(shard, seed(URL))
    done = shard.step(0)
    assert (done.decisions, done.inputs) == ([], 1)
    assert rows(shard) == tables
    assert batches(shard)[-1].positions[0].to_offset == 2


KEYS: list[tuple[Event, bytes]] = [
    (Transition(origin_key="http://a:80", from_state=State.DISCOVERED, to_state=State.ELIGIBLE, reason=Reason.ADMITTED), b"http://a:80"),
    (RobotsPolicy(origin_key="http://a:80", state=RobotsState.RULES, reason=Reason.OK), b"http://a:80"),
    (OperatorPolicy(scope_kind=ScopeKind.SITE, scope="a.example", act=PolicyAct.BLOCK), b"site:a.example"),
    (Document(content_hash=b"\x01\xff", verdict=Verdict.NEW), b"01ff"),
    (OwnershipTaken(), b"3"),
    (Batch(), b"3"),
    (CursorMoved(), b"3"),
]  # fmt: skip


@pytest.mark.parametrize(("event", "key"), KEYS, ids=[type(event).__name__ for event, _ in KEYS])
def test_record_keys(event: Event, key: bytes) -> None:
    assert batching.record_key(event, 3) == key


def test_every_decision_has_a_topic() -> None:
    assert set(batching.TOPIC_OF) >= {type(event) for event, _ in KEYS}
    assert set(batching.INPUTS) == {
        *input_topics(Role.FRONTIER),
        *input_topics(Role.CONTENT),
    }


# --- pauses --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "target"), [(ScopeKind.CRAWL, ""), (ScopeKind.PARTITION, "0")])
def test_while_all_is_paused_nothing_is_claimed_and_nobody_is_kept_busy(kind: ScopeKind, target: str) -> None:
    shard = opened()
    offer(shard, seed(URL))
    offer(shard, pause(kind, target), Topic.CONTROL)
    done = shard.step(100)
    assert (done.leases, done.next_ready_ms) == ([], None), "or the host loop would turn without a rest"
    assert urls(shard)[URL].state is State.ELIGIBLE, "inputs are still decided"
    offer(shard, pause(kind, target, cmd="resume"), Topic.CONTROL)
    assert len(shard.step(100).leases) == 1


def test_emissions_wait_in_the_outbox_with_their_target() -> None:
    shard = opened(partitions=4)
    offer(shard, replace(pause(cmd="seed"), urls=("http://b.example/",)), Topic.CONTROL)
    shard.step(0)
    first, end = shard.log.bounds(OUTBOX, 0)
    assert (first, end) == (0, 1)
    (delivery,) = shard.outbox()
    assert (delivery.topic, delivery.key) == (Topic.DISCOVERIES, b"http://b.example:80")


def test_a_content_shard_decides_candidates_only() -> None:
    clock = ManualClock()
    shard = opened(role=Role.CONTENT, clock=clock)
    offer(
        shard,
        Candidate(event_id="e", origin_key="http://a.example:80", url=URL, text_sha256=b"x" * 32),
        Topic.CANDIDATES,
    )
    offer(shard, seed(URL), Topic.CANDIDATES)
    done = shard.step(100)
    assert ([type(e) for e in done.decisions], done.rejects, done.leases, done.next_ready_ms) == (
        [Document],
        1,
        [],
        None,
    )
    Twin(shard).assert_equal(shard)


def test_a_whole_crawl_is_rebuilt() -> None:
    clock = ManualClock()
    shard = opened(clock=clock)
    for n in range(6):
        offer(shard, links(3, f"h{n}.example"))
    assert crawl(shard, clock) == 6 * (1 + 1 + 3)
    assert {row.state for row in urls(shard).values()} == {State.FETCHED}
    Twin(shard).assert_equal(shard)


def test_results_know_their_kind() -> None:
    """A result's kind decides its machine, whatever else it says."""
    shard = opened()
    offer(shard, seed(URL))
    (lease,) = shard.step(1).leases
    for kind in FetchKind:
        if kind is not lease.kind:
            offer(shard, replace(result(shard, lease), kind=kind), Topic.FETCH_RESULTS)
    done = shard.step(0)
    assert (done.decisions, done.rejects) == ([], 3)
    assert isinstance(result(shard, lease), FetchResult)
