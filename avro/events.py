"""The event classes: frozen, typed, one for each record of `avro/*.avsc`. Generated; do not edit.

Fields stand in the order of the schema; their meaning and unit are the `doc` of the schema, shown
in `docs/reference/events.md`. Times end in `_ms`: milliseconds since the epoch, UTC.
"""

import msgspec

from frontlog.avro.enums import (
    FetchKind,
    HostEvent,
    PolicyAct,
    Reason,
    RobotsState,
    RuleAct,
    RuleName,
    ScopeKind,
    SourceKind,
    State,
    Verdict,
    Weight,
)


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """Root of all event classes and of the records nested in them."""


class Position(Event, frozen=True, kw_only=True):
    """How far a topic of inputs has been decided."""

    topic: str = ""
    from_offset: int = 0
    to_offset: int = 0


class TableDigest(Event, frozen=True, kw_only=True):
    """The running digest of a table."""

    table: str = ""
    digest: bytes = b""
    rows: int = 0


class Batch(Event, frozen=True, kw_only=True):
    """The end of a batch: what it took, what came of it, and the proof. Key: partition."""

    seq: int = 0
    owner_token: int = 0
    first_seq: int = 0
    at_ms: int = 0
    positions: tuple[Position, ...] = ()
    claims_wanted: int = 0
    settings_version: int = 0
    digests: tuple[TableDigest, ...] = ()
    log_hash: bytes = b""


class BodyRef(Event, frozen=True, kw_only=True):
    """Where a response lies in the archive."""

    file: str = ""
    offset: int = 0
    length: int = 0


class Candidate(Event, frozen=True, kw_only=True):
    """A parsed document offered for dedupe. Key: content hash."""

    event_id: str = ""
    origin_key: str = ""
    partition: int = 0
    url: str = ""
    requested: str = ""
    fence: int = 0
    fetched_ms: int = 0
    status: int = 0
    content_type: str = ""
    body: BodyRef | None = None
    body_sha256: bytes = b""
    text_sha256: bytes = b""
    simhash: int = 0
    words: int = 0
    title: str = ""
    language: str = ""
    canonical_url: str = ""
    robots_meta: tuple[str, ...] = ()
    links_out: int = 0
    truncated: str = ""
    rendered: bool = False
    soft_404: bool = False
    unavailable_at_ms: int = 0


class Census(Event, frozen=True, kw_only=True):
    """How many hosts of an address a partition is using. Key: address."""

    address: str = ""
    partition: int = 0
    hosts: int = 0
    at_ms: int = 0


class ContentVerdict(Event, frozen=True, kw_only=True):
    """What content decided about a candidate. Key: origin_key."""

    event_id: str = ""
    verdict: Verdict
    duplicate_of: str = ""
    candidate: Candidate


class Control(Event, frozen=True, kw_only=True):
    """A wish of an operator. Key: origin_key, or none."""

    event_id: str = ""
    cmd: str = ""
    target_kind: ScopeKind
    target: str = ""
    gap_ms: int = 0
    urls: tuple[str, ...] = ()
    actor: str = ""
    note: str = ""
    at_ms: int = 0
    rule: str = ""
    value: str = ""


class CursorMoved(Event, frozen=True, kw_only=True):
    """Long work went a bounded step on. Key: partition."""

    seq: int = 0
    owner_token: int = 0
    name: str = ""
    position: bytes = b""


class Discovery(Event, frozen=True, kw_only=True):
    """The links that one source gave to one origin; columns of equal length. Key: origin_key."""

    event_id: str = ""
    origin_key: str = ""
    source_kind: SourceKind
    source_url: str = ""
    at_ms: int = 0
    depth: int = 0
    priority: int = 0
    part: int = 0
    parts: int = 0
    chain: tuple[str, ...] = ()
    urls: tuple[str, ...] = ()
    raws: tuple[str, ...] = ()
    anchors: tuple[str, ...] = ()
    rels: tuple[str, ...] = ()
    lastmods: tuple[int, ...] = ()
    via: tuple[str, ...] = ()


class Document(Event, frozen=True, kw_only=True):
    """A decision of content. Key: content hash."""

    seq: int = 0
    owner_token: int = 0
    verdict: Verdict
    event_id: str = ""
    content_hash: bytes = b""
    url: str = ""
    origin_key: str = ""
    duplicate_of: str = ""
    previous_hash: bytes = b""
    simhash: int = 0
    fetched_ms: int = 0
    body: BodyRef | None = None
    cause_topic: str = ""
    cause_partition: int = 0
    cause_offset: int = 0


class Errand(Event, frozen=True, kw_only=True):
    """A request of a host that is not a URL of the frontier: an address look-up, a robots.txt, a probe."""

    kind: FetchKind
    url: str = ""
    origin_key: str = ""
    asker: int = 0
    chain: tuple[str, ...] = ()
    fence: int = 0
    deadline_ms: int = 0
    owner: str = ""


class ErrandRequest(Event, frozen=True, kw_only=True):
    """A robots.txt hop that another host must be asked for. Key: origin_key of the target."""

    event_id: str = ""
    kind: FetchKind
    url: str = ""
    origin_key: str = ""
    asker: int = 0
    chain: tuple[str, ...] = ()
    at_ms: int = 0


class ParseFacts(Event, frozen=True, kw_only=True):
    """What the parser made of a body."""

    title: str = ""
    language: str = ""
    encoding: str = ""
    encoding_source: str = ""
    words: int = 0
    links_out: int = 0
    quality: str = ""
    text_ratio: float = 0.0
    canonical_url: str = ""
    robots_meta: tuple[str, ...] = ()
    text_sha256: bytes = b""
    links_known: bytes = b""


class SitemapFacts(Event, frozen=True, kw_only=True):
    """What a sitemap or feed was found to list."""

    kind: str = ""
    urls: int = 0
    children: int = 0
    cut: int = 0
    faults: int = 0
    errors: tuple[str, ...] = ()


class FetchResult(Event, frozen=True, kw_only=True):
    """One attempt. Key: origin_key."""

    event_id: str = ""
    kind: FetchKind
    origin_key: str = ""
    host: str = ""
    url: str = ""
    requested: str = ""
    fence: int = 0
    asker: int = 0
    policy_version: int = 0
    started_ms: int = 0
    connect_ms: int = 0
    first_byte_ms: int = 0
    total_ms: int = 0
    ended_ms: int = 0
    address: str = ""
    status: int = 0
    reason: Reason
    detail: str = ""
    content_type: str = ""
    etag: str = ""
    last_modified: str = ""
    cache_control: str = ""
    retry_after: str = ""
    location: str = ""
    x_robots_tag: tuple[str, ...] = ()
    chain: tuple[str, ...] = ()
    body: BodyRef | None = None
    wire_bytes: int = 0
    decoded_bytes: int = 0
    truncated: str = ""
    body_sha256: bytes = b""
    parse: ParseFacts | None = None
    robots_txt: bytes = b""
    addresses: tuple[str, ...] = ()
    ttl_ms: int = 0
    sitemap: SitemapFacts | None = None


class WarcRef(Event, frozen=True, kw_only=True):
    """Where the response record lies."""

    file: str = ""
    offset: int = 0
    length: int = 0


class Fetched(Event, frozen=True, kw_only=True):
    """Output: one stored response. Key: origin_key."""

    event_id: str = ""
    url: str = ""
    requested_url: str = ""
    canonical_url: str = ""
    fetched_at: str = ""
    status: int = 0
    content_type: str = ""
    warc_ref: WarcRef | None = None
    content_sha256: str = ""
    simhash: str = ""
    verdict: Verdict
    duplicate_of: str | None = None
    robots_meta: tuple[str, ...] = ()
    noindex: bool = False
    links_out: int = 0
    title: str = ""
    language: str = ""
    rendered: bool = False
    soft_404: bool = False
    truncated: bool = False
    unavailable_after: str | None = None


class FirstSeen(Event, frozen=True, kw_only=True):
    """What is known of a URL when it is discovered, or named as a sitemap later; facts, never changed."""

    raw: str = ""
    requested: str = ""
    source_kind: SourceKind
    source_url: str = ""
    anchor: str = ""
    nofollow: bool = False
    chain: tuple[str, ...] = ()
    scope: str | None = None
    changed_at_ms: int = 0
    via: tuple[str, ...] = ()


class FoldChanged(Event, frozen=True, kw_only=True):
    """Another version of apply or of the rows is used from here on. Key: partition."""

    seq: int = 0
    owner_token: int = 0
    old_version: int = 0
    new_version: int = 0
    digests: tuple[TableDigest, ...] = ()


class HostClock(Event, frozen=True, kw_only=True):
    """A host's politeness, whole, as it stands after the decision that carries it (DESIGN §6)."""

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
    address: str = ""
    address_reason: Reason
    address_expires_ms: int = 0
    resolve_failures: int = 0
    address_next_ms: int = 0
    address_in_flight: int = 0
    address_tail_ms: int = 0
    fence: int = 0
    errand: Errand | None = None


class HostTransition(Event, frozen=True, kw_only=True):
    """A host's clock moved without a URL moving. Key: origin_key, or the host."""

    seq: int = 0
    owner_token: int = 0
    host: str = ""
    event: HostEvent
    reason: Reason
    detail: str = ""
    cause_topic: str = ""
    cause_partition: int = 0
    cause_offset: int = 0
    clock: HostClock
    errand: Errand | None = None
    addresses: tuple[str, ...] = ()


class LeaseExtension(Event, frozen=True, kw_only=True):
    """A fetcher needs more time; on topic fetch-results. Key: origin_key."""

    event_id: str = ""
    origin_key: str = ""
    url: str = ""
    fence: int = 0
    deadline_ms: int = 0


class Merge(Event, frozen=True, kw_only=True):
    """Why a URL is no identity of its own: the one that stands for it, and by which rules."""

    into: str = ""
    rules: tuple[str, ...] = ()


class OperatorPolicy(Event, frozen=True, kw_only=True):
    """A policy set by an operator or by the configuration. Key: scope."""

    seq: int = 0
    owner_token: int = 0
    scope_kind: ScopeKind
    scope: str = ""
    act: PolicyAct
    gap_ms: int = 0
    settings: str = ""
    actor: str = ""
    note: str = ""
    cause_topic: str = ""
    cause_partition: int = 0
    cause_offset: int = 0


class OwnershipTaken(Event, frozen=True, kw_only=True):
    """A partition has a new owner; smaller tokens are void beyond after_seq. Key: partition."""

    seq: int = 0
    owner_token: int = 0
    after_seq: int = 0
    owner: str = ""
    software: str = ""
    fold_version: int = 0
    partitions: int = 0
    psl_version: str = ""
    at_ms: int = 0


class PartitionPaused(Event, frozen=True, kw_only=True):
    """A partition was paused or resumed. Key: partition."""

    seq: int = 0
    owner_token: int = 0
    paused: bool = False
    actor: str = ""
    note: str = ""
    cause_topic: str = ""
    cause_partition: int = 0
    cause_offset: int = 0


class Reject(Event, frozen=True, kw_only=True):
    """An input that could not be used. Key: as the input."""

    topic: str = ""
    partition: int = 0
    offset: int = 0
    reason: Reason
    detail: str = ""
    value: bytes = b""
    at_ms: int = 0


class Removed(Event, frozen=True, kw_only=True):
    """Output: a URL that is not to be used any more. Key: origin_key."""

    event_id: str = ""
    url: str = ""
    removed_at: str = ""
    reason: Reason
    detail: str = ""
    status: int = 0
    policy_version: int = 0


class ResultFacts(Event, frozen=True, kw_only=True):
    """What the last attempt brought, as far as later decisions need it."""

    event_id: str = ""
    started_ms: int = 0
    status: int = 0
    content_type: str = ""
    etag: str = ""
    last_modified: str = ""
    location: str = ""
    body: BodyRef | None = None
    body_sha256: bytes = b""
    content_hash: bytes = b""
    changed: bool = False
    links_out: int = 0
    sitemap: SitemapFacts | None = None


class RobotsPolicy(Event, frozen=True, kw_only=True):
    """A new version of an origin's robots policy, or a renewal without change. Key: origin_key."""

    seq: int = 0
    owner_token: int = 0
    origin_key: str = ""
    state: RobotsState
    renewal: bool = False
    reason: Reason
    detail: str = ""
    cause_topic: str = ""
    cause_partition: int = 0
    cause_offset: int = 0
    status: int = 0
    text: bytes = b""
    source_url: str = ""
    fetched_ms: int = 0
    expires_ms: int = 0
    copy_until_ms: int = 0
    failures: int = 0
    crawl_delay_ms: int = 0


class Signal(Event, frozen=True, kw_only=True):
    """Something that a person should look at: a rule merged or dropped much of an origin within an hour. Key: origin_key."""

    seq: int = 0
    owner_token: int = 0
    origin_key: str = ""
    name: str = ""
    count: int = 0
    started_ms: int = 0
    cause_topic: str = ""
    cause_partition: int = 0
    cause_offset: int = 0


class SiteLinked(Event, frozen=True, kw_only=True):
    """A page of another site was seen to link to a site for the first time: its budget grows. Key: site."""

    seq: int = 0
    owner_token: int = 0
    site: str = ""
    source_site: str = ""
    cause_topic: str = ""
    cause_partition: int = 0
    cause_offset: int = 0


class Transition(Event, frozen=True, kw_only=True):
    """One URL moved from one state to another (DESIGN §5). Key: origin_key."""

    seq: int = 0
    owner_token: int = 0
    origin_key: str = ""
    url: str = ""
    from_state: State
    to_state: State
    reason: Reason
    detail: str = ""
    cause_topic: str = ""
    cause_partition: int = 0
    cause_offset: int = 0
    policy_version: int = 0
    priority: int = 0
    due_ms: int = 0
    depth: int = 0
    fence: int = 0
    lease_owner: str = ""
    deadline_ms: int = 0
    attempts: int = 0
    failures: int = 0
    first: FirstSeen | None = None
    result: ResultFacts | None = None
    clock: HostClock | None = None
    merged: Merge | None = None


class UrlEvidence(Event, frozen=True, kw_only=True):
    """A piece of evidence for or against a rule of identity at an origin. Key: origin_key."""

    seq: int = 0
    owner_token: int = 0
    origin_key: str = ""
    rule: RuleName
    value: str = ""
    weight: Weight
    group: str = ""
    url: str = ""
    other: str = ""
    text_sha256: bytes = b""
    cause_topic: str = ""
    cause_partition: int = 0
    cause_offset: int = 0


class UrlRule(Event, frozen=True, kw_only=True):
    """A rule of identity at an origin: proposed by evidence, in force, refused or taken back. Key: origin_key."""

    seq: int = 0
    owner_token: int = 0
    origin_key: str = ""
    rule: RuleName
    value: str = ""
    act: RuleAct
    learned: bool = False
    agreeing: int = 0
    against: int = 0
    confidence: float = 0.0
    examples: tuple[str, ...] = ()
    actor: str = ""
    note: str = ""
    cause_topic: str = ""
    cause_partition: int = 0
    cause_offset: int = 0


RECORDS: tuple[type[Event], ...] = (
    Position,
    TableDigest,
    Batch,
    BodyRef,
    Candidate,
    Census,
    ContentVerdict,
    Control,
    CursorMoved,
    Discovery,
    Document,
    Errand,
    ErrandRequest,
    ParseFacts,
    SitemapFacts,
    FetchResult,
    WarcRef,
    Fetched,
    FirstSeen,
    FoldChanged,
    HostClock,
    HostTransition,
    LeaseExtension,
    Merge,
    OperatorPolicy,
    OwnershipTaken,
    PartitionPaused,
    Reject,
    Removed,
    ResultFacts,
    RobotsPolicy,
    Signal,
    SiteLinked,
    Transition,
    UrlEvidence,
    UrlRule,
)
"""Every record class, each after those that it uses."""
