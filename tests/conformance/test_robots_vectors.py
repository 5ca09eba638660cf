"""robots.txt: the cases of Google's matcher, of its specification tests and of protego (`../shared/vectors`).

Each case says which reading it belongs to. All that RFC 9309 decides must pass. The rest are what one
implementation does beyond it or against it: they are run too, and where we differ the reason stands here.
"""

import base64
import json
import os
from collections import Counter
from pathlib import Path
from typing import NotRequired, TypedDict, cast

import pytest

from frontlog.processors.robots_check import check_robots
from frontlog.processors.robots_txt import parse, verdict

VECTORS = Path(__file__).parents[2].parent / "shared" / "vectors" / "robots.jsonl"

RAW_URL = (
    "the URL is not as a crawler requests it; RFC 9309 §2.2.2 wants non-ASCII and escapes compared as octets"
)
INDEX_HTML = "Google reads `Allow: /x/index.html` as `/x/` too; the RFC does not"
LONG_LINE = "Google cuts lines at 16,664 bytes; we keep them whole, since half a pattern says another thing"
ROBOTS_TXT = "RFC 9309 §2.2.2: /robots.txt is implicitly allowed"

DIFFERENCES = {
    "rb0064": RAW_URL,
    "rb0066": RAW_URL,
    "rb0067": RAW_URL,
    "rb0079": INDEX_HTML,
    "rb0084": LONG_LINE,
    "rb0087": LONG_LINE,
    "rb0217": ROBOTS_TXT,
    "rb0223": ROBOTS_TXT,
    "rb0227": ROBOTS_TXT,
    "rb0368": ROBOTS_TXT,
}
"""Cases outside RFC 9309 whose answer we don't give, and why."""


class Case(TypedDict):
    """One line of the file."""

    id: str
    robots_txt: NotRequired[str]
    robots_b64: NotRequired[str]
    user_agent: str
    url: str
    allowed: bool
    policy: str


@pytest.fixture(scope="module")
def cases() -> list[Case]:
    """All cases; the tests skip without the folder, but never where CI runs."""
    if not VECTORS.is_file():
        reason = "../shared/vectors/robots.jsonl is not there: the standard's own cases were not run"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    lines = VECTORS.read_text("utf-8").splitlines()
    return [cast("Case", json.loads(line)) for line in lines]


def ours(case: Case) -> bool:
    """Our verdict on a case."""
    encoded = case.get("robots_b64")
    body = case.get("robots_txt", "").encode() if encoded is None else base64.b64decode(encoded)
    return verdict(parse(body), case["user_agent"], case["url"]).allowed


def of_rfc(case: Case) -> bool:
    """Whether RFC 9309 decides the case."""
    return case["policy"].startswith("rfc9309")


def test_every_case_of_the_rfc_passes(cases: list[Case]) -> None:
    rfc = [case for case in cases if of_rfc(case)]
    assert len(rfc) >= 384
    assert [case["id"] for case in rfc if ours(case) is not case["allowed"]] == []


def test_the_other_cases_differ_only_where_we_say_why(cases: list[Case]) -> None:
    others = [case for case in cases if not of_rfc(case)]
    assert Counter(case["policy"] for case in others) == {
        "google-only": 34,
        "token-digits": 4,
        "ua-string": 1,
    }
    assert {case["id"] for case in others if ours(case) is not case["allowed"]} == set(DIFFERENCES)


def test_by_hand_gives_the_same_answers(cases: list[Case]) -> None:
    names = ("robots_txt", "robots_b64", "user_agent", "url")
    for case in cases:
        question = {name: case.get(name) for name in names if name in case}
        assert check_robots(question)["allowed"] is ours(case), case["id"]
