"""The robots.txt parser: groups, lines, encodings, limits, and arbitrary bytes.

What this does not verify: that the web's files are read as their owners meant them; the conformance tests
have the standard's own cases.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frontlog.processors.robots_txt import LIMIT_BYTES, NOTES_MAX, parse, valid_product_token, verdict

SEED = b"""\
User-agent: *
Disallow: /account/
Disallow: /cart/

User-agent: Atlas-Bot
Disallow: /account/
Allow: /account/help/
Disallow: /search
"""


def allowed(text: str | bytes, url: str, token: str = "bot") -> bool:
    """The verdict on a file given as text."""
    return verdict(parse(text.encode() if isinstance(text, str) else text), token, url).allowed


# --- groups ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("/account/orders", (False, "Disallow: /account/", 6, "Atlas-Bot")),
        ("/account/help/faq", (True, "Allow: /account/help/", 7, "Atlas-Bot")),
        ("/products/lamp", (True, None, None, "Atlas-Bot")),
        ("/search?q=lamp", (False, "Disallow: /search", 8, "Atlas-Bot")),
        ("/cart/1", (True, None, None, "Atlas-Bot")),
    ],
)
def test_seed_example_names_group_rule_and_line(
    target: str, expected: tuple[bool, str | None, int | None, str]
) -> None:
    assert verdict(parse(SEED), "atlas-bot", target) == expected


def test_another_crawler_gets_the_star_group_and_nobody_gets_both() -> None:
    robots = parse(SEED)
    assert verdict(robots, "other", "/cart/1") == (False, "Disallow: /cart/", 3, "*")
    assert robots.group("other").name == "*"
    assert parse(b"User-agent: a\nDisallow: /\n").group("b").name == ""


@pytest.mark.parametrize(
    "between",
    [
        "Crawl-delay: 5",
        "Sitemap: https://a.example/s.xml",
        "Unknown: x",
        "junk",
        "",
        "# note",
        "Host: a",
        "\0",
    ],
)
def test_other_lines_do_not_end_the_list_of_agents(between: str) -> None:
    text = f"User-agent: bot\n{between}\nUser-agent: *\nDisallow: /x\n"
    assert not allowed(text, "/x", "bot")
    assert not allowed(text, "/x", "other")


def test_a_rule_ends_the_list_even_when_it_is_empty_or_unusable() -> None:
    for rule in ("Disallow:", "Allow: /y", "Disallow: nonsense"):
        assert allowed(f"User-agent: bot\n{rule}\nUser-agent: *\nDisallow: /x\n", "/x", "bot")


def test_groups_of_one_token_are_one_whatever_their_case() -> None:
    robots = parse(
        b"User-agent: Bot\nDisallow: /a\n\nUser-agent: x\nDisallow: /b\n\nUser-agent: bOT\nDisallow: /c\n"
    )
    assert [rule.line for rule in robots.group("BOT").rules] == [2, 8]
    assert robots.group("bot").name == "Bot"


def test_a_group_without_rules_allows_everything() -> None:
    assert allowed("User-agent: *\nDisallow: /\n\nUser-agent: bot\n", "/x", "bot")


def test_rules_before_any_agent_are_ignored_with_a_note() -> None:
    robots = parse(b"Disallow: /\nCrawl-delay: 3\nUser-agent: *\nDisallow: /x\n")
    assert verdict(robots, "bot", "/y").allowed
    assert [note.line for note in robots.notes] == [1, 2]


@pytest.mark.parametrize(
    ("line", "token"),
    [("FooBot/1.2", "FooBot"), ("foo bar", "foo"), ("foo*", "foo"), ("foo, bar", "foo"), ("f_o-o", "F_O-O")],
)
def test_tokens_are_cut_at_the_first_foreign_character(line: str, token: str) -> None:
    text = f"User-agent: {line}\nDisallow: /\n"
    assert not allowed(text, "/x", token)
    assert allowed(text, "/x", token + "z")


def test_an_agent_line_without_a_token_still_ends_the_group_before() -> None:
    for line in ("User-agent:", "User-agent: 42", "User-agent: *bot"):
        assert allowed(f"User-agent: bot\nDisallow: /x\n{line}\nDisallow: /y\n", "/y", "bot")


def test_star_may_be_followed_by_a_comment_or_space() -> None:
    assert not allowed("User-agent: * # all\nDisallow: /\n", "/x")
    assert not allowed("User-agent: * all\nDisallow: /\n", "/x")


def test_a_name_with_digits_is_no_token_and_has_no_group() -> None:
    text = "User-agent: AB42bot\nDisallow: /\n"
    assert allowed(text, "/x", "AB42bot")
    assert not allowed(text, "/x", "ab")


@pytest.mark.parametrize(
    ("text", "valid"),
    [
        ("frontlog", True),
        ("Front_log-x", True),
        ("", False),
        ("a1", False),
        ("a b", False),
        ("bot\n", False),
        ("ß", False),
    ],
)
def test_valid_product_token(text: str, valid: bool) -> None:
    assert valid_product_token(text) is valid


# --- lines -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["\n", "\r", "\r\n"])
def test_line_ends_and_line_numbers(end: str) -> None:
    text = end.join(["# one", "", "user-agent : bot", "  disallow\t:\t/x  # why", "allow: /y"])
    assert verdict(parse(text.encode()), "bot", "/x") == (False, "Disallow: /x", 4, "bot")


@pytest.mark.parametrize("key", ["Disalow", "dissallow", "DISSALOW", "diasllow", "disallaw"])
def test_misspelt_disallow_counts_with_a_note(key: str) -> None:
    robots = parse(f"User-agent: *\n{key}: /x\n".encode())
    assert not verdict(robots, "bot", "/x").allowed
    assert [note.line for note in robots.notes] == [2]


@pytest.mark.parametrize("agent", ["useragent: bot", "User Agent: bot", "user-agent bot", "user-agent\tbot"])
@pytest.mark.parametrize("rule", ["disallow /x", "Disallow\t /x"])
def test_misspelt_agents_and_missing_colons_count(agent: str, rule: str) -> None:
    assert not allowed(f"{agent}\n{rule}\n", "/x", "bot")


def test_a_missing_colon_needs_exactly_two_words() -> None:
    assert allowed("User-agent: *\nDisallow /x and more\n", "/x")


@pytest.mark.parametrize("pattern", ["x", "http://a.example/x", "$", "?q", " "])
def test_patterns_that_cannot_match_a_path_are_no_rules(pattern: str) -> None:
    assert allowed(f"User-agent: *\nDisallow: {pattern}\n", "http://a.example/x?q")


def test_crawl_delay_of_each_agent() -> None:
    robots = parse(
        b"User-agent: a\nCrawl-delay: 5\nUser-agent: b\nCrawl-delay: 0.5\nUser-agent: *\nDisallow: /x\n"
        b"User-agent: a\nCrawl-delay: 2\nDisallow: /y\nCrawl-delay: .0011\n"
    )
    assert [robots.group(token).crawl_delay_ms for token in ("a", "b", "c")] == [5_000, 500, None]
    assert {token: len(robots.group(token).rules) for token in "abc"} == {"a": 2, "b": 1, "c": 1}


@pytest.mark.parametrize(
    ("value", "delay_ms"),
    [
        ("0", 0),
        ("1", 1_000),
        ("1.5", 1_500),
        ("1.", 1_000),
        (".0001", 1),
        ("0.0010", 1),
        ("9" * 18, 31_536_000_000),
    ],
)
def test_good_crawl_delays(value: str, delay_ms: int) -> None:
    robots = parse(f"User-agent: *\nCrawl-delay: {value}\n".encode())
    assert robots.group("bot").crawl_delay_ms == delay_ms
    assert robots.notes == ()


@pytest.mark.parametrize("value", ["-1", "nan", "inf", "1e3", "1_0", "10s", "1,5", "", ".", "९", "9" * 19])
def test_bad_crawl_delays_are_ignored_with_a_note(value: str) -> None:
    robots = parse(f"User-agent: *\nCrawl-delay: {value}\nDisallow: /x\n".encode())
    assert robots.group("bot").crawl_delay_ms is None
    assert [note.line for note in robots.notes] == [2]
    assert not verdict(robots, "bot", "/x").allowed


def test_sitemaps_belong_to_no_group() -> None:
    robots = parse(
        b"Sitemap: https://a.example/1.xml\nUser-agent: *\nSITEMAP:/2.xml\nsitemap:\nSitemap: " + b"x" * 3_000
    )
    assert robots.sitemaps == ("https://a.example/1.xml", "/2.xml")


def test_notes_are_bounded() -> None:
    assert len(parse(b"junk\n" * 10_000).notes) == NOTES_MAX


# --- bytes -----------------------------------------------------------------------------------------------

RULES = "User-agent: bot\nDisallow: /café\nDisallow: /x\n"


@pytest.mark.parametrize(
    "body",
    [
        b"\xef\xbb\xbf" + RULES.encode(),
        b"\xef\xbb\xbf\xef\xbb\xbf" + RULES.encode(),
        b"\xef\xbb" + RULES.encode(),
        b"\xef" + RULES.encode(),
        RULES.encode("utf-16"),
        b"\xfe\xff" + RULES.encode("utf-16-be"),
        RULES.encode("utf-16-le"),
        RULES.encode("utf-16-be"),
        RULES.encode("utf-16-le")[:-1],
        RULES.encode("latin-1"),
        b"\0" + RULES.encode() + b"\0" * 100,
        RULES.replace("bot", "b\0ot").encode(),
        RULES.replace("\n", "\0\n").encode(),
    ],
)
def test_encodings_and_marks(body: bytes) -> None:
    robots = parse(body)
    assert not verdict(robots, "bot", "/x").allowed
    assert not verdict(robots, "bot", "/caf%C3%A9").allowed
    assert verdict(robots, "bot", "/caf").allowed


def test_a_mark_inside_the_file_makes_its_line_junk() -> None:
    assert allowed(b"User-agent: *\n\xef\xbb\xbfDisallow: /x\n", "/x")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16-le", "utf-16"])
def test_the_line_that_the_limit_cuts_is_dropped(encoding: str) -> None:
    head = "User-agent: *\nDisallow: /a\n".encode(encoding)
    body = head + "Disallow: /bcdef\nDisallow: /g\n".encode("utf-16-le" if encoding != "utf-8" else encoding)
    width = 1 if encoding == "utf-8" else 2
    cut = parse(body, limit_bytes=len(head) + 14 * width)
    assert cut.was_cut
    assert not verdict(cut, "bot", "/a").allowed
    assert verdict(cut, "bot", "/bcdef").allowed
    whole = parse(body, limit_bytes=len(head) + 16 * width)
    assert not verdict(whole, "bot", "/bcdef").allowed
    assert verdict(whole, "bot", "/g").allowed


def test_500_kib_are_read() -> None:
    line = b"Disallow: /" + b"x" * 88 + b"\n"
    body = b"User-agent: *\n" + line * 6_000
    robots = parse(body)
    assert robots.was_cut
    assert len(robots.group("bot").rules) == (LIMIT_BYTES - 14) // 100


def test_a_cut_transfer_drops_its_last_line() -> None:
    body = b"User-agent: *\nDisallow: /a\nAllow: /ab"
    assert verdict(parse(body), "bot", "/ab").allowed
    assert not verdict(parse(body, cut=True), "bot", "/ab").allowed
    assert parse(b"User-agent: *", cut=True).groups == {}


def test_a_line_of_any_length_is_whole() -> None:
    long = "/" + "a" * 100_000
    robots = parse(f"User-agent: *\nDisallow: {long}b\n".encode())
    assert verdict(robots, "bot", long).allowed
    found = verdict(robots, "bot", long + "bc")
    assert not found.allowed
    assert len(found.rule or "") < 3_000


@pytest.mark.parametrize(
    ("body", "html"),
    [
        (b"<!DOCTYPE html>\n<html>\nUser-agent: *\nDisallow: /\n</html>", True),
        (b"\xef\xbb\xbf  <!-- x --><!-- y -->\n<HTML lang=en>", True),
        (b"<html>", True),
        ("<html>\nUser-agent: *\nDisallow: /\n".encode("utf-16"), True),
        (b"<?xml version='1.0'?><html/>", True),
        (b"User-agent: *\n<br />\nDisallow: /\n", False),
        (b"<!-- robots -->\nUser-agent: *\nDisallow: /\n", False),
        (b"<htmlish>\nUser-agent: *\nDisallow: /\n", False),
    ],
)
def test_html_holds_no_rules_and_is_flagged(body: bytes, html: bool) -> None:
    robots = parse(body)
    assert robots.looks_like_html is html
    assert verdict(robots, "bot", "/x").allowed is html


# --- arbitrary bytes -------------------------------------------------------------------------------------

NAMES = [b"User-agent", b"disallow", b"Allow", b"Crawl-delay", b"Sitemap", b"a", b"bot", b"<html>", b"9"]
SIGNS = [
    b":",
    b" ",
    b"\n",
    b"\r",
    b"*",
    b"/",
    b"$",
    b"#",
    b"%",
    b".",
    b"\0",
    b"\xff\xfe",
    b"\xef\xbb\xbf",
    b"\xe9",
]
words = st.sampled_from(NAMES + SIGNS)
bodies = st.one_of(
    st.binary(max_size=400),
    st.lists(words, max_size=60).map(b"".join),
    st.text(max_size=200).map(lambda text: text.encode("utf-16", "surrogatepass")),
)


@given(bodies, st.integers(0, 100), st.booleans(), st.text(max_size=8), st.text(max_size=60))
def test_no_bytes_and_no_url_raise(body: bytes, limit: int, cut: bool, token: str, url: str) -> None:
    for robots in (parse(body), parse(body, limit_bytes=limit, cut=cut)):
        found = verdict(robots, token, url)
        assert found.allowed or found.rule is not None
        assert found.line is None or 1 <= found.line <= body.count(b"\n") + body.count(b"\r") + 1
        for group in robots.groups.values():
            assert group.crawl_delay_ms is None or group.crawl_delay_ms >= 0
