"""`collisions`, `rules` and `rule`: what is asked, shown and sent."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from frontlog import machinery
from frontlog.avro.enums import Reason, RuleAct, RuleName, ScopeKind
from frontlog.avro.events import Control
from frontlog.cli import main
from frontlog.crawl_folder import configure
from frontlog.replay.shapes import Collision, Dropped, Rule, Tally
from frontlog.wording import signal_line

FOUND = (
    Collision("http://h/p", 13, ("ignored_params",), tuple(f"http://h/p?sid={n:02}" for n in range(13))),
    Collision("http://h/q", 1, ("slash",), ("http://h/q/",)),
)
RULES = (
    Rule(
        origin_key="http://h:80", rule=RuleName.SLASH, value="strip", act=RuleAct.APPLIED, learned=True, agreeing=30,
        against=1, at_ms=1_796_050_800_000,
    ),
    Rule(origin_key="http://h:80", rule=RuleName.QUERY_ORDER, value="", act=RuleAct.REFUSED, actor="ops", note="no"),
)  # fmt: skip


@pytest.fixture(autouse=True)
def _folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    Path("c").mkdir()
    configure(Path("c"), None, {})


def frontlog(*words: str) -> Result:
    return CliRunner().invoke(main, words, catch_exceptions=False)


def test_collisions_in_words_and_as_json(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, str]] = []

    def job(_: Path, rule: str, origin_key: str) -> tuple[Collision, ...]:
        asked.append((rule, origin_key))
        return FOUND

    monkeypatch.setattr(machinery, "collisions", job)
    shown = frontlog(
        "collisions", "-C", "c", "--rule", "slash", "--origin", "HTTP://H", "--limit", "1"
    ).stdout.splitlines()
    assert asked == [("slash", "http://h:80")]
    assert shown[0] == "http://h/p  13 spellings (ignored_params)"
    assert shown[-2:] == ["    and 3 more", "14 spellings of 2 identities, 1 of them shown."]
    lines = frontlog("collisions", "-C", "c", "--limit", "0", "--json").stdout.splitlines()
    assert [json.loads(line)["count"] for line in lines] == [13, 1]
    assert frontlog("collisions", "-C", "c", "--origin", "h").exit_code == 2


def test_rules_in_words_and_as_json(monkeypatch: pytest.MonkeyPatch) -> None:
    given = list(RULES)

    def job(_folder: Path, _origin: str) -> tuple[Rule, ...]:
        return tuple(given)

    monkeypatch.setattr(machinery, "rules", job)
    assert frontlog("rules", "-C", "c").stdout.splitlines() == [
        "applied slash=strip at http://h:80 since 2026-11-30T15:00:00.000Z, 30 for, 1 against, learned",
        "refused query_order at http://h:80 since 1970-01-01T00:00:00.000Z, by ops: no",
    ]
    assert json.loads(frontlog("rules", "-C", "c", "--json").stdout.splitlines()[0])["rule"] == "slash"
    given.clear()
    assert frontlog("rules", "-C", "c").stdout == "No origin has a rule of its own.\n"


@pytest.mark.parametrize(
    ("act", "rule", "name", "value"),
    [
        ("apply", "slash=add", "slash", "add"),
        ("refuse", "ignored_params=sid", "ignored_params", "sid"),
        ("withdraw", "query_order", "query_order", ""),
    ],
)
def test_an_act_on_a_rule_is_one_record(
    monkeypatch: pytest.MonkeyPatch, act: str, rule: str, name: str, value: str
) -> None:
    sent: list[Control] = []

    def send(_: Path, wish: Control) -> None:
        sent.append(wish)

    monkeypatch.setattr(machinery, "send", send)
    assert frontlog("rule", act, rule, "--origin", "http://h", "-C", "c", "--actor", "ops").exit_code == 0
    (wish,) = sent
    assert (wish.cmd, wish.target_kind, wish.target, wish.rule, wish.value) == (
        f"rule_{act}", ScopeKind.ORIGIN, "http://h:80", name, value,
    )  # fmt: skip
    for wrong in ("slash=drop", "fragment", "ignored_params"):
        assert frontlog("rule", act, wrong, "--origin", "http://h", "-C", "c").exit_code == 2
    assert len(sent) == 1


def test_a_signal_names_the_command_that_shows_it() -> None:
    line = signal_line(Tally("http://h:80", "slash", 1_234, 1_796_050_800_000))
    assert "slash took 1,234 URLs of http://h:80" in line
    assert line.endswith("see frontlog collisions --rule slash --origin http://h:80")


DROPPED = (
    Dropped("http://h/2040/01", Reason.TRAP_CALENDAR, "http://h:80", "http://h/"),
    Dropped("http://h/x", Reason.HOST_BUDGET, "http://h:80"),
)


def test_traps_are_counted_or_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, str]] = []

    def counts(_: Path, rule: str, origin_key: str) -> tuple[Tally, ...]:
        asked.append((rule, origin_key))
        return (Tally("http://h:80", "trap_calendar", 1_234), Tally("http://h:80", "host_budget", 1))

    def each(_: Path, rule: str, origin_key: str) -> Iterator[Dropped]:
        asked.append((rule, origin_key))
        return iter(DROPPED if not rule else ())

    monkeypatch.setattr(machinery, "dropped_counts", counts)
    monkeypatch.setattr(machinery, "dropped", each)
    assert frontlog("traps", "-C", "c", "--origin", "http://h").stdout.splitlines() == [
        "    1,234  trap_calendar  http://h:80",
        "        1  host_budget  http://h:80",
    ]
    assert frontlog("traps", "-C", "c", "--urls").stdout.splitlines() == [
        "trap_calendar  http://h/2040/01  found on http://h/",
        "host_budget  http://h/x",
    ]
    shown = frontlog("traps", "-C", "c", "--urls", "--json", "--limit", "1").stdout.splitlines()
    assert [json.loads(line)["reason"] for line in shown] == ["trap_calendar"]
    assert frontlog("traps", "-C", "c", "--urls", "--rule", "trap_depth").stdout.startswith(
        "Nothing is refused"
    )
    assert frontlog("traps", "-C", "c", "--rule", "robots_denied").exit_code == 2
    assert asked == [("", "http://h:80"), ("", ""), ("", ""), ("trap_depth", "")]


def test_what_is_readmitted_is_urls_or_a_host(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[Control] = []

    def send(_: Path, wish: Control) -> None:
        sent.append(wish)

    monkeypatch.setattr(machinery, "send", send)
    assert (
        frontlog("readmit", "http://h/2040/01", "http://h/2040/02", "-C", "c").stdout
        == "Readmitted 2 URLs.\n"
    )
    assert [wish.urls for wish in sent] == [("http://h/2040/01",), ("http://h/2040/02",)]
    words = ("readmit", "--host", "H", "--rule", "trap_depth", "--rule", "trap_calendar", "-C", "c")
    assert frontlog(*words).stdout == "Lifted for h: trap_depth, trap_calendar.\n"
    assert (sent[-1].target_kind, sent[-1].rule) == (ScopeKind.HOST, "trap_depth trap_calendar")
    frontlog("readmit", "--host", "h", "--rule", "none", "-C", "c")
    assert sent[-1].rule == "none"
    for wrong in ((), ("http://h/", "--host", "h"), ("http://h/", "--rule", "all")):
        assert frontlog("readmit", *wrong, "-C", "c").exit_code == 2
    assert len(sent) == 4


@pytest.mark.parametrize(
    ("question", "in_scope", "reason"),
    [
        ({"url": "http://h/a", "seeds": ["http://h/"]}, True, None),
        ({"url": "http://h/a"}, True, None),
        ({"url": "http://h/a", "seeds": []}, False, "out_of_scope"),
        ({"url": "http://h/a", "scope": {"mode": "any"}, "depth": 17}, False, "out_of_scope"),
        (
            {"url": "http://h/p/a", "seeds": ["http://h/q/", "http://h/p/"], "scope": {"mode": "prefix"}},
            True,
            None,
        ),
        (
            {"url": "http://h/p/a", "seeds": ["http://h/q/"], "scope": {"mode": "prefix"}},
            False,
            "out_of_scope",
        ),
        ({"url": "http://b.h.org/", "seeds": ["http://h.org/"], "scope": {"mode": "site"}}, True, None),
        ({"url": "http://h/2040/01", "seeds": ["http://h/"], "at_ms": 0}, False, "trap_calendar"),
        ({"url": "http://h/2040/01", "seeds": ["http://h/"], "traps": {"days_ahead_max": 0}}, True, None),
        ({"url": "ftp://h/"}, False, "bad_scheme"),
    ],
)
def test_check_scope(question: dict[str, object], in_scope: bool, reason: str | None) -> None:
    answer = json.loads(frontlog("check", "scope", json.dumps(question)).stdout)
    assert (answer["in_scope"], answer.get("reason")) == (in_scope, reason)
    assert ("pattern" in answer) is (reason != "bad_scheme")


def test_check_scope_by_arguments() -> None:
    assert json.loads(frontlog("check", "scope", "http://h/12/x?b=1").stdout)["pattern"] == "/#/x?b"
    assert not json.loads(frontlog("check", "scope", "http://h/", "--seed", "http://i/").stdout)["in_scope"]
    for wrong in ('{"url": 1}', '{"url": "http://h/", "seeds": ["x"]}', '{"url": "http://h/", "more": 1}'):
        assert frontlog("check", "scope", wrong).exit_code == 2
