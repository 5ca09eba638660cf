"""Documentation that a reader can trust: links lead somewhere, decisions have their parts, words are defined.

Not verified: that sentences are true. Generated pages are compared with the code by `make check-docs`.
"""

import re
from pathlib import Path

import pytest

from house.source import ROOT

PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
ADRS = sorted((ROOT / "docs" / "adr").glob("*.md"))
SECTIONS = ["Status", "Context", "Decision", "Consequences", "Alternatives"]
WORDS = """
topic, partition, offset, record, key, lag, consumer group, input, decision, output, seq, owner,
owner_token, decide, apply, fold, replay, rebuild, table, row, digest, checkpoint, snapshot,
frontier, seed, scope, trap, canonical URL, identity, raw spelling, origin, origin_key, site, lease,
fence, deadline, sweeper, politeness, gap, backoff, next_eligible_at, policy version, group, rule,
verdict, product token, conditional request, validator, revisit, payload digest
"""


def ids(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def anchors(page: Path) -> set[str]:
    """The anchors that GitHub makes of a page's headings."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=ids)
def test_relative_links_lead_somewhere(page: Path) -> None:
    text = re.sub(
        r"^```.*?^```|`[^`\n]*`", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL
    )
    broken: list[str] = []
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", link):
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name) if name else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    assert broken == []


def test_adrs_are_numbered_without_gaps() -> None:
    assert ADRS
    assert [path.name[:4] for path in ADRS] == [f"{number:04}" for number in range(1, len(ADRS) + 1)]
    assert all(re.fullmatch(r"\d{4}(-[a-z0-9]+)+\.md", path.name) for path in ADRS)


@pytest.mark.parametrize("path", ADRS, ids=ids)
def test_an_adr_has_its_parts_in_order(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.startswith(f"# {path.name[:4]}: ")
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == SECTIONS
    assert re.search(r"\d", text.partition("## Alternatives")[2]) or "tried" in text, (
        "alternatives have figures"
    )


def test_the_glossary_defines_each_word_once() -> None:
    text = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    defined = re.findall(r"^- \*\*(.+?)\*\*: \S", text, re.MULTILINE)
    assert len(defined) == len(set(defined))
    assert set(re.split(r",\s+", WORDS.strip())) <= set(defined)


def test_the_changelog_keeps_its_form() -> None:
    headings = re.findall(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert headings[0] == "[Unreleased]"
    assert all(re.fullmatch(r"\[\d+\.\d+\.\d+\] - \d{4}-\d\d-\d\d", heading) for heading in headings[1:])
