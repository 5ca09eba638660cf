"""`frontlog check`: one input by arguments or JSON, and JSON lines, also through a real process.

Not verified here: that the answers are right, which the tests of the rooms do.
"""

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from frontlog.cli import main
from frontlog.commands_check import answer_line, answer_lines
from frontlog.errors import ConfigError


def frontlog(*words: str, stdin: str | bytes = "") -> Result:
    return CliRunner().invoke(main, words, input=stdin, catch_exceptions=False)


def test_one_input_by_arguments_or_as_json() -> None:
    wanted = "http://example.org/b"
    for words in (
        ("HTTP://Example.org:80/a/../b#c",),
        ("../b", "--base", "http://example.org/a/c"),
        ('{"raw": "../b", "base": "http://example.org/a/c"}',),
        ("http://example.org/b", "--rules", "index"),
    ):
        answer = json.loads(frontlog("check", "url", *words).stdout)
        assert answer["identity"].removesuffix("/") == wanted.replace(
            "http:", answer["identity"].split("/")[0]
        )
        assert answer["origin_key"].endswith("example.org:80") or "--rules" in words
        assert isinstance(answer["rules_fired"], list)


def test_an_address_is_judged_and_never_looked_up() -> None:
    private = json.loads(frontlog("check", "address", "http://h.example/", "8.8.8.8", "10.0.0.1").stdout)
    assert (private["verdict"], private["reason"]) == ("refuse", "private")
    allowed = frontlog("check", "address", "http://h.example/", "10.0.0.1", "--allow-addresses", "10.0.0.0/8")
    assert json.loads(allowed.stdout)["verdict"] == "allow"
    assert json.loads(frontlog("check", "address", "http://127.1/").stdout)["reason"] == "loopback"


def test_a_file_is_read_for_robots_and_links(tmp_path: Path) -> None:
    (tmp_path / "robots.txt").write_bytes(b"\xef\xbb\xbfUser-agent: bot\nDisallow: /a\n")
    words = ("--robots-txt", str(tmp_path / "robots.txt"), "--user-agent", "Bot")
    assert json.loads(frontlog("check", "robots", "http://h/a/b", *words).stdout)["allowed"] is False
    assert json.loads(frontlog("check", "robots", "http://h/b", *words).stdout)["allowed"] is True
    page = b'<base href="/x/"><a href="y">Y</a>'
    answer = json.loads(frontlog("check", "links", "http://h/", "--html", "-", stdin=page).stdout)
    assert answer["base"] == "http://h/x/"
    assert [(link["url"], link["anchor"]) for link in answer["links"]] == [("http://h/x/y", "Y")]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("url",), "Give an input"),
        (("url", "x", "--jsonl"), "come from stdin"),
        (("url", '{"raw": 5}'), '"raw" must be a string'),
        (("url", "{"), "not JSON"),
        (("address", "nowhere"), "url: not an absolute URL"),
        (("address", "http://h/", "--allow-addresses", "x"), "--allow-addresses 'x'"),
    ],
)
def test_one_bad_input_is_an_error(words: tuple[str, ...], said: str) -> None:
    result = frontlog("check", *words)
    assert (result.exit_code, result.stdout) == (2, "")
    assert said in result.stderr


def boom(_: dict[str, object]) -> dict[str, object]:
    raise ZeroDivisionError("ours")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"", "not JSON"),
        (b"\n", "not JSON"),
        (b"nonsense\n", "not JSON"),
        (b"[1]\n", "not a JSON object"),
        (b'"x"\n', "not a JSON object"),
        (b'{"a": "\xff"}\n', "not UTF-8 at byte 7"),
        (b"[" * 100_000 + b"\n", "not JSON that can be read"),
        (b'{"raw": "x"}\n', "ZeroDivisionError: ours"),
    ],
)
def test_a_bad_line_gives_an_error(line: bytes, said: str) -> None:
    answer = json.loads(answer_line(boom, line))
    assert list(answer) == ["error"]
    assert said in answer["error"]


def test_an_answer_that_is_not_json_is_an_error_and_a_lone_surrogate_is_not() -> None:
    assert "error" in json.loads(answer_line(lambda q: {"x": object()}, b"{}"))
    assert json.loads(answer_line(lambda q: q, b'{"raw": "\\ud800"}')) == {"raw": "\ud800"}


def test_a_refusal_is_an_answer_of_one_line() -> None:
    def refuse(_: dict[str, object]) -> dict[str, object]:
        raise ConfigError("url: two\nlines")

    assert answer_line(refuse, b"{}") == '{"error":"url: two\\nlines"}'


def test_each_line_is_answered_before_the_next_is_read() -> None:
    order: list[str] = []

    class Source(io.BytesIO):
        def readline(self, size: int | None = -1, /) -> bytes:
            line = super().readline(size)
            order.append(f"in {line.decode().strip()}")
            return line

    answer_lines(lambda q: q, Source(b'{"n":1}\n{"n":2}'), lambda text: order.append(f"out {text.strip()}"))
    assert order == ['in {"n":1}', 'out {"n":1}', 'in {"n":2}', 'out {"n":2}', "in "]


@pytest.mark.parametrize("what", ["url", "robots", "links", "address"])
def test_json_lines_keep_their_order_and_survive_bad_ones(what: str) -> None:
    good = {
        "url": '{"raw": "http://h/"}',
        "robots": '{"robots_txt": "", "user_agent": "bot", "url": "http://h/"}',
        "links": '{"html": "<a href=x>y</a>", "url": "http://h/"}',
        "address": '{"url": "http://h/", "resolved": ["8.8.8.8"]}',
    }[what]
    lines = [good, "nonsense", "", "{}", good, '{"raw": null, "url": 7, "html": [], "resolved": {}}', good]
    result = frontlog("check", what, "--jsonl", stdin="\n".join(lines) + "\n")
    assert result.exit_code == 0
    answers = [json.loads(line) for line in result.stdout.splitlines()]
    assert [list(answer) == ["error"] for answer in answers] == [False, True, True, True, False, True, False]
    assert answers[0] == answers[4] == answers[6]


def test_a_process_answers_a_line_while_its_stdin_is_open() -> None:
    command = [sys.executable, "-m", "frontlog", "check", "url", "--jsonl"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None and process.stdout is not None
        for raw in ("http://h/a", "http://h/b"):
            process.stdin.write(json.dumps({"raw": raw}).encode() + b"\n")
            process.stdin.flush()
            assert json.loads(process.stdout.readline())["identity"] == raw
        process.stdin.write(b"oops\n")
        process.stdin.flush()
        assert list(json.loads(process.stdout.readline())) == ["error"]
        process.stdin.close()
        assert process.stdout.read() == b""
        assert process.wait(20) == 0


def test_a_reader_that_goes_away_is_no_error() -> None:
    script = f'yes \'{{"raw":"http://h/"}}\' | {sys.executable} -m frontlog check url --jsonl | head -n 2'
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, timeout=30, check=False)
    assert len(done.stdout.splitlines()) == 2
    assert "Traceback" not in done.stderr
