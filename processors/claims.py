"""The claim: the only move of a URL toward the network (DESIGN §6; seed 000, chapter 5).

One claim is one decision: the verdict for the policy version in force, LEASED, fence + 1, deadline, the host's
clock and the slot, together. Hosts come from `ready` in the order of their time. What stands between a host and
its best URL is done first, one thing a turn: an operator's block or a narrower scope (the URL becomes BLOCKED),
an address (a look-up is leased), a robots.txt (leased on the host's slot), robots itself, the address's budget.

`claim_all` yields after every step that decided something, so that the host applies it before the next is
looked at. It looks at a bounded number of hosts and refuses a bounded number of URLs a turn; the rest waits.
"""

from collections.abc import Iterator

from msgspec.structs import replace

from frontlog.avro.enums import FetchKind, HostEvent, Reason, RobotsState, State
from frontlog.avro.events import Errand, HostClock, Transition
from frontlog.processors import (
    errands,
    hosts,
    merges,
    outputs,
    policy,
    politeness,
    robots_policy,
    sitemap_files,
    urls,
)
from frontlog.processors.context import Cause, Context, Decided
from frontlog.processors.leased import Lease
from frontlog.processors.settings import Settings
from frontlog.processors.sites import split_origin
from frontlog.state import keys
from frontlog.state.rows import HostRow, OriginRow, UrlRow
from frontlog.state.tables import Tables

HOSTS_LOOKED_MAX = 2_000
REFUSED_MAX = 100
"""URLs of one host that may be refused in one turn."""
PARK_MS = 1_000
PARK_PAUSED_MS = 3_600_000
"""How long a host of a paused site or origin is put off; resuming gives it its turn at once (`jobs`)."""


def claim_all(view: Tables, ctx: Context, wanted: int) -> Iterator[Decided]:
    """Claims for up to `wanted` free slots, host by host in the order of `ready`."""
    ctx.cause = Cause("claim", ctx.partition, -1)
    cursor = b""
    for _ in range(HOSTS_LOOKED_MAX):
        found = view.ready.first(cursor, keys.ready_key(ctx.now_ms + 1, b"")) if wanted > 0 else None
        if found is None:
            return
        cursor = found[0] + b"\0"
        for decided in _Turn(view, ctx, found[0][8:]).steps():
            wanted -= len(decided.leases)
            yield decided


class _Turn:
    """One host's turn."""

    def __init__(self, view: Tables, ctx: Context, host: bytes) -> None:
        self.view = view
        self.ctx = ctx
        self.host = host
        self.settings: Settings = policy.settings_of(view)
        row = view.hosts.get(host)
        assert row is not None
        self.row: HostRow = row
        self.clock = politeness.with_address(view, hosts.clock_of(row))

    def steps(self) -> Iterator[Decided]:
        """What this turn decides."""
        if self.row.errands_wanted:
            yield from self._errand_of_another()
            return
        for refused in range(REFUSED_MAX):
            best = self._best()
            if best is None and refused:
                return
            if best is None:
                yield self._park(Reason.PAUSED if self._any_paused() else Reason.DUE, 0)
                return
            decided, again = self._toward(*best)
            yield decided
            if not again:
                return

    def _any_paused(self) -> bool:
        return any(
            policy.paused_by(policy.standing(self.view, origin.origin_key))
            for origin in self._origins().values()
        )

    def _origins(self) -> dict[bytes, OriginRow]:
        found = {o: self.view.origins.get(o) for o in hosts.origins_of(self.host, self.row)}
        return {o: row for o, row in found.items() if row is not None}

    def _best(self) -> tuple[OriginRow, UrlRow, bytes] | None:
        """The best URL that is due now among the host's origins: lowest class, then longest due."""
        best: tuple[tuple[int, int], OriginRow, bytes] | None = None
        for origin, row in self._origins().items():
            if hosts.held_until_ms(row, self.ctx.now_ms) > self.ctx.now_ms:
                continue
            if policy.paused_by(policy.standing(self.view, row.origin_key)):
                continue
            for priority in range(len(row.due) // 4):
                found = self._due(origin, row, priority)
                if found is not None and (best is None or found[0] < best[0]):
                    best = (found[0], row, found[1])
                if found is not None:
                    break
        if best is None:
            return None
        url = self.view.urls.get(best[2])
        assert url is not None
        return best[1], url, best[2]

    def _due(self, origin: bytes, row: OriginRow, priority: int) -> tuple[tuple[int, int], bytes] | None:
        if row.due[4 * priority : 4 * priority + 4] == b"\0\0\0\0":
            return None
        prefix = origin + bytes((priority,))
        found = self.view.due.first(prefix, keys.after(prefix))
        if found is None:
            return None
        _, due_ms, url = keys.due_parts(found[0])
        return ((priority, due_ms), url) if due_ms <= self.ctx.now_ms else None

    def _toward(self, origin: OriginRow, url: UrlRow, key: bytes) -> tuple[Decided, bool]:
        """The next step toward fetching `url`, and whether the turn goes on with another URL."""
        view, now = self.view, self.ctx.now_ms
        at = policy.standing(view, origin.origin_key)
        verdict = policy.before_robots(view, at, url.url, url.depth, sitemap=sitemap_files.is_file(url))
        if verdict.allowed:
            verdict = policy.over_budget(view, at, url) or verdict
        if not verdict.allowed:
            return self._refuse(origin, url, verdict), True
        if not (self.clock.address and self.clock.address_expires_ms > now):
            return self._without_address(origin, url, at.version)
        if self._robots_wanted(origin):
            return self._lease_errand(
                FetchKind.ROBOTS, origin.origin_key, robots_url(origin.origin_key), self.ctx.partition, ()
            )
        rules = self.settings.politeness
        if self.row.crawl_delay_ms > rules.crawl_delay_ms_max and not self.row.operator_gap_ms:
            # Behind the look at robots.txt, so that the day of rest ends when the file says something else.
            return self._park(Reason.CRAWL_DELAY_TOO_LONG, now + rules.host_pause_ms), False
        verdict = policy.robots_verdict(view, at, url.requested or url.url, self.settings.identity.token)
        if not verdict.allowed:
            return self._refuse(origin, url, verdict), True
        if politeness.address_busy(self.clock, now):
            return self._queue(), False
        return self._claim(origin, url, key, verdict.version), False

    def _robots_wanted(self, origin: OriginRow) -> bool:
        """Never fetched, or out of date. (An origin whose file is on its way is held, see `hosts.held_until_ms`.)"""
        return origin.robots_state is RobotsState.UNKNOWN or origin.robots_expires_ms <= self.ctx.now_ms

    def _refuse(self, origin: OriginRow, url: UrlRow, no: policy.Verdict) -> Decided:
        event = urls.build(
            self.ctx, url, origin.origin_key, State.BLOCKED, no.reason, detail=no.detail, policy_version=no.version,
            merged=no.merge,
        )  # fmt: skip
        out = (
            outputs.removed(self.view, self.ctx, origin.origin_key, url, no.reason, no.detail, no.version)
            if outputs.may_be_out(url, url.fence)
            else []
        )
        limit = self.settings.canonical.signal_urls
        signals = merges.raised(self.view, self.ctx, limit, origin.origin_key, no.merge)
        return Decided(
            decisions=[event, *signals], outputs=out, emissions=merges.target(self.ctx, url, no.merge)
        )

    def _without_address(self, origin: OriginRow, url: UrlRow, version: int) -> tuple[Decided, bool]:
        """Look the address up, or, where the last look-up is still believed, act on it."""
        clock = self.clock
        if clock.address_expires_ms > self.ctx.now_ms and clock.address_reason is Reason.BLOCKED_NETWORK:
            detail = "an address of the host is not public unicast"
            refused = policy.Verdict(False, Reason.BLOCKED_NETWORK, detail, version)
            return self._refuse(origin, url, refused), True
        given_up = clock.resolve_failures >= self.settings.politeness.resolve_failures_max
        if (
            clock.address_expires_ms > self.ctx.now_ms
            and clock.address_reason is Reason.DNS_FAILED
            and given_up
        ):
            claimed = self._leased(origin, url, version, clock=None)
            failed = urls.build(
                self.ctx, replace(url, state=State.LEASED, fence=url.fence + 1), origin.origin_key, State.FAILED,
                Reason.DNS_FAILED, detail=f"{clock.resolve_failures} look-ups failed", policy_version=version,
                attempts=url.attempts + 1,
            )  # fmt: skip
            return Decided(decisions=[*claimed, failed]), True
        return self._lease_errand(
            FetchKind.RESOLVE, origin.origin_key, origin.origin_key, self.ctx.partition, ()
        )

    def _leased(
        self, origin: OriginRow, url: UrlRow, version: int, clock: HostClock | None
    ) -> list[Transition]:
        """The moves that lease a URL that waits, whatever it waited as."""
        out: list[Transition] = []
        if url.state is not State.ELIGIBLE:
            reason = Reason.DUE if url.state is State.DEFERRED else Reason.RECRAWL_DUE
            out.append(urls.build(self.ctx, url, origin.origin_key, State.ELIGIBLE, reason))
            url = replace(url, state=State.ELIGIBLE)
        out.append(
            urls.build(
                self.ctx, url, origin.origin_key, State.LEASED, Reason.CLAIMED, policy_version=version,
                fence=url.fence + 1, lease_owner=self.ctx.owner,
                deadline_ms=self.ctx.now_ms + self.settings.attempts.lease_ms,
                clock=clock,
            )
        )  # fmt: skip
        return out

    def _claim(self, origin: OriginRow, url: UrlRow, key: bytes, version: int) -> Decided:
        clock = politeness.claimed(self.clock, self.settings.politeness, self.ctx.now_ms)
        moves = self._leased(origin, url, version, clock)
        known = self.view.sitemaps.get(key) if sitemap_files.is_file(url) else None
        lease = Lease(
            kind=FetchKind.PAGE, partition=self.ctx.partition, origin_key=origin.origin_key, host=self.row.host, url=url.url,
            requested=url.requested or url.url, address=clock.address, fence=url.fence + 1, owner_token=self.ctx.owner_token,
            deadline_ms=moves[-1].deadline_ms, policy_version=version, depth=url.depth, etag=url.etag,
            last_modified=url.last_modified, earlier_ms=url.last_success_ms, chain=url.chain,
            asker=self.ctx.partition, token=self.settings.identity.token, sitemap=known is not None,
            via=known.via if known is not None else (),
        )  # fmt: skip
        return Decided(decisions=list(moves), leases=[lease])

    def _lease_errand(
        self, kind: FetchKind, origin_key: str, url: str, asker: int, chain: tuple[str, ...]
    ) -> tuple[Decided, bool]:
        """Lease an errand on the host's slot, or queue behind the address's other hosts."""
        now, connects = self.ctx.now_ms, kind is not FetchKind.RESOLVE
        if connects and politeness.address_busy(self.clock, now):
            return self._queue(), False
        fence, deadline = self.clock.fence + 1, now + self.settings.attempts.lease_ms
        errand = Errand(
            kind=kind,
            url=url,
            origin_key=origin_key,
            asker=asker,
            chain=chain,
            fence=fence,
            deadline_ms=deadline,
            owner=self.ctx.owner,
        )
        base = (
            politeness.claimed(self.clock, self.settings.politeness, now)
            if connects
            else replace(self.clock, in_flight=1, parked=False)
        )
        clock = replace(base, fence=fence, errand=errand)
        event = politeness.move(
            self.ctx, self.row, HostEvent.ERRAND_LEASED, Reason.CLAIMED, clock, errand=errand
        )
        lease = Lease(
            kind=kind, partition=self.ctx.partition, origin_key=origin_key, host=self.row.host, url=url, requested=url,
            address=clock.address if connects else "", fence=fence, owner_token=self.ctx.owner_token, deadline_ms=deadline,
            chain=chain, asker=asker, token=self.settings.identity.token,
        )  # fmt: skip
        return Decided(decisions=[event], leases=[lease]), False

    def _errand_of_another(self) -> Iterator[Decided]:
        """A robots hop that an origin wants of this host; it passes the operator's gates and needs an address first,
        as everything does."""
        found = self.view.errands.first(self.host, keys.after(self.host))
        assert found is not None
        wanted = errands.unpack(found[1])
        assert wanted is not None
        now, clock = self.ctx.now_ms, self.clock
        origin_key = split_origin(wanted.url)[0]
        at = policy.standing(self.view, origin_key)
        refused = Reason.OPERATOR_BLOCK if policy.blocked_by(self.view, at) else None
        refused = Reason.PAUSED if refused is None and policy.paused_by(at) else refused
        believed = clock.address_expires_ms > now
        if refused is None and believed and not clock.address and clock.address_reason is not Reason.OK:
            refused = clock.address_reason
        if refused is not None:
            yield from robots_policy.refuse_hop(self.view, self.ctx, self.row, clock, wanted, refused)
        elif clock.address and believed:
            yield self._lease_errand(
                FetchKind.ROBOTS, wanted.origin_key, wanted.url, wanted.asker, wanted.chain
            )[0]
        else:
            yield self._lease_errand(FetchKind.RESOLVE, origin_key, origin_key, self.ctx.partition, ())[0]

    def _queue(self) -> Decided:
        clock = politeness.queued(self.clock, self.settings.politeness, self.ctx.now_ms)
        return Decided(
            decisions=[
                politeness.move(
                    self.ctx, self.row, HostEvent.PARKED, Reason.DUE, clock, detail="its address is busy"
                )
            ]
        )

    def _park(self, reason: Reason, until_ms: int) -> Decided:
        """Nothing of the host can be claimed now: look again later, at once when something changes."""
        later = self.ctx.now_ms + (PARK_PAUSED_MS if reason is Reason.PAUSED else PARK_MS)
        put_off = max(self.clock.next_eligible_ms, until_ms or later)
        parked = reason in (Reason.PAUSED, Reason.CRAWL_DELAY_TOO_LONG)
        clock = replace(self.clock, next_eligible_ms=put_off, parked=parked)
        return Decided(decisions=[politeness.move(self.ctx, self.row, HostEvent.PARKED, reason, clock)])


def robots_url(origin_key: str) -> str:
    """Where an origin's robots.txt is, with the default port left out (RFC 9309 §2.3)."""
    scheme, host, port = keys.split_origin_key(origin_key)
    default = 443 if scheme == "https" else 80
    return f"{scheme}://{host}/robots.txt" if port == default else f"{scheme}://{host}:{port}/robots.txt"
