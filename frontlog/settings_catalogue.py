"""Every setting in one table: what it means, its bounds, and who uses it.

A name is `section.field`, as in `frontlog.toml`:

    [politeness]
    gap_ms_min = 2000

Types and defaults are read from the structs that the code runs on (`processors/settings.py` for what
deciding uses, `streams/options.py` for the rest), so they cannot differ; a test holds that each field
has exactly one row here. `docs/reference/settings.md` is generated from this table.
"""

import types
import typing
from collections.abc import Callable
from enum import StrEnum
from typing import Any, NamedTuple

import msgspec

from frontlog import setting_checks as checks
from frontlog.processors.settings import Settings
from frontlog.streams.options import Options

DAY_MS = 86_400_000
MIB = 2**20


class Use(StrEnum):
    """Who reads a setting."""

    DECIDES = "deciding"
    PROCESS = "process"
    CREATION = "creation"


USES = {
    Use.DECIDES: "deciding uses it, so it is a `policies` event in the log before it counts; "
    "a change is in force from the next start on and every verdict is judged again under it",
    Use.PROCESS: "only this process uses it; it changes how the work is done, not what is decided",
    Use.CREATION: "counts when the crawl is made and is pinned in its log from then on",
}


class Row(NamedTuple):
    """What the structs cannot say. `least` and `most` bound a number; `items_max` a list or table."""

    name: str
    doc: str
    least: float | None = None
    most: float | None = None
    items_max: int = 0
    check: Callable[[Any], str] | None = None
    creation: bool = False


_ROWS = (
    Row(
        "identity.token",
        "Product token: what robots.txt groups are matched with and what the user agent calls itself.",
        check=checks.check_token,
    ),
    Row(
        "identity.info_url",
        "Page that tells site owners about this crawler (`frontlog botpage` writes one); it stands in the "
        "user agent.",
        check=checks.check_info_url,
    ),
    Row(
        "identity.contact",
        "Mail address, or URL of a page, where a site owner reaches who runs this crawl; it stands in the "
        "user agent when there is no info_url.",
        check=checks.check_contact,
    ),
    Row(
        "identity.purpose",
        "What the crawl is for, in a sentence, for the page that `frontlog botpage` writes.",
    ),
    Row(
        "identity.addresses",
        "Addresses or networks that this crawler fetches from, for the same page.",
        items_max=1_000,
        check=checks.check_networks,
    ),
    Row(
        "identity.reverse_dns",
        "Domain that the reverse DNS names of those addresses end in, for the same page.",
        check=checks.check_domain,
    ),
    Row(
        "scope.mode",
        "Which links belong to the crawl: those on a seed's host, on its site (registrable domain), under "
        "its folder (prefix), or any.",
    ),
    Row(
        "scope.include",
        "When there are any, the identity of a URL must match one of these regular expressions: Python's "
        "`re`, searched anywhere in it, at most 500 characters, no back references, and no group repeated "
        "that holds a repetition (its time would grow without bound).",
        items_max=100,
        check=checks.check_patterns,
    ),
    Row(
        "scope.exclude",
        "The identity of a URL must match none of these regular expressions, written as for include.",
        items_max=100,
        check=checks.check_patterns,
    ),
    Row("scope.depth_max", "Links followed from a seed at most; a seed has depth 0.", 0, 1_000),
    Row("scope.pages_per_host_max", "Pages fetched of one host at most; 0: no limit.", 0, 10**12),
    Row(
        "scope.pages_per_site_max",
        "Pages fetched of one site (registrable domain) at most, before links from other sites are counted; 0: no "
        "limit.",
        0,
        10**12,
    ),
    Row(
        "scope.pages_per_link",
        "How much a site's limit grows with each other site that links to it.",
        0,
        10**9,
    ),
    Row("traps.parameters_max", "Query parameters of a URL at most; 0: any number.", 0, 1_000),
    Row("traps.segments_max", "Path segments of a URL at most; 0: any number.", 0, 1_000),
    Row(
        "traps.repeats_max",
        "How often the same run of path segments may come in a row; 0: any number of times.",
        0,
        1_000,
    ),
    Row(
        "traps.escapes_max",
        "How often an escape of a URL may have been escaped again (`%2520` once); 0: any number of times.",
        0,
        100,
    ),
    Row("traps.days_ahead_max", "How far ahead a date in a URL may lie, in days; 0: anywhere.", 0, 100_000),
    Row(
        "traps.pattern_urls_max",
        "URLs without a query that one origin may have of a pattern (numbers are alike); 0: any number.",
        0,
        10**9,
    ),
    Row(
        "traps.query_urls_max",
        "The same for URLs with a query, whose pattern has the names of the parameters; 0: any number.",
        0,
        10**9,
    ),
    Row(
        "canonical.profile",
        "How URLs become identities: `conservative` merges only what is provably equal; `index` also sorts "
        "queries and strips `utm_*` and the like everywhere (docs/identity.md).",
    ),
    Row(
        "canonical.signal_urls",
        "URLs of one origin that one rule may merge, or one trap rule refuse, within an hour before a signal is "
        "raised; 0: never.",
        0,
        10**9,
    ),
    Row(
        "learning.mode",
        "What becomes of evidence for rules of identity of an origin: `apply` puts a rule in force at "
        "learning.confidence_min, `propose` leaves that to an operator, `off` gathers none.",
    ),
    Row(
        "learning.confidence_min",
        "Confidence at which a learned rule is applied: (agreeing + 1) / (agreeing + against + 2), so 0.95 takes 18 "
        "pieces of evidence with none against.",
        0.5,
        1,
    ),
    Row("politeness.gap_ms_min", "Smallest gap between two requests to a host.", 0, DAY_MS),
    Row("politeness.gap_factor", "The gap is at least this many times the last response time.", 0, 1_000),
    Row(
        "politeness.backoff_ms_min",
        "Least wait of a host after 429, 503 and timeouts, however small its gap; Retry-After goes before it.",
        0,
        DAY_MS,
    ),
    Row("politeness.backoff_ms_max", "Longest such wait that doubling leads to.", 1_000, 30 * DAY_MS),
    Row(
        "politeness.crawl_delay_ms_max",
        "Largest Crawl-delay that is honoured; an origin that asks for more waits for an operator.",
        0,
        DAY_MS,
    ),
    Row("politeness.host_failures_max", "Failures in a row after which a host is paused.", 1, 1_000),
    Row("politeness.host_pause_ms", "How long such a host is left alone.", 1_000, 365 * DAY_MS),
    Row(
        "politeness.retry_after_ms_max",
        "Longest Retry-After that is believed; a longer one is cut to this.",
        1_000,
        365 * DAY_MS,
    ),
    Row(
        "politeness.resolve_failures_max",
        "Failed address look-ups in a row after which a host's URLs are given up.",
        1,
        100,
    ),
    Row("attempts.attempts_max", "Attempts for one URL before it is given up.", 1, 1_000),
    Row(
        "attempts.failures_quarantine",
        "Failures in a row of a URL itself that put it into quarantine; 429, 503 and outages of its host do "
        "not count.",
        1,
        1_000,
    ),
    Row(
        "attempts.lease_ms",
        "How long a claim is held for its fetch; longer than limits.total_ms, or slow fetches lose theirs.",
        1_000,
        3_600_000,
    ),
    Row(
        "attempts.retry_ms_min",
        "How long a URL waits after its first failure; each further failure doubles it.",
        0,
        DAY_MS,
    ),
    Row("attempts.retry_ms_max", "How long a URL waits at most before it is tried again.", 0, 30 * DAY_MS),
    Row(
        "robots.cache_ms_max",
        "How long a robots.txt is believed before it is fetched again (RFC 9309 §2.4).",
        60_000,
        DAY_MS,
    ),
    Row(
        "robots.copy_ms_max",
        "How long the last good robots.txt is obeyed while it cannot be fetched; after that nothing is "
        "allowed (RFC 9309 §2.3.1.4).",
        0,
        30 * DAY_MS,
    ),
    Row(
        "sitemaps.robots",
        "`follow`: the sitemaps that a robots.txt names are read, and what they list is discovered; `ignore`: not.",
    ),
    Row(
        "sitemaps.well_known",
        "`ask`: where a robots.txt names no sitemap, `/sitemap.xml` of the origin is asked for; `ignore`: not.",
    ),
    Row(
        "sitemaps.index_depth_max",
        "Indexes inside one another that are followed; deeper ones are refused. 0: no index is followed.",
        0,
        8,
    ),
    Row(
        "sitemaps.files_per_host_max",
        "Sitemaps of one host that are asked for; what is named beyond is refused.",
        0,
        10**9,
    ),
    Row("limits.connect_ms", "Time to connect, TLS included.", 1, 600_000),
    Row("limits.first_byte_ms", "Time from the request to the first byte of the answer.", 1, 600_000),
    Row("limits.total_ms", "Time for a whole fetch.", 1, 3_000_000),
    Row("limits.header_bytes_max", "Size of an answer's header.", 1_024, 16 * MIB),
    Row("limits.body_bytes_max", "Size of a body as received.", 1_024, 1_024 * MIB),
    Row("limits.decoded_bytes_max", "Size of a body after its content coding is undone.", 1_024, 4_096 * MIB),
    Row(
        "fetch.types",
        "Media types whose bodies are read, as `text/html`, or `image/` for all of a kind; empty: all.",
        items_max=200,
        check=checks.check_media_types,
    ),
    Row("fetch.slots", "Fetches in flight at once, over all hosts.", 1, 10_000),
    Row(
        "fetch.allow_addresses",
        "Networks that may be fetched from although they are not public, in CIDR notation; for tests and "
        "crawls of an own network.",
        items_max=100,
        check=checks.check_networks,
    ),
    Row(
        "fetch.resolve",
        "Addresses of hosts, used instead of looking them up; the address guard judges them all the same.",
        items_max=10_000,
        check=checks.check_resolve,
    ),
    Row("parse.workers", "Processes that parse; 0: one less than there are cores, at least one.", 0, 256),
    Row("parse.timeout_ms", "Time to parse one document; beyond it goes into quarantine.", 10, 600_000),
    Row(
        "parse.links",
        "`new`: of links to URLs that are known already, a page's result has 8 bytes each (`links_known`), and no discovery "
        "repeats them; `all`: discoveries have every link of every page, with its words.",
    ),
    Row(
        "log.durability",
        "`fsync`: a commit survives a power cut; `nometasync`: the last commit may be lost then, never the "
        "folder; `none`: a power cut may damage the folder. A crash of the process loses nothing under any.",
    ),
    Row("log.commit_delay_ms", "How long a commit may wait for others to share its fsync.", 0, 1_000),
    Row("log.partitions", "Partitions of the frontier.", 1, 1_024, creation=True),
    Row("archive.segment_bytes_max", "Size at which a WARC file is closed.", 1_024, 64 * 1_024 * MIB),
    Row("archive.segment_age_ms_max", "Age at which a WARC file is closed.", 1_000, 30 * DAY_MS),
    Row("crawl.pages_max", "A run ends when the crawl has this many pages; 0: no limit.", 0, 10**12),
    Row(
        "crawl.patience_ms",
        "A run ends when nothing is in flight and the next thing that could be fetched is further away than "
        "this.",
        0,
        365 * DAY_MS,
    ),
    Row(
        "schema_registry.url",
        "On Kafka: a schema registry with Confluent's interface, such as `http://registry:8080/apis/ccompat/v7`; "
        "crawl.fetched and crawl.removed have Confluent's framing then, in place of single-object encoding. "
        "`https://USER:PASSWORD@HOST` signs in.",
        check=checks.check_registry_url,
    ),
)


class Setting(NamedTuple):
    """One setting, whole. `choices`: the words allowed, if only some are; `default`: as the code has it."""

    name: str
    doc: str
    kind: str
    type: Any
    default: Any
    unit: str
    least: float | None
    most: float | None
    choices: tuple[str, ...]
    items_max: int
    check: Callable[[Any], str] | None
    use: Use

    @property
    def section(self) -> str:
        """What stands before the dot."""
        return self.name.partition(".")[0]

    @property
    def field(self) -> str:
        """What stands behind the dot."""
        return self.name.partition(".")[2]


def sections(root: type[msgspec.Struct]) -> dict[str, type[msgspec.Struct]]:
    """The structs of a root (`Settings` or `Options`) by section."""
    return {field.name: field.type for field in msgspec.structs.fields(root)}


def _fields() -> dict[str, tuple[msgspec.structs.FieldInfo, Use]]:
    found: dict[str, tuple[msgspec.structs.FieldInfo, Use]] = {}
    for root, use in ((Settings, Use.DECIDES), (Options, Use.PROCESS)):
        for section, struct in sections(root).items():
            for field in msgspec.structs.fields(struct):
                found[f"{section}.{field.name}"] = (field, use)
    return found


def _kind(annotation: Any) -> tuple[str, tuple[str, ...]]:
    """A word for people, and the choices if there are only a few."""
    origin = typing.get_origin(annotation)
    if origin is typing.Literal:
        return "one of", typing.get_args(annotation)
    if origin is tuple:
        return "list of texts", ()
    if origin is dict:
        return "table of lists", ()
    return {int: "whole number", float: "number", str: "text"}[annotation], ()


def _unit(name: str) -> str:
    """Units stand in names: `gap_ms_min` is in milliseconds, `body_bytes_max` in bytes."""
    words = name.replace(".", "_").split("_")
    return "ms" if "ms" in words else "bytes" if "bytes" in words else ""


def _build() -> types.MappingProxyType[str, Setting]:
    fields = _fields()
    rows = {row.name: row for row in _ROWS}
    assert rows.keys() == fields.keys() and len(rows) == len(_ROWS), (
        f"settings and their catalogue differ: {sorted(rows.keys() ^ fields.keys())}"
    )
    built: dict[str, Setting] = {}
    for name, row in rows.items():
        field, use = fields[name]
        factory = field.default_factory
        default = (
            field.default if factory is msgspec.NODEFAULT else typing.cast("Callable[[], Any]", factory)()
        )
        kind, choices = _kind(field.type)
        built[name] = Setting(
            name, row.doc, kind, field.type, default, _unit(name), row.least, row.most, choices,
            row.items_max, row.check, Use.CREATION if row.creation else use,
        )  # fmt: skip
    return types.MappingProxyType(built)


CATALOGUE = _build()
"""Every setting by name, in the order of the table."""
