"""Operators' commands: the record that each one sends, and what is refused before anything is sent."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from frontlog import machinery
from frontlog.avro.codec import decode, encode
from frontlog.avro.enums import ScopeKind
from frontlog.avro.events import Control
from frontlog.cli import main
from frontlog.crawl_folder import configure


class Sent(list[Control]):
    """What was sent to `control`."""

    def __call__(self, folder: Path, wish: Control) -> None:
        assert folder == Path("c")
        assert decode(encode(wish)) == wish
        self.append(wish)


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Sent:
    monkeypatch.chdir(tmp_path)
    Path("c").mkdir()
    configure(Path("c"), None, {})
    made = Sent()
    monkeypatch.setattr(machinery, "send", made)
    return made


def frontlog(*words: str) -> Result:
    return CliRunner().invoke(main, words, catch_exceptions=False)


@pytest.mark.parametrize("cmd", ["pause", "resume", "block", "unblock"])
@pytest.mark.parametrize(
    ("words", "kind", "target"),
    [
        (("--host", "Example.ORG"), ScopeKind.HOST, "example.org"),
        (("--site", "www.example.org"), ScopeKind.SITE, "example.org"),
        (("--origin", "HTTPS://example.org"), ScopeKind.ORIGIN, "https://example.org:443"),
        (("--all",), ScopeKind.CRAWL, ""),
    ],
)
def test_an_act_is_one_record_with_its_target_in_canonical_form(
    sent: Sent, cmd: str, words: tuple[str, ...], kind: ScopeKind, target: str
) -> None:
    result = frontlog(cmd, *words, "-C", "c", "--reason", "asked by mail", "--actor", "ops")
    assert result.exit_code == 0
    (wish,) = sent
    assert (wish.cmd, wish.target_kind, wish.target) == (cmd, kind, target)
    assert (wish.actor, wish.note) == ("ops", "asked by mail")
    assert wish.at_ms > 1_700_000_000_000 and wish.event_id
    assert result.stdout.endswith(f"{kind.value} {target}".rstrip() + ".\n")


def test_a_partition_can_be_named_too_and_who_asks_is_the_user(sent: Sent) -> None:
    for cmd in ("pause", "block"):
        assert frontlog(cmd, "--partition", "2", "-C", "c").exit_code == 0
    assert [(one.cmd, one.target_kind, one.target) for one in sent] == [
        ("pause", ScopeKind.PARTITION, "2"),
        ("block", ScopeKind.PARTITION, "2"),
    ]
    assert sent[0].actor


@pytest.mark.parametrize("words", [(), ("--host", "a", "--site", "b"), ("--host", "a", "--all")])
def test_exactly_one_target_is_named(sent: Sent, words: tuple[str, ...]) -> None:
    result = frontlog("pause", *words, "-C", "c")
    assert (result.exit_code, sent) == (2, [])
    assert "one of --partition, --origin, --host, --site, --all" in result.stderr


@pytest.mark.parametrize(
    "words",
    [
        ("pause", "--partition", "two"),
        ("pause", "--host", "a b"),
        ("pause", "--origin", "example.org"),
        ("slow", "a b", "--gap", "3"),
        ("slow", "example.org", "--gap", "-3"),
        ("slow", "example.org", "--gap", "nan"),
        ("slow", "http://example.org/", "--gap", "3"),
        ("slow", "example.org", "--gap", "86401"),
        ("slow", "example.org"),
        ("seed", "example.org"),
        ("seed",),
        ("recrawl", "ftp://example.org/"),
    ],
)
def test_what_cannot_be_followed_is_refused_before_it_is_sent(sent: Sent, words: tuple[str, ...]) -> None:
    result = frontlog(*words, "-C", "c")
    assert (result.exit_code, sent) == (2, [])
    assert result.stderr


def test_slow_sets_a_gap_and_takes_it_away(sent: Sent) -> None:
    assert frontlog("slow", "Example.org", "--gap", "2.5", "-C", "c").stdout == (
        "At least 2.5 s between requests to example.org.\n"
    )
    assert (
        frontlog("slow", "example.org", "--gap", "0", "-C", "c").stdout
        == "No gap of its own for example.org.\n"
    )
    assert [(wish.cmd, wish.target_kind, wish.target, wish.gap_ms) for wish in sent] == [
        ("slow", ScopeKind.HOST, "example.org", 2_500),
        ("slow", ScopeKind.HOST, "example.org", 0),
    ]


def test_seeds_go_together_and_recrawls_one_by_one(sent: Sent) -> None:
    urls = [f"http://h/{n}" for n in range(501)]
    assert frontlog("seed", *urls, "-C", "c").stdout == "Seeded 501 URLs.\n"
    assert [len(wish.urls) for wish in sent] == [500, 1]
    assert [url for wish in sent for url in wish.urls] == urls
    sent.clear()
    assert frontlog("recrawl", *urls[:2], "-C", "c").stdout == "Asked for 2 URLs again.\n"
    assert [(wish.cmd, wish.urls) for wish in sent] == [("recrawl", (urls[0],)), ("recrawl", (urls[1],))]


def test_every_record_has_an_id_of_its_own(sent: Sent) -> None:
    for _ in range(3):
        frontlog("pause", "--all", "-C", "c")
    assert len({wish.event_id for wish in sent}) == 3


def test_the_record_can_be_written_as_json_too(sent: Sent) -> None:
    from frontlog.processors.control import check, from_json

    frontlog("slow", "example.org", "--gap", "3", "-C", "c", "--actor", "ops", "--reason", "slow server")
    text = json.dumps(
        {
            "cmd": "slow",
            "target": {"host": "example.org"},
            "gap_ms": 3_000,
            "actor": "ops",
            "reason": "slow server",
        }
    )
    by_hand = check(from_json(text.encode()))
    fields = ("cmd", "target_kind", "target", "gap_ms", "actor", "note")
    assert [getattr(sent[0], f) for f in fields] == [getattr(by_hand, f) for f in fields]
