"""Mutants that fetch what they may not, or take one thing for another."""

# Mutants are made from within.
# pyright: reportPrivateUsage=false

from typing import Any

from msgspec.structs import replace

from frontlog.avro.enums import Reason, RobotsState, SourceKind
from frontlog.avro.events import FirstSeen
from frontlog.fetch import pipeline
from frontlog.fetch.addresses import Choice, Network, Verdict
from frontlog.fetch.pipeline import Pipeline
from frontlog.processors import (
    canonical,
    claims,
    discoveries,
    jobs,
    partition,
    policy,
    robots_http,
    scope,
)
from frontlog.processors.robots_http import ALLOW_ALL, RobotsAccess, RobotsOutcome
from frontlog.processors.settings import Scope
from frontlog.state.rows import OriginRow
from simulation.mutants import Mutant, Patch, always, entering
from simulation.plan import Fault, Weather

MUTANTS: list[Mutant] = []
mutant = entering(MUTANTS)


@mutant("robots_are_obeyed:0")
def a_denial_is_ignored(patch: Patch) -> None:
    verdict = policy.robots_verdict

    def allowed(*args: Any) -> policy.Verdict:
        return verdict(*args)._replace(allowed=True, reason=Reason.ADMITTED)

    patch.setattr(policy, "robots_verdict", allowed)


@mutant("robots_are_believed_as_served:1", [Weather.ROBOTS, Weather.FAILING])
def robots_fail_open(patch: Patch) -> None:
    outcome = robots_http.outcome

    def open_(*args: Any, **kwargs: Any) -> RobotsOutcome:
        found = outcome(*args, **kwargs)
        if found.kind is RobotsAccess.UNREACHABLE:
            return RobotsOutcome(RobotsAccess.UNAVAILABLE, found.reason, ALLOW_ALL)
        return found

    patch.setattr(robots_http, "outcome", open_)


@mutant("robots_are_obeyed:1")
def robots_are_believed_for_ever(patch: Patch) -> None:
    def wanted(_: Any, origin: OriginRow) -> bool:
        return origin.robots_state is RobotsState.UNKNOWN

    patch.setattr(claims._Turn, "_robots_wanted", wanted)


@mutant("leased_within_scope:0")
def the_scope_is_ignored(patch: Patch) -> None:
    patch.setattr(scope, "outside", always(""))


@mutant("scope_grows_by_seeds_only:1", [Weather.REDIRECTS])
def any_redirect_widens_the_scope(patch: Patch) -> None:
    scoped = scope.seed_scope

    def wider(rules: Scope, url: str, kind: SourceKind, depth: int) -> str | None:
        return scoped(rules, url, kind, 0 if kind is SourceKind.REDIRECT else depth)

    patch.setattr(scope, "seed_scope", wider)


@mutant("asked_of_the_public_web:3", [Weather.INTERNAL])
def internal_addresses_are_connected_to(patch: Patch) -> None:
    def first(addresses: tuple[str, ...], _: tuple[Network, ...]) -> Choice:
        return Choice(True, addresses[0], None, ())

    patch.setattr(pipeline, "choose", first)
    patch.setattr(pipeline, "judge", always(Verdict("", True, None, "", "")))


@mutant("asked_with_a_lease_of_the_log:0", [Weather.ADDRESSES])
def the_host_is_looked_up_again_when_it_is_asked(patch: Patch) -> None:
    request = Pipeline._request

    def elsewhere(self: Pipeline, lease: Any, now_ms: int) -> Any:
        return request(self, replace(lease, address=f"{lease.address[:-1]}9"), now_ms)

    patch.setattr(Pipeline, "_request", elsewhere)


@mutant("blocked_is_not_asked:0", [Fault.OPERATOR])
def a_block_is_ignored(patch: Patch) -> None:
    patch.setattr(policy, "blocked_by", always(""))


@mutant("blocked_is_not_asked:2", [Fault.OPERATOR])
def a_pause_is_ignored(patch: Patch) -> None:
    patch.setattr(policy, "paused_by", always(False))
    patch.setattr(partition, "claims_paused", always(False))


@mutant("page_keeps_its_links:11 first_seen_once:4")
def upper_and_lower_case_are_one(patch: Patch) -> None:
    rewritten = canonical.identify

    def lower(href: str, *args: Any) -> Any:
        found = rewritten(href, *args)
        return (
            replace(found, identity=found.identity.lower())
            if isinstance(found, canonical.Identity)
            else found
        )

    def known_as(href: str) -> tuple[str, str] | None:
        found = lower(href)
        return (found.identity, found.origin_key) if isinstance(found, canonical.Identity) else None

    patch.setattr(canonical, "identify", lower)
    patch.setattr(canonical, "known_as", known_as)


@mutant("asked_as_it_was_found:1")
def the_spelling_is_not_kept(patch: Patch) -> None:
    first = discoveries._first

    def respelled(event: Any, i: int, found: canonical.Identity, scoped: str | None) -> FirstSeen:
        return replace(first(event, i, found, scoped), requested=f"{found.requested}?from=frontlog")

    patch.setattr(discoveries, "_first", respelled)


@mutant("everything_reachable_is_fetched:0", [Fault.OPERATOR, Weather.ROBOTS])
def a_change_of_policy_starts_no_job(patch: Patch) -> None:
    patch.setattr(jobs, "start", always([]))
