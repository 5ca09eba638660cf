"""A partition as a whole: its owner, its pauses, and the leases that a former owner left."""

import pytest

from frontlog.avro.enums import FetchKind, HostEvent, Reason, State
from frontlog.avro.events import OwnershipTaken
from frontlog.processors import partition
from frontlog.state import keys
from support.machine import NOW_MS, Bench

R, S = Reason, State


def taken(**fields: int) -> OwnershipTaken:
    base = {"seq": 8, "after_seq": 7, "owner_token": 3}
    return OwnershipTaken(**{**base, **fields}, partitions=4, psl_version="psl 1")  # type: ignore[arg-type]


def owned() -> Bench:
    bench = Bench()
    bench.tables.head = type(bench.tables.head)(seq=7, owner_token=2)
    return bench


def test_taking_over_pins_what_the_log_was_made_with() -> None:
    bench = owned()
    partition.apply_taken(bench.tables, taken())
    head = bench.tables.head
    assert (head.owner_token, head.partitions, head.psl_version) == (3, 4, "psl 1")


@pytest.mark.parametrize(
    "fields", [{"owner_token": 2}, {"owner_token": 4}, {"owner_token": 1}, {"after_seq": 6}, {"seq": 9}]
)
def test_tokens_grow_by_one_and_seqs_have_no_gap(fields: dict[str, int]) -> None:
    """Seed 000, invariant 10: token 41 after 42 is refused."""
    with pytest.raises(AssertionError):
        partition.apply_taken(owned().tables, taken(**fields))


def leased() -> Bench:
    """One page, one look-up and one robots.txt under lease, on three hosts of two addresses."""
    bench = Bench()
    page = bench.prepare("http://page.example/")
    assert page.kind is FetchKind.PAGE
    bench.seed("http://robots.example/", "http://look.example/")
    for lease in bench.claims().leases:
        if lease.host == "robots.example":
            bench.answer(lease, address="192.0.2.9")
    bench.claims()
    assert sorted(key[8] for key, _ in bench.tables.leases.scan()) == [
        keys.LEASE_URL,
        keys.LEASE_ERRAND,
        keys.LEASE_ERRAND,
    ]
    return bench


def assert_all_free(bench: Bench) -> None:
    assert bench.tables.leases.first() is None
    for _, host in bench.tables.hosts.scan():
        assert (host.in_flight, host.errand) == (0, b"")
    for _, budget in bench.tables.addresses.scan():
        assert budget.in_flight == 0


def test_a_dead_processes_leases_are_released_and_the_gaps_count_from_now() -> None:
    bench = leased()
    bench.now_ms += 500
    made = bench.release()
    assert made.moves == [(S.LEASED, S.ELIGIBLE, R.RELEASED)]
    assert [m.event for m in made.host_moves] == [HostEvent.ERRAND_RELEASED] * 2
    assert_all_free(bench)
    for name in ("page.example", "robots.example"):
        assert bench.host(name).next_eligible_ms == bench.now_ms + 1_000
    assert bench.release().decisions == [], "once"


def test_leases_run_out_at_their_deadline_and_not_before() -> None:
    bench = leased()
    deadlines = sorted(int.from_bytes(key[:8], "big") for key, _ in bench.tables.leases.scan())
    bench.now_ms = deadlines[0] - 1
    assert bench.sweep().decisions == []
    bench.now_ms = deadlines[-1]
    made = bench.sweep()
    assert made.moves == [(S.LEASED, S.ELIGIBLE, R.LEASE_EXPIRED)]
    assert {m.event for m in made.host_moves} == {HostEvent.ERRAND_EXPIRED}
    assert_all_free(bench)


def test_several_hosts_of_one_address_leave_its_budget_right() -> None:
    bench = Bench()
    for n in range(3):
        bench.seed(f"http://h{n}.example/")
    for lease in bench.claims().leases:
        bench.answer(lease)
    for _ in range(20):
        leases = bench.claims().leases
        assert len(leases) <= 1
        if leases:
            bench.release()
            assert_all_free(bench)
        bench.wait()


def test_a_sweep_is_bounded_and_the_rest_follows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition, "EXPIRED_MAX", 2)
    bench = Bench()
    for n in range(5):
        bench.seed(f"http://h{n}.example/")
    bench.claims()
    bench.now_ms = NOW_MS + 90_000
    assert [len(bench.sweep().host_moves) for _ in range(4)] == [2, 2, 1, 0]
