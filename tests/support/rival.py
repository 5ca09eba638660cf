"""A second opinion on politeness and permission: what a site owner who watches the requests would say.

It knows the rules of DESIGN §6 and §7 and nothing of how the crawler keeps them. It is told of each lease and of how it
ended, and objects to a lease that should not have been given.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from msgspec.structs import replace

from frontlog.avro.enums import FetchKind, Reason, ScopeKind
from frontlog.avro.events import Control, FetchResult
from frontlog.processors.leased import Lease
from frontlog.processors.sites import site_of, split_origin

GAP_MS, FACTOR, HOUR_MS, DAY_MS = 1_000, 10, 3_600_000, 86_400_000
FAILED = frozenset({
    Reason.TIMEOUT, Reason.CONNECTION_REFUSED, Reason.CONNECTION_RESET, Reason.NO_ROUTE, Reason.TLS_FAILED,
})  # fmt: skip


@dataclass
class Rival:
    """`under_way`: leases by host; `host_next_ms`, `address_next_ms`: no request starts before."""

    under_way: dict[str, Lease] = field(default_factory=dict[str, Lease])
    host_next_ms: dict[str, int] = field(default_factory=dict[str, int])
    address_next_ms: dict[str, int] = field(default_factory=dict[str, int])
    fences: dict[tuple[FetchKind, str], int] = field(default_factory=dict[tuple[FetchKind, str], int])
    slow_ms: dict[str, int] = field(default_factory=dict[str, int])
    delay_ms: dict[str, int] = field(default_factory=dict[str, int])
    held: set[tuple[ScopeKind, str, str]] = field(default_factory=set[tuple[ScopeKind, str, str]])

    def control(self, wish: Control) -> None:
        """A wish that every partition has decided by now."""
        if wish.cmd == "slow":
            self.slow_ms[wish.target] = wish.gap_ms
        elif wish.cmd in ("pause", "block"):
            self.held.add((wish.target_kind, wish.target, wish.cmd))
        elif wish.cmd in ("resume", "unblock"):
            opposite = {"resume": "pause", "unblock": "block"}[wish.cmd]
            self.held.discard((wish.target_kind, wish.target, opposite))

    def leases(self, found: Iterable[Lease], now_ms: int) -> None:
        """New leases: object to those that break a rule."""
        for lease in found:
            self._lease(lease, now_ms)

    def _lease(self, lease: Lease, now_ms: int) -> None:
        host = lease.host
        assert host not in self.under_way, f"{host}: {self.under_way[host]} is under way"
        subject = lease.url if lease.kind is FetchKind.PAGE else host
        page = FetchKind.PAGE if lease.kind is FetchKind.PAGE else FetchKind.ROBOTS
        assert lease.fence > self.fences.get((page, subject), 0), f"{subject}: a fence that was given out"
        self.fences[page, subject] = lease.fence
        self.under_way[host] = lease
        self._permission(lease)
        if lease.kind is FetchKind.RESOLVE:
            return
        wait_ms = self.host_next_ms.get(host, 0) - now_ms
        assert wait_ms <= 0, f"{lease.requested} is asked {wait_ms} ms too early"
        wait_ms = self.address_next_ms.get(lease.address, 0) - now_ms
        assert wait_ms <= 0, f"{lease.requested} at {lease.address} is asked {wait_ms} ms too early"
        others = [o.host for o in self.under_way.values() if o is not lease and o.address == lease.address]
        assert not others, f"{host} and {others} share {lease.address}"

    def _permission(self, lease: Lease) -> None:
        names = {
            (ScopeKind.CRAWL, ""), (ScopeKind.HOST, lease.host), (ScopeKind.SITE, site_of(lease.host)),
            (ScopeKind.PARTITION, str(lease.partition)), (ScopeKind.ORIGIN, split_origin(f"{lease.requested}/")[0]),
        }  # fmt: skip
        against = [(kind, name, cmd) for kind, name, cmd in self.held if (kind, name) in names]
        assert not against, f"{lease.requested} is asked in spite of {against}"

    def rest_ms(self, host: str, response_ms: int) -> int:
        """The rest of a host after a request, ms."""
        return max(GAP_MS, FACTOR * response_ms, self.slow_ms.get(host, 0), self.delay_ms.get(host, 0))

    def ended(self, lease: Lease, result: FetchResult, *, retry_after_ms: int = 0) -> None:
        """A lease ended with a result that counts."""
        del self.under_way[lease.host]
        if (
            lease.kind is FetchKind.RESOLVE
            or not result.address
            or result.reason in (Reason.RELEASED, Reason.ADDRESS_CHANGED)
        ):
            return
        end_ms = result.ended_ms
        # What failed brought no last byte, so there is no response time to multiply (DESIGN §6).
        response_ms = 0 if result.reason in FAILED else result.total_ms
        rest_ms = max(self.rest_ms(lease.host, min(response_ms, HOUR_MS // FACTOR)), retry_after_ms)
        self._not_before(lease, end_ms + rest_ms, end_ms + max(GAP_MS, FACTOR * response_ms))

    def lost(self, now_ms: int) -> None:
        """The process is gone: nobody knows when its requests ended."""
        for lease in self.under_way.values():
            if lease.kind is not FetchKind.RESOLVE:
                self._not_before(lease, now_ms + self.rest_ms(lease.host, 0), now_ms + GAP_MS)
        self.under_way.clear()

    def expired(self, now_ms: int) -> list[Lease]:
        """Leases whose deadline is over are given back; which those are."""
        gone = [lease for lease in self.under_way.values() if lease.deadline_ms <= now_ms]
        for lease in gone:
            if lease.kind is not FetchKind.RESOLVE:
                self._not_before(lease, now_ms + self.rest_ms(lease.host, 0), now_ms + GAP_MS)
            del self.under_way[lease.host]
        return gone

    def extended(self, lease: Lease, deadline_ms: int) -> None:
        """A lease got more time."""
        self.under_way[lease.host] = replace(lease, deadline_ms=deadline_ms)

    def _not_before(self, lease: Lease, host_ms: int, address_ms: int) -> None:
        self.host_next_ms[lease.host] = max(self.host_next_ms.get(lease.host, 0), host_ms)
        self.address_next_ms[lease.address] = max(self.address_next_ms.get(lease.address, 0), address_ms)
