"""URLs that a crawl knows and that look like one that it doesn't: the other spelling is most often what was meant."""

from collections.abc import Iterator
from difflib import SequenceMatcher
from heapq import nlargest
from itertools import islice

from frontlog.processors import canonical
from frontlog.state import keys
from frontlog.state.tables import Tables

SHOWN = 5
ROWS_MAX = 20_000
"""Rows of an origin that are compared; the rest of a huge one isn't."""
RATIO_MIN = 0.5


def near(tables: Tables, found: canonical.Identity) -> list[str]:
    """Known URLs near an unknown one, best first, from the shard that would know it."""
    likely = [url for url in _variants(found.identity) if _known(tables, url)]
    return list(dict.fromkeys([*likely, *_alike(tables, found)]))[:SHOWN]


def _variants(url: str) -> Iterator[str]:
    """Spellings that people mix up: slash, query, scheme, www, case."""
    base, _, query = url.partition("?")
    more = f"?{query}" if query else ""
    slashed = f"{base.rstrip('/')}{more}" if base.endswith("/") else f"{base}/{more}"
    yield from (slashed, base, url.lower(), f"{base.rstrip('/')}/index.html")
    for one in (url, slashed):
        scheme, _, rest = one.partition("://")
        other = "http" if scheme == "https" else "https"
        bare = rest.removeprefix("www.") if rest.startswith("www.") else f"www.{rest}"
        yield from (f"{other}://{rest}", f"{scheme}://{bare}", f"{other}://{bare}")


def _known(tables: Tables, url: str) -> bool:
    found = canonical.canonicalize(url)
    if isinstance(found, canonical.Refused) or found.identity != url:
        return False
    return tables.urls.get(keys.url_key(keys.origin_id(found.origin_key), url)) is not None


def _alike(tables: Tables, found: canonical.Identity) -> list[str]:
    """The URLs of the same origin whose path is most alike."""
    origin = keys.origin_id(found.origin_key)
    start = len(found.identity) - len(found.identity.partition("://")[2].partition("/")[2])
    matcher = SequenceMatcher(autojunk=False)
    matcher.set_seq2(found.identity[start:])
    scored: list[tuple[float, str]] = []
    for _, row in islice(tables.urls.scan(origin, keys.after(origin)), ROWS_MAX):
        matcher.set_seq1(row.url[start:])
        if matcher.real_quick_ratio() >= RATIO_MIN and matcher.quick_ratio() >= RATIO_MIN:
            scored.append((matcher.ratio(), row.url))
    return [url for ratio, url in nlargest(SHOWN, scored) if ratio >= RATIO_MIN]
