"""What an invariant of commits looks at, and how it is listed. See `invariants.py`."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from frontlog.avro.enums import State
from frontlog.avro.events import Event, Transition
from frontlog.processors.settings import Settings
from simulation.ledger import Commit, Ledger, UrlNote
from simulation.servers import Servers
from simulation.web import Web


class Moment(NamedTuple):
    """What an invariant may look at. `replaced`: the process that committed had been replaced by then; `before`: the
    states of URLs that the commit gives something out about, as they were."""

    ledger: Ledger
    servers: Servers
    web: Web
    settings: Settings
    commit: Commit
    replaced: bool
    durable: Callable[[str], int]
    before: Mapping[str, State]


Check = Callable[[Moment, Event], str | None]


class Invariant(NamedTuple):
    """`number`: of seed 000, chapter 16; 0: of our own."""

    name: str
    number: int
    check: Check


def note_of(at: Moment, event: Transition) -> UrlNote:
    """The URL of a transition as it stood before."""
    return at.ledger.urls.get(event.url) or UrlNote(event.origin_key, event.depth)


def listing(into: list[Invariant]) -> Callable[[int], Callable[[Check], Check]]:
    """A decorator that lists a check of events under its name and number."""

    def invariant(number: int) -> Callable[[Check], Check]:
        def note(check: Check) -> Check:
            into.append(Invariant(check.__name__, number, check))
            return check

        return note

    return invariant
