"""What people read: numbers, counts, the summary of a crawl and its status."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from frontlog.avro.enums import Reason, State
from frontlog.streams.summary import End, StateCount
from frontlog.wording import (
    by_reason,
    count_lines,
    duration,
    moment,
    next_commands,
    progress_line,
    size,
    status_lines,
    summary_lines,
    waiting_line,
    waiting_lines,
)
from support.shapes import COUNTS, HOST, NOW_MS, PROGRESS, STATUS, summary


@pytest.mark.parametrize(
    ("count", "said"),
    [
        (0, "0 bytes"),
        (999, "999 bytes"),
        (1_000, "1.0 kB"),
        (9_949, "9.9 kB"),
        (9_950, "10 kB"),
        (999_499, "999 kB"),
        (999_500, "1.0 MB"),
        (64 * 2**20, "67 MB"),
        (1_500_000_000_000, "1.5 TB"),
        (2_000_000_000_000_000, "2000 TB"),
    ],
)
def test_sizes(count: int, said: str) -> None:
    assert size(count) == said


@pytest.mark.parametrize(
    ("ms", "said"),
    [
        (0, "0 s"),
        (400, "0.4 s"),
        (1_000, "1 s"),
        (9_949, "9.9 s"),
        (31_400, "31 s"),
        (59_600, "1 min"),
        (250_000, "4 min 10 s"),
        (3_600_000, "1 h"),
        (7_500_000, "2 h 5 min"),
        (86_400_000, "1 d"),
        (273_600_000, "3 d 4 h"),
    ],
)
def test_durations(ms: int, said: str) -> None:
    assert duration(ms) == said


def test_times_are_utc_to_the_millisecond() -> None:
    assert moment(NOW_MS + 7) == "2026-11-30T15:00:00.007Z"


def test_counts_say_what_was_fetched_blocked_and_deferred_and_why() -> None:
    assert by_reason(COUNTS[2:4]) == "robots_denied 5, out_of_scope 4"
    assert count_lines(COUNTS) == [
        "  fetched          51  ok 46, redirected 5",
        "  to fetch      1,200  admitted 1,200",
        "  deferred          1  unavailable 1",
        "  blocked           9  robots_denied 5, out_of_scope 4",
    ]
    assert count_lines(()) == ["  no URL is known yet"]


def test_a_host_that_waits_says_how_long_and_why() -> None:
    said = "127.0.0.4 waits for 59 min 50 s, until 15:59:50 UTC: unavailable (Retry-After 3600), 1 URL"
    assert waiting_line(HOST, NOW_MS) == said
    assert waiting_lines((HOST,) * 7, 20, NOW_MS)[-1] == "  and 15 hosts more"
    assert waiting_lines((HOST,), 1, NOW_MS) == [f"  {said}"]
    usual = replace(HOST, reason=Reason.DUE, until_ms=NOW_MS + 900)
    slow = replace(HOST, reason=Reason.DUE, until_ms=NOW_MS + 9_000)
    assert len(waiting_lines((usual, slow, usual), 3, NOW_MS)) == 1


def test_the_line_of_progress() -> None:
    assert progress_line(PROGRESS) == (
        "crawling 12 s · 52 pages (4.2/s) · 3 in flight · 1,201 to fetch on 4 hosts · 9 blocked · "
        "412 kB received · log 1.2 MB · archive 800 kB"
    )


def test_the_summary_is_a_few_lines_with_three_commands_to_try() -> None:
    lines = summary_lines(summary(), Path("crawls/my crawl"))
    assert lines[0] == "Crawl ended after 31 s: nothing is left to fetch."
    assert lines[-4:] == [
        "Next:",
        "  frontlog tail crawl.fetched -C 'crawls/my crawl'",
        "  frontlog explain http://h/private/ -C 'crawls/my crawl'",
        "  frontlog verify 'crawls/my crawl'",
    ]
    text = "\n".join(lines)
    for fact in (
        "57 pages",
        "1.8/s",
        "robots_denied 5",
        "unavailable 1",
        "log 1.2 MB",
        "archive 800 kB in 1 WARC file",
    ):
        assert fact in text
    assert "and 8 hosts more" in text
    assert len(lines) <= 20


@pytest.mark.parametrize("end", End)
def test_every_end_has_three_commands(end: End) -> None:
    commands = next_commands(summary(end, example=""), Path("d"))
    assert len(set(commands)) == 3
    going_on = {End.STOPPED, End.STOPPED_NOW, End.PAGES_MAX}
    assert commands[0].startswith("frontlog crawl --out d") is (end in going_on)
    assert next_commands(summary(end), Path("d"), "demo")[0].startswith("frontlog demo") is (end in going_on)


def test_the_status_names_what_is_in_force() -> None:
    lines = status_lines(STATUS)
    assert lines[0] == "crawls/x: running, process 42, 4 hosts, durability fsync"
    assert "  block site example.org since 2026-11-30T15:00:00.000Z, by ops: asked by mail" in lines
    assert "  slow --gap 30 host h since 2026-11-30T15:00:00.000Z" in lines
    assert "  pause crawl since 2026-11-30T15:00:00.000Z" in lines
    assert "  0: seq 1,234, owner token 2, 7 inputs waiting, paused" in lines
    assert "  1: seq 5, owner token 1, 0 inputs waiting" in lines


def test_a_crawl_that_may_not_go_to_its_network_is_told_how_to() -> None:
    refused = (StateCount(State.BLOCKED, Reason.BLOCKED_NETWORK, 1),)
    hint = "give its URL again with --allow-addresses CIDR"
    assert any(
        hint in line for line in summary_lines(replace(summary(), counts=refused, pages_run=0), Path("c"))
    )
    assert not any(hint in line for line in summary_lines(replace(summary(), counts=refused), Path("c")))
