"""What pages and headers say of their use, from the server to the outputs and the frontier."""

from pathlib import Path

import pytest

from frontlog.avro.enums import Topic
from frontlog.avro.events import Fetched
from frontlog.streams.summary import End
from support.crawls import crawl, events, fetched, prove, transitions
from support.site import Answer, Site, page

HEADERS = "X-Robots-Tag"


def answer(html: str, *values: str) -> Answer:
    return Answer(html.encode(), headers=tuple((HEADERS, value) for value in values))


CASES: dict[str, tuple[Answer, bool, tuple[str, ...], str | None]] = {
    "plain": (answer("<p>a"), False, (), None),
    "meta": (answer("<META NAME=' Robots ' CONTENT='NoIndex,NOARCHIVE'><p>b"), True, ("noindex", "noarchive"), None),
    "meta-in-body": (answer("<body><p>c<meta name=robots content=none>"), True, ("none",), None),
    "meta-for-us": (answer("<meta name=frontlog content=noindex><p>d"), True, ("noindex",), None),
    "meta-for-others": (answer("<meta name=googlebot content=noindex><p>e"), False, (), None),
    "header": (answer("<p>f", "noindex"), True, ("noindex",), None),
    "headers": (answer("<p>g", "noarchive", "frontlog: nofollow", "other: noindex"), False, ("noarchive", "nofollow"), None),
    "past": (
        answer("<p>h", "unavailable_after: Saturday, 30-Jun-07 10:00:00 GMT"), True,
        ("unavailable_after:saturday, 30-jun-07 10:00:00 gmt",), "2007-06-30T10:00:00.000Z",
    ),
    "to-come": (
        answer("<meta name=robots content='unavailable_after: 2099-01-02'><p>i"), False,
        ("unavailable_after:2099-01-02",), "2099-01-02T00:00:00.000Z",
    ),
    "both": (answer("<meta name=robots content='index, noindex'><p>j", "all"), True, ("index", "noindex", "all"), None),
}  # fmt: skip


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Fetched]:
    folder = tmp_path_factory.mktemp("meta") / "c"
    with Site() as site:
        site.put(0, "/", page("home", [f"/{name}" for name in CASES]))
        for name, (said, *_) in CASES.items():
            site.put(0, f"/{name}", said)
        assert crawl(folder, site.url(), identity__token="frontlog").end is End.DONE
        prove(folder)
    found = [one for one in events(folder, Topic.FETCHED) if isinstance(one, Fetched)]
    return {one.url.rpartition("/")[2]: one for one in found}


@pytest.mark.parametrize("name", CASES)
def test_what_a_page_says_is_in_its_output(outputs: dict[str, Fetched], name: str) -> None:
    _, noindex, directives, unavailable = CASES[name]
    out = outputs[name]
    assert (out.noindex, out.robots_meta, out.unavailable_after) == (noindex, directives, unavailable)


@pytest.mark.parametrize(
    ("source", "link"),
    [
        (answer("<a href=/next>x</a>", "nofollow"), True),
        (answer("<a href=/next>x</a>", "frontlog: none"), True),
        (answer("<a href=/next>x</a><meta name=robots content=nofollow>"), True),
        (answer("<a rel='x NOFOLLOW' href=/next>x</a>"), True),
        (answer("<a href=/next>x</a>", "other: nofollow"), False),
    ],
)
def test_nofollow_lowers_and_marks_and_nothing_is_ignored(tmp_path: Path, source: Answer, link: bool) -> None:
    with Site() as site:
        site.put(0, "/", source)
        site.put(0, "/next", page("next"))
        assert crawl(tmp_path / "c", site.url()).end is End.DONE
        assert fetched(tmp_path / "c") == {site.url(), site.url(0, "/next")}, "it is fetched all the same"
        (first,) = [
            one for one in transitions(tmp_path / "c") if one.url.endswith("/next") and one.first is not None
        ]
        assert first.first is not None
        assert (first.first.nofollow, first.priority) == ((True, 3) if link else (False, 2))
