"""Resolving: the short way gives what the reference gives, and queries follow the page's encoding."""

import ada_url
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from frontlog.processors.resolve import Base, resolve, resolve_many, scalar_values

BASES = [
    "http://example.org/a/b?c#d",
    "https://example.org:8443/",
    "https://xn--bcher-kva.example/x/",
    "http://[2001:db8::1]/a",
    "http://127.0.0.1/%7Ea/",
    "mailto:someone@example.org",
    "file:///c:/x/y",
    "ftp://example.org/a",
    "http://h/a^b/c^d?^#^",
]
PIECES = [
    *("http:", "https:", "HTTP:", "javascript:", "mailto:", "data:", "ftp:", "//", "/", "\\", "?", "#", "@"),
    *(":", ":80", ":443", ".", "..", "%2e", "%2E%2e", "%", "%2f", "%41", "%00", "%zz", "[::1]", "127.1"),
    *("0x7f.1", "2130706433", "example", ".org", "bücher", "ß", "ẞ", "xn--bcher-kva", "xn--", "XN--a"),
    *(
        "\t",
        "\n",
        "\r",
        " ",
        "\x00",
        "\x1f",
        "\x7f",
        "\x80",
        "é",
        "日本",
        "😀",
        "\ud800",
        "a=1&b=2",
        "\ufeff",
    ),
    *(
        "https://a-b.example",
        "/x-y/z.html",
        "/.x",
        "/a.",
        ":8080",
        ":08080",
        ":60000",
        ":65536",
        "127.0.0.1",
        "256.1.1.1",
        "01.2.3.4",
        "a/b",
        "a:b",
        "?q=a/b?c",
        "-",
        "//a.b1/",
        "--",
    ),
    *("|", "^", "`", "{", "}", "<", ">", '"', "'", "~", "+", ";", ",", "\u3002", "\uff0e", "\uff0f", "\xad"),
]
SPELLINGS = st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=3)), max_size=9).map("".join)


def reference(raw: str, base: str | None) -> str | None:
    try:
        return ada_url.URL(scalar_values(raw), base).href
    except ValueError:
        return None


@given(st.lists(SPELLINGS, min_size=1, max_size=8), st.sampled_from(BASES))
@example(["http://ẞ/", "//ẞ", "http://%C3%9F/"], BASES[0])
@example(["http://xn--pokxncvks/", "/xn--x", "//a.XN--pokxncvks"], BASES[0])
@example(["é", "/\té", "/\\é", "http://example.org/é", "http:é"], BASES[0])
def test_every_way_is_the_references(raws: list[str], base: str) -> None:
    wanted = [reference(raw, base) for raw in raws]
    assert resolve_many(base, raws) == wanted
    assert [resolve(raw, base) for raw in raws] == wanted
    assert [resolve(raw) for raw in raws] == [reference(raw, None) for raw in raws]


PLAIN = st.text(alphabet="ab.Z09-_~!$&'()*+,;=:@/?#%|\\^", max_size=12)
HEADS = [
    "",
    "/",
    "//",
    "?",
    "#",
    "http://a.b",
    "https://a-b.c1.de:8443/",
    "http://10.0.0.1:99999/",
    "http://1.2.3/",
    "http:",
    "x:",
]


@given(
    st.lists(st.tuples(st.sampled_from(HEADS), PLAIN).map("".join), min_size=1, max_size=8),
    st.sampled_from(BASES),
)
def test_what_is_put_together_is_what_the_reference_parses(raws: list[str], base: str) -> None:
    assert resolve_many(base, raws) == [reference(raw, base) for raw in raws]
    assert [resolve(raw) for raw in raws] == [reference(raw, None) for raw in raws]


@pytest.mark.parametrize(
    "raw", ["/a/b.html", "/a?b=c/d", "a/b", "a.html?x#y", "#top", "http://example.org/x", "https://a.example:18080/x",
            "http://10.0.0.1:8080/"],
)  # fmt: skip
def test_what_most_links_look_like_is_not_parsed(raw: str, monkeypatch: pytest.MonkeyPatch) -> None:
    base = Base("http://example.org/a/b?c#d")
    wanted = base.join(raw)
    monkeypatch.setattr(Base, "_parsed", None)
    assert base.join(raw) == wanted == reference(raw, base.href)


def test_repeats_come_where_they_stand() -> None:
    assert resolve_many("http://h/a/", ["b", "http://[", "b", "%41", "%41"]) == [
        *("http://h/a/b", None, "http://h/a/b", "http://h/a/%41", "http://h/a/%41")
    ]


def test_a_base_that_does_not_parse() -> None:
    with pytest.raises(ValueError, match="not an absolute URL"):
        Base("/a")
    assert resolve("b", "/a") is None


def test_lone_surrogates_are_replaced_and_pairs_kept() -> None:
    assert scalar_values("a\ud800b\ud83d\ude00") == "a\ufffdb\U0001f600"
    assert resolve("http://h/\ud800") == "http://h/%EF%BF%BD"


@pytest.mark.parametrize(
    ("encoding", "raw", "href"),
    [
        # URL Standard, "percent-encode after encoding": the query in the page's encoding, the rest in UTF-8.
        ("windows-1252", "/é?é#é", "http://h/%C3%A9?%E9#%C3%A9"),
        ("windows-1252", "?x=é 'a'\"", "http://h/p?x=%E9%20%27a%27%22"),
        ("windows-1252", " ?a=é\t\nb ", "http://h/p?a=%E9b"),
        ("windows-1252", "?é=%E9", "http://h/p?%E9=%E9"),
        ("windows-1252", "?\u2020=\x81", "http://h/p?%86=%81"),
        ("windows-1252", "?あ", "http://h/p?%26%2312354%3B"),
        ("shift_jis", "?表", "http://h/p?%95\\"),
        ("iso-2022-jp", "?あé", "http://h/p?%1B$B$%22%1B(B%26%23233%3B"),
        ("gbk", "?中€", "http://h/p?%D6%D0%80"),
        ("koi8-u", "?ў", "http://h/p?%AE"),
        ("x-user-defined", "?é", "http://h/p?%C3%A9"),
        ("utf-16le", "?é", "http://h/p?%C3%A9"),
        ("replacement", "?é", "http://h/p?%C3%A9"),
        ("windows-1252", "mailto:a?é", "mailto:a?%C3%A9"),
        ("windows-1252", "HTTPS://x/?é", "https://x/?%E9"),
        ("windows-1252", "é", "http://h/%C3%A9"),
        ("windows-1252", "#?é", "http://h/p#?%C3%A9"),
    ],
)
def test_queries_in_the_encoding_of_the_page(encoding: str, raw: str, href: str) -> None:
    assert Base("http://h/p", encoding).join(raw) == href
