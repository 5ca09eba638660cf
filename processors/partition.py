"""What concerns a partition as a whole: its owner, its pause, its settings, what its former owner left behind.

Ownership is the fence (DESIGN §1): taking a partition over appends `OwnershipTaken` with the next token before any
other decision. Decisions with a smaller token beyond `after_seq` are void. Leases of another machine's owner stay and
run out; those of a dead embedded process are released at once, and their hosts' gaps count from now.
"""

from collections.abc import Iterator
from itertools import islice

from msgspec.structs import replace

from frontlog.avro.enums import FetchKind, HostEvent, PolicyAct, Reason, ScopeKind
from frontlog.avro.events import Event, OperatorPolicy, OwnershipTaken, PartitionPaused
from frontlog.processors import jobs, lookups, policy, politeness, results, robots_policy
from frontlog.processors.context import Cause, Context, Decided
from frontlog.processors.settings import Settings, encode
from frontlog.state import keys
from frontlog.state.tables import Tables

EXPIRED_MAX = 1_000
"""Leases that are returned in one batch; the rest follows in the next."""


def apply_taken(tables: Tables, event: OwnershipTaken) -> None:
    """Fold a change of owner. (Token, partitions and list version stand in the head.)"""
    head = tables.head
    assert event.owner_token == head.owner_token + 1, f"token {head.owner_token} -> {event.owner_token}"
    assert event.after_seq == event.seq - 1, f"seq {event.seq} after {event.after_seq}"
    tables.head = replace(
        head, owner_token=event.owner_token, partitions=event.partitions, psl_version=event.psl_version
    )


def apply_paused(tables: Tables, event: PartitionPaused) -> None:
    """Fold a pause of the partition."""
    tables.put_crawl(replace(tables.crawl, paused=event.paused))


def claims_paused(view: Tables) -> bool:
    """Whether nothing at all is claimed in this partition."""
    return view.crawl.paused or view.crawl.crawl_paused


def settle_settings(view: Tables, ctx: Context, settings: Settings) -> Decided:
    """Log the settings that deciding uses, if they are not those in force. Others than before may allow what was
    blocked and forbid what was fetched, so every URL is looked at again."""
    text = encode(settings)
    if view.crawl.settings == text:
        return Decided()
    event = OperatorPolicy(
        seq=ctx.next_seq(), owner_token=ctx.owner_token, scope_kind=ScopeKind.CRAWL, scope="",
        act=PolicyAct.SETTINGS, gap_ms=0,
        settings=text, actor=ctx.owner, note="configuration at start", cause_topic="start", cause_partition=ctx.partition,
        cause_offset=-1,
    )  # fmt: skip
    decisions: list[Event] = [event]
    if view.crawl.settings_seq:
        decisions += jobs.start(view, ctx, ScopeKind.CRAWL, "")
    return Decided(decisions=decisions)


def release_all(view: Tables, ctx: Context) -> Iterator[Decided]:
    """Give back every lease: the process that held them is known to be dead."""
    ctx.cause = Cause("start", ctx.partition, -1)
    yield from _give_back(view, ctx, view.leases.scan(), Reason.RELEASED)


def expire_all(view: Tables, ctx: Context) -> Iterator[Decided]:
    """Give back the leases whose deadline has passed (the sweeper)."""
    ctx.cause = Cause("timer", ctx.partition, -1)
    stop = keys.lease_key(ctx.now_ms + 1, keys.LEASE_URL, b"")
    yield from _give_back(view, ctx, view.leases.scan(b"", stop), Reason.LEASE_EXPIRED)


def _give_back(
    view: Tables, ctx: Context, rows: Iterator[tuple[bytes, bytes]], reason: Reason
) -> Iterator[Decided]:
    found = [key for key, _ in islice(rows, EXPIRED_MAX)]
    for key in found:
        kind, subject = key[8], key[9:]
        if kind == keys.LEASE_URL:
            yield results.expire(view, ctx, subject, reason)
        else:
            yield from _give_back_errand(view, ctx, subject, reason)


def _give_back_errand(view: Tables, ctx: Context, host: bytes, reason: Reason) -> Iterator[Decided]:
    """An errand whose process is dead is still wanted; one whose lease ran out has failed."""
    row = view.hosts.get(host)
    assert row is not None
    clock = politeness.clock_in(view, row)
    errand = clock.errand
    assert errand is not None
    rules = policy.settings_of(view).politeness
    after = politeness.lapsed(clock, rules, ctx.now_ms)
    if reason is Reason.RELEASED:
        yield Decided(
            decisions=[politeness.move(ctx, row, HostEvent.ERRAND_RELEASED, reason, after, errand=errand)]
        )
    elif errand.kind is FetchKind.ROBOTS:
        yield from robots_policy.expire(view, ctx, row, after, errand)
    else:
        after = politeness.with_address(view, lookups.failed(after, rules, ctx.now_ms))
        yield Decided(
            decisions=[politeness.move(ctx, row, HostEvent.ERRAND_EXPIRED, reason, after, errand=errand)]
        )
