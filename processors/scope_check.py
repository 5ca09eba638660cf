"""`frontlog check scope`: whether a URL would belong to a crawl, by the code that a crawl asks (`scope.py`, `traps.py`)."""

from typing import Any

import msgspec

from frontlog.avro.enums import SourceKind
from frontlog.avro.errors import ConfigError
from frontlog.processors import canonical, scope, traps
from frontlog.processors.settings import Scope, Traps
from frontlog.processors.sites import site_of
from frontlog.state.rows import HostRow, SiteRow


class _Question(msgspec.Struct, forbid_unknown_fields=True):
    """What may be asked."""

    url: str
    seeds: list[str] | None = None
    depth: int = 1
    scope: Scope = Scope()
    traps: Traps = Traps()
    at_ms: int | None = None


def check_scope(line: dict[str, object], now_ms: int) -> dict[str, object]:
    """Answer {url, seeds?, depth?, scope?, traps?, at_ms?} -> {in_scope, reason?, detail?, identity, pattern}.

    `seeds` are the crawl's seeds (the URL itself, if there is no such field), `scope` and `traps` fields of the settings of
    that name; `now_ms` is when it is asked, unless `at_ms` says so. How many URLs of a pattern there are no question can
    tell. Raises ConfigError.
    """
    try:
        asked = msgspec.convert(line, _Question)
    except msgspec.ValidationError as error:
        raise ConfigError(str(error)) from error
    found = _identity("url", asked.url)
    if isinstance(found, canonical.Refused):
        return _answer(False, found.reason.value, found.detail)
    host, site = _standing(asked, found)
    more: dict[str, object] = {"identity": found.identity, "pattern": traps.pattern_of(found.identity)}
    outside = scope.outside(asked.scope, found.identity, asked.depth, host, site)
    if outside:
        return _answer(False, "out_of_scope", outside) | more
    at_ms = now_ms if asked.at_ms is None else asked.at_ms
    trap = traps.of_form(asked.traps, found.identity, at_ms)
    return (_answer(False, trap.reason.value, trap.detail) if trap is not None else _answer(True)) | more


def _identity(name: str, url: str) -> canonical.Identity | canonical.Refused:
    found = canonical.canonicalize(url)
    if isinstance(found, canonical.Refused) and name != "url":
        raise ConfigError(f"{name} {url!r} has no identity ({found.reason.value})")
    return found


def _standing(asked: _Question, found: canonical.Identity) -> tuple[HostRow, SiteRow]:
    """The rows of the URL's host and site as the seeds make them."""
    scopes: list[str] = []
    seeded = False
    for raw in [asked.url] if asked.seeds is None else asked.seeds:
        seed = _identity("seed", raw)
        assert isinstance(seed, canonical.Identity)
        widening = scope.seed_scope(asked.scope, seed.identity, SourceKind.SEED, 0)
        seeded = seeded or site_of(seed.host) == site_of(found.host)
        if seed.host == found.host and widening is not None:
            scopes.append(widening)
    return HostRow(host=found.host, seeds=tuple(scopes)), SiteRow(seeded=seeded)


def _answer(in_scope: bool, reason: str = "", detail: str = "") -> dict[str, Any]:
    said = {"in_scope": in_scope, "reason": reason, "detail": detail}
    return {name: value for name, value in said.items() if value != ""}
