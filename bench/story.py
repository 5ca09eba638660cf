"""What the log of a crawl says, read without the machines that decide: the leases of every URL and errand.

    story = read_story(folder)
    story.urls["http://127.1.0.1:18080/"]        the moves of a URL, in order, with the time of their batch
    story.errands["http://127.1.0.1:18080"]      the moves of robots errands that an origin wanted

`Lease` pairs each claim with what ended it. Requests in the server's log are then held against the leases: each needs one
of its own, and a URL is asked again only if the lease before ran out, or was released because its process had died.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from bench.weblog import Visit
from frontlog.avro.codec import Undecodable, decode
from frontlog.avro.enums import FetchKind, HostEvent, Reason, State, Topic
from frontlog.avro.events import Fetched, FetchResult, HostTransition, Reject, Transition
from frontlog.replay.folder import OpenShard, open_shard, shards_of
from frontlog.state.rows import UrlRow
from frontlog.state.tables import Tables
from frontlog.streams.playback import Playback
from frontlog.streams.topics import Role

CLOCK_MS = 25
"""How far the owner's clock may be from the server's, which is this machine's wall clock."""
ERRAND_ENDS = {HostEvent.ERRAND_ENDED, HostEvent.ERRAND_EXPIRED, HostEvent.ERRAND_RELEASED}


class Lease(NamedTuple):
    """A claim and what ended it. `why` empty: it is still open. `by`: the topic of the cause, or timer, start."""

    claimed_ms: int
    ended_ms: int
    fence: int
    owner: str
    why: str
    by: str

    @property
    def lost(self) -> bool:
        """Whether the page may be asked for again because nobody knows what became of the first time."""
        ran_out = self.why in (Reason.LEASE_EXPIRED, HostEvent.ERRAND_EXPIRED) and self.by == "timer"
        released = self.why in (Reason.RELEASED, HostEvent.ERRAND_RELEASED) and self.by == "start"
        given_up = self.why == Reason.RETRIES_EXHAUSTED and self.by in ("timer", "start")
        return ran_out or released or given_up


@dataclass
class Story:
    """Leases by identity, and of robots errands by what was requested; rows as they stand at the end."""

    urls: dict[str, list[Lease]] = field(default_factory=dict[str, list[Lease]])
    errands: dict[str, list[Lease]] = field(default_factory=dict[str, list[Lease]])
    rows: dict[str, UrlRow] = field(default_factory=dict[str, UrlRow])
    identities: dict[str, str] = field(default_factory=dict[str, str])
    """Identity by requested spelling."""
    outputs: dict[str, Fetched] = field(default_factory=dict[str, Fetched])
    """What was given out on `crawl.fetched`, by event id."""
    repeats: int = 0
    """Outputs that came again after a crash, as they may (docs/adr/0006): the same id and the same content."""
    contradictions: list[str] = field(default_factory=list[str])
    """Outputs with the id of another and other content."""
    rejects: list[str] = field(default_factory=list[str])
    open_leases: int = 0
    owners: int = 0


def read_story(folder: Path) -> Story:
    """Read every shard of a crawl that no process runs."""
    story = Story()
    for ref in shards_of(folder):
        with open_shard(ref) as shard:
            if ref.role is Role.FRONTIER:
                _read_shard(shard, story)
            for record in _events(shard, Topic.REJECTS):
                assert isinstance(record, Reject)
                story.rejects.append(
                    f"{record.topic}/{record.partition}@{record.offset} {record.reason}: {record.detail}"
                )
    return story


def _read_shard(shard: OpenShard, story: Story) -> None:
    open_claims: dict[str, Transition | HostTransition] = {}
    for batch in Playback(shard.log, Role.FRONTIER, shard.partition).batches():
        for one in batch.decisions:
            if isinstance(one.event, Transition):
                _move(one.event, batch.batch.at_ms, open_claims, story)
            elif isinstance(one.event, HostTransition):
                _errand(one.event, batch.batch.at_ms, open_claims, story)
    for event in _events(shard, Topic.FETCH_RESULTS):
        if isinstance(event, FetchResult) and event.kind is FetchKind.PAGE:
            story.identities.setdefault(event.requested, event.url)
    for event in _events(shard, Topic.FETCHED):
        assert isinstance(event, Fetched)
        before = story.outputs.setdefault(event.event_id, event)
        story.repeats += before is not event
        if before != event:
            story.contradictions.append(f"output {event.event_id} was given out again with other content")
    with shard.store.begin() as txn:
        for _, row in Tables(txn).urls.scan():
            story.rows[row.url] = row
            story.identities.setdefault(row.requested or row.url, row.url)
        story.open_leases += txn.count("leases")
        story.owners = max(story.owners, shard.head().owner_token)


def _events(shard: OpenShard, topic: Topic) -> Iterator[object]:
    first, end = shard.log.bounds(topic, shard.partition)
    if first == end:
        return
    for record in shard.log.scan(topic, shard.partition, first):
        try:
            yield decode(record.value)
        except Undecodable:
            continue


def _move(
    event: Transition, at_ms: int, claims: dict[str, Transition | HostTransition], story: Story
) -> None:
    if event.first is not None:
        story.identities.setdefault(event.first.requested or event.url, event.url)
    key = f"url {event.url}"
    if event.from_state is State.LEASED and event.to_state is not State.LEASED:
        claim = claims.pop(key, None)
        leases = story.urls.setdefault(event.url, [])
        if claim is not None and leases:
            leases[-1] = leases[-1]._replace(ended_ms=at_ms, why=event.reason.value, by=event.cause_topic)
    elif event.to_state is State.LEASED and event.reason is Reason.CLAIMED:
        claims[key] = event
        story.urls.setdefault(event.url, []).append(Lease(at_ms, 0, event.fence, event.lease_owner, "", ""))


def _errand(
    event: HostTransition, at_ms: int, claims: dict[str, Transition | HostTransition], story: Story
) -> None:
    errand = event.errand
    if errand is None or errand.kind is not FetchKind.ROBOTS:
        return
    key = f"errand {errand.url}"
    leases = story.errands.setdefault(errand.url, [])
    if event.event is HostEvent.ERRAND_LEASED:
        claims[key] = event
        leases.append(Lease(at_ms, 0, errand.fence, errand.owner, "", ""))
    elif event.event in ERRAND_ENDS and claims.pop(key, None) is not None:
        leases[-1] = leases[-1]._replace(ended_ms=at_ms, why=event.event.value, by=event.cause_topic)


# --- requests against leases -----------------------------------------------------------------------------------------


class Again(NamedTuple):
    """A URL that the server was asked for more than once: what the log says, and whether that allows it."""

    url: str
    moves: str
    fault: str


class Held(NamedTuple):
    """Every request against the leases. `unleased`: requests that no lease allowed."""

    again: list[Again]
    unleased: list[str]
    requests: int


def hold(story: Story, visits: Iterable[Visit], base_of: dict[int, str], began_ms: int) -> Held:
    """Give each request a lease of its own, in the order of time. `base_of`: scheme and authority of each host."""
    by_url: dict[str, list[Visit]] = {}
    count = 0
    for visit in sorted(visits):
        by_url.setdefault(base_of.get(visit.host, "?") + visit.target, []).append(visit)
        count += 1
    again: list[Again] = []
    unleased: list[str] = []
    for requested, asked in by_url.items():
        leases = story.errands.get(requested) or story.urls.get(
            story.identities.get(requested, requested), []
        )
        taken, strangers = _assign(asked, leases)
        unleased += [
            f"{requested} was asked for at {_at(v.start_ns // 1_000_000, began_ms)} without a lease"
            for v in strangers
        ]
        if len(asked) > 1:
            again.append(_told(requested, leases, taken, began_ms))
    return Held(again, unleased, count)


def _assign(asked: list[Visit], leases: list[Lease]) -> tuple[dict[int, Visit], list[Visit]]:
    """The request of each lease by its number, and those that are left over."""
    taken: dict[int, Visit] = {}
    strangers: list[Visit] = []
    for visit in asked:
        start_ms = visit.start_ns / 1e6
        fitting = [
            n for n, lease in enumerate(leases) if n not in taken and lease.claimed_ms <= start_ms + CLOCK_MS
        ]
        if fitting:
            taken[fitting[-1]] = visit
        else:
            strangers.append(visit)
    return taken, strangers


def _told(requested: str, leases: list[Lease], taken: dict[int, Visit], began_ms: int) -> Again:
    said: list[str] = []
    faults: list[str] = []
    last = max(taken, default=-1)
    for n, lease in enumerate(leases):
        visit = taken.get(n)
        asked = f"asked {_at(visit.start_ns // 1_000_000, began_ms)}" if visit else "not asked"
        ended = f"{lease.why} by {lease.by} {_at(lease.ended_ms, began_ms)}" if lease.why else "still open"
        said.append(f"fence {lease.fence} claimed {_at(lease.claimed_ms, began_ms)}, {asked}, {ended}")
        if visit and n < last and not lease.lost:
            faults.append(
                f"fence {lease.fence} ended with {lease.why or 'nothing'} by {lease.by or 'nobody'}, and it was asked again"
            )
    return Again(requested, "; ".join(said), "; ".join(faults))


def _at(at_ms: int, began_ms: int) -> str:
    return f"+{(at_ms - began_ms) / 1_000:.3f}"
