"""Mutants of fences, leases, tokens and attempts."""

# Mutants are made from within.
# pyright: reportPrivateUsage=false

from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from frontlog.avro.enums import Reason, State
from frontlog.avro.events import FetchResult, Transition
from frontlog.fetch.pipeline import Pipeline
from frontlog.processors import lookups, partition, politeness, results, robots_policy, urls
from frontlog.processors.context import Cause, Context, Decided
from frontlog.processors.leased import Lease
from frontlog.processors.settings import Attempts
from frontlog.state import head, keys
from frontlog.state.tables import Tables
from frontlog.streams.shard import Shard
from simulation.mutants import Mutant, Patch, entering
from simulation.plan import Fault, Weather

MUTANTS: list[Mutant] = []
mutant = entering(MUTANTS)
EARLY_MS = 14_000


@mutant("commit_has_the_fence_of_the_row:1", [Fault.LATE, Fault.REPEAT])
def a_result_counts_whatever_its_fence(patch: Patch) -> None:
    decide = results.decide

    def any_fence(view: Tables, result: FetchResult, ctx: Context) -> Decided:
        row = view.urls.get(keys.url_key(keys.origin_id(result.origin_key), result.url))
        leased = row is not None and row.state is State.LEASED
        return decide(view, replace(result, fence=row.fence) if row is not None and leased else result, ctx)

    patch.setattr(results, "decide", any_fence)


@mutant("errand_has_the_fence_of_the_host:2", [Fault.REPEAT, Fault.LATE, Weather.ADDRESSES, Weather.DNS])
def a_look_up_counts_whatever_its_fence(patch: Patch) -> None:
    look_up, robots = lookups.decide, robots_policy.decide

    def with_fence(view: Tables, result: FetchResult) -> FetchResult:
        row = view.hosts.get(keys.host_id(result.host))
        errand = politeness.clock_in(view, row).errand if row is not None else None
        if errand is None or not result.fence:
            return result
        return replace(result, fence=errand.fence, kind=errand.kind)

    def any_look_up(view: Tables, result: FetchResult, ctx: Context) -> Decided:
        return look_up(view, with_fence(view, result), ctx)

    def any_robots(view: Tables, result: FetchResult, ctx: Context) -> Iterator[Decided]:
        return robots(view, with_fence(view, result), ctx)

    patch.setattr(lookups, "decide", any_look_up)
    patch.setattr(robots_policy, "decide", any_robots)


@mutant("lease_ends_in_time:0", [Weather.SLOW, Fault.LATE])
def a_lease_runs_out_early(patch: Patch) -> None:
    def swept(view: Tables, ctx: Context) -> Iterator[Decided]:
        ctx.cause = Cause("timer", ctx.partition, -1)
        stop = keys.lease_key(ctx.now_ms + EARLY_MS, keys.LEASE_URL, b"")
        yield from partition._give_back(view, ctx, view.leases.scan(b"", stop), Reason.LEASE_EXPIRED)

    patch.setattr(partition, "expire_all", swept)


@mutant("stale_owner_writes_nothing:1", [Fault.TAKEOVER])
def an_owner_does_not_look_whose_the_log_is(patch: Patch) -> None:
    def any_head(self: Shard, txn: Any) -> head.Head:
        self.head = head.load(txn)
        return self.head

    patch.setattr(Shard, "_own_head", any_head)


@mutant("token_of_the_owner:0", [Fault.CRASH])
def a_decision_has_the_token_of_another(patch: Patch) -> None:
    build = urls.build

    def other(*args: Any, **kwargs: Any) -> Transition:
        return replace(build(*args, **kwargs), owner_token=1)

    patch.setattr(urls, "build", other)


@mutant("attempts_are_bounded:3", [Weather.LIMITS, Weather.FAILING, Fault.LOST_PARSER])
def attempts_have_no_end(patch: Patch) -> None:
    counted = results._counted

    def unbounded(rules: Attempts, *args: Any) -> Any:
        return counted(replace(rules, attempts_max=10_000), *args)

    patch.setattr(results, "_counted", unbounded)


@mutant("attempts_are_bounded:1", [Weather.FAILING])
def a_page_is_parked_too_soon(patch: Patch) -> None:
    counted = results._counted

    def impatient(rules: Attempts, *args: Any) -> Any:
        return counted(replace(rules, failures_quarantine=2), *args)

    patch.setattr(results, "_counted", impatient)


@mutant("asked_within_the_lease:12", [Fault.TAKEOVER])
def nobody_looks_at_the_deadline(patch: Patch) -> None:
    carry_out = Pipeline.carry_out

    async def late(self: Pipeline, lease: Lease) -> FetchResult:
        return await carry_out(self, replace(lease, deadline_ms=lease.deadline_ms + 60_000))

    patch.setattr(Pipeline, "carry_out", late)
