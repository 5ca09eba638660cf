"""How far the markup of a page can be trusted (seed 000, chapter 7).

- `clean`: nothing had to be mended;
- `repaired`: bytes didn't fit the encoding, NULs, or more end tags than elements that can end (the parser's
  own `html`, `head` and `body` counted);
- `partial`: the document stops early, inside a tag or comment or without the `</html>` that its `<html>`
  promises; or the parser gave up, and only the characters are kept.

lexbor reports no parse errors, so a page can be wrong in other ways and count as clean.
"""

import re
from typing import Literal

from frontlog.processors.markup import Survey

Quality = Literal["clean", "repaired", "partial"]

HEAD_CHARACTERS_MAX = 4096
"""Where the `<html>` tag is looked for."""
TAIL_CHARACTERS = 1024
"""Where `</html` stands in most documents."""

_TAG_START = re.compile(r"<[A-Za-z/!]")
_HTML_START = re.compile(r"<html[\s>/]", re.IGNORECASE)
_HTML_END = re.compile(r"</html", re.IGNORECASE)
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)


def quality_of(survey: Survey, source: bytes | str, *, repaired: bool) -> Quality:
    """Quality of a page, before anything is taken out of its tree; `repaired`: bytes had to be replaced."""
    text = source if isinstance(source, str) else source.decode("latin-1")
    if _stops_early(text):
        return "partial"
    return "repaired" if repaired or "\0" in text or _has_stray_end_tags(survey, text) else "clean"


def _stops_early(text: str) -> bool:
    """Whether a document ends before its end."""
    start = text.rfind("<")
    if start >= 0 and text.find(">", start) < 0 and _TAG_START.match(text, start):
        return True
    if "</html" in text[-TAIL_CHARACTERS:].lower():
        return False
    if text.rfind("<!--") > text.rfind("-->"):
        return True
    promised = _HTML_START.search(text, 0, HEAD_CHARACTERS_MAX) is not None
    return promised and _HTML_END.search(text) is None


def _has_stray_end_tags(survey: Survey, text: str) -> bool:
    """Whether there are more end tags than elements that they could end."""
    surplus = text.count("</") - survey.elements + len(survey.voids) + len(survey.metas) + len(survey.bases)
    if surplus > 0:
        # Scripts, comments and templates have end tags that are no elements of the tree.
        surplus -= sum(node.text().count("</") for node in survey.hidden)
        surplus -= sum(len(content.css("*")) for content in survey.parser.template_fragments())
    if surplus > 0:
        surplus -= sum(comment[0].count("</") for comment in _COMMENT.finditer(text))
    return surplus > 0
