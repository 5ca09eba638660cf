"""Logs that were changed behind their owner's back, by somebody who makes all else fit: and the check that must find it."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from frontlog.avro.codec import decode, encode
from frontlog.avro.enums import HostEvent, Reason, State, Topic
from frontlog.avro.events import BodyRef, CursorMoved, Event, FetchResult, HostTransition, Reject, Transition
from frontlog.replay.folder import shards_of
from frontlog.state import head as heads
from frontlog.state.catalogue import LOG, STORE_TABLES
from frontlog.state.lmdb_store import LmdbStore
from frontlog.state.rows import UrlRow
from frontlog.streams.embedded_log import EmbeddedLog
from frontlog.streams.records import NewRecord
from frontlog.streams.topics import TOPIC_IDS
from support.faults import always, fault
from support.forge import Forgery, forge

Patch = pytest.MonkeyPatch
NOTHING = CursorMoved(name="nothing", position=b"")
"""A decision that changes no row: a forger's filling."""


def busy(folder: Path) -> str:
    """The shard of the frontier with the longest log."""
    names = [ref for ref in shards_of(folder) if ref.role.value == "frontier"]
    return max(names, key=lambda ref: _seq(ref.path)).name


def _seq(path: Path) -> int:
    store = LmdbStore(path, STORE_TABLES, readonly=True)
    try:
        with store.begin() as txn:
            return heads.load(txn).seq
    finally:
        store.close()


def busy_number(folder: Path) -> str:
    """The number of that shard."""
    return busy(folder).rpartition("-")[2]


def opened(folder: Path, shard: str) -> LmdbStore:
    ref = next(one for one in shards_of(folder) if one.name == shard)
    return LmdbStore(ref.path, STORE_TABLES, durability="none")


def moves(forged: Forgery, to: State) -> Iterator[tuple[list[Event], int, Transition]]:
    """Moves into a state, with the list that they stand in and their place in it."""
    for draft, n, event in forged.events(Transition):
        if event.to_state is to:
            yield draft.decisions, n, event


# --- the log -----------------------------------------------------------------------------------------------------


@fault("records", forged=True)
def a_flipped_bit(folder: Path, _: Patch) -> None:
    """One bit of a record that nobody has decided yet."""
    quiet = next(ref.name for ref in shards_of(folder) if _seq(ref.path) < 10)
    store = opened(folder, quiet)
    try:
        log = EmbeddedLog(store, TOPIC_IDS)
        with store.begin(write=True) as txn:
            log.within(txn).append(Topic.FETCH_RESULTS, int(quiet[-1]), [NewRecord(1, b"k", b"value")])
            key, value = next((k, v) for k, v in txn.scan(LOG.name) if k[0] == TOPIC_IDS[Topic.FETCH_RESULTS])
            txn.put(LOG.name, key, value[:-1] + bytes([value[-1] ^ 1]))
            txn.commit()
    finally:
        store.close()


@fault("sequence", forged=True)
def a_number_left_out(folder: Path, _: Patch) -> None:
    """Somebody took a decision out and closed the chain behind it."""

    def edit(forged: Forgery) -> None:
        forged.append(NOTHING, NOTHING, skip=1)

    forge(folder, busy(folder), edit)


@fault("chain", forged=True)
def another_word(folder: Path, _: Patch) -> None:
    """A word in a decision was changed; it is in no table."""

    def edit(forged: Forgery) -> None:
        forged.keep_chain = True
        for decisions, n, event in moves(forged, State.LEASED):
            decisions[n] = replace(event, detail="not what it was")
            return

    forge(folder, busy(folder), edit)


@fault("owners", forged=True)
def another_token(folder: Path, _: Patch) -> None:
    """A decision of an owner that never took the partition over."""

    def edit(forged: Forgery) -> None:
        token = forged.drafts[-1].batch.owner_token
        forged.append(replace(NOTHING, owner_token=token + 1))

    forge(folder, busy(folder), edit)


@fault("causes", forged=True)
def a_cause_that_is_none(folder: Path, _: Patch) -> None:
    """A decision names an input that its batch did not take."""

    def edit(forged: Forgery) -> None:
        for decisions, n, event in moves(forged, State.ELIGIBLE):
            decisions[n] = replace(event, cause_offset=event.cause_offset + 1_000)
            return

    forge(folder, busy(folder), edit)


@fault("causes", forged=True, alone=False)
def an_input_passed_over(folder: Path, _: Patch) -> None:
    """A batch goes on one input later than the one before it ended."""

    def edit(forged: Forgery) -> None:
        draft = next(
            d for d in forged.drafts if any(p.topic == Topic.DISCOVERIES.value for p in d.batch.positions)
        )
        moved = tuple(
            replace(p, from_offset=p.from_offset + 1) if p.topic == Topic.DISCOVERIES.value else p
            for p in draft.batch.positions
        )
        draft.batch = replace(draft.batch, positions=moved)

    forge(folder, busy(folder), edit)


@fault("sequence", forged=True, alone=False)
def two_decisions_changed_places(folder: Path, _: Patch) -> None:
    """Two decisions of a batch stand in the other order in their topic."""
    partition = int(busy_number(folder))
    store = opened(folder, busy(folder))
    try:
        log = EmbeddedLog(store, TOPIC_IDS)
        records = list(log.scan(Topic.TRANSITIONS, partition, 0))
        records[0], records[1] = records[1], records[0]
        with store.begin(write=True) as txn:
            for key, _value in list(txn.scan(LOG.name)):
                if key[0] == TOPIC_IDS[Topic.TRANSITIONS]:
                    txn.delete(LOG.name, key)
            log.within(txn).append(Topic.TRANSITIONS, partition, [NewRecord(*one[1:]) for one in records])
            txn.commit()
    finally:
        store.close()


@fault("live", forged=True, alone=False)
def the_end_cut_off(folder: Path, _: Patch) -> None:
    """The newest batches are gone from the log; the tables still say that they were there."""
    store = opened(folder, busy(folder))
    with store.begin() as txn:
        head = heads.load(txn)
    store.close()

    def edit(forged: Forgery) -> None:
        del forged.drafts[-3:]

    forge(folder, busy(folder), edit)
    store = opened(folder, busy(folder))
    with store.begin(write=True) as txn:
        heads.save(txn, head)
        txn.commit()
    store.close()


@fault("sequence", forged=True, alone=False)
def a_torn_batch(folder: Path, _: Patch) -> None:
    """The log ends inside a batch."""

    def edit(forged: Forgery) -> None:
        forged.append(NOTHING, NOTHING)
        forged.torn = 1

    forge(folder, busy(folder), edit)


# --- decisions ---------------------------------------------------------------------------------------------------


@fault("transitions", forged=True, alone=False)
def a_move_that_starts_elsewhere(folder: Path, patch: Patch) -> None:
    """A URL leaves a state that it isn't in; the fold was bent not to mind."""
    from frontlog.processors import urls

    patch.setattr(urls, "_check", always(None))

    def edit(forged: Forgery) -> None:
        _, _, event = next(moves(forged, State.FETCHED))
        away = replace(event, from_state=State.DEFERRED, to_state=State.ELIGIBLE, reason=Reason.DUE)
        forged.append(replace(away, cause_topic="timer", cause_offset=-1, result=None, clock=None))

    forge(folder, busy(folder), edit)


@fault("fences", forged=True)
def another_fence_in_the_result(folder: Path, _: Patch) -> None:
    """The result that ended a lease carries another fence; inputs are not in the chain."""

    def edit(forged: Forgery) -> None:
        records = forged.topics[Topic.FETCH_RESULTS]
        for n, record in enumerate(records):
            event = decode(record.value)
            if isinstance(event, FetchResult) and event.kind.value == "page":
                records[n] = record._replace(value=encode(replace(event, fence=event.fence + 5)))
                return

    forge(folder, busy(folder), edit)


@fault("gaps", forged=True, alone=False)
def a_request_before_its_time(folder: Path, _: Patch) -> None:
    """A request started before it was claimed."""

    def edit(forged: Forgery) -> None:
        records = forged.topics[Topic.FETCH_RESULTS]
        for n, record in enumerate(records):
            event = decode(record.value)
            if isinstance(event, FetchResult) and event.kind.value == "page":
                records[n] = record._replace(value=encode(replace(event, started_ms=event.started_ms - 700)))
                return

    forge(folder, busy(folder), edit)


@fault("addresses", forged=True)
def an_address_from_nowhere(folder: Path, _: Patch) -> None:
    """A host's address changes without a look-up."""

    def edit(forged: Forgery) -> None:
        _, _, event = forged.events(HostTransition)[-1]
        clock = replace(event.clock, address="203.0.113.66", errand=None, in_flight=0)
        quiet = replace(
            event,
            event=HostEvent.RESUMED,
            clock=clock,
            errand=None,
            cause_topic="timer",
            cause_offset=-1,
        )
        forged.append(quiet)

    forge(folder, busy(folder), edit)


@fault("versions", forged=True)
def another_version(folder: Path, _: Patch) -> None:
    """A claim names the version before the one in force."""

    def edit(forged: Forgery) -> None:
        for decisions, n, event in moves(forged, State.LEASED):
            decisions[n] = replace(event, policy_version=event.policy_version - 1)
            return

    forge(folder, busy(folder), edit)


# --- outputs, archive, tables ------------------------------------------------------------------------------------


@fault("rejects", forged=True)
def a_refusal_of_nothing(folder: Path, _: Patch) -> None:
    """A refusal names an input that there never was."""

    def edit(forged: Forgery) -> None:
        event = Reject(
            topic=Topic.DISCOVERIES.value, partition=forged.partition, offset=9_999, reason=Reason.UNDECODABLE
        )
        forged.topics[Topic.REJECTS].append(NewRecord(forged.drafts[-1].batch.at_ms, b"", encode(event)))

    forge(folder, busy(folder), edit)


@fault("outputs", forged=True)
def an_output_too_many(folder: Path, _: Patch) -> None:
    """A page is given out a second time."""

    def edit(forged: Forgery) -> None:
        forged.topics[Topic.FETCHED].append(forged.topics[Topic.FETCHED][-1])

    forge(folder, busy(folder), edit)


def bodies(folder: Path) -> list[BodyRef]:
    """References to pages that the log holds."""
    found: list[BodyRef] = []

    def look(forged: Forgery) -> None:
        for record in forged.topics[Topic.FETCH_RESULTS]:
            event = decode(record.value)
            if isinstance(event, FetchResult) and event.body is not None:
                found.append(event.body)

    forge(folder, busy(folder), look)
    return found


def flip(path: Path, at: int) -> None:
    """Change one bit of a file."""
    data = bytearray(path.read_bytes())
    data[at] ^= 0x10
    path.write_bytes(data)


@fault("archive", forged=True)
def a_byte_of_a_body(folder: Path, _: Patch) -> None:
    """One bit of a response in the archive."""
    body = bodies(folder)[3]
    flip(folder / "archive" / body.file, body.offset + body.length // 2)


@fault("segments", forged=True, deep=True)
def a_byte_of_a_request(folder: Path, _: Patch) -> None:
    """One bit of a request in the archive, which no reference leads to."""
    body = bodies(folder)[3]
    flip(folder / "archive" / body.file, body.offset - 20)


@fault("archive", forged=True)
def a_segment_lost(folder: Path, _: Patch) -> None:
    """A segment is gone."""
    min((folder / "archive").glob("*.warc.gz")).unlink()


@fault("digests", forged=True)
def another_digest(folder: Path, _: Patch) -> None:
    """The digest that a batch carries was changed."""

    def edit(forged: Forgery) -> None:
        draft = forged.drafts[len(forged.drafts) // 2]
        first, *rest = draft.batch.digests
        draft.batch = replace(draft.batch, digests=(replace(first, digest=bytes(16)), *rest))
        forged.keep_digests = True

    forge(folder, busy(folder), edit)


@fault("live", forged=True)
def another_head(folder: Path, _: Patch) -> None:
    """The head of the tables says another digest."""
    store = opened(folder, busy(folder))
    try:
        with store.begin(write=True) as txn:
            head = heads.load(txn)
            total, rows = head.digests["urls"]
            heads.save(txn, replace(head, digests={**head.digests, "urls": (total, rows + 1)}))
            txn.commit()
    finally:
        store.close()


@fault("rows", forged=True, deep=True)
def a_row_by_hand(folder: Path, _: Patch) -> None:
    """A row of the tables was changed; its digest says nothing of it."""
    store = opened(folder, busy(folder))
    try:
        with store.begin(write=True) as txn:
            key, value = next(iter(txn.scan("urls")))
            txn.put("urls", key, replace(UrlRow.decode(value), priority=4).encode())
            txn.commit()
    finally:
        store.close()
