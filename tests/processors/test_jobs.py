"""Long work in bounded steps: a new policy reaches every URL that it concerns, however many origins there are."""

import pytest

from frontlog.avro.enums import Reason, ScopeKind, SourceKind, State, Topic
from frontlog.avro.events import CursorMoved
from frontlog.processors import jobs
from frontlog.processors.settings import Scope, Settings
from support.machine import Bench

R, S = Reason, State
SCOPES = [
    (ScopeKind.CRAWL, ""), (ScopeKind.SITE, "a.example"), (ScopeKind.HOST, "a.example"),
    (ScopeKind.ORIGIN, "http://a.example:80"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "target"), SCOPES)
def test_a_block_takes_back_what_was_given_out_and_its_end_brings_it_again(
    kind: ScopeKind, target: str
) -> None:
    bench = Bench()
    bench.page(bench.prepare("http://a.example/x"))
    bench.control("block", target_kind=kind, target=target)
    done = bench.jobs()
    assert done.moves == [(S.FETCHED, S.BLOCKED, R.OPERATOR_BLOCK)]
    assert [e.url for e in done.out(Topic.REMOVED)] == ["http://a.example/x"]
    bench.control("unblock", target_kind=kind, target=target)
    assert bench.jobs().moves == [(S.BLOCKED, S.ELIGIBLE, R.POLICY_ALLOWS)]
    bench.wait()
    assert bench.claim().url == "http://a.example/x"


@pytest.mark.parametrize(("kind", "target"), [scope for scope in SCOPES if scope[0] is not ScopeKind.CRAWL])
def test_a_block_concerns_its_scope_only(kind: ScopeKind, target: str) -> None:
    bench = Bench()
    for url in ("http://a.example/x", "http://www.a.example/x", "https://a.example/x", "http://b.example/x"):
        bench.seed(url)
    while bench.tables.ready.first() is not None:
        bench.wait()
        for lease in bench.claims().leases:
            bench.page(lease) if lease.kind.value == "page" else bench.answer(
                lease, address=f"192.0.2.{len(lease.host)}"
            )
    bench.control("block", target_kind=kind, target=target)
    taken = {event.url for event in bench.jobs().out(Topic.REMOVED)}
    expected = {
        ScopeKind.SITE: {"http://a.example/x", "http://www.a.example/x", "https://a.example/x"},
        ScopeKind.HOST: {"http://a.example/x", "https://a.example/x"},
        ScopeKind.ORIGIN: {"http://a.example/x"},
    }
    assert taken == expected[kind]


def many(hosts: int, urls_each: int) -> Bench:
    """A bench with URLs of many hosts that are out of scope."""
    bench = Bench()
    for n in range(hosts):
        bench.links(*(f"http://h{n}.example/{m}" for m in range(urls_each)))
    return bench


@pytest.mark.parametrize(
    ("hosts", "urls_each"), [(1, 0), (3, 499), (2, 500), (499, 1), (500, 1), (501, 1), (1_100, 1)]
)
def test_a_job_reaches_every_url_in_steps_of_bounded_size(hosts: int, urls_each: int) -> None:
    bench = many(hosts, urls_each) if urls_each else Bench()
    bench.control("block", target_kind=ScopeKind.CRAWL)
    bench.jobs()
    bench.configure(Settings(scope=Scope(mode="any")))
    bench.control("unblock", target_kind=ScopeKind.CRAWL)
    brought = steps = 0
    while jobs.pending(bench.tables):
        ctx = bench.context("timer")
        made = bench.make(jobs.step_all(bench.tables, ctx), ctx)
        brought += sum(not isinstance(event, CursorMoved) for event in made.decisions)
        steps += 1
        assert brought <= steps * jobs.ROWS_A_STEP
        assert steps < 50, "a job goes round in circles"
    assert brought == hosts * urls_each


def test_a_site_far_behind_others_is_reached() -> None:
    """A job over a site looks at every origin of the partition, since they don't lie together."""
    bench = many(700, 1)
    bench.links("http://www.far.example/", "http://www.far.example/2", kind=SourceKind.SEED, depth=0)
    bench.control("block", target_kind=ScopeKind.SITE, target="far.example")
    bench.jobs()
    bench.claims()
    assert bench.url("http://www.far.example/").state is S.BLOCKED
    bench.control("unblock", target_kind=ScopeKind.SITE, target="far.example")
    assert len(bench.jobs().moves) == 2


def test_a_job_that_is_started_again_begins_anew() -> None:
    bench = many(600, 1)
    bench.control("unblock", target_kind=ScopeKind.CRAWL)
    ctx = bench.context("timer")
    bench.make(jobs.step_all(bench.tables, ctx), ctx)
    ((_, position),) = jobs.pending(bench.tables)
    assert position > jobs.START
    bench.control("block", target_kind=ScopeKind.CRAWL)
    ((_, position),) = jobs.pending(bench.tables)
    assert position == jobs.START


def test_what_another_reason_keeps_blocked_stays() -> None:
    bench = Bench()
    bench.seed("http://a.example/x")
    bench.answer(bench.claim(), address="", reason=R.BLOCKED_NETWORK)
    bench.claims()
    assert bench.url("http://a.example/x").reason is R.BLOCKED_NETWORK
    bench.control("unblock", target_kind=ScopeKind.HOST, target="a.example")
    assert bench.jobs().moves == []


def test_other_settings_are_a_new_policy_for_every_url() -> None:
    bench = Bench(Settings(scope=Scope(mode="any", exclude=("/x",))))
    bench.links("http://a.example/x", "http://a.example/y", depth=1)
    assert bench.url("http://a.example/x").state is S.BLOCKED
    lease = bench.page_lease()
    bench.page(lease)
    bench.configure(Settings(scope=Scope(mode="any", exclude=("/y",))))
    done = bench.jobs()
    assert sorted(done.moves) == [
        (S.BLOCKED, S.ELIGIBLE, R.POLICY_ALLOWS), (S.FETCHED, S.BLOCKED, R.OUT_OF_SCOPE),
    ]  # fmt: skip
    assert [e.url for e in done.out(Topic.REMOVED)] == ["http://a.example/y"]


def test_equal_settings_are_no_new_policy() -> None:
    bench = Bench(Settings())
    assert bench.configure(Settings()).decisions == []
    first = Bench().configure(Settings())
    assert len(first.decisions) == 1, "the first settings have nothing to look at"


def test_a_spent_budget_is_not_lifted_by_a_new_version() -> None:
    bench = Bench(Settings(scope=Scope(pages_per_host_max=1)))
    bench.page(bench.prepare("http://a.example/x"))
    bench.seed("http://a.example/y")
    bench.wait()
    bench.claims()
    bench.control("unblock", target_kind=ScopeKind.HOST, target="a.example")
    assert bench.jobs().moves == []
    bench.configure(Settings())
    assert bench.jobs().moves == [(S.BLOCKED, S.ELIGIBLE, R.POLICY_ALLOWS)]


@pytest.mark.parametrize(("kind", "target"), SCOPES[1:])
def test_resuming_gives_a_host_that_was_put_off_its_turn_back(kind: ScopeKind, target: str) -> None:
    bench = Bench()
    bench.seed("http://a.example/x")
    bench.control("pause", target_kind=kind, target=target)
    bench.claims()
    bench.now_ms += 5_000
    bench.control("resume", target_kind=kind, target=target)
    bench.jobs()
    assert bench.host("a.example").ready_ms <= bench.now_ms


def test_a_host_with_another_pause_stays_put_off() -> None:
    bench = Bench()
    bench.seed("http://a.example/x")
    for kind, target in SCOPES[1:2] + SCOPES[3:]:
        bench.control("pause", target_kind=kind, target=target)
    bench.claims()
    bench.control("resume", target_kind=SCOPES[1][0], target=SCOPES[1][1])
    bench.jobs()
    assert bench.claims().leases == []
    bench.control("resume", target_kind=SCOPES[3][0], target=SCOPES[3][1])
    bench.jobs()
    assert len(bench.claims().leases) == 1


def test_waking_a_host_leaves_the_budget_of_its_address_alone() -> None:
    bench = Bench()
    bench.seed("http://a.example/x")
    bench.answer(bench.claim())
    bench.control("pause", target_kind=ScopeKind.SITE, target="a.example")
    assert bench.claims().leases == []
    assert bench.host("a.example").parked
    bench.seed("http://b.example/x")
    bench.answer(bench.claim())
    assert bench.claim().host == "b.example"
    bench.control("resume", target_kind=ScopeKind.SITE, target="a.example")
    bench.jobs()
    assert bench.claims().leases == [], "b.example's request is under way, at the same address"
