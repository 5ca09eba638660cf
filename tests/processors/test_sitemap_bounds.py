"""Sitemaps that are meant to harm, or too large: nothing is read, expanded or kept beyond the bounds.

Not verified: the bounds of the fetch itself, and of the process that parses.
"""

import gzip
import subprocess
import sys
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from frontlog.processors import sitemaps
from frontlog.processors.sitemap_entries import ENTRIES_MAX, Sitemap
from frontlog.processors.sitemap_text import opening
from frontlog.processors.sitemaps import parse_sitemap

HERE = "https://example.org/maps/sitemap.xml"


def read(text: str | bytes) -> Sitemap:
    return parse_sitemap(text.encode() if isinstance(text, str) else text, HERE)


def urls(found: Sitemap) -> list[str]:
    return [entry.url for entry in found.entries]


def urlset(*locs: str) -> str:
    return "<urlset>" + "".join(f"<url><loc>{loc}</loc></url>" for loc in locs) + "</urlset>"


# --- what is meant to harm -------------------------------------------------------------------------------

LAUGHS = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 10))


@pytest.mark.parametrize(
    "doctype",
    [
        f'<!DOCTYPE urlset [<!ENTITY l0 "ha">{LAUGHS}<!ENTITY x "&l9;">]>',
        '<!DOCTYPE urlset [<!ENTITY x SYSTEM "file:///etc/passwd">]>',
        '<!DOCTYPE urlset [ <!-- ]> " -->\n<!ENTITY % p SYSTEM "file:///etc/passwd"> %p; <!ENTITY x "]>"> ]  >',
        "<!DOCTYPE urlset [<?pi ]> '?><!ENTITY x 'evil'>]>",
    ],
    ids=["laughs", "file", "parameter", "quotes"],
)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_no_entity_is_read_or_expanded(doctype: str, encoding: str) -> None:
    text = f"<?xml version='1.0'?>{doctype}<urlset><url><loc>http://e.org/&x;</loc></url><url><loc>http://e.org/a"
    began = time.process_time()
    found = read(f"{text}</loc></url></urlset>".encode(encoding))
    assert time.process_time() - began < 1
    assert urls(found) == ["http://e.org/a"]
    assert found.counts["doctype"] == 1
    assert "root:" not in repr(found)


def test_a_doctype_without_entities_is_passed_over() -> None:
    text = '<!DOCTYPE rss PUBLIC "-//Netscape//DTD RSS 0.91//EN" "http://127.0.0.1:9/rss.dtd"><rss><channel/></rss>'
    assert (read(text).kind, read(text).errors) == ("rss", ())
    assert read("<!DOCTYPE urlset [<!-- never closed").kind == "unknown"


@pytest.mark.parametrize(
    "filling",
    [
        b"<a/>" * 400_000,
        b"<url><loc/>" + b"<a/>" * 400_000,
        b"<x><y>" + b"<a></a>" * 200_000,
        b"<a:b/>" * 200_000,
        b"<url>" * 250,
        b"<url>" * 10_000,
        b"<!-- -->" * 100_000,
        b"<url " + b"".join(b'a%d=">" ' % n for n in range(200_000)) + b"/>",
        b"<url><loc>" + b"x" * 1_500_000,
        b"<url><loc>" + b"&" * 300_000,
        b"<url><loc>" + b"<![CDATA[x]]>" * 100_000,
    ],
    ids=[
        "junk",
        "junk inside",
        "nested",
        "prefixes",
        "deep",
        "deeper",
        "comments",
        "attributes",
        "long",
        "bare",
        "cdata",
    ],
)
def test_what_is_made_to_cost_costs_little(filling: bytes) -> None:
    began = time.process_time()
    found = read(b"<urlset><url><loc>http://e.org/a</loc></url>" + filling)
    assert urls(found) == ["http://e.org/a"]
    assert found.errors
    assert time.process_time() - began < 5


# --- bounds ----------------------------------------------------------------------------------------------


def test_entries_beyond_the_bound_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ENTRIES_MAX == 50_000
    monkeypatch.setattr("frontlog.processors.sitemaps.ENTRIES_MAX", 500)
    monkeypatch.setattr("frontlog.processors.sitemap_entries.ENTRIES_MAX", 500)
    locs = [f"http://e.org/{n}" for n in range(5_501)]
    for text in (urlset(*locs), "\n".join(locs), "\r\n".join(locs)):
        found = read(text)
        assert (urls(found), found.cut) == (locs[:500], 5_001)
    for text in (urlset(*locs[:500]), "\n".join(locs[:500])):
        assert (urls(read(text)), read(text).cut) == (locs[:500], 0)


def test_alternates_beyond_the_bound_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("frontlog.processors.sitemap_entries.ENTRIES_MAX", 10)
    links = "".join(f'<link rel="alternate" href="http://e.org/{n}"/>' for n in range(25))
    found = read(f"<urlset><url><loc>http://e.org/</loc>{links}</url></urlset>")
    assert (len(found.entries), found.cut) == (11, 15)


def test_errors_in_words_are_bounded_and_counted_all() -> None:
    found = read("<urlset>" + "<url/>" * 500 + "<x>")
    assert (len(found.errors), found.counts["entry"]) == (101, 500)
    assert "nothing is read from here on" in found.errors[0]


def test_a_prolog_is_read_to_its_end() -> None:
    start = opening(iter(["<!DOCTYPE ", "urlset [<!ENTITY a '>'>", "]", ">\n<url", "set x='1'>", "<a/>"]))
    assert start.entities == {"a"}
    assert (start.root, "".join(start.chunks)) == ("urlset", "\n<urlset x='1'><a/>")


def test_a_bomb_is_read_up_to_its_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("frontlog.processors.sitemap_text.DECODED_BYTES_MAX", 1 << 20)
    head = urlset("http://e.org/a")[: -len("</urlset>")].encode()
    bomb = gzip.compress(head + b" " * (200 << 20), 1)
    for body in (bomb, gzip.compress(bomb), head + b"<!---->" * 200_000, head + b"<a/>" * 300_000):
        began = time.process_time()
        found = read(body)
        assert time.process_time() - began < 2
        assert urls(found) == ["http://e.org/a"]
        assert "more than 1,048,576 bytes: the rest is not read" in found.errors


HOSTILE = """
import gzip, resource
from frontlog.processors.sitemaps import parse_sitemap

bodies = [
    (b"<urlset>", b"<a/>", 1_500_000),
    (b"<urlset><x><y>", b"<b>t</b>", 700_000),
    (b"<urlset>", b"<url/>", 1_000_000),
    (b"<urlset><url>", b"<a/>", 1_500_000),
    (b"<urlset><url a='", b"&#38;", 1_000_000),
    (b"http://h/", b"\\n", 8_000_000),
    (b"", b"http://h\\n", 800_000),
]
parse_sitemap(b"<urlset><url><loc>http://h/</loc></url></urlset>", "http://h/")
packed = [gzip.compress(start + piece * times, 1) for start, piece, times in bodies]
pages = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (pages + (60 << 20),) * 2)
for body in packed:
    print(*parse_sitemap(body, "http://h/").errors[:1])
"""


def test_memory_is_bounded_for_what_is_made_to_fill_it() -> None:
    """The first body is 180 MB as a tree."""
    done = subprocess.run(
        [sys.executable, "-c", HOSTILE], capture_output=True, text=True, timeout=55, check=False
    )
    assert done.stderr == ""
    # A parser without memory says "unknown error".
    said = [line.partition(": ")[2][:9] for line in done.stdout.splitlines()]
    assert said == ["Premature", "Premature", "no URL", "nothing i", "nothing i", "", ""]


# --- anything at all -------------------------------------------------------------------------------------

PIECES = [
    *(
        "<urlset>",
        "</urlset>",
        "<url>",
        "</url>",
        "<loc>",
        "</loc>",
        "<sitemapindex>",
        "<sitemap>",
        "<lastmod>",
    ),
    *(
        "<rss>",
        "<channel>",
        "<item>",
        "<link>",
        "</link>",
        "</item>",
        "<feed>",
        "<entry>",
        '<link href="a"/>',
        "</feed>",
    ),
    *(
        "<!DOCTYPE x [",
        "<!ENTITY a 'b'>",
        "]>",
        "&a;",
        "&amp;",
        "&",
        "<![CDATA[",
        "]]>",
        "<!--",
        "-->",
        "<?xml ?>",
    ),
    *(
        "http://e.org/",
        "\0",
        "\ufeff",
        "é",
        "\n",
        "2024-01-01",
        ' xml:base="//["',
        ' xmlns:a="b"',
        "<a:b c='d'",
        ">",
    ),
]


@settings(deadline=None)
@given(
    st.lists(st.sampled_from(PIECES))
    .map("".join)
    .flatmap(lambda t: st.sampled_from([t.encode(), t.encode("utf-16")]))
)
def test_pieces_of_markup_never_raise(body: bytes) -> None:
    found = parse_sitemap(body, HERE)
    assert all(entry.url.startswith(("http://", "https://")) for entry in (*found.entries, *found.children))


@settings(deadline=None)
@given(
    st.binary(max_size=400),
    st.sampled_from([b"", b"\x1f\x8b\x08", b"<urlset>", b"<", b"\xff\xfe", b"http://a\n"]),
)
def test_any_bytes_never_raise(body: bytes, start: bytes) -> None:
    assert parse_sitemap(start + body, HERE, "text/xml; charset=shift_jis").kind in sitemaps.KINDS
