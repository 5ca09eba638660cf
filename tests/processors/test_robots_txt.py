"""The robots.txt parser and matcher: cases by hand, a slow matcher to compare with, and arbitrary bytes.

What this does not verify: that the web's files are read as their owners meant them (the conformance tests
have the standard's own cases), and the speed on an idle machine (time limits here are generous).
"""

import time
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frontlog.processors.robots_pattern import (
    LINEAR_RULES_MAX,
    RuleIndex,
    fold_path,
    fold_pattern,
    path_spellings,
)
from frontlog.processors.robots_txt import (
    LIMIT_BYTES,
    NOTES_MAX,
    RobotsTxt,
    parse,
    request_target,
    valid_product_token,
    verdict,
)

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


def forbids(pattern: str | bytes, target: str) -> bool:
    """Whether `Disallow: pattern` alone forbids a path."""
    octets = pattern.encode() if isinstance(pattern, str) else pattern
    return not allowed(b"User-agent: *\nDisallow: " + octets + b"\n", target)


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


def test_latin1_patterns_match_both_spellings() -> None:
    assert forbids("/é".encode("latin-1"), "/%E9")
    assert forbids("/é".encode("latin-1"), "/é")
    assert not forbids("/é", "/%E9")


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


# --- patterns --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "matching", "other"),
    [
        # RFC 9309 §2.2.2: the table of percent forms
        ("/foo/bar?baz=quz", "/foo/bar?baz=quz", "/foo/bar?baz"),
        (
            "/foo/bar?baz=https://foo.bar",
            "/foo/bar?baz=https%3A%2F%2Ffoo.bar",
            "/foo/bar%3Fbaz=https://foo.bar",
        ),
        ("/foo/bar?baz=https%3a%2f%2ffoo.bar", "/foo/bar?baz=https://foo.bar", "/foo/bar?baz=https:/foo.bar"),
        ("/foo/bar/ツ", "/foo/bar/%E3%83%84", "/foo/bar/%E3%83%85"),
        ("/foo/bar/%e3%83%84", "/foo/bar/ツ", "/foo/bar/"),
        ("/foo/bar/%62%61%7A", "/foo/bar/baz", "/foo/bar/BAZ"),
        ("/foo/bar/baz", "/foo/bar/%62%61%7a", "/foo/bar/%62%61"),
        # §2.2.3: special characters verbatim
        ("/path/file-with-a-%2A.html", "/path/file-with-a-*.html", "/path/file-with-a-b.html"),
        ("/path/foo-%24", "/path/foo-$", "/path/foo-"),
        ("/x$/abc", "/x%24/abcd", "/x/abc"),
        # the shape of a URI is kept
        ("/a/b", "/a/b", "/a%2Fb"),
        ("/a%2fb", "/a%2Fb", "/a/b"),
        ("/a?b", "/a?b", "/a%3Fb"),
        ("/*%2F", "/x?next=%2F", "/x?next="),
        ("/*/login", "/x?next=%2Flogin", "/login"),
        # reserved octets in either form, and octets that no URI holds as they are
        ("/wiki/Special:", "/wiki/Special%3ASearch", "/wiki/Special"),
        ("/it's(1)", "/it%27s%281%29", "/its1"),
        ("/a<b c|d", "/a%3Cb%20c%7Cd", "/a"),
        # a percent sign that starts no escape
        ("/100%", "/100%", "/100"),
        ("/100%zz", "/100%zz", "/100%25zz"),
        # wildcards
        ("/fish*", "/fish", "/Fish"),
        ("*.gif$", "/a/b.gif", "/a/b.gif?x"),
        ("/*.php$", "/a.php.php", "/a.php5"),
        ("/a*b*c", "/a1b2c3", "/acb"),
        ("/a*$", "/abc", "/b"),
        ("/$", "/", "/x"),
        ("/a*aa$", "/aaa", "/aa"),
        ("/ab*ba$", "/abba", "/aba"),
        ("//folder/*", "//folder/page", "/folder/page"),
        ("/a**b", "/a1b", "/a1c"),
        ("/*$*", "/x$y", "/xy"),
        ("/é*z", "/%C3%A9-z", "/%C3-z"),
    ],
)
def test_what_a_pattern_matches(pattern: str, matching: str, other: str) -> None:
    assert forbids(pattern, matching)
    assert not forbids(pattern, other)
    assert forbids(pattern, f"https://a.example:81{matching}#f")
    assert not forbids(pattern, f"https://a.example:81{other}#f")


@pytest.mark.parametrize(
    ("rules", "target", "line"),
    [
        (["Disallow: /x", "Allow: /x/"], "/x/y", 3),
        (["Disallow: /x/", "Allow: /x"], "/x/y", 2),
        (["Disallow: /x", "Allow: /x"], "/x", 3),
        (["Allow: /x", "Allow: /x", "Disallow: /x"], "/x", 2),
        (["Disallow: /abc", "Allow: /a*c"], "/abc", 3),
        (["Allow: /page", "Disallow: /*.html"], "/page.html", 3),
        (["Disallow: /a********", "Allow: /abcd"], "/abcde", 2),
        (["Allow: /%61%62", "Disallow: /a"], "/ab", 2),
        (["Disallow: /x$", "Allow: /x"], "/x", 2),
        (["Disallow: /é", "Allow: /%C3%A9"], "/é", 3),
    ],
)
def test_the_longest_match_decides_and_allow_wins_a_tie(rules: list[str], target: str, line: int) -> None:
    text = "\n".join(["User-agent: *", *rules])
    assert verdict(parse(text.encode()), "bot", target).line == line


def test_robots_txt_itself_is_always_allowed() -> None:
    text = "User-agent: *\nDisallow: /\n"
    assert allowed(text, "https://a.example/robots.txt")
    assert not allowed(text, "https://a.example/robots.txt.gz")
    assert not allowed(text, "https://a.example/x/robots.txt")


@pytest.mark.parametrize(
    ("url", "target"),
    [
        ("http://a.example", "/"),
        ("http://a.example?q", "/?q"),
        ("http://a.example#f", "/"),
        ("http://u:p@a.example:8/p;x?q#f", "/p;x?q"),
        ("http://a.example/p#f?x", "/p"),
        ("/p?u=http://b.example/q", "/p?u=http://b.example/q"),
        ("//p/q", "//p/q"),
        ("", "/"),
        ("a.example/p", "/p"),
        ("?u=http://b.example/q", "/?u=http://b.example/q"),
    ],
)
def test_request_target(url: str, target: str) -> None:
    assert request_target(url) == target


@pytest.mark.parametrize("octet", range(256))
def test_an_escape_has_one_spelling_and_stays_so(octet: int) -> None:
    folded = fold_path(f"/%{octet:02x}")
    assert (
        folded
        == fold_path(f"/%{octet:02X}")
        == fold_path(folded)
        == fold_pattern(f"/%{octet:02x}".encode())[0]
    )
    raw = bytes([octet]).decode("latin-1")
    if octet < 128 and raw not in "%/?*$":
        assert folded == fold_path("/" + raw)


# --- a slow matcher to compare with ----------------------------------------------------------------------


def slowly_matches(pattern: str, path: str) -> bool:
    """Whether a folded pattern matches a folded path, in O(n·m). `ends`: the prefixes that match so far."""
    anchored = pattern.endswith("$")
    ends = {0}
    for char in pattern.removesuffix("$"):
        if char == "*":
            ends = set(range(min(ends, default=len(path) + 1), len(path) + 1))
        else:
            ends = {end + 1 for end in ends if path[end : end + 1] == char}
    return len(path) in ends if anchored else bool(ends)


def slow_best(rules: list[tuple[bytes, bool]], path: str) -> int:
    """Position of the deciding rule by trying them all."""
    found: list[tuple[int, bool, int]] = []
    for position, (octets, allow) in enumerate(rules):
        for pattern in fold_pattern(octets):
            if any(slowly_matches(pattern, spelling) for spelling in path_spellings(path)):
                found.append((len(pattern), allow, -position))
    return -max(found)[2] if found else -1


few = st.text(alphabet="aab/?*$%2F.é", max_size=12)
patterns = st.tuples(st.sampled_from("/*"), few).map(lambda two: "".join(two).encode())
rule_lists = st.lists(st.tuples(patterns, st.booleans()), max_size=3 * LINEAR_RULES_MAX)
targets = st.text(alphabet="aaab/?%2F.é$*", max_size=24).map(lambda rest: "/" + rest)


@given(rule_lists, targets)
def test_the_index_decides_like_the_slow_matcher(rules: list[tuple[bytes, bool]], target: str) -> None:
    path = fold_path(target)
    assert RuleIndex(rules).best(path) == slow_best(rules, path)


@given(
    st.lists(st.tuples(st.binary(min_size=1, max_size=6), st.booleans()), max_size=40), st.text(max_size=12)
)
def test_the_index_decides_like_the_slow_one_on_any_octets(
    rules: list[tuple[bytes, bool]], rest: str
) -> None:
    path = fold_path("/" + rest.replace("#", ""))
    given_rules = [(b"/" + octets.replace(b"#", b""), allow) for octets, allow in rules]
    assert RuleIndex(given_rules).best(path) == slow_best(given_rules, path)


@given(st.lists(st.text(alphabet="ab", max_size=9), max_size=80), st.text(alphabet="ab", max_size=12))
def test_nested_prefixes_decide_like_the_slow_matcher(prefixes: list[str], rest: str) -> None:
    rules = [(b"/" + prefix.encode(), len(prefix) % 2 == 0) for prefix in prefixes]
    path = "/" + rest
    assert RuleIndex(rules).best(path) == slow_best(rules, path)


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


@given(st.text(max_size=30), st.text(alphabet="%aF2", max_size=12))
def test_a_path_equals_itself_as_pattern(rest: str, escapes: str) -> None:
    target = request_target("/" + rest + escapes)
    octets = target.encode("utf-8", "surrogatepass").replace(b"*", b"%2A").replace(b"$", b"%24")
    assert RuleIndex([(octets, False)]).best(fold_path(target)) == 0


# --- time ------------------------------------------------------------------------------------------------


def seconds(work: Callable[[], object]) -> float:
    """CPU seconds that some work takes."""
    start = time.thread_time()
    work()
    return time.thread_time() - start


def numbered(*lines: str) -> RobotsTxt:
    """A file of 10,000 rules that differ in their numbers."""
    rules = (lines[i % len(lines)].format(i) for i in range(10_000))
    return parse("\n".join(["User-agent: *", *rules]).encode())


@pytest.mark.parametrize(
    "robots",
    [
        numbered("Disallow: /dir{0}/sub{0}/"),
        numbered("Disallow: /dir{}/*/x"),
        numbered("Disallow: /*?p{}="),
        numbered("Disallow: /d{}/", "Allow: /d{}/*.html$", "Disallow: /*&s{}=*&x", "Disallow: /f{}$"),
    ],
    ids=["prefixes", "heads", "queries", "mixed"],
)
def test_a_verdict_among_10000_rules_takes_microseconds(robots: RobotsTxt) -> None:
    urls = [
        f"https://a.example/products/lamps/large-red-lamp-{i}.html?color=red&size={i}" for i in range(200)
    ]
    verdict(robots, "bot", urls[0])
    took = min(seconds(lambda: [verdict(robots, "bot", url) for url in urls]) for _ in range(3))
    assert took / len(urls) < 500e-6  # 50 µs are meant; a loaded machine gets ten times that


@pytest.mark.parametrize(
    "body",
    [
        b"User-agent: *\nDisallow: /" + b"a*" * 200_000 + b"b\n",
        b"User-agent: *\nDisallow: /" + b"*" * 500_000 + b"b\n",
        b"User-agent: *\n" + b"".join(b"Disallow: /%s*b%d$\n" % (b"*a" * 30, i) for i in range(5_000)),
        b"User-agent: *\n" + b"".join(b"Disallow: /%s\n" % (b"a" * i) for i in range(900)),
        b"".join(b"User-agent: %s\n" % (b"ab"[i % 2 : i % 2 + 1] * (i % 97 + 1)) for i in range(10_000))
        + b"Disallow: /x\n" * 20_000,
        b"User-agent: a\nCrawl-delay: 1\n" * 15_000,
        b"\n" * 512_000,
        b"<!---->" * 70_000,
        b"<!--" * 100_000,
        b" " * 512_000,
        b"%" * 512_000,
        b"User-agent: *\nDisallow: /" + b"%2" * 200_000 + b"\n",
    ],
    ids=[
        "a*",
        "*",
        "wild",
        "nested",
        "agents",
        "delays",
        "lines",
        "comments",
        "open comments",
        "spaces",
        "percent",
        "escapes",
    ],
)
def test_pathological_files_stay_bounded(body: bytes) -> None:
    def work() -> None:
        robots = parse(body)
        for path in ("/" + "a" * 2_047, "/" + "ab" * 1_023, "/x"):
            verdict(robots, "a", path)

    assert seconds(work) < 3.0  # 0.1 s are usual
