"""Whether a URL belongs to the crawl: the seeds' hosts, sites or prefixes, patterns, depth (seed 000, gate 3).

Patterns are Python regular expressions, searched in the identity; they come from the crawl's own
configuration, are checked when it is read, and are compiled once.
"""

import re
from functools import lru_cache

from frontlog.avro.enums import SourceKind
from frontlog.processors.settings import Scope
from frontlog.state.rows import HostRow, SiteRow


@lru_cache(maxsize=4_096)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


def outside(rules: Scope, url: str, depth: int, host: HostRow | None, site: SiteRow | None) -> str:
    """Why a URL is out of scope, for people; empty when it is in scope."""
    if depth > rules.depth_max:
        return f"depth {depth} > {rules.depth_max}"
    if not _reached(rules, url, host, site):
        return f"no seed covers it (scope.mode = {rules.mode})"
    if why := excluded(rules, url):
        return why
    if rules.include and not any(_compiled(pattern).search(url) for pattern in rules.include):
        return "no include pattern matches"
    return ""


def excluded(rules: Scope, url: str) -> str:
    """Which pattern keeps a URL out; empty: none. It is all of the scope that holds for a sitemap."""
    for pattern in rules.exclude:
        if _compiled(pattern).search(url):
            return f"excluded by {pattern}"
    return ""


def reaches(rules: Scope, host: HostRow | None, site: SiteRow | None) -> bool:
    """Whether any URL of a host can be in scope."""
    if rules.mode == "any":
        return True
    return site is not None and site.seeded if rules.mode == "site" else host is not None and bool(host.seeds)


def whole(rules: Scope, host: HostRow | None, site: SiteRow | None) -> bool:
    """Whether all URLs of a host are in scope but those that are too deep."""
    free = not rules.include and not rules.exclude
    return free and rules.mode != "prefix" and reaches(rules, host, site)


def _reached(rules: Scope, url: str, host: HostRow | None, site: SiteRow | None) -> bool:
    if not reaches(rules, host, site):
        return False
    return rules.mode != "prefix" or (host is not None and url.startswith(host.seeds))


def seed_scope(rules: Scope, url: str, kind: SourceKind, depth: int) -> str | None:
    """What a URL adds to the scope: None nothing, empty its host, else a prefix. Seeds widen the scope, and so do
    the targets of their redirects, since a site that moved is what the seed meant."""
    seed = kind in (SourceKind.SEED, SourceKind.OPERATOR) or (kind is SourceKind.REDIRECT and depth == 0)
    if not seed:
        return None
    if rules.mode != "prefix":
        return ""
    path_end = url.partition("?")[0].rfind("/") + 1
    return url[:path_end]


def covers(rules: Scope, host: HostRow | None, site: SiteRow | None, widening: str) -> bool:
    """Whether the scope holds already what a seed would add to it (see `seed_scope`)."""
    if not reaches(rules, host, site):
        return False
    return rules.mode != "prefix" or (host is not None and widening.startswith(host.seeds))
