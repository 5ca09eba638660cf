"""Words of a page: what is visible, where words end, the normalized text and its print."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frontlog.processors.markup import ELEMENTS_UNWRAPPED_MAX, Survey, parse
from frontlog.processors.text import (
    TITLE_CHARACTERS_MAX,
    normalize_text,
    prepare,
    squeeze,
    text_sha256,
    title_of,
    visible_text,
    word_count,
)


def text_of(html: str | bytes) -> str:
    survey = Survey(parse(html))
    prepare(survey, html)
    return visible_text(survey).decode()


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("<p>one</p><p>two</p>", "one two"),
        ("<table><tr><td>a</td><td>b</td></tr><tr><td>c</td></tr></table>", "a b c"),
        ("<ul><li>a<li>b</ul>c", "a b c"),
        ("one<br>two<hr>three<img>four", "one two three four"),
        ("<b>W</b>ord, <a href=x>link</a>, <i><b>x</b>y</i>z", "Word, link, xyz"),
        ("super<wbr>cali <span></span>x<span></span>y", "supercali xy"),
        ("<span><div>a</div></span><a><div>b</div></a>c", "a b c"),
        ("H<sub>2</sub>O <unknown-tag>a</unknown-tag>b", "H2O a b"),
        (" a \n\t b&nbsp;c\u3000d ", "a b c d"),
        ("<head><title>t</title><style>s</style></head><body>a", "a"),
        ("a<script>b</script>c<style>d</style>e", "ace"),
        ("a <noscript>b</noscript><iframe>c</iframe><noframes>d</noframes><template>e</template>f", "a f"),
        ("a <svg><text>b</text></svg><video>c</video><audio>d</audio><datalist><option>e</datalist>f", "a f"),
        ("a <div hidden>b<p>c</p></div><p HIDDEN=until-found>d</p><p class=hidden>e", "a e"),
        ("<body hidden>a", "a"),
        ("5<!-- --> items<!---->.", "5 items."),
        ("a<!-- comment -->b", "a b"),
        ("<svg><title>b</title></svg>a<title>c</title>", "a"),
        (
            "<select><option>a<option>b</select><button>c</button><label>d</label><textarea>e</textarea>",
            "a b c d e",
        ),
        ("<frameset><frame src=x></frameset>", ""),
        ("", ""),
        ("a\0b", "ab"),
    ],
)
def test_visible_text(html: str, text: str) -> None:
    assert text_of(html) == text
    assert text_of(html.encode()) == text


def test_a_page_with_very_many_elements_keeps_its_borders() -> None:
    assert text_of("<b>a</b>b" + "<i>" * ELEMENTS_UNWRAPPED_MAX) == "a b"


@pytest.mark.parametrize(
    ("html", "title"),
    [
        ("<title> a\n b </title><title>c</title>", "a b"),
        ("<p>x<title>late</title>", "late"),
        ("<svg><title>icon</title></svg><title>page</title>", "page"),
        ("<svg><title>icon</title></svg>", ""),
        ("<title>a &amp; <b></title>", "a & <b>"),
        ("", ""),
        ("<title>" + "ab " * 5_000 + "</title>", ("ab " * 334)[:TITLE_CHARACTERS_MAX].strip()),
    ],
)
def test_titles(html: str, title: str) -> None:
    assert title_of(Survey(parse(html))) == title


@given(st.text(alphabet=st.one_of(st.sampled_from(" \n\t\x0b\x1c\x85\xa0\u2003\u3000ab"), st.characters())))
def test_normalizing_is_splitting(text: str) -> None:
    normalized = normalize_text(text)
    assert normalized == " ".join(text.split()).encode(
        "utf-8", "replace"
    )  # a lone surrogate is none of UTF-8
    assert word_count(normalized) == len(text.split())
    assert normalize_text(normalized.decode()) == normalized


def test_the_print_is_sha256() -> None:
    assert text_sha256(b"one two") == hashlib.sha256(b"one two").digest()


def test_squeezing_cuts_at_characters() -> None:
    assert squeeze("  a  b  ", 10) == "a b"
    assert squeeze("ab cd", 3) == "ab"
    assert squeeze(" " * 1_000 + "x" * 1_000, 5) == "x" * 5


@given(st.text(alphabet='<>/abdivspn! -=" \n&;\x00é', max_size=300))
def test_any_markup_gives_normalized_text(html: str) -> None:
    text = text_of(html)
    assert text.encode() == normalize_text(text)
    assert text_of(html.encode()) == text
