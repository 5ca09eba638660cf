"""The URL state machine (DESIGN §5; seed 000, chapter 2).

Rules. A URL is in exactly one state. It moves only by a `Transition`, and only along a pair of `TABLE`, for a
reason that the pair lists; a pair that is missing *is* the error. A fence only grows. `build` refuses what the
table lacks before it becomes a decision, `apply` refuses it a second time.

What the table can't hold: when a move happens. Claims are in `claims.py`, results in `results.py`, policy in
`policy.py`. A URL waits in `due` while it is ELIGIBLE or DEFERRED, or FETCHED with a recrawl time; it stands in
`leases` while it is LEASED.

A URL becomes known by the decision that admits or refuses it: it comes as DISCOVERED, with the facts of its discovery in
`first`, and leaves that state at once (docs/adr/0007).
"""

from collections.abc import Mapping

from msgspec.structs import replace

from frontlog.avro.enums import Reason, SourceKind, State
from frontlog.avro.events import FirstSeen, HostClock, Merge, ResultFacts, Transition
from frontlog.processors import hosts, sitemap_files, tallies, traps, url_counts
from frontlog.processors.context import Context
from frontlog.processors.sites import site_of
from frontlog.state import keys
from frontlog.state.row_tables import Pending
from frontlog.state.rows import OriginRow, SiteRow, UrlRow, encode_first
from frontlog.state.tables import Tables

R, S = Reason, State
# To look a member up in its class takes longer than most of what a fold does with it.
_DISCOVERED, _ELIGIBLE, _LEASED, _FETCHED, _BLOCKED = S.DISCOVERED, S.ELIGIBLE, S.LEASED, S.FETCHED, S.BLOCKED
_OK, _NOT_MODIFIED, _MERGED, _SITEMAP_FILE = R.OK, R.NOT_MODIFIED, R.MERGED, SourceKind.SITEMAP_FILE
GATES = frozenset({
    R.BAD_SCHEME, R.BLOCKED_NETWORK, R.OUT_OF_SCOPE, R.ROBOTS_DENIED, R.OPERATOR_BLOCK, R.MERGED, R.USERINFO, R.TOO_LONG,
    R.HOST_BUDGET, R.SITE_BUDGET,
})  # fmt: skip
"""Reasons of the gates: all lead to BLOCKED."""
MAY_PASS = frozenset({
    R.TOO_MANY_REQUESTS, R.UNAVAILABLE, R.SERVER_ERROR, R.TIMEOUT, R.CONNECTION_REFUSED, R.CONNECTION_RESET, R.NO_ROUTE,
    R.PROTOCOL_ERROR, R.TRUNCATED, R.GONE_UNCONFIRMED, R.DNS_FAILED, R.DECODE_FAILED, R.TLS_FAILED, R.WORKER_LOST,
    R.STORE_FULL,
    R.UNEXPECTED_STATUS,
})  # fmt: skip
"""Reasons that put a URL off."""
TAKEN_AWAY = frozenset({S.BLOCKED, S.GONE, S.SUPPRESSED})
"""States in which a page is given out no more."""
ASKED_FOR = frozenset({R.OPERATOR, R.SITEMAP, R.SEED, R.RECRAWL_FORCED})
"""Reasons that bring a parked URL back."""

TABLE: Mapping[tuple[State, State], frozenset[Reason]] = {
    (S.DISCOVERED, S.ELIGIBLE): frozenset({R.ADMITTED}),
    (S.DISCOVERED, S.BLOCKED): GATES | frozenset(traps.REASONS),
    (S.ELIGIBLE, S.LEASED): frozenset({R.CLAIMED}),
    (S.ELIGIBLE, S.ELIGIBLE): frozenset({R.SITEMAP}),
    (S.ELIGIBLE, S.BLOCKED): GATES,
    (S.LEASED, S.LEASED): frozenset({R.EXTENDED}),
    (S.LEASED, S.FETCHED): frozenset({R.OK, R.NOT_MODIFIED, R.REDIRECTED}),
    (S.LEASED, S.ELIGIBLE): frozenset({R.LEASE_EXPIRED, R.RELEASED, R.ADDRESS_CHANGED, R.REDIRECTED}),
    (S.LEASED, S.DEFERRED): MAY_PASS,
    (S.LEASED, S.FAILED): frozenset({
        R.NOT_AVAILABLE, R.RETRIES_EXHAUSTED, R.DNS_FAILED, R.TLS_FAILED, R.TOO_MANY_REDIRECTS, R.REDIRECT_LOOP,
        R.BAD_LOCATION,
        R.UNEXPECTED_STATUS,
    }),
    (S.LEASED, S.QUARANTINED): frozenset({
        R.OVERSIZE, R.BAD_TYPE, R.HEADER_OVERSIZE, R.PARSER_LIMIT, R.REPEATED_FAILURES,
    }),
    (S.LEASED, S.GONE): frozenset({R.GONE}),
    (S.LEASED, S.BLOCKED): GATES,
    (S.FETCHED, S.ELIGIBLE): frozenset({R.RECRAWL_DUE, R.RECRAWL_FORCED, R.SITEMAP}),
    (S.FETCHED, S.BLOCKED): GATES,
    (S.DEFERRED, S.ELIGIBLE): frozenset({R.DUE, R.RECRAWL_FORCED, R.SITEMAP}),
    (S.DEFERRED, S.BLOCKED): GATES,
    (S.BLOCKED, S.ELIGIBLE): frozenset({R.POLICY_ALLOWS, R.READMITTED}),
    (S.QUARANTINED, S.ELIGIBLE): ASKED_FOR,
    (S.FAILED, S.ELIGIBLE): ASKED_FOR,
    (S.GONE, S.ELIGIBLE): ASKED_FOR,
    **{(state, S.SUPPRESSED): frozenset({R.SUPPRESSED}) for state in S if state is not S.SUPPRESSED},
    (S.SUPPRESSED, S.DISCOVERED): frozenset({R.POLICY_ALLOWS}),
}  # fmt: skip
"""Every allowed move and the reasons that may cause it."""


BEFORE = (S.NONE, S.DISCOVERED)
"""What a URL is before its first decision."""


class NotAllowed(AssertionError):
    """A move that the table does not have: a bug of the machine that wanted it."""


def build(
    ctx: Context,
    row: UrlRow,
    origin_key: str,
    to: State,
    reason: Reason,
    *,
    detail: str = "",
    policy_version: int | None = None,
    due_ms: int = 0,
    fence: int | None = None,
    lease_owner: str = "",
    deadline_ms: int = 0,
    attempts: int | None = None,
    failures: int | None = None,
    first: FirstSeen | None = None,
    result: ResultFacts | None = None,
    clock: HostClock | None = None,
    merged: Merge | None = None,
) -> Transition:
    """The decision that moves `row` (as it stands, or as it will be first) to a state; raises NotAllowed."""
    if reason not in TABLE.get((row.state, to), ()):
        raise NotAllowed(f"{row.state} -> {to} for {reason}: {row.url}")
    event = Transition(  # in two steps: CPython makes a dict of more than 15 keywords
        seq=ctx.next_seq(), owner_token=ctx.owner_token, origin_key=origin_key, url=row.url, from_state=row.state,
        to_state=to, reason=reason, detail=detail,
        cause_topic=ctx.cause.topic, cause_partition=ctx.cause.partition, cause_offset=ctx.cause.offset,
        policy_version=row.policy_version if policy_version is None else policy_version, priority=row.priority,
        due_ms=due_ms, depth=row.depth,
    )  # fmt: skip
    return replace(
        event, fence=row.fence if fence is None else fence, lease_owner=lease_owner, deadline_ms=deadline_ms,
        attempts=row.attempts if attempts is None else attempts,
        failures=row.failures if failures is None else failures,
        first=first, result=result, clock=clock, merged=merged,
    )  # fmt: skip


def admit(
    ctx: Context,
    origin_key: str,
    url: str,
    first: FirstSeen,
    to: State,
    reason: Reason,
    *,
    detail: str,
    policy_version: int,
    priority: int,
    depth: int,
    due_ms: int = 0,
    merged: Merge | None = None,
) -> Transition:
    """The decision that makes a URL known and admits or refuses it; raises NotAllowed."""
    if reason not in TABLE[_DISCOVERED, to]:
        raise NotAllowed(f"{_DISCOVERED} -> {to} for {reason}: {url}")
    cause = ctx.cause
    event = Transition(
        seq=ctx.next_seq(), owner_token=ctx.owner_token, origin_key=origin_key, url=url, from_state=_DISCOVERED,
        to_state=to, reason=reason,
        cause_topic=cause.topic, cause_partition=cause.partition, cause_offset=cause.offset,
        policy_version=policy_version, priority=priority, due_ms=due_ms, depth=depth, first=first,
    )  # fmt: skip
    return replace(event, detail=detail, merged=merged) if detail or merged is not None else event


def apply(tables: Tables, event: Transition) -> None:
    """Fold one transition."""
    origin = keys.origin_id(event.origin_key)
    key = tables.url_key(origin, event.url)
    known = tables.urls.get(key)
    _check(known, event)
    first = event.first
    if known is None:
        assert first is not None
        counts = _join(tables, event, origin)
        counted_before = counts.known
        waiting = _become_known(tables, key, event, first)
        url_counts.came(counts, event.to_state, event.priority, waiting=waiting)
        is_page = False
    else:
        new = _moved(known, event, tables.head.at_ms)
        found = tables.origins.pending(origin)
        assert found is not None
        counted_before, is_page = found.known, _is_page(known, event)
        tables.urls.put(key, new)
        url_counts.moved(found, known, new, page=is_page)
        _index(tables, key, known, new)
    if first is not None and (first.scope is not None or first.source_kind is _SITEMAP_FILE):
        sitemap_files.apply_first(tables, key, event, first)
        if first.scope is not None:
            _widen(tables, event.origin_key, first.scope)
    result = event.result
    if result is not None and result.sitemap is not None:
        sitemap_files.apply_result(tables, key, event, result)
    host = key[: keys.HOST_ID_BYTES]
    if event.clock is not None:
        hosts.set_clock(tables, host, event.clock)
    if event.merged is not None:
        tallies.count(tables, event.origin_key, event.merged.rules)
    _keep_books(tables, event, origin, counted_before, is_page=is_page)
    tables.touched.add(host)


def _become_known(tables: Tables, key: bytes, event: Transition, first: FirstSeen) -> bool:
    """Write the row of a URL after the decision that makes it known; whether it waits in `due` now."""
    merge = event.merged
    state, due_ms = event.to_state, event.due_ms
    row = encode_first(
        event.url, state, event.reason, first.source_kind, first.nofollow, event.priority, due_ms, event.depth,
        event.policy_version, tables.head.at_ms, first.changed_at_ms, first.requested, first.raw, first.source_url,
        first.chain, (merge.into, *merge.rules) if merge is not None else (),
    )  # fmt: skip
    tables.urls.put(key, row)
    waiting = url_counts.waits(state, due_ms)
    if waiting:
        tables.due.put(keys.due_key(key, event.priority, due_ms))
    return waiting


def _keep_books(
    tables: Tables, event: Transition, origin_id: bytes, known_before: int, *, is_page: bool
) -> None:
    """Keep the books of traps and budgets. `known_before`: how many URLs the origin had."""
    to = event.to_state
    if to is _ELIGIBLE:
        came = event.from_state is _DISCOVERED or event.from_state is _BLOCKED
        if came and event.fence == 0 and traps.are_counted(tables, known_before):
            # it may be fetched now, and never was
            traps.count(tables, origin_id, event.url)
    elif to is _BLOCKED:
        if event.reason in traps.REASONS:
            tallies.count(tables, event.origin_key, (event.reason.value,))
        elif event.reason is R.SITE_BUDGET:
            _put_site(tables, event.origin_key, over=True)
    elif is_page:
        hosts.count_page(tables, origin_id[: keys.HOST_ID_BYTES])
        _put_site(tables, event.origin_key, page=True)


def _put_site(tables: Tables, origin_key: str, *, over: bool = False, page: bool = False) -> None:
    """Note at a URL's site that a page more was fetched, or that one was refused for its budget."""
    site = site_of(keys.split_origin_key(origin_key)[1]).encode()
    row = tables.sites.get(site) or SiteRow()
    if page or row.over is not over:
        tables.sites.put(site, replace(row, pages=row.pages + page, over=row.over or over))


def _check(known: UrlRow | None, event: Transition) -> None:
    """What a logged decision must satisfy; anything else is a bug or a forged log."""
    if event.reason not in TABLE.get((event.from_state, event.to_state), ()):
        raise NotAllowed(f"{_where(event)}: {event.from_state} -> {event.to_state} for {event.reason}")
    if known is None:
        if event.first is None or event.from_state not in BEFORE:
            raise AssertionError(f"seq {event.seq} moves {event.url}, which is not known")
        assert event.result is None, f"{_where(event)}: a result before it was known"
        fence = 0
    else:
        fence = known.fence
        assert known.url == event.url, f"{_where(event)}: the row under its key holds {known.url}"
        assert known.state is event.from_state, (
            f"{_where(event)}: the row is {known.state}, the decision says {event.from_state}"
        )
    claimed = event.to_state is _LEASED and event.from_state is _ELIGIBLE
    assert event.fence == fence + claimed, f"{_where(event)}: fence {fence} -> {event.fence}"
    assert (event.merged is not None) is (event.reason is _MERGED), (
        f"{_where(event)}: merged, but not into what"
    )


def _where(event: Transition) -> str:
    return f"seq {event.seq}, {event.url}"


def _moved(row: UrlRow, event: Transition, at_ms: int) -> UrlRow:
    """The row after the decision."""
    if event.first is not None:
        row = sitemap_files.noted(row, event.first)
    to, merge, result = event.to_state, event.merged, event.result
    new = replace(
        row, state=to, reason=event.reason, policy_version=event.policy_version, priority=event.priority,
        due_ms=event.due_ms, depth=event.depth, fence=event.fence, lease_owner=event.lease_owner,
        deadline_ms=event.deadline_ms, attempts=event.attempts, failures=event.failures,
        last_status=row.last_status if result is None else result.status,
        last_attempt_ms=row.last_attempt_ms if result is None else result.started_ms,
    )  # fmt: skip
    if merge is not None or row.merged:
        new = replace(new, merged=(merge.into, *merge.rules) if merge is not None else ())
    if to in TAKEN_AWAY:
        # Should it come back, it is fetched whole: a 304 would bring content nothing to give out again.
        new = replace(new, etag="", last_modified="")
    if result is None:
        return new
    if to is _ELIGIBLE and event.reason is R.REDIRECTED:
        # the same identity under another spelling: that is what is requested from now on (DESIGN §5)
        return replace(new, requested=result.location, chain=(*row.chain, row.requested or row.url))
    if to is not _FETCHED:
        return new
    # A fetch after a success is the first of a chain of its own.
    if event.reason is _NOT_MODIFIED:
        return replace(new, last_success_ms=result.started_ms, location=result.location, chain=())
    body = result.body
    return replace(
        new, last_success_ms=result.started_ms, location=result.location, chain=(), listing=result.sitemap is not None,
        last_change_ms=result.started_ms if result.changed else row.last_change_ms, content_type=result.content_type,
        etag=result.etag, last_modified=result.last_modified, links_out=result.links_out,
        body_file=body.file if body else "", body_offset=body.offset if body else 0,
        body_length=body.length if body else 0, body_sha256=result.body_sha256, content_hash=result.content_hash,
    )  # fmt: skip


def _join(tables: Tables, event: Transition, origin: bytes) -> Pending:
    """Make the origin, host and site of a new URL known; where its origin counts."""
    counts = tables.origins.pending(origin)
    if counts is not None and counts.known:
        return counts  # the URL before it did the rest
    _, host_name, _ = keys.split_origin_key(event.origin_key)
    site = site_of(host_name).encode()
    if tables.sites.get(site) is None:
        tables.sites.put(site, SiteRow())
    if counts is None:
        hosts.add_origin(tables, host_name, origin)
        tables.origins.put(origin, OriginRow(origin_key=event.origin_key))
        counts = tables.origins.pending(origin)
        assert counts is not None
    return counts


def _widen(tables: Tables, origin_key: str, scope: str) -> None:
    """Widen the scope by a seed's prefix (empty: the whole host), and by its site."""
    _, host_name, _ = keys.split_origin_key(origin_key)
    hosts.add_seed(tables, host_name, scope)
    site = site_of(host_name).encode()
    site_row = tables.sites.get(site) or SiteRow()
    if not site_row.seeded:
        tables.sites.put(site, replace(site_row, seeded=True))


def _is_page(row: UrlRow, event: Transition) -> bool:
    """Whether this is the first time that a URL brought a page, which is what budgets count."""
    fetched = event.to_state is _FETCHED and event.reason is _OK and not row.brought_page
    return fetched and (event.result is None or event.result.sitemap is None)


def _index(tables: Tables, key: bytes, old: UrlRow, new: UrlRow) -> None:
    """Move the URL in `due` and `leases`."""
    before = keys.due_key(key, old.priority, old.due_ms) if url_counts.waits(old.state, old.due_ms) else None
    later = keys.due_key(key, new.priority, new.due_ms) if url_counts.waits(new.state, new.due_ms) else None
    if before != later:
        if before is not None:
            tables.due.delete(before)
        if later is not None:
            tables.due.put(later)
    if old.state is _LEASED:
        tables.leases.delete(keys.lease_key(old.deadline_ms, keys.LEASE_URL, key))
    if new.state is _LEASED:
        tables.leases.put(keys.lease_key(new.deadline_ms, keys.LEASE_URL, key))
