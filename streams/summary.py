"""What a run tells of itself: `Progress` while it goes on, `Summary` when it ends.

Counts of URLs are of the whole crawl, whenever they were fetched; what ends in `_run` is of this run
alone. Times are milliseconds since the epoch, sizes are bytes on disk or on the wire.
"""

from enum import StrEnum

import msgspec

from frontlog.avro.enums import Reason, State


class Phase(StrEnum):
    """What a run is doing."""

    STARTING = "starting"
    FOLDING = "folding"
    """the log's tail is being folded, as after a crash"""
    CRAWLING = "crawling"
    FINISHING = "finishing"
    """asked to stop: nothing more is claimed, what is in flight is waited for"""
    STORE_FULL = "store_full"
    """no room: nothing is fetched until there is"""


class End(StrEnum):
    """Why a run ended; each member's `doc` is the sentence that a person reads."""

    doc: str

    def __new__(cls, value: str, doc: str) -> "End":
        """Build a member from its name and its sentence."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.doc = doc
        return member

    DONE = "done", "nothing is left to fetch"
    PATIENCE = "patience", "what is left must wait for longer than crawl.patience_ms"
    PAGES_MAX = "pages_max", "the crawl has as many pages as crawl.pages_max allows"
    PAUSED = "paused", "all that is left is paused by an operator"
    STOPPED = "stopped", "stopped on request; what was in flight was finished"
    STOPPED_NOW = "stopped_now", "stopped at once; what was in flight is fetched again next time"


class StateCount(msgspec.Struct, frozen=True):
    """URLs in one state for one reason: the reason of the transition that brought them there."""

    state: State
    reason: Reason
    urls: int


class WaitingHost(msgspec.Struct, frozen=True):
    """A host with something to fetch that may not be asked before `until_ms`; 0: until an operator acts."""

    host: str
    reason: Reason
    until_ms: int = 0
    urls: int = 0
    detail: str = ""


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """How a run stands. `waiting` holds a few hosts, those with most URLs first; `waiting_hosts` counts all.

    `pages_run`: responses of pages in this run, redirects and errors included. `pages_per_s`: of the last
    ten seconds or so. `wire_bytes_run`: body bytes as received. `detail`: what a phase waits for, in words.
    """

    at_ms: int
    elapsed_ms: int = 0
    phase: Phase = Phase.CRAWLING
    counts: tuple[StateCount, ...] = ()
    pages_run: int = 0
    pages_per_s: float = 0.0
    in_flight: int = 0
    hosts: int = 0
    waiting: tuple[WaitingHost, ...] = ()
    waiting_hosts: int = 0
    wire_bytes_run: int = 0
    log_bytes: int = 0
    archive_bytes: int = 0
    rejects: int = 0
    detail: str = ""


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """How a run ended. `example_url` is a URL worth asking `explain` about: a blocked one, or else any.

    `documents` counts distinct texts, `duplicates` the URLs whose text is another's. `batches_run`: commits of
    batches; `flushes_run`: of the archive, each one fsync; `durability`: what those of the log promise.
    """

    end: End
    folder: str
    started_ms: int
    ended_ms: int
    counts: tuple[StateCount, ...] = ()
    pages_run: int = 0
    wire_bytes_run: int = 0
    hosts: int = 0
    documents: int = 0
    duplicates: int = 0
    waiting: tuple[WaitingHost, ...] = ()
    waiting_hosts: int = 0
    log_bytes: int = 0
    archive_bytes: int = 0
    archive_files: int = 0
    rejects: int = 0
    example_url: str = ""
    batches_run: int = 0
    flushes_run: int = 0
    durability: str = ""


class Finding(msgspec.Struct, frozen=True):
    """One part, how it is (`ok`, `warn` or `bad`), what was seen, and what to do."""

    part: str
    state: str
    seen: str
    do: str = ""
