"""The words of a page: visible text, title, and the print that tells equal texts.

Visible is what stands in `body` outside of scripts, styles, `noscript` (a visitor has scripts), frames,
media fall-backs, SVG and elements with the `hidden` attribute. The border of a block separates words, that of
an inline element doesn't: `<b>W</b>ord` is one word, `<td>a</td><td>b</td>` are two. Style sheets are not
looked at.

The normalized text is the visible text with each run of white space (`str.split`) made one space. Case and
Unicode form stay: a text that differs in them differs. `text_sha256` is the SHA-256 of its UTF-8.
"""

import hashlib
from itertools import islice

from selectolax.lexbor import LexborHTMLParser, LexborNode

from frontlog.processors.markup import (
    ELEMENTS_READ_MAX,
    ELEMENTS_UNWRAPPED_MAX,
    IFRAME,
    IMG,
    ROOT_IDS,
    Survey,
    first_of_html,
)

ANCHOR_CHARACTERS_MAX = 200
TITLE_CHARACTERS_MAX = 1000
ANCHOR_NODES_MAX = 100
"""Nodes of a link that are looked at for images, or for text on a page with very many elements."""

_SPACES = [c for c in map(chr, range(0x3001)) if c.isspace() and c != " "]
_ASCII_SPACES = [c.encode() for c in _SPACES if c.isascii()]
_WIDE_SPACES = [(c, c.encode()) for c in _SPACES if not c.isascii()]
_ASCII = bytes(range(0x80))


def prepare(survey: Survey, source: bytes | str) -> None:
    """Take what isn't visible and the inline elements out of the tree, so that text falls into its words.

    Elements that the survey lists keep their content. Links stay in the tree: `visible_text` takes them. The texts of a
    link become one when its words are read, those of all links at once only where elements are very many.
    """
    for node in (*survey.hidden, *survey.titles):
        node.decompose(recursive=False)
    for node in survey.links:
        if node.tag_id == IFRAME:
            node.decompose(recursive=False)
    for node in survey.parser.css("[hidden]"):
        # Pages hide their root until a script shows it.
        if node.tag_id not in ROOT_IDS:
            node.decompose(recursive=False)
    if _has_empty_comment(source):
        _drop_comments(survey.parser)
    if survey.elements <= ELEMENTS_UNWRAPPED_MAX:
        # Outermost first, so that a child is moved once and not once a level.
        for node in survey.inline:
            node.unwrap(True)
        if survey.elements > ELEMENTS_READ_MAX:
            _merge(survey)


def visible_text(survey: Survey) -> bytes:
    """Normalized text of a page after `prepare`, in UTF-8. Takes the links out of the tree: the last to look at it."""
    if survey.elements <= ELEMENTS_UNWRAPPED_MAX:
        for node in survey.links:
            node.unwrap(True)
        _merge(survey)
    body = survey.parser.body
    # Stripped text by text, few white space is left to normalize.
    return b"" if body is None else normalize_text(body.text(separator=" ", strip=True, skip_empty=True))


def normalize_text(text: str) -> bytes:
    """`text` with each run of white space made one space, none at its ends, in UTF-8: `" ".join(text.split()).encode()`.

    A lone surrogate becomes a question mark.
    """
    # A search for each kind of space and a few replacements take half of the work of a list of all words. What isn't ASCII
    # is looked through on its own, since it is little in most texts.
    data = text.encode("utf-8", "replace")
    for space in _ASCII_SPACES:
        if space in data:
            data = data.replace(space, b" ")
    if not text.isascii():
        beyond = data.translate(None, _ASCII).decode()
        for letter, wide in _WIDE_SPACES:
            if letter in beyond:
                data = data.replace(wide, b" ")
    while b"  " in data:
        data = data.replace(b"  ", b" ")
    return data.strip(b" ")


def text_sha256(normalized: bytes) -> bytes:
    """Print of a normalized text in UTF-8: 32 bytes."""
    return hashlib.sha256(normalized).digest()


def word_count(normalized: bytes) -> int:
    """Words of a normalized text, as white space separates them; scripts without spaces count runs."""
    return normalized.count(b" ") + 1 if normalized else 0


def title_of(survey: Survey) -> str:
    """Text of the first HTML `title`, before `prepare`; white space squeezed, cut at 1,000 characters."""
    node = first_of_html(survey.titles)
    return "" if node is None else squeeze(node.text(), TITLE_CHARACTERS_MAX)


def anchor_text(node: LexborNode, *, bounded: bool = False) -> str:
    """Visible text of a link after `prepare`, cut at 200 characters; without text, `alt` of its images.

    `bounded` looks at its first nodes only: links inside links would be read once a level.
    """
    if bounded:
        inside = islice(node.traverse(include_text=True), ANCHOR_NODES_MAX)
        text = " ".join(part.text_content or "" for part in inside if part.is_text_node)
    else:
        node.merge_text_nodes()
        text = node.text(separator=" ", skip_empty=True)
    if len(text) > ANCHOR_CHARACTERS_MAX:
        words = squeeze(text, ANCHOR_CHARACTERS_MAX)
    else:
        words = " ".join(text.split())
    if words or len(text) > 4 * ANCHOR_CHARACTERS_MAX:
        return words
    inside = islice(node.traverse(), ANCHOR_NODES_MAX)
    alts = [image.attributes.get("alt") or "" for image in inside if image.tag_id == IMG]
    return squeeze(" ".join(alts), ANCHOR_CHARACTERS_MAX)


def squeeze(words: str, characters_max: int) -> str:
    """`words` normalized and cut; of a very long text only the beginning is looked at."""
    if len(words) > 4 * characters_max:
        words = words.lstrip()[: 4 * characters_max]
    return " ".join(words.split())[:characters_max].rstrip()


def _merge(survey: Survey) -> None:
    """Make one text node of neighbours: they are no border of words."""
    if survey.parser.body is not None:
        survey.parser.body.merge_text_nodes()


def _has_empty_comment(source: bytes | str) -> bool:
    """Whether a page has `<!-- -->` or `<!---->`. A search for `!` alone, which is rare, takes a fifth of one for `<!--`."""
    text = source if isinstance(source, str) else source.decode("latin-1")
    at = text.find("!", 1)
    while at >= 0:
        if text[at - 1 : at + 3] == "<!--" and text.startswith(("-->", " -->"), at + 3):
            return True
        at = text.find("!", at + 1)
    return False


def _drop_comments(parser: LexborHTMLParser) -> None:
    """Unlink comments: renderers of components put empty ones between the parts of one text."""
    root = parser.root
    if root is not None:
        for node in [n for n in root.traverse(include_text=False) if n.is_comment_node]:
            node.decompose(recursive=False)
