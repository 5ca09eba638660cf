"""The links of a page: what it points at, in which words, and what it says about the target.

A link is what a browser without scripts could follow: `a` and `area` with `href`, `iframe` and `frame`
with `src`, `link` elements whose `rel` names another page, and a meta refresh. The spelling, with
references decoded as in any attribute, is resolved against the document's base URL by the WHATWG rules
(`resolve.py`), before any rule of identity. Only http and https links are listed; the others are counted by
scheme. `nofollow`, `ugc` and `sponsored` are facts, kept in `rel`: a policy may look at them.

The base (HTML Standard §2.4.1) is that of the first `base` element with an `href` in the document, and no
other: one that doesn't parse, or has a `data:` or `javascript:` URL, leaves the document's own URL.
"""

import re
from base64 import b64decode
from binascii import Error as Base64Error

import msgspec
from selectolax.lexbor import LexborNode

from frontlog.avro.errors import ConfigError
from frontlog.processors.anchors import anchor_text
from frontlog.processors.encoding import decide, decode
from frontlog.processors.markup import AREA, IFRAME, LINK, A, Survey, is_foreign, parse, squeeze
from frontlog.processors.resolve import Base

LINKS_MAX = 10_000
"""Links listed of one page; the rest is counted in `cut`."""
ANCHOR_CHARACTERS_MAX = 200

_BLANKS = "\t\n\f\r "
_REL_KINDS = {"canonical": "canonical", "next": "next", "prev": "prev", "previous": "prev"}
_REFRESH = re.compile(r"[\t\n\f\r ]*(?:[0-9]+|(?=\.))[0-9.]*(?=[;,\t\n\f\r ])[\t\n\f\r ]*[;,]?[\t\n\f\r ]*")
_REFRESH_URL = re.compile(r"url[\t\n\f\r ]*=[\t\n\f\r ]*", re.IGNORECASE)
_HTML_TYPES = ("", "text/html", "application/xhtml+xml")


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


def links_of(survey: Survey, url: str, encoding: str = "utf-8") -> Links:
    """Links of a parsed page that came from the absolute `url` in `encoding` (WHATWG name).

    Raises ValueError when `url` doesn't parse.
    """
    base = document_base(survey, url, encoding)
    found = [(raw, "redirect", None, "") for raw in _refreshes(survey)]
    found += _elements(survey)
    links = Links(base.href)
    hrefs = base.join_all([raw for raw, *_ in found])
    cheap = survey.elements < 5_000
    for (raw, kind, node, rel), href in zip(found, hrefs, strict=True):
        if href is None:
            links.unparsable += 1
        elif not href.startswith(("https://", "http://")):
            scheme = href[: href.index(":")]
            links.skipped[scheme] = links.skipped.get(scheme, 0) + 1
        elif len(links.urls) == LINKS_MAX:
            links.cut += 1
        else:
            links.raws.append(raw)
            links.urls.append(href)
            links.kinds.append(kind)
            links.rels.append(" ".join(rel.lower().split()) if rel else "")
            links.anchors.append(anchor_text(node, cheap=cheap)[:ANCHOR_CHARACTERS_MAX] if node else "")
    return links
