"""Which display is chosen, and what each one writes."""

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace
from rich.console import Console as RichConsole

from frontlog.config import load
from frontlog.console import Display, JsonDisplay, LiveDisplay, TextDisplay, choose
from frontlog.streams.summary import Phase
from support.shapes import PROGRESS, summary

FOLDER = Path("crawls/x")


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("out", "as_json", "kind"),
    [
        (Terminal(), None, LiveDisplay),
        (Terminal(), True, JsonDisplay),
        (Terminal(), False, LiveDisplay),
        (io.StringIO(), None, JsonDisplay),
        (io.StringIO(), True, JsonDisplay),
        (io.StringIO(), False, TextDisplay),
    ],
)
def test_the_display_fits_the_stream(out: io.StringIO, as_json: bool | None, kind: type[Display]) -> None:
    assert type(choose(as_json=as_json, quiet=False, out=out)) is kind


def crawl(display: Display) -> None:
    """What the command does with a display."""
    with display:
        display.start(FOLDER, load(), resumed=False)
        display.progress(PROGRESS)
        display.progress(PROGRESS)
        display.summary(summary(), FOLDER)


def test_a_pipe_gets_json_lines_and_one_progress_a_second() -> None:
    out, now_s = io.StringIO(), [100.0]
    display = JsonDisplay(out, quiet=False, monotonic_s=lambda: now_s[0])
    crawl(display)
    now_s[0] += 1.5
    display.progress(PROGRESS)
    events = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [event["event"] for event in events] == ["start", "progress", "summary", "progress"]
    start, progress, end, _ = events
    assert start["settings"]["politeness"]["gap_ms_min"] == 1_000
    assert start["user_agent"].startswith("Mozilla/5.0 (compatible; frontlog/")
    assert progress["counts"][0] == {"state": "FETCHED", "reason": "ok", "urls": 46}
    assert progress["waiting"][0]["host"] == "127.0.0.4"
    assert (end["end"], end["pages_run"]) == ("done", 57)


@pytest.mark.parametrize("quiet", [True, False])
def test_quiet_leaves_only_the_summary(quiet: bool) -> None:
    for kind in (JsonDisplay, TextDisplay, LiveDisplay):
        out = io.StringIO()
        crawl(kind(out, quiet=quiet))
        text = out.getvalue()
        assert ("summary" in text) or ("Next:" in text)
        assert ("frontlog/" in text) is not quiet
        assert "52 pages" not in text or not quiet


def test_plain_text_says_how_it_goes_every_ten_seconds() -> None:
    out, now_s = io.StringIO(), [0.0]
    display = TextDisplay(out, quiet=False, monotonic_s=lambda: now_s[0])
    for _ in range(21):
        display.progress(PROGRESS)
        now_s[0] += 1.0
    assert out.getvalue().count("52 pages") == 2


def test_plain_text_tells_at_once_that_there_is_no_room_and_where() -> None:
    out = io.StringIO()
    display = TextDisplay(out, quiet=False, monotonic_s=lambda: 0.0)
    full = replace(PROGRESS, phase=Phase.STORE_FULL, detail="writing crawls/x: no space; free some room")
    for told in (PROGRESS, full, full, PROGRESS, PROGRESS):
        display.progress(told)
    lines = out.getvalue().splitlines()
    assert [line.split(" 12 s")[0] for line in lines] == ["no room: waiting for some", "crawling"]
    assert lines[0].endswith("· writing crawls/x: no space; free some room")


def test_the_live_display_shows_hosts_that_wait_and_notes() -> None:
    out = Terminal()
    display = LiveDisplay(out, quiet=False, console=RichConsole(file=out, force_terminal=True, width=200))
    assert display.render().plain == "starting"
    with display:
        display.start(FOLDER, load(), resumed=True)
        display.progress(PROGRESS)
        display.note("Stopping: finishing what is in flight.")
        shown = display.render().plain
        assert "52 pages" in shown and "127.0.0.4 waits for 59 min" in shown and shown.endswith("in flight.")
        display.summary(summary(), FOLDER)
    text = out.getvalue()
    assert "Going on with the crawl in crawls/x" in text
    assert text.count("Stopping: finishing what is in flight.") >= 1
    assert "frontlog explain http://h/private/" in text


def test_a_url_is_not_taken_for_markup() -> None:
    out = Terminal()
    display = LiveDisplay(out, quiet=True, console=RichConsole(file=out, width=300))
    display.summary(summary(example="http://h/[bold]x[/bold]"), FOLDER)
    assert "http://h/[bold]x[/bold]" in out.getvalue()


def test_a_reader_that_goes_away_does_not_end_the_crawl() -> None:
    code = (
        "import sys; from pathlib import Path\n"
        "from frontlog.config import load; from frontlog.console import TextDisplay\n"
        "display = TextDisplay(sys.stdout, quiet=False)\n"
        "for _ in range(5_000): display.start(Path('x'), load(), resumed=False)\n"
        "print('went on', file=sys.stderr)"
    )
    script = f'{sys.executable} -c "{code}" | head -n 1'
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, timeout=50, check=True)
    assert done.stdout.startswith("Crawling into x as ")
    assert done.stderr == "went on\n"


def test_a_note_without_a_display_goes_to_stderr(capfd: pytest.CaptureFixture[str]) -> None:
    sys.stderr.flush()
    for display in (JsonDisplay(io.StringIO(), quiet=True), LiveDisplay(io.StringIO(), quiet=True)):
        display.note("stopping")
    assert capfd.readouterr().err == "stopping\nstopping\n"
