"""Progress, summary, status and report with something in every field, for tests of what is shown."""

from frontlog.avro.enums import PolicyAct, Reason, ScopeKind, State
from frontlog.replay.shapes import (
    Act,
    Check,
    Explanation,
    Line,
    PartitionStatus,
    Problem,
    Record,
    Report,
    Status,
)
from frontlog.streams.summary import End, Phase, Progress, StateCount, Summary, WaitingHost

NOW_MS = 1_796_050_800_000  # 2026-11-30T15:00:00Z

COUNTS = (
    StateCount(State.FETCHED, Reason.OK, 46),
    StateCount(State.FETCHED, Reason.REDIRECTED, 5),
    StateCount(State.BLOCKED, Reason.OUT_OF_SCOPE, 4),
    StateCount(State.BLOCKED, Reason.ROBOTS_DENIED, 5),
    StateCount(State.DEFERRED, Reason.UNAVAILABLE, 1),
    StateCount(State.ELIGIBLE, Reason.ADMITTED, 1_200),
)
HOST = WaitingHost("127.0.0.4", Reason.UNAVAILABLE, NOW_MS + 3_590_000, 1, "Retry-After 3600")
PROGRESS = Progress(
    at_ms=NOW_MS, elapsed_ms=12_000, phase=Phase.CRAWLING, counts=COUNTS, pages_run=52, pages_per_s=4.2,
    in_flight=3, hosts=4, waiting=(HOST,), waiting_hosts=1, wire_bytes_run=412_345, log_bytes=1_200_000,
    archive_bytes=800_000,
)  # fmt: skip


def summary(end: End = End.DONE, *, example: str = "http://h/private/") -> Summary:
    """The end of a crawl."""
    return Summary(
        end=end, folder="crawls/x", started_ms=NOW_MS - 31_000, ended_ms=NOW_MS, counts=COUNTS, pages_run=57,
        wire_bytes_run=412_345, hosts=4, documents=44, duplicates=2, waiting=(HOST,), waiting_hosts=9,
        log_bytes=1_200_000, archive_bytes=800_000, archive_files=1, rejects=2, example_url=example,
    )  # fmt: skip


STATUS = Status(
    folder="crawls/x", at_ms=NOW_MS, running=True, pid=42, durability="fsync",
    partitions=(PartitionStatus(0, 1_234, 2, "me", True, 7), PartitionStatus(1, 5, 1)), counts=COUNTS,
    hosts=4, waiting=(HOST,), waiting_hosts=1,
    acts=(
        Act(PolicyAct.BLOCK, ScopeKind.SITE, "example.org", NOW_MS, actor="ops", note="asked by mail"),
        Act(PolicyAct.SLOW, ScopeKind.HOST, "h", NOW_MS, gap_ms=30_000),
        Act(PolicyAct.PAUSE, ScopeKind.CRAWL, "", NOW_MS),
    ),
    documents=44, rejects=2, log_bytes=1_200_000, archive_bytes=800_000, archive_files=1,
)  # fmt: skip
RECORD = Record(
    "transitions", 2, 17, "http://h:80", "Transition",
    {"seq": 5, "url": "http://h/", "detail": "", "fence": 0, "first": None}, NOW_MS,
)  # fmt: skip
LINES = [
    Line(at_ms=NOW_MS, what="DISCOVERED -> ELIGIBLE", why="admitted", record="transitions/2/16", seq=4,
         cause="discoveries/2/3", cause_what="a link on http://h/"),
    Line(at_ms=NOW_MS + 5, what="DISCOVERED -> BLOCKED", why="robots_denied", detail="Disallow",
         record="transitions/2/17", seq=5, policy_version=3, rule="line 3: Disallow: /private/"),
]  # fmt: skip


STORY = Explanation(
    asked="http://h/private", url="http://h/private/", known=True, lines=tuple(LINES), origin_key="http://h:80",
    state=State.BLOCKED, reason=Reason.ROBOTS_DENIED, waits_for="a newer policy version that allows it",
)  # fmt: skip


def report(*, problems: int = 0) -> Report:
    """What verify found."""
    shown = tuple(Problem("transitions/2/17", "fence 3 after 4") for _ in range(min(problems, 2)))
    return Report(
        folder="crawls/x",
        checks=(
            Check("sequence", "no gap in the seqs of a partition", 1_000),
            Check("fences", "fences only grow", 50, problems, shown),
        ),
        records=1_050, elapsed_ms=1_500, not_verified=("the clock of the machine",),
    )  # fmt: skip
