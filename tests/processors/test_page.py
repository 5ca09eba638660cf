"""A whole page from its bytes: facts, links, quality."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frontlog.processors.markup import Survey, parse
from frontlog.processors.page import DIRECTIVES_MAX, Page, parse_page, robots_directives

URL = "http://example.org/a/b"
HTML = """<!doctype html>
<html lang=" de-AT ">
<head>
<meta charset="windows-1252">
<title>Über  uns</title>
<meta name="Robots" content="NoIndex, follow,,">
<meta name="frontlog" content="noarchive">
<meta name="googlebot" content="nofollow">
<link rel="canonical" href="/über?ü">
</head>
<body><p>Grüße an <a href="?x=ü" rel="nofollow">alle</a>!</p>
<script>var x = "</p></p></p>";</script><!-- </p></p></p> --><template><p>x</p></template>
</body>
</html>
"""


def page_of(body: bytes | str, content_type: str | None = "text/html; charset=utf-8") -> Page:
    return parse_page(body if isinstance(body, bytes) else body.encode(), URL, content_type)


def test_a_page() -> None:
    body = HTML.encode("cp1252")
    page = parse_page(body, URL, "text/html")
    text = "Grüße an alle!"
    assert (page.title, page.text, page.words, page.language) == ("Über uns", text, 3, "de-AT")
    assert page.text_sha256 == hashlib.sha256(text.encode()).digest()
    assert page.text_ratio == len(text.encode()) / len(body)
    assert (page.encoding, page.encoding_source, page.quality) == ("windows-1252", "meta", "clean")
    assert page.canonical == "http://example.org/%C3%BCber?%FC"
    assert page.robots_meta == ["noindex", "follow", "noarchive"]
    assert page.links.base == URL
    assert page.links.urls == [page.canonical, "http://example.org/a/b?x=%FC"]
    assert page.links.kinds == ["canonical", "a"]
    assert page.links.anchors == ["", "alle"]


@pytest.mark.parametrize(
    ("html", "language"),
    [
        ("<html lang=en>", "en"),
        ("<html xml:lang=en-GB>", "en-GB"),
        ("<meta http-equiv=Content-Language content='fr, en'>", "fr"),
        ("<html lang><meta http-equiv=content-language content=fr>", "fr"),
        ("<html lang='not a tag'>", ""),
        ("<html lang=" + "x" * 36 + ">", ""),
        ("<html lang=日本>", ""),
        ("<p lang=en>", ""),
    ],
)
def test_languages(html: str, language: str) -> None:
    assert page_of(html).language == language


def test_directives_are_bounded() -> None:
    html = "<meta name=robots content='" + "a," * 1_000 + "'>"
    assert robots_directives(Survey(parse(html)), "bot") == ["a"] * DIRECTIVES_MAX


@pytest.mark.parametrize(
    ("body", "quality"),
    [
        ("<!doctype html><html><body><p>a<p>b<ul><li>c</ul></body></html>", "clean"),
        ("<p>a <b>b</b>", "clean"),
        ("plain", "clean"),
        ("", "clean"),
        ("1 < 2", "clean"),
        ("<HTML><p>a</p></HTML>\n<!-- served in 3 ms -->" + " " * 2_000, "clean"),
        ("<p>a<br>b<img><link><wbr><meta></p>", "clean"),
        ("<html><head></head><body><p>a</p></div></body></html>", "repaired"),
        (
            "<html><body><script>'</b>'</script><!-- </b> --><template><b></b></template></body></html>",
            "clean",
        ),
        ("a<wbr>b<wbr>c</i></i></i></i>", "repaired"),
        ("<p>a\0</p>", "repaired"),
        (b"<p>\xff</p>", "repaired"),
        ("<html><body><p>a</p>", "partial"),
        ("<p>a</p><a href='x", "partial"),
        ("<p>a</p></di", "partial"),
        ("<p>a</p><!-- b", "partial"),
        ("<p>a</p><!-- b <i>c</i>", "partial"),
    ],
)
def test_quality(body: bytes | str, quality: str) -> None:
    assert page_of(body).quality == quality


def test_plain_text_and_other_types() -> None:
    page = page_of("<p>a  b</p>\n", "text/plain")
    assert (page.text, page.title, page.links.urls, page.quality) == ("<p>a b</p>", "", [], "clean")
    assert page_of(b"\xff", "text/plain; charset=utf-8").quality == "repaired"
    page = page_of(b"%PDF-1.7", "application/pdf")
    assert (page.text, page.words, page.text_ratio, page.links.base) == ("", 0, 0.0, URL)


@pytest.mark.parametrize("content_type", [None, "", "TEXT/HTML", "application/xhtml+xml; charset=utf-8"])
def test_what_is_read_as_html(content_type: str | None) -> None:
    assert page_of("<title>t</title>", content_type).title == "t"


def test_utf16_and_byte_order_marks() -> None:
    for codec in ("utf-8-sig", "utf-16"):
        page = page_of(
            "<html><title>é</title><a href='?é'>ü</a></html>".encode(codec), "text/html; charset=latin1"
        )
        assert (page.title, page.text, page.quality, page.encoding_source) == ("é", "ü", "clean", "bom")
        assert page.links.urls == ["http://example.org/a/b?%C3%A9"]


def test_a_bad_url_is_the_callers_mistake() -> None:
    for content_type in ("text/html", "text/plain"):
        with pytest.raises(ValueError, match="not an absolute URL"):
            parse_page(b"", "/a", content_type)


@given(
    st.binary(max_size=300)
    | st.text(alphabet="<>/!-=&;'\" \nabcdehilmrtx\x00é日", max_size=300).map(str.encode),
    st.sampled_from(
        [None, "text/html", "text/plain", "text/html; charset=euc-jp", "text/html; charset=utf-16"]
    ),
)
def test_any_body_gives_a_page(body: bytes, content_type: str | None) -> None:
    page = parse_page(body, URL, content_type)
    assert page == parse_page(body, URL, content_type)
    assert page.text == " ".join(page.text.split())
    assert page.words == len(page.text.split())


@pytest.mark.parametrize(
    "body",
    [
        "<span>x" * 30_000,
        "<a href=x><table><tr><td>" * 3_000,
        "<svg>" + "<g>" * 5_000 + "<title>x</title><base href=y>" * 5_000,
        "<p hidden>" * 5_000,
        "<!--" * 30_000,
        "<" * 100_000,
        "<meta content='" + "charset " * 30_000 + "'>",
        "a<!-- -->" * 20_000,
    ],
    ids=["inline", "links", "foreign", "hidden", "comments", "brackets", "charset", "empty-comments"],
)
@pytest.mark.timeout(20)
def test_hostile_pages_are_read_in_time(body: str) -> None:
    assert page_of(body, None).quality in ("clean", "repaired", "partial")
