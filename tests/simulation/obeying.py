"""Invariants of what is asked for and given out: scope, robots, an operator's acts, documents, outputs."""

from frontlog.avro.enums import HostEvent, Reason, RobotsState, SourceKind, State
from frontlog.avro.events import (
    Candidate,
    Document,
    Event,
    Fetched,
    FetchResult,
    HostTransition,
    Removed,
    RobotsPolicy,
    Transition,
)
from simulation.moment import Invariant, Moment, listing, note_of
from simulation.web import origin_of, split_origin, split_url

R, S = Reason, State
HOPS_MAX = 5
WITHHELD = frozenset({S.BLOCKED, S.GONE, S.SUPPRESSED})
EVENTS: list[Invariant] = []
invariant = listing(EVENTS)


@invariant(1)
def leased_within_scope(at: Moment, event: Event) -> str | None:
    """What is leased is in scope: seeds, or redirects of seeds, cover it, and its depth is allowed."""
    if not isinstance(event, Transition) or event.to_state is not S.LEASED or event.clock is None:
        return None
    host, mode = at.web.hosts[split_origin(event.origin_key)[1]], at.settings.scope.mode
    if event.depth > at.settings.scope.depth_max:
        return f"{event.url} is leased at depth {event.depth}"
    sites = {at.web.hosts[name].site for name in at.ledger.seeded_hosts}
    inside = mode == "any" or (host.site in sites if mode == "site" else host.name in at.ledger.seeded_hosts)
    return None if inside else f"{event.url} is leased, but no seed covers it"


@invariant(1)
def scope_grows_by_seeds_only(at: Moment, event: Event) -> str | None:
    """The scope is widened by seeds, by operators, and by redirects of seeds."""
    if not isinstance(event, Transition) or event.first is None or event.first.scope is None:
        return None
    if event.first.source_kind in (SourceKind.SEED, SourceKind.OPERATOR):
        return None
    chain = event.first.chain
    if event.first.source_kind is SourceKind.REDIRECT and chain and event.depth == 0:
        source = at.ledger.urls.get(event.first.source_url)
        from_seed = source is not None and source.depth == 0
        return None if from_seed else f"{event.url} widens the scope from a page that is no seed"
    return f"{event.url} widens the scope as a {event.first.source_kind}"


@invariant(12)
def blocked_is_not_asked(at: Moment, event: Event) -> str | None:
    """Nothing that an operator blocked, or paused, is leased, robots.txt included."""
    page = isinstance(event, Transition) and event.to_state is S.LEASED and event.clock is not None
    errand = isinstance(event, HostTransition) and event.event is HostEvent.ERRAND_LEASED
    if not page and not errand:
        return None
    assert isinstance(event, Transition | HostTransition)
    if isinstance(event, Transition):
        origin = event.origin_key
        if event.from_state is S.LEASED:
            return None
    else:
        assert event.errand is not None
        origin = origin_of(event.errand.url) if "/" in event.errand.url[9:] else event.errand.origin_key
    site = at.web.hosts[split_origin(origin)[1]].site
    if at.ledger.blocked(at.commit.shard, origin, site):
        return f"{origin} is asked, but an operator blocked it"
    return (
        f"{origin} is asked, but an operator paused it"
        if at.ledger.paused(at.commit.shard, origin, site)
        else None
    )


@invariant(7)
def robots_are_obeyed(at: Moment, event: Event) -> str | None:
    """What is leased is allowed by the robots.txt that is believed, and the belief is not out of date."""
    if not isinstance(event, Transition) or event.to_state is not S.LEASED or event.clock is None:
        return None
    if event.from_state is S.LEASED:
        return None
    assert at.commit.batch is not None
    now_ms, belief, note = at.commit.batch.at_ms, at.ledger.beliefs[event.origin_key], note_of(at, event)
    if belief.state is RobotsState.UNKNOWN:
        return f"{event.url} is leased before its robots.txt is known"
    if belief.state is RobotsState.UNREACHABLE and not (belief.had and belief.copy_until_ms > now_ms):
        return f"{event.url} is leased while its robots.txt is unreachable"
    if belief.expires_ms <= now_ms:
        return f"{event.url} is leased by a robots.txt that is {now_ms - belief.expires_ms} ms out of date"
    if belief.text is None:
        return None
    file = at.servers.files.get(belief.text)
    if file is None:
        return f"{event.origin_key}: the robots.txt that is believed was never served: {belief.text[:60]!r}"
    return (
        None
        if file.allows(split_url(note.requested or event.url)[1])
        else f"{event.url} is leased, robots.txt denies it"
    )


@invariant(7)
def robots_are_believed_as_served(at: Moment, event: Event) -> str | None:
    """4xx allows, 429, 5xx and failures disallow for now, 2xx counts as it was sent (RFC 9309 §2.3.1)."""
    if not isinstance(event, RobotsPolicy) or event.reason is R.REDIRECTED:
        return None
    result = at.ledger.result_of(at.commit.shard, event)
    served = at.servers.record.get(result.event_id) if result is not None else None
    expected, text = RobotsState.UNREACHABLE, b""
    if result is not None and result.reason is R.OK and served is not None:
        status, said = served.answer.status, served.robots
        if result.status != status:
            return f"{event.origin_key}: the server said {status}, the result {result.status}"
        if 200 <= status < 300:
            expected, text = (
                RobotsState.RULES,
                said.file.body if said is not None and said.file is not None else b"",
            )
        elif 400 <= status < 500 and status != 429:
            expected = RobotsState.ALLOW_ALL
        elif 300 <= status < 400 and said is not None:
            around = len(result.chain) >= HOPS_MAX or at.servers.target_of(served) in (
                *result.chain,
                result.requested,
            )
            expected = RobotsState.ALLOW_ALL if around else RobotsState.UNREACHABLE
    if event.state is not expected:
        return f"{event.origin_key}: {event.state} for {served.answer.status if served else result}, not {expected}"
    if expected is RobotsState.RULES and not event.renewal and event.text != text:
        return f"{event.origin_key}: other rules than were served"
    assert at.commit.batch is not None
    life = event.expires_ms - (
        event.fetched_ms if expected is not RobotsState.UNREACHABLE else at.commit.batch.at_ms
    )
    return (
        f"{event.origin_key}: believed for {life} ms"
        if life > max(at.settings.robots.cache_ms_max, 3_600_000)
        else None
    )


@invariant(9)
def document_of_a_candidate(at: Moment, event: Event) -> str | None:
    """Content decides a candidate once."""
    if isinstance(event, Document) and event.event_id in at.ledger.documents:
        return f"document {event.event_id} is decided a second time"
    return None


@invariant(9)
def body_before_the_event(at: Moment, event: Event) -> str | None:
    """What an event points at in the archive is durable when the event is."""
    body = event.body if isinstance(event, Document | FetchResult | Candidate) else None
    if body is None or body.offset + body.length <= at.durable(body.file):
        return None
    return (
        f"{body.file} is durable to {at.durable(body.file)}; an event points at {body.offset}+{body.length}"
    )


@invariant(12)
def withheld_is_not_given_out(at: Moment, event: Event) -> str | None:
    """No page is given out that is BLOCKED, GONE or SUPPRESSED by then (one that becomes so in the same batch is taken
    back in it); none is taken back that isn't."""
    if isinstance(event, Fetched):
        before, after = at.before[event.url], at.ledger.urls[event.url].state
        taken_back = any(isinstance(o, Removed) and o.url == event.url for o in at.commit.outputs)
        if (before in WITHHELD and after in WITHHELD) or (after in WITHHELD and not taken_back):
            return f"{event.url} is given out while it is {after}"
    if isinstance(event, Removed):
        state = at.ledger.urls[event.url].state
        return None if state in WITHHELD else f"{event.url} is taken back while it is {state}"
    return None


@invariant(9)
def output_has_a_document(at: Moment, event: Event) -> str | None:
    """What is given out was decided by content, and its body is durable."""
    if not isinstance(event, Fetched):
        return None
    if event.event_id not in at.ledger.documents:
        return f"{event.url} is given out without a document"
    ref = event.warc_ref
    if ref is not None and ref.offset + ref.length > at.durable(ref.file):
        return f"{event.url} is given out before its body is durable"
    return None
