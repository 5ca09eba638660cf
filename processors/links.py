"""The links of a page: what it points at, in which words, and what it says about the target.

A link is what a browser without scripts could follow: `a` and `area` with `href`, `iframe` and `frame`
with `src`, `link` elements whose `rel` names another page, and a meta refresh. The spelling, with
references decoded as in any attribute, is resolved against the document's base URL by the WHATWG rules
(`resolve.py`), before any rule of identity. Only http and https links are listed; others are counted by
scheme. `nofollow`, `ugc` and `sponsored` are facts, kept in `rel`: a policy may look at them.

The base (HTML Standard §2.4.1) is that of the first `base` element with an `href` in the document, and no
other: one that doesn't parse, or has a `data:` or `javascript:` URL, leaves the document's own URL.
"""

import re
from base64 import b64decode
from binascii import Error as Base64Error
from collections import Counter
from collections.abc import Callable, Iterable
from itertools import compress, islice
from typing import TypeVar, cast

import msgspec
from selectolax.lexbor import LexborNode

from frontlog.avro.errors import ConfigError
from frontlog.processors.encoding import HTML_TYPES, decide, media_type, parser_source
from frontlog.processors.markup import AREA, ELEMENTS_READ_MAX, IFRAME, LINK, A, Survey, first_of_html, parse
from frontlog.processors.resolve import Base, scalar_values
from frontlog.processors.text import ANCHOR_CHARACTERS_MAX, anchor_text, prepare, squeeze

LINKS_MAX = 10_000
"""Links listed of one page; the rest is counted in `cut`."""

_REL_KINDS = {"canonical": "canonical", "next": "next", "prev": "prev", "previous": "prev"}
# Possessive: what the web writes here must not make the pattern try again.
_REFRESH = re.compile(
    r"[\t\n\f\r ]*+(?:[0-9]++|(?=\.))[0-9.]*+(?:[\t\n\f\r ]++[;,]?|[;,])[\t\n\f\r ]*+(.+)", re.DOTALL
)
_REFRESH_URL = re.compile(r"(url[\t\n\f\r ]*=[\t\n\f\r ]*)|u", re.IGNORECASE)
_HREF_TAGS = (LINK, AREA)
_WEB = frozenset({"http://", "https:/"})


class Links(msgspec.Struct):
    """The links of a page in document order, in columns of equal length, and what was left out."""

    base: str
    """Document base URL that the spellings were joined with."""
    raws: list[str] = []
    """Spelling as found, references decoded."""
    urls: list[str] = []
    """WHATWG href, fragment included."""
    anchors: list[str] = []
    """Visible text; `alt` of the images of a link without text; `title` of a frame or `link`."""
    rels: list[str] = []
    """Tokens of `rel`, lower case, in order, separated by spaces."""
    kinds: list[str] = []
    """a, area, frame, iframe, canonical, alternate, next, prev or redirect (a meta refresh)."""
    skipped: dict[str, int] = {}
    """Links of other schemes, by scheme."""
    unparsable: int = 0
    cut: int = 0
    """Links beyond the first 10,000."""


_T = TypeVar("_T")

Wanted = Callable[[list[str]], Iterable[int]]
"""Of the URLs of a page's links: the places of those whose words are wanted."""


def links_of(survey: Survey, url: str, encoding: str = "utf-8", wanted: Wanted | None = None) -> Links:
    """Links of a page that came from the absolute `url` in `encoding` (WHATWG name), after `text.prepare`.

    `wanted` is asked once whose words are read, which costs a third of the whole; the others have empty ones.
    Raises ValueError when `url` doesn't parse.
    """
    base = document_base(survey, url, encoding)
    raws, kinds, rels, nodes = _elements(survey)
    hrefs, doubtful = base.joined(raws)
    links = Links(base.href)
    others = {raw for raw in doubtful if (hrefs[raw] or "")[:7] not in _WEB}
    if others or len(raws) > LINKS_MAX:
        left = [hrefs[raw] for raw in raws if raw in others]
        links.skipped = dict(Counter(href[: href.index(":")] for href in left if href))
        links.unparsable = left.count(None)
        links.cut = max(0, len(raws) - len(left) - LINKS_MAX)
        listed = [raw not in others for raw in raws]
        raws, kinds, rels, nodes = (
            _listed(raws, listed),
            _listed(kinds, listed),
            _listed(rels, listed),
            _listed(nodes, listed),
        )
    links.raws, links.kinds, links.rels = raws, kinds, rels
    links.urls = cast("list[str]", [hrefs[raw] for raw in raws])
    bounded = survey.elements > ELEMENTS_READ_MAX
    links.anchors = anchors = [""] * len(nodes)
    for at in wanted(links.urls) if wanted is not None else range(len(nodes)):
        node = nodes[at]
        if node is not None:
            anchors[at] = anchor_text(node, bounded=bounded) if node.tag_id == A else _words(node, kinds[at])
    return links


def _listed(column: list[_T], listed: list[bool]) -> list[_T]:
    """What is listed of a column, as far as links are."""
    return list(islice(compress(column, listed), LINKS_MAX))


def document_base(survey: Survey, url: str, encoding: str = "utf-8") -> Base:
    """Base URL of a document that came from `url`. Raises ValueError when `url` doesn't parse."""
    fallback = Base(url, encoding)
    node = first_of_html([base for base in survey.bases if "href" in base.attributes])
    href = None if node is None else fallback.join(node.attributes["href"] or "")
    return fallback if href is None or href.startswith(("data:", "javascript:")) else Base(href, encoding)


def _elements(survey: Survey) -> tuple[list[str], list[str], list[str], list[LexborNode | None]]:
    """Columns of the elements that are links: raw spelling, kind, rel tokens, node (None for a refresh)."""
    raws: list[str] = []
    kinds: list[str] = []
    rels: list[str] = []
    nodes: list[LexborNode | None] = []
    refresh = _refresh(survey)
    if refresh is not None:
        raws, kinds, rels, nodes = [refresh], ["redirect"], [""], [None]
    put_raw, put_kind, put_rel, put_node = raws.append, kinds.append, rels.append, nodes.append
    for node in survey.links:
        attributes = node.attributes
        tag = node.tag_id
        if tag == A:
            raw, kind, name = attributes.get("href"), "a", "href"
        else:
            name = "href" if tag in _HREF_TAGS else "src"
            raw = attributes.get(name)
            kind = _kind(tag, raw or "", attributes)
        # An attribute without a value says nothing, and is there.
        if raw is None and name not in attributes:
            continue
        if kind:
            put_raw(raw or "")
            put_kind(kind)
            put_rel(_tokens(attributes["rel"]) if "rel" in attributes else "")
            put_node(node)
    return raws, kinds, rels, nodes


def _tokens(rel: str | None) -> str:
    return " ".join(rel.lower().split()) if rel else ""


def _kind(tag: int, raw: str, attributes: dict[str, str | None]) -> str:
    """Kind of an element other than `a`, empty when it is no link."""
    if tag == AREA:
        return "area"
    if not raw:
        # An empty `src` is about:blank; an empty `href` makes no link of a `link` (HTML §4.2.4, §4.8.5).
        return ""
    if tag == LINK:
        return _kind_of_rel(_tokens(attributes.get("rel")).split())
    return "" if "srcdoc" in attributes else "iframe" if tag == IFRAME else "frame"


def _kind_of_rel(tokens: list[str]) -> str:
    """Kind of a `link` element, empty when it is no way to another page: styles, icons, hints."""
    for token in tokens:
        if token in _REL_KINDS:
            return _REL_KINDS[token]
    return "alternate" if "alternate" in tokens and "stylesheet" not in tokens else ""


def _words(node: LexborNode, kind: str) -> str:
    """What a link other than `a` is called."""
    return squeeze(node.attributes.get("alt" if kind == "area" else "title") or "", ANCHOR_CHARACTERS_MAX)


def _refresh(survey: Survey) -> str | None:
    """Spelling of the first meta refresh that names a URL."""
    for attributes in survey.metas:
        if (attributes.get("http-equiv") or "").lower() == "refresh":
            raw = refresh_url(attributes.get("content") or "")
            if raw is not None:
                return raw
    return None


def refresh_url(content: str) -> str | None:
    """URL of a refresh `5; url=...`, None without one (HTML §4.2.5.3, "shared declarative refresh steps")."""
    match = _REFRESH.match(content)
    if match is None:
        return None
    rest = match[1]
    prefix = _REFRESH_URL.match(rest)
    if prefix is not None and prefix[1] is None:
        # `u` without the rest of `url=`: the whole is the URL, quotes too.
        return rest
    if prefix is not None:
        rest = rest[prefix.end() :]
    if rest[:1] in ("'", '"'):
        rest = rest[1:].partition(rest[0])[0]
    return rest


def check_links(line: dict[str, object]) -> dict[str, object]:
    """Answer `frontlog check links`: {html | html_b64, url, content_type?} -> {base, links, skipped, ...}.

    `html` is text, `html_b64` the bytes as they were served; in either case the encoding that the header or
    the page declares is the one that queries are encoded in. Each link is {url, anchor, rel, kind}.
    Raises ConfigError for a question that has no answer.
    """
    url, content_type = line.get("url"), line.get("content_type")
    if not isinstance(url, str):
        raise ConfigError('"url" must be a string: where the page came from')
    if content_type is not None and not isinstance(content_type, str):
        raise ConfigError('"content_type" must be a string: the header of the response')
    body, text = _body_of(line)
    decision = decide(body, content_type)
    source = text if text is not None else parser_source(body, decision)[0]
    survey = Survey(parse(source if media_type(content_type) in HTML_TYPES else ""))
    prepare(survey, source)
    try:
        links = links_of(survey, url, decision.name if text is None or not text.isascii() else "utf-8")
    except ValueError as error:
        raise ConfigError(f'"url": {error}') from None
    columns = zip(links.urls, links.anchors, links.rels, links.kinds, strict=True)
    return {
        "base": links.base,
        "links": [{"url": u, "anchor": a, "rel": r, "kind": k} for u, a, r, k in columns],
        "skipped": links.skipped,
        "unparsable": links.unparsable,
        "cut": links.cut,
    }


def _body_of(line: dict[str, object]) -> tuple[bytes, str | None]:
    """(bytes of the page, its text when it was given as text)."""
    html, encoded = line.get("html"), line.get("html_b64")
    if isinstance(html, str) and encoded is None:
        text = scalar_values(html)
        return text.encode(), text
    if isinstance(encoded, str) and html is None:
        try:
            return b64decode(encoded, validate=True), None
        except Base64Error as error:
            raise ConfigError(f'"html_b64" is not base64: {error}') from None
    raise ConfigError('one of "html" (text) and "html_b64" (bytes in base64) must be given, as a string')
