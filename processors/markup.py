"""One look over a parsed page: which elements the link, text and meta readers need, in document order.

lexbor builds the tree as browsers do with scripting off: the content of `noscript` is markup, that of
`template` is not in the tree, that of `iframe`, `noembed`, `noframes`, `script` and `style` is text.
Asking it for each kind of element walks the tree once a kind; here the tree is walked once and the
elements are told apart by their tag ids, which costs a third.
"""

from collections.abc import Callable
from operator import attrgetter

from selectolax.lexbor import LexborDocumentOptions, LexborHTMLParser, LexborNode, create_tag

LINKS = ("a", "area", "link", "iframe", "frame")
INLINE = (
    *("abbr", "acronym", "b", "bdi", "bdo", "big", "cite", "code", "data", "del", "dfn", "em", "font", "i"),
    *("ins", "kbd", "label", "mark", "nobr", "q", "ruby", "s", "samp", "small", "span", "strike"),
    *("strong", "sub", "sup", "time", "tt", "u", "var", "wbr"),
)
"""Elements whose borders don't separate words. `a` is one too; it stands with the links."""
HIDDEN = (*("script", "style", "noscript", "noembed", "noframes", "svg", "audio", "video", "datalist"),)
"""Elements whose text is not words that a visitor reads; `iframe` and `title` too, which have lists of
their own. `head` is no part of the body's text, and the content of `template` not of the tree."""
VOID = (
    *("area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track"),
    "wbr",
)
"""Elements that have no end tag."""


def _ids(tags: tuple[str, ...]) -> frozenset[int]:
    return frozenset(create_tag(tag).tag_id for tag in tags)


_LISTS = ("links", "inline", "hidden", "voids", "metas", "bases", "titles", "roots")
_USES = {
    **dict.fromkeys(VOID, "voids"),
    **dict.fromkeys(INLINE, "inline"),
    **dict.fromkeys(HIDDEN, "hidden"),
    **dict.fromkeys(LINKS, "links"),
    **{"meta": "metas", "base": "bases", "title": "titles", "html": "roots"},
}
_VOID_LINKS, _VOID_INLINE = len(_LISTS), len(_LISTS) + 1
"""Uses of elements that stand on two lists: void ones among the links and the inline elements."""
_USE_OF_ID = {
    **{create_tag(tag).tag_id: _LISTS.index(use) for tag, use in _USES.items()},
    **{create_tag(tag).tag_id: _VOID_LINKS for tag in LINKS if tag in VOID},
    **{create_tag(tag).tag_id: _VOID_INLINE for tag in INLINE if tag in VOID},
}
_tag_id: Callable[[LexborNode], int] = attrgetter("tag_id")
ROOT_IDS = _ids(("html", "head", "body"))
ELEMENTS_READ_MAX = 5_000
"""A page with more elements has the words of its links read from their first nodes only."""
ELEMENTS_UNWRAPPED_MAX = 50_000
"""A page with more elements keeps its inline elements, and its text a space at each of their borders."""

A, AREA, LINK, IFRAME, IMG = (create_tag(tag).tag_id for tag in ("a", "area", "link", "iframe", "img"))


class Survey:
    """The elements of a page by use, each list in document order. But for `voids` they have no element in common."""

    __slots__ = ("elements", "parser", *_LISTS)

    links: list[LexborNode]
    inline: list[LexborNode]
    hidden: list[LexborNode]
    voids: list[LexborNode]
    """All that have no end tag, but for `metas` and `bases`."""
    metas: list[dict[str, str | None]]
    """Their attributes; a `meta` can't stand in SVG or MathML."""
    bases: list[LexborNode]
    titles: list[LexborNode]
    roots: list[LexborNode]

    def __init__(self, parser: LexborHTMLParser) -> None:
        """Walk the tree of a parsed page once."""
        nodes = parser.css("*")
        self.parser = parser
        self.elements = len(nodes)
        lists: list[list[LexborNode]] = [[] for _ in _LISTS]
        links, inline, _, voids = lists[:4]

        def void_link(node: LexborNode) -> None:
            links.append(node)
            voids.append(node)

        def void_inline(node: LexborNode) -> None:
            inline.append(node)
            voids.append(node)

        puts = [*(one.append for one in lists), void_link, void_inline]
        for i, node in zip(map(_USE_OF_ID.get, map(_tag_id, nodes)), nodes, strict=True):
            if i is not None:
                puts[i](node)
        for name, one in zip(_LISTS, lists, strict=True):
            setattr(self, name, one)
        self.metas = [node.attributes for node in lists[_LISTS.index("metas")]]


def parse(source: bytes | str) -> LexborHTMLParser:
    """Parse a page: UTF-8 without a byte order mark, or text. lexbor never refuses markup."""
    # No events: a copied <selectedcontent> would give the text of an option twice.
    return LexborHTMLParser(source, options=LexborDocumentOptions.WO_EVENTS)


def first_of_html(nodes: list[LexborNode]) -> LexborNode | None:
    """The first of some elements (of the first 16) that isn't SVG's or MathML's: `title` and `base` may be."""
    return next((node for node in nodes[:16] if not _is_foreign(node)), None)


def _is_foreign(node: LexborNode) -> bool:
    parent = node.parent
    while parent is not None:
        tag = (parent.tag or "").lower()
        if tag in ("svg", "math"):
            return True
        if tag in ("foreignobject", "desc", "title", "annotation-xml", "body", "head"):
            return False
        parent = parent.parent
    return False
