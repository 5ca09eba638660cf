"""The rules of `verify` are written a second time: they share no machine with the crawl, and they agree with it.

What stands in two places is compared here: the table of moves, partitions, Retry-After, settings, robots.txt.
"""

import json
import random
import subprocess
import sys
from collections.abc import Iterator
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest

from frontlog.processors import politeness, retry_after, robots_txt, settings, sites, traps, urls
from frontlog.replay import checks_politeness, robots_reference, routing, rules, trap_reference
from house.source import used_modules

VECTORS = Path(__file__).resolve().parents[2].parent / "shared" / "vectors" / "robots.jsonl"
SECOND = (
    "rules", "routing", "robots_reference", "book", "ledger", "watch", "checks_log", "checks_urls", "checks_politeness",
    "checks_policy", "checks_outputs", "checks_identity", "identity_reference",
    "checks_traps", "trap_reference", "checks_learning",
)  # fmt: skip
"""Modules of `replay` that must share nothing with the machines."""
FRAGMENTS = (
    "/", "a", "b", "*", "$", "%2F", "%2f", "?", "%3F", "%41", "%61", ".", "ü", "%C3%BC", "&", "=", ":", "%3A", "//", "x",
    "%", "%zz", "%24", "%2A", "#", "[",
)  # fmt: skip
LINES = (
    "User-agent: *", "User-agent: frontlog", "User-Agent: frontlog/1.2", "user-agent: other", "Crawl-delay: 5",
    "Crawl-delay: .25", "junk", "Foo: bar", "", "Sitemap: http://x/", "disalow: /", "Disallow /a", "# c",
    "User-agent: frontlogx", "User-agent: * x", "user agent: frontlog",
)  # fmt: skip


def reached(module: str, seen: set[str]) -> set[str]:
    """Every module of frontlog that a module comes to import."""
    for one in used_modules(module):
        if one not in seen:
            seen.add(one)
            reached(one, seen)
    return seen


@pytest.mark.parametrize("name", SECOND)
def test_the_checks_share_no_machine(name: str) -> None:
    """By what the source says, and all that it leads to."""
    rooms = {
        one for one in reached(f"frontlog.replay.{name}", set()) if one.startswith("frontlog.processors.")
    }
    assert rooms == set()


def test_the_checks_load_no_machine() -> None:
    """By what Python has loaded when they are imported."""
    names = ", ".join(f"frontlog.replay.{name}" for name in SECOND)
    code = f"import sys, {names}; print([m for m in sys.modules if m.startswith('frontlog.processors.')])"
    env = {"PYTHONPATH": ":".join(path for path in sys.path if path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env)
    assert done.stdout == "[]\n"


def test_both_tables_have_the_same_moves() -> None:
    assert dict(rules.TRANSITIONS) == dict(urls.TABLE)


def test_both_know_what_a_failure_of_the_host_is() -> None:
    assert rules.HOST_FAILURES == politeness.HOST_FAILURES
    assert rules.NEVER_ASKED == politeness.NO_REQUEST


def test_both_read_the_same_settings() -> None:
    given = settings.Settings(
        scope=settings.Scope(
            mode="prefix", include=("a",), exclude=("b", "c"), depth_max=3, pages_per_host_max=9, pages_per_link=3
        ),
        politeness=settings.Politeness(gap_ms_min=7, gap_factor=1.5, host_failures_max=2),
        identity=settings.Identity(token="bot"), canonical=settings.Canonical(profile="index", signal_urls=7),
        learning=settings.Learning(mode="propose", confidence_min=0.5),
        traps=settings.Traps(parameters_max=3, days_ahead_max=1, query_urls_max=2),
    )  # fmt: skip
    for one in (given, settings.Settings()):
        found = rules.rules_of(settings.encode(one), 5)
        wanted = {**_fields(one.politeness), **_fields(one.scope), "token": one.identity.token}
        wanted |= {"profile": one.canonical.profile, "scope_mode": one.scope.mode, "seq": 5}
        wanted |= {
            "signal_urls": one.canonical.signal_urls,
            "traps": trap_reference.Limits(**_fields(one.traps)),
            "learning": one.learning.mode,
            "confidence_min": one.learning.confidence_min,
        }
        shared = {name: value for name, value in wanted.items() if name in found._fields}
        assert {name: getattr(found, name) for name in shared} == shared
    assert rules.Rules() == rules.rules_of("{}", 0) == rules.rules_of(settings.encode(settings.Settings()), 0)


def _fields(one: Any) -> dict[str, Any]:
    return {name: getattr(one, name) for name in one.__struct_fields__}


TRAP_PIECES = (
    "/", "/a", "/b", "/a/b", "/2031", "/2031/5", "/2031-05-01", "/2028/11/30", "-12", "/2029", "%25", "%2525", "%20",
    "%252520", "%2525zz", "?", "&", "year=2040", "month=3", "y=2039", "m=12", "d=9", "date=20310230", "birthday=20290101",
    "week=5", "x=1", "=", "2031-5", "/deadbeef12", "00ff00ff", "/12", "a9", "2031-02-30", "/2031/13", "20", "1", "%",
    "/2031/05/", "2100-10", ".",
)  # fmt: skip


def test_both_know_the_same_traps() -> None:
    chance = random.Random(7)
    found = {reason.value: 0 for reason in traps.REASONS} | {"": 0}
    for _ in range(20_000):
        url = "http://h/" + "".join(chance.choices(TRAP_PIECES, k=chance.randrange(12)))
        limits = {
            "parameters_max": chance.choice((0, 1, 3)), "segments_max": chance.choice((0, 6, 32)),
            "repeats_max": chance.choice((0, 1, 2, 3)), "escapes_max": chance.choice((0, 1, 2)),
            "days_ahead_max": chance.choice((0, 730, 3_000)),
        }  # fmt: skip
        trap = traps.of_form(settings.Traps(**limits), url, NOW_MS)
        reason = trap.reason.value if trap else ""
        found[reason] += 1
        assert trap_reference.form(url, trap_reference.Limits(**limits), NOW_MS) == reason, (url, limits)
        assert trap_reference.pattern(url) == traps.pattern_of(url)
    assert min(number for reason, number in found.items() if reason != "trap_pattern") > 50, found


def test_both_find_the_same_partition() -> None:
    chance = random.Random(5)
    hosts = [
        "localhost",
        "192.0.2.1",
        "[2001:db8::1]",
        "co.uk",
        "a.b.example.co.uk",
        "x.github.io",
        "münchen.example",
    ]
    hosts += [
        "".join(chance.choices("abcdefg.", k=chance.randrange(1, 20))).strip(".") or "x" for _ in range(500)
    ]
    for host in hosts:
        assert routing.site_of(host) == sites.site_of(host)
        assert routing.partition_of(host, 64) == sites.partition_of(sites.site_of(host), 64)


NOW_MS = 1_790_000_000_000


@pytest.mark.parametrize(
    "value",
    ["0", "7", "-5", "007", "99999999999999", "soon", "", "1.5", "0.2509", " 12 ", *(
        formatdate(NOW_MS / 1_000 + shift, usegmt=True) for shift in (-60, 0, 60, 10**7)
    ), "Monday, 21-Sep-26 14:30:00 GMT", "Mon Sep 21 14:30:00 2026", "Mon, 21 Sep 2026 14:30:00 +0200"],
)  # fmt: skip
def test_both_read_retry_after(value: str) -> None:
    theirs = retry_after.retry_after_ms(value, NOW_MS, 86_400_000)
    assert checks_politeness.asked_wait_ms(value, NOW_MS, 86_400_000) == (theirs or 0)


# --- robots.txt --------------------------------------------------------------------------------------------------


def cases() -> Iterator[tuple[bytes, str]]:
    """Files and paths by chance."""
    chance = random.Random(9309)
    for _ in range(4_000):
        lines: list[str] = []
        for _ in range(chance.randrange(1, 9)):
            rule = chance.choice(("Allow: /", "Disallow: /")) + "".join(
                chance.choices(FRAGMENTS, k=chance.randrange(6))
            )
            lines.append(chance.choice((*LINES, rule, rule, rule, *(("Disallow: ",) * 2))))
        text = chance.choice(("\n", "\r\n", "\r")).join(lines).encode(chance.choice(("utf-8", "latin-1")))
        mark = b"\xef\xbb\xbf" if chance.random() < 0.05 else b""
        yield mark + text, f"http://h.example/{''.join(chance.choices(FRAGMENTS, k=chance.randrange(7)))}"


def test_both_read_robots_alike() -> None:
    denied = plain = 0
    for text, url in cases():
        parsed = robots_txt.parse(text)
        allowed = robots_txt.verdict(parsed, "frontlog", url).allowed
        denied += not allowed
        plain += robots_reference.plain(text) is not None
        assert robots_reference.allowed(text, "frontlog", url) == allowed, (text, url)
        delay = parsed.group("frontlog").crawl_delay_ms or 0
        assert robots_reference.crawl_delay_ms(text, "frontlog") == delay, text
    assert min(denied, plain) > 100, "the cases must be ones that a wrong reading would miss"


def test_the_reference_passes_the_standard() -> None:
    if not VECTORS.is_file():
        pytest.skip("../shared/vectors/robots.jsonl is not there")
    lines = [json.loads(line) for line in VECTORS.read_text("utf-8").splitlines()]
    rfc = [case for case in lines if case["policy"].startswith("rfc9309") and "robots_txt" in case]
    wrong = [
        case["id"]
        for case in rfc
        if robots_reference.allowed(case["robots_txt"].encode(), case["user_agent"], case["url"])
        != case["allowed"]
    ]
    assert rfc
    assert wrong == []


@pytest.mark.parametrize(
    ("pattern", "path", "matches"),
    [
        (b"/a", b"/ab", True), (b"/a$", b"/ab", False), (b"/a$", b"/a", True), (b"/*b", b"/xxb1", True),
        (b"/*b$", b"/xxb1", False), (b"/*/c*d$", b"/x/cxd", True), (b"/*/c*d$", b"/x/cx", False), (b"*", b"/", True),
        (b"/a*", b"/b", False), (b"/**$", b"/", True),
    ],
)  # fmt: skip
def test_patterns_match_by_the_table(pattern: bytes, path: bytes, matches: bool) -> None:
    assert robots_reference.matches(pattern, path) is matches
