"""`status`: states and reasons, hosts that wait and why, operators' acts in force, owners, durability, sizes."""

from pathlib import Path

import pytest

from frontlog.avro.enums import PolicyAct, Reason, ScopeKind, State
from frontlog.avro.errors import ConfigError
from frontlog.replay.status import status
from frontlog.state.catalogue import META
from frontlog.state.owner_lock import OwnerLock
from frontlog.streams.embedded import DURABILITY_KEY
from support.driver import Driver
from support.faults_forged import opened
from support.looking import PARTITIONS
from support.web import Page, Robots, Web, synthetic


def test_it_counts_what_the_tables_hold(honest: Path) -> None:
    found = status(honest)
    counts = {(count.state, count.reason): count.urls for count in found.counts}
    assert counts[State.BLOCKED, Reason.OPERATOR_BLOCK] > 0
    assert counts[State.FETCHED, Reason.OK] > 0
    assert counts[State.GONE, Reason.GONE] > 0
    assert found.hosts == 3
    assert found.rejects == 5, "a wish that is none, and four lists of other sites"
    assert (found.sitemaps.files, found.sitemaps.read, found.sitemaps.urls) == (5, 5, 12)
    assert found.documents > 0
    assert (found.leases, found.running, found.pid) == (0, False, 0)
    assert [part.shard for part in found.partitions] == [
        *(f"frontier-{n}" for n in range(PARTITIONS)),
        "content-0",
    ]
    assert all(part.owner == "driver-2" and part.owner_token == 2 for part in found.partitions)
    assert all(part.seq and part.at_ms and not part.inputs_waiting for part in found.partitions)
    assert found.log_bytes > 0
    assert found.archive_bytes > 0
    assert found.archive_files >= 1


def test_it_names_what_operators_did(tmp_path: Path) -> None:
    with Driver(tmp_path, partitions=1, web=synthetic(3, 2)) as crawl:
        crawl.seed("http://s0.example/", "http://s1.example/", "http://s2.example/")
        crawl.run(until_ms=crawl.clock.at_ms + 3_000)
        for wish in (
            '{"cmd":"pause","actor":"ops","reason":"night"}',
            '{"cmd":"block","target":{"host":"s0.example"},"actor":"ops","reason":"mail"}',
            '{"cmd":"pause","target":{"site":"s1.example"}}',
            '{"cmd":"resume","target":{"site":"s1.example"}}',
            '{"cmd":"slow","target":{"host":"s2.example"},"gap_ms":9000}',
            '{"cmd":"slow","target":{"host":"s1.example"},"gap_ms":5000}',
            '{"cmd":"slow","target":{"host":"s1.example"},"gap_ms":0}',
            '{"cmd":"pause","target":{"partition":"0"},"actor":"me"}',
        ):
            crawl.clock.advance(10)
            crawl.control(wish.encode())
            crawl.step(0)
    found = {(act.act, act.scope_kind, act.scope): act for act in status(tmp_path).acts}
    assert set(found) == {
        (PolicyAct.PAUSE, ScopeKind.CRAWL, ""),
        (PolicyAct.BLOCK, ScopeKind.HOST, "s0.example"),
        (PolicyAct.SLOW, ScopeKind.HOST, "s2.example"),
        (PolicyAct.PAUSE, ScopeKind.PARTITION, "0"),
    }
    block = found[PolicyAct.BLOCK, ScopeKind.HOST, "s0.example"]
    assert (block.actor, block.note) == ("ops", "mail")
    assert found[PolicyAct.SLOW, ScopeKind.HOST, "s2.example"].gap_ms == 9_000
    paused = found[PolicyAct.PAUSE, ScopeKind.PARTITION, "0"]
    assert (paused.actor, paused.at_ms > block.at_ms) == ("me", True)
    assert status(tmp_path).partitions[0].paused


@pytest.mark.parametrize(
    ("acts", "left"),
    [
        (("block p",), {(PolicyAct.BLOCK, ScopeKind.PARTITION, "0")}),
        (("block", "unblock p"), set[tuple[PolicyAct, ScopeKind, str]]()),
        (("block p", "unblock", "block p", "pause p"), {
            (PolicyAct.BLOCK, ScopeKind.PARTITION, "0"), (PolicyAct.PAUSE, ScopeKind.PARTITION, "0"),
        }),
        (("unblock p", "block"), {(PolicyAct.BLOCK, ScopeKind.CRAWL, "")}),
    ],
)  # fmt: skip
def test_of_a_partition_and_the_crawl_the_last_word_about_blocks_is_named(
    tmp_path: Path, acts: tuple[str, ...], left: set[tuple[PolicyAct, ScopeKind, str]]
) -> None:
    with Driver(tmp_path, partitions=1, web=synthetic(1, 1)) as crawl:
        for act in acts:
            cmd, _, whole = act.partition(" ")
            target = ',"target":{"partition":"0"}' if whole else ""
            crawl.control(f'{{"cmd":"{cmd}"{target}}}'.encode())
            crawl.step(0)
    assert {(act.act, act.scope_kind, act.scope) for act in status(tmp_path).acts} == left


def test_it_names_hosts_that_wait_and_why(tmp_path: Path) -> None:
    web = Web()
    for name in ("calm", "busy", "down"):
        web.pages[f"http://{name}.example/"] = Page(text=name, links=("/1", "/2"))
    web.pages["http://busy.example/"] = Page(status=429, retry_after="3600")
    web.robots["http://down.example"] = Robots(status=503)
    far_ms = 4_000_000_000_000  # the tables are looked at with the clock of whoever looks
    with Driver(tmp_path, web=web, start_ms=far_ms) as crawl:
        crawl.seed(*(f"http://{name}.example/" for name in ("calm", "busy", "down")))
        crawl.run(until_ms=far_ms + 5_000)
    found = {host.host: host for host in status(tmp_path).waiting}
    assert found["busy.example"].reason is Reason.UNAVAILABLE
    assert found["busy.example"].until_ms > far_ms + 3_600_000
    assert found["down.example"].reason is Reason.ROBOTS_UNREACHABLE
    assert status(tmp_path).waiting_hosts == len(found)


def test_it_says_who_runs_it_and_how_durable_it_is(crawl: Path) -> None:
    store = opened(crawl, "frontier-0")
    with store.begin(write=True) as txn:
        txn.put(META.name, DURABILITY_KEY, b"nometasync")
        txn.commit()
    store.close()
    assert status(crawl).durability == "nometasync"
    with OwnerLock(crawl, command="frontlog crawl", started_ms=5):
        assert status(crawl).running


def test_inputs_that_wait_are_counted(crawl: Path) -> None:
    from frontlog.avro.events import Control
    from frontlog.streams.control import send

    send(crawl, Control(cmd="pause", target_kind=ScopeKind.CRAWL, at_ms=1))
    assert [part.inputs_waiting for part in status(crawl).partitions] == [1] * PARTITIONS + [0]


def test_a_folder_that_is_no_crawl_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="holds no crawl"):
        status(tmp_path)
