"""One partition's tables in memory and the machine alone: decide, apply, look. No log, no shard, no thread.

    bench = Bench()
    bench.seed("http://a.example/")
    lease = bench.claim()                   # the look-up of the host's address
    bench.answer(lease, address="198.51.100.7")

Each decision goes through its encoded bytes before it is applied, as in the log.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace

from frontlog.avro.codec import decode, encode
from frontlog.avro.enums import FetchKind, Reason, SourceKind, State, Topic
from frontlog.avro.events import (
    Control,
    Discovery,
    Event,
    FetchResult,
    HostTransition,
    ParseFacts,
    Transition,
)
from frontlog.processors import canonical, claims, hosts, jobs, machine, partition, url_counts
from frontlog.processors.context import Cause, Context, Decided, Emission, Out
from frontlog.processors.control import seed_discovery
from frontlog.processors.leased import Lease
from frontlog.processors.settings import Settings
from frontlog.processors.sites import split_origin
from frontlog.state import keys
from frontlog.state.catalogue import STORE_TABLES
from frontlog.state.memory_store import MemoryStore
from frontlog.state.rows import HostRow, OriginRow, UrlRow
from frontlog.state.tables import Tables

NOW_MS = 1_790_000_000_000
ADDRESS = "198.51.100.7"
ALLOW_ALL = b""


@dataclass
class Made:
    """What one call made, all its steps together."""

    decisions: list[Event] = field(default_factory=list[Event])
    outputs: list[Out] = field(default_factory=list[Out])
    emissions: list[Emission] = field(default_factory=list[Emission])
    leases: list[Lease] = field(default_factory=list[Lease])

    @property
    def moves(self) -> list[tuple[State, State, Reason]]:
        """(from, to, reason) of each transition."""
        return [(d.from_state, d.to_state, d.reason) for d in self.decisions if isinstance(d, Transition)]

    @property
    def rejects(self) -> list[Reason]:
        """Reasons of the rejects."""
        return [getattr(out.event, "reason") for out in self.outputs if out.topic is Topic.REJECTS]  # noqa: B009

    def out(self, topic: Topic) -> list[Any]:
        """Events for a topic."""
        return [out.event for out in self.outputs if out.topic is topic]

    @property
    def host_moves(self) -> list[HostTransition]:
        """Moves of hosts' clocks."""
        return [d for d in self.decisions if isinstance(d, HostTransition)]


class Bench:
    """A partition of `partitions`, with the settings in force."""

    def __init__(
        self,
        settings: Settings | None = None,
        *,
        partition: int = 0,
        partitions: int = 1,
        now_ms: int = NOW_MS,
    ) -> None:
        self.store = MemoryStore(STORE_TABLES)
        self.tables = Tables(self.store.begin(write=True))
        self.partition, self.partitions = partition, partitions
        self.now_ms = now_ms
        self.seq = self.offset = 0
        if settings is not None:
            self.make([self._settings(settings)], self.context("start"))

    def _settings(self, settings: Settings) -> Decided:
        ctx = self.context("start")
        decided = partition.settle_settings(self.tables, ctx, settings)
        self.seq = ctx.seq
        return decided

    def configure(self, settings: Settings) -> Made:
        """Other settings, as at a start with another configuration."""
        return self.make([self._settings(settings)], self.context("start"))

    def context(self, topic: str) -> Context:
        """The stamp of the next decisions."""
        self.tables.head = replace(self.tables.head, at_ms=self.now_ms, partitions=self.partitions)
        ctx = Context(
            now_ms=self.now_ms, seq=self.seq, owner_token=1, owner="bench", partition=self.partition,
            partitions=self.partitions,
        )  # fmt: skip
        ctx.cause = Cause(topic, self.partition, self.offset)
        return ctx

    def make(self, steps: Iterable[Decided], ctx: Context) -> Made:
        """Apply steps, each before the next is asked for."""
        made = Made()
        for step in steps:
            for event in step.decisions:
                machine.apply(self.tables, decode(encode(event)))
            made.decisions += step.decisions
            made.outputs += step.outputs
            made.emissions += step.emissions
            made.leases += step.leases
        self.seq = max(self.seq, ctx.seq)
        hosts.settle(self.tables)
        return made

    # --- what a batch does ------------------------------------------------------------------------------------

    def decide(self, event: Event, topic: str = Topic.DISCOVERIES) -> Made:
        """Decide an input, step by step, and apply it."""
        ctx = self.context(topic)
        self.offset += 1
        return self.make(machine.decide(self.tables, event, ctx), ctx)

    def claims(self, wanted: int = 100) -> Made:
        """One round of claims."""
        hosts.settle(self.tables)
        ctx = self.context("claim")
        return self.make(claims.claim_all(self.tables, ctx, wanted), ctx)

    def sweep(self) -> Made:
        """Give back the leases that ran out."""
        ctx = self.context("timer")
        return self.make(partition.expire_all(self.tables, ctx), ctx)

    def release(self) -> Made:
        """What a new owner does with the leases of a dead process."""
        ctx = self.context("start")
        return self.make(partition.release_all(self.tables, ctx), ctx)

    def jobs(self, steps_max: int = 1_000) -> Made:
        """Jobs to their end."""
        made = Made()
        for _ in range(steps_max):
            if not jobs.pending(self.tables):
                return made
            ctx = self.context("timer")
            step = self.make(jobs.step_all(self.tables, ctx), ctx)
            made.decisions += step.decisions
            made.outputs += step.outputs
            made.emissions += step.emissions
        raise AssertionError("a job doesn't end")

    # --- in short ---------------------------------------------------------------------------------------------

    def seed(self, *urls: str, kind: SourceKind = SourceKind.SEED) -> Made:
        """Give seeds."""
        made = Made()
        for url in urls:
            found = canonical.canonicalize(url)
            assert isinstance(found, canonical.Identity), url
            one = self.decide(seed_discovery(f"{self.now_ms} {url}", url, found, kind, self.now_ms))
            made.decisions += one.decisions
        return made

    def links(self, *urls: str, depth: int = 1, kind: SourceKind = SourceKind.PAGE) -> Made:
        """Links of one origin."""
        n = len(urls)
        return self.decide(
            Discovery(
                event_id=f"{self.now_ms} {urls}", origin_key=split_origin(urls[0])[0], source_kind=kind, depth=depth,
                priority=2, parts=1, urls=urls, raws=("",) * n, anchors=("",) * n, rels=("",) * n,
            )
        )  # fmt: skip

    def control(self, cmd: str, **fields: Any) -> Made:
        """An operator's wish."""
        return self.decide(Control(cmd=cmd, actor="test", **fields), Topic.CONTROL)

    def claim(self) -> Lease:
        """The only lease of a round of claims."""
        made = self.claims()
        assert len(made.leases) == 1, made
        return made.leases[0]

    def result(self, lease: Lease, **fields: Any) -> FetchResult:
        """A result of a lease that ended now: 200 after 20 ms, unless said otherwise."""
        asked = lease.kind is not FetchKind.RESOLVE
        base = FetchResult(
            event_id=f"{lease.kind.value} {lease.fence} {lease.url}", kind=lease.kind, origin_key=lease.origin_key,
            host=lease.host, url=lease.url, requested=lease.requested, fence=lease.fence, asker=lease.asker,
            policy_version=lease.policy_version, started_ms=self.now_ms - 20 * asked, ended_ms=self.now_ms,
            total_ms=20 * asked, address=lease.address if asked else ADDRESS, status=200 * asked, reason=Reason.OK,
            chain=lease.chain, ttl_ms=86_400_000,
        )  # fmt: skip
        return replace(base, **fields)

    def answer(self, lease: Lease, **fields: Any) -> Made:
        """Decide a result of a lease."""
        return self.decide(self.result(lease, **fields), Topic.FETCH_RESULTS)

    def page(self, lease: Lease, text: bytes = b"t" * 32, **fields: Any) -> Made:
        """Decide a page that was fetched and parsed."""
        return self.answer(lease, parse=ParseFacts(text_sha256=text), **fields)

    def prepare(self, url: str, robots: bytes = ALLOW_ALL, *, address: str = ADDRESS) -> Lease:
        """Seed a URL and bring its host so far that the URL is leased, which is returned."""
        self.seed(url)
        return self.page_lease(robots, address=address)

    def page_lease(self, robots: bytes = ALLOW_ALL, *, address: str = ADDRESS) -> Lease:
        """The next lease of a page, once its time has come; what stands before it is answered."""
        for _ in range(10):
            self.wait()
            lease = self.claim()
            if lease.kind is FetchKind.PAGE:
                return lease
            if lease.kind is FetchKind.RESOLVE:
                self.answer(lease, address=address)
            else:
                self.answer(lease, robots_txt=robots)
        raise AssertionError("no page is leased")

    def wait(self) -> None:
        """Until the next turn of any host."""
        hosts.settle(self.tables)
        first = self.tables.ready.first()
        assert first is not None, "no host waits for a turn"
        self.now_ms = max(self.now_ms, int.from_bytes(first[0][:8], "big"))

    def url(self, url: str) -> UrlRow:
        """The row of an identity."""
        row = self.tables.urls.get(keys.url_key(keys.origin_id(split_origin(url)[0]), url))
        assert row is not None, url
        return row

    def force(self, url: str, state: State, **fields: Any) -> None:
        """Put a known URL into a state, with all that follows from it, whatever the table of moves says."""
        origin_id = keys.origin_id(split_origin(url)[0])
        key, row, origin = keys.url_key(origin_id, url), self.url(url), self.tables.origins.get(origin_id)
        assert origin is not None
        new = replace(row, state=state, **{"due_ms": 0, **fields})
        states, due = url_counts.by_state(origin), list(url_counts.by_class(origin))
        states[row.state] -= 1
        states[state] += 1
        for one, sign in ((row, -1), (new, 1)):
            if url_counts.waits(one.state, one.due_ms):
                due[one.priority] += sign
        if url_counts.waits(row.state, row.due_ms):
            self.tables.due.delete(keys.due_key(key, row.priority, row.due_ms))
        if url_counts.waits(new.state, new.due_ms):
            self.tables.due.put(keys.due_key(key, new.priority, new.due_ms))
        if state is State.LEASED:
            self.tables.leases.put(keys.lease_key(new.deadline_ms, keys.LEASE_URL, key))
        counted = replace(origin, states=_packed(states.values()), due=_packed(due))
        self.tables.origins.put(origin_id, counted)
        self.tables.urls.put(key, new)
        self.tables.touched.add(origin_id[: keys.HOST_ID_BYTES])
        hosts.settle(self.tables)

    def known(self, url: str) -> bool:
        return self.tables.urls.get(keys.url_key(keys.origin_id(split_origin(url)[0]), url)) is not None

    def host(self, name: str) -> HostRow:
        row = self.tables.hosts.get(keys.host_id(name))
        assert row is not None, name
        return row

    def origin(self, origin_key: str) -> OriginRow:
        row = self.tables.origins.get(keys.origin_id(origin_key))
        assert row is not None, origin_key
        return row


def _packed(numbers: Iterable[int]) -> bytes:
    return b"".join(number.to_bytes(4, "big") for number in numbers)
