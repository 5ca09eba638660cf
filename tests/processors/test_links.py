"""Links of a page, as a browser without scripts would follow them."""

from base64 import b64encode
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frontlog.avro.errors import ConfigError
from frontlog.processors.links import LINKS_MAX, Links, check_links, links_of, refresh_url
from frontlog.processors.markup import ELEMENTS_READ_MAX, Survey, parse
from frontlog.processors.text import ANCHOR_CHARACTERS_MAX, prepare

URL = "http://example.org/a/b?c#d"


def links(html: str | bytes, url: str = URL, encoding: str = "utf-8") -> Links:
    survey = Survey(parse(html))
    prepare(survey, html)
    return links_of(survey, url, encoding)


def urls(html: str, url: str = URL) -> list[str]:
    return links(html, url).urls


@pytest.mark.parametrize(
    ("html", "found"),
    [
        ("<a href=x>", ["http://example.org/a/x"]),
        ("<A HREF='/x'>", ["http://example.org/x"]),
        ("<a href=' \n/x\ty '>", ["http://example.org/xy"]),
        ("<a href>", ["http://example.org/a/b?c"]),
        ("<a href=''>", ["http://example.org/a/b?c"]),
        ("<a name=x>", []),
        ("<a href=#x>", ["http://example.org/a/b?c#x"]),
        ("<a href='?a=1&amp;b=2&copy=3&lt;'>", ["http://example.org/a/b?a=1&b=2&copy=3%3C"]),
        ("<a href=//other.example/x>", ["http://other.example/x"]),
        ("<a href=x href=y>", ["http://example.org/a/x"]),
        ("<a href=http://[>", []),
        ("<map><area href=x alt=y></map>", ["http://example.org/a/x"]),
        ("<iframe src=x></iframe><iframe src></iframe><iframe></iframe>", ["http://example.org/a/x"]),
        ("<iframe src=x srcdoc='<a href=y>'></iframe>", []),
        (
            "<frameset><frame src=x><frame src=y></frameset>",
            ["http://example.org/a/x", "http://example.org/a/y"],
        ),
        # With scripting off the content of noscript is markup; that of template is not in the document.
        ("<noscript><a href=x>y</a></noscript>", ["http://example.org/a/x"]),
        ("<head><noscript><link rel=next href=x></noscript>", ["http://example.org/a/x"]),
        ("<template><a href=x></a></template>", []),
        ("<script>'<a href=x>'</script><style><a href=x></style><!-- <a href=x> -->", []),
        ("<textarea><a href=x></textarea><title><a href=x></title>", []),
        ("<div hidden><a href=x>y</a></div>", ["http://example.org/a/x"]),
        ("<svg><a href=x>y</a></svg>", ["http://example.org/a/x"]),
        ("<img src=x><script src=y></script><form action=z>", []),
    ],
)
def test_what_is_a_link(html: str, found: list[str]) -> None:
    assert urls(html) == found


@pytest.mark.parametrize(
    ("html", "base"),
    [
        ("", URL),
        ("<base href=/x/>", "http://example.org/x/"),
        ("<base target=_top><base href=x/><base href=y/>", "http://example.org/a/x/"),
        ("<p><base href=//other.example/x/>", "http://other.example/x/"),
        ("<base href>", "http://example.org/a/b?c"),
        # The first base with an href counts even where it can't be used: no other takes its place.
        ("<base href='http://['><base href=/x/>", URL),
        ("<base href=data:,x><base href=/x/>", URL),
        ("<base href='javascript:x'>", URL),
        ("<base href=mailto:x>", "mailto:x"),
        ("<base href=ftp://h/d/>", "ftp://h/d/"),
        ("<template><base href=/x/></template>", URL),
        ("<svg><base href=/x/></svg>", URL),
        ("<svg><base href=/x/></svg><base href=/y/>", "http://example.org/y/"),
        ("<!-- <base href=/x/> -->", URL),
        ("<noscript><base href=/x/></noscript>", "http://example.org/x/"),
    ],
)
def test_the_base(html: str, base: str) -> None:
    assert links(html).base == base


def test_a_base_holds_for_links_before_it() -> None:
    assert urls("<a href=x></a><base href=/y/><a href=/z></a>") == [
        "http://example.org/y/x",
        "http://example.org/z",
    ]


def test_inline_borders_separate_no_words_of_a_hidden_link_either() -> None:
    found = links("<div hidden><a href=/a>a<b>b</b>c</a></div><a href=/d>d<i>e</i></a>")
    assert found.anchors == ["abc", "de"]


def test_links_of_a_base_of_another_scheme() -> None:
    found = links("<base href=ftp://h/d/><a href=x></a><a href=//web></a><a href=http://web/></a>")
    assert found.urls == ["http://web/"]
    assert found.skipped == {"ftp": 2}
    found = links("<base href=mailto:a><a href=x></a><a href=#y></a>")
    assert (found.urls, found.skipped, found.unparsable) == ([], {"mailto": 1}, 1)


def test_columns_hold_together() -> None:
    found = links(
        "<link rel='Canonical' href=c title=' the  page '><meta http-equiv=refresh content='0;url=r'>"
        "<a href='x y' rel=' NoFollow\tUGC '>one <b>t</b>wo</a><a href=mailto:m>m</a>"
        "<map><area href=z rel=sponsored alt=' an \n area '></map><a href='JavaScript:x'>j</a><a href=http://[>b</a>"
        "<iframe src=f title=frame></iframe>"
    )
    assert list(zip(found.raws, found.urls, found.anchors, found.rels, found.kinds, strict=True)) == [
        ("r", "http://example.org/a/r", "", "", "redirect"),
        ("c", "http://example.org/a/c", "the page", "canonical", "canonical"),
        ("x y", "http://example.org/a/x%20y", "one two", "nofollow ugc", "a"),
        ("z", "http://example.org/a/z", "an area", "sponsored", "area"),
        ("f", "http://example.org/a/f", "frame", "", "iframe"),
    ]
    assert (found.skipped, found.unparsable, found.cut) == ({"mailto": 1, "javascript": 1}, 1, 0)


@pytest.mark.parametrize(
    ("rel", "kinds"),
    [
        ("canonical", ["canonical"]),
        ("alternate", ["alternate"]),
        ("alternate stylesheet", []),
        ("stylesheet", []),
        ("next", ["next"]),
        ("PREV", ["prev"]),
        ("previous", ["prev"]),
        ("alternate next", ["next"]),
        ("icon", []),
        ("", []),
    ],
)
def test_kinds_of_link_elements(rel: str, kinds: list[str]) -> None:
    assert links(f"<link rel='{rel}' href=x>").kinds == kinds
    assert links(f"<link rel='{rel}' href>").kinds == []


@pytest.mark.parametrize(
    ("html", "anchor"),
    [
        ("<a href=x> one\n two </a>", "one two"),
        ("<a href=x>W<b>or</b>d</a>", "Word"),
        ("<a href=x><div>one</div><div>two</div></a>", "one two"),
        ("<a href=x>one<br>two</a>", "one two"),
        ("<a href=x><img alt=' an  image '></a>", "an image"),
        ("<a href=x><span><img alt=one></span> <img alt=two><img></a>", "one two"),
        ("<a href=x>text<img alt=image></a>", "text"),
        ("<a href=x><script>x()</script>one<style>y</style></a>", "one"),
        ("<a href=x><svg><title>icon</title></svg>one</a>", "one"),
        ("<a href=x>5<!-- --> items</a>", "5 items"),
        ("<a href=x>one&nbsp;two&amp;</a>", "one two&"),
        ("<a href=x></a>", ""),
        ("<noscript><a href=x>one</a></noscript>", "one"),
    ],
)
def test_anchors(html: str, anchor: str) -> None:
    assert links(html).anchors == [anchor]
    # A page with very many elements is read in another way, to the same end.
    assert links(html + "<p>" * (ELEMENTS_READ_MAX + 1)).anchors == [anchor]


def test_anchors_are_cut() -> None:
    found = links("<a href=x>" + " " * 5_000 + "word " * 1_000 + "</a>" + "<a href=y>" + "w" * 199 + " w</a>")
    assert found.anchors == [("word " * 40).strip(), "w" * 199]
    assert max(map(len, found.anchors)) <= ANCHOR_CHARACTERS_MAX


def test_links_are_cut_and_counted() -> None:
    found = links("".join(f"<a href={i}>" for i in range(LINKS_MAX + 7)))
    assert (len(found.urls), found.cut) == (LINKS_MAX, 7)
    assert {len(found.raws), len(found.anchors), len(found.rels), len(found.kinds)} == {LINKS_MAX}
    assert found.urls[-1] == f"http://example.org/a/{LINKS_MAX - 1}"


def test_queries_are_in_the_encoding_of_the_page() -> None:
    html = "<base href='/é/?é'><a href='é?é#é'>x</a>"
    found = links(html, encoding="windows-1252")
    assert found.base == "http://example.org/%C3%A9/?%E9"
    assert found.urls == ["http://example.org/%C3%A9/%C3%A9?%E9#%C3%A9"]


@pytest.mark.parametrize(
    ("content", "url"),
    [
        # HTML §4.2.5.3, "shared declarative refresh steps".
        ("5; url=x", "x"),
        (" 5.2 ; URL = 'x' y", "x"),
        ('0;url="x', "x"),
        ("0,x", "x"),
        ("0 x", "x"),
        ("0;'x'y", "x"),
        ("0;u=x", "u=x"),
        ("0;ur'x'", "ur'x'"),
        ("0;url 'x'", "url 'x'"),
        ("0;url=", ""),
        (".5;x", "x"),
        ("0;;x", ";x"),
        ("5", None),
        ("5;", None),
        ("5; ", None),
        ("5x;y", None),
        (";x", None),
        ("url=x", None),
        ("", None),
        ("-1;x", None),
    ],
)
def test_refresh(content: str, url: str | None) -> None:
    assert refresh_url(content) == url


def test_the_first_refresh_with_a_url_counts() -> None:
    html = (
        "<meta http-equiv=refresh content=5><META HTTP-EQUIV=Refresh content='5;x'>"
        "<meta http-equiv=refresh content='5;y'>"
    )
    assert links(html).raws == ["x"]


def test_refresh_is_linear() -> None:
    assert refresh_url("0" * 500_000 + "x") is None
    assert refresh_url("0" + " " * 500_000) is None


@given(st.text(alphabet="<>/='\" \nabaseiframlnkhref:#?&;!-%\x00é", max_size=300))
def test_any_markup_gives_columns_of_one_length(html: str) -> None:
    found = links(html)
    assert len({len(c) for c in (found.raws, found.urls, found.anchors, found.rels, found.kinds)}) == 1
    assert all(url.startswith(("http://", "https://")) for url in found.urls)
    answer = check_links({"html": html, "url": URL})
    listed = cast("list[dict[str, str]]", answer["links"])
    assert [link["url"] for link in listed] == found.urls


def test_check_links() -> None:
    assert check_links({"html": "<base href=/x/><a href=y rel=nofollow>z</a><a href=tel:1>", "url": URL}) == {
        "base": "http://example.org/x/",
        "links": [{"url": "http://example.org/x/y", "anchor": "z", "rel": "nofollow", "kind": "a"}],
        "skipped": {"tel": 1},
        "unparsable": 0,
        "cut": 0,
    }


@pytest.mark.parametrize(
    ("line", "url"),
    [
        (
            {
                "html_b64": b64encode("<a href='?é'>".encode("cp1252")).decode(),
                "content_type": "text/html; charset=latin1",
            },
            "http://h/?%E9",
        ),
        (
            {"html_b64": b64encode("<meta charset=koi8-r><a href='?я'>".encode("koi8-r")).decode()},
            "http://h/?%D1",
        ),
        ({"html_b64": b64encode("\ufeff<a href='?é'>".encode("utf-16-le")).decode()}, "http://h/?%C3%A9"),
        ({"html": "<a href='?é'>"}, "http://h/?%C3%A9"),
        ({"html": "<meta charset=latin1><a href='?é'>"}, "http://h/?%E9"),
        ({"html": "<a href='\ud800'>"}, "http://h/%EF%BF%BD"),
    ],
)
def test_check_links_knows_the_encoding(line: dict[str, object], url: str) -> None:
    assert check_links(line | {"url": "http://h/"})["links"] == [
        {"url": url, "anchor": "", "rel": "", "kind": "a"}
    ]


def test_check_links_of_another_type() -> None:
    line: dict[str, object] = {"html": "<a href=x>", "url": URL, "content_type": "text/plain"}
    assert check_links(line)["links"] == []


@pytest.mark.parametrize(
    "line",
    [
        {"html": "x"},
        {"html": "x", "url": "/relative"},
        {"html": "x", "url": 1},
        {"url": URL},
        {"html": "x", "html_b64": "eA==", "url": URL},
        {"html_b64": "not base64!", "url": URL},
        {"html": 1, "url": URL},
        {"html": "x", "url": URL, "content_type": 1},
    ],
)
def test_questions_without_an_answer(line: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        check_links(line)
