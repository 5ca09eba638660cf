"""`status`, `tail`, `explain`, `verify`, `replay` with the machinery replaced: what is asked and shown."""

import io
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from frontlog import machinery
from frontlog.avro.enums import Topic
from frontlog.cli import main
from frontlog.commands_look import record_line, story_lines, teller
from frontlog.crawl_folder import configure
from frontlog.replay.shapes import Advance, Explanation, Rebuilt, Record, Report, Status
from support.shapes import LINES, RECORD, STATUS, STORY, report


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    made = tmp_path / "c"
    made.mkdir()
    configure(made, None, {})
    monkeypatch.chdir(tmp_path)
    return made


def frontlog(*words: str) -> Result:
    return CliRunner().invoke(main, words, catch_exceptions=False)


@pytest.mark.usefixtures("folder")
def test_status_in_words_and_as_json(monkeypatch: pytest.MonkeyPatch) -> None:
    def status(_: Path) -> Status:
        return STATUS

    monkeypatch.setattr(machinery, "status", status)
    assert "running, process 42" in frontlog("status", "-C", "c").stdout
    found = json.loads(frontlog("status", "-C", "c", "--json").stdout)
    assert found["acts"][0]["note"] == "asked by mail"
    assert found["counts"][0] == {"state": "FETCHED", "reason": "ok", "urls": 46}


class Tail:
    """Stands in for the log: keeps what was asked and gives three records."""

    def __init__(self) -> None:
        self.asked: dict[str, Any] = {}

    def __call__(self, folder: Path, topic: str, **asked: Any) -> Iterator[Record]:
        self.asked = {"folder": folder, "topic": topic, **asked}
        yield from (RECORD, RECORD, RECORD)
        if asked["follow"]:
            raise KeyboardInterrupt


@pytest.mark.usefixtures("folder")
def test_tail_asks_for_what_was_said(monkeypatch: pytest.MonkeyPatch) -> None:
    tail = Tail()
    monkeypatch.setattr(machinery, "tail", tail)
    found = frontlog("tail", "transitions", "-C", "c")
    assert [json.loads(line)["offset"] for line in found.stdout.splitlines()] == [17, 17, 17]
    assert tail.asked == {
        "folder": Path("c"), "topic": "transitions", "partition": None, "start": None, "origin": "",
        "url": "", "kind": "", "limit": 20, "follow": False,
    }  # fmt: skip
    words = (
        "tail policies -C c --partition 3 --from 7 --origin http://h:80 --url http://h/ "
        "--type RobotsPolicy --limit 2"
    )
    assert frontlog(*words.split()).exit_code == 0
    assert tail.asked == {
        "folder": Path("c"), "topic": "policies", "partition": 3, "start": 7, "origin": "http://h:80",
        "url": "http://h/", "kind": "RobotsPolicy", "limit": 2, "follow": False,
    }  # fmt: skip
    assert frontlog("tail", "control", "-C", "c", "--from", "0").exit_code == 0
    assert tail.asked["limit"] == 0


@pytest.mark.usefixtures("folder")
def test_tail_follows_until_it_is_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machinery, "tail", Tail())
    found = frontlog("tail", "transitions", "-C", "c", "--follow", "--text")
    assert (found.exit_code, found.stdout.count("Transition")) == (0, 3)


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("topic", Topic)
def test_every_topic_can_be_read_and_no_other(monkeypatch: pytest.MonkeyPatch, topic: Topic) -> None:
    monkeypatch.setattr(machinery, "tail", Tail())
    assert frontlog("tail", topic.value, "-C", "c").exit_code == 0
    assert frontlog("tail", "transition", "-C", "c").exit_code == 2


def test_a_record_for_a_person_leaves_out_what_says_nothing() -> None:
    assert record_line(RECORD) == (
        '2026-11-30T15:00:00.000Z transitions/2/17 Transition {"seq":5,"url":"http://h/"}'
    )


@pytest.mark.usefixtures("folder")
def test_explain_tells_the_story_or_says_that_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def explain(_: Path, url: str) -> Explanation:
        near = ("http://h/nine",)
        return STORY if url == STORY.asked else Explanation(asked=url, url=url, known=False, near=near)

    monkeypatch.setattr(machinery, "explain", explain)
    told = frontlog("explain", "http://h/private", "-C", "c")
    assert told.exit_code == 0
    assert told.stdout.splitlines()[:2] == [
        "http://h/private/ (asked for as http://h/private)",
        "  BLOCKED because robots_denied; waits for a newer policy version that allows it",
    ]
    assert "rule: line 3: Disallow: /private/" in told.stdout
    shown = json.loads(frontlog("explain", "http://h/private", "-C", "c", "--json").stdout)
    assert (shown["known"], len(shown["lines"])) == (True, 2)
    unknown = frontlog("explain", "http://h/none", "-C", "c")
    assert (unknown.exit_code, unknown.stdout) == (1, "")
    assert "knows nothing of it. Did it mean http://h/nine?" in unknown.stderr
    assert not json.loads(frontlog("explain", "http://h/none", "-C", "c", "--json").stdout)["known"]


def test_a_long_look_tells_a_person_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    shown = Terminal()
    monkeypatch.setattr("sys.stderr", shown)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    tell, end = teller(as_json=False)
    tell(Advance("folding", 1_234, 5_000, 99.0))
    time.sleep(0.2)
    end()
    assert "folding: 1,234 of 5,000 records, 99/s" in shown.getvalue()


def test_a_step_names_its_cause_and_its_record() -> None:
    assert story_lines(LINES[0]) == [
        "2026-11-30T15:00:00.000Z  DISCOVERED -> ELIGIBLE because admitted",
        "    caused by a link on http://h/ at discoveries/2/3",
        "    recorded at transitions/2/16, seq 4",
    ]
    assert story_lines(LINES[1]) == [
        "2026-11-30T15:00:00.005Z  DISCOVERED -> BLOCKED because robots_denied (Disallow)",
        "    rule: line 3: Disallow: /private/",
        "    recorded at transitions/2/17, seq 5, under policy version 3",
    ]


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("words", [("verify", "c"), ("replay", "verify", "c")])
def test_verify_says_what_holds_and_what_does_not(
    monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    asked: list[bool] = []
    found = [report()]

    def verify(_: Path, deep: bool, tell: Callable[[Advance], None]) -> Report:
        asked.append(deep)
        tell(Advance("verifying", 5, 10, 2.0))
        return found[0]

    monkeypatch.setattr(machinery, "verify", verify)
    good = frontlog(*words)
    assert (good.exit_code, good.stdout.splitlines()[-1]) == (
        0,
        "crawls/x: 1,050 records verified in 1.5 s: all of it holds.",
    )
    assert "not verified: the clock of the machine" in good.stdout
    found[0] = report(problems=3)
    bad = frontlog(*words, "--deep")
    assert (bad.exit_code, asked) == (1, [False, True])
    assert "FAILED  fences: fences only grow; 50 examined" in bad.stdout
    assert "and 1 more" in bad.stdout
    assert "3 problems found" in bad.stdout
    assert json.loads(frontlog(*words, "--json").stdout)["ok"] is False


@pytest.mark.usefixtures("folder")
def test_rebuild_says_how_fast_and_whether_it_is_equal(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    made = [Rebuilt(folder="c", new="n", records=1_000, elapsed_ms=500, equal=True)]

    def rebuild(_folder: Path, _new: Path, tell: Callable[[Advance], None]) -> Rebuilt:
        tell(Advance("folding", 1))
        return made[0]

    monkeypatch.setattr(machinery, "rebuild", rebuild)
    good = frontlog("replay", "rebuild", "c", "n")
    assert good.exit_code == 0
    assert (
        good.stdout
        == "n: 1,000 records folded in 0.5 s (2,000/s): every table equals the digest in the log.\n"
    )
    made[0] = Rebuilt(folder="c", new="n", records=1, elapsed_ms=0, equal=False, differences=("urls: row x",))
    bad = frontlog("replay", "rebuild", "c", "n")
    assert (bad.exit_code, bad.stdout.splitlines()[1:]) == (
        1,
        ["  urls: row x", "  frontlog verify c says where"],
    )
    assert json.loads(frontlog("replay", "rebuild", "c", "n", "--json").stdout)["equal"] is False
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").touch()
    refused = frontlog("replay", "rebuild", "c", "full")
    assert (refused.exit_code, "not an empty folder" in refused.stderr) == (2, True)


@pytest.mark.parametrize(
    "words",
    [
        ("status", "-C", "none"),
        ("tail", "transitions", "-C", "none"),
        ("explain", "http://h/", "-C", "none"),
        ("verify", "none"),
        ("replay", "verify", "none"),
        ("replay", "rebuild", "none", "new"),
        ("pause", "--all", "-C", "none"),
        ("seed", "http://h/", "-C", "none"),
    ],
)
def test_looking_at_nothing_says_so(words: tuple[str, ...]) -> None:
    result = frontlog(*words)
    assert result.exit_code == 2
    assert "none: there is no such folder" in result.stderr
