"""What sitemaps list and robots.txt names, for tests of one partition."""

from typing import Any

from msgspec.structs import replace

from frontlog.avro.enums import SourceKind
from frontlog.avro.events import Discovery
from frontlog.processors.settings import Settings
from support.machine import NOW_MS, Bench

A, ORIGIN = "http://a.example", "http://a.example:80"
FILE, URL = f"{A}/sitemap.xml", f"{A}/page"
K = SourceKind


def listed(*urls: str, **fields: Any) -> Discovery:
    """What a sitemap of a.example lists."""
    n = len(urls)
    base = Discovery(
        event_id="e", origin_key=ORIGIN, source_kind=K.SITEMAP, source_url=FILE, at_ms=NOW_MS, depth=1, priority=2, parts=1,
        urls=urls, raws=("",) * n, anchors=("",) * n, rels=("",) * n, via=(FILE,),
    )  # fmt: skip
    return replace(base, **fields)


def named(*urls: str, **fields: Any) -> Discovery:
    """What a robots.txt or an index names."""
    return listed(*urls, **{"source_kind": K.SITEMAP_FILE, "via": (), "depth": 0, "priority": 1, **fields})


def in_scope(settings: Settings | None = None, robots: bytes = b"") -> Bench:
    """A bench that has fetched the home page of a.example under a robots.txt."""
    bench = Bench(settings or Settings())
    bench.page(bench.prepare(f"{A}/", robots))
    return bench
