"""What a parser worker makes of a page: discoveries by origin, in bounded parts, with nofollow kept as a fact."""

from typing import cast

import pytest

from frontlog.avro.codec import decode
from frontlog.avro.events import Discovery, ParseFacts
from frontlog.fetch.parse_job import Job, Parsed, parse
from frontlog.processors.inputs import LINKS_MAX
from frontlog.processors.sites import partition_of, site_of

URL = "http://e.example/dir/page"


def job(html: str, *, nofollow: bool = False) -> Job:
    return Job(
        "1-1-1 x", URL, URL, "text/html; charset=utf-8", "frontlog", 3, 5_000, 4, html.encode(), nofollow
    )


def discoveries(found: Parsed) -> list[Discovery]:
    return [cast("Discovery", decode(one.value)) for one in found.discoveries]


def test_links_are_grouped_by_origin_and_go_to_the_owner_of_each() -> None:
    html = '<a href=a>A</a><a href="https://other.example/x#y">B</a><a href=//third.example:8080/>C</a><a href=a>again</a>'
    found = parse(job(html))
    by_origin = {event.origin_key: event for event in discoveries(found)}
    assert by_origin.keys() == {
        "http://e.example:80",
        "https://other.example:443",
        "http://third.example:8080",
    }
    assert by_origin["http://e.example:80"].urls == ("http://e.example/dir/a",)
    assert by_origin["http://e.example:80"].raws == ("a",)
    assert by_origin["https://other.example:443"].urls == ("https://other.example/x#y",)
    for one in found.discoveries:
        host = one.origin_key.split("://")[1].rpartition(":")[0]
        assert one.partition == partition_of(site_of(host), 4)
    for event in by_origin.values():
        assert (event.depth, event.source_url, event.at_ms, event.part, event.parts) == (4, URL, 5_000, 0, 1)


def test_a_link_to_the_page_itself_is_no_discovery() -> None:
    assert discoveries(parse(job("<a href=page>x</a><a href='#top'>y</a>"))) == []


@pytest.mark.parametrize(
    ("html", "header", "rel"),
    [
        ("<a href=a>x</a>", False, ""),
        ("<a rel=nofollow href=a>x</a>", False, "nofollow"),
        ("<meta name=robots content='noindex, nofollow'><a href=a>x</a>", False, "nofollow"),
        ("<meta name=ROBOTS content=none><a href=a rel=me>x</a>", False, "me nofollow"),
        ("<a href=a>x</a>", True, "nofollow"),
    ],
)
def test_nofollow_of_link_page_and_header_is_kept(html: str, header: bool, rel: str) -> None:
    (event,) = discoveries(parse(job(html, nofollow=header)))
    assert event.rels == (rel,)


def test_many_links_make_numbered_parts_and_none_is_lost() -> None:
    count = 2 * LINKS_MAX + 7
    found = discoveries(parse(job("".join(f"<a href=/{n}>x</a>" for n in range(count)))))
    assert [(event.part, event.parts) for event in found] == [(0, 3), (1, 3), (2, 3)]
    assert max(len(event.urls) for event in found) == LINKS_MAX
    assert len({event.event_id for event in found}) == 3
    assert [url for event in found for url in event.urls] == [f"http://e.example/{n}" for n in range(count)]


def test_facts_say_what_the_page_says() -> None:
    html = "<!doctype html><html lang=de><title> Ein  Titel </title><link rel=canonical href=/c><p>Drei Wörter hier"
    facts = cast("ParseFacts", decode(parse(job(html)).facts))
    assert (facts.title, facts.language, facts.encoding, facts.words) == ("Ein Titel", "de", "utf-8", 3)
    assert facts.canonical_url == "http://e.example/c"
    assert len(facts.text_sha256) == 32
