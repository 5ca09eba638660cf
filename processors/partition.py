"""What concerns a partition as a whole: its owner, its pause, its settings, what its former owner left behind.

Ownership is the fence (DESIGN §1): taking a partition over appends `OwnershipTaken` with the next token before any
other decision. Decisions with a smaller token beyond `after_seq` are void. Leases of another machine's owner stay and
run out; those of a dead embedded process are released at once, and their hosts' gaps count from now.
"""

from collections.abc import Iterator

from msgspec.structs import replace

from frontlog.avro.enums import HostEvent, PolicyAct, Reason, ScopeKind
from frontlog.avro.events import OperatorPolicy, OwnershipTaken, PartitionPaused
from frontlog.processors import hosts, policy, politeness, results
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
    """Log the settings that deciding uses, if they are not those in force."""
    text = encode(settings)
    if view.crawl.settings == text:
        return Decided()
    event = OperatorPolicy(
        seq=ctx.next_seq(), owner_token=ctx.owner_token, scope_kind=ScopeKind.CRAWL, scope="", act=PolicyAct.SETTINGS, gap_ms=0,
        settings=text, actor=ctx.owner, note="configuration at start", cause_topic="start", cause_partition=ctx.partition,
        cause_offset=-1,
    )  # fmt: skip
    return Decided(decisions=[event])


def release_all(view: Tables, ctx: Context) -> Iterator[Decided]:
    """Give back every lease: the process that held them is known to be dead."""
    ctx.cause = Cause("start", ctx.partition, -1)
    yield from _give_back(view, ctx, view.leases.scan(), Reason.RELEASED, HostEvent.ERRAND_RELEASED)


def expire_all(view: Tables, ctx: Context) -> Iterator[Decided]:
    """Give back the leases whose deadline has passed (the sweeper)."""
    ctx.cause = Cause("timer", ctx.partition, -1)
    stop = keys.lease_key(ctx.now_ms + 1, keys.LEASE_URL, b"")
    yield from _give_back(view, ctx, view.leases.scan(b"", stop), Reason.LEASE_EXPIRED, HostEvent.ERRAND_EXPIRED)


def _give_back(
    view: Tables, ctx: Context, rows: Iterator[tuple[bytes, bytes]], reason: Reason, event: HostEvent
) -> Iterator[Decided]:
    found = [key for key, _ in zip((k for k, _ in rows), range(EXPIRED_MAX), strict=False)]
    for key in found:
        kind, subject = key[8], key[9:]
        if kind == keys.LEASE_URL:
            yield results.expire(view, ctx, subject, reason)
        else:
            yield _expire_errand(view, ctx, subject, reason, event)


def _expire_errand(view: Tables, ctx: Context, host: bytes, reason: Reason, event: HostEvent) -> Decided:
    row = view.hosts.get(host)
    assert row is not None
    clock = hosts.clock_of(row)
    assert clock.errand is not None
    rules = policy.settings_of(view).politeness
    after = politeness.lapsed(politeness.with_address(view, clock), rules, ctx.now_ms)
    return Decided(decisions=[politeness.move(ctx, row, event, reason, after)])
