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
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Literal, NamedTuple

import msgspec
from lxml import etree

from frontlog.processors import feeds
from frontlog.processors.dates import date_ms
from frontlog.processors.feeds import Element, Found, local_name
from frontlog.processors.resolve import Base
from frontlog.processors.sitemap_text import Mended, Opening, SitemapText, opening
from frontlog.processors.sites import site_of, split_origin

Kind = Literal["urlset", "index", "text", "rss", "atom", "html", "unknown"]
ENTRIES_MAX = 50_000
URL_CHARACTERS_MAX = 2_048
ELEMENTS_MAX = 10_000
ERRORS_MAX = 100
LINES_MAX = 1_000
"""Lines of a text without a URL after which it is no list."""
LINE_CHARACTERS_MAX = 65_536
DAY_MS = 86_400_000
CHANGEFREQS = frozenset({"always", "hourly", "daily", "weekly", "monthly", "yearly", "never"})

_KINDS: dict[str, Kind] = {
    "urlset": "urlset", "sitemapindex": "index", "rss": "rss", "RDF": "rss", "feed": "atom", "html": "html",
}  # fmt: skip
_HTML_ROOTS = frozenset({"html", "head", "body", "title", "meta", "script", "style", "link", "div", "p", "br", "h1"})
_READERS: dict[str, dict[str, Callable[[Element], list[Found]]]] = {
    "urlset": {"url": feeds.read_url, "sitemap": feeds.read_sitemap},
    "index": {"sitemap": feeds.read_sitemap, "url": feeds.read_url},
    "rss": {"item": feeds.read_item},
    "atom": {"entry": feeds.read_entry},
}
_FEEDS = frozenset({"rss", "atom"})
_MENDABLE = frozenset({
    etree.ErrorTypes.ERR_ENTITYREF_SEMICOL_MISSING, etree.ErrorTypes.ERR_UNDECLARED_ENTITY,
    etree.ErrorTypes.ERR_NAME_REQUIRED, etree.ErrorTypes.ERR_INVALID_CHAR, etree.ErrorTypes.ERR_INVALID_CHARREF,
    etree.ErrorTypes.ERR_INVALID_DEC_CHARREF, etree.ErrorTypes.ERR_INVALID_HEX_CHARREF,
})  # fmt: skip
_ABSOLUTE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_WEB = re.compile(r"https?://", re.IGNORECASE)
_PRIORITY = re.compile(r"[01](?:\.[0-9]{1,20})?|\.[0-9]{1,20}")
_ENTITY = re.compile(r"&([^;&\s]{1,100});")
_LINE = re.compile(r"[^\r\n]*[^\s][^\r\n]*")


class Entry(msgspec.Struct, frozen=True):
    """A page that a sitemap or feed lists, or (of an index) a sitemap."""

    url: str
    """WHATWG href, fragment included."""
    raw: str = ""
    """Spelling as found; empty: as in `url`."""
    kind: str = feeds.PAGE
    """page, news, alternate (another language or form of an entry) or sitemap."""
    lastmod_ms: int = 0
    """When it last changed, it says (ms since the epoch, UTC); 0: nothing usable was said."""
    lastmod: str = ""
    """That date as it is written."""
    changefreq: str = ""
    """A hint: always, hourly, daily, weekly, monthly, yearly, never; empty: none."""
    priority: float | None = None
    """A hint, 0.0 to 1.0 within its own site."""


class Sitemap(msgspec.Struct, frozen=True):
    """What a file lists, in its order."""

    kind: Kind
    entries: tuple[Entry, ...] = ()
    children: tuple[Entry, ...] = ()
    """The sitemaps that it names."""
    errors: tuple[str, ...] = ()
    """What was wrong, with its line from 1 on: refused entries, what was left out, where reading ended."""
    counts: dict[str, int] = {}
    """How often, by kind: syntax, bytes, mended, entry, relative, date, future, hint, doctype."""
    cut: int = 0
    """Entries and alternates beyond the bounds."""


def parse_sitemap(
    body: bytes, url: str, content_type: str | None = None, *, encoding: str = "", now_ms: int = 0
) -> Sitemap:
    """Read a body that came from the absolute `url` (the last of its redirects).

    `content_type` is the response's header, used for its charset only; `encoding` (a WHATWG name) outranks
    it. Dates a day beyond `now_ms` are kept and counted as `future`; 0: not looked for. Raises ValueError
    when `url` doesn't parse; nothing about the body raises.
    """
    text = SitemapText(body, content_type, encoding)
    list_ = _List(Base(url), now_ms)
    start = opening(text.chunks())
    local = start.root.rpartition(":")[2]
    kind: Kind = _KINDS.get(local, "unknown")
    if start.html or local.lower() in _HTML_ROOTS:
        kind = "html"
    elif kind != "unknown":
        list_ = _markup(kind, text, start, list_)
    elif start.root:
        list_.error("syntax", 0, f"<{start.root[:100]}> is no sitemap and no feed")
    else:
        kind = _lines(start.chunks, list_)
    for fault in text.faults:
        list_.error("bytes", 0, fault)
    return list_.sitemap(kind)


def allowed_cross(entry_url: str, sitemap_url: str, robots_of_target_mentions_sitemap: bool) -> bool:
    """Whether a sitemap may speak for a URL (both absolute hrefs): always within its own site.

    For another site only when the robots.txt of that site's host names the sitemap (sitemaps.org, "Sitemaps
    & Cross Submits"): otherwise anyone could fill anyone's queue.
    """
    try:
        target, source = split_origin(entry_url)[1], split_origin(sitemap_url)[1]
    except ValueError:
        return False
    return site_of(target) == site_of(source) or robots_of_target_mentions_sitemap


class _List:
    """What was read so far."""

    def __init__(self, base: Base, now_ms: int) -> None:
        self._base = base
        self._now_ms = now_ms
        self._bases: dict[str, Base | None] = {}
        self.items = 0
        self.feed = False
        self.entities: frozenset[str] = frozenset()
        self.entries: list[Entry] = []
        self.children: list[Entry] = []
        self._alternates: set[str] = set()
        self.errors: list[str] = []
        self.counts: Counter[str] = Counter()
        self.cut = 0

    @property
    def full(self) -> bool:
        return self.items >= ENTRIES_MAX

    def sitemap(self, kind: Kind) -> Sitemap:
        """The whole. An alternate that is listed itself is no entry of its own."""
        if self._alternates:
            listed = {entry.url for entry in self.entries if entry.kind != feeds.ALTERNATE}
            self.entries = [e for e in self.entries if e.kind != feeds.ALTERNATE or e.url not in listed]
        children, errors = tuple(self.children), tuple(self.errors)
        return Sitemap(kind, tuple(self.entries), children, errors, dict(self.counts), self.cut)

    def error(self, kind: str, line: int, what: str, times: int = 1) -> None:
        self.counts[kind] += times
        if len(self.errors) < ERRORS_MAX:
            self.errors.append(f"line {line}: {what}" if line else what)

    def add(self, found: Found, line: int) -> None:
        """An entry, if it is one."""
        alternate = found.kind == feeds.ALTERNATE
        url = self._url(found, line)
        if url is None or (alternate and url in self._alternates):
            return
        if alternate and len(self._alternates) >= ENTRIES_MAX:
            self.cut += 1
            return
        lastmod_ms = self._date(found.date, line)
        entry = Entry(
            url=url,
            raw="" if found.loc == url else found.loc,
            kind=found.kind,
            lastmod_ms=lastmod_ms,
            lastmod=found.date if lastmod_ms else "",
            changefreq=self._changefreq(found.changefreq, line),
            priority=self._priority(found.priority, line),
        )
        if alternate:
            self._alternates.add(url)
        (self.children if found.kind == feeds.CHILD else self.entries).append(entry)

    def _url(self, found: Found, line: int) -> str | None:
        """WHATWG href of an entry; None when it is refused."""
        raw, fault, url = found.loc, "", None
        if found.fault:
            self.error("entry", line, found.fault)
        if not raw:
            fault = "" if found.fault else "no URL"
        elif len(raw) > URL_CHARACTERS_MAX:
            fault = f"a URL of {len(raw):,} characters"
        elif "\ufffd" in raw:
            fault = f"a URL that is not text: {raw[:200]!r}"
        elif self.entities and any(name in self.entities for name in _ENTITY.findall(raw)):
            fault = f"a URL with an entity of the DOCTYPE: {raw[:200]!r}"
        else:
            base = self._base if not found.base else self._based(found.base)
            url = base.join(raw) if base is not None else None
            if url is None:
                fault = f"not a URL: {raw[:200]!r}"
            elif not url.startswith(("http://", "https://")):
                fault = f"not an http or https URL: {raw[:200]!r}"
            elif len(url) > URL_CHARACTERS_MAX:
                fault = f"a URL of {len(url):,} characters"
            elif not self.feed and not _ABSOLUTE.match(raw):
                self.error("relative", line, f"a relative URL, taken as {url[:200]!r}")
        if fault or url is None:
            if fault:
                self.error("entry", line, fault)
            return None
        return url

    def _based(self, written: str) -> Base | None:
        """The base that an xml:base makes; None for one that makes none."""
        if written not in self._bases:
            if len(self._bases) >= ERRORS_MAX:
                self._bases.clear()
            href = self._base.join(written)
            self._bases[written] = Base(href) if href is not None else None
        return self._bases[written]

    def _date(self, written: str, line: int) -> int:
        if not written:
            return 0
        at_ms = date_ms(written) or 0
        if at_ms <= 0:
            self.error("date", line, f"no date: {written[:100]!r}")
        elif self._now_ms and at_ms > self._now_ms + DAY_MS:
            self.error("future", line, f"a date to come: {written!r}")
        return max(at_ms, 0)

    def _changefreq(self, written: str, line: int) -> str:
        said = written.lower()
        if said in CHANGEFREQS or not said:
            return said
        self.error("hint", line, f"no changefreq: {written[:100]!r}")
        return ""

    def _priority(self, written: str, line: int) -> float | None:
        if not written:
            return None
        value = float(written) if _PRIORITY.fullmatch(written) else 2.0
        if value <= 1:
            return value
        self.error("hint", line, f"no priority: {written[:100]!r}")
        return None
