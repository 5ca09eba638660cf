"""What the server of the synthetic web saw: its log, and the judgement of `synthweb report`.

The server counts, not the crawler: what a page is, when it was asked for, how close two requests to a host were.
"""

import bisect
import itertools
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from bench.synthweb import Missing, said


class Visit(NamedTuple):
    """One request in the server's log. Times are ns since the epoch: request read, answer handed to the kernel.
    `status` 0: the server dropped the connection."""

    start_ns: int
    end_ns: int
    host: int
    status: int
    kind: str
    size_bytes: int
    target: str


def visits(log: Path) -> Iterator[Visit]:
    """The requests of a log, in the order in which they ended."""
    with log.open(encoding="utf-8") as lines:
        for line in lines:
            if not line.startswith("#"):
                p = line.rstrip("\n").split(",", 8)
                yield Visit(int(p[0]), int(p[1]), int(p[2]), int(p[4]), p[5], int(p[6]), p[8])


class Window(NamedTuple):
    """Page answers of a log: how many, and seconds from the first one's request to the last one's answer. `ends_ns`:
    when each was handed to the kernel, in order."""

    pages: int
    span_s: float
    ends_ns: list[int]


def window(log: Path) -> Window:
    """A page is one 200 answer with a full page of the synthetic web."""
    found = [(v.start_ns, v.end_ns) for v in visits(log) if v.kind == "page" and v.status == 200]
    if not found:
        return Window(0, 0.0, [])
    ends = sorted(end for _, end in found)
    return Window(len(found), (ends[-1] - min(start for start, _ in found)) / 1e9, ends)


class Courtesy(NamedTuple):
    """How a host was treated, by the server's own record. `gap_ms`: end of an answer to the next request;
    `start_ms`: between two starts; the smallest of each. `in_flight`: the most at once."""

    host: int
    requests: int
    gap_ms: float
    start_ms: float
    in_flight: int


def cut_short(found: Iterable[Visit], deaths_ns: Iterable[int]) -> list[Visit]:
    """The visits as the crawler could know them: a request of a process that died meanwhile ended with it, whatever the
    server went on to write into the closed connection."""
    deaths = sorted(deaths_ns)
    visits: list[Visit] = []
    for visit in found:
        at = bisect.bisect(deaths, visit.start_ns)
        dead_ns = deaths[at] if at < len(deaths) else visit.end_ns
        visits.append(visit._replace(end_ns=min(visit.end_ns, dead_ns)))
    return visits


def courtesies(found: Iterable[Visit]) -> list[Courtesy]:
    """Every host that was asked more than once, the least politely treated first."""
    by_host: dict[int, list[Visit]] = {}
    for visit in found:
        by_host.setdefault(visit.host, []).append(visit)
    several = [_courtesy(host, sorted(group)) for host, group in by_host.items() if len(group) > 1]
    return sorted(several, key=lambda c: (c.start_ms, c.host))


def _courtesy(host: int, group: list[Visit]) -> Courtesy:
    gap = start = 1 << 62
    end = group[0].end_ns
    for before, visit in itertools.pairwise(group):
        start = min(start, visit.start_ns - before.start_ns)
        gap = min(gap, max(0, visit.start_ns - end))
        end = max(end, visit.end_ns)
    edges = sorted([(v.start_ns, 1) for v in group] + [(v.end_ns, -1) for v in group])
    now = most = 0
    for _, step in edges:
        now += step
        most = max(most, now)
    return Courtesy(host, len(group), gap / 1e6, start / 1e6, most)


class Report(NamedTuple):
    """What `synthweb report` says of a log. Gaps in ms, end of an answer to the next request."""

    requests: int
    pages_distinct: int
    same_url_again: int
    robots_hosts: int
    before_robots: int
    disallowed: int
    gap_ms_min: float
    gap_ms_median: float
    overlapping_hosts: int
    text: str


_LINES = re.compile(
    r"requests (?P<requests>\d+) .*?"
    r"pages: (?P<distinct>\d+) of \d+ distinct fetched; same URL again (?P<again>\d+) times.*?"
    r"robots.txt: asked on (?P<robots>\d+) of \d+ hosts; (?P<early>\d+) requests before .*?; (?P<bad>\d+) disallowed.*?"
    r"politeness by host: .*? min (?P<gap>-?[\d.]+) ms, median (?P<median>-?[\d.]+) ms, "
    r".*?more than one in flight on (?P<over>\d+),",
    re.DOTALL,
)


def report(log: Path) -> Report:
    """Have synthweb judge a log."""
    text = said("report", "-log", str(log))
    found = _LINES.search(text)
    if found is None:
        raise Missing(f"synthweb's report has another form than expected:\n{text}")
    n = found.groupdict()
    return Report(
        int(n["requests"]), int(n["distinct"]), int(n["again"]), int(n["robots"]), int(n["early"]), int(n["bad"]),
        float(n["gap"]), float(n["median"]), int(n["over"]), text,
    )  # fmt: skip
