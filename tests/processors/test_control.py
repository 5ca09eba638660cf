"""Operators' wishes: what is followed, what is refused with words, what is passed on, and that it lasts."""

from typing import Any

import pytest
from msgspec.structs import replace

from frontlog.avro.enums import HostEvent, PolicyAct, Reason, ScopeKind, SourceKind, State, Topic
from frontlog.avro.events import Control, Discovery, OperatorPolicy, PartitionPaused
from frontlog.processors import control, partition
from frontlog.processors.sites import partition_of, site_of
from support.machine import Bench, Made

R, S, K = Reason, State, ScopeKind
URL = "http://a.example/x"


@pytest.mark.parametrize(
    ("data", "wish"),
    [
        (b'{"cmd": "pause"}', Control(cmd="pause", target_kind=K.CRAWL)),
        (b'{"cmd": "pause", "target": {}}', Control(cmd="pause", target_kind=K.CRAWL)),
        (b'{"cmd": "pause", "target": {"crawl": ""}}', Control(cmd="pause", target_kind=K.CRAWL)),
        (b'{"cmd": "block", "target": {"host": "a.example"}, "actor": "me", "reason": "why", "at_ms": 5}',
         Control(cmd="block", target_kind=K.HOST, target="a.example", actor="me", note="why", at_ms=5)),
        (b'{"cmd": "pause", "target": {"partition": 3}}', Control(cmd="pause", target_kind=K.PARTITION, target="3")),
        (b'{"cmd": "slow", "target": {"host": "a"}, "gap_ms": 7}',
         Control(cmd="slow", target_kind=K.HOST, target="a", gap_ms=7)),
        (b'{"cmd": "seed", "urls": ["http://a/", "x"], "event_id": "e"}',
         Control(cmd="seed", target_kind=K.CRAWL, urls=("http://a/", "x"), event_id="e")),
        (b'{"cmd": "recrawl", "target": {"url": "u"}}', Control(cmd="recrawl", target_kind=K.URL, target="u")),
    ],
)  # fmt: skip
def test_json(data: bytes, wish: Control) -> None:
    assert control.from_json(data) == wish


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"{", "not a control record"),
        (b"[]", "not a control record"),
        (b'{"target": {"host": "a"}}', "cmd"),
        (b'{"cmd": "pause", "hosts": "a"}', "hosts"),
        (b'{"cmd": "pause", "target": {"host": "a", "site": "b"}}', "target names 2 things"),
        (b'{"cmd": "pause", "target": {"planet": "mars"}}', "unknown target 'planet'"),
        (b'{"cmd": "pause", "target": "a.example"}', "target"),
        (b'{"cmd": "slow", "gap_ms": "fast"}', "gap_ms"),
        (b'{"cmd": "seed", "urls": "http://a/"}', "urls"),
        (b'{"cmd": 5}', "cmd"),
        (b'\xff\xfe{"cmd"}', "not a control record"),
        (b'{"cmd": "pause", "note": 1}', "note"),
    ],
)
def test_json_that_cannot_be_followed_says_why(data: bytes, told: str) -> None:
    with pytest.raises(control.BadControl, match=told):
        control.from_json(data)


@pytest.mark.parametrize(
    ("kind", "target", "canonical"),
    [
        (K.HOST, "A.Example.", "a.example"), (K.HOST, "bücher.example", "xn--bcher-kva.example"),
        (K.HOST, "127.1", "127.0.0.1"),
        (K.HOST, "[::1]", "[::1]"), (K.SITE, "www.a.example", "a.example"), (K.ORIGIN, "HTTP://a.example", "http://a.example:80"),
        (K.ORIGIN, "https://a.example:8443/path", "https://a.example:8443"), (K.PARTITION, "007", "7"), (K.CRAWL, "x", ""),
    ],
)  # fmt: skip
def test_targets_take_their_canonical_form(kind: ScopeKind, target: str, canonical: str) -> None:
    assert control.check(Control(cmd="pause", target_kind=kind, target=target)).target == canonical


@pytest.mark.parametrize(
    ("wish", "told"),
    [
        (Control(cmd="explode", target_kind=K.CRAWL), "unknown cmd 'explode'"),
        (Control(cmd="", target_kind=K.CRAWL), "unknown cmd"),
        (Control(cmd="seed", target_kind=K.CRAWL), "seed needs urls"),
        (Control(cmd="recrawl", target_kind=K.HOST, target="a"), "recrawl needs urls"),
        (Control(cmd="slow", target_kind=K.ORIGIN, target="http://a"), "slow takes a host"),
        (Control(cmd="slow", target_kind=K.HOST, target="a", gap_ms=-1), "gap_ms is -1"),
        (Control(cmd="slow", target_kind=K.HOST, target="a", gap_ms=86_400_001), "gap_ms is 86400001"),
        (Control(cmd="block", target_kind=K.URL, target=URL), "block takes"),
        (Control(cmd="pause", target_kind=K.PARTITION, target="x"), "partition 'x' is not a number"),
        (Control(cmd="pause", target_kind=K.PARTITION, target="9"), "partition 9 does not exist"),
        (Control(cmd="pause", target_kind=K.HOST, target=""), "host '' is not one"),
        (Control(cmd="pause", target_kind=K.HOST, target="a b"), "is not one"),
        (Control(cmd="pause", target_kind=K.ORIGIN, target="a.example"), "is not one"),
        (Control(cmd="pause", target_kind=K.PARTITION, target="9" * 5_000), "is not a number"),
        (Control(cmd="pause", target_kind=K.HOST, target="x" * 300), "is not one"),
        (Control(cmd="pause", target_kind=K.HOST, target="http://a.example/"), "give the name alone"),
        (Control(cmd="block", target_kind=K.HOST, target="a.example/private"), "give the name alone"),
        (Control(cmd="block", target_kind=K.SITE, target="me@a.example"), "give the name alone"),
        (Control(cmd="block", target_kind=K.HOST, target="a.example\\b"), "give the name alone"),
        (Control(cmd="slow", target_kind=K.HOST, target="a\n.example", gap_ms=1), "give the name alone"),
    ],
)
def test_a_wish_that_cannot_be_followed_is_a_reject_with_words(wish: Control, told: str) -> None:
    made = Bench().decide(wish, Topic.CONTROL)
    assert (made.decisions, made.rejects) == ([], [R.BAD_CONTROL])
    assert told in made.out(Topic.REJECTS)[0].detail


@pytest.mark.parametrize("cmd", ["pause", "resume", "block", "unblock"])
@pytest.mark.parametrize(
    ("kind", "target"),
    [
        (K.CRAWL, ""),
        (K.SITE, "a.example"),
        (K.HOST, "a.example"),
        (K.ORIGIN, "http://a.example:80"),
        (K.PARTITION, "0"),
    ],
)
def test_each_act_on_each_scope(cmd: str, kind: ScopeKind, target: str) -> None:
    bench = Bench()
    made = bench.control(cmd, target_kind=kind, target=target, note="because")
    event = made.decisions[0]
    if kind is K.PARTITION and cmd in ("pause", "resume"):
        assert isinstance(event, PartitionPaused)
        assert (event.paused, event.actor, event.note) == (cmd == "pause", "test", "because")
        assert partition.claims_paused(bench.tables) is (cmd == "pause")
        return
    assert isinstance(event, OperatorPolicy)
    assert (event.act, event.scope_kind, event.scope) == (PolicyAct.named(cmd), kind, target)
    assert (event.actor, event.note, event.cause_topic, event.cause_offset) == (
        "test",
        "because",
        Topic.CONTROL,
        0,
    )


def test_pauses_of_the_crawl_and_of_a_partition_are_two_things() -> None:
    bench = Bench()
    bench.control("pause", target_kind=K.CRAWL)
    bench.control("pause", target_kind=K.PARTITION, target="0")
    bench.control("resume", target_kind=K.CRAWL)
    assert partition.claims_paused(bench.tables)
    bench.control("resume", target_kind=K.PARTITION, target="0")
    assert not partition.claims_paused(bench.tables)


def test_a_block_of_a_partition_holds_for_all_of_it_until_it_or_the_crawls_ends() -> None:
    bench = Bench()
    bench.seed(URL)
    bench.control("block", target_kind=K.PARTITION, target="0")
    bench.seed("http://b.example/")
    assert bench.url("http://b.example/").reason is R.OPERATOR_BLOCK
    assert not bench.claims().leases and bench.url(URL).reason is R.OPERATOR_BLOCK
    bench.control("unblock", target_kind=K.CRAWL)
    bench.jobs()
    assert {bench.url(url).state for url in (URL, "http://b.example/")} == {S.ELIGIBLE}


# --- slow ----------------------------------------------------------------------------------------------------


def test_a_larger_gap_holds_from_now_on_and_a_smaller_one_from_the_next_request() -> None:
    bench = Bench()
    bench.page(bench.prepare(URL))
    made = bench.control("slow", target_kind=K.HOST, target="a.example", gap_ms=60_000)
    assert [m.event for m in made.host_moves] == [HostEvent.SLOWED]
    assert bench.host("a.example").next_eligible_ms == bench.now_ms + 60_000
    bench.control("slow", target_kind=K.HOST, target="a.example", gap_ms=0)
    host = bench.host("a.example")
    assert (host.operator_gap_ms, host.next_eligible_ms) == (0, bench.now_ms + 60_000)


def test_slowing_a_host_leaves_the_budget_of_its_address_alone() -> None:
    bench = Bench()
    bench.seed(URL)
    bench.answer(bench.claim())
    bench.control("pause", target_kind=K.HOST, target="a.example")
    bench.seed("http://b.example/x")
    bench.answer(bench.claim())
    assert bench.claim().host == "b.example"
    bench.control("slow", target_kind=K.HOST, target="a.example", gap_ms=1)
    bench.control("resume", target_kind=K.HOST, target="a.example")
    bench.now_ms += 60_000
    assert bench.claims().leases == [], "b.example's request is under way, at the same address"


def test_slowing_a_host_leaves_its_request_alone() -> None:
    bench = Bench()
    lease = bench.prepare(URL)
    bench.control("slow", target_kind=K.HOST, target="a.example", gap_ms=5_000)
    assert (bench.host("a.example").in_flight, bench.url(URL).fence) == (1, lease.fence)
    bench.page(lease)
    assert bench.host("a.example").next_eligible_ms == bench.now_ms + 5_000


def test_a_host_that_is_not_known_yet_is_slow_from_its_first_request() -> None:
    bench = Bench()
    bench.control("slow", target_kind=K.HOST, target="a.example", gap_ms=30_000)
    bench.seed(URL)
    bench.wait()
    bench.answer(bench.claim())
    bench.answer(bench.claim())
    assert bench.host("a.example").next_eligible_ms == bench.now_ms + 30_000


# --- seed and recrawl ----------------------------------------------------------------------------------------


def test_seeds_go_to_their_partitions_and_a_bad_one_stops_none() -> None:
    bench = Bench(partitions=4)
    made = bench.control(
        "seed", target_kind=K.CRAWL, urls=("http://a.example/%7E#x", "no url", "https://b.example")
    )
    assert made.rejects == [R.BAD_CONTROL]
    assert "'no url'" in made.out(Topic.REJECTS)[0].detail
    for emission, host in zip(made.emissions, ("a.example", "b.example"), strict=True):
        assert (emission.partition, emission.topic) == (partition_of(site_of(host), 4), Topic.DISCOVERIES)
        assert isinstance(emission.event, Discovery)
        assert (emission.event.source_kind, emission.event.depth) == (SourceKind.OPERATOR, 0)
    first = made.emissions[0].event
    assert isinstance(first, Discovery)
    assert (first.urls, first.raws) == (("http://a.example/%7E",), ("http://a.example/%7E#x",))
    assert made.emissions[0].event != made.emissions[1].event


@pytest.mark.parametrize("state", [s for s in S if s not in (S.NONE, S.DISCOVERED)], ids=lambda s: s.value)
def test_recrawl_of_each_state(state: State) -> None:
    bench = Bench()
    bench.seed(URL)
    bench.force(URL, state, attempts=9, failures=4)
    made = bench.control("recrawl", target_kind=K.URL, target=URL)
    if state in (S.ELIGIBLE, S.LEASED):
        assert made == Made(), "under way already"
    elif state is S.SUPPRESSED:
        assert made.rejects == [R.BAD_CONTROL]
    else:
        reason = R.POLICY_ALLOWS if state is S.BLOCKED else R.RECRAWL_FORCED
        assert made.moves == [(state, S.ELIGIBLE, reason)]
        assert (bench.url(URL).attempts, bench.url(URL).failures) == (0, 0)


def test_recrawl_says_what_it_cannot_do_and_does_the_rest() -> None:
    bench = Bench()
    bench.seed(URL, "http://b.example/x")
    bench.control("block", target_kind=K.HOST, target="b.example")
    for url in (URL, "http://b.example/x"):
        bench.force(url, S.FETCHED)
    made = bench.control(
        "recrawl", target_kind=K.CRAWL, urls=("http://a.example/unknown", "http://b.example/x", "no url", URL)
    )
    assert made.moves == [(S.FETCHED, S.ELIGIBLE, R.RECRAWL_FORCED)]
    details = [event.detail for event in made.out(Topic.REJECTS)]
    assert [d.rpartition(": ")[2] for d in details] == [
        "not known in this crawl; seed it first", "its host is blocked", "unparsable",
    ]  # fmt: skip


def test_recrawl_looks_the_host_up_again_where_that_was_refused() -> None:
    bench = Bench()
    bench.seed(URL)
    bench.answer(bench.claim(), address="", reason=R.BLOCKED_NETWORK)
    bench.claims()
    bench.control("recrawl", target_kind=K.URL, target=URL)
    assert bench.claim().kind.value == "resolve"


# --- other partitions ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fields",
    [
        {"cmd": "pause", "target_kind": K.HOST, "target": "a.example"},
        {"cmd": "block", "target_kind": K.SITE, "target": "a.example"},
        {"cmd": "unblock", "target_kind": K.ORIGIN, "target": "http://a.example:80"},
        {"cmd": "slow", "target_kind": K.HOST, "target": "a.example", "gap_ms": 9},
        {"cmd": "recrawl", "target_kind": K.CRAWL, "urls": (URL,)},
    ],
)
def test_a_wish_in_the_wrong_partition_is_passed_on(fields: dict[str, Any]) -> None:
    home = partition_of(site_of("a.example"), 4)
    bench = Bench(partition=(home + 1) % 4, partitions=4)
    made = bench.decide(Control(**fields), Topic.CONTROL)
    assert (made.decisions, made.outputs) == ([], [])
    (emission,) = made.emissions
    assert (emission.partition, emission.topic) == (home, Topic.CONTROL)
    assert isinstance(emission.event, Control)
    assert replace(emission.event, urls=fields.get("urls", ())).cmd == fields["cmd"]


@pytest.mark.parametrize(
    ("wish", "partitions"),
    [
        (Control(cmd="pause", target_kind=K.CRAWL), [0, 1, 2, 3]),
        (Control(cmd="pause", target_kind=K.PARTITION, target="2"), [2]),
        (Control(cmd="pause", target_kind=K.SITE, target="a.example"), [partition_of("a.example", 4)]),
        (Control(cmd="pause", target_kind=K.HOST, target="www.a.example"), [partition_of("a.example", 4)]),
        (
            Control(cmd="pause", target_kind=K.ORIGIN, target="http://x.a.example:80"),
            [partition_of("a.example", 4)],
        ),
    ],
)
def test_whom_a_wish_concerns(wish: Control, partitions: list[int]) -> None:
    assert control.partitions_of(wish, 4) == partitions
