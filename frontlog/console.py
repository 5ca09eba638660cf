"""What a crawl shows while it runs: a live line on a terminal, JSON lines in a pipe, or nothing.

    stdout is     --json / --text   shown
    a terminal    -                 live display, then a summary in words
    a pipe        -                 JSON lines: one `start`, a `progress` a second, one `summary`
    either        --json            JSON lines
    a pipe        --text            a line of progress every ten seconds, then a summary in words
    any           --quiet           the summary alone

Warnings and errors go to stderr, always in words. `note` may be called from a signal handler, so it
prints nothing that another print could be in the middle of: it stores its text for the display, or
writes to the file descriptor.
"""

import os
import sys
import time
from abc import abstractmethod
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TextIO

import msgspec
from rich.console import Console as RichConsole
from rich.live import Live
from rich.text import Text

from frontlog.streams.options import Config
from frontlog.streams.summary import Phase, Progress, Summary
from frontlog.wording import progress_line, summary_lines, waiting_line, worth_saying

__all__ = ["Display", "JsonDisplay", "LiveDisplay", "TextDisplay", "choose", "json_line"]

JSON_EVERY_S = 1.0
TEXT_EVERY_S = 10.0
_HOSTS_LIVE = 3


def json_line(event: str, value: msgspec.Struct | dict[str, Any]) -> str:
    """A JSON object on one line, `event` first."""
    plain = msgspec.to_builtins(value)
    return msgspec.json.encode({"event": event, **plain}).decode()


class Display:
    """What `frontlog crawl` talks to. A context manager, since a live display must be taken down."""

    again = "crawl"
    """The command that goes on with this crawl, for the summary."""

    def __init__(self, out: TextIO, *, quiet: bool) -> None:
        self._out = out
        self._quiet = quiet

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def start(self, folder: Path, config: Config, *, resumed: bool) -> None:
        """Say what begins."""

    def progress(self, progress: Progress) -> None:
        """Show how it goes; called a few times a second."""

    def note(self, text: str) -> None:
        """Say something important in between; safe in a signal handler."""
        os.write(sys.__stderr__.fileno() if sys.__stderr__ else 2, f"{text}\n".encode())

    @abstractmethod
    def summary(self, summary: Summary, folder: Path) -> None:
        """Say how it ended."""

    def _print(self, text: str) -> None:
        try:
            self._out.write(text + "\n")
            self._out.flush()
        except BrokenPipeError:
            # Nobody reads on, as behind `| head`. That is no reason to end a crawl; what Python still holds
            # back of the text would raise again at exit.
            with Path(os.devnull).open("w") as nowhere:
                os.dup2(nowhere.fileno(), self._out.fileno())


class JsonDisplay(Display):
    """One JSON object a line."""

    def __init__(
        self, out: TextIO, *, quiet: bool, monotonic_s: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(out, quiet=quiet)
        self._monotonic_s = monotonic_s
        self._next_s = float("-inf")

    def start(self, folder: Path, config: Config, *, resumed: bool) -> None:
        """A `start` line with what deciding uses."""
        if not self._quiet:
            facts: dict[str, Any] = {
                "folder": str(folder),
                "resumed": resumed,
                "user_agent": config.user_agent,
                "configuration": list(config.sources),
                "settings": config.deciding(),
            }
            self._print(json_line("start", facts))

    def progress(self, progress: Progress) -> None:
        """A `progress` line, one a second at most."""
        now_s = self._monotonic_s()
        if not self._quiet and now_s >= self._next_s:
            self._next_s = now_s + JSON_EVERY_S
            self._print(json_line("progress", progress))

    def summary(self, summary: Summary, folder: Path) -> None:
        """The `summary` line."""
        self._print(json_line("summary", summary))


class TextDisplay(Display):
    """Plain lines, for a pipe or a log file."""

    def __init__(
        self, out: TextIO, *, quiet: bool, monotonic_s: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(out, quiet=quiet)
        self._monotonic_s = monotonic_s
        self._next_s = monotonic_s() + TEXT_EVERY_S
        self._phase = Phase.CRAWLING

    def start(self, folder: Path, config: Config, *, resumed: bool) -> None:
        """A line that names the folder and the user agent."""
        if not self._quiet:
            self._print(start_line(folder, config, resumed=resumed))

    def progress(self, progress: Progress) -> None:
        """A line every ten seconds, and at once when something else begins: a disk without room is told now."""
        now_s = self._monotonic_s()
        if not self._quiet and (now_s >= self._next_s or progress.phase is not self._phase):
            self._phase = progress.phase
            self._next_s = now_s + TEXT_EVERY_S
            self._print(progress_line(progress))

    def summary(self, summary: Summary, folder: Path) -> None:
        """The summary in words."""
        self._print("\n".join(summary_lines(summary, folder, self.again)))


class LiveDisplay(Display):
    """A line that rewrites itself, with the hosts that wait beneath it."""

    def __init__(self, out: TextIO, *, quiet: bool, console: RichConsole | None = None) -> None:
        super().__init__(out, quiet=quiet)
        self._console = console or RichConsole(file=out, highlight=False)
        self._latest: Progress | None = None
        self._notes: list[str] = []
        self._live: Live | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def start(self, folder: Path, config: Config, *, resumed: bool) -> None:
        """A line that names the folder and the user agent; then the display."""
        if self._quiet:
            return
        self._say(start_line(folder, config, resumed=resumed))
        # The display draws itself from a thread of its own, so `progress` and `note` only store.
        self._live = Live(
            get_renderable=self.render, console=self._console, refresh_per_second=4, transient=True
        )
        self._live.start()

    def progress(self, progress: Progress) -> None:
        """Show this from the next drawing on."""
        self._latest = progress

    def note(self, text: str) -> None:
        """Beneath the line, and to stay there."""
        if self._live is None:
            super().note(text)
        else:
            self._notes.append(text)

    def render(self) -> Text:
        """What stands on the terminal now."""
        if self._latest is None:
            lines = ["starting"]
        else:
            hosts = worth_saying(self._latest.waiting, self._latest.at_ms)[:_HOSTS_LIVE]
            lines = [
                progress_line(self._latest),
                *(f"  {waiting_line(host, self._latest.at_ms)}" for host in hosts),
            ]
        text = Text("\n".join(lines), no_wrap=False)
        for note in self._notes:
            text.append(f"\n{note}", style="bold yellow")
        return text

    def summary(self, summary: Summary, folder: Path) -> None:
        """The summary in words, where the display was."""
        self._end()
        for line in summary_lines(summary, folder, self.again):
            self._say(line)

    def _say(self, line: str) -> None:
        """Word for word: a URL is neither markup nor something to colour."""
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)

    def _end(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None
            for note in self._notes:
                self._say(note)


def start_line(folder: Path, config: Config, *, resumed: bool) -> str:
    """What begins, in words."""
    what = "Going on with the crawl in" if resumed else "Crawling into"
    return f"{what} {folder} as {config.user_agent}. Ctrl-C stops in order; twice, at once."


def choose(*, as_json: bool | None, quiet: bool, out: TextIO) -> Display:
    """The display for a stream (stdout). `as_json` None: JSON lines unless it is a terminal."""
    is_terminal = out.isatty()
    if as_json or (as_json is None and not is_terminal):
        return JsonDisplay(out, quiet=quiet)
    return LiveDisplay(out, quiet=quiet) if is_terminal else TextDisplay(out, quiet=quiet)
