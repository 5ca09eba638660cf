"""Operators' wishes: where they go, what they do to a crawl, and that they still hold after a restart."""

import time
from pathlib import Path

import pytest

from frontlog.avro.enums import Reason, ScopeKind, State, Topic
from frontlog.avro.errors import ConfigError, Retriable
from frontlog.avro.events import Control
from frontlog.processors.sites import partition_of
from frontlog.state.catalogue import STORE_TABLES
from frontlog.state.lmdb_store import LmdbStore
from frontlog.streams.control import send
from frontlog.streams.summary import End
from support.crawls import crawl, events, fetched, prove, urls
from support.site import Site, fill, page


def wish(cmd: str, kind: ScopeKind = ScopeKind.CRAWL, target: str = "", **more: object) -> Control:
    return Control(event_id="e", cmd=cmd, target_kind=kind, target=target, at_ms=1, **more)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def begun(folder: Path, site: Site, pages: int = 3) -> set[str]:
    """A crawl of two hosts that has its first page."""
    everything = fill(site, pages)
    crawl(folder, site.url(), scope__mode="any", crawl__pages_max=1)
    return everything


# --- where wishes go -------------------------------------------------------------------------------------------


def test_a_wish_goes_to_the_partitions_that_it_concerns(tmp_path: Path) -> None:
    folder = tmp_path / "c"
    with Site(hosts=2) as site:
        begun(folder, site)
    host = site.address()
    home = partition_of(host, 4)
    assert send(folder, wish("pause")) == [(0, 0), (1, 0), (2, 0), (3, 0)]
    assert [n for n, _ in send(folder, wish("block", ScopeKind.HOST, host))] == [home]
    assert [n for n, _ in send(folder, wish("pause", ScopeKind.ORIGIN, site.origin()))] == [home]
    assert [n for n, _ in send(folder, wish("pause", ScopeKind.PARTITION, "2"))] == [2]
    assert [n for n, _ in send(folder, wish("block", ScopeKind.PARTITION, "3"))] == [3]
    assert [n for n, _ in send(folder, wish("seed", urls=("http://x.example/",)))] == [0]
    sent = [one for one in events(folder, Topic.CONTROL) if isinstance(one, Control)]
    assert {(one.cmd, one.target) for one in sent} >= {
        ("pause", f"http://{host}:{site.port}"),
        ("block", host),
    }


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (wish("dance"), "unknown cmd"),
        (wish("pause", ScopeKind.PARTITION, "4"), "partition 4 does not exist; there are 4, from 0"),
        (wish("pause", ScopeKind.PARTITION, "x"), "not a number"),
        (wish("block", ScopeKind.PARTITION, "4"), "partition 4 does not exist"),
        (wish("slow", ScopeKind.SITE, "example.org"), "slow takes a host"),
        (wish("block", ScopeKind.HOST, "no host"), "is not one"),
        (wish("seed"), "needs urls"),
    ],
)
def test_a_wish_that_cannot_be_followed_is_refused_where_it_is_made(
    tmp_path: Path, bad: Control, message: str
) -> None:
    folder = tmp_path / "c"
    with Site(hosts=2) as site:
        begun(folder, site)
    with pytest.raises(ConfigError, match=message):
        send(folder, bad)
    assert events(folder, Topic.CONTROL) == []


def test_a_folder_without_a_crawl_takes_no_wish(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="holds no crawl"):
        send(tmp_path, wish("pause"))
    assert list(tmp_path.iterdir()) == []


def test_a_crawl_that_is_only_being_begun_is_asked_again_later(tmp_path: Path) -> None:
    LmdbStore(tmp_path / "log" / "frontier-0", STORE_TABLES).close()
    with pytest.raises(Retriable, match="try again in a second"):
        send(tmp_path, wish("pause", ScopeKind.HOST, "h.example"))


# --- what they do ----------------------------------------------------------------------------------------------


def test_a_paused_host_is_left_alone_until_it_is_resumed(tmp_path: Path) -> None:
    folder = tmp_path / "c"
    with Site(hosts=2) as site:
        everything = begun(folder, site)
        send(folder, wish("pause", ScopeKind.HOST, site.address(1)))
        for _ in range(2):
            summary = crawl(folder, scope__mode="any", crawl__patience_ms=200)
            assert summary.end is End.PAUSED
            assert [(w.host, w.reason, w.until_ms) for w in summary.waiting] == [
                (site.address(1), Reason.PAUSED, 0)
            ]
        assert site.asked(1) == [] and len(site.paths(0)) == 4
        send(folder, wish("resume", ScopeKind.HOST, site.address(1)))
        assert crawl(folder, scope__mode="any").end is End.DONE
    assert fetched(folder) == everything
    prove(folder)


@pytest.mark.parametrize(
    ("kind", "target"),
    [
        (ScopeKind.CRAWL, ""),
        (ScopeKind.PARTITION, "home"),
        (ScopeKind.SITE, "host"),
        (ScopeKind.ORIGIN, "origin"),
    ],
)
def test_every_kind_of_pause_stops_claims_and_says_so(tmp_path: Path, kind: ScopeKind, target: str) -> None:
    folder = tmp_path / "c"
    with Site() as site:
        everything = begun(folder, site)
        names = {
            "": "",
            "home": str(partition_of(site.address(), 4)),
            "host": site.address(),
            "origin": site.origin(),
        }
        send(folder, wish("pause", kind, names[target]))
        began, asked = time.monotonic(), len(site.asked())
        summary = crawl(folder, scope__mode="any", crawl__patience_ms=400)
        assert summary.end is End.PAUSED and len(site.asked()) == asked
        assert time.monotonic() - began >= 0.4, "who paused it may resume it: it waits as long as for a host"
        assert [w.reason for w in summary.waiting] == [Reason.PAUSED]
        send(folder, wish("resume", kind, names[target]))
        assert crawl(folder, scope__mode="any").end is End.DONE
    assert fetched(folder) == everything


def test_a_pause_of_one_partition_hides_no_wait_of_another(tmp_path: Path) -> None:
    """What is paused could be claimed at once; what is left must wait for an hour: both are told, and the run ends."""
    folder = tmp_path / "c"
    with Site(hosts=2) as site:
        fill(site, 2)
        site.put(1, "/", page("busy")._replace(status=503, headers=(("Retry-After", "3600"),)))
        assert crawl(folder, site.url(1), crawl__patience_ms=300).end is End.PATIENCE
        send(folder, wish("pause", ScopeKind.PARTITION, str(partition_of(site.address(0), 4))))
        summary = crawl(folder, site.url(0), crawl__patience_ms=300)
    assert partition_of(site.address(0), 4) != partition_of(site.address(1), 4)
    assert summary.end is End.PATIENCE
    assert {w.host: w.reason for w in summary.waiting} == {
        site.address(0): Reason.PAUSED, site.address(1): Reason.UNAVAILABLE,
    }  # fmt: skip


def test_a_blocked_host_gets_no_request_and_comes_back_when_unblocked(tmp_path: Path) -> None:
    folder = tmp_path / "c"
    with Site(hosts=2) as site:
        everything = begun(folder, site)
        send(folder, wish("block", ScopeKind.HOST, site.address(1)))
        for _ in range(2):
            assert crawl(folder, scope__mode="any").end is End.DONE
        assert site.asked(1) == []
        assert urls(folder)[site.url(1)].reason is Reason.OPERATOR_BLOCK
        send(folder, wish("unblock", ScopeKind.HOST, site.address(1)))
        assert crawl(folder, scope__mode="any").end is End.DONE
    assert fetched(folder) == everything
    prove(folder)


def test_a_slowed_host_keeps_its_gap_over_restarts(tmp_path: Path) -> None:
    folder = tmp_path / "c"
    with Site(hosts=2) as site:
        everything = begun(folder, site)
        asked = len(site.asked(0))
        send(folder, wish("slow", ScopeKind.HOST, site.address(0), gap_ms=600))
        crawl(folder, scope__mode="any", crawl__pages_max=4)
        crawl(folder, scope__mode="any")
    assert fetched(folder) == everything
    assert min(site.gaps_s(0)[asked:]) >= 0.6 - 0.0015
    assert min(site.gaps_s(1)) < 0.6


def test_seeds_and_recrawls_are_done_once(tmp_path: Path) -> None:
    folder = tmp_path / "c"
    with Site(hosts=2) as site:
        everything = begun(folder, site)
        site.put(1, "/extra", page("extra"))
        crawl(folder, scope__mode="any")
        send(folder, wish("seed", urls=(site.url(1, "/extra"), site.url(0))))
        send(folder, wish("recrawl", urls=(site.url(0, "/1"), site.url(0, "/unknown"))))
        summary = crawl(folder, scope__mode="any")
        assert summary.end is End.DONE
        assert crawl(folder, scope__mode="any").pages_run == 0
    assert fetched(folder) == everything | {site.url(1, "/extra")}
    assert [one.path for one in site.asked(0) if one.nth == 2] == ["/1"]
    assert urls(folder)[site.url(0, "/1")].state is State.FETCHED
    assert summary.rejects == 1, "a recrawl of what is not known"
    prove(folder)
