"""Inputs at the door: what every machine may rely on, and the partition that an input is for (DESIGN §1, §2).

Anyone may write inputs, so their numbers and names are looked at before a machine sees them: one that doesn't fit its
place in a row would otherwise stop the batch, and every other input with it. Texts may be any; what they mean is for
the machines to judge.
"""

import re
from functools import lru_cache

from frontlog.avro.enums import FetchKind
from frontlog.avro.events import (
    BodyRef,
    Candidate,
    ContentVerdict,
    Discovery,
    ErrandRequest,
    Event,
    FetchResult,
    LeaseExtension,
    SitemapFacts,
)
from frontlog.processors import canonical
from frontlog.processors.sites import partition_of, site_of
from frontlog.state import keys

LINKS_MAX = 500
"""Links of one discovery (DESIGN §2)."""
PRIORITY_MAX, DEPTH_MAX, STATUS_MAX = 4, 65_535, 999
COUNT_MAX = (1 << 32) - 1
TIME_MS_MAX = 253_402_300_799_999
"""The end of the year 9999."""
CHAIN_MAX = 16
HASH_BYTES = 32
_ORIGIN = re.compile(
    r"https?://(?P<host>\[[0-9a-f:.]{2,45}\]|[^\s/?#@:\\\[\]]{1,253}):(?P<port>[0-9]{1,5})", re.ASCII
)


@lru_cache(maxsize=65_536)
def is_origin_key(text: str) -> bool:
    """Whether a text has the form `scheme://host:port` of an origin."""
    match = _ORIGIN.fullmatch(text)
    return match is not None and 0 < int(match["port"]) <= 65_535


def fault(event: Event, partitions: int) -> str:
    """What is wrong with an input's fields, for people ("has …"); empty: nothing that can be seen here."""
    if isinstance(event, Discovery):
        return _discovery(event)
    if isinstance(event, FetchResult):
        return _result(event, partitions)
    if isinstance(event, LeaseExtension):
        return _origin(event.origin_key) or (
            "has a deadline before the epoch" if event.deadline_ms < 0 else ""
        )
    if isinstance(event, ErrandRequest):
        return _origin(event.origin_key) or _asker(event.asker, partitions) or _chain(event.chain)
    if isinstance(event, Candidate):
        return _candidate(event)
    if isinstance(event, ContentVerdict):
        return _candidate(event.candidate)
    return ""


def _discovery(event: Discovery) -> str:
    lengths = {len(event.urls), len(event.raws), len(event.anchors), len(event.rels)}
    if len(lengths) != 1:
        return f"has columns of different lengths: {sorted(lengths)}"
    if event.lastmods and len(event.lastmods) != len(event.urls):
        return f"has {len(event.lastmods)} dates for {len(event.urls)} links"
    if event.lastmods and not 0 <= min(event.lastmods) <= max(event.lastmods) <= TIME_MS_MAX:
        return "has a date that is none"
    if len(event.urls) > LINKS_MAX:
        return f"has {len(event.urls)} links; at most {LINKS_MAX} go into one"
    if not 0 <= event.priority <= PRIORITY_MAX:
        return f"has priority {event.priority}; 0 to {PRIORITY_MAX} are allowed"
    if not 0 <= event.depth <= DEPTH_MAX:
        return f"has depth {event.depth}; 0 to {DEPTH_MAX} are allowed"
    return _origin(event.origin_key) or _chain(event.chain) or _chain(event.via)


def _result(event: FetchResult, partitions: int) -> str:
    if not 0 <= event.status <= STATUS_MAX:
        return f"has status {event.status}; 0 to {STATUS_MAX} are allowed"
    if min(event.started_ms, event.ended_ms, event.total_ms, event.fence) < 0:
        return "has a negative time or fence"
    if event.parse is not None and not 0 <= event.parse.links_out <= COUNT_MAX:
        return f"has {event.parse.links_out} links"
    if event.sitemap is not None and not _counted(event.sitemap):
        return "has a sitemap with more than can be counted"
    return (
        _origin(event.origin_key)
        or _asker(event.asker, partitions)
        or _body(event.body)
        or _chain(event.chain)
    )


def _counted(said: SitemapFacts) -> bool:
    counts = (said.urls, said.children, said.faults, said.cut)
    return min(counts) >= 0 and max(counts) <= COUNT_MAX


def _candidate(event: Candidate) -> str:
    if len(event.text_sha256) != HASH_BYTES:
        return f"has a text_sha256 of {len(event.text_sha256)} bytes; {HASH_BYTES} are a SHA-256"
    if event.partition < 0:
        return f"has partition {event.partition}"
    return _origin(event.origin_key) or _body(event.body)


def _origin(origin_key: str) -> str:
    return (
        ""
        if is_origin_key(origin_key)
        else f"has origin_key {origin_key[:300]!r}; scheme://host:port is wanted"
    )


def _asker(asker: int, partitions: int) -> str:
    return "" if 0 <= asker < partitions else f"has asker {asker}; there are {partitions} partitions, from 0"


def _body(body: BodyRef | None) -> str:
    fits = body is None or (body.offset >= 0 and 0 <= body.length <= COUNT_MAX)
    return "" if fits else "has a body reference that no archive can hold"


def _chain(chain: tuple[str, ...]) -> str:
    fits = len(chain) <= CHAIN_MAX and not any("\n" in spelling for spelling in chain)
    return "" if fits else "has a chain that is no chain of URLs"


def home(event: Event, partitions: int) -> int | None:
    """The frontier partition that an input is for; None: whichever it came to. `fault` found nothing."""
    if isinstance(event, ErrandRequest):
        found = canonical.canonicalize(event.url)
        return None if isinstance(found, canonical.Refused) else _partition(found.host, partitions)
    if isinstance(event, FetchResult) and event.kind is not FetchKind.PAGE:
        # An errand's result goes to the host that was asked, an answer that was passed on to who asked.
        return _partition(event.host, partitions) if event.fence else event.asker
    origin_key = key(event)
    return _partition(keys.split_origin_key(origin_key)[1], partitions) if origin_key else None


def _partition(host: str, partitions: int) -> int:
    return partition_of(site_of(host), partitions)


def key(event: Event) -> str:
    """The record key of an input for the frontier: its origin_key; empty: it has none."""
    if isinstance(event, ContentVerdict):
        return event.candidate.origin_key
    return event.origin_key if isinstance(event, Discovery | FetchResult | LeaseExtension) else ""
