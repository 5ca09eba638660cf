"""The settings that deciding uses. They reach the log whole, as a policy of the crawl, before they count.

A setting here has its name, default, unit and bounds in the catalogue of `frontlog/settings_catalogue.py`
(dotted name = section.field); this file is only the typed form that machines read. Unknown fields in a
logged document are ignored, missing ones take the default, so that old logs stay readable.
"""

from typing import Literal

import msgspec

ScopeMode = Literal["host", "site", "prefix", "any"]


class Identity(msgspec.Struct, frozen=True):
    """Who asks."""

    token: str = "frontlog"
    """Product token that robots.txt groups are matched with (RFC 9309 §2.2.1)."""


class Scope(msgspec.Struct, frozen=True):
    """Which discovered URLs belong to the crawl."""

    mode: ScopeMode = "host"
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    depth_max: int = 16
    pages_per_host_max: int = 0
    pages_per_site_max: int = 0
    pages_per_link: int = 100


class Traps(msgspec.Struct, frozen=True):
    """What is taken for a trap (`traps.py`); 0: that rule is off."""

    parameters_max: int = 16
    segments_max: int = 32
    repeats_max: int = 3
    escapes_max: int = 1
    days_ahead_max: int = 730
    pattern_urls_max: int = 20_000
    query_urls_max: int = 5_000


class Canonical(msgspec.Struct, frozen=True):
    """How identities are made."""

    profile: Literal["conservative", "index"] = "conservative"
    signal_urls: int = 1_000


class Learning(msgspec.Struct, frozen=True):
    """How evidence becomes rules of identity (`learning.py`)."""

    mode: Literal["apply", "propose", "off"] = "apply"
    confidence_min: float = 0.95


class Politeness(msgspec.Struct, frozen=True):
    """When a host may be asked again (DESIGN §6)."""

    gap_ms_min: int = 1_000
    gap_factor: float = 10.0
    backoff_ms_min: int = 1_000
    backoff_ms_max: int = 3_600_000
    crawl_delay_ms_max: int = 3_600_000
    host_failures_max: int = 10
    host_pause_ms: int = 86_400_000
    retry_after_ms_max: int = 86_400_000
    resolve_failures_max: int = 4


class Attempts(msgspec.Struct, frozen=True):
    """When a URL is given up."""

    attempts_max: int = 20
    failures_quarantine: int = 5
    lease_ms: int = 90_000
    retry_ms_min: int = 10_000
    retry_ms_max: int = 3_600_000


class Robots(msgspec.Struct, frozen=True):
    """How long a robots.txt is believed (RFC 9309 §2.4)."""

    cache_ms_max: int = 86_400_000
    copy_ms_max: int = 86_400_000


class Sitemaps(msgspec.Struct, frozen=True):
    """Which sitemaps are read (sitemaps.org)."""

    robots: Literal["follow", "ignore"] = "follow"
    well_known: Literal["ask", "ignore"] = "ignore"
    index_depth_max: int = 2
    files_per_host_max: int = 10_000


class Settings(msgspec.Struct, frozen=True):
    """Everything that deciding reads besides tables, input and time."""

    identity: Identity = Identity()
    scope: Scope = Scope()
    traps: Traps = Traps()
    canonical: Canonical = Canonical()
    learning: Learning = Learning()
    politeness: Politeness = Politeness()
    attempts: Attempts = Attempts()
    robots: Robots = Robots()
    sitemaps: Sitemaps = Sitemaps()


def encode(settings: Settings) -> str:
    """The JSON document that goes into the log; equal settings give equal text."""
    return msgspec.json.encode(settings, order="deterministic").decode()


def decode(text: str) -> Settings:
    """The settings of a logged document; raises msgspec.ValidationError."""
    return msgspec.json.decode(text, type=Settings)
