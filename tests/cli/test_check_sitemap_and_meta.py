"""`frontlog check sitemap` and `frontlog check meta`: arguments, files, JSON and JSON lines.

Not verified here: that the answers are right, which the tests of the processors do.
"""

import gzip
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from frontlog.cli import main


def frontlog(*words: str, stdin: str | bytes = "") -> Result:
    return CliRunner().invoke(main, words, input=stdin, catch_exceptions=False)


def test_a_sitemap_is_read_from_a_file_from_stdin_or_from_json(tmp_path: Path) -> None:
    text = b"<urlset><url><loc>http://h/a</loc></url></urlset>"
    (tmp_path / "map.xml").write_bytes(gzip.compress(text))
    for result in (
        frontlog("check", "sitemap", "http://h/map.xml", "--file", str(tmp_path / "map.xml")),
        frontlog(
            "check", "sitemap", "http://h/map.xml", "--file", "-", "--content-type", "text/xml", stdin=text
        ),
        frontlog("check", "sitemap", json.dumps({"text": text.decode(), "url": "http://h/map.xml"})),
    ):
        answer = json.loads(result.stdout)
        assert (answer["kind"], [page["loc"] for page in answer["urls"]]) == ("urlset", ["http://h/a"])


def test_a_page_and_headers_are_read_from_a_file_from_stdin_or_from_json(tmp_path: Path) -> None:
    html = "<meta name=robots content=noarchive>"
    (tmp_path / "page.html").write_text(html)
    header = (
        "--header",
        "X-Robots-Tag: mybot: noindex",
        "--header",
        "x-robots-tag: other: nofollow",
        "--agent",
        "MyBot",
    )
    headers = [["X-Robots-Tag", "mybot: noindex"]]
    for result in (
        frontlog("check", "meta", str(tmp_path / "page.html"), *header),
        frontlog("check", "meta", "-", *header, stdin=html),
        frontlog("check", "meta", json.dumps({"html": html, "headers": headers, "agent": "mybot"})),
    ):
        answer = json.loads(result.stdout)
        assert (answer["noindex"], answer["nofollow"], answer["noarchive"]) == (True, False, True)
    assert json.loads(frontlog("check", "meta", *header).stdout)["directives"] == ["noindex"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("sitemap",), "Give an input"),
        (("sitemap", "http://h/"), '"xml_b64"'),
        (("sitemap", "h", "--file", "-"), '"url"'),
        (("meta",), "Give an input"),
        (("meta", "no/such/file"), "No such file"),
        (("meta", "{}"), '"agent"'),
        (("meta", "--header", "x: y", "--jsonl"), "come from stdin"),
    ],
)
def test_one_bad_input_is_an_error(words: tuple[str, ...], said: str) -> None:
    result = frontlog("check", *words)
    assert (result.exit_code, result.stdout) == (2, "")
    assert said in result.stderr


@pytest.mark.parametrize("what", ["sitemap", "meta"])
def test_json_lines_keep_their_order_and_survive_bad_ones(what: str) -> None:
    good = {
        "sitemap": '{"text": "http://h/a\\ud800", "url": "http://h/"}',
        "meta": '{"html": "<meta name=robots content=none>\\ud800", "headers": [], "agent": "b"}',
    }[what]
    lines = [good, "nonsense", "", "{}", good, '{"url": 7, "text": [], "html": {}, "agent": "b"}', good]
    result = frontlog("check", what, "--jsonl", stdin="\n".join(lines) + "\n")
    assert result.exit_code == 0
    answers = [json.loads(line) for line in result.stdout.splitlines()]
    assert [list(answer) == ["error"] for answer in answers] == [False, True, True, True, False, True, False]
    assert answers[0] == answers[4] == answers[6]
