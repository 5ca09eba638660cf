"""The invariants that a simulation holds the crawler to, each a function with a name and a number.

Numbers 1 to 12 are those of seed 000, chapter 16 (`docs/invariants.md`); 0 is ours. A function looks at one thing that just
happened beside the model as it stood before (`ledger.py`) and says what is wrong with it, or nothing:

    decisions    one decision of a commit                   this module
    requests     one connection that a server saw           `asking.py`
    ends         the whole, when all is quiet               `ending.py`

Not checked: that a policy version is the newest; what a human would call a good order of URLs.
"""

from collections.abc import Callable
from typing import NamedTuple

from frontlog.avro.enums import HostEvent, Reason, RobotsState, State
from frontlog.avro.events import (
    Batch,
    Candidate,
    Document,
    Event,
    Fetched,
    FetchResult,
    HostTransition,
    OwnershipTaken,
    Reject,
    Removed,
    RobotsPolicy,
    Transition,
)
from frontlog.processors.settings import Settings
from simulation.ledger import Commit, Ledger, UrlNote
from simulation.servers import Servers
from simulation.web import Web, origin_of, split_origin, split_url

R, S = Reason, State
HOPS_MAX = 5


class Moment(NamedTuple):
    """What an invariant may look at. `replaced`: the process that committed had been replaced by then."""

    ledger: Ledger
    servers: Servers
    web: Web
    settings: Settings
    commit: Commit
    replaced: bool
    durable: Callable[[str], int]


Check = Callable[[Moment, Event], str | None]


class Invariant(NamedTuple):
    """`number`: of seed 000, chapter 16; 0: of our own."""

    name: str
    number: int
    check: Check


DECISIONS: list[Invariant] = []


def invariant(number: int) -> Callable[[Check], Check]:
    """Note a check of decisions."""

    def note(check: Check) -> Check:
        DECISIONS.append(Invariant(check.__name__, number, check))
        return check

    return note


ALLOWED: dict[State, frozenset[State]] = {
    S.NONE: frozenset({S.DISCOVERED}),
    S.DISCOVERED: frozenset({S.ELIGIBLE, S.BLOCKED}),
    S.ELIGIBLE: frozenset({S.LEASED, S.BLOCKED}),
    S.LEASED: frozenset(
        {S.LEASED, S.FETCHED, S.ELIGIBLE, S.DEFERRED, S.FAILED, S.QUARANTINED, S.GONE, S.BLOCKED}
    ),
    S.FETCHED: frozenset({S.ELIGIBLE, S.BLOCKED}),
    S.DEFERRED: frozenset({S.ELIGIBLE, S.BLOCKED}),
    S.BLOCKED: frozenset({S.ELIGIBLE}),
    S.QUARANTINED: frozenset({S.ELIGIBLE}),
    S.FAILED: frozenset({S.ELIGIBLE}),
    S.GONE: frozenset({S.ELIGIBLE}),
    S.SUPPRESSED: frozenset({S.DISCOVERED}),
}
"""DESIGN §5 by hand; every state but SUPPRESSED itself may become SUPPRESSED."""


def note_of(at: Moment, event: Transition) -> UrlNote:
    return at.ledger.urls.get(event.url) or UrlNote(event.origin_key, event.depth)


@invariant(4)
def one_state_by_the_table(at: Moment, event: Event) -> str | None:
    """A URL moves from the state that it is in, along a pair that DESIGN §5 has."""
    if not isinstance(event, Transition):
        return None
    note = note_of(at, event)
    if event.from_state is not note.state:
        return f"{event.url} moves from {event.from_state}, but is {note.state}"
    allowed = event.to_state in ALLOWED[note.state] or event.to_state is S.SUPPRESSED
    return None if allowed else f"{event.url}: {note.state} -> {event.to_state} ({event.reason})"


@invariant(5)
def first_seen_once(at: Moment, event: Event) -> str | None:
    """A URL comes out of nowhere once, and was on `discoveries` before."""
    if not isinstance(event, Transition) or event.from_state is not S.NONE:
        return None
    if event.url in at.ledger.urls:
        return f"{event.url} is first seen a second time"
    return None if event.url in at.ledger.discovered else f"{event.url} was never on discoveries"


@invariant(3)
def commit_has_the_fence_of_the_row(at: Moment, event: Event) -> str | None:
    """What a result decides has the fence of the lease that is open; a fence only grows, by one a claim."""
    if not isinstance(event, Transition):
        return None
    note = note_of(at, event)
    claimed = event.to_state is S.LEASED and event.from_state is not S.LEASED
    if event.fence != note.fence + claimed:
        return f"{event.url}: fence {note.fence} -> {event.fence}"
    result = at.ledger.result_of(at.commit.shard, event)
    if result is None or not isinstance(result, FetchResult):
        return None
    if note.state is not S.LEASED or result.fence != note.fence or result.url != event.url:
        return f"{event.url} is {note.state} with fence {note.fence}; a result with fence {result.fence} moves it"
    return None


@invariant(3)
def errand_has_the_fence_of_the_host(at: Moment, event: Event) -> str | None:
    """The same for look-ups and robots files."""
    if not isinstance(event, HostTransition) or event.event is not HostEvent.ERRAND_ENDED:
        return None
    result = at.ledger.result_of(at.commit.shard, event)
    if result is None:
        return None
    lease = at.ledger.leases.get(at.ledger.lease_of_host.get(event.host, ""))
    if lease is None or lease.kind is not result.kind or lease.fence != result.fence:
        return f"{event.host}: a result with fence {result.fence} ends an errand that is {lease}"
    return None


@invariant(0)
def one_lease_a_host(at: Moment, event: Event) -> str | None:
    """A host, and an address in its partition, has one request under way."""
    opens = isinstance(event, HostTransition) and event.event is HostEvent.ERRAND_LEASED
    opens = opens or (
        isinstance(event, Transition) and event.to_state is S.LEASED and event.clock is not None
    )
    if not opens or not isinstance(event, Transition | HostTransition):
        return None
    if isinstance(event, Transition) and event.from_state is S.LEASED:
        return None
    host = event.host if isinstance(event, HostTransition) else split_origin(event.origin_key)[1]
    held = at.ledger.lease_of_host.get(host)
    return f"{host} is leased while {held} is open" if held is not None else None


@invariant(0)
def lease_ends_in_time(at: Moment, event: Event) -> str | None:
    """A lease runs out at its deadline, not before, and not while its result is in the log; only a new owner releases."""
    if not isinstance(event, Transition) or event.from_state is not S.LEASED:
        return None
    note, shard, batch = note_of(at, event), at.commit.shard, at.commit.batch
    assert batch is not None
    if event.cause_topic == "timer":
        if batch.at_ms < note.deadline_ms:
            return f"{event.url}: its lease runs out {note.deadline_ms - batch.at_ms} ms early"
        logged = [r for r in shard.results.values() if r.url == event.url and r.fence == note.fence]
        return f"{event.url}: its lease runs out, but its result is logged" if logged else None
    if event.cause_topic == "start" and not any(isinstance(d, OwnershipTaken) for d in at.commit.decisions):
        return f"{event.url} is released, but nobody took over"
    return None


@invariant(11)
def attempts_are_bounded(at: Moment, event: Event) -> str | None:
    """A URL is not leased more often than `attempts_max`; it is given up for repeated failures after five of its own."""
    if not isinstance(event, Transition):
        return None
    note, rules = note_of(at, event), at.settings.attempts
    if event.to_state is S.LEASED and event.from_state is not S.LEASED and note.tries >= rules.attempts_max:
        return f"{event.url} is leased for the {note.tries + 1}th time; {rules.attempts_max} are allowed"
    if event.reason is R.REPEATED_FAILURES and note.failures + 1 < rules.failures_quarantine:
        return f"{event.url} is parked after {note.failures + 1} failures of its own"
    if event.reason is R.RETRIES_EXHAUSTED and note.tries + 1 < rules.attempts_max:
        return f"{event.url} is given up after {note.tries + 1} attempts"
    return None


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
    if event.first.source_kind in ("seed", "operator"):
        return None
    chain = event.first.chain
    if event.first.source_kind == "redirect" and chain and event.depth == 0:
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


@invariant(10)
def token_of_the_owner(at: Moment, event: Event) -> str | None:
    """Decisions carry the token of the owner; taking over makes it one more; who was replaced writes nothing."""
    if at.replaced:
        return f"{at.commit.shard.name}: an owner that was replaced writes {type(event).__name__}"
    token: int | None = getattr(event, "owner_token", None)
    if token is None:
        return None
    wanted = at.commit.shard.token + isinstance(event, OwnershipTaken)
    return None if token == wanted else f"{at.commit.shard.name}: token {token}, not {wanted}"


@invariant(12)
def withheld_is_not_given_out(at: Moment, event: Event) -> str | None:
    """No page is given out that is BLOCKED, GONE or SUPPRESSED by then, and none is taken back that isn't."""
    if isinstance(event, Fetched):
        state = at.ledger.urls[event.url].state
        return (
            f"{event.url} is given out while it is {state}"
            if state in (S.BLOCKED, S.GONE, S.SUPPRESSED)
            else None
        )
    if isinstance(event, Removed):
        state = at.ledger.urls[event.url].state
        return (
            None
            if state in (S.BLOCKED, S.GONE, S.SUPPRESSED)
            else f"{event.url} is taken back while it is {state}"
        )
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


@invariant(0)
def nothing_is_poison(at: Moment, event: Event) -> str | None:
    """No input makes a machine raise."""
    poisoned = (
        isinstance(event, Reject) and event.reason is R.UNDECODABLE and event.detail.startswith("deciding ")
    )
    return event.detail if poisoned and isinstance(event, Reject) else None


def whole_batch(at: Moment) -> str | None:
    """Seqs have no gap, time doesn't go back, positions go on where they stood, and no input is decided twice."""
    batch, shard, decisions = at.commit.batch, at.commit.shard, at.commit.decisions
    if not isinstance(batch, Batch):
        return None
    seqs = [d.seq for d in (*decisions, batch)]  # type: ignore[attr-defined]
    if seqs != list(range(shard.seq + 1, shard.seq + 1 + len(seqs))) or batch.first_seq != shard.seq + 1:
        return f"{shard.name}: seqs {seqs[:3]}… after {shard.seq}, first_seq {batch.first_seq}"
    if batch.at_ms < shard.at_ms:
        return f"{shard.name}: time goes back by {shard.at_ms - batch.at_ms} ms"
    for position in batch.positions:
        if position.from_offset != shard.positions.get(position.topic, 0):
            return f"{shard.name}: {position.topic} goes on at {position.from_offset}"
        if position.to_offset > shard.read.get(position.topic, 0):
            return f"{shard.name}: {position.topic} is decided beyond its end"
    ends = {p.topic: p.to_offset for p in batch.positions}
    for event in (*decisions, *at.commit.outputs):
        topic, offset = getattr(event, "cause_topic", ""), getattr(event, "cause_offset", -1)
        if isinstance(event, Reject):
            topic, offset = event.topic, event.offset
        start, end = shard.positions.get(topic, 0), ends.get(topic, 0)
        if offset >= 0 and not start <= offset < end:
            return f"{shard.name}: {topic}@{offset} is decided outside of {start}..{end}"
    return None


def page_keeps_its_links(at: Moment, event: Event) -> str | None:
    """When a page counts as fetched, every link of it is on `discoveries`: no crash can lose it any more."""
    if not isinstance(event, Transition) or event.to_state is not S.FETCHED:
        return None
    result = at.ledger.result_of(at.commit.shard, event)
    served = at.servers.record.get(result.event_id) if result is not None else None
    if result is None or served is None:
        return f"{event.url} is fetched, but no server was asked"
    if result.status != served.answer.status:
        return f"{event.url}: the server said {served.answer.status}, the result {result.status}"
    if served.page is None or event.reason is R.NOT_MODIFIED:
        return None
    lost = [
        k.identity
        for k in served.page.links
        if k.identity != event.url and k.identity not in at.ledger.discovered
    ]
    return f"{event.url} is fetched, but its links are lost: {lost}" if lost else None


DECISIONS.append(Invariant("page_keeps_its_links", 0, page_keeps_its_links))
BATCHES = (("each_input_once_in_order", 0, whole_batch),)
