"""Invariants of decisions: states, fences, leases, attempts, tokens, batches, and links that can't get lost."""

from frontlog.avro.enums import HostEvent, Reason, State
from frontlog.avro.events import (
    Batch,
    Event,
    FetchResult,
    HostTransition,
    OwnershipTaken,
    Reject,
    Transition,
)
from simulation.ledger import seq_of
from simulation.moment import Invariant, Moment, listing, note_of
from simulation.web import split_origin

R, S = Reason, State
EVENTS: list[Invariant] = []
invariant = listing(EVENTS)

ALLOWED: dict[State, frozenset[State]] = {
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


@invariant(5)
def first_seen_once(at: Moment, event: Event) -> str | None:
    """A URL comes out of nowhere once, and was on `discoveries` before."""
    if not isinstance(event, Transition) or event.from_state is not S.DISCOVERED:
        return None
    if event.url in at.ledger.urls:
        return f"{event.url} is first seen a second time"
    return None if event.url in at.ledger.discovered else f"{event.url} was never on discoveries"


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
    if result is None:
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


@invariant(0)
def nothing_is_poison(at: Moment, event: Event) -> str | None:
    """No input makes a machine raise, no page makes the fetcher raise."""
    if isinstance(event, Reject) and event.reason is R.UNDECODABLE and event.detail.startswith("deciding "):
        return event.detail
    unexpected = isinstance(event, FetchResult) and event.detail.startswith("unexpected: ")
    return f"{event.url}: {event.detail}" if unexpected and isinstance(event, FetchResult) else None


def whole_batch(at: Moment) -> str | None:
    """Seqs have no gap, time doesn't go back, positions go on where they stood, and no input is decided twice."""
    batch, shard, decisions = at.commit.batch, at.commit.shard, at.commit.decisions
    if not isinstance(batch, Batch):
        return None
    seqs = [seq_of(event) for event in (*decisions, batch)]
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


@invariant(0)
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
