"""Inputs at the door: what doesn't fit is refused with words before it can stop a batch; the rest finds its partition."""

from typing import Any

import pytest
from msgspec.structs import replace

from frontlog.avro.enums import FetchKind, Reason, ScopeKind, SourceKind, State, Topic, Verdict
from frontlog.avro.events import (
    BodyRef,
    Candidate,
    ContentVerdict,
    Control,
    Discovery,
    ErrandRequest,
    Event,
    FetchResult,
    LeaseExtension,
    ParseFacts,
    Transition,
)
from frontlog.processors import inputs, machine
from frontlog.processors.sites import partition_of, site_of
from support.machine import Bench

ORIGIN = "http://a.example:80"
URL = "http://a.example/x"
HOME = partition_of(site_of("a.example"), 4)
DISCOVERY = Discovery(
    origin_key=ORIGIN,
    source_kind=SourceKind.PAGE,
    urls=(URL,),
    raws=("",),
    anchors=("",),
    rels=("",),
    priority=2,
)
RESULT = FetchResult(
    kind=FetchKind.PAGE, origin_key=ORIGIN, host="a.example", url=URL, reason=Reason.OK, fence=1, status=200
)
CANDIDATE = Candidate(origin_key=ORIGIN, url=URL, text_sha256=b"x" * 32)
VERDICT = ContentVerdict(verdict=Verdict.NEW, candidate=CANDIDATE)
EXTENSION = LeaseExtension(origin_key=ORIGIN, url=URL, fence=1, deadline_ms=5)
REQUEST = ErrandRequest(kind=FetchKind.ROBOTS, url=f"{URL}?r", origin_key=ORIGIN)
CONTROL = Control(cmd="pause", target_kind=ScopeKind.CRAWL)
GOOD: tuple[Event, ...] = (DISCOVERY, RESULT, CANDIDATE, VERDICT, EXTENSION, REQUEST, CONTROL)


@pytest.mark.parametrize("event", GOOD, ids=lambda e: type(e).__name__)
def test_what_is_right_passes(event: Event) -> None:
    assert inputs.fault(event, 4) == ""


@pytest.mark.parametrize(
    ("event", "fields", "told"),
    [
        (DISCOVERY, {"raws": ()}, "columns of different lengths"),
        (DISCOVERY, {"rels": ("", "")}, "columns of different lengths"),
        (
            DISCOVERY,
            dict.fromkeys(("urls", "raws", "anchors", "rels"), ("",) * 501),
            "501 links; at most 500",
        ),
        (DISCOVERY, {"priority": -1}, "priority -1"),
        (DISCOVERY, {"priority": 5}, "priority 5"),
        (DISCOVERY, {"depth": -1}, "depth -1"),
        (DISCOVERY, {"depth": 65_536}, "depth 65536"),
        (DISCOVERY, {"chain": ("a\nb",)}, "chain"),
        (DISCOVERY, {"chain": ("u",) * 17}, "chain"),
        (RESULT, {"status": -1}, "status -1"),
        (RESULT, {"status": 1_000}, "status 1000"),
        (RESULT, {"total_ms": -1}, "negative"),
        (RESULT, {"started_ms": -1}, "negative"),
        (RESULT, {"ended_ms": -1}, "negative"),
        (RESULT, {"fence": -1}, "negative"),
        (RESULT, {"asker": 4}, "asker 4"),
        (RESULT, {"asker": -1}, "asker -1"),
        (RESULT, {"body": BodyRef(offset=-1)}, "body reference"),
        (RESULT, {"body": BodyRef(length=1 << 32)}, "body reference"),
        (RESULT, {"parse": ParseFacts(links_out=-1)}, "-1 links"),
        (RESULT, {"parse": ParseFacts(links_out=1 << 32)}, "links"),
        (RESULT, {"chain": ("\n",)}, "chain"),
        (CANDIDATE, {"text_sha256": b""}, "text_sha256 of 0 bytes"),
        (CANDIDATE, {"partition": -1}, "partition -1"),
        (CANDIDATE, {"body": BodyRef(length=-1)}, "body reference"),
        (VERDICT, {"candidate": replace(CANDIDATE, text_sha256=b"x")}, "text_sha256 of 1 bytes"),
        (EXTENSION, {"deadline_ms": -1}, "deadline"),
        (REQUEST, {"asker": 9}, "asker 9"),
        (REQUEST, {"chain": ("\n",)}, "chain"),
    ],
)
def test_what_does_not_fit_is_a_reject_that_says_why(event: Event, fields: dict[str, Any], told: str) -> None:
    wrong = replace(event, **fields)
    assert told in inputs.fault(wrong, 4)
    bench = Bench(partition=HOME, partitions=4)
    before = bench.tables.digest_values()
    made = bench.decide(wrong)
    assert (made.decisions, made.emissions, made.rejects) == ([], [], [Reason.UNDECODABLE])
    assert told in made.out(Topic.REJECTS)[0].detail
    assert bench.tables.digest_values() == before


@pytest.mark.parametrize(
    "event", [e for e in GOOD if e not in (CONTROL, VERDICT)], ids=lambda e: type(e).__name__
)
@pytest.mark.parametrize(
    "origin_key",
    [
        "", "a.example", "http://a.example", "http://a.example:", "http://a.example:0", "http://a.example:65536",
        "http://a.example:80/", "ftp://a.example:21", "http://:80", "http://u@a.example:80", "http://a b:80",
        f"http://{'x' * 254}:80", "http://a.example:80\n", "http://[::1:80", "http://a.example:８０",
    ],
)  # fmt: skip
def test_what_is_no_origin_key_is_refused(event: Event, origin_key: str) -> None:
    assert "origin_key" in inputs.fault(replace(event, origin_key=origin_key), 4)


@pytest.mark.parametrize(
    "origin_key",
    ["http://a.example:80", "https://[2001:db8::1]:8443", "http://127.0.0.1:1", f"http://{'x' * 253}:65535"],
)
def test_origin_keys(origin_key: str) -> None:
    assert inputs.is_origin_key(origin_key)


@pytest.mark.parametrize(
    "event", [e for e in GOOD if e not in (CONTROL, CANDIDATE)], ids=lambda e: type(e).__name__
)
def test_an_input_of_another_partition_is_passed_on_never_dropped(event: Event) -> None:
    bench = Bench(partition=(HOME + 1) % 4, partitions=4)
    made = bench.decide(event, Topic.FETCH_RESULTS)
    assert (made.decisions, made.outputs) == ([], [])
    assert [(e.partition, e.topic, e.event) for e in made.emissions] == [(HOME, Topic.FETCH_RESULTS, event)]


def test_an_errands_result_goes_to_who_was_asked_and_an_answer_to_who_asks() -> None:
    hop = replace(RESULT, kind=FetchKind.ROBOTS, host="b.example", asker=2)
    assert inputs.home(hop, 4) == partition_of("b.example", 4)
    assert inputs.home(replace(hop, fence=0), 4) == 2
    assert inputs.home(replace(hop, kind=FetchKind.RESOLVE), 4) == partition_of("b.example", 4)


@pytest.mark.parametrize(
    "event", [CONTROL, CANDIDATE, replace(REQUEST, url="http://[")], ids=lambda e: type(e).__name__
)
def test_some_inputs_are_for_whoever_gets_them(event: Event) -> None:
    assert inputs.home(event, 4) is None


@pytest.mark.parametrize("event", GOOD, ids=lambda e: type(e).__name__)
def test_an_input_is_no_decision(event: Event) -> None:
    assert not machine.is_decision(event)


def test_a_decision_is_no_input() -> None:
    event = Transition(from_state=State.DISCOVERED, to_state=State.ELIGIBLE, reason=Reason.ADMITTED)
    assert machine.is_decision(event)
    made = Bench().decide(event)
    assert (made.decisions, made.rejects) == ([], [Reason.UNDECODABLE])


def test_a_reject_holds_the_beginning_of_what_is_long() -> None:
    made = Bench().decide(replace(CONTROL, cmd="seed", urls=("é" * 100_000,)), Topic.CONTROL)
    (reject,) = made.out(Topic.REJECTS)
    assert len(reject.detail) == 2_048
