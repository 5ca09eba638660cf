"""Sitemaps: kinds, encodings, compression, broken and hostile files, and the bounds.

Not verified: that the archive and the fetcher hand over what was served, which their own tests do.
"""

import gzip

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from frontlog.avro.errors import ConfigError
from frontlog.processors.sitemap_entries import Sitemap
from frontlog.processors.sitemap_text import Mended
from frontlog.processors.sitemaps import allowed_cross, check_sitemap, parse_sitemap

HERE = "https://example.org/maps/sitemap.xml"
NS = 'xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"'


def read(text: str | bytes, content_type: str | None = None) -> Sitemap:
    return parse_sitemap(text.encode() if isinstance(text, str) else text, HERE, content_type)


def urls(found: Sitemap) -> list[str]:
    return [entry.url for entry in found.entries]


def urlset(*locs: str) -> str:
    return f"<urlset {NS}>" + "".join(f"<url><loc>{loc}</loc></url>" for loc in locs) + "</urlset>"


# --- what it reads ---------------------------------------------------------------------------------------


def test_a_sitemap_gives_pages_with_their_hints() -> None:
    found = read(
        f"<?xml version='1.0' encoding='UTF-8'?>\n<urlset {NS}>\n"
        "<url><loc>http://example.org/a</loc><lastmod>2024-05-17T09:30:00+02:00</lastmod>"
        "<changefreq>Daily</changefreq><priority>0.8</priority></url>\n"
        "<url><loc>\n  http://example.org/b?x=1&amp;y=2#f\n</loc></url></urlset>"
    )
    assert (found.kind, urls(found)) == ("urlset", ["http://example.org/a", "http://example.org/b?x=1&y=2#f"])
    first = found.entries[0]
    assert (first.lastmod_ms, first.lastmod) == (1_715_931_000_000, "2024-05-17T09:30:00+02:00")
    assert (first.changefreq, first.priority, first.kind) == ("daily", 0.8, "page")
    assert (found.errors, found.counts, found.cut) == ((), {}, 0)


def test_an_index_gives_the_sitemaps_that_it_names() -> None:
    found = read(
        f"<sitemapindex {NS}><sitemap><loc>http://example.org/1.xml.gz</loc><lastmod>2024-05</lastmod></sitemap>"
        "<sitemap><loc>http://example.org/2.xml</loc></sitemap></sitemapindex>"
    )
    assert (found.kind, found.entries) == ("index", ())
    assert [(c.url, c.lastmod_ms) for c in found.children] == [
        ("http://example.org/1.xml.gz", 1_714_521_600_000),
        ("http://example.org/2.xml", 0),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "<urlset><url><loc>http://e.org/x</loc></url></urlset>",
        f"<s:urlset {NS.replace('xmlns', 'xmlns:s')}><s:url><s:loc>http://e.org/x</s:loc></s:url></s:urlset>",
        "<urlset xmlns='http://www.google.com/schemas/sitemap/0.84'><url><loc>http://e.org/x</loc></url></urlset>",
        "<urlset><url><i:image><i:loc>http://e.org/i.png</i:loc></i:image><loc>http://e.org/x</loc></url></urlset>",
        "\n \ufeff<?xml version='1.0'?>\n<!-- <urlset> -->\n<?style x?><urlset><url><loc>http://e.org/x</loc></url></urlset>",
        "<urlset><url><loc><![CDATA[ http://e.org/x ]]></loc></url></urlset>",
        "<urlset><url><loc>http://e<!-- no -->.org/x</loc></url></urlset>",
        "<urlset><channel><urlset/></channel><other><url><loc>http://e.org/no</loc></url></other><url><loc>http://e.org/x</loc></url></urlset>",
    ],
    ids=["none", "prefix", "old", "undeclared", "prolog", "cdata", "comment", "elsewhere"],
)
def test_any_namespace_and_prolog(text: str) -> None:
    assert urls(read(text)) == ["http://e.org/x"]


def test_alternates_are_entries_and_images_and_videos_are_not() -> None:
    found = read(
        f'<urlset {NS} xmlns:x="http://www.w3.org/1999/xhtml" xmlns:image="i" xmlns:video="v" xmlns:news="n">'
        '<url><loc>http://e.org/en</loc><x:link rel="alternate" hreflang="de" href="http://e.org/de"/>'
        '<x:link rel="alternate" hreflang="en" href="http://e.org/en"/><x:link rel="icon" href="http://e.org/i"/></url>'
        '<url><loc>http://e.org/fr</loc><x:link rel="alternate" hreflang="de" href="http://e.org/de"/></url>'
        "<url><image:image><image:loc>http://e.org/1.jpg</image:loc></image:image><loc>http://e.org/pic</loc>"
        "<video:video><video:player_loc>http://e.org/p</video:player_loc></video:video></url>"
        "<url><loc>http://e.org/news</loc><news:news><news:publication_date>2024-05-17</news:publication_date>"
        "</news:news></url></urlset>"
    )
    assert [(entry.url, entry.kind) for entry in found.entries] == [
        ("http://e.org/en", "page"),
        ("http://e.org/de", "alternate"),
        ("http://e.org/fr", "page"),
        ("http://e.org/pic", "page"),
        ("http://e.org/news", "news"),
    ]
    assert found.entries[-1].lastmod_ms == 1_715_904_000_000


def test_a_text_list_is_a_url_a_line() -> None:
    found = read("\ufeffhttp://e.org/a\r\n\r\n  http://e.org/b \rHTTP://E.org/c\n/relative\nhttp://e.org/d")
    assert (found.kind, urls(found)) == ("text", [f"http://e.org/{c}" for c in "abcd"])
    assert found.errors == ("line 5: not an absolute http or https URL: '/relative'",)
    assert found.entries[2].raw == "HTTP://E.org/c"


@pytest.mark.parametrize("at", range(65_530, 65_540))
def test_a_line_break_between_two_chunks_is_one(at: int) -> None:
    first = "http://e.org/" + "a" * 1_000
    text = first + "\r\n" + " " * (at - len(first) - 2) + "\r\nhttp://e.org/b\r\nno"
    found = read(text)
    assert urls(found) == [first, "http://e.org/b"]
    assert found.errors == ("line 4: not an absolute http or https URL: 'no'",)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("", "unknown"),
        (" \n ", "unknown"),
        ("just\nwords", "unknown"),
        ("<opml><outline/></opml>", "unknown"),
        ('{"urls": ["http://e.org/"]}', "unknown"),
        ("<!DOCTYPE html><title>404</title><a href='http://e.org/'>", "html"),
        ("<!-- x --><HTML><url><loc>http://e.org/</loc></url>", "html"),
        ("<?xml version='1.0'?><html xmlns='http://www.w3.org/1999/xhtml'/>", "html"),
    ],
)
def test_what_is_no_sitemap_gives_nothing_and_says_so(text: str, kind: str) -> None:
    found = read(text)
    assert (found.kind, found.entries, found.children, len(found.errors)) == (kind, (), (), 1)


# --- encodings and compression ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (urlset("http://e.org/é").encode("utf-8-sig"), None),
        (urlset("http://e.org/é").encode("utf-16"), "text/xml; charset=iso-8859-1"),
        (urlset("http://e.org/é").encode("utf-16-be"), None),
        (b"<?xml version='1.0' encoding='ISO-8859-1'?>" + urlset("http://e.org/é").encode("latin-1"), None),
        (urlset("http://e.org/é").encode("latin-1"), "application/xml; charset=latin1"),
        (b"<?xml version='1.0' encoding='UTF-16'?>" + urlset("http://e.org/é").encode(), None),
        ("http://e.org/é".encode("utf-16"), "text/plain"),
    ],
    ids=["utf-8 mark", "mark beats header", "utf-16 bare", "declared", "header", "impossible", "text"],
)
def test_encodings(body: bytes, content_type: str | None) -> None:
    assert urls(read(body, content_type)) == ["http://e.org/%C3%A9"]


def test_bytes_that_are_no_text_refuse_their_entry_only() -> None:
    found = read(urlset("http://e.org/a", "http://e.org/é", "http://e.org/b").encode("latin-1"))
    assert urls(found) == ["http://e.org/a", "http://e.org/b"]
    assert found.counts == {"entry": 1}


@pytest.mark.parametrize("content_type", ["text/xml", "application/gzip", "text/html; charset=utf-16"])
def test_gzip_is_known_by_its_magic_whatever_the_header_says(content_type: str) -> None:
    packed = gzip.compress(urlset("http://e.org/a").encode())
    for body in (packed, gzip.compress(packed), packed + b"\0\0junk"):
        assert urls(read(body, content_type)) == ["http://e.org/a"]
    # A `.gz` that isn't one, and two members.
    assert urls(parse_sitemap(urlset("http://e.org/a").encode(), "http://e.org/sitemap.xml.gz")) == [
        "http://e.org/a"
    ]
    assert urls(read(gzip.compress(b"http://e.org/a\n") + gzip.compress(b"http://e.org/b"))) == [
        "http://e.org/a",
        "http://e.org/b",
    ]


def test_broken_gzip_gives_what_was_whole() -> None:
    packed = gzip.compress(urlset(*(f"http://e.org/{n * n * 7919 % 10_007}" for n in range(10_000))).encode())
    cut = read(packed[: len(packed) // 2])
    assert 1_000 < len(cut.entries) < 9_000
    assert "gzip: cut before its end" in cut.errors
    damaged = read(packed[:1000] + b"\xff" * 50 + packed[1050:])
    assert len(damaged.entries) < 9_000
    assert any(error.startswith("gzip: Error") for error in damaged.errors)


# --- what is wrong with files ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("loc", "url"),
    [
        ("http://e.org/?a=1&b=2", "http://e.org/?a=1&b=2"),
        ("http://e.org/?a=1&copy=2&amp;c=3", "http://e.org/?a=1&copy=2&c=3"),
        ("http://e.org/?a&eacute;b", "http://e.org/?a&eacute;b"),
        ("http://e.org/?a=1& b", "http://e.org/?a=1&%20b"),
        ("http://e.org/?&#38;&&#x26;&", "http://e.org/?&&&&"),
        ("http://e.org/?&&lt;", "http://e.org/?&%3C"),
        ("http://e.org/?&#0;", "http://e.org/?&#0;"),
        ("<![CDATA[http://e.org/?a&b]]>&c", "http://e.org/?a&b&c"),
    ],
)
def test_a_bare_ampersand_invents_no_other_url(loc: str, url: str) -> None:
    found = read(urlset("http://e.org/first", loc, "http://e.org/last"))
    assert urls(found) == ["http://e.org/first", url, "http://e.org/last"]
    assert found.counts["mended"] >= 1
    assert found.errors[0].startswith("line 1: ")


def test_ampersands_in_attributes_and_in_other_elements_are_mended_too() -> None:
    found = read(
        "<urlset>\n<url><loc>http://e.org/a</loc><link rel='alternate' href='http://e.org/?l=de&x'/></url>\n"
        "<!-- & --><?pi & ?><url><title>B & C &nbsp;</title><loc>http://e.org/b</loc></url></urlset>"
    )
    assert urls(found) == ["http://e.org/a", "http://e.org/?l=de&x", "http://e.org/b"]
    assert found.counts == {"mended": 3}
    assert found.errors[0].startswith("line 2: ")


TOKENS = [
    "&",
    "&amp;",
    "&#38;",
    "&#x26;",
    "&#0;",
    "&b;",
    "<![CDATA[",
    "]]>",
    "<!--",
    "-->",
    "<?",
    "?>",
    "a",
    "]",
    "-",
    "\x01",
]


@settings(deadline=None)
@given(st.lists(st.sampled_from(TOKENS)), st.integers(1, 12))
def test_mending_does_not_depend_on_where_the_chunks_end(tokens: list[str], size: int) -> None:
    text = "".join(tokens)
    whole, parts = Mended([text]), Mended([text[at : at + size] for at in range(0, len(text), size)])
    assert "".join(parts.chunks()) == "".join(whole.chunks())
    assert (parts.ampersands, parts.characters) == (whole.ampersands, whole.characters)


@settings(deadline=None)
@given(
    st.lists(
        st.sampled_from(
            ["&amp;", "&lt;", "&#38;", "<![CDATA[&]]>", "<!--&-->", "<?a &?>", "<x y='&quot;'/>", "t"]
        )
    )
)
def test_mending_leaves_what_is_right(tokens: list[str]) -> None:
    text = "".join(tokens)
    mended = Mended([text])
    assert "".join(mended.chunks()) == text
    assert mended.ampersands == mended.characters == 0


@pytest.mark.parametrize("cut", range(9, 120, 3))
def test_a_cut_file_gives_what_was_whole_before_the_cut(cut: int) -> None:
    text = urlset("http://e.org/1", "http://e.org/2")
    end = len(text) - len("</urlset>")
    found = read(text[:cut])
    whole = text[:cut].count("</url>")
    assert urls(found) == ["http://e.org/1", "http://e.org/2"][:whole]
    assert cut > end + 8 or found.errors


def test_reading_ends_at_an_error_that_cannot_be_mended() -> None:
    found = read(
        "<urlset>\n<url><loc>http://e.org/1</loc></url>\n<url><loc>http://e.org/2</lok></url>\n</urlset>"
    )
    assert urls(found) == ["http://e.org/1"]
    assert found.errors[0].startswith("line 3: Opening and ending tag mismatch")


def test_one_bad_entry_does_not_stop_the_others() -> None:
    found = read(
        "<urlset>\n<url><loc>/relative</loc></url>\n<url><loc>ftp://e.org/</loc></url>\n<url/>\n"
        f"<url><loc>http://e.org/{'x' * 2_048}</loc></url>\n<url><loc>http://</loc></url>\n"
        "<url><loc>http://e.org/<b>bold</b></loc></url>\n<url><loc>mailto:a@e.org</loc></url>\n"
        "<url><loc>http://e.org/1</loc><loc>http://e.org/2</loc></url>\n<url><loc>//e.org/3</loc></url></urlset>"
    )
    assert urls(found) == ["https://example.org/relative", "http://e.org/1", "https://e.org/3"]
    assert [error.partition(":")[0] for error in found.errors] == [f"line {n}" for n in range(2, 11)]
    assert found.counts == {"relative": 2, "entry": 7}


def test_bad_hints_are_left_out_and_counted() -> None:
    found = read(
        "<urlset><url><loc>http://e.org/</loc><lastmod>2024-02-30</lastmod><changefreq>often</changefreq>"
        "<priority>1.5</priority></url></urlset>"
    )
    entry = found.entries[0]
    assert (entry.lastmod_ms, entry.lastmod, entry.changefreq, entry.priority) == (0, "", "", None)
    assert found.counts == {"date": 1, "hint": 2}


def test_a_date_to_come_is_kept_and_counted() -> None:
    body = b"<urlset><url><loc>http://e.org/</loc><lastmod>2099-01-01</lastmod></url></urlset>"
    found = parse_sitemap(body, HERE, now_ms=1_715_931_000_000)
    assert (found.entries[0].lastmod_ms, found.counts) == (4_070_908_800_000, {"future": 1})
    assert parse_sitemap(body, HERE).counts == {}


# --- cross-site ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("entry", "mentions", "allowed"),
    [
        ("https://example.org/a", False, True),
        ("http://www.example.org:8080/a", False, True),
        ("https://example.com/a", False, False),
        ("https://example.com/a", True, True),
        ("https://a.github.io/", False, False),
        ("nonsense", True, False),
    ],
)
def test_a_sitemap_speaks_for_its_own_site_and_for_whom_asks_it_to(
    entry: str, mentions: bool, allowed: bool
) -> None:
    assert allowed_cross(entry, HERE, mentions) is allowed


# --- by hand ---------------------------------------------------------------------------------------------


def test_the_answer_to_a_question() -> None:
    text = "<urlset><url><loc>/ü</loc><lastmod>2024-05-17</lastmod><priority>.5</priority></url></urlset>"
    answer = check_sitemap({"text": f"<?xml version='1.0' encoding='utf-16'?>{text}", "url": HERE})
    assert answer["kind"] == "urlset"
    assert answer["urls"] == [
        {
            "loc": "https://example.org/%C3%BC",
            "url": "https://example.org/%C3%BC",
            "kind": "page",
            "lastmod": "2024-05-17",
            "lastmod_ms": 1_715_904_000_000,
            "priority": 0.5,
        }
    ]
    assert (answer["children"], answer["cut"]) == ([], 0)
    assert check_sitemap({"xml_b64": "aHR0cDovL8OpLm9yZy8=", "url": HERE})["urls"] == [
        {"loc": "http://é.org/", "url": "http://xn--9ca.org/", "kind": "page"}
    ]


@pytest.mark.parametrize(
    ("question", "named"),
    [
        ({}, "url"),
        ({"url": HERE}, "xml_b64"),
        ({"url": "nowhere", "text": ""}, "url"),
        ({"url": HERE, "xml_b64": "!"}, "xml_b64"),
        ({"url": HERE, "text": "", "xml_b64": ""}, "text"),
        ({"url": HERE, "text": "", "content_type": 5}, "content_type"),
    ],
)
def test_a_question_without_an_answer_names_the_field(question: dict[str, object], named: str) -> None:
    with pytest.raises(ConfigError, match=f'"{named}"'):
        check_sitemap(question)
