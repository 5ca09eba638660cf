"""The settings of one process: nothing here can change what is decided, only how it is carried out.

A field here has its bounds and its sentence in `frontlog/settings_catalogue.py` (dotted name =
section.field). What deciding uses stands in `processors/settings.py` and goes into the log; `Config`
holds both, ready for a crawl.
"""

import os
from typing import Any, Literal

import msgspec

from frontlog.processors.settings import Settings

Durability = Literal["fsync", "nometasync", "none"]


def _cores() -> int:
    """The cores that this process may use; not every system can say which those are."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Identity(msgspec.Struct, frozen=True):
    """Whom a site owner can ask, and how they can tell us from those who borrow our name."""

    info_url: str = ""
    contact: str = ""
    purpose: str = ""
    addresses: tuple[str, ...] = ()
    reverse_dns: str = ""


class Limits(msgspec.Struct, frozen=True):
    """What one fetch may take; beyond it, it ends with `timeout`, `oversize` or `header_oversize`."""

    connect_ms: int = 10_000
    first_byte_ms: int = 30_000
    total_ms: int = 60_000
    header_bytes_max: int = 65_536
    body_bytes_max: int = 10 * 2**20
    decoded_bytes_max: int = 20 * 2**20


class Fetch(msgspec.Struct, frozen=True):
    """What is fetched, how much at once, and from which addresses."""

    types: tuple[str, ...] = (
        "text/html", "application/xhtml+xml", "text/plain", "application/rss+xml", "application/atom+xml",
        "application/xml", "text/xml",
    )  # fmt: skip
    slots: int = 128
    allow_addresses: tuple[str, ...] = ()
    resolve: dict[str, tuple[str, ...]] = {}


class Parse(msgspec.Struct, frozen=True):
    """The processes that parse."""

    workers: int = 0
    timeout_ms: int = 10_000
    links: Literal["new", "all"] = "new"

    def worker_count(self) -> int:
        """How many processes to start: as set, or one less than the cores that we may use, at least one."""
        return self.workers or max(1, _cores() - 1)


class Log(msgspec.Struct, frozen=True):
    """The embedded log. `partitions` counts when a crawl is made; it is pinned in the log from then on."""

    durability: Durability = "fsync"
    commit_delay_ms: int = 20
    partitions: int = 4


class Archive(msgspec.Struct, frozen=True):
    """When a WARC segment is closed and the next one begun."""

    segment_bytes_max: int = 64 * 2**20
    segment_age_ms_max: int = 3_600_000


class Crawl(msgspec.Struct, frozen=True):
    """When a run ends."""

    pages_max: int = 0
    patience_ms: int = 120_000


class SchemaRegistry(msgspec.Struct, frozen=True):
    """Where the schemas of a crawl's outputs on Kafka are registered; nowhere by default."""

    url: str = ""


class Options(msgspec.Struct, frozen=True):
    """Everything that one process reads and no decision depends on."""

    identity: Identity = Identity()
    limits: Limits = Limits()
    fetch: Fetch = Fetch()
    parse: Parse = Parse()
    log: Log = Log()
    archive: Archive = Archive()
    crawl: Crawl = Crawl()
    schema_registry: SchemaRegistry = SchemaRegistry()


class Config(msgspec.Struct, frozen=True):
    """What a crawl runs with. `user_agent` is the whole header value, `sources` the files that were read."""

    settings: Settings = Settings()
    options: Options = Options()
    user_agent: str = ""
    sources: tuple[str, ...] = ()

    def deciding(self) -> dict[str, Any]:
        """The part that deciding uses, as JSON-able data; `processors.settings.encode` gives its text."""
        plain: dict[str, Any] = msgspec.to_builtins(self.settings)
        return plain
