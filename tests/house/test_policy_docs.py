"""docs/identity.md, robots.md and sitemaps.md name every rule, setting, default, bound and reason code that the code has.

Not verified: that what they say of each is true; the tests of the machines hold that.
"""

import re

import pytest

from frontlog.avro.enums import Reason, RuleName
from frontlog.fetch import answers, listing, pipeline
from frontlog.processors import (
    canonical,
    learning,
    robots_http,
    robots_meta,
    robots_txt,
    sitemap_entries,
    sitemap_files,
    sitemap_text,
    traps,
    url_rules,
    weighing,
)
from frontlog.settings_catalogue import CATALOGUE
from house.source import ROOT

PAGES = {
    name: (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")
    for name in ("identity", "robots", "sitemaps")
}
FLAT = {name: " ".join(text.split()) for name, text in PAGES.items()}
R = Reason
MINUTE_MS, HOUR_MS, DAY_MS = 60_000, 3_600_000, 86_400_000


def table(page: str, first_header: str) -> list[list[str]]:
    """Cells of the rows of the table whose first column is headed so."""
    lines = PAGES[page].splitlines()
    start = next(n for n, line in enumerate(lines) if re.match(rf"\| {re.escape(first_header)} \|", line))
    rows: list[list[str]] = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split("|")])
    return rows


def coded(text: str) -> set[str]:
    return set(re.findall(r"`([^`]+)`", text))


def test_every_rule_that_holds_everywhere_has_its_row() -> None:
    # What they are called stands in the sources alone: names beside a comparison, in a list of what fired, or alone.
    parsers = _names("url_trace", r'"([a-z_]+)": |fired\["([a-z_]+)"\]|or \("([a-z_]+)",\)')
    ours = _names("canonical", r'fired\.append\("([a-z_]+)"\)|_FRAGMENT = \("([a-z_]+)",\)')
    per_origin = {rule.value for rule in RuleName}
    assert {
        name for row in table("identity", "rule") for name in coded(row[0])
    } == parsers | ours - per_origin


def _names(module: str, pattern: str) -> set[str]:
    source = (ROOT / "processors" / f"{module}.py").read_text(encoding="utf-8")
    return {name for match in re.finditer(pattern, source) for name in match.groups() if name}


def test_every_rule_of_an_origin_has_its_row() -> None:
    lines = PAGES["identity"].partition("## Rules of an origin")[2]
    rows = {name for line in re.findall(r"^\| (`[a-z_]+`) \| ", lines, re.MULTILINE) for name in coded(line)}
    assert {rule.value for rule in RuleName} - {"canonical"} <= rows
    assert "the rule `canonical`" in FLAT["identity"]
    assert set(url_rules.PROFILES) <= coded(lines)


@pytest.mark.parametrize("section", ["traps", "canonical", "learning", "sitemaps", "robots", "scope"])
def test_every_setting_of_these_sections_is_named(section: str) -> None:
    names = {name for name in CATALOGUE if name.startswith(f"{section}.")}
    elsewhere = {"scope.mode", "scope.include", "scope.exclude"}
    text = " ".join(PAGES.values())
    assert {name for name in names - elsewhere if f"`{name}`" not in text} == set()


NUMBER = r"([0-9][0-9,.]*)(?: (h|min|s|ms|d)\b)?"
DEFAULTS = [
    (page, name, number, unit)
    for page, text in FLAT.items()
    for name, number, unit in re.findall(rf"`([a-z]+\.[a-z_]+)`,? \(?{NUMBER}", text)
]
UNITS_MS = {"h": HOUR_MS, "min": MINUTE_MS, "s": 1_000, "ms": 1, "d": DAY_MS, "": 1}


@pytest.mark.parametrize(("page", "name", "number", "unit"), DEFAULTS)
def test_a_default_that_stands_beside_a_setting_is_its_default(
    page: str, name: str, number: str, unit: str
) -> None:
    assert float(number.strip(",.").replace(",", "")) * UNITS_MS[unit] == CATALOGUE[name].default


def test_defaults_are_found() -> None:
    assert {name for _, name, _, _ in DEFAULTS} >= {
        *("traps.parameters_max", "traps.query_urls_max", "scope.depth_max", "canonical.signal_urls"),
        *(
            "learning.confidence_min",
            "robots.copy_ms_max",
            "sitemaps.index_depth_max",
            "politeness.crawl_delay_ms_max",
        ),
    }


REFUSALS = (R.BAD_SCHEME, R.USERINFO, R.NO_HOST, R.UNPARSABLE, R.TOO_LONG)
ROBOTS_REASONS = (
    R.OK, R.NOT_MODIFIED, R.REDIRECTED, R.TOO_MANY_REDIRECTS, R.REDIRECT_LOOP, R.GONE, R.NOT_AVAILABLE, R.TOO_MANY_REQUESTS,
    R.UNAVAILABLE, R.SERVER_ERROR, R.UNEXPECTED_STATUS, R.TRUNCATED, R.ROBOTS_UNREACHABLE, R.BAD_LOCATION, R.BAD_SCHEME,
    R.USERINFO, R.BLOCKED_NETWORK, R.OPERATOR_BLOCK, R.ROBOTS_DENIED, R.CRAWL_DELAY_TOO_LONG, R.POLICY_ALLOWS,
)  # fmt: skip


@pytest.mark.parametrize(
    ("page", "reasons"),
    [
        ("identity", (*REFUSALS, *traps.REASONS, R.MERGED, R.OUT_OF_SCOPE, R.HOST_BUDGET, R.SITE_BUDGET)),
        ("robots", ROBOTS_REASONS),
        ("sitemaps", (R.CROSS_SITE, R.OUT_OF_SCOPE, R.PARSER_LIMIT, R.SITEMAP, R.TRUNCATED, R.BAD_TYPE)),
    ],
)
def test_every_reason_is_named(page: str, reasons: tuple[Reason, ...]) -> None:
    assert {reason.value for reason in reasons} - coded(PAGES[page]) == set()


def test_every_reason_that_an_answer_to_robots_txt_can_have_is_in_that_list() -> None:
    source = (ROOT / "processors" / "robots_http.py").read_text(encoding="utf-8")
    assert {Reason[name] for name in re.findall(r"\bReason\.([A-Z_]+)", source)} <= set(ROBOTS_REASONS)


BOUNDS = [
    ("identity", f"more than {canonical.IDENTITY_CHARACTERS_MAX:,} characters (`too_long`)"),
    ("identity", f"{('Three', '?')[weighing.PROPOSED_AT != 3]} pieces make a proposal"),
    ("identity", f"After {weighing.PIECES_MAX:,} pieces"),
    ("identity", f"one URL in {url_rules.WITNESSES_ONE_IN}"),
    ("identity", f"With {('three', '?')[weighing.AGAINST_MIN != 3]} pieces against it"),
    ("identity", f"fewer than {learning.WORDS_MIN} words"),
    ("identity", f"once an origin has {traps.COUNTED_FROM:,} URLs"),
    ("identity", f"one to {('six', '?')[traps.RUN_SEGMENTS_MAX != 6]} path segments"),
    ("robots", f"{robots_txt.LIMIT_BYTES // 1_024} KiB"),
    ("robots", f"3xx, {('five', '?')[robots_http.REDIRECTS_MAX != 5]} in a row"),
    ("robots", f"never within {robots_http.CACHE_MS_MIN // MINUTE_MS} min"),
    (
        "robots",
        f"after {robots_http.RETRY_MS_MIN // MINUTE_MS} min, doubling to {robots_http.RETRY_MS_MAX // HOUR_MS} h",
    ),
    ("sitemaps", f"the first {sitemap_files.NAMED_MAX:,} of a file"),
    ("sitemaps", f"bytes as received, and decoded | {sitemap_text.DECODED_BYTES_MAX >> 20} MB"),
    ("sitemaps", f"{sitemap_entries.ENTRIES_MAX:,}, and as many alternates"),
    ("sitemaps", f"origins of other sites | {listing.FOREIGN_ORIGINS_MAX} a file"),
    ("sitemaps", f"in one process | {pipeline.SITEMAPS_AT_ONCE} |"),
    ("sitemaps", f"wait for the log | {pipeline.EVENTS_AT_ONCE} |"),
    ("sitemaps", f"in the last {sitemap_files.FRESH_MS // DAY_MS} days"),
]


@pytest.mark.parametrize(("page", "said"), BOUNDS)
def test_bounds_are_said_as_they_are(page: str, said: str) -> None:
    assert said in FLAT[page]
    assert answers.ROBOTS_BYTES_MAX == robots_txt.LIMIT_BYTES


def test_directives_have_their_row() -> None:
    rows = {name for row in table("robots", "directive") for name in coded(row[0])}
    wanted = robots_meta.NOINDEX | robots_meta.NOFOLLOW | {robots_meta.UNAVAILABLE_AFTER, "noarchive"}
    assert wanted <= rows
