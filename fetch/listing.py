"""What a parser worker does with a sitemap or feed: its entries and children as discoveries, its facts. Pure.

The parser streams through the file (`processors/sitemaps.py`), so what is held is the body, at most 50,000 entries with
as many alternates, and their events: 500 links each, so that 50,000 URLs are a hundred events and never one record.
A file that was cut, or that breaks, gives what was whole before that.
"""

from collections.abc import Iterable, Iterator

from frontlog.avro.enums import SourceKind
from frontlog.avro.events import Discovery, SitemapFacts
from frontlog.fetch.parts import Found, Link, parted
from frontlog.processors import canonical
from frontlog.processors.feeds import ALTERNATE
from frontlog.processors.sitemap_entries import DAY_MS, Entry, Kind, Sitemap
from frontlog.processors.sitemaps import parse_sitemap

FEEDS: frozenset[Kind] = frozenset({"rss", "atom"})
EVIDENT: frozenset[Kind] = frozenset({"urlset", "index", "rss", "atom"})
"""Kinds that a file shows by itself, without having been named as a sitemap."""
ERRORS_MAX = 20
ERROR_CHARACTERS_MAX = 300
ENTRY_PRIORITY, CHILD_PRIORITY = 2, 1
RAW_CHARACTERS_MAX = 2_048
NO_FAULT = frozenset({"relative", "hint", "date", "future"})
"""What is said of entries that are taken all the same."""


def listed(
    base: Discovery, body: bytes, url: str, content_type: str, *, named: bool, partitions: int
) -> tuple[SitemapFacts | None, list[Found]]:
    """Read a file. `base`: the attempt as event_id, the file as source_url, its own depth, `via` with the file itself;
    `named`: it was named as a sitemap, so any list of URLs is one. No facts: it is neither sitemap nor feed."""
    found = parse_sitemap(body, url, content_type, now_ms=base.at_ms)
    if not named and found.kind not in EVIDENT:
        return None, []
    kind = SourceKind.FEED if found.kind in FEEDS else SourceKind.SITEMAP
    entries = _discovery(base, kind, base.depth + 1, ENTRY_PRIORITY)
    children = _discovery(base, SourceKind.SITEMAP_FILE, base.depth, CHILD_PRIORITY)
    out = list(_events(entries, found.entries, partitions))
    out += _events(children, found.children, partitions)
    return _facts(found), out


def _discovery(base: Discovery, kind: SourceKind, depth: int, priority: int) -> Discovery:
    return Discovery(
        event_id=f"{base.event_id}/{kind.value}", source_kind=kind, source_url=base.source_url, at_ms=base.at_ms,
        depth=depth, priority=priority, via=base.via,
    )  # fmt: skip


def _events(base: Discovery, entries: Iterable[Entry], partitions: int) -> Iterator[Found]:
    """Entries by origin, the first of each identity. A date that is still to come says nothing."""
    groups: dict[str, dict[str, Link]] = {}
    for entry in entries:
        found = canonical.identify(entry.url)
        if isinstance(found, canonical.Refused) or found.identity == base.source_url:
            continue
        lastmod_ms = entry.lastmod_ms if entry.lastmod_ms <= base.at_ms + DAY_MS else 0
        rel = "alternate" if entry.kind == ALTERNATE else ""
        link = (entry.url, entry.raw[:RAW_CHARACTERS_MAX], "", rel, lastmod_ms)
        groups.setdefault(found.origin_key, {}).setdefault(found.identity, link)
    for origin_key, group in groups.items():
        yield from parted(base, origin_key, group.values(), partitions)


def _facts(found: Sitemap) -> SitemapFacts:
    return SitemapFacts(
        kind=found.kind, urls=len(found.entries), children=len(found.children), cut=found.cut,
        faults=sum(count for kind, count in found.counts.items() if kind not in NO_FAULT),
        errors=tuple(error[:ERROR_CHARACTERS_MAX] for error in found.errors[:ERRORS_MAX]),
    )  # fmt: skip
