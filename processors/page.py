"""A body and its Content-Type become a `Page`: text, links and facts, from one parse.

What a parser process runs: pure, and it never raises on what the web brings. HTML (and XHTML, read as HTML)
is parsed by lexbor; plain text is its own text; anything else gives an empty page.
"""

import msgspec
from selectolax.lexbor import SelectolaxError

from frontlog.processors.encoding import (
    HTML_TYPES,
    Decision,
    Source,
    decide,
    decode,
    media_type,
    parser_source,
)
from frontlog.processors.links import Links, Wanted, links_of
from frontlog.processors.markup import Survey, parse
from frontlog.processors.quality import Quality, quality_of
from frontlog.processors.resolve import Base
from frontlog.processors.text import normalize_text, prepare, text_sha256, title_of, visible_text, word_count

DIRECTIVES_MAX = 100
LANGUAGE_CHARACTERS_MAX = 35
"""Longest language tag that everyone must be able to hold (RFC 5646 §4.4.1); longer ones are no tags."""


class Page(msgspec.Struct):
    """What a body says."""

    title: str
    text_utf8: bytes
    """Normalized visible text (`text.py`), in UTF-8."""
    words: int
    text_sha256: bytes
    language: str
    """Language tag that the page declares, as it is written; empty: none."""
    encoding: str
    """WHATWG name of the encoding used."""
    encoding_source: Source
    links: Links
    canonical: str
    """WHATWG href of the first rel=canonical with an http or https URL; empty: none."""
    robots_meta: list[str]
    """Directives of robots meta tags, lower case, in order."""
    quality: Quality
    text_ratio: float
    """Bytes of the visible text in UTF-8 over bytes of the body."""

    @property
    def text(self) -> str:
        """The visible text."""
        return self.text_utf8.decode()


def parse_page(
    body: bytes,
    url: str,
    content_type: str | None = None,
    *,
    token: str = "frontlog",
    wanted: Wanted | None = None,
) -> Page:
    """Read a decoded body that came from the absolute `url` (the last of its redirects).

    `token` is the product token whose robots meta tags count beside `robots`; `wanted` says whose links' words are
    read (all, if it is None). Raises ValueError when `url` doesn't parse; nothing about the body raises.
    """
    kind = media_type(content_type)
    html = kind in HTML_TYPES
    decision = decide(body, content_type, html=html)
    if not html:
        written, repaired = decode(body, decision) if kind == "text/plain" else ("", False)
        return _plain(written, url, body, decision, "repaired" if repaired else "clean")
    source, repaired = parser_source(body, decision)
    try:
        survey = Survey(parse(source))
    except SelectolaxError:
        return _plain(decode(body, decision)[0], url, body, decision, "partial")
    # Both look for ASCII only, which stands in UTF-8 as in Latin-1.
    characters = source if isinstance(source, str) else source.decode("latin-1")
    quality = quality_of(survey, characters, repaired=repaired)
    title, language, directives = title_of(survey), _language(survey), robots_directives(survey, token)
    prepare(survey, characters)
    links = links_of(survey, url, decision.name, wanted)
    text = visible_text(survey)
    return Page(
        title=title,
        text_utf8=text,
        words=word_count(text),
        text_sha256=text_sha256(text),
        language=language,
        encoding=decision.name,
        encoding_source=decision.source,
        links=links,
        canonical=links.urls[links.kinds.index("canonical")] if "canonical" in links.kinds else "",
        robots_meta=directives,
        quality=quality,
        text_ratio=len(text) / len(body) if body else 0.0,
    )


def robots_directives(survey: Survey, token: str) -> list[str]:
    """Directives of `<meta name=robots|TOKEN>`, split at commas, lower case; 100 of them at most."""
    names = ("robots", token.lower())
    found: list[str] = []
    for attributes in survey.metas:
        if (attributes.get("name") or "").strip().lower() in names:
            parts = (attributes.get("content") or "").lower().split(",")
            found += [directive for part in parts if (directive := part.strip())]
    return found[:DIRECTIVES_MAX]


def _language(survey: Survey) -> str:
    """`lang` (or `xml:lang`) of the root element, else the first tag of a content-language meta element."""
    for node in survey.roots[:1]:
        attributes = node.attributes
        tag = attributes.get("lang") or attributes.get("xml:lang")
        if tag:
            return _tag(tag)
    for attributes in survey.metas:
        if (attributes.get("http-equiv") or "").lower() == "content-language":
            return _tag((attributes.get("content") or "").partition(",")[0])
    return ""


def _tag(written: str) -> str:
    """A language tag as it is written, or nothing where it can't be one."""
    tag = written.strip()
    return tag if len(tag) <= LANGUAGE_CHARACTERS_MAX and tag.isascii() and " " not in tag else ""


def _plain(written: str, url: str, body: bytes, decision: Decision, quality: Quality) -> Page:
    """A page without markup."""
    text = normalize_text(written)
    return Page(
        title="",
        text_utf8=text,
        words=word_count(text),
        text_sha256=text_sha256(text),
        language="",
        encoding=decision.name,
        encoding_source=decision.source,
        links=Links(Base(url).href),
        canonical="",
        robots_meta=[],
        quality=quality,
        text_ratio=len(text) / len(body) if body else 0.0,
    )
