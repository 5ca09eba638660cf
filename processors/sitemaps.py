"""Sitemaps and feeds (sitemaps.org 0.9; RSS 0.9 to 2.0, Atom): which pages they list, and when those changed.

Six kinds are told apart by what a file holds, never by its name or type: `urlset`, `index`, `text` (a URL a
line), `rss` (RDF too), `atom`, and `html`, an error page served in place of one, which lists nothing.

Reading is strict and streams: 64 KiB at a time, what was read is dropped from the tree. At the first
syntax error that bare ampersands or forbidden characters may cause, the text is read again with those
mended (`sitemap_text.Mended`); a recovering parser would make `?a=1=2` of `?a=1&b=2`. At any other error
reading ends: a cut file gives the entries that were whole, and `errors` says where it broke.

An entry is refused, and the others stay, when its URL is empty, longer than 2,048 characters, no http or
https URL, or holds markup or characters that couldn't be read. A relative one is resolved against the
sitemap's URL and noted (sitemaps.org wants absolute ones; in feeds they are allowed), but a line of a text
list must be absolute, or every text would be a list. Bad dates, frequencies and priorities are left out.

Bounds: 50,000 entries and as many different alternates a file, the rest is counted in `cut`; 50 MB
decoded (`sitemap_text`); 10,000 elements an entry; the first 100 errors in words, all in `counts`.
"""

import re
from collections.abc import Callable, Iterator
from itertools import chain
from typing import NamedTuple, cast

from lxml import etree

from frontlog.avro.errors import ConfigError
from frontlog.processors import feeds
from frontlog.processors.feeds import Element, Found, local_name
from frontlog.processors.questions import JsonObject, body_of, text_of, text_or_none
from frontlog.processors.resolve import Base
from frontlog.processors.sitemap_entries import ABSOLUTE, ENTRIES_MAX, Entry, Kind, Listing, Sitemap
from frontlog.processors.sitemap_text import Mended, SitemapText, opening
from frontlog.processors.sites import site_of, split_origin

ELEMENTS_MAX = 10_000
"""Elements directly inside one entry."""
GAP_CHARACTERS_MAX = 1 << 20
"""Text without any `<`: inside one start tag, each attribute would cost the parser 800 bytes."""
LINES_MAX = 1_000
"""Lines of a text without a URL after which it is no list."""
LINE_CHARACTERS_MAX = 16_384
"""What is looked at of a line."""

_KINDS: dict[str, Kind] = {
    "urlset": "urlset", "sitemapindex": "index", "rss": "rss", "RDF": "rss", "feed": "atom",
}  # fmt: skip
_HTML_ROOTS = frozenset({"html", "head", "body", "title", "meta", "script", "style", "div", "p", "br", "h1"})
_Readers = dict[str, Callable[[Element], list[Found]]]
_SITEMAP: _Readers = {"url": feeds.read_url, "sitemap": feeds.read_sitemap}
KINDS: frozenset[Kind] = frozenset({*_KINDS.values(), "text", "html", "unknown"})
_READERS: dict[Kind, _Readers] = {
    "urlset": _SITEMAP,
    "index": _SITEMAP,
    "rss": {"item": feeds.read_item},
    "atom": {"entry": feeds.read_entry},
}
_CODES = etree.ErrorTypes
_MENDABLE = frozenset({
    _CODES.ERR_ENTITYREF_SEMICOL_MISSING, _CODES.ERR_UNDECLARED_ENTITY, _CODES.ERR_NAME_REQUIRED,
    _CODES.ERR_INVALID_CHAR, _CODES.ERR_INVALID_CHARREF, _CODES.ERR_INVALID_DEC_CHARREF,
    _CODES.ERR_INVALID_HEX_CHARREF,
})  # fmt: skip
_WEB = re.compile(r"https?://", re.IGNORECASE)
_LINE = re.compile(r"[^\r\n]+")


class Fault(NamedTuple):
    """Where and why a parser stopped."""

    code: int
    line: int
    message: str


def parse_sitemap(
    body: bytes, url: str, content_type: str | None = None, *, encoding: str = "", now_ms: int = 0
) -> Sitemap:
    """Read a body that came from the absolute `url` (the last of its redirects).

    `content_type` is the response's header, used for its charset only; `encoding` (a WHATWG name) outranks
    it. Dates a day beyond `now_ms` are kept and counted as `future`; 0: not looked for. Raises ValueError
    when `url` doesn't parse; nothing about the body raises.
    """
    base = Base(url)
    text = SitemapText(body, content_type, encoding)
    start = opening(text.chunks())
    local = start.root.rpartition(":")[2]
    kind: Kind = "html" if start.html or local.lower() in _HTML_ROOTS else _KINDS.get(local, "unknown")
    listing = Listing(base, now_ms, start.entities, feed=kind in ("rss", "atom"))
    if kind in _READERS:
        fault = _read(kind, local, start.chunks, listing)
        if fault is not None and fault.code in _MENDABLE:
            first, mended = fault, Mended(opening(text.chunks()).chunks)
            listing = Listing(base, now_ms, start.entities, feed=kind in ("rss", "atom"))
            fault = _read(kind, local, mended.chunks(), listing)
            if count := mended.ampersands + mended.characters:
                listing.note("mended", first.line, _mended(first, mended), count)
        if fault is not None:
            listing.note("syntax", fault.line, f"{fault.message}: nothing is read from here on")
        if start.entities:
            listing.note("doctype", 0, "a DOCTYPE that declares entities: they have no value here")
    elif kind == "html":
        listing.note("syntax", 0, "a page of HTML in place of a sitemap")
    elif start.root:
        listing.note("syntax", 0, f"<{start.root[:100]}> begins no sitemap and no feed")
    else:
        kind = _read_lines(start.chunks, listing)
    for broken in text.faults:
        listing.note("bytes", 0, broken)
    return listing.sitemap(kind)


def _mended(fault: Fault, mended: Mended) -> str:
    counts = {"bare ampersands": mended.ampersands, "forbidden characters": mended.characters}
    what = ", ".join(f"{name}: {count}" for name, count in counts.items() if count)
    return f"{fault.message}: read again with what XML forbids mended ({what})"


def allowed_cross(entry_url: str, sitemap_url: str, robots_of_target_mentions_sitemap: bool) -> bool:
    """Whether a sitemap may speak for a URL (both absolute hrefs): always within its own site.

    For another site only when the robots.txt of that URL's host names the sitemap (sitemaps.org, "Sitemaps
    & Cross Submits"): otherwise anyone could fill anyone's queue.
    """
    try:
        target, source = split_origin(entry_url)[1], split_origin(sitemap_url)[1]
    except ValueError:
        return False
    return site_of(target) == site_of(source) or robots_of_target_mentions_sitemap


# --- XML -------------------------------------------------------------------------------------------------


def _read(kind: Kind, root_name: str, chunks: Iterator[str], listing: Listing) -> Fault | None:
    """Read entries until the end, the first syntax error, or the bound of entries."""
    readers = _READERS[kind]
    parser = etree.XMLPullParser(
        events=("start", "end"), tag=[f"{{*}}{name}" for name in (root_name, *readers)], encoding="utf-8",
        resolve_entities=False, load_dtd=False, no_network=True, huge_tree=False, recover=False,
        remove_comments=True, remove_pis=True, remove_blank_text=True, collect_ids=False,
    )  # fmt: skip
    root: Element | None = None
    gap = 0
    for chunk in filter(None, chunks):
        gap = 0 if "<" in chunk else gap + len(chunk)
        if gap > GAP_CHARACTERS_MAX:
            return Fault(0, 0, f"more than {GAP_CHARACTERS_MAX:,} characters without an element")
        ended = _feed(parser, chunk)
        last: Element | None = None
        for event, element in cast("Iterator[tuple[str, Element]]", parser.read_events()):
            if root is None:
                root = element
            elif event == "end" and element is not root:
                last = element
                _take(element, root, readers, listing)
        if ended is not None:
            return ended
        if listing.full and root is not None and last is not None:
            _count(root, last, chain((chunk[-100:],), chunks), listing)
            return None
        if root is not None and _prune(root, readers) > ELEMENTS_MAX:
            return Fault(0, 0, f"an entry of more than {ELEMENTS_MAX:,} elements")
    return _close(parser, listing)


def _feed(parser: etree.XMLPullParser, chunk: str) -> Fault | None:
    """Give the parser some text. It may log what is fatal without raising, and would begin anew with the next."""
    raised = ""
    try:
        parser.feed(chunk.encode("utf-8", "replace"))
    except etree.XMLSyntaxError as error:
        raised = str(error.msg)
    for fatal in parser.feed_error_log.filter_from_fatals():
        return Fault(fatal.type, fatal.line, fatal.message)
    return Fault(0, 0, raised) if raised else None


def _close(parser: etree.XMLPullParser, listing: Listing) -> Fault | None:
    """The end of the text: whether it was the end of the document."""
    try:
        parser.close()
    except etree.XMLSyntaxError as error:
        for fatal in parser.feed_error_log.filter_from_fatals():
            return Fault(fatal.type, fatal.line, fatal.message)
        for entry in parser.feed_error_log:
            # Prefixes that nobody declared: everything was read all the same.
            listing.note("syntax", entry.line, entry.message)
            return None
        return Fault(0, 0, str(error.msg))
    return None


def _take(element: Element, root: Element, readers: _Readers, listing: Listing) -> None:
    """An entry that is whole, if it stands where entries stand."""
    reader, parent = readers.get(local_name(element)), element.getparent()
    if reader is None or (parent is not root and (parent is None or local_name(parent) != "channel")):
        return
    listing.items += 1
    if listing.items > ENTRIES_MAX:
        listing.cut += 1
        return
    line = cast("int | None", element.sourceline) or 0
    for found in reader(element):
        listing.add(found, line)


def _prune(root: Element, readers: _Readers) -> int:
    """Drop what was read. Kept is the path to what is open, with the children of an entry; their number."""
    node = root
    while len(node):
        if local_name(node) not in readers:
            del node[:-1]
        elif len(node) > ELEMENTS_MAX:
            return len(node)
        node = node[-1]
    return 0


def _count(root: Element, last: Element, chunks: Iterator[str], listing: Listing) -> None:
    """Count the entries beyond the bound by their start tags, without parsing them. The first chunk was parsed."""
    parent = last.getparent()
    within = root if parent is None else parent
    listing.cut += within[-1] is not last
    name = f"{last.prefix}:{local_name(last)}" if last.prefix else local_name(last)
    start = re.compile(rf"<{re.escape(name)}[\s/>]")
    rest = next(chunks, "")[-len(name) - 1 :]
    for chunk in chunks:
        text = rest + chunk
        listing.cut += len(start.findall(text))
        rest = text[-len(name) - 1 :]


# --- text ------------------------------------------------------------------------------------------------


def _read_lines(chunks: Iterator[str], listing: Listing) -> Kind:
    """A list of one URL a line. A text without URLs in its first lines is none."""
    for number, line in _lines(chunks, listing):
        listing.items += 1
        if _WEB.match(line):
            listing.add(Found(line), number)
        else:
            listing.refuse(number, f"not an absolute http or https URL: {line[:200]!r}")
        if listing.items == LINES_MAX and not listing.entries:
            break
    if listing.entries:
        return "text"
    listing.clear()
    listing.note(
        "syntax", 0, "no sitemap, no feed, and no list of URLs" if listing.items else "nothing in it"
    )
    return "unknown"


def _lines(chunks: Iterator[str], listing: Listing) -> Iterator[tuple[int, str]]:
    """(number from 1, text without white space around it) of each line that isn't blank, until the list is full."""
    number, rest, source = 1, "", chain(chunks, ("\n",))
    for chunk in source:
        text = rest + chunk
        end = max(text.rfind("\n"), text.rfind("\r", 0, -1)) + 1  # a last \r may be half of a break
        at = 0
        for match in _LINE.finditer(text, 0, end):
            number += _breaks(text, at, match.start())
            at = match.start()
            line = match[0].strip()
            if listing.full:
                listing.cut += _rest(chain((text[at:],), source))
                return
            if line:
                yield number, line[:LINE_CHARACTERS_MAX]
        number += _breaks(text, at, end)
        rest = text[end:]
        if len(rest) > LINE_CHARACTERS_MAX:
            rest = rest[:LINE_CHARACTERS_MAX] + rest[-1:]


def _rest(chunks: Iterator[str]) -> int:
    """How many lines there are."""
    lines, before = 0, "\n"
    for chunk in chunks:
        lines += len(_LINE.findall(chunk)) - (before not in "\r\n" and chunk[0] not in "\r\n")
        before = chunk[-1]
    return lines


def _breaks(text: str, start: int, end: int) -> int:
    """Line breaks of any kind in a part of a text."""
    returns = text.count("\r", start, end)
    return text.count("\n", start, end) + (returns - text.count("\r\n", start, end) if returns else 0)


# --- by hand ---------------------------------------------------------------------------------------------


def check_sitemap(question: JsonObject) -> dict[str, object]:
    """Answer `frontlog check sitemap`: {xml_b64 | text, url, content_type?} -> {kind, urls, children, errors, ...}.

    `text` is a file of any kind that was decoded already. Each of urls and children is {loc, url, lastmod?,
    lastmod_ms?, changefreq?, priority?, kind}: `loc` as it is written (a relative one resolved), `url` as it
    would be requested. Raises ConfigError for a question that has no answer.
    """
    url = text_of(question, "url", "where the file came from")
    content_type = text_or_none(question, "content_type", "the header of the response")
    body, decoded = body_of(question, "text", "xml_b64")
    try:
        found = parse_sitemap(body, url, content_type, encoding="utf-8" if decoded else "")
    except ValueError as error:
        raise ConfigError(f'"url": {error}') from None
    return {
        "kind": found.kind,
        "urls": [_shown(entry) for entry in found.entries],
        "children": [_shown(entry) for entry in found.children],
        "errors": list(found.errors),
        "counts": found.counts,
        "cut": found.cut,
    }


def _shown(entry: Entry) -> dict[str, object]:
    written = entry.raw if ABSOLUTE.match(entry.raw) else entry.url
    shown: dict[str, object] = {"loc": written, "url": entry.url, "kind": entry.kind}
    if entry.lastmod_ms:
        shown |= {"lastmod": entry.lastmod, "lastmod_ms": entry.lastmod_ms}
    if entry.changefreq:
        shown["changefreq"] = entry.changefreq
    if entry.priority is not None:
        shown["priority"] = entry.priority
    return shown
