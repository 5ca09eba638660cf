"""Checks of the log, of inputs and of URLs, shown single decisions: what each of them lets pass and what not."""

import pytest
from msgspec.structs import replace

from frontlog.avro.enums import (
    FetchKind,
    HostEvent,
    Reason,
    SourceKind,
    State,
    Topic,
)
from frontlog.avro.events import (
    Batch,
    Discovery,
    Event,
    Merge,
    OwnershipTaken,
    Reject,
)
from frontlog.replay import checks_inputs, checks_log, checks_urls
from frontlog.replay.ledger import Decision, Input, Taken
from frontlog.replay.watch import Refused
from support.stage import (
    ASKED,
    CLAIM,
    CLOCK,
    FETCHED,
    HOST,
    NOW_MS,
    ORIGIN,
    RESULT,
    SEEN,
    URL,
    Stage,
)

# --- the log -----------------------------------------------------------------------------------------------------


def test_a_batch_that_begins_elsewhere_is_seen() -> None:
    stage = Stage(checks_log.Sequence)
    assert stage.show(SEEN) == []
    assert stage.show(SEEN, first_seq=9) == ["the batch says that it begins at 9; the one before ended at 2"]


def test_owners_follow_one_another() -> None:
    taken = OwnershipTaken(seq=1, owner_token=1, after_seq=0, partitions=4)
    stage = Stage(checks_log.Owners)
    assert stage.show(taken, replace(SEEN, owner_token=1), owner_token=1) == []
    told = stage.show(OwnershipTaken(seq=4, owner_token=3, after_seq=1, partitions=8), owner_token=2)
    assert told == [
        "token 3 was taken after 1",
        "taken after seq 1, but at seq 4",
        "8 partitions; the log has 4 pinned",
        "carries token 2; the owner's is 3",
    ]


def test_time_does_not_go_back_and_records_bear_that_of_their_batch() -> None:
    stage = Stage(checks_log.Times)
    assert stage.show(SEEN, at_ms=5) == []
    assert stage.show(at_ms=4) == ["goes back in time by 1 ms"]
    (one,) = [Decision(9, "transitions", 9, 3, SEEN, b"")]
    end = Decision(10, "ownership", 10, 6, Batch(at_ms=6), b"")
    stage.watch.opened(Taken([one], Batch(at_ms=6), end, {}, {}))
    assert stage.watch.problems[-1].what == "its record is of 3, its batch of 6"


# --- inputs ------------------------------------------------------------------------------------------------------


def test_causes_come_in_order_and_internal_ones_have_no_offset() -> None:
    stage = Stage(checks_inputs.Causes)
    assert stage.show(CLAIM, replace(SEEN, cause_topic="timer")) == [
        "its cause timer/0/-1 was decided after a later one"
    ]
    stage = Stage(checks_inputs.Causes)
    assert stage.show(replace(CLAIM, cause_offset=3)) == ["caused by claim, which has no offset 3"]


@pytest.mark.parametrize(
    ("event", "said"),
    [
        (None, "can't be decoded, and no record on rejects says so"),
        (RESULT, f"the result of {URL} (fence 1) was not decided"),
        (replace(RESULT, kind=FetchKind.ROBOTS), f"the result of {URL} (fence 1) was not decided"),
        (replace(RESULT, kind=FetchKind.ROBOTS, fence=0), f"the result of {URL} (fence 0) was not decided"),
        (
            Discovery(origin_key=ORIGIN, source_kind=SourceKind.PAGE, urls=(URL,)),
            f"{URL} did not become known",
        ),
        (
            Discovery(origin_key=ORIGIN, source_kind=SourceKind.PAGE, urls=("mailto:x",)),
            "mailto:x was not refused, and can't be known (bad_scheme)",
        ),
    ],
)
def test_an_input_without_a_consequence_is_lost(event: Event | None, said: str) -> None:
    stage = Stage(checks_inputs.Lost)
    assert stage.show(inputs=(event,)) == [said]  # type: ignore[arg-type]
    told = Stage(checks_inputs.Lost)
    told.scene.rejects[Topic.FETCH_RESULTS.value, 7] = []
    assert told.show(inputs=(event,)) == []  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("wish", "lost"),
    [
        (b'{"cmd":"pause"}', True),
        (b'{"cmd":"pause","target":{"partition":0}}', True),
        (b'{"cmd":"pause","target":{"partition":"3"}}', False),
        (b'{"cmd":"block","target":{"origin":"http://a.example"}}', True),
        (b'{"cmd":"block","target":{"host":"A.example"}}', True),
        (b'{"cmd":"seed","urls":[]}', False),
        (b'{"cmd":7}', False),
    ],
)
def test_a_wish_that_nobody_followed_is_lost(wish: bytes, lost: bool) -> None:
    stage = Stage(checks_inputs.Lost)
    stage.scene.inputs = {}
    one = Input(Topic.CONTROL.value, 1, 0, wish, None)
    stage.scene.inputs[one.topic, one.offset] = one
    stage.watch.closed(Taken([], Batch(), Decision(1, "ownership", 0, 0, Batch(), b""), {}, {}))
    assert bool(stage.watch.count) is lost


def test_a_refusal_holds_the_bytes_of_its_input() -> None:
    stage = Stage(checks_inputs.Rejects)
    place = Topic.FETCH_RESULTS.value, 7
    refusal = Reject(topic=place[0], partition=3, offset=7, reason=Reason.UNDECODABLE, value=b"other")
    stage.scene.rejects[place] = [Refused(0, refusal)]
    assert stage.show(inputs=(RESULT,)) == ["names partition 3", "holds other bytes than fetch-results/3/7"]


# --- URLs --------------------------------------------------------------------------------------------------------


def test_moves_start_where_a_url_is() -> None:
    stage = Stage(checks_urls.Transitions)
    assert stage.show(SEEN, CLAIM, FETCHED) == []
    told = stage.show(replace(SEEN, url="http://a.example/2", first=None), replace(SEEN, reason=Reason.OK))
    assert told == [
        "http://a.example/2 became known without a word on where it was found",
        f"DISCOVERED -> ELIGIBLE of {URL}, which is FETCHED",
        f"DISCOVERED -> ELIGIBLE for ok is no move of the table ({URL})",
    ]


def test_fences_grow_with_claims_alone() -> None:
    stage = Stage(checks_urls.Fences)
    assert stage.show(SEEN, CLAIM, FETCHED, inputs=(RESULT,)) == []
    again = replace(
        FETCHED, from_state=State.FETCHED, to_state=State.ELIGIBLE, reason=Reason.RECRAWL_DUE, fence=2
    )
    assert stage.show(again, inputs=(replace(RESULT, fence=9),)) == [
        "fence 1 -> 2 with FETCHED -> ELIGIBLE",
        f"a result moved {URL}, which had no lease",
        f"a result of {URL} with fence 9 moved {URL} with fence 1",
    ]


def test_a_page_may_be_merged_by_the_result_of_the_one_that_it_names() -> None:
    for into, told in ((URL + "0", 0), ("http://a.example/else", 2)):
        merged = replace(
            FETCHED, from_state=State.FETCHED, to_state=State.BLOCKED, reason=Reason.MERGED,
            merged=Merge(into=into, rules=("canonical",)), clock=None,
        )  # fmt: skip
        stage = Stage(checks_urls.Fences)
        stage.show(SEEN, CLAIM, FETCHED, inputs=(RESULT,))
        assert len(stage.show(merged, inputs=(replace(RESULT, url=URL + "0"),))) == told


def test_fences_of_hosts_grow_with_errands_alone() -> None:
    stage = Stage(checks_urls.Fences)
    ended = replace(
        ASKED,
        event=HostEvent.ERRAND_ENDED,
        clock=replace(CLOCK, fence=1),
        cause_topic="fetch-results",
        cause_offset=7,
    )
    answer = replace(RESULT, kind=FetchKind.ROBOTS)
    assert stage.show(ASKED, ended, inputs=(answer,)) == []
    other = replace(answer, fence=2)
    assert stage.show(replace(ended, clock=replace(CLOCK, fence=4)), inputs=(other,)) == [
        f"fence of {HOST} 1 -> 4 with errand_ended",
        f"a result with fence 2 ended another errand of {HOST}",
    ]


def test_leases_end_for_a_cause() -> None:
    given_back = replace(
        FETCHED, to_state=State.ELIGIBLE, reason=Reason.LEASE_EXPIRED, cause_topic="timer", cause_offset=-1
    )
    stage = Stage(checks_urls.Leases)
    assert stage.show(SEEN, CLAIM) == []
    assert stage.show(given_back) == [f"the lease ran out 90000 ms before its end ({URL})"]
    stage = Stage(checks_urls.Leases)
    stage.show(SEEN, CLAIM)
    assert stage.show(given_back, at_ms=NOW_MS + 90_000) == []
    stage = Stage(checks_urls.Leases)
    stage.show(SEEN, CLAIM)
    released = replace(given_back, cause_topic="start")
    assert stage.show(released) == [f"a lease was released, but nobody took the partition over ({URL})"]
    stage = Stage(checks_urls.Leases)
    stage.show(SEEN, CLAIM)
    assert stage.show(OwnershipTaken(owner_token=2), released) == []
    stage = Stage(checks_urls.Leases)
    stage.show(SEEN, CLAIM)
    assert stage.show(replace(given_back, cause_topic="discoveries", cause_offset=1)) == [
        f"a lease ended because of discoveries ({URL})"
    ]


def test_an_extension_is_one() -> None:
    stage = Stage(checks_urls.Leases)
    stage.show(SEEN, CLAIM)
    longer = replace(
        CLAIM, from_state=State.LEASED, reason=Reason.EXTENDED, deadline_ms=NOW_MS + 100_000, clock=None
    )
    assert stage.show(longer) == []
    assert stage.show(longer) == [f"an extension to {NOW_MS + 100_000} that is none ({URL})"]


def test_errands_end_at_their_deadline_too() -> None:
    stage = Stage(checks_urls.Leases)
    over = replace(ASKED, event=HostEvent.ERRAND_EXPIRED, clock=replace(CLOCK, fence=1), cause_topic="timer")
    stage.show(ASKED)
    assert stage.show(over) == [f"the lease ran out 90000 ms before its end (errand of {HOST})"]
