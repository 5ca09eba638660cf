"""Identities: the examples of seed 000, each rule, idempotence, and what is kept apart."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from frontlog.avro.enums import Reason
from frontlog.avro.errors import ConfigError
from frontlog.processors.canonical import (
    IDENTITY_CHARACTERS_MAX,
    SPELLING_CHARACTERS_MAX,
    Identity,
    Refused,
    canonicalize,
    check_url,
    identify,
)
from frontlog.processors.url_rules import CONSERVATIVE, INDEX, OriginRules, rules_of

NEWS = OriginRules(tracking_params=("utm_source", "utm_medium"), query_order_insensitive=True)


def identity_of(url: str, rules: OriginRules = CONSERVATIVE) -> str:
    found = canonicalize(url, rules)
    assert isinstance(found, Identity)
    return found.identity


def fired(url: str, rules: OriginRules = CONSERVATIVE, base: str | None = None) -> tuple[str, ...]:
    found = canonicalize(url, rules, base=base)
    assert isinstance(found, Identity)
    return found.rules_fired


@pytest.mark.parametrize(
    ("before", "after", "rules", "rules_fired"),
    [
        # Seed 000, chapter 3: six examples, and what they are without the origin's policy.
        (
            "HTTP://News-A.EXAMPLE.test:80/articles/chip-supply#top",
            "http://news-a.example.test/articles/chip-supply",
            CONSERVATIVE,
            ("scheme_case", "host_case", "default_port", "fragment"),
        ),
        (
            "https://news-a.example.test/a/b/../chip-supply",
            "https://news-a.example.test/a/chip-supply",
            CONSERVATIVE,
            ("dot_segments",),
        ),
        (
            "https://news-a.example.test/articles/chip-supply?utm_source=x&utm_medium=y",
            "https://news-a.example.test/articles/chip-supply",
            NEWS,
            ("tracking_params",),
        ),
        (
            "https://news-a.example.test/articles/chip-supply?utm_source=x&utm_medium=y",
            "https://news-a.example.test/articles/chip-supply?utm_source=x&utm_medium=y",
            CONSERVATIVE,
            (),
        ),
        (
            "https://news-a.example.test/a?b=2&a=1",
            "https://news-a.example.test/a?a=1&b=2",
            NEWS,
            ("query_order",),
        ),
        ("https://news-a.example.test/a?b=2&a=1", "https://news-a.example.test/a?b=2&a=1", CONSERVATIVE, ()),
        (
            "https://docs-b.example.test/Guide/Setup",
            "https://docs-b.example.test/Guide/Setup",
            CONSERVATIVE,
            (),
        ),
        (
            "https://store-c.example.test/products?id=7",
            "https://store-c.example.test/products?id=7",
            CONSERVATIVE,
            (),
        ),
        # Its pseudocode's example.
        (
            "HTTP://News-A.EXAMPLE.test:80/a#x?utm_source=q",
            "http://news-a.example.test/a",
            CONSERVATIVE,
            ("scheme_case", "host_case", "default_port", "fragment"),
        ),
    ],
)
def test_seed_000(before: str, after: str, rules: OriginRules, rules_fired: tuple[str, ...]) -> None:
    assert (identity_of(before, rules), fired(before, rules)) == (after, rules_fired)


@pytest.mark.parametrize(
    ("raw", "identity", "rules_fired"),
    [
        ("http://h/%7euser/%41%2D", "http://h/~user/A-", ("percent_unreserved",)),
        ("http://h/a%2fb%3a", "http://h/a%2Fb%3A", ("percent_upper",)),
        ("http://h/a%2Fb?c=%26&d=%7E", "http://h/a%2Fb?c=%26&d=~", ("percent_unreserved",)),
        ("http://h/%2525", "http://h/%2525", ()),
        # An escape that its own decoding would complete, or make another of, stays.
        ("http://h/%%37e", "http://h/%%37e", ()),
        ("http://h/%a%37?%%34%31", "http://h/%a%37?%%341", ("percent_unreserved",)),
        ("http://h/%zz%7e", "http://h/%zz~", ("percent_unreserved",)),
        ("http://h/?", "http://h/", ("empty_query",)),
        ("http://h/a?#b", "http://h/a", ("fragment", "empty_query")),
        ("http://h/a?b#", "http://h/a?b", ("fragment",)),
        ("http://h", "http://h/", ("empty_path",)),
        ("http://h?a", "http://h/?a", ("empty_path",)),
        ("http://h./a", "http://h/a", ("trailing_dot_host",)),
        ("http://h../a", "http://h../a", ()),
        ("http://h.:81/a", "http://h:81/a", ("trailing_dot_host",)),
        ("http://bücher.example/", "http://xn--bcher-kva.example/", ("idna",)),
        ("http://0x7f.1/", "http://127.0.0.1/", ("host_form",)),
        ("http://[2001:DB8:0::1]/", "http://[2001:db8::1]/", ("host_form",)),
        ("https://h:443/", "https://h/", ("default_port",)),
        ("https://h:080/", "https://h:80/", ("port_form",)),
        ("http://h:/", "http://h/", ("port_form",)),
        (" http://h/a\n", "http://h/a", ("whitespace",)),
        ("http:\\\\h\\a", "http://h/a", ("slashes", "backslash")),
        ("http:///h/", "http://h/", ("slashes",)),
        ("http://h/é?ü 'x", "http://h/%C3%A9?%C3%BC%20%27x", ("percent_encode",)),
        ("http://h/a/./%2E%2e/b", "http://h/b", ("dot_segments",)),
        ("http://h/A/a//b", "http://h/A/a//b", ()),
    ],
)
def test_each_rule_is_named(raw: str, identity: str, rules_fired: tuple[str, ...]) -> None:
    assert (identity_of(raw), fired(raw)) == (identity, rules_fired)


@pytest.mark.parametrize(
    ("raw", "rules_fired"),
    [
        ("../x", ("relative", "dot_segments")),
        ("//H/x", ("relative", "host_case")),
        ("/x", ("relative",)),
        ("?é", ("relative", "percent_encode")),
        ("", ("relative",)),
        ("\\x", ("relative", "backslash")),
        ("http:x", ("relative",)),
        ("https:x", ("slashes", "empty_path")),
        ("http:/x/../y", ("relative", "dot_segments")),
        ("http://x", ("empty_path",)),
    ],
)
def test_rules_of_relative_spellings(raw: str, rules_fired: tuple[str, ...]) -> None:
    assert fired(raw, base="http://h/a/b") == rules_fired


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        ("mailto:a@h", Reason.BAD_SCHEME),
        ("ftp://h/", Reason.BAD_SCHEME),
        ("javascript:void(0)", Reason.BAD_SCHEME),
        ("http://u@h/", Reason.USERINFO),
        ("http://:p@h/", Reason.USERINFO),
        ("http://", Reason.NO_HOST),
        ("https:?a", Reason.NO_HOST),
        ("/a", Reason.UNPARSABLE),
        ("", Reason.UNPARSABLE),
        ("http://h:99999/", Reason.UNPARSABLE),
        ("http://a b/", Reason.UNPARSABLE),
        ("http://[::1/", Reason.UNPARSABLE),
        ("http://h/" + "a" * IDENTITY_CHARACTERS_MAX, Reason.TOO_LONG),
        ("http://h/#" + "a" * SPELLING_CHARACTERS_MAX, Reason.TOO_LONG),
    ],
)
def test_refusals(raw: str, reason: Reason) -> None:
    found = canonicalize(raw)
    assert isinstance(found, Refused)
    assert found.reason is reason


def test_length_is_the_identitys() -> None:
    longest = "http://h/" + "a" * (IDENTITY_CHARACTERS_MAX - 9)
    assert identity_of(longest) == longest
    assert identity_of(longest + "#" + "b" * 5_000) == longest
    assert identity_of("http://h/?" + "%61" * 2_000) == "http://h/?" + "a" * 2_000
    assert isinstance(canonicalize("http://h/?" + "%61" * 2_040), Refused)


def test_requested_is_the_spelling_without_its_fragment() -> None:
    found = canonicalize("http://H.:80/%7ea/?b&a#c", INDEX)
    assert isinstance(found, Identity)
    assert found.requested == "http://h./%7ea/?b&a"
    assert found.identity == "http://h/~a/?a&b"
    assert (found.origin_key, found.host) == ("http://h:80", "h")


RULES = [
    CONSERVATIVE,
    INDEX,
    NEWS,
    OriginRules(ignored_params=("sid", "s*"), slash="strip", scheme="https"),
    OriginRules(slash="add", scheme="http", query_order_insensitive=True),
]


@pytest.mark.parametrize(
    ("raw", "rules", "identity", "rules_fired"),
    [
        ("http://h/a/?x", OriginRules(slash="strip"), "http://h/a?x", ("slash",)),
        ("http://h/", OriginRules(slash="strip"), "http://h/", ()),
        ("http://h/a//", OriginRules(slash="strip"), "http://h/a//", ()),
        ("http://h/a?x", OriginRules(slash="add"), "http://h/a/?x", ("slash",)),
        ("http://h/a.html", OriginRules(slash="add"), "http://h/a.html", ()),
        ("http://h/a.b/c", OriginRules(slash="add"), "http://h/a.b/c/", ("slash",)),
        ("http://h/a", OriginRules(scheme="https"), "https://h/a", ("scheme",)),
        ("https://h/a", OriginRules(scheme="https"), "https://h/a", ()),
        ("http://h:8080/a", OriginRules(scheme="https"), "http://h:8080/a", ()),
        (
            "http://h/?b=2&a&b=1&a=",
            OriginRules(query_order_insensitive=True),
            "http://h/?a&a=&b=1&b=2",
            ("query_order",),
        ),
        ("http://h/?a=1&b=2", OriginRules(query_order_insensitive=True), "http://h/?a=1&b=2", ()),
        (
            "http://h/?sid=1&side=2&x",
            OriginRules(ignored_params=("sid",)),
            "http://h/?side=2&x",
            ("ignored_params",),
        ),
        ("http://h/?utm%5Fsource=1", INDEX, "http://h/", ("percent_unreserved", "tracking_params")),
        ("http://h/?UTM_source=1&q=utm_", INDEX, "http://h/?UTM_source=1&q=utm_", ()),
        ("http://h/?fbclid=1&z&a", INDEX, "http://h/?a&z", ("tracking_params", "query_order")),
        ("http://h/?&&", OriginRules(tracking_params=("*",)), "http://h/?&&", ()),
    ],
)
def test_policy_rules(raw: str, rules: OriginRules, identity: str, rules_fired: tuple[str, ...]) -> None:
    assert (identity_of(raw, rules), fired(raw, rules)) == (identity, rules_fired)


def test_the_scheme_form_moves_the_origin() -> None:
    found = canonicalize("http://h/a", OriginRules(scheme="https"))
    assert isinstance(found, Identity)
    assert (found.origin_key, found.requested) == ("https://h:443", "http://h/a")


@pytest.mark.parametrize(
    ("host", "flags"),
    [
        ("аpple.com", ("mixed_script",)),
        ("яндекс.example", ()),
        ("bücher.example", ()),
        ("日本のABCサイト.example", ()),
        ("한국china.example", ()),
        ("αdidas.example", ("mixed_script",)),
        ("apple.com", ()),
        ("xn--.example", ()),
    ],
)
def test_mixed_scripts_are_flagged_and_not_merged(host: str, flags: tuple[str, ...]) -> None:
    found = canonicalize(f"http://{host}/")
    assert isinstance(found, Identity)
    assert found.flags == flags
    assert found.rules_fired == (() if host.isascii() else ("idna",))


PIECES = st.sampled_from(
    [
        *("%", "%2", "%7", "%7e", "%41", "%2f", "%25", "%2E", "37", "e", "a", "A", "/", "//", ".", "..", "?"),
        *("#", "&", "=", "utm_x=1", "sid=2", "b=1", "+", "é", " ", "\\", ";", ":", "@", "~", "'", "\t"),
    ]
)
HOSTS = st.sampled_from(
    ["h", "H.", "a.b..", "h:80", "h:443", "h:8080", "[::1]", "1.2", "bücher.de", "аpple.de."]
)


@given(
    st.sampled_from(["http", "https", "HTTP"]),
    HOSTS,
    st.lists(st.one_of(PIECES, st.text(max_size=2)), max_size=12).map("".join),
    st.sampled_from(RULES),
)
@example("http", "h", "/%%37e?%%37e", CONSERVATIVE)
@example("http", "h", "/a/?&utm_x&&b&a", INDEX)
@example("http", "h.", "/a.b//?", RULES[4])
def test_idempotent(scheme: str, host: str, rest: str, rules: OriginRules) -> None:
    found = canonicalize(f"{scheme}://{host}/{rest}", rules)
    if isinstance(found, Refused):
        return
    again = canonicalize(found.identity, rules)
    assert isinstance(again, Identity)
    assert (again.identity, again.requested) == (found.identity, found.identity)
    assert again.rules_fired == ()
    assert (again.origin_key, again.host, again.flags) == (found.origin_key, found.host, found.flags)
    assert identify(found.requested, rules) == canonicalize(found.requested, rules)
    assert "#" not in found.requested
    assert len(found.identity) <= IDENTITY_CHARACTERS_MAX


def test_check_url() -> None:
    assert check_url({"raw": "../b?utm_id=1", "base": "http://a.example.co.uk/x/y", "rules": "index"}) == {
        "identity": "http://a.example.co.uk/b",
        "requested": "http://a.example.co.uk/b?utm_id=1",
        "origin_key": "http://a.example.co.uk:80",
        "site": "example.co.uk",
        "rules_fired": ["relative", "dot_segments", "tracking_params"],
    }
    assert check_url({"raw": "http://аpple.com/"})["flags"] == ["mixed_script"]
    assert check_url({"raw": "mailto:x"}) == {"reject": "bad_scheme", "detail": "mailto"}
    assert check_url({"raw": "x"}) == {"reject": "unparsable"}
    assert check_url({"raw": "http://h/?b&a", "rules": {"query_order_insensitive": True}})["rules_fired"] == [
        "query_order"
    ]


@pytest.mark.parametrize(
    "line",
    [
        {},
        {"raw": 1},
        {"raw": "http://h/", "base": 1},
        {"raw": "http://h/", "rules": "unknown"},
        {"raw": "http://h/", "rules": {"unknown": 1}},
        {"raw": "http://h/", "rules": {"slash": "drop"}},
        {"raw": "http://h/", "rules": {"tracking_params": "utm_*"}},
    ],
)
def test_questions_without_an_answer(line: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        check_url(line)


def test_rules_by_name() -> None:
    assert rules_of("conservative") is CONSERVATIVE
    assert rules_of("index") is INDEX
    assert rules_of({"tracking_params": ["a*"]}) == OriginRules(tracking_params=("a*",))
