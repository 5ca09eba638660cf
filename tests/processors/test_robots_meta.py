"""Robots meta elements and X-Robots-Tag headers: who is spoken to, what is said, what it comes to."""

import base64
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from frontlog.avro.errors import ConfigError
from frontlog.processors.page import parse_page
from frontlog.processors.robots_meta import DIRECTIVES_MAX, RobotsMeta, check_meta, directives_of

JUNE_30_MS = 1_183_161_600_000  # 2007-06-30T00:00Z


def page(*directives: str, token: str = "frontlog") -> RobotsMeta:
    return directives_of(directives, (), token)


def header(*values: str, token: str = "frontlog") -> RobotsMeta:
    return directives_of((), values, token)


def of_html(html: str, *headers: str, token: str = "frontlog") -> RobotsMeta:
    return directives_of(parse_page(html.encode(), "http://h/", token=token).robots_meta, headers, token)


# --- what is said ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "fields"),
    [
        ("", set[str]()),
        ("all", set[str]()),
        ("index, follow", set[str]()),
        ("noindex", {"noindex"}),
        ("NoFollow", {"nofollow"}),
        ("none", {"noindex", "nofollow"}),
        ("noarchive", {"noarchive"}),
        ("nocache", {"noarchive"}),
        ("nosnippet,notranslate , noimageindex", {"nosnippet", "notranslate", "noimageindex"}),
        ("max-snippet: 0", {"nosnippet"}),
        ("max-snippet:20, max-image-preview: large", set[str]()),
        ("noindex, index", {"noindex"}),
        ("index, none, all", {"noindex", "nofollow"}),
        ("noindex nofollow", {"noindex", "nofollow"}),
        ("noindex;nofollow", {"noindex", "nofollow"}),
        ("noindex: true", {"noindex"}),
        (",, ,noindex,", {"noindex"}),
        ("noindexed, no index", set[str]()),
    ],
)
def test_directives(said: str, fields: set[str]) -> None:
    names = {"noindex", "nofollow", "noarchive", "nosnippet", "noimageindex", "notranslate"}
    for found in (page(said), header(said), page(*said.lower().split(","))):
        assert {name for name in names if getattr(found, name)} == fields


def test_directives_are_listed_once_in_order_with_their_values() -> None:
    found = directives_of(
        ["noindex", "max-snippet: 20"], ["NOARCHIVE, noindex", "max-snippet:20", "x-new: 1"], "frontlog"
    )
    assert found.directives == ("noindex", "max-snippet:20", "noarchive", "x-new:1")


@pytest.mark.parametrize(
    ("date", "at_ms"),
    [
        ("30 Jun 2007 00:00:00 GMT", JUNE_30_MS),
        ("Saturday, 30-Jun-07 00:00:00 GMT", JUNE_30_MS),
        ("Sat, 30 Jun 2007 00:00:00 GMT", JUNE_30_MS),
        ("2007-06-30", JUNE_30_MS),
        ("2007-06-30T02:00:00+02:00", JUNE_30_MS),
        ("29-Jun-2007 16:00:00 PST", JUNE_30_MS),
        ("Sat Jun 30 00:00:00 2007", JUNE_30_MS),
        ("1901-01-01", 1),
        ("tomorrow", 0),
        ("", 0),
        ("Sat, 99 Jun 2007", 0),
    ],
)
@pytest.mark.parametrize("after", ["", ", noarchive", ",noarchive, nosnippet"])
def test_unavailable_after_has_a_date_with_commas_and_colons(date: str, at_ms: int, after: str) -> None:
    said = f"nofollow, unavailable_after: {date}{after}"
    for found in (
        header(said),
        header(f"frontlog: {said}"),
        page(*said.lower().split(",")),
        of_html(f'<meta name="robots" content="{said}">'),
    ):
        assert found.unavailable_after_ms == at_ms
        assert (found.nofollow, found.noarchive, found.nosnippet) == (True, bool(after), "nosnippet" in after)
        assert not found.noindex
        assert found.noindex_at(JUNE_30_MS) is (at_ms > 0)
        assert not found.noindex_at(0)


def test_the_earliest_of_several_dates_counts() -> None:
    found = directives_of(
        ["unavailable_after: 2030-01-01"], ["unavailable_after: 2007-06-30", "unavailable_after: x"], "t"
    )
    assert found.unavailable_after_ms == JUNE_30_MS


# --- who is spoken to ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "directives"),
    [
        (["otherbot: noindex, nofollow"], ()),
        (["frontlog: noindex, nofollow"], ("noindex", "nofollow")),
        (["FrontLog: NoIndex"], ("noindex",)),
        (["frontlog/1.0: noindex"], ("noindex",)),
        (["frontlogger: noindex"], ()),
        (["*: noindex", "robots: noarchive"], ("noindex", "noarchive")),
        (
            ["noarchive, otherbot: noindex, frontlog: nofollow, nosnippet"],
            ("noarchive", "nofollow", "nosnippet"),
        ),
        (["googlebot: nofollow", "otherbot: noindex, nofollow", "noarchive"], ("noarchive",)),
        (["otherbot: unavailable_after: 25 Jun 2010 15:00:00 PST, noindex"], ()),
        (["otherbot:", "noindex"], ("noindex",)),
        (["otherbot: max-snippet: 0, noindex"], ()),
        (["max-thing: 3, noindex"], ("max-thing:3", "noindex")),
        (["frontlog: max-thing: 3, noindex"], ("max-thing:3", "noindex")),
        (["unavailable_after: noindex"], ("unavailable_after:noindex",)),
        (["frontlog: index", "noindex"], ("index", "noindex")),
    ],
)
def test_a_header_may_speak_to_an_agent(values: list[str], directives: tuple[str, ...]) -> None:
    assert header(*values).directives == directives


def test_what_speaks_to_all_and_to_us_is_added_up() -> None:
    found = of_html(
        '<meta name="robots" content="nofollow"><meta name="FRONTLOG" content="noarchive, index">'
        '<meta name="otherbot" content="nosnippet">',
        "noindex",
    )
    assert (found.noindex, found.nofollow, found.noarchive, found.nosnippet) == (True, True, True, False)


@pytest.mark.parametrize(
    "html",
    [
        '<META NAME="ROBOTS" CONTENT="NOINDEX">',
        "<meta content=noindex name=' Robots '>",
        "<body><p>text<meta name=robots content='x, noindex'></p>",
        "<div><template></template><noscript><meta name=robots content=noindex></noscript></div>",
        "</head><title>t</title><meta name=robots content='&#110;oindex'>",
    ],
)
def test_a_meta_element_counts_where_the_parser_sees_one(html: str) -> None:
    assert of_html(html).noindex


@pytest.mark.parametrize(
    "html",
    [
        "<!-- <meta name=robots content=noindex> -->",
        "<script>'<meta name=robots content=noindex>'</script>",
        "<textarea><meta name=robots content=noindex></textarea>",
        "<meta property=robots content=noindex>",
        "<meta name=robotsx content=noindex><meta name=robots>",
    ],
)
def test_what_is_no_meta_element_does_not_count(html: str) -> None:
    assert of_html(html) == RobotsMeta()


# --- by hand ---------------------------------------------------------------------------------------------


def test_the_answer_to_a_question() -> None:
    question: dict[str, object] = {
        "html": "<meta name=robots content=noarchive>",
        "headers": [
            ["X-Robots-Tag", "otherbot: nofollow"],
            ["x-robots-tag", "mybot: noindex"],
            ["Date", "noindex"],
        ],
        "agent": "Mozilla/5.0 (compatible; MyBot/2.1; +http://h/)",
    }
    assert check_meta(question) == {
        "noindex": True,
        "nofollow": False,
        "noarchive": True,
        "nosnippet": False,
        "noimageindex": False,
        "notranslate": False,
        "unavailable_after_ms": 0,
        "directives": ["noarchive", "noindex"],
    }
    assert check_meta({"headers": {"X-Robots-Tag": "none"}, "agent": "b"})["nofollow"] is True


def test_a_page_is_read_as_it_was_served() -> None:
    html = base64.b64encode("<meta name=robots content=noindex>".encode("utf-16")).decode()
    assert check_meta({"html_b64": html, "agent": "b"})["noindex"] is True
    pdf: dict[str, object] = {
        "html": "<meta name=robots content=noindex>",
        "headers": [["Content-Type", "application/pdf"]],
    }
    assert check_meta({**pdf, "agent": "b"})["noindex"] is False


@pytest.mark.parametrize(
    ("question", "named"),
    [
        ({"html": ""}, "agent"),
        ({"agent": "b"}, "headers"),
        ({"agent": "b", "html": 5}, "html"),
        ({"agent": "b", "html_b64": "%"}, "html_b64"),
        ({"agent": "b", "headers": "x"}, "headers"),
        ({"agent": "b", "headers": [["x"]]}, "headers"),
        ({"agent": "b", "headers": [["x", 1]]}, "headers"),
    ],
)
def test_a_question_without_an_answer_names_the_field(question: dict[str, object], named: str) -> None:
    with pytest.raises(ConfigError, match=f'"{named}"'):
        check_meta(question)


# --- anything at all -------------------------------------------------------------------------------------

PIECES = [
    "noindex",
    "unavailable_after",
    "frontlog",
    "otherbot",
    "max-snippet",
    "*",
    ":",
    ",",
    ";",
    " ",
    "Sat",
    "30 Jun 2007",
    "é",
]


@settings(deadline=None)
@given(
    st.lists(st.lists(st.sampled_from(PIECES)).map("".join), max_size=5),
    st.lists(st.text(max_size=30), max_size=5),
)
def test_any_texts_never_raise_and_more_of_them_never_allow_more(
    headers: list[str], directives: list[str]
) -> None:
    found = directives_of(directives, headers, "frontlog")
    more = directives_of(directives, [*headers, "none"], "frontlog")
    assert more.noindex and more.nofollow
    assert found.noarchive <= more.noarchive and found.nosnippet <= more.nosnippet
    assert len(found.directives) <= DIRECTIVES_MAX


@pytest.mark.parametrize(
    "value",
    ["a:" * 50_000, "frontlog:" * 50_000, "," * 100_000, "unavailable_after: x," * 50_000, "é " * 99_999],
)
def test_long_values_cost_little(value: str) -> None:
    began = time.process_time()
    directives_of([value], [value] * 10, "frontlog")
    assert time.process_time() - began < 5
