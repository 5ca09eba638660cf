"""The robots.txt matcher: percent forms, wildcards, the longest match, a slow matcher beside it, and time.

What this does not verify: the speed on an idle machine; the time limits here are generous.
"""

import time
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frontlog.processors.robots_pattern import (
    RULES_IN_TURN_MAX,
    SHELF_RULES_MAX,
    RuleIndex,
    fold_path,
    fold_pattern,
    path_spellings,
)
from frontlog.processors.robots_txt import RobotsTxt, parse, request_target, verdict


def allowed(text: str | bytes, url: str, token: str = "bot") -> bool:
    """The verdict on a file given as text."""
    return verdict(parse(text.encode() if isinstance(text, str) else text), token, url).allowed


def forbids(pattern: str | bytes, target: str) -> bool:
    """Whether `Disallow: pattern` alone forbids a path."""
    octets = pattern.encode() if isinstance(pattern, str) else pattern
    return not allowed(b"User-agent: *\nDisallow: " + octets + b"\n", target)


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


def test_latin1_patterns_match_both_spellings() -> None:
    assert forbids("/é".encode("latin-1"), "/%E9")
    assert forbids("/é".encode("latin-1"), "/é")
    assert not forbids("/é", "/%E9")


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
rule_lists = st.lists(st.tuples(patterns, st.booleans()), max_size=3 * RULES_IN_TURN_MAX)
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


pieces = st.sampled_from(["ab", "ba", "color=", "size=1", "size=2", "&1", "&22", "/x", "c", "7"])
sharing = st.lists(pieces, min_size=2, max_size=5).map(lambda some: "/" + "*".join(some))


@given(
    st.lists(st.tuples(sharing.map(str.encode), st.booleans()), min_size=SHELF_RULES_MAX, max_size=150),
    st.lists(pieces, max_size=9).map("".join),
)
def test_rules_that_share_their_runs_decide_like_the_slow_matcher(
    rules: list[tuple[bytes, bool]], rest: str
) -> None:
    path = fold_path("/" + rest)
    assert RuleIndex(rules).best(path) == slow_best(rules, path)


@given(st.lists(st.text(alphabet="ab", max_size=9), max_size=80), st.text(alphabet="ab", max_size=12))
def test_nested_prefixes_decide_like_the_slow_matcher(prefixes: list[str], rest: str) -> None:
    rules = [(b"/" + prefix.encode(), len(prefix) % 2 == 0) for prefix in prefixes]
    path = "/" + rest
    assert RuleIndex(rules).best(path) == slow_best(rules, path)


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
        numbered("Disallow: /products/*/{}"),
        numbered("Disallow: /*a*b*{}"),
        parse(
            "\n".join(
                ["User-agent: *", *(f"Disallow: /*r={n // 100}*size={n % 100}$" for n in range(10_000))]
            ).encode()
        ),
    ],
    ids=["prefixes", "heads", "queries", "mixed", "one beginning", "two wildcards", "two numbers"],
)
def test_a_verdict_among_10000_rules_takes_microseconds(robots: RobotsTxt) -> None:
    urls = [
        f"https://a.example/products/lamps/large-red-lamp-{i}.html?color=red&size={i}" for i in range(200)
    ]
    verdict(robots, "bot", urls[0])
    took = min(seconds(lambda: [verdict(robots, "bot", url) for url in urls]) for _ in range(3))
    assert took / len(urls) < 250e-6  # 25 µs are meant; a loaded machine gets ten times that


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
