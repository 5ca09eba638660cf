"""What a parser worker does with a sitemap or feed: its entries and children as discoveries, its facts. Pure.

The parser streams through the file (`processors/sitemaps.py`), so what is held is the body, at most 50,000 entries with
as many alternates, and their events: 500 links each, so that 50,000 URLs are a hundred events and never one record.
A file that was cut, or that breaks, gives what was whole before that.
"""

from collections.abc import Iterable

from frontlog.avro.enums import SourceKind
from frontlog.avro.events import Discovery, SitemapFacts
from frontlog.fetch.parts import Found, Link, parted
from frontlog.processors import canonical
from frontlog.processors.feeds import ALTERNATE
from frontlog.processors.sitemap_entries import DAY_MS, Entry, Kind, Sitemap
from frontlog.processors.sitemaps import parse_sitemap
from frontlog.processors.sites import site_of, split_origin

FEEDS: frozenset[Kind] = frozenset({"rss", "atom"})
EVIDENT: frozenset[Kind] = frozenset({"urlset", "index", "rss", "atom"})
"""Kinds that a file shows by itself, without having been named as a sitemap."""
ERRORS_MAX = 20
ERROR_CHARACTERS_MAX = 300
ENTRY_PRIORITY, CHILD_PRIORITY = 2, 1
RAW_CHARACTERS_MAX = 2_048
FOREIGN_ORIGINS_MAX = 500
"""Origins of other sites that one file may speak of: each is an event, and most likely a refusal."""
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
    kinds = (
        (_discovery(base, kind, base.depth + 1, ENTRY_PRIORITY), found.entries),
        (_discovery(base, SourceKind.SITEMAP_FILE, base.depth, CHILD_PRIORITY), found.children),
    )
    out: list[Found] = []
    left_out = 0
    for event, entries in kinds:
        groups, more = _by_origin(event, entries, site_of(split_origin(url)[1]))
        left_out += more
        for origin_key, group in groups.items():
            out += parted(event, origin_key, group.values(), partitions)
    return _facts(found, left_out), out


def _discovery(base: Discovery, kind: SourceKind, depth: int, priority: int) -> Discovery:
    return Discovery(
        event_id=f"{base.event_id}/{kind.value}", source_kind=kind, source_url=base.source_url, at_ms=base.at_ms,
        depth=depth, priority=priority, via=base.via,
    )  # fmt: skip


def _by_origin(
    base: Discovery, entries: Iterable[Entry], site: str
) -> tuple[dict[str, dict[str, Link]], int]:
    """Entries by origin, the first of each identity, and how many were left out. A date that is still to come says
    nothing."""
    groups: dict[str, dict[str, Link]] = {}
    foreign = left_out = 0
    for entry in entries:
        found = canonical.identify(entry.url)
        if isinstance(found, canonical.Refused) or found.identity == base.source_url:
            continue
        lastmod_ms = entry.lastmod_ms if entry.lastmod_ms <= base.at_ms + DAY_MS else 0
        rel = "alternate" if entry.kind == ALTERNATE else ""
        link = (entry.url, entry.raw[:RAW_CHARACTERS_MAX], "", rel, lastmod_ms)
        if found.origin_key not in groups and site_of(found.host) != site:
            if foreign == FOREIGN_ORIGINS_MAX:
                left_out += 1
                continue
            foreign += 1
        groups.setdefault(found.origin_key, {}).setdefault(found.identity, link)
    return groups, left_out


def _facts(found: Sitemap, left_out: int) -> SitemapFacts:
    errors = found.errors
    if left_out:
        errors = (f"{left_out:,} entries of more than {FOREIGN_ORIGINS_MAX} origins of other sites", *errors)
    return SitemapFacts(
        kind=found.kind, urls=len(found.entries), children=len(found.children), cut=found.cut + left_out,
        faults=sum(count for kind, count in found.counts.items() if kind not in NO_FAULT) + bool(left_out),
        errors=tuple(error[:ERROR_CHARACTERS_MAX] for error in errors[:ERRORS_MAX]),
    )  # fmt: skip
