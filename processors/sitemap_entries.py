"""The entries of a sitemap or feed: what becomes of each that was read, and what the whole comes to.

`sitemaps.py` has the rules; here they are applied to one entry at a time.
"""

import re
from collections import Counter
from typing import Literal

import msgspec

from frontlog.processors import feeds
from frontlog.processors.dates import date_ms
from frontlog.processors.feeds import Found
from frontlog.processors.resolve import Base

Kind = Literal["urlset", "index", "text", "rss", "atom", "html", "unknown"]
ENTRIES_MAX = 50_000
URL_CHARACTERS_MAX = 2_048
ERRORS_MAX = 100
DAY_MS = 86_400_000
CHANGEFREQS = frozenset({"always", "hourly", "daily", "weekly", "monthly", "yearly", "never"})

ABSOLUTE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_PRIORITY = re.compile(r"[01](?:\.[0-9]{1,20})?|\.[0-9]{1,20}")
_ENTITY = re.compile(r"&([^;&\s]{1,100});")


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


class Listing:
    """What was read of a file so far, and the judge of what comes next."""

    def __init__(
        self, base: Base, now_ms: int, entities: frozenset[str] = frozenset(), *, feed: bool = False
    ) -> None:
        """`base` is the file's URL; `entities` are names without a value; relative URLs are right in a feed."""
        self._base = base
        self._now_ms = now_ms
        self._entities = entities
        self._feed = feed
        self._bases: dict[str, Base | None] = {}
        self.items = 0
        """Entries that were seen, refused ones too."""
        self.entries: list[Entry] = []
        self.children: list[Entry] = []
        self._alternates: set[str] = set()
        self._notes: list[str] = []
        self._errors: list[str] = []
        self.counts: Counter[str] = Counter()
        self.cut = 0

    @property
    def full(self) -> bool:
        """Whether no more entries are taken."""
        return self.items >= ENTRIES_MAX

    def sitemap(self, kind: Kind) -> Sitemap:
        """The whole. An alternate that is listed itself is no entry of its own."""
        if self._alternates:
            listed = {entry.url for entry in self.entries if entry.kind != feeds.ALTERNATE}
            self.entries = [e for e in self.entries if e.kind != feeds.ALTERNATE or e.url not in listed]
        children, errors = tuple(self.children), (*self._notes, *self._errors)
        return Sitemap(kind, tuple(self.entries), children, errors, dict(self.counts), self.cut)

    def note(self, kind: str, line: int, what: str, times: int = 1) -> None:
        """Something about the whole file, counted as `kind`; line 0: nowhere in particular."""
        self.counts[kind] += times
        self._notes.append(f"line {line}: {what}" if line else what)

    def _error(self, kind: str, line: int, what: str) -> None:
        """Something about an entry."""
        self.counts[kind] += 1
        if len(self._errors) < ERRORS_MAX:
            self._errors.append(f"line {line}: {what}")

    def refuse(self, line: int, why: str) -> None:
        """An entry that is none."""
        self._error("entry", line, why)

    def clear(self) -> None:
        """Forget what was wrong with entries of what turned out to have none."""
        self._errors.clear()
        self.counts.clear()

    def add(self, found: Found, line: int) -> None:
        """An entry, if it is one."""
        alternate = found.kind == feeds.ALTERNATE
        if alternate and len(self._alternates) >= ENTRIES_MAX:
            self.cut += 1
            return
        url = self._url(found, line)
        if url is None or (alternate and url in self._alternates):
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
            self._error("entry", line, found.fault)
        if not raw:
            fault = "" if found.fault else "no URL"
        elif len(raw) > URL_CHARACTERS_MAX:
            fault = f"a URL of {len(raw):,} characters"
        elif "\ufffd" in raw:
            fault = f"a URL that is not text: {raw[:200]!r}"
        elif self._entities and any(name in self._entities for name in _ENTITY.findall(raw)):
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
            elif not self._feed and not ABSOLUTE.match(raw):
                self._error("relative", line, f"a relative URL, taken as {url[:200]!r}")
        if fault or url is None:
            if fault:
                self._error("entry", line, fault)
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
            self._error("date", line, f"no date: {written[:100]!r}")
        elif self._now_ms and at_ms > self._now_ms + DAY_MS:
            self._error("future", line, f"a date to come: {written!r}")
        return max(at_ms, 0)

    def _changefreq(self, written: str, line: int) -> str:
        said = written.lower()
        if said in CHANGEFREQS or not said:
            return said
        self._error("hint", line, f"no changefreq: {written[:100]!r}")
        return ""

    def _priority(self, written: str, line: int) -> float | None:
        if not written:
            return None
        value = float(written) if _PRIORITY.fullmatch(written) else 2.0
        if value <= 1:
            return value
        self._error("hint", line, f"no priority: {written[:100]!r}")
        return None
