"""Checks of politeness: the gap between requests to a host, one at a time, one budget an address (DESIGN §6).

A second implementation, from the table of DESIGN §6: what each request, as its fetch-result tells of it, means for the
next one. It imports no machine.

Not verified: that the fetchers' clocks are right, and requests of leases that had run out (their results are refused and
move no clock; they are over before the lease is). A request that was never answered, since its process was killed, is
known from its claim alone.
"""

import time
from calendar import timegm
from dataclasses import dataclass, replace

from frontlog.avro.enums import FetchKind, HostEvent, PolicyAct, Reason, RobotsState, ScopeKind, State, Topic
from frontlog.avro.events import (
    FetchResult,
    HostClock,
    HostTransition,
    OperatorPolicy,
    RobotsPolicy,
    Transition,
)
from frontlog.replay.book import ENDS, Host, Lease
from frontlog.replay.ledger import Decision
from frontlog.replay.routing import host_of
from frontlog.replay.rules import HOST_FAILURES, NEVER_ASKED, SLOW_DOWN, SOCKETS, Rules
from frontlog.replay.watch import Scene, Watch

_DATES = ("%a, %d %b %Y %H:%M:%S GMT", "%A, %d-%b-%y %H:%M:%S GMT", "%a %b %d %H:%M:%S %Y")


class Visit(Watch):
    """What claims and results have in common: a slot is taken, a request ended, nobody knows how it ended."""

    def moved(self, decision: Decision, event: Transition) -> None:
        if event.from_state is State.ELIGIBLE and event.to_state is State.LEASED and event.clock is not None:
            host = self.book.host(host_of(event.origin_key))
            self.claimed(decision, host, FetchKind.PAGE, event.clock)
        elif event.from_state is State.LEASED and event.to_state is not State.LEASED:
            url = self.book.urls.get(event.url)
            lease = url.host.lease_of(event.url) if url is not None else None
            if url is not None and lease is not None:
                self._over(decision, url.host, lease, event.cause_topic, event.cause_offset)

    def host_moved(self, decision: Decision, event: HostTransition) -> None:
        host = self.book.host(event.host)
        if event.event is HostEvent.ERRAND_LEASED and event.clock.errand is not None:
            self.claimed(decision, host, event.clock.errand.kind, event.clock)
        elif event.event in ENDS:
            lease = host.errand()
            if lease is not None:
                self._over(decision, host, lease, event.cause_topic, event.cause_offset)

    def _over(self, decision: Decision, host: Host, lease: Lease, topic: str, offset: int) -> None:
        if lease.kind not in SOCKETS:
            return
        cause = self.scene.inputs.get((topic, offset)) if topic == Topic.FETCH_RESULTS.value else None
        result = cause.event if cause is not None else None
        if not isinstance(result, FetchResult):
            self.lapsed(host, lease)
        elif result.fence == lease.fence and result.address and result.reason not in NEVER_ASKED:
            self.asked(decision, host, lease, result, self._end_ms(result))

    def _end_ms(self, result: FetchResult) -> int:
        """When a request ended; an end that lies in the future of the owner's clock is not believed."""
        return min(max(result.ended_ms, result.started_ms + result.total_ms), self.scene.at_ms)

    def claimed(self, decision: Decision, host: Host, kind: FetchKind, clock: HostClock) -> None:
        """A slot of the host was given."""

    def asked(self, decision: Decision, host: Host, lease: Lease, result: FetchResult, end_ms: int) -> None:
        """A request was sent under a lease, and ended."""

    def lapsed(self, host: Host, lease: Lease) -> None:
        """A lease that may have sent a request ended, and nobody knows when the request did."""


@dataclass(slots=True)
class _Pace:
    """What the requests so far mean for the next one: it does not start before `not_before_ms`."""

    not_before_ms: int = 0
    why: str = ""
    end_ms: int = 0
    gap_ms: int = 0
    response_ms: int = 0
    backoff_ms: int = 0
    failures: int = 0

    def wait(self, until_ms: int, why: str) -> None:
        if until_ms > self.not_before_ms:
            self.not_before_ms, self.why = until_ms, why


def backoff_of(rules: Rules, before_ms: int, gap: int) -> int:
    """The back-off after another 429, 503 or failure of a host: doubled, and never less than the least."""
    return min(max(2 * max(before_ms, gap), rules.backoff_ms_min), rules.backoff_ms_max)


def rest_ms(rules: Rules, response_ms: int) -> int:
    """The rest of a machine after a request: the smallest gap, or a multiple of the time that it took."""
    return max(rules.gap_ms_min, min(int(rules.gap_factor * response_ms), rules.backoff_ms_max))


def response_of(result: FetchResult, before_ms: int) -> int:
    """The response time after a request: its own from the request to the last byte, or the one before if it failed."""
    return before_ms if result.reason in HOST_FAILURES else result.total_ms


def gap_of(rules: Rules, crawl_delay_ms: int, host: Host, response_ms: int) -> int:
    """The rest of a host after a request: its machine's, a Crawl-delay, an operator's gap."""
    return max(
        rest_ms(rules, response_ms), min(crawl_delay_ms, rules.crawl_delay_ms_max), host.operator_gap_ms
    )


def asked_wait_ms(value: str, at_ms: int, max_ms: int) -> int:
    """The wait of a Retry-After (RFC 9110 §10.2.3), ms, at most `max_ms`; 0: it asks for none, or can't be read."""
    text = value.strip()
    whole, _, fraction = text.partition(".")
    if text.isascii() and whole.isdigit() and (fraction.isdigit() or not fraction):
        return min(int(whole) * 1_000 + int(f"{fraction}000"[:3]), max_ms)
    for form in _DATES:
        try:
            until_ms = timegm(time.strptime(text, form)) * 1_000
        except ValueError:
            continue
        return min(max(until_ms - at_ms, 0), max_ms)
    return 0


class Gaps(Visit):
    """The clock of a host."""

    name = "gaps"
    doc = "no request to a host starts before the rest after the one before it: gap, Crawl-delay, Retry-After, back-off"

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._paces: dict[str, _Pace] = {}
        self._answer: tuple[int, Host, _Pace, FetchResult, int] | None = None
        """The robots.txt answered last (its offset), and the pace before it: what it says counts for its own end."""

    def _pace(self, host: Host) -> _Pace:
        found = self._paces.get(host.name)
        if found is None:
            found = self._paces[host.name] = _Pace()
        return found

    def _delay(self, host: Host) -> int:
        return host.crawl_delay_ms(self.scene.at_ms)

    def claimed(self, decision: Decision, host: Host, kind: FetchKind, clock: HostClock) -> None:
        if kind not in SOCKETS:
            return
        self.examined += 1
        pace, rules = self._pace(host), self.book.rules
        early_ms = pace.not_before_ms - self.scene.at_ms
        if early_ms > 0:
            self.fault(decision, f"{host.name} was claimed {early_ms} ms too early ({pace.why})")
        endless = self._delay(host) > rules.crawl_delay_ms_max and not host.operator_gap_ms
        if endless and kind is FetchKind.PAGE:
            what = (
                f"{host.name} was claimed, whose Crawl-delay of {self._delay(host)} ms waits for an operator"
            )
            self.fault(decision, what)

    def asked(self, decision: Decision, host: Host, lease: Lease, result: FetchResult, end_ms: int) -> None:
        if result.started_ms < lease.claimed_ms:
            early_ms = lease.claimed_ms - result.started_ms
            self.fault(
                decision, f"the request of {result.requested} started {early_ms} ms before it was claimed"
            )
        pace = self._pace(host)
        offset = int(getattr(decision.event, "cause_offset", -1))
        self._answer = (
            (offset, host, replace(pace), result, end_ms) if lease.kind is FetchKind.ROBOTS else None
        )
        self._ended(pace, result, end_ms, host, self._delay(host))

    def _ended(self, pace: _Pace, result: FetchResult, end_ms: int, host: Host, crawl_delay_ms: int) -> None:
        """What a request means for the next one."""
        rules = self.book.rules
        response_ms = response_of(result, pace.response_ms)
        gap = gap_of(rules, crawl_delay_ms, host, response_ms)
        wait, why = gap, f"a gap of {gap} ms"
        if result.status in SLOW_DOWN:
            pace.backoff_ms = backoff_of(rules, pace.backoff_ms, gap)
            asked = asked_wait_ms(result.retry_after, end_ms, rules.retry_after_ms_max)
            wait = max(asked or pace.backoff_ms, gap)
            why = f"{wait} ms after {result.status}, Retry-After {result.retry_after or 'none'}"
        elif result.reason in HOST_FAILURES:
            pace.backoff_ms = backoff_of(rules, pace.backoff_ms, gap)
            pace.failures += 1
            wait = max(pace.backoff_ms, gap)
            if pace.failures >= rules.host_failures_max:
                wait, pace.failures = max(rules.host_pause_ms, gap), 0
            why = f"{wait} ms after failing by {result.reason}"
        else:
            pace.backoff_ms = pace.failures = 0
        pace.end_ms, pace.gap_ms, pace.response_ms = end_ms, gap, response_ms
        pace.wait(end_ms + wait, why)

    def lapsed(self, host: Host, lease: Lease) -> None:
        pace = self._pace(host)
        gap = max(gap_of(self.book.rules, self._delay(host), host, pace.response_ms), pace.gap_ms)
        pace.wait(self.scene.at_ms + gap, f"a gap of {gap} ms after a lease without a result")

    def robots(self, decision: Decision, event: RobotsPolicy) -> None:
        """A Crawl-delay counts from the last request on, that of robots.txt itself included, be it longer or shorter."""
        host = self.book.host(host_of(event.origin_key))
        pace, rules = self._pace(host), self.book.rules
        own = self.book.origin(event.origin_key).crawl_delay_ms
        said = own if event.state is RobotsState.UNREACHABLE else event.crawl_delay_ms
        delay = host.crawl_delay_ms(self.scene.at_ms, (event.origin_key, said))
        answer, self._answer = self._answer, None
        if answer is not None and answer[1] is host and answer[0] == event.cause_offset:
            _, _, before, result, end_ms = answer
            pace = self._paces[host.name] = before
            self._ended(pace, result, end_ms, host, delay)
        elif delay > self._delay(host) and pace.end_ms:
            delay = min(delay, rules.crawl_delay_ms_max)
            pace.wait(pace.end_ms + delay, f"a Crawl-delay of {delay} ms")

    def operator(self, decision: Decision, event: OperatorPolicy) -> None:
        """An operator's gap counts from now."""
        if event.act is PolicyAct.SLOW and event.scope_kind is ScopeKind.HOST and event.gap_ms:
            pace = self._pace(self.book.host(event.scope))
            pace.wait(self.scene.at_ms + event.gap_ms, f"slowed to {event.gap_ms} ms")


class Slots(Visit):
    """One at a time."""

    name = "slots"
    doc = "a host has one lease at a time, look-ups and robots.txt included"

    def claimed(self, decision: Decision, host: Host, kind: FetchKind, clock: HostClock) -> None:
        self.examined += 1
        if host.leases:
            open_one = host.leases[-1]
            self.fault(
                decision, f"{host.name} was claimed while it had a lease ({open_one.kind} {open_one.url})"
            )


class Addresses(Visit):
    """The machine behind an address."""

    name = "addresses"
    doc = "claims go to the address last looked up; hosts of one address in a partition share its slot and its rest"

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._free_ms: dict[str, int] = {}
        self._responses: dict[str, int] = {}

    def claimed(self, decision: Decision, host: Host, kind: FetchKind, clock: HostClock) -> None:
        if kind not in SOCKETS:
            return
        self.examined += 1
        address, now_ms = clock.address, self.scene.at_ms
        if not address or address != host.address or host.address_expires_ms <= now_ms:
            what = (
                f"{host.name} was claimed at {address or 'no address'}; looked up: {host.address or 'none'}"
            )
            self.fault(decision, f"{what}, good until {host.address_expires_ms}")
        others = self.book.addresses.get(address, set[str]()) - {host.name}
        if others:
            self.fault(decision, f"{host.name} was claimed while {min(others)} had a lease to {address}")
        early_ms = self._free_ms.get(address, 0) - now_ms
        if early_ms > 0:
            self.fault(
                decision, f"{host.name} was claimed {early_ms} ms before the rest of {address} was over"
            )

    def host_moved(self, decision: Decision, event: HostTransition) -> None:
        host, clock = self.book.host(event.host), event.clock
        errand = host.errand()
        looked_up = event.event in ENDS and errand is not None and errand.kind is FetchKind.RESOLVE
        if clock.address != host.address:
            cause = self.scene.inputs.get((event.cause_topic, event.cause_offset))
            result = cause.event if cause is not None else None
            found = result.address if isinstance(result, FetchResult) and result.reason is Reason.OK else ""
            if not looked_up or clock.address not in ("", found):
                self.fault(
                    decision,
                    f"the address of {event.host} became {clock.address} without a look-up that says so",
                )
        super().host_moved(decision, event)

    def moved(self, decision: Decision, event: Transition) -> None:
        if event.clock is not None:
            host = self.book.host(host_of(event.origin_key))
            if event.clock.address != host.address:
                self.fault(
                    decision, f"the address of {host.name} became {event.clock.address} without a look-up"
                )
        super().moved(decision, event)

    def asked(self, decision: Decision, host: Host, lease: Lease, result: FetchResult, end_ms: int) -> None:
        if result.address != lease.address:
            self.fault(
                decision, f"{result.requested} was asked of {result.address}, claimed for {lease.address}"
            )
        response_ms = response_of(result, self._responses.get(host.name, 0))
        self._responses[host.name] = response_ms
        self._rest(result.address, end_ms + rest_ms(self.book.rules, response_ms))

    def lapsed(self, host: Host, lease: Lease) -> None:
        rest = rest_ms(self.book.rules, self._responses.get(host.name, 0))
        self._rest(lease.address, self.scene.at_ms + rest)

    def _rest(self, address: str, until_ms: int) -> None:
        self._free_ms[address] = max(self._free_ms.get(address, 0), until_ms)


CHECKS: tuple[type[Watch], ...] = (Gaps, Slots, Addresses)
