"""RSS, RDF and Atom: which link of an entry is its page, and when it changed."""

import pytest

from frontlog.processors.sitemap_entries import Sitemap
from frontlog.processors.sitemaps import parse_sitemap

HERE = "https://example.org/feeds/all.xml"
MAY_17_MS = 1_715_931_000_000
ATOM = 'xmlns="http://www.w3.org/2005/Atom"'


def read(text: str) -> Sitemap:
    return parse_sitemap(text.encode(), HERE, "text/html")


def pages(found: Sitemap) -> list[tuple[str, int]]:
    return [(entry.url, entry.lastmod_ms) for entry in found.entries]


def test_rss_gives_the_links_of_its_items_and_not_of_its_channel() -> None:
    found = read(
        '<?xml version="1.0"?><rss version="2.0" xmlns:atom="http://www.w3.org/2005/Atom" xmlns:m="http://media/">'
        '<channel><link>http://e.org/home</link><atom:link rel="self" href="http://e.org/self"/>'
        "<image><url>http://e.org/logo.png</url><link>http://e.org/home</link></image>"
        "<item><title>A &amp; B</title><link>\n http://e.org/1\n</link><pubDate>Fri, 17 May 2024 09:30:00 +0200</pubDate>"
        '<enclosure url="http://e.org/1.mp3"/><m:content url="http://e.org/1.mp4"><link>http://e.org/x</link></m:content>'
        "</item><item><link><![CDATA[http://e.org/2?a=1&b]]></link><guid>http://e.org/g</guid></item></channel></rss>"
    )
    assert (found.kind, found.errors) == ("rss", ())
    assert pages(found) == [("http://e.org/1", MAY_17_MS), ("http://e.org/2?a=1&b", 0)]


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        ("<guid>http://e.org/g</guid>", ["http://e.org/g"]),
        ("<guid isPermaLink='true'>http://e.org/g</guid><link/>", ["http://e.org/g"]),
        ("<guid isPermaLink='false'>http://e.org/g</guid>", []),
        ("<guid>tag:e.org,2024:1</guid>", []),
        ("<link>relative</link>", ["https://example.org/feeds/relative"]),
        (
            "<link xmlns='http://www.w3.org/2005/Atom' rel='replies' href='/r'/><link>/a</link>",
            ["https://example.org/a"],
        ),
        ("<link href='/a'/>", ["https://example.org/a"]),
        ("<link>javascript:alert(1)</link>", []),
    ],
)
def test_the_page_of_an_item(item: str, expected: list[str]) -> None:
    assert [url for url, _ in pages(read(f"<rss><channel><item>{item}</item></channel></rss>"))] == expected


@pytest.mark.parametrize(
    "date",
    [
        "<pubDate>17 May 24 07:30 GMT</pubDate>",
        "<pubDate>soon</pubDate>".replace("soon", "Fri, 17 May 2024 03:30:00 EDT"),
        "<dc:date xmlns:dc='http://purl.org/dc/elements/1.1/'>2024-05-17T09:30:00+02:00</dc:date>",
        "<pubDate>2024-05-17T07:30:00Z</pubDate>",
    ],
)
def test_the_date_of_an_item(date: str) -> None:
    found = read(f"<rss><channel><item><link>/a</link>{date}</item></channel></rss>")
    assert pages(found) == [("https://example.org/a", MAY_17_MS)]


def test_rdf_has_its_items_beside_the_channel() -> None:
    found = read(
        '<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns="http://purl.org/rss/1.0/">'
        '<channel rdf:about="x"><link>http://e.org/</link><items><rdf:Seq><rdf:li resource="http://e.org/1"/></rdf:Seq>'
        '</items></channel><item rdf:about="http://e.org/1"><link>http://e.org/1</link></item></rdf:RDF>'
    )
    assert (found.kind, pages(found)) == ("rss", [("http://e.org/1", 0)])


def test_atom_gives_the_alternate_links_of_its_entries() -> None:
    found = read(
        f'<feed {ATOM}><link href="http://e.org/"/><link rel="self" href="http://e.org/feed"/>'
        '<entry><id>urn:1</id><link rel="enclosure" href="http://e.org/1.mp3"/><link href="http://e.org/1"/>'
        '<link rel="alternate" hreflang="de" href="http://e.org/1/de"/><published>2020-01-01T00:00:00Z</published>'
        '<updated>2024-05-17T09:30:00+02:00</updated><source><link href="http://other.example/"/></source></entry>'
        "<entry><id>http://e.org/2</id></entry></feed>"
    )
    assert found.kind == "atom"
    assert [(e.url, e.kind, e.lastmod_ms) for e in found.entries] == [
        ("http://e.org/1", "page", MAY_17_MS),
        ("http://e.org/1/de", "alternate", 0),
    ]
    assert found.errors == ("line 1: no URL",)


def test_xml_base_counts_where_it_stands() -> None:
    found = read(
        f'<feed {ATOM} xml:base="http://a.org/d/"><entry><link href="1"/></entry><entry xml:base="e/"><link href="2"/>'
        '</entry><entry><link xml:base="http://b.org/" href="3"/></entry><entry xml:base="http://["><link href="4"/>'
        '</entry><entry><link href="5"/></entry></feed>'
    )
    assert [url for url, _ in pages(found)] == [
        "http://a.org/d/1",
        "http://a.org/d/e/2",
        "http://b.org/3",
        "http://a.org/d/5",
    ]
    assert "relative" not in found.counts


def test_old_atom_has_its_own_names_for_dates() -> None:
    found = read(
        '<feed version="0.3" xmlns="http://purl.org/atom/ns#"><entry><link rel="alternate" href="/a"/>'
        "<modified>2024-05-17T07:30:00Z</modified></entry></feed>"
    )
    assert pages(found) == [("https://example.org/a", MAY_17_MS)]


def test_a_bare_ampersand_in_a_title_costs_no_item() -> None:
    found = read(
        "<rss><channel><item><title>You & me &nbsp; &hellip;</title><link>/?a=1&b=2</link></item>"
        "<item><link>/2</link></item></channel></rss>"
    )
    assert [url for url, _ in pages(found)] == ["https://example.org/?a=1&b=2", "https://example.org/2"]
    assert found.counts == {"mended": 4}
