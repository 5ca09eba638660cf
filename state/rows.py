"""The rows of the tables and their bytes. Equal state is equal bytes.

A row is a frozen struct; its encoding is

    fixed numbers, big endian, in field order | u32 length of each variable field | the variable fields

Integers take 8 bytes unless `WIDTHS` says otherwise; an enum is the index of its symbol, 1 byte; `str` is UTF-8;
each string of a tuple ends in a line feed (URLs and scopes hold none). A change here is a new fold version:
released encodings stay readable (DESIGN §1, "The log proves itself").
"""

import struct
from collections.abc import Callable
from typing import Any, ClassVar, Self

import msgspec

from frontlog.avro.enums import PolicyAct, Reason, RobotsState, RuleAct, RuleName, SourceKind, State, Weight
from frontlog.state.row_codec import build, build_of

FOLD_VERSION = 1
STATES = tuple(State)
STATE_INDEX = {state: i for i, state in enumerate(STATES)}
REASON_INDEX = {reason: i for i, reason in enumerate(Reason)}
_STATES = struct.Struct(f">{len(STATES)}I")
CLASSES = 5
"""Priority classes: 0 first, 4 last."""


class Row(msgspec.Struct, frozen=True):
    """Root of all rows; subclasses get their codec from their annotations."""

    WIDTHS: ClassVar[dict[str, str]] = {}
    CODEC: ClassVar[tuple[Callable[[Any], bytes], Callable[[bytes], Any]]]

    def encode(self) -> bytes:
        """The row's bytes."""
        return type(self).CODEC[0](self)

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """The row of its bytes; raises struct.error, ValueError or IndexError when they are not one."""
        row: Self = cls.CODEC[1](data)
        return row


class UrlRow(Row, frozen=True):
    """A URL of the frontier. Key: url key."""

    WIDTHS: ClassVar[dict[str, str]] = {
        "priority": "B", "fence": "I", "attempts": "H", "failures": "H", "depth": "H", "last_status": "H",
        "links_out": "I", "body_length": "I", "render_mode": "B",
    }  # fmt: skip

    url: str
    state: State
    reason: Reason
    source_kind: SourceKind
    nofollow: bool = False
    priority: int = 2
    due_ms: int = 0
    depth: int = 0
    fence: int = 0
    deadline_ms: int = 0
    attempts: int = 0
    failures: int = 0
    last_status: int = 0
    policy_version: int = 0
    first_seen_ms: int = 0
    last_attempt_ms: int = 0
    last_success_ms: int = 0
    last_change_ms: int = 0
    change_interval_ms: int = 0
    lastmod_ms: int = 0
    listing: bool = False
    render_mode: int = 0
    links_out: int = 0
    body_offset: int = 0
    body_length: int = 0
    lease_owner: str = ""
    requested: str = ""
    raw: str = ""
    source_url: str = ""
    chain: tuple[str, ...] = ()
    content_type: str = ""
    etag: str = ""
    last_modified: str = ""
    location: str = ""
    body_file: str = ""
    body_sha256: bytes = b""
    content_hash: bytes = b""
    merged: tuple[str, ...] = ()
    """The identity that stands for it, then the rules that say so; empty: it stands for itself."""

    @property
    def brought_page(self) -> bool:
        """Whether its last success was a page, not a redirect, sitemap or feed."""
        return bool(self.last_success_ms) and not self.location and not self.listing


URL_BEGINNING_BYTES = 15
"""Bytes of the row of a URL from its state and reason, a byte each, to the end of its depth."""


def depth_of(beginning: bytes) -> int:
    """The depth of a URL whose row begins so."""
    return int.from_bytes(beginning[URL_BEGINNING_BYTES - 2 : URL_BEGINNING_BYTES], "big")


class OriginRow(Row, frozen=True):
    """An origin: its robots policy and counts. Key: origin_id. `states` holds a u32 for each State,
    `due` one for each class."""

    WIDTHS: ClassVar[dict[str, str]] = {"robots_status": "H", "robots_failures": "H"}

    origin_key: str
    robots_state: RobotsState = RobotsState.UNKNOWN
    robots_status: int = 0
    robots_failures: int = 0
    robots_seq: int = 0
    robots_text_seq: int = 0
    robots_fetched_ms: int = 0
    robots_expires_ms: int = 0
    robots_copy_until_ms: int = 0
    crawl_delay_ms: int = 0
    policy_seq: int = 0
    blocked: bool = False
    paused: bool = False
    pages: int = 0
    states: bytes = b"\0" * (4 * len(STATES))
    due: bytes = b"\0" * (4 * CLASSES)
    rules: str = ""
    """Its own rules of identity that are in force, as JSON (`processors/url_rules.py`); empty: none."""

    @property
    def known(self) -> int:
        """How many URLs it has."""
        return sum(_STATES.unpack(self.states))


class HostRow(Row, frozen=True):
    """A host: its clock, whole (fields as in the HostClock event), and what waits. Key: host_id."""

    WIDTHS: ClassVar[dict[str, str]] = {
        "in_flight": "H", "failures": "H", "resolve_failures": "H", "address_in_flight": "H", "fence": "I",
    }  # fmt: skip

    host: str
    next_eligible_ms: int = 0
    in_flight: int = 0
    gap_ms: int = 0
    operator_gap_ms: int = 0
    crawl_delay_ms: int = 0
    backoff_ms: int = 0
    failures: int = 0
    response_ms: int = 0
    paused: bool = False
    parked: bool = False
    address_reason: Reason = Reason.OK
    address_expires_ms: int = 0
    resolve_failures: int = 0
    address_next_ms: int = 0
    address_in_flight: int = 0
    address_tail_ms: int = 0
    fence: int = 0
    ready_ms: int = -1
    policy_seq: int = 0
    blocked: bool = False
    pages: int = 0
    sitemaps: int = 0
    errands_wanted: int = 0
    address: str = ""
    origins: bytes = b""
    seeds: tuple[str, ...] = ()
    errand: bytes = b""
    lifted: tuple[str, ...] = ()
    """Reasons of traps that an operator lifted for the host."""


class AddressRow(Row, frozen=True):
    """The budget that all hosts of an address share. Key: the address, as text."""

    next_ms: int = 0
    in_flight: int = 0
    tail_ms: int = 0


class SiteRow(Row, frozen=True):
    """A registrable domain. Key: its name. `linked`: other sites with a link to it; `over`: something of it was refused
    for its budget since the last of those came."""

    WIDTHS: ClassVar[dict[str, str]] = {"linked": "I"}

    policy_seq: int = 0
    blocked: bool = False
    paused: bool = False
    seeded: bool = False
    over: bool = False
    pages: int = 0
    linked: int = 0


class SitemapRow(Row, frozen=True):
    """A sitemap or feed: the indexes that led to it, and what it listed when it was read last. `was_page`: it was leased as
    a page before it was named as a sitemap. Key: url key."""

    WIDTHS: ClassVar[dict[str, str]] = {"urls": "I", "children": "I", "faults": "I"}

    url: str
    kind: str = ""
    read_ms: int = 0
    urls: int = 0
    children: int = 0
    faults: int = 0
    cut: int = 0
    fault: str = ""
    via: tuple[str, ...] = ()
    was_page: bool = False


class PolicyRow(Row, frozen=True):
    """A policy version, whole. Key: scope kind ‖ ':' ‖ scope ‖ NUL ‖ seq, big endian."""

    WIDTHS: ClassVar[dict[str, str]] = {"status": "H"}

    act: PolicyAct
    robots_state: RobotsState = RobotsState.UNKNOWN
    at_ms: int = 0
    expires_ms: int = 0
    status: int = 0
    gap_ms: int = 0
    crawl_delay_ms: int = 0
    text: bytes = b""
    source_url: str = ""
    settings: str = ""
    actor: str = ""
    note: str = ""


class UrlRuleRow(Row, frozen=True):
    """A rule of identity at an origin. Key: origin_id ‖ number of the rule ‖ its value."""

    WIDTHS: ClassVar[dict[str, str]] = {"agreeing": "I", "against": "I"}

    origin_key: str
    rule: RuleName
    value: str
    act: RuleAct
    learned: bool = False
    agreeing: int = 0
    against: int = 0
    seq: int = 0
    at_ms: int = 0
    actor: str = ""
    note: str = ""


class TallyRow(Row, frozen=True):
    """How much a rule merged, or a reason refused, at an origin. Key: origin_id ‖ name of the rule or reason."""

    WIDTHS: ClassVar[dict[str, str]] = {"window": "I"}

    origin_key: str
    name: str
    total: int = 0
    window: int = 0
    window_ms: int = 0
    signalled_ms: int = 0


class EvidenceRow(Row, frozen=True):
    """What was seen of one group of URLs under one rule. Key: origin_id ‖ number of the rule ‖ BLAKE2b-128 of value and
    group; for `canonical` that of the URL that is named and of the one that names it."""

    weight: Weight
    url: str
    other: str = ""
    at_ms: int = 0
    text_sha256: bytes = b""


class PatternRow(Row, frozen=True):
    """URLs of an origin with the same pattern. Key: origin_id ‖ BLAKE2b-96 of the pattern."""

    WIDTHS: ClassVar[dict[str, str]] = {"urls": "I"}

    pattern: str
    urls: int = 0


class ContentRow(Row, frozen=True):
    """A document: a text that was seen. Key: content hash."""

    WIDTHS: ClassVar[dict[str, str]] = {"urls": "I"}

    url: str
    origin_key: str
    first_seen_ms: int = 0
    last_seen_ms: int = 0
    urls: int = 0
    simhash: int = 0
    body_file: str = ""
    body_offset: int = 0
    body_length: int = 0


class UrlContentRow(Row, frozen=True):
    """Which text a URL had last (url_document of seed 000, chapter 2). Key: url key."""

    first_seen_ms: int = 0
    last_seen_ms: int = 0
    event_id: str = ""
    content_hash: bytes = b""


class MarksRow(Row, frozen=True):
    """What holds for the whole partition. Key: 'crawl'."""

    settings_seq: int = 0
    policy_seq: int = 0
    blocked: bool = False
    crawl_paused: bool = False
    paused: bool = False
    settings: str = ""


ROWS: tuple[type[Row], ...] = (
    UrlRow, OriginRow, HostRow, AddressRow, SiteRow, SitemapRow, PolicyRow, UrlRuleRow, TallyRow, EvidenceRow, PatternRow,
    ContentRow,
    UrlContentRow, MarksRow,
)  # fmt: skip
for _cls in ROWS:
    _cls.CODEC = build(_cls, _cls.WIDTHS)
FIRST_FIELDS = (
    "url", "state", "reason", "source_kind", "nofollow", "priority", "due_ms", "depth", "policy_version", "first_seen_ms",
    "lastmod_ms", "requested", "raw", "source_url", "chain", "merged",
)  # fmt: skip
encode_first = build_of(UrlRow, UrlRow.WIDTHS, FIRST_FIELDS)
"""Bytes of the row of a URL that became known just now, from these fields; most are written again before they are read."""
