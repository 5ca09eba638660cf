"""Checks of URLs: the moves, the fences, the ends of leases (DESIGN §5, §6; seed 000, chapters 2 and 5).

A second implementation: it reads the table of `rules.py` and events, and imports no machine.
"""

from frontlog.avro.enums import HostEvent, State, Topic
from frontlog.avro.events import FetchResult, HostTransition, LeaseExtension, OwnershipTaken, Transition
from frontlog.replay.book import ENDS, Lease
from frontlog.replay.ledger import Decision, Taken
from frontlog.replay.rules import TRANSITIONS
from frontlog.replay.watch import Scene, Watch


class Transitions(Watch):
    """The state machine."""

    name = "transitions"
    doc = (
        "each URL moves from the state it is in, along a pair of the table, for a reason that the pair lists"
    )

    def moved(self, decision: Decision, event: Transition) -> None:
        self.examined += 1
        url = self.book.urls.get(event.url)
        # A URL becomes known as DISCOVERED, or unknown as it is when it is kept out for good.
        unknown = State.NONE if event.from_state is State.NONE else State.DISCOVERED
        state = url.state if url is not None else unknown
        move = f"{event.from_state} -> {event.to_state}"
        if event.from_state is not state:
            self.fault(decision, f"{move} of {event.url}, which is {state}")
        if event.reason not in TRANSITIONS.get((event.from_state, event.to_state), ()):
            self.fault(decision, f"{move} for {event.reason} is no move of the table ({event.url})")
        if url is None and event.first is None:
            self.fault(decision, f"{event.url} became known without a word on where it was found")


class Fences(Watch):
    """Fences and the results that must carry them."""

    name = "fences"
    doc = "fences grow by one with each claim and never else; a lease ends by a result that carries its fence"

    def moved(self, decision: Decision, event: Transition) -> None:
        self.examined += 1
        url = self.book.urls.get(event.url)
        before = 0 if url is None else url.fence
        claimed = event.from_state is State.ELIGIBLE and event.to_state is State.LEASED
        if event.fence != before + claimed:
            self.fault(
                decision, f"fence {before} -> {event.fence} with {event.from_state} -> {event.to_state}"
            )
        cause = self.scene.inputs.get((event.cause_topic, event.cause_offset))
        if cause is None or event.cause_topic != Topic.FETCH_RESULTS.value:
            return
        result = cause.event
        if not isinstance(result, FetchResult | LeaseExtension):
            return
        into = event.merged.into if event.merged is not None and event.from_state is State.FETCHED else ""
        if into == result.url:
            return  # a page that names the one that came now as canonical: `identities` looks at their texts
        if event.from_state is not State.LEASED:
            self.fault(decision, f"a result moved {event.url}, which had no lease")
        if result.url != event.url or result.fence != before:
            what = f"a result of {result.url} with fence {result.fence} moved {event.url} with fence {before}"
            self.fault(decision, what)

    def host_moved(self, decision: Decision, event: HostTransition) -> None:
        self.examined += 1
        host = self.book.hosts.get(event.host)
        before = 0 if host is None else host.fence
        leased = event.event is HostEvent.ERRAND_LEASED
        if event.clock.fence != before + leased:
            self.fault(decision, f"fence of {event.host} {before} -> {event.clock.fence} with {event.event}")
        cause = self.scene.inputs.get((event.cause_topic, event.cause_offset))
        if cause is None or not isinstance(cause.event, FetchResult) or event.event not in ENDS:
            return
        errand = None if host is None else host.errand()
        if errand is None or cause.event.fence != errand.fence or cause.event.kind is not errand.kind:
            self.fault(
                decision, f"a result with fence {cause.event.fence} ended another errand of {event.host}"
            )


class Leases(Watch):
    """What ends a lease that no result ended."""

    name = "leases"
    doc = "a lease ends by its result, at its deadline, or when a new owner releases what a dead one held"

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._new_owner = False

    def opened(self, batch: Taken) -> None:
        self._new_owner = False

    def taken(self, decision: Decision, event: OwnershipTaken) -> None:
        self._new_owner = True

    def moved(self, decision: Decision, event: Transition) -> None:
        if event.from_state is not State.LEASED:
            return
        self.examined += 1
        url = self.book.urls.get(event.url)
        lease = url.host.lease_of(event.url) if url is not None else None
        if event.to_state is State.LEASED:
            longer = url is not None and event.deadline_ms > url.deadline_ms
            if not longer:
                self.fault(decision, f"an extension to {event.deadline_ms} that is none ({event.url})")
        elif event.cause_topic != Topic.FETCH_RESULTS.value:
            self._gone(decision, event.url, event.cause_topic, lease)

    def host_moved(self, decision: Decision, event: HostTransition) -> None:
        host = self.book.hosts.get(event.host)
        errand = host.errand() if host is not None else None
        if errand is None or event.event not in ENDS or event.cause_topic == Topic.FETCH_RESULTS.value:
            return
        self.examined += 1
        self._gone(decision, f"errand of {event.host}", event.cause_topic, errand)

    def _gone(self, decision: Decision, subject: str, cause: str, lease: Lease | None) -> None:
        if cause == "timer":
            deadline_ms = 0 if lease is None else lease.deadline_ms
            if deadline_ms > self.scene.at_ms:
                self.fault(
                    decision,
                    f"the lease ran out {deadline_ms - self.scene.at_ms} ms before its end ({subject})",
                )
        elif cause == "start":
            if not self._new_owner:
                self.fault(decision, f"a lease was released, but nobody took the partition over ({subject})")
        elif cause != "claim" or lease is not None:  # a claim may give up a URL whose host has no address
            self.fault(decision, f"a lease ended because of {cause} ({subject})")


CHECKS: tuple[type[Watch], ...] = (Transitions, Fences, Leases)
