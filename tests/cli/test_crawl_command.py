"""`frontlog crawl` with the crawl itself replaced: options, folders, warnings, errors and exit codes."""

import errno
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from frontlog import machinery
from frontlog.cli import main
from frontlog.commands_crawl import NO_CONTACT
from frontlog.config import load
from frontlog.crawl_folder import OPTIONS_FILE
from frontlog.errors import (
    EXIT_CODES,
    ConfigError,
    Corrupt,
    Fenced,
    FrontlogError,
    Incompatible,
    MapFull,
    OffsetOutOfRange,
    StoreFull,
    from_os_error,
)
from frontlog.streams.options import Config
from frontlog.streams.stop import StopSignal
from frontlog.streams.summary import End, Progress, Summary
from support.shapes import PROGRESS, summary

URL = "http://127.0.0.1:8000/"


class Crawl:
    """Stands in for the crawl: keeps what it was called with, and ends as it is told."""

    def __init__(self) -> None:
        self.calls: list[tuple[Path, Config, list[str]]] = []
        self.end: End = End.DONE
        self.error: BaseException | None = None

    def __call__(
        self,
        folder: Path,
        config: Config,
        seeds: Sequence[str],
        on_progress: Callable[[Progress], None],
        stop: StopSignal,
    ) -> Summary:
        self.calls.append((folder, config, list(seeds)))
        on_progress(PROGRESS)
        if self.error is not None:
            raise self.error
        return summary(self.end)

    @property
    def config(self) -> Config:
        return self.calls[-1][1]


@pytest.fixture
def crawl(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Crawl:
    made = Crawl()
    monkeypatch.setattr(machinery, "run_crawl", made)
    monkeypatch.chdir(tmp_path)
    return made


def frontlog(*words: str, stdin: str = "") -> Result:
    return CliRunner().invoke(main, words, input=stdin, catch_exceptions=False)


def test_options_become_settings(crawl: Crawl) -> None:
    words = (
        "crawl http://a.example/ https://b.example/x --out c --max-pages 7 --contact me@example.org "
        "--token Bot --info-url https://example.org/bot --scope prefix --include /a/ --include /b/ "
        "--exclude q= --depth 3 --allow-addresses 127.0.0.0/8 --allow-addresses ::1 "
        "--resolve A.example=192.0.2.1 --resolve a.example=192.0.2.2 --durability none --gap 2.5 "
        "--set politeness.gap_factor=4 --set fetch.slots=9"
    )
    assert frontlog(*words.split()).exit_code == 0
    folder, config, seeds = crawl.calls[0]
    assert (folder, seeds) == (Path("c"), ["http://a.example/", "https://b.example/x"])
    wanted: dict[str, Any] = {
        "crawl.pages_max": 7,
        "identity.contact": "me@example.org",
        "identity.token": "Bot",
        "identity.info_url": "https://example.org/bot",
        "scope.mode": "prefix",
        "scope.include": ["/a/", "/b/"],
        "scope.exclude": ["q="],
        "scope.depth_max": 3,
        "fetch.allow_addresses": ["127.0.0.0/8", "::1"],
        "fetch.resolve": {"a.example": ["192.0.2.1", "192.0.2.2"]},
        "log.durability": "none",
        "politeness.gap_ms_min": 2_500,
        "politeness.gap_factor": 4,
        "fetch.slots": 9,
    }
    assert (config.settings, config.options) == (load(None, wanted).settings, load(None, wanted).options)


def test_a_crawl_goes_on_under_its_options_without_a_url(crawl: Crawl) -> None:
    assert frontlog("crawl", URL, "--out", "c", "--gap", "3", "--max-pages", "9").exit_code == 0
    assert frontlog("crawl", "--out", "c", "--max-pages", "10", "--text").exit_code == 0
    _, config, seeds = crawl.calls[1]
    assert seeds == []
    assert (config.settings.politeness.gap_ms_min, config.options.crawl.pages_max) == (3_000, 10)


def test_without_a_folder_it_is_named_after_the_host(crawl: Crawl) -> None:
    assert frontlog("crawl", URL).exit_code == 0
    assert crawl.calls[0][0] == Path("crawls/127.0.0.1-8000")
    assert frontlog("crawl").exit_code == 2


def test_seeds_come_from_a_file_too(crawl: Crawl) -> None:
    Path("seeds.txt").write_text("# mine\nhttp://a.example/\n\n  http://b.example/ \n")
    assert frontlog("crawl", URL, "--out", "c", "--seeds", "seeds.txt").exit_code == 0
    assert crawl.calls[0][2] == [URL, "http://a.example/", "http://b.example/"]
    assert frontlog("crawl", "--out", "d", "--seeds", "-", stdin="http://c.example/\n").exit_code == 0
    assert crawl.calls[1][2] == ["http://c.example/"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (b"http://a.example/\n\n# one\nb.example\n", "seeds.txt, line 4: 'b.example': not a URL"),
        (b"http://a.example/\n\xff\n", "not UTF-8"),
    ],
)
def test_what_is_wrong_in_a_file_of_seeds_is_said_with_its_place(
    crawl: Crawl, text: bytes, told: str
) -> None:
    Path("seeds.txt").write_bytes(text)
    result = frontlog("crawl", "--out", "c", "--seeds", "seeds.txt")
    assert (result.exit_code, crawl.calls, Path("c").exists()) == (2, [], False)
    assert told in result.stderr and "seeds.txt" in result.stderr


def test_a_file_of_seeds_may_begin_with_a_byte_order_mark(crawl: Crawl) -> None:
    Path("seeds.txt").write_bytes(b"\xef\xbb\xbfhttp://a.example/\n")
    assert frontlog("crawl", "--out", "c", "--seeds", "seeds.txt").exit_code == 0
    assert crawl.calls[0][2] == ["http://a.example/"]


def test_a_missing_contact_is_said_once_with_its_reason(crawl: Crawl) -> None:
    said = frontlog("crawl", URL, "--out", "c").stderr
    assert said.count(NO_CONTACT) == 1
    assert "site owner" in said
    assert "contact" not in frontlog("crawl", "--out", "c", "--contact", "me@example.org").stderr
    assert "contact" not in frontlog("crawl", "--out", "c").stderr


@pytest.mark.parametrize(("kind", "lost"), [("none", "the folder"), ("nometasync", "the last commits")])
def test_a_weaker_durability_is_a_choice_that_is_named(crawl: Crawl, kind: str, lost: str) -> None:
    said = frontlog("crawl", URL, "--out", "c", "--durability", kind, "--contact", "me@example.org").stderr
    assert f"durability is {kind}: a power cut may lose {lost}" in said


def test_stdout_has_json_lines_in_a_pipe_and_words_on_demand(crawl: Crawl) -> None:
    events = [json.loads(line)["event"] for line in frontlog("crawl", URL, "--out", "c").stdout.splitlines()]
    assert events == ["start", "progress", "summary"]
    assert [json.loads(frontlog("crawl", "--out", "c", "--quiet").stdout)["event"]] == ["summary"]
    words = frontlog("crawl", "--out", "c", "--text").stdout
    assert "Crawl ended after 31 s" in words and "Next:" in words
    assert "Next:" in frontlog("crawl", "--out", "c", "--text", "--quiet").stdout


@pytest.mark.parametrize("end", End)
def test_the_exit_code_says_whether_it_was_cut_short(crawl: Crawl, end: End) -> None:
    crawl.end = end
    assert frontlog("crawl", URL, "--out", "c").exit_code == (130 if end is End.STOPPED_NOW else 0)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("example.org", "did you mean https://example.org?"),
        ("example.org:8080/a", "did you mean https://example.org:8080/a?"),
        ("ftp://example.org/", "only http and https"),
        ("mailto:me@example.org", "only http and https"),
        ("http://", "not a URL"),
        ("", "not a URL"),
        ("http://u:p@example.org/", "user name or password"),
        ("http://example.org/" + "x" * 2_048, "at most 2048"),
    ],
)
def test_a_seed_that_cannot_be_one_is_said(crawl: Crawl, url: str, said: str) -> None:
    result = frontlog("crawl", url, "--out", "c")
    assert (result.exit_code, crawl.calls) == (2, [])
    assert said in result.stderr
    assert not Path("c").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--set", "politeness.gap=1"], "did you mean politeness.gap_ms_min?"),
        (["--set", "fetch.slots"], "write NAME=VALUE"),
        (["--set", "fetch.slots=many"], "must be a whole number"),
        (["--resolve", "a.example"], "write HOST=ADDRESS"),
        (["--resolve", "a.example=b.example"], "'b.example' is no IP address"),
        (["--token", "Bot/1.0"], "a product token has only letters"),
        (["--contact", "me"], "give a mail address"),
        (["--include", "("], "not a regular expression"),
        (["--allow-addresses", "10.0.0.1/8"], "did you mean 10.0.0.0/8?"),
        (["--gap", "-1"], "not in the range 0<=x<=86400"),
        (["--gap", "nan"], "no number of seconds"),
        (["--gap", "inf"], "not in the range 0<=x<=86400"),
        (["--depth", "x"], "not a valid integer"),
        (["--scope", "page"], "is not one of"),
        (["--config", "none.toml"], "none.toml: No such file"),
        (["--bogus"], "No such option"),
    ],
)
def test_a_wrong_option_is_said_and_nothing_runs(crawl: Crawl, words: list[str], said: str) -> None:
    result = frontlog("crawl", URL, "--out", "c", *words)
    assert (result.exit_code, crawl.calls) == (2, [])
    assert said in result.stderr
    assert not Path("c", OPTIONS_FILE).exists()


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConfigError("x"), 2),
        (Fenced("x"), 3),
        (Corrupt("x"), 4),
        (OffsetOutOfRange("x"), 4),
        (Incompatible("x"), 5),
        (StoreFull("x"), 75),
        (MapFull("x"), 75),
        (FrontlogError("x"), 1),
        (OSError(28, "No space left on device", "c/log"), 75),
        (PermissionError(13, "Permission denied", "c/log"), 2),
        (OSError(30, "Read-only file system", "c/log"), 2),
        (OSError(5, "Input/output error", "c/log"), 1),
    ],
)
def test_an_error_is_one_line_and_its_exit_code(crawl: Crawl, error: Exception, code: int) -> None:
    crawl.error = error
    result = frontlog("crawl", URL, "--out", "c", "--contact", "me@example.org")
    assert result.exit_code == code
    assert code in EXIT_CODES
    wanted = (
        str(error)
        if isinstance(error, FrontlogError)
        else str(from_os_error(error))
        if isinstance(error, OSError)
        else ""
    )
    assert result.stderr.splitlines() == [f"frontlog: {wanted}"]


def test_a_fault_of_ours_is_not_hidden(crawl: Crawl) -> None:
    crawl.error = AssertionError("impossible")
    with pytest.raises(AssertionError, match="impossible"):
        frontlog("crawl", URL, "--out", "c")


@pytest.mark.parametrize(
    ("code", "said"),
    [(errno.EACCES, "choose another folder"), (errno.EROFS, "choose a folder that can be written")],
)
def test_a_folder_that_cannot_be_written_is_said(
    crawl: Crawl, monkeypatch: pytest.MonkeyPatch, code: int, said: str
) -> None:
    def refuse(**_: object) -> None:
        raise OSError(code, os.strerror(code), "c")

    monkeypatch.setattr("tempfile.TemporaryFile", refuse)  # root, as which tests may run, can write anywhere
    result = frontlog("crawl", URL, "--out", "c")
    assert (result.exit_code, crawl.calls) == (2, [])
    assert result.stderr.startswith(f"frontlog: c: {os.strerror(code)}; ")
    assert said in result.stderr


def test_the_errors_of_the_operating_system_say_what_where_and_what_to_do() -> None:
    full = from_os_error(OSError(28, "No space left on device", "c/log/data.mdb"))
    assert isinstance(full, StoreFull)
    assert (
        str(full)
        == "c/log/data.mdb: No space left on device; make room and run the command again, nothing is lost"
    )
    assert isinstance(from_os_error(OSError(13, "Permission denied", "c")), ConfigError)
    assert str(from_os_error(OSError("odd"))) == "odd"


def test_every_exit_code_of_the_tree_is_documented() -> None:
    def codes(cls: type[FrontlogError]) -> set[int]:
        return {cls.exit_code}.union(*(codes(sub) for sub in cls.__subclasses__()))

    assert codes(FrontlogError) <= set(EXIT_CODES)
    said = frontlog("--help").stdout
    for code in EXIT_CODES:
        assert f"\n  {code} " in said


def commands(group: click.Group, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """Every command below a group, by its words."""
    found: list[tuple[str, ...]] = []
    for name, command in group.commands.items():
        found += commands(command, (*path, name)) if isinstance(command, click.Group) else [(*path, name)]
    return found


@pytest.mark.parametrize("words", commands(main), ids=" ".join)
def test_every_command_explains_itself_and_its_options(words: tuple[str, ...]) -> None:
    assert frontlog(*words, "--help").exit_code == 0
    command: click.Command = main
    for word in words:
        assert isinstance(command, click.Group)
        command = command.commands[word]
    assert command.help and len(command.get_short_help_str(70)) < 60
    for param in command.params:
        if isinstance(param, click.Option):
            assert param.help, f"{words} {param.name}"


def test_the_version() -> None:
    assert frontlog("--version").stdout.startswith("frontlog, version ")
