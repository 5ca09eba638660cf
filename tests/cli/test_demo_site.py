"""The demo site: that it holds what it promises, and that `frontlog demo` serves and crawls it.

The crawl itself is replaced here; `make check-wheel` and the tests of streams run the real one.
"""

import gzip
import http.client
import json
import re
import socket
import time
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urljoin, urlsplit

import pytest
from click.testing import CliRunner

from frontlog import machinery
from frontlog.cli import main
from frontlog.config import Config
from frontlog.demo_pages import load_pages
from frontlog.demo_site import ALLOW, DemoSite
from frontlog.errors import ConfigError
from frontlog.streams.stop import StopSignal
from frontlog.streams.summary import Progress, Summary
from support.shapes import summary


class Got(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes


def get(url: str, method: str = "GET") -> Got:
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.netloc, timeout=5)
    try:
        connection.request(
            method, parts._replace(scheme="", netloc="").geturl(), headers={"User-Agent": "test"}
        )
        answer = connection.getresponse()
        return Got(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())
    finally:
        connection.close()


@pytest.fixture
def site() -> Generator[DemoSite]:
    with DemoSite() as running:
        yield running


def links(base: str, got: Got) -> set[str]:
    body = gzip.decompress(got.body) if "content-encoding" in got.headers else got.body
    text = body.decode("latin-1")
    found = re.search(r'<base href="([^"]+)"', text)
    base = urljoin(base, found[1]) if found else base
    hrefs = re.findall(r'<a href="([^"]+)"', text) + (
        [got.headers["location"]] if "location" in got.headers else []
    )
    return {
        urljoin(base, href).partition("#")[0]
        for href in hrefs
        if href.startswith(("http://1", "/", ".")) or ":" not in href
    }


def test_every_page_of_the_table_is_linked_and_the_size_is_right(site: DemoSite) -> None:
    todo, seen = set(site.seeds), dict[str, int]()
    while todo:
        url = todo.pop()
        if "month=2027" in url:
            continue
        got = get(url)
        seen[url] = got.status
        if got.status >= 400 and "missing" not in url:
            again = get(url)
            got = again if again.status == 200 else got
        todo |= {
            link for link in links(url, got) if link.startswith(tuple(site.origins.values()))
        } - seen.keys()
    unreached = {at for at in site.unreached if not at.endswith("/robots.txt")}
    assert unreached == {"c/calendar", "c/today"}  # asked for with a query only
    assert 50 <= len(seen) <= 80
    missing = {site.url(at) for at in ("a/missing", "b/guide/secret", "b/search?q=oil")}
    assert {url for url, status in seen.items() if status == 404} == missing  # the latter by robots.txt
    assert set(seen.values()) == {200, 301, 302, 307, 308, 403, 404, 410, 500, 503}


def test_four_hosts_share_a_port_and_note_who_asks(site: DemoSite) -> None:
    assert [origin.rpartition(":")[0] for origin in site.origins.values()] == [
        f"http://127.0.0.{n}" for n in (1, 2, 3, 4)
    ]
    assert {origin.rpartition(":")[2] for origin in site.origins.values()} == {str(site.port)}
    get(site.url("b/guide/"))
    (request,) = site.requests
    assert (request.host, request.path, request.status, request.user_agent) == ("b", "/guide/", 200, "test")
    assert abs(request.at_s - time.monotonic()) < 5


def test_busy_once_then_open_and_closed_for_an_hour(site: DemoSite) -> None:
    first, second = get(site.url("a/busy")), get(site.url("a/busy"))
    assert (first.status, first.headers["retry-after"], second.status) == (503, "3", 200)
    closed = [get(site.url("d/")) for _ in range(2)]
    assert [(got.status, got.headers["retry-after"]) for got in closed] == [(503, "3600")] * 2
    assert get(site.url("d/robots.txt")).status == 404


def test_encodings_and_sizes(site: DemoSite) -> None:
    latin = get(site.url("b/guide/latin"))
    assert "étranger" in latin.body.decode(latin.headers["content-type"].partition("charset=")[2])
    with pytest.raises(UnicodeDecodeError):
        latin.body.decode("utf-8")
    bomb = get(site.url("b/guide/bomb"))
    assert (bomb.headers["content-encoding"], len(bomb.body) < 50_000) == ("gzip", True)
    assert len(gzip.decompress(bomb.body)) > 2_000_000
    assert len(get(site.url("b/guide/big")).body) > 300_000
    assert get(site.url("a/logo.png")).headers["content-type"] == "image/png"
    assert get(site.url("a/"), "HEAD").body == b""


def test_the_print_version_has_the_text_of_the_article(site: DemoSite) -> None:
    text, printed = (
        re.search(rb"<p>(.*?)</p>", get(site.url(f"a/articles/1{end}")).body) for end in ("", "/print")
    )
    assert text is not None and printed is not None
    assert text[1] == printed[1]


def test_the_calendar_has_no_end(site: DemoSite) -> None:
    url, months = site.url("c/calendar?month=2026-11"), list[str]()
    for _ in range(3):
        got = get(url)
        (url,) = links(url, got)
        months.append(url.partition("month=")[2])
    assert months == ["2026-12", "2027-01", "2027-02"]
    assert get(site.url("c/calendar?month=x")).status == 200


def test_a_crawler_that_hangs_up_does_no_harm(site: DemoSite) -> None:
    with socket.create_connection((site.origins["b"].split("/")[2].split(":")[0], site.port)) as client:
        client.sendall(b"GET /guide/big HTTP/1.1\r\nHost: x\r\n\r\n")
        client.recv(10)
    assert get(site.url("b/guide/")).status == 200


def test_it_comes_back_on_the_same_port() -> None:
    with DemoSite() as first:
        port = first.port
    with DemoSite(port) as second:
        assert second.port == port
        with pytest.raises(ConfigError, match=f"port {port} of 127.0.0.1"), DemoSite(port):
            pass


def test_with_one_address_three_hosts_share_it() -> None:
    only = {"a": "127.0.0.1", "b": "192.0.2.1", "c": "192.0.2.2", "d": "192.0.2.3"}
    with DemoSite(addresses=only) as shared:
        assert list(shared.origins) == ["a", "b", "c"]
        assert list(shared.origins.values()) == [f"http://127.0.0.1:{shared.port + n}" for n in range(3)]
        front = links(shared.url("a/"), get(shared.url("a/")))
        assert {shared.url("b/"), shared.url("c/")} <= front
        assert not any("{" in link for link in front)
        port = shared.port
    with DemoSite(port, addresses=only) as again:
        assert again.port == port


def test_the_table_says_what_is_special_about_a_page() -> None:
    pages = load_pages()
    odd = [p for p in pages.values() if p.status != 200 or p.gzip or p.fill_bytes or p.delay_ms or p.calendar]
    unsaid = [
        page.at
        for page in odd
        if not page.says and page.at not in ("a/chain/2", "a/chain/chain3", "a/loop/2")
    ]
    assert unsaid == []


class Crawl:
    """Stands in for the crawl: looks at the site as it is served."""

    def __init__(self) -> None:
        self.calls: list[tuple[Path, Config, list[str], int]] = []

    def __call__(
        self,
        folder: Path,
        config: Config,
        seeds: Sequence[str],
        on_progress: Callable[[Progress], None],
        stop: StopSignal,
    ) -> Summary:
        self.calls.append((folder, config, list(seeds), get(seeds[0]).status))
        return summary()


def test_the_demo_serves_crawls_and_can_go_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    crawl = Crawl()
    monkeypatch.setattr(machinery, "run_crawl", crawl)
    monkeypatch.chdir(tmp_path)
    for words in (["demo"], ["demo"], ["demo", "--out", "x"], ["demo", "--out", "x", "--text"]):
        assert CliRunner().invoke(main, words, catch_exceptions=False).exit_code == 0
    assert [str(call[0]) for call in crawl.calls] == ["crawls/demo", "crawls/demo-2", "x", "x"]
    assert [call[3] for call in crawl.calls] == [200] * 4
    assert crawl.calls[2][2] == crawl.calls[3][2]  # the same port again
    config = crawl.calls[0][1]
    assert config.options.fetch.allow_addresses == (ALLOW,)
    assert config.settings.politeness.gap_ms_min == 100
    Path("x/demo.json").write_text(json.dumps({"door": 5}))
    damaged = CliRunner().invoke(main, ["demo", "--out", "x"])
    assert (damaged.exit_code, "damaged" in damaged.stderr) == (2, True)
    Path("x/demo.json").unlink()
    other = CliRunner().invoke(main, ["demo", "--out", "x"])
    assert (other.exit_code, "holds another crawl" in other.stderr) == (2, True)
