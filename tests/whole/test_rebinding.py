"""DNS rebinding: names whose answers change between look-ups, in real crawls on loopback.

Here 127.0.0.2 and 127.0.0.3 are the public web, and 127.0.0.1 with all else is what must not be reached: a server listens
on it at the same port. Every connect of this process is noted, so a socket to another address than the judged one shows
whether it is answered or not.

What this does not verify: the system's resolver, which is replaced.
"""

import socket
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from frontlog.avro.enums import FetchKind, Reason, State
from frontlog.fetch import resolver
from frontlog.processors import lookups
from frontlog.streams import crawl as crawl_module
from support.crawls import crawl, fetched, prove, results, urls
from support.site import Answer, Site, page

PUBLIC, OTHER, INTERNAL, METADATA = "127.0.0.2", "127.0.0.3", "127.0.0.1", "169.254.169.254"
NAME = "rebind.test"


class Rebinding:
    """Name servers that answer a name with the next of `answers` each time, the last one for ever."""

    def __init__(self) -> None:
        self.answers: dict[str, list[Sequence[str]]] = {}
        self.asked: list[str] = []
        self.connected: list[str] = []

    def __call__(self, host: str) -> Sequence[str]:
        told = self.asked.count(host)
        self.asked.append(host)
        answers = self.answers[host]
        return answers[min(told, len(answers) - 1)]


@pytest.fixture
def dns(monkeypatch: pytest.MonkeyPatch) -> Iterator[Rebinding]:
    """The only way to an address, and the list of where sockets were connected to."""
    found = Rebinding()
    connect = socket.socket.connect

    def noted(sock: socket.socket, address: Any) -> None:
        found.connected.append(str(address[0]))
        connect(sock, address)

    def looked_up(*_: Any, **__: Any) -> None:
        raise AssertionError("a look-up beside the resolver")

    monkeypatch.setattr(socket.socket, "connect", noted)
    monkeypatch.setattr(socket, "getaddrinfo", looked_up)
    monkeypatch.setattr(crawl_module, "Resolver", partial(resolver.Resolver, getaddrinfo=found))
    yield found
    assert set(found.connected) <= {PUBLIC, OTHER}


def soon_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let addresses be believed for so short that each fetch has a look-up of its own."""
    monkeypatch.setattr(lookups, "TTL_MS_MIN", 1)
    monkeypatch.setattr(resolver, "TTL_DEFAULT_MS", 15)


def run(folder: Path, seed: str) -> None:
    crawl(folder, seed, fetch__allow_addresses=["127.0.0.2/31"], crawl__patience_ms=300)
    prove(folder)


@pytest.fixture
def site() -> Iterator[Site]:
    with Site(hosts=3) as site:
        for host in range(3):
            site.put(host, "/", page("home", [f"/{n}" for n in range(6)]))
            for n in range(6):
                site.put(host, f"/{n}", page(f"page {n} of {host}"))
        yield site
        assert site.asked(0) == []


def named(site: Site, path: str = "/") -> str:
    return f"http://{NAME}:{site.port}{path}"


@pytest.mark.parametrize("later", [INTERNAL, METADATA, "10.0.0.1", "::1", "::ffff:127.0.0.1"])
def test_the_connection_goes_to_the_judged_address_without_another_look_up(
    tmp_path: Path, site: Site, dns: Rebinding, later: str
) -> None:
    dns.answers[NAME] = [[PUBLIC], [later]]
    run(tmp_path / "c", named(site))
    assert len(fetched(tmp_path / "c")) == 7
    assert dns.asked == [NAME]
    assert set(dns.connected) == {PUBLIC}


@pytest.mark.parametrize(
    "later", [[INTERNAL], [METADATA], [OTHER, INTERNAL], ["::ffff:127.0.0.1"], ["64:ff9b::7f00:1"]]
)
def test_a_name_that_turns_inward_is_left_alone_kept_connections_too(
    tmp_path: Path, site: Site, dns: Rebinding, later: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    soon_forgotten(monkeypatch)
    dns.answers[NAME] = [[PUBLIC], [PUBLIC], [PUBLIC], later]
    run(tmp_path / "c", named(site))
    rows = urls(tmp_path / "c")
    assert 1 <= len(fetched(tmp_path / "c")) < 7
    left = [row for row in rows.values() if row.state is not State.FETCHED]
    assert {(row.state, row.reason) for row in left} == {(State.BLOCKED, Reason.BLOCKED_NETWORK)}
    assert len(site.asked(1)) == 1 + len(fetched(tmp_path / "c")), "robots.txt and what was fetched"


def test_an_answer_that_mixes_public_and_internal_opens_no_socket(
    tmp_path: Path, site: Site, dns: Rebinding
) -> None:
    dns.answers[NAME] = [[PUBLIC, METADATA]]
    run(tmp_path / "c", named(site))
    assert dns.connected == []


def test_a_kept_connection_serves_only_the_address_that_was_judged_last(
    tmp_path: Path, site: Site, dns: Rebinding, monkeypatch: pytest.MonkeyPatch
) -> None:
    soon_forgotten(monkeypatch)
    dns.answers[NAME] = [[PUBLIC], [OTHER]] * 20
    run(tmp_path / "c", named(site))
    told = {one.url: one.address for one in results(tmp_path / "c") if one.kind is not FetchKind.RESOLVE}
    asked = {named(site, one.path): site.address(one.host) for one in site.asked()}
    assert told == asked
    assert set(asked.values()) == {PUBLIC, OTHER}


@pytest.mark.parametrize("later", [INTERNAL, METADATA])
def test_a_hop_is_judged_by_its_own_look_up(
    tmp_path: Path, site: Site, dns: Rebinding, later: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    soon_forgotten(monkeypatch)
    dns.answers[NAME] = [[OTHER], [OTHER], [later]]
    site.put(1, "/", Answer(status=302, headers=(("Location", named(site, "/0")),)))
    site.put(2, "/0", Answer(status=302, headers=(("Location", named(site, "/1")),)))
    run(tmp_path / "c", site.url(1))
    row = urls(tmp_path / "c").get(named(site, "/1")) or urls(tmp_path / "c")[named(site, "/0")]
    assert (row.state, row.reason) == (State.BLOCKED, Reason.BLOCKED_NETWORK)
    assert "/1" not in site.paths(2)


@pytest.mark.parametrize("later", [INTERNAL, METADATA])
def test_robots_txt_and_its_hops_are_asked_of_the_judged_address(
    tmp_path: Path, site: Site, dns: Rebinding, later: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    soon_forgotten(monkeypatch)
    dns.answers[NAME] = [[OTHER], [later]]
    site.put(1, "/robots.txt", Answer(status=301, headers=(("Location", named(site, "/r")),)))
    site.put(2, "/r", Answer(status=301, headers=(("Location", named(site, "/s")),)))
    run(tmp_path / "c", site.url(1))
    assert fetched(tmp_path / "c") == set(), "a hop that is refused disallows"
    assert [one.path for one in site.asked(2)] == ["/r"]


@pytest.mark.parametrize("later", [INTERNAL, METADATA])
def test_a_sitemap_is_asked_of_the_judged_address(
    tmp_path: Path, site: Site, dns: Rebinding, later: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    soon_forgotten(monkeypatch)
    dns.answers[NAME] = [[OTHER], [OTHER], [later]]
    site.robots(1, f"Sitemap: {named(site, '/a.xml')}\nSitemap: {named(site, '/b.xml')}\n")
    for name in ("/a.xml", "/b.xml"):
        site.put(2, name, Answer(b"<urlset></urlset>", type="application/xml"))
    run(tmp_path / "c", site.url(1))
    rows = [row for url, row in urls(tmp_path / "c").items() if NAME in url]
    assert sorted((row.state, row.reason) for row in rows) == [
        (State.BLOCKED, Reason.BLOCKED_NETWORK), (State.FETCHED, Reason.OK),
    ]  # fmt: skip
