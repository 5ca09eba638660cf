"""A robots.txt that redirects: each hop waits for its own host, the answer counts for the asking origin only, and none
is ever lost or waited for without end."""

from typing import Any

import pytest

from frontlog.avro.enums import FetchKind, HostEvent, Reason, RobotsState, ScopeKind, State, Topic
from frontlog.avro.events import Errand, ErrandRequest, RobotsPolicy
from frontlog.processors import robots_policy
from frontlog.processors.leased import Lease
from frontlog.processors.sites import partition_of, site_of
from frontlog.state import keys
from support.machine import ADDRESS, NOW_MS, Bench, Made

R, RS = Reason, RobotsState
ORIGIN = "http://a.example:80"
RULES = b"User-agent: *\nDisallow: /private\n"


def redirected(
    location: str, *, partitions: int = 1, partition: int = 0, **fields: Any
) -> tuple[Bench, Made]:
    """A bench whose origin's robots.txt was answered with a redirect."""
    bench = Bench(partition=partition, partitions=partitions)
    bench.seed("http://a.example/x")
    bench.answer(bench.claim())
    return bench, bench.answer(bench.claim(), status=301, location=location, **fields)


def policies(made: Made) -> list[RobotsPolicy]:
    return [d for d in made.decisions if isinstance(d, RobotsPolicy)]


def hop(bench: Bench) -> Lease:
    """The hop's lease, once its time has come; its host is looked up first."""
    for _ in range(3):
        bench.wait()
        lease = bench.claim()
        if lease.kind is FetchKind.ROBOTS:
            return lease
        bench.answer(lease, address="203.0.113.9")
    raise AssertionError("no hop")


@pytest.mark.parametrize(
    ("location", "url", "host"),
    [
        ("/robots2.txt", "http://a.example/robots2.txt", "a.example"),
        ("https://a.example/robots.txt", "https://a.example/robots.txt", "a.example"),
        ("//A.example./r", "http://a.example./r", "a.example"),
        ("http://b.example/r#f", "http://b.example/r", "b.example"),
    ],
)
def test_a_hop_waits_for_its_own_host(location: str, url: str, host: str) -> None:
    bench, made = redirected(location)
    assert [m.event for m in made.host_moves] == [HostEvent.ERRAND_ENDED, HostEvent.ERRAND_WANTED]
    (pending,) = policies(made)
    assert (pending.state, pending.renewal, pending.reason) == (RS.UNKNOWN, True, R.REDIRECTED)
    assert (bench.host("a.example").in_flight, bench.host("a.example").errand) == (0, b""), "its slot is free"
    budget = bench.tables.addresses.get(ADDRESS.encode())
    assert budget is not None
    assert budget.in_flight == 0
    assert bench.host(host).errands_wanted == 1
    assert host != "a.example" or bench.host(host).ready_ms == NOW_MS + 1_000, (
        "behind the gap of the first hop"
    )
    lease = hop(bench)
    assert (lease.requested, lease.host, lease.origin_key) == (url, host, ORIGIN)
    assert lease.chain == ("http://a.example/robots.txt",)
    assert (bench.host(host).errands_wanted, bench.host(host).in_flight) == (1, 1)
    (answer,) = policies(bench.answer(lease, robots_txt=RULES))
    assert (answer.origin_key, answer.state, answer.source_url) == (ORIGIN, RS.RULES, url)
    assert bench.host(host).errands_wanted == 0
    assert bench.page_lease().url == "http://a.example/x"


def test_the_answer_counts_for_the_asking_origin_only() -> None:
    bench, _ = redirected("http://b.example/robots.txt")
    bench.seed("http://b.example/private/y")
    bench.answer(hop(bench), robots_txt=RULES)
    assert bench.origin(ORIGIN).robots_state is RS.RULES
    assert bench.origin("http://b.example:80").robots_state is RS.UNKNOWN


def test_five_redirects_are_followed_and_a_sixth_is_no_file() -> None:
    bench, made = redirected("/1")
    for n in range(2, 7):
        lease = hop(bench)
        assert len(lease.chain) == n - 1
        made = bench.answer(lease, status=302, location=f"/{n}")
    (answer,) = policies(made)
    assert (answer.state, answer.reason) == (RS.ALLOW_ALL, R.TOO_MANY_REDIRECTS)
    assert bench.host("a.example").errands_wanted == 0


def test_a_loop_is_no_file() -> None:
    bench, _ = redirected("/1")
    made = bench.answer(hop(bench), status=302, location="/robots.txt")
    assert (policies(made)[0].state, policies(made)[0].reason) == (RS.ALLOW_ALL, R.REDIRECT_LOOP)


def test_what_is_in_force_stays_while_a_hop_is_under_way() -> None:
    bench = Bench()
    bench.page(bench.prepare("http://a.example/x", RULES))
    bench.seed("http://a.example/y", "http://a.example/private/z")
    bench.now_ms = bench.origin(ORIGIN).robots_expires_ms
    made = bench.answer(hop(bench), status=301, location="http://b.example/r")
    (pending,) = policies(made)
    assert (pending.state, pending.renewal) == (RS.RULES, True)
    assert bench.origin(ORIGIN).robots_expires_ms == bench.now_ms + robots_policy.HOP_WAIT_MS
    pages: set[str] = set()
    for _ in range(4):
        bench.now_ms += 1_000
        for lease in bench.claims().leases:
            if lease.kind is FetchKind.RESOLVE:
                bench.answer(
                    lease, address=f"192.0.2.{len(lease.url)}" if "b.example" in lease.url else ADDRESS
                )
            pages |= {lease.url} if lease.kind is FetchKind.PAGE else set()
    assert pages == {"http://a.example/y"}


def test_a_crawl_delay_that_is_believed_again_while_a_hop_is_under_way_holds_from_then() -> None:
    bench = Bench()
    bench.page(bench.prepare("http://a.example/x", b"User-agent: *\nCrawl-delay: 30\n"))
    bench.now_ms = bench.origin(ORIGIN).robots_expires_ms
    bench.seed("https://a.example/x")
    bench.answer(hop(bench), status=404)
    assert bench.host("a.example").crawl_delay_ms == 0, "the file that told it is out of date"
    bench.force("https://a.example/x", State.FETCHED)
    bench.seed("http://a.example/y")
    bench.answer(hop(bench), status=301, location="/r")
    host = bench.host("a.example")
    assert (host.crawl_delay_ms, host.next_eligible_ms) == (30_000, bench.now_ms + 30_000)


# --- hops that come to nothing -------------------------------------------------------------------------------


@pytest.mark.parametrize("event", ["released", "address_changed", "restart"])
def test_a_hop_that_was_not_made_is_made_again(event: str) -> None:
    bench, _ = redirected("http://b.example/r")
    lease = hop(bench)
    if event == "restart":
        bench.release()
    else:
        bench.answer(lease, status=0, reason=R.named(event), address="")
    assert bench.host("b.example").errands_wanted == 1
    again = hop(bench)
    assert (again.requested, again.chain, again.fence > lease.fence) == (lease.requested, lease.chain, True)
    assert policies(bench.answer(again, robots_txt=b""))[0].state is RS.RULES


def test_a_hop_that_hangs_is_no_answer_and_frees_its_host() -> None:
    bench, _ = redirected("http://b.example/r")
    lease = hop(bench)
    bench.now_ms = lease.deadline_ms
    (answer,) = policies(bench.sweep())
    assert (answer.origin_key, answer.state, answer.reason) == (ORIGIN, RS.UNREACHABLE, R.LEASE_EXPIRED)
    host = bench.host("b.example")
    assert (host.errands_wanted, host.in_flight, host.errand) == (0, 0, b"")


@pytest.mark.parametrize("reason", [R.BLOCKED_NETWORK, R.DNS_FAILED])
def test_a_hop_whose_host_has_no_address_is_no_answer(reason: Reason) -> None:
    bench, _ = redirected("http://b.example/r")
    looks = 0
    answers: list[RobotsPolicy] = []
    while not answers:
        bench.wait()
        made = bench.claims()
        answers = policies(made)
        for lease in made.leases:
            looks += 1
            assert lease.kind is FetchKind.RESOLVE
            bench.answer(lease, address="", reason=reason)
    assert [(a.origin_key, a.state, a.reason) for a in answers] == [(ORIGIN, RS.UNREACHABLE, reason)]
    assert looks == (4 if reason is R.DNS_FAILED else 1)
    assert bench.host("b.example").errands_wanted == 0
    assert bench.now_ms < NOW_MS + robots_policy.HOP_WAIT_MS, "before the origin stops waiting"


@pytest.mark.parametrize(
    ("kind", "target"),
    [(ScopeKind.SITE, "b.example"), (ScopeKind.HOST, "b.example"), (ScopeKind.ORIGIN, "http://b.example:80")],
)
@pytest.mark.parametrize("cmd", ["block", "pause"])
def test_a_hop_to_what_may_not_be_asked_is_not_made(kind: ScopeKind, target: str, cmd: str) -> None:
    bench, _ = redirected("http://b.example/r")
    bench.control(cmd, target_kind=kind, target=target)
    bench.jobs()
    if cmd == "pause" and kind is ScopeKind.HOST:
        assert bench.host("b.example").ready_ms == -1, (
            "a paused host has no turn; the origin asks again later"
        )
        return
    made = bench.claims()
    assert made.leases == []
    (answer,) = policies(made)
    assert (answer.state, answer.reason) == (RS.UNREACHABLE, R.OPERATOR_BLOCK if cmd == "block" else R.PAUSED)
    assert bench.host("b.example").errands_wanted == 0


def test_an_origin_whose_hop_is_never_answered_asks_from_the_start_again() -> None:
    bench, _ = redirected("http://b.example/r")
    bench.control("pause", target_kind=ScopeKind.HOST, target="b.example")
    bench.wait()
    assert bench.now_ms == NOW_MS + robots_policy.HOP_WAIT_MS
    assert bench.claim().requested == "http://a.example/robots.txt"


def test_a_hop_wakes_a_host_that_was_put_off() -> None:
    """A host that waits a day for another Crawl-delay has its gap behind it."""
    bench = Bench()
    bench.seed("http://b.example/y")
    bench.answer(bench.claim(), address="203.0.113.9")
    bench.answer(bench.claim(), robots_txt=b"User-agent: *\nCrawl-delay: 9999\n")
    bench.wait()
    assert bench.claims().host_moves[0].reason is R.CRAWL_DELAY_TOO_LONG
    bench.seed("http://a.example/x")
    bench.answer(bench.claim())
    bench.answer(bench.claim(), status=301, location="http://b.example/r")
    assert hop(bench).requested == "http://b.example/r"
    assert bench.now_ms < NOW_MS + 2 * 3_600_000


# --- other partitions ----------------------------------------------------------------------------------------

ELSEWHERE = next(
    name for name in (f"h{n}.example" for n in range(99))
    if partition_of(site_of(name), 2) != partition_of(site_of("a.example"), 2)
)  # fmt: skip
HOME = partition_of(site_of("a.example"), 2)


def emitted(made: Made) -> Any:
    (emission,) = made.emissions
    return emission


def test_a_hop_of_another_partition_goes_there_and_its_answer_comes_back() -> None:
    asking, made = redirected(f"http://{ELSEWHERE}/r", partitions=2, partition=HOME)
    sent = emitted(made)
    assert (sent.partition, sent.topic) == (1 - HOME, Topic.DISCOVERIES)
    assert isinstance(sent.event, ErrandRequest)
    asked = Bench(partition=1 - HOME, partitions=2)
    asked.decide(sent.event)
    lease = hop(asked)
    assert (lease.origin_key, lease.asker, lease.partition) == (ORIGIN, HOME, 1 - HOME)
    asked.now_ms += 20
    made = asked.answer(lease, robots_txt=b"User-agent: *\nCrawl-delay: 9\n")
    assert policies(made) == [], "the answer is not its own to decide"
    assert asked.tables.origins.get(keys.origin_id(ORIGIN)) is None
    back = emitted(made)
    assert (back.partition, back.topic, back.event.fence) == (
        HOME,
        Topic.FETCH_RESULTS,
        robots_policy.ANSWER_ONLY,
    )
    asking.now_ms = asked.now_ms
    made = asking.decide(back.event, Topic.FETCH_RESULTS)
    assert policies(made)[0].state is RS.RULES
    host = asking.host("a.example")
    assert (host.crawl_delay_ms, host.next_eligible_ms) == (9_000, asking.now_ms + 9_000)
    before = asking.tables.digest_values()
    assert asking.decide(back.event, Topic.FETCH_RESULTS) == Made(), (
        "a repeat changes nothing, counters included"
    )
    assert asking.tables.digest_values() == before


def test_an_unreachable_answer_that_comes_twice_counts_once() -> None:
    asking, made = redirected(f"http://{ELSEWHERE}/r", partitions=2, partition=HOME)
    asked = Bench(partition=1 - HOME, partitions=2)
    asked.decide(emitted(made).event)
    back = emitted(asked.answer(hop(asked), status=500))
    asking.now_ms = asked.now_ms
    for _ in range(3):
        asking.decide(back.event, Topic.FETCH_RESULTS)
    assert asking.origin(ORIGIN).robots_failures == 1


def test_a_wish_that_comes_twice_is_one_errand() -> None:
    _, made = redirected(f"http://{ELSEWHERE}/r", partitions=2, partition=HOME)
    asked = Bench(partition=1 - HOME, partitions=2)
    for _ in range(3):
        asked.decide(emitted(made).event)
    assert asked.host(ELSEWHERE).errands_wanted == 1


def test_a_wish_for_what_is_no_url_is_a_reject() -> None:
    request = ErrandRequest(kind=FetchKind.ROBOTS, url="http://[", origin_key=ORIGIN)
    assert Bench().decide(request).rejects == [R.UNPARSABLE]


def test_a_wished_errand_of_an_unknown_host_makes_it_known() -> None:
    bench = Bench()
    errand = Errand(kind=FetchKind.ROBOTS, url="http://new.example/r", origin_key=ORIGIN)
    bench.decide(ErrandRequest(kind=errand.kind, url=errand.url, origin_key=ORIGIN))
    assert bench.host("new.example").ready_ms >= 0
