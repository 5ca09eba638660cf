"""The settings catalogue and the loader: defaults, bounds, and what a person is told about a mistake."""

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import msgspec
import pytest

from frontlog import __version__
from frontlog.commands_site import settings_toml
from frontlog.config import load, parse_value, value_of
from frontlog.crawl_folder import as_toml
from frontlog.errors import ConfigError
from frontlog.processors.settings import Settings, decode, encode
from frontlog.settings_catalogue import CATALOGUE, Setting, Use, sections
from frontlog.streams.options import Options, Parse

NUMBERS = [setting for setting in CATALOGUE.values() if setting.kind in ("whole number", "number")]


def ids(setting: Setting) -> str:
    return setting.name


def test_every_field_of_the_code_has_one_row_and_every_row_a_field() -> None:
    fields = [
        f"{section}.{field.name}"
        for root in (Settings, Options)
        for section, struct in sections(root).items()
        for field in msgspec.structs.fields(struct)
    ]
    assert sorted(fields) == sorted(CATALOGUE)


def test_defaults_pass_their_own_checks() -> None:
    defaults = {name: setting.default for name, setting in CATALOGUE.items()}
    assert load(None, defaults) == load()


@pytest.mark.parametrize("setting", CATALOGUE.values(), ids=ids)
def test_each_setting_says_what_it_means_in_a_sentence(setting: Setting) -> None:
    assert setting.doc.endswith(".")
    assert setting.doc[0].isupper() or setting.doc[0] == "`"


@pytest.mark.parametrize("setting", NUMBERS, ids=ids)
def test_each_number_has_bounds_that_are_held(setting: Setting) -> None:
    least, most = setting.least, setting.most
    assert least is not None and most is not None
    assert least <= setting.default <= most
    kind: Any = int if setting.kind == "whole number" else float
    for value in (kind(least) - 1, kind(most) + 1):
        with pytest.raises(ConfigError, match=f"{setting.name} = .*must be from"):
            load(None, {setting.name: value})


@pytest.mark.parametrize("setting", CATALOGUE.values(), ids=ids)
def test_each_setting_refuses_another_type(setting: Setting) -> None:
    wrong = 7 if setting.kind not in ("whole number", "number") else "7"
    with pytest.raises(ConfigError, match=f"{setting.name} = .*must be"):
        load(None, {setting.name: wrong})


@pytest.mark.parametrize("value", [True, float("nan"), float("inf")])
def test_a_number_is_a_number(value: object) -> None:
    with pytest.raises(ConfigError, match="must be a number"):
        load(None, {"politeness.gap_factor": value})


def test_what_decides_goes_into_the_log_and_the_rest_does_not() -> None:
    config = load(None, {"politeness.gap_ms_min": 2_500, "fetch.slots": 3})
    plain = config.deciding()
    assert plain["politeness"]["gap_ms_min"] == 2_500
    assert "fetch" not in plain and "contact" not in plain["identity"]
    assert decode(encode(config.settings)) == config.settings
    assert json.loads(encode(config.settings)) == json.loads(json.dumps(plain))
    deciding = {name for name, setting in CATALOGUE.items() if setting.use is Use.DECIDES}
    assert deciding == {f"{section}.{field}" for section, fields in plain.items() for field in fields}


def test_a_file_is_read_and_the_command_line_outranks_it(tmp_path: Path) -> None:
    path = tmp_path / "frontlog.toml"
    path.write_text(
        "[politeness]\ngap_ms_min = 2000\ngap_factor = 5\n[fetch.resolve]\n"
        '"example.org" = ["192.0.2.1", "2001:db8::1"]\nother = "192.0.2.2"\n'
    )
    config = load(path, {"politeness.gap_ms_min": 3_000})
    assert config.settings.politeness.gap_ms_min == 3_000
    assert config.settings.politeness.gap_factor == 5.0
    assert config.options.fetch.resolve == {
        "example.org": ("192.0.2.1", "2001:db8::1"),
        "other": ("192.0.2.2",),
    }
    assert config.sources == (str(path),)


UNKNOWN = "there is no setting"
MISTAKES = [
    ("[politeness]\n\ngap_ms = 5", 3, f"{UNKNOWN} politeness.gap_ms; did you mean politeness.gap_ms_min?"),
    ("[polite]\ngap_ms_min = 5", 2, f"{UNKNOWN} polite.gap_ms_min; did you mean politeness.gap_ms_min?"),
    ("politeness.gap_ms = 5", 1, f"{UNKNOWN} politeness.gap_ms; did you mean politeness.gap_ms_min?"),
    ("gap_ms_min = 5", 1, f"{UNKNOWN} gap_ms_min; did you mean politeness.gap_ms_min?"),
    ("[xyzzy]\nfoo = 1", 2, f"{UNKNOWN} xyzzy.foo; `frontlog settings` lists them all"),
    ("# x\n[limits]\nconnect_ms = 'fast'", 3, "must be a whole number of ms; the default is 10000"),
    ("[limits]\nconnect_ms = 0", 2, "must be from 1 to 600000 ms; the default is 10000"),
    ("[scope]\nmode = 'hosts'", 2, "must be one of host, site, prefix, any; the default is host"),
    ("[scope]\ninclude = ['(']", 2, "pattern '(': not a regular expression"),
    ("[fetch]\n\nresolve = {a = 'b'}", 3, "a: 'b' is no IP address"),
    ("[fetch.resolve]\na = 'b'", 1, "a: 'b' is no IP address"),
    ("[scope\n", 1, "not TOML"),
]


@pytest.mark.parametrize(("text", "line", "said"), MISTAKES)
def test_a_mistake_in_a_file_is_said_with_its_line(tmp_path: Path, text: str, line: int, said: str) -> None:
    path = tmp_path / "frontlog.toml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=re.escape(said)) as caught:
        load(path)
    assert str(path) in str(caught.value)
    assert f"line {line}" in str(caught.value)
    assert caught.value.exit_code == 2


def test_a_file_that_cannot_be_read_is_said(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        load(tmp_path / "none.toml")
    (tmp_path / "latin.toml").write_bytes(b"# caf\xe9\n")
    with pytest.raises(ConfigError, match="not UTF-8 at byte 5"):
        load(tmp_path / "latin.toml")


def test_a_lease_must_outlast_a_fetch() -> None:
    with pytest.raises(
        ConfigError, match=r"attempts.lease_ms = 90000 .*command line.*more than limits.total_ms"
    ):
        load(None, {"limits.total_ms": 90_000})
    assert load(None, {"limits.total_ms": 90_000, "attempts.lease_ms": 90_001})


@pytest.mark.parametrize(
    ("name", "value", "is_right"),
    [
        ("identity.token", "Example-Bot_x", True),
        ("identity.token", "ExampleBot/1.0", False),
        ("identity.token", "Example Bot", False),
        ("identity.token", "bot2", False),
        ("identity.token", "", False),
        ("identity.info_url", "https://example.org/bot?a=b", True),
        ("identity.info_url", "example.org/bot", False),
        ("identity.info_url", "https:example.org", False),
        ("identity.info_url", "https://example.org/a b", False),
        ("identity.info_url", "https://example.org/(bot)", False),
        ("identity.info_url", "ftp://example.org/", False),
        ("identity.info_url", "https://example.org/\r\nX: y", False),
        ("identity.contact", "crawler@example.org", True),
        ("identity.contact", "https://example.org/contact", True),
        ("identity.contact", "ask me", False),
        ("identity.contact", "a@b\r\nX: y", False),
        ("identity.reverse_dns", "crawl.example.org", True),
        ("identity.reverse_dns", "*.example.org", False),
        ("identity.addresses", ["192.0.2.0/24", "2001:db8::1"], True),
        ("scope.include", ["/news/", r"\.html$", "a+b*", "(ab)+", "(a|b+)", "[(a+)]+", r"\(a+\)+"], True),
        ("scope.include", ["(a+)+"], False),
        ("scope.include", ["(a*b)*"], False),
        ("scope.include", ["((a{1,9}))*"], False),
        ("scope.include", ["(a+){2,}"], False),
        ("scope.include", [r"(a)\1"], False),
        ("scope.include", ["(?P<x>a)(?P=x)"], False),
        ("scope.exclude", ["x" * 501], False),
        ("scope.exclude", ["x"] * 101, False),
        ("fetch.types", ["text/html", "image/"], True),
        ("fetch.types", ["html"], False),
        ("fetch.types", ["Text/HTML"], False),
        ("fetch.allow_addresses", ["127.0.0.0/8", "::1"], True),
        ("fetch.allow_addresses", ["127.0.0.1/8"], False),
        ("fetch.allow_addresses", ["localhost"], False),
        ("fetch.resolve", {"example.org": []}, False),
        ("fetch.resolve", {"": ["192.0.2.1"]}, False),
        ("fetch.resolve", {"http://a/": ["192.0.2.1"]}, False),
    ],
)  # fmt: skip
def test_values_that_need_a_closer_look(name: str, value: object, is_right: bool) -> None:
    if is_right:
        load(None, {name: value})
    else:
        with pytest.raises(ConfigError, match=name):
            load(None, {name: value})


@pytest.mark.parametrize(
    ("identity", "third"),
    [
        ({}, ""),
        ({"identity.contact": "me@example.org"}, "; +mailto:me@example.org"),
        ({"identity.contact": "https://example.org/me"}, "; +https://example.org/me"),
        (
            {"identity.contact": "me@example.org", "identity.info_url": "https://example.org/bot"},
            "; +https://example.org/bot",
        ),
    ],
)
def test_the_user_agent(identity: dict[str, object], third: str) -> None:
    given = load(None, {**identity, "identity.token": "ExampleBot"})
    assert given.user_agent == f"Mozilla/5.0 (compatible; ExampleBot/{__version__}{third})"


@pytest.mark.parametrize(
    ("text", "value"),
    [("5", 5), ("0.5", 0.5), ("true", True), ("[1, 2]", [1, 2]), ('"5"', "5"), ("host", "host"), ("", "")],
)
def test_values_on_a_command_line(text: str, value: object) -> None:
    assert parse_value(text) == value


def test_the_listed_settings_are_a_configuration(tmp_path: Path) -> None:
    changed = {"scope.exclude": ['"quoted"', r"back\slash", "é\x7f"], "fetch.resolve": {"a.b": ["192.0.2.1"]}}
    config = load(None, changed)
    text = settings_toml(config)
    (tmp_path / "all.toml").write_text(text)
    again = load(tmp_path / "all.toml")
    assert (again.settings, again.options) == (config.settings, config.options)
    everything = "\n".join(line.removeprefix("# ") if " = " in line else line for line in text.splitlines())
    assert {f"{s}.{f}" for s, fields in tomllib.loads(everything).items() for f in fields} == set(CATALOGUE)


def test_what_is_written_as_toml_is_read_back() -> None:
    values: dict[str, object] = {
        "a.text": 'x"\\\n\t\x7fé\u2028',
        "a.number": 1.5,
        "a.flag": True,
        "b.list": ["x", "y"],
        "b.table": {"k.k": ["v"], "": []},
    }
    read = tomllib.loads(as_toml(values))
    assert {
        f"{section}.{field}": value for section, table in read.items() for field, value in table.items()
    } == values


def test_there_is_always_a_parser() -> None:
    assert Parse(workers=3).worker_count() == 3
    assert Parse().worker_count() >= 1


def test_every_setting_can_be_looked_up() -> None:
    config = load()
    assert {name: value_of(config, name) for name in CATALOGUE} == {
        n: s.default for n, s in CATALOGUE.items()
    }
