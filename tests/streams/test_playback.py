"""The log read back: batches merged by seq, stale owners voided, and logs that were cut, edited or reordered refused."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from frontlog.avro.codec import decode, encode
from frontlog.avro.enums import Reason, State, Topic
from frontlog.avro.errors import Corrupt, FrontlogError, Incompatible
from frontlog.avro.events import Batch, Event, HostTransition, OwnershipTaken, TableDigest, Transition
from frontlog.state import head as heads
from frontlog.state.store import Store
from frontlog.state.tables import Tables
from frontlog.streams import fold
from frontlog.streams.embedded_log import EmbeddedLog
from frontlog.streams.playback import LoggedBatch, Playback
from frontlog.streams.records import NewRecord
from frontlog.streams.shard import Shard
from frontlog.streams.topics import TOPIC_IDS, Role, decision_topics
from support.driver import START_MS, ManualClock
from support.shards import crawl, decisions, new_store, offer, opened, rows, seed

Log = dict[str, list[Event]]


def crawled() -> Shard:
    """A shard with some batches by two owners."""
    clock = ManualClock()
    shard = opened(clock=clock)
    for n in range(2):
        offer(shard, seed(f"http://h{n}.example/x"))
    crawl(shard, clock)
    again = opened(store=shard.store, clock=clock, owner="owner-2")
    offer(again, seed("http://h9.example/x"))
    crawl(again, clock)
    return again


@pytest.fixture(scope="module")
def original() -> Log:
    """Decisions by topic."""
    shard = crawled()
    return {
        topic.value: [decode(r.value) for r in shard.log.scan(topic, 0, 0)]
        for topic in decision_topics(Role.FRONTIER)
    }


def logged(found: Log) -> tuple[Store, EmbeddedLog]:
    """A log that holds these decisions."""
    store = new_store()
    log = EmbeddedLog(store, TOPIC_IDS)
    with log.begin() as txn:
        for topic, events in found.items():
            txn.append(topic, 0, [NewRecord(START_MS, b"", encode(event)) for event in events])
        txn.commit()
    return store, log


def folded(found: Log) -> dict[str, Any]:
    """The tables that a log gives; raises what folding raises."""
    store, log = logged(found)
    with store.begin(write=True) as txn:
        head = heads.load(txn)
        for batch in Playback(log, Role.FRONTIER, 0).batches():
            head = fold_one(Tables(txn, head), batch)
        heads.save(txn, head)
        txn.commit()
    with store.begin() as txn:
        return {table: list(txn.scan(table)) for table in head.digests}


def fold_one(tables: Tables, found: LoggedBatch) -> heads.Head:
    decided = [(one.event, one.record.value) for one in found.decisions]
    return fold.fold_batch(tables, decided, found.batch, found.written)


def copy(found: Log) -> Log:
    return {topic: list(events) for topic, events in found.items()}


def test_a_whole_log_gives_the_tables() -> None:
    shard = crawled()
    found = {
        t.value: [decode(r.value) for r in shard.log.scan(t, 0, 0)] for t in decision_topics(Role.FRONTIER)
    }
    assert folded(found) == rows(shard)


def test_batches_come_whole_in_the_order_of_seq(original: Log) -> None:
    _, log = logged(original)
    playback = Playback(log, Role.FRONTIER, 0)
    seqs: list[int] = []
    written: dict[str, int] = {}
    for batch in playback.batches():
        inside = [getattr(one.event, "seq", 0) for one in batch.decisions]
        assert batch.batch.first_seq == inside[0]
        assert not any(isinstance(one.event, Batch) for one in batch.decisions)
        assert isinstance(batch.end.event, Batch)
        seqs += [*inside, batch.batch.seq]
        written = batch.written
    assert seqs == list(range(1, len(seqs) + 1))
    assert (playback.voided, playback.token, playback.seq) == (0, 2, seqs[-1])
    assert written == {topic: len(events) for topic, events in original.items() if events}


def test_it_goes_on_from_any_batch(original: Log) -> None:
    _, log = logged(original)
    whole = list(Playback(log, Role.FRONTIER, 0).batches())
    for n, at in enumerate(whole[:-1]):
        token = at.batch.owner_token
        rest = Playback(log, Role.FRONTIER, 0, seq=at.batch.seq, token=token, starts=at.written)
        assert [b.batch for b in rest.batches()] == [b.batch for b in whole[n + 1 :]]


def test_an_empty_log_has_no_batches() -> None:
    assert list(Playback(EmbeddedLog(new_store(), TOPIC_IDS), Role.FRONTIER, 0).batches()) == []


# --- stale owners --------------------------------------------------------------------------------------------


def stale(original: Log) -> list[Transition]:
    """What the first owner, which doesn't know that it was replaced, goes on to write."""
    taken = [e for e in original["ownership"] if isinstance(e, OwnershipTaken)][1]
    move = next(e for e in original["transitions"] if isinstance(e, Transition))
    return [replace(move, seq=taken.seq + n, owner_token=1, url=f"http://stale/{n}") for n in range(3)]


@pytest.mark.parametrize("where", ["behind", "between"])
def test_decisions_with_an_older_token_are_void_and_counted(original: Log, where: str) -> None:
    found = copy(original)
    late = stale(original)
    at = next(n for n, e in enumerate(found["transitions"]) if getattr(e, "owner_token", 0) == 2)
    found["transitions"][at if where == "between" else len(found["transitions"]) :] = (
        [*late, *found["transitions"][at:]] if where == "between" else late
    )
    _, log = logged(found)
    playback = Playback(log, Role.FRONTIER, 0)
    urls = {getattr(d.event, "url", "") for batch in playback.batches() for d in batch.decisions}
    assert playback.voided == 3
    assert not any(url.startswith("http://stale") for url in urls)
    assert folded(found) == folded(original)


# --- logs that are not what they were ------------------------------------------------------------------------


def forged(change: Callable[[Any], Any], kind: type[Event]) -> Callable[[Log], None]:
    def edit(found: Log) -> None:
        for events in found.values():
            for n, event in enumerate(events):
                if isinstance(event, kind):
                    events[n] = change(event)
                    return

    return edit


def without(topic: Topic, n: int) -> Callable[[Log], None]:
    return lambda found: found[topic.value].__delitem__(n)


def swapped(found: Log) -> None:
    moves = found["transitions"]
    moves[2], moves[3] = replace_seq(moves[3], moves[2]), replace_seq(moves[2], moves[3])


def replace_seq(event: Any, other: Any) -> Any:
    return replace(event, seq=other.seq)


FORGERIES: dict[str, tuple[Callable[[Log], None], str]] = {
    "a decision is missing": (without(Topic.TRANSITIONS, 3), "seq .* is missing"),
    "the first decision is missing": (without(Topic.OWNERSHIP, 0), "seq 1 is missing"),
    "a batch's end is missing": (without(Topic.OWNERSHIP, 2), "seq .* is missing"),
    "the last batch's end is missing": (without(Topic.OWNERSHIP, -1), "ends inside a batch"),
    "a decision was edited": (forged(lambda e: replace(e, depth=e.depth + 1), Transition), "chain breaks"),
    "a host's move was edited": (forged(lambda e: replace(e, detail="x"), HostTransition), "chain breaks"),
    "two decisions changed places": (swapped, "chain breaks"),
    "a batch's hash was edited": (forged(lambda e: replace(e, log_hash=b"x" * 32), Batch), "chain breaks"),
    "a batch's beginning was edited": (forged(lambda e: replace(e, first_seq=e.first_seq + 1), Batch), "are missing"),
    "a batch's digest was edited": (
        forged(lambda e: replace(e, digests=(TableDigest(table="urls", digest=b"x" * 16, rows=3), *e.digests[1:])), Batch),
        "folding gives other tables",
    ),
    "a batch's time was edited": (forged(lambda e: replace(e, at_ms=e.at_ms + 1), Batch), "had: policies"),
}  # fmt: skip


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forged_log_is_corrupt_and_the_place_is_named(original: Log, name: str) -> None:
    edit, told = FORGERIES[name]
    found = copy(original)
    edit(found)
    with pytest.raises(Corrupt, match=told):
        folded(found)


def test_a_decision_that_no_machine_makes_is_corrupt(original: Log) -> None:
    """Even under a right chain: whoever can write a hash can't make the fold accept a move that isn't allowed."""
    store, log = logged(original)
    with store.begin(write=True) as txn:
        tables = Tables(txn)
        first = next(iter(Playback(log, Role.FRONTIER, 0).batches()))
        fold_one(tables, first)
        bad = Transition(
            seq=tables.head.seq + 1, owner_token=1, origin_key="http://h0.example:80", url="http://h0.example/x",
            from_state=State.GONE, to_state=State.FETCHED, reason=Reason.OK,
        )  # fmt: skip
        data = encode(bad)
        chain = fold.chain_hash(tables.head.log_hash, [data[10:]])
        batch = Batch(seq=bad.seq + 1, first_seq=bad.seq, owner_token=1, at_ms=START_MS, log_hash=chain)
        with pytest.raises(Corrupt, match="cannot be folded"):
            fold.fold_batch(tables, [(bad, data)], batch, {})


def test_differences_are_told_by_table() -> None:
    shard = opened()
    with shard.store.begin() as txn:
        tables = Tables(txn)
        values, listed = fold.digests_of(tables)
    assert set(values) >= {"urls", "policies", "marks"}
    assert {d.table for d in listed} == {"policies", "marks"}, "empty tables are left out"
    assert [type(e).__name__ for e in decisions(shard)] == ["OwnershipTaken", "OperatorPolicy", "Batch"]


def test_positions_name_what_moved_only() -> None:
    moved = fold.positions_of(
        {"control": 3, "discoveries": 1}, {"control": 3, "discoveries": 4, "fetch-results": 2}
    )
    assert [(p.topic, p.from_offset, p.to_offset) for p in moved] == [
        ("discoveries", 1, 4),
        ("fetch-results", 0, 2),
    ]


def test_the_chain_is_over_the_bodies_in_order() -> None:
    assert fold.chain_hash(b"a", [b"b", b"c"]) == fold.chain_hash(b"a", [b"bc"])
    assert fold.chain_hash(b"a", [b"b", b"c"]) != fold.chain_hash(b"a", [b"c", b"b"])
    assert fold.chain_hash(b"a", []) != fold.chain_hash(b"b", [])


@pytest.mark.parametrize(
    ("value", "error", "said"),
    [
        (
            b"\xc3\x01" + b"\xee" * 20,
            Incompatible,
            "transitions/0 at offset 0: unknown schema fingerprint ee",
        ),
        (b"", Corrupt, "transitions/0 at offset 0: "),
        (encode(seed("http://a.example/")), Corrupt, "transitions/0 at offset 0: no decision"),
    ],
)
def test_a_record_that_is_no_decision_of_this_version_is_named(
    value: bytes, error: type[FrontlogError], said: str
) -> None:
    """A newer version's is Incompatible (exit 5), anything else Corrupt (exit 4)."""
    log = EmbeddedLog(new_store(), TOPIC_IDS)
    with log.begin() as txn:
        txn.append(Topic.TRANSITIONS, 0, [NewRecord(START_MS, b"", value)])
        txn.commit()
    with pytest.raises(error, match=said):
        list(Playback(log, Role.FRONTIER, 0).batches())
