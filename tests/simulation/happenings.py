"""What really happened in runs, counted: a fault that is planned and never strikes proves nothing.

`EXPECTED` is what a set of seeds must show; `tests/simulation/test_seeds.py` demands it of those that CI runs.
"""

from collections import Counter

from frontlog.avro.enums import FetchKind
from simulation.answers import retry_after_forms
from simulation.disk import ARCHIVE_WRITES, CUT, STORE_WRITES
from simulation.maker import LIES
from simulation.servers import Served, Servers
from simulation.web import TRAP, Kind, Trouble, origin_of, split_origin

SLOW_MS = 1_000
EXPECTED = (
    "crash", *(f"crash_write: {where}" for where in (*STORE_WRITES, *ARCHIVE_WRITES, CUT)),
    "power: at once", "power: within a write of the archive", "power: before a sync of the archive",
    "power: bytes of the archive are lost", "stop", "takeover", "takeover: the stale owner wakes up",
    "takeover: the stale owner is refused", "takeover: the stale owner asks a server", "full_log: a write",
    "full_log: a commit", "full_log: a start", "full_archive", "slow_store", "clock_step: forward", "clock_step: back",
    "clock_step: a start is refused", "late", "late: another result overtakes it", "misroute",
    "repeat: discoveries", "repeat: fetch-results", "repeat: candidates", "repeat: content-verdicts",
    "repeat: at another partition", "repeat: a result of an earlier lease", "lost_parser",
    *(f"operator: {cmd}" for cmd in ("pause", "resume", "block", "unblock", "slow", "recrawl", "seed")),
    "robots: a file", "robots: another file than before", "robots: cut", "robots: redirect", "robots: a status of 4xx",
    *(f"trouble: {trouble.value}" for trouble in Trouble), *(f"page: {kind.value}" for kind in Kind),
    *(f"lie: {lie}" for lie in LIES), "redirect: within a partition", "redirect: to another partition", "trap", "slow",
    "unchanged", "address: another than before", "address: the old one", "names: not_found", "names: timeout",
    "names: temporary", "names: refused", "names: an internal address",
    "known: links left out",
    *(f"{status}: Retry-After is {form}" for status in (429, 503) for form in retry_after_forms(0, 1)),
)  # fmt: skip


def note(happened: Counter[str], servers: Servers, served: Served) -> None:
    """A server knows what it answers."""
    answer, before = served.answer, servers.last(served.host)
    now_s = servers.now()
    if not served.ours:
        happened["takeover: the stale owner asks a server"] += 1
    if before is not None and before.address != served.address:
        happened["address: another than before"] += 1
    happened["address: the old one"] += (
        served.address not in servers.web.hosts[served.host].names.at(now_s).addresses
    )
    if answer.trouble is not None:
        happened[f"trouble: {answer.trouble.value}"] += 1
    happened["trouble: garbage"] += answer.head.startswith(b"220")
    happened["slow"] += answer.first_byte_ms >= SLOW_MS
    if answer.status in (429, 500, 503):
        happened[f"trouble: {answer.status}"] += 1
    if served.kind is FetchKind.ROBOTS:
        _robots(happened, servers, served)
    elif served.page is not None and answer.trouble is None:
        _page(happened, servers, served)


def _robots(happened: Counter[str], servers: Servers, served: Served) -> None:
    said = served.robots
    if said is None:
        return
    if said.file is not None:
        sent = [
            s.robots.file
            for s in servers.record.values()
            if s.url == served.url and s.robots is not None and s.robots.file is not None and s is not served
        ]
        happened["robots: a file"] += 1
        happened["robots: another file than before"] += bool(sent) and sent[-1] != said.file
    happened["robots: cut"] += said.lie == "cut"
    happened["robots: redirect"] += bool(said.location)
    happened["robots: a status of 4xx"] += 400 <= said.status < 500 and said.trouble is None


def _page(happened: Counter[str], servers: Servers, served: Served) -> None:
    page = served.page
    assert page is not None
    happened[f"page: {page.kind.value}"] += 1
    happened["trap"] += TRAP in served.url
    if page.lie and served.answer.status == 200:
        happened[f"lie: {page.lie}"] += 1
    if page.kind is Kind.REDIRECT and page.links:
        target = servers.web.hosts.get(split_origin(origin_of(page.links[0].requested))[1])
        here = servers.web.hosts[served.host].partition
        across = target is not None and target.partition != here
        happened[f"redirect: {'to another' if across else 'within a'} partition"] += 1
