"""Mutants that ask too soon, too often, or at once."""

# Mutants are made from within.
# pyright: reportPrivateUsage=false

import asyncio
from typing import Any

from msgspec.structs import replace

from frontlog.avro.enums import Reason
from frontlog.avro.events import FetchResult, HostClock
from frontlog.fetch.pipeline import Pipeline
from frontlog.processors import claims, politeness, robots_policy
from frontlog.processors.context import Decided
from frontlog.processors.leased import Lease
from frontlog.processors.settings import Politeness
from frontlog.streams import clock
from simulation.mutants import Mutant, Patch, always, entering
from simulation.plan import Fault, Weather

MUTANTS: list[Mutant] = []
mutant = entering(MUTANTS)


@mutant("gap_of_the_host:0")
def the_gap_is_halved(patch: Patch) -> None:
    of_host, of_address = politeness.gap_ms, politeness.address_gap_ms

    def half(before: HostClock, rules: Politeness, response_ms: int) -> int:
        return of_host(before, rules, response_ms) // 2

    def half_of_address(rules: Politeness, response_ms: int) -> int:
        return of_address(rules, response_ms) // 2

    patch.setattr(politeness, "gap_ms", half)
    patch.setattr(politeness, "address_gap_ms", half_of_address)


@mutant("gap_of_the_host:0", [Weather.SLOW])
def the_response_time_is_ignored(patch: Patch) -> None:
    of_address = politeness.address_gap_ms

    def quick(rules: Politeness, _: int) -> int:
        return of_address(rules, 0)

    patch.setattr(politeness, "address_gap_ms", quick)


@mutant("gap_of_the_host:6", [Weather.ROBOTS])
def a_crawl_delay_is_ignored(patch: Patch) -> None:
    parsed = robots_policy._policy

    def without(*args: Any) -> Any:
        return replace(parsed(*args), crawl_delay_ms=0)

    patch.setattr(robots_policy, "_policy", without)


@mutant("gap_of_the_address:1", [Weather.SHARED])
def hosts_of_an_address_take_no_rest(patch: Patch) -> None:
    def busy(before: HostClock, _: int) -> bool:
        return before.address_in_flight > 0

    patch.setattr(politeness, "address_busy", busy)


@mutant("one_connection_an_address:1", [Weather.SHARED, Weather.SLOW])
def hosts_of_an_address_do_not_wait(patch: Patch) -> None:
    patch.setattr(politeness, "address_busy", always(False))


@mutant("one_lease_a_host:0", [Weather.SLOW])
def a_claim_takes_no_slot(patch: Patch) -> None:
    claimed = politeness.claimed

    def free(*args: Any) -> HostClock:
        return replace(claimed(*args), in_flight=0, address_in_flight=0, address_next_ms=0)

    patch.setattr(politeness, "claimed", free)


@mutant("one_connection_a_host:0")
def a_page_is_asked_for_twice_at_once(patch: Patch) -> None:
    fetch = Pipeline._fetch

    async def twice(self: Pipeline, lease: Lease, began_ms: int) -> FetchResult:
        first, _ = await asyncio.gather(fetch(self, lease, began_ms), fetch(self, lease, began_ms))
        return first

    patch.setattr(Pipeline, "_fetch", twice)


@mutant("gap_of_the_host:0")
def a_failed_page_is_asked_for_again_at_once(patch: Patch) -> None:
    fetch = Pipeline._fetch

    async def again(self: Pipeline, lease: Lease, began_ms: int) -> FetchResult:
        first = await fetch(self, lease, began_ms)
        return await fetch(self, lease, first.ended_ms)

    patch.setattr(Pipeline, "_fetch", again)


@mutant("everything_reachable_is_fetched:5")
def the_slot_of_an_address_leaks(patch: Patch) -> None:
    freed = politeness.freed_slot

    def kept(before: HostClock) -> HostClock:
        return replace(freed(before), address_in_flight=before.address_in_flight)

    patch.setattr(politeness, "freed_slot", kept)


@mutant("gap_of_the_host:1", [Fault.CRASH, Weather.SLOW])
def a_restart_forgets_the_gap(patch: Patch) -> None:
    def at_once(before: HostClock, _: Politeness, now_ms: int) -> HostClock:
        return replace(politeness.freed_slot(before), next_eligible_ms=now_ms, address_next_ms=now_ms)

    patch.setattr(politeness, "lapsed", at_once)


@mutant("retry_after_is_kept:1", [Weather.LIMITS])
def retry_after_is_ignored(patch: Patch) -> None:
    patch.setattr(politeness, "retry_after_ms", always(None))


@mutant("retry_after_is_kept:1", [Weather.FAILING])
def failures_of_the_host_do_not_back_off(patch: Patch) -> None:
    patch.setattr(politeness, "HOST_FAILURES", frozenset[Reason]())


@mutant("gap_of_the_host:2", [Fault.CLOCK_STEP])
def the_clock_jumps(patch: Patch) -> None:
    patch.setattr(clock, "SLEW", 1e9)


@mutant("gap_of_the_host:3", [Fault.OPERATOR])
def an_operators_gap_is_ignored(patch: Patch) -> None:
    of_host = politeness.gap_ms

    def free(before: HostClock, rules: Politeness, response_ms: int) -> int:
        return of_host(replace(before, operator_gap_ms=0), rules, response_ms)

    patch.setattr(politeness, "gap_ms", free)


@mutant("asked_with_a_lease_of_the_log:0")
def a_lease_is_handed_out_that_nobody_decided(patch: Patch) -> None:
    claim = claims._Turn._claim

    def one_more(self: Any, *args: Any) -> Decided:
        decided = claim(self, *args)
        return replace(decided, leases=[*decided.leases, replace(decided.leases[0], fence=99)])

    patch.setattr(claims._Turn, "_claim", one_more)
