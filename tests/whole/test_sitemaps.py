"""Crawls that find their pages through sitemaps, on a real web: through every gate, killed on the way, proved whole."""

import gzip
from pathlib import Path

import pytest

from frontlog.avro.enums import FetchKind, Reason, SourceKind, State, Topic
from frontlog.avro.events import Discovery, Fetched, FetchResult
from frontlog.replay.explain import explain
from frontlog.replay.status import status
from frontlog.streams.summary import End
from support.crawls import crawl, events, fetched, prove, transitions
from support.killed import CODE, crawl_and_die
from support.site import Answer, Site, page

LISTED, HIDDEN = 4, 2_600


def listing(*urls: str, kind: str = "urlset") -> bytes:
    entry = "url" if kind == "urlset" else "sitemap"
    return f"<{kind}>{''.join(f'<{entry}><loc>{url}</loc></{entry}>' for url in urls)}</{kind}>".encode()


def fill(site: Site) -> set[str]:
    """Pages that no page links to; an index names a packed sitemap and a list. The URLs that must be fetched as pages."""
    site.robots(0, f"User-agent: *\nDisallow: /never/\nSitemap: {site.url(0, '/index.xml')}\n")
    site.put(0, "/", page("home"))
    for n in range(LISTED):
        site.put(0, f"/{n}", page(f"page {n}"))
    hidden = [site.url(0, f"/never/{n}") for n in range(HIDDEN)]
    pages = [site.url(0, f"/{n}") for n in range(LISTED)]
    index = listing(
        site.url(0, "/a.xml.gz"), site.url(0, "/b.txt"), site.url(1, "/c.xml"), kind="sitemapindex"
    )
    site.put(0, "/index.xml", Answer(index, type="application/xml"))
    site.put(
        0, "/a.xml.gz", Answer(gzip.compress(listing(*hidden, pages[0], pages[1])), type="application/x-gzip")
    )
    site.put(
        0, "/b.txt", Answer("\n".join([*pages[2:], site.url(1, "/"), "no URL"]).encode(), type="text/plain")
    )
    return {site.url(), *pages}


FILES = ("/index.xml", "/a.xml.gz", "/b.txt")


def assert_whole(folder: Path, site: Site, everything: set[str]) -> None:
    files = {site.url(0, path) for path in FILES}
    assert fetched(folder) == everything | files
    came = [one for one in transitions(folder) if one.to_state is State.FETCHED]
    assert len(came) == len(everything | files), "each once"
    denied = [one for one in transitions(folder) if one.reason is Reason.ROBOTS_DENIED]
    assert len(denied) == len({one.url for one in denied}) == HIDDEN
    assert {one.url for one in events(folder, Topic.FETCHED) if isinstance(one, Fetched)} == everything, (
        "no sitemap"
    )
    assert not site.asked(1), "nobody there said that the index speaks for it"
    found = status(folder).sitemaps
    assert (found.files, found.read, found.urls) == (3, 3, HIDDEN + LISTED + 1)
    assert all(gap >= 0.0185 for gap in site.gaps_s(0)), "a sitemap waits for its host's turn, too"
    prove(folder)


def test_pages_are_found_through_sitemaps_alone(tmp_path: Path) -> None:
    folder = tmp_path / "c"
    with Site(hosts=2) as site:
        everything = fill(site)
        assert crawl(folder, site.url()).end is End.DONE
        assert_whole(folder, site, everything)
        told = [one for one in events(folder, Topic.DISCOVERIES) if isinstance(one, Discovery)]
        parts = [
            one for one in told if one.source_kind is SourceKind.SITEMAP and one.source_url.endswith(".gz")
        ]
        assert [(one.part, one.parts) for one in parts] == [(n, 6) for n in range(6)]
        results = [one for one in events(folder, Topic.FETCH_RESULTS) if isinstance(one, FetchResult)]
        read = {one.url: one for one in results if one.sitemap is not None}
        assert all(one.body is not None and one.kind is FetchKind.PAGE for one in read.values())
        story = explain(folder, site.url(0, "/b.txt"))
        assert (
            story.content
            == "a sitemap: text of 3 URLs, 1 fault (line 4: not an absolute http or https URL: 'no URL')"
        )
        assert any(
            f"a sitemap that {site.url(0, '/index.xml')} names" in line.cause_what for line in story.lines
        )
        assert "an entry of the sitemap" in explain(folder, site.url(0, "/2")).lines[0].cause_what
        refused = [
            line for line in explain(folder, site.url(1, "/")).lines if line.why.startswith("cross_site")
        ]
        assert refused, "why it isn't known"


@pytest.mark.parametrize(
    ("step", "nth"),
    [
        ("archived", 5),
        ("discoveries", 4),
        ("discoveries", 5),
        ("discoveries", 6),
        ("result", 8),
        ("committed", 20),
    ],
)
def test_a_crawl_that_dies_while_a_sitemap_is_read_goes_on_where_it_was(
    tmp_path: Path, step: str, nth: int
) -> None:
    folder = tmp_path / "c"
    with Site(hosts=2) as site:
        everything = fill(site)
        assert crawl_and_die(folder, step, nth, site.url()) == CODE, "it died where it should"
        assert crawl(folder).end is End.DONE
        files = {site.url(0, path) for path in FILES}
        assert fetched(folder) == everything | files
        assert len([one for one in transitions(folder) if one.reason is Reason.ROBOTS_DENIED]) == HIDDEN
        prove(folder)


def test_the_usual_place_is_asked_for_when_a_setting_says_so(tmp_path: Path) -> None:
    with Site() as site:
        site.put(0, "/", page("home"))
        site.put(0, "/x", page("x"))
        site.put(0, "/sitemap.xml", Answer(listing(site.url(0, "/x")), type="text/xml"))
        assert crawl(tmp_path / "no", site.url()).end is End.DONE
        assert fetched(tmp_path / "no") == {site.url()}
        assert crawl(tmp_path / "yes", site.url(), sitemaps__well_known="ask").end is End.DONE
        assert fetched(tmp_path / "yes") == {site.url(), site.url(0, "/x"), site.url(0, "/sitemap.xml")}


def test_a_feed_that_a_page_links_to_gives_its_entries(tmp_path: Path) -> None:
    with Site() as site:
        feed = f"<rss><channel><item><link>{site.url(0, '/new')}</link></item></channel></rss>"
        site.put(0, "/", Answer(b"<link rel=alternate type='application/rss+xml' href=/feed><p>home"))
        site.put(0, "/feed", Answer(feed.encode(), type="application/rss+xml"))
        site.put(0, "/new", page("new"))
        assert crawl(tmp_path / "c", site.url()).end is End.DONE
        assert fetched(tmp_path / "c") == {site.url(), site.url(0, "/feed"), site.url(0, "/new")}
        prove(tmp_path / "c")


def test_a_sitemap_on_another_host_speaks_for_the_origin_that_names_it(tmp_path: Path) -> None:
    folder = tmp_path / "c"
    with Site(hosts=2) as site:
        site.robots(0, f"Sitemap: {site.url(1, '/moved.xml')}\nSitemap: /none.xml\n")
        site.put(0, "/", page("home"))
        site.put(0, "/x", page("x"))
        site.put(1, "/moved.xml", Answer(status=301, headers=(("Location", "/s.xml"),)))
        site.put(1, "/s.xml", Answer(listing(site.url(0, "/x"), site.url(1, "/y")), type="text/xml"))
        assert crawl(folder, site.url(), crawl__pages_max=3).end is End.DONE, "sitemaps are no pages"
        files = {site.url(1, "/moved.xml"), site.url(1, "/s.xml")}
        assert fetched(folder) == {site.url(), site.url(0, "/x")} | files
        assert "/robots.txt" in [one.path for one in site.asked(1)], "its own robots.txt is asked first"
        assert (explain(folder, site.url(1, "/y")).reason) is Reason.OUT_OF_SCOPE
        found = status(folder).sitemaps
        assert (found.files, found.read, found.faulty) == (3, 1, 1)
        assert found.shown == ((site.url(0, "/none.xml"), "GONE, gone: 404 or 410"),)
        prove(folder)
