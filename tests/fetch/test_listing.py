"""A sitemap or feed on its way into the frontier: parsed in bounded parts, fetched through the real pipeline."""

import asyncio
import dataclasses
import gzip
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from frontlog.avro.codec import decode
from frontlog.avro.enums import Reason, SourceKind
from frontlog.avro.events import Candidate, Discovery, FetchResult, SitemapFacts
from frontlog.fetch.files import MemoryFiles
from frontlog.fetch.http_types import Limits
from frontlog.fetch.listing import FOREIGN_ORIGINS_MAX
from frontlog.fetch.parse_job import EVIDENT, NAMED, Job, Parsed, parse
from frontlog.fetch.pipeline import EVENTS_AT_ONCE, SITEMAPS_AT_ONCE
from frontlog.fetch.records import read_record
from frontlog.processors.inputs import LINKS_MAX, fault, home
from frontlog.processors.sitemap_entries import ENTRIES_MAX
from support.misbehaving import Line, Script, always, page
from support.pipelines import LEASE_MS, LIMITS, NOW_MS, Rig, one, run

FILE, INDEX = "http://a.example/sitemap.xml", "http://a.example/index.xml"
EVENT_BYTES_MAX = 256 << 10
RSS = b"<rss><channel><item><link>/1</link><pubDate>Mon, 21 Sep 2026 10:00:00 GMT</pubDate></item></channel></rss>"


def urlset(count: int, path: str = "/p/") -> bytes:
    body = "".join(
        f"<url><loc>http://a.example{path}{n}</loc><lastmod>2026-09-21</lastmod></url>" for n in range(count)
    )
    return f'<?xml version="1.0"?><urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{body}</urlset>'.encode()


def job(body: bytes, **changes: Any) -> Job:
    base = Job(
        "1-1-1 x", FILE, FILE, "text/xml", "frontlog", 0, NOW_MS, 4, body, listing=NAMED, via=(INDEX, FILE)
    )
    return replace(base, **changes)


def events(found: Parsed) -> list[Discovery]:
    return [cast("Discovery", decode(one.value)) for one in found.discoveries]


def facts(found: Parsed) -> SitemapFacts:
    return cast("SitemapFacts", decode(found.sitemap))


# --- the worker --------------------------------------------------------------------------------------------------


def test_fifty_thousand_urls_are_a_hundred_numbered_events() -> None:
    found = parse(job(gzip.compress(urlset(ENTRIES_MAX + 10), 1)))
    parts = events(found)
    assert [(e.part, e.parts, len(e.urls), len(e.lastmods)) for e in parts] == [
        (n, 100, LINKS_MAX, LINKS_MAX) for n in range(100)
    ]
    assert len({e.event_id for e in parts}) == 100
    assert len({url for e in parts for url in e.urls}) == ENTRIES_MAX
    assert {(e.source_kind, e.source_url, e.via, e.depth) for e in parts} == {
        (SourceKind.SITEMAP, FILE, (INDEX, FILE), 1)
    }
    assert (facts(found).kind, facts(found).urls, facts(found).cut) == ("urlset", ENTRIES_MAX, 10)
    assert found.facts == b""


def test_long_urls_make_smaller_events() -> None:
    found = parse(job(urlset(700, "/" + "x" * 1_900 + "/")))
    assert all(len(one.value) <= EVENT_BYTES_MAX for one in found.discoveries)
    assert sum(len(e.urls) for e in events(found)) == 700
    assert len(found.discoveries) > 5


def test_a_file_that_was_cut_gives_what_was_whole() -> None:
    whole = urlset(100)
    found = parse(job(whole[: len(whole) // 2]))
    urls = [url for e in events(found) for url in e.urls]
    assert 40 < len(urls) < 60
    assert urls == [f"http://a.example/p/{n}" for n in range(len(urls))]
    assert facts(found).faults == 1
    assert "nothing is read from here on" in facts(found).errors[0]


def test_a_bare_ampersand_invents_no_url() -> None:
    body = b"<urlset><url><loc>http://a.example/?a=1&b=2</loc></url></urlset>"
    assert events(parse(job(body)))[0].urls == ("http://a.example/?a=1&b=2",)


def test_the_children_of_an_index_are_sitemaps_with_the_way_to_them() -> None:
    body = b"<sitemapindex><sitemap><loc>http://a.example/1.xml</loc><lastmod>2026-09-21</lastmod></sitemap></sitemapindex>"
    (event,) = events(parse(job(body, depth=3)))
    assert (event.source_kind, event.urls, event.via, event.depth) == (
        SourceKind.SITEMAP_FILE, ("http://a.example/1.xml",), (INDEX, FILE), 3,
    )  # fmt: skip
    assert event.lastmods == (1_789_948_800_000,)


@pytest.mark.parametrize(
    ("body", "named", "kind", "urls"),
    [
        (urlset(1), True, "urlset", 1),
        (urlset(1), False, "urlset", 1),
        (RSS, False, "rss", 1),
        (b"<feed><entry><link href='/2'/></entry></feed>", False, "atom", 1),
        (b"http://a.example/1\nhttp://b.example/2\n", True, "text", 2),
        (b"http://a.example/1\nhttp://b.example/2\n", False, "", 0),
        (b"<!doctype html><p>not found", True, "html", 0),
        (b"<!doctype html><p>not found", False, "", 0),
        (b"<svg/>", True, "unknown", 0),
        (b"", True, "unknown", 0),
    ],
)
def test_only_what_was_named_is_taken_for_a_list_that_does_not_show_it(
    body: bytes, named: bool, kind: str, urls: int
) -> None:
    found = parse(job(body, listing=NAMED if named else EVIDENT))
    assert sum(len(e.urls) for e in events(found)) == urls
    assert (facts(found).kind if found.sitemap else "") == kind


def test_entries_of_a_feed_are_entries_of_a_feed() -> None:
    (event,) = events(parse(job(RSS)))
    assert (event.source_kind, event.lastmods) == (SourceKind.FEED, (1_789_984_800_000,))


def test_a_date_to_come_says_nothing() -> None:
    body = b"<urlset><url><loc>http://a.example/1</loc><lastmod>2090-01-01</lastmod></url></urlset>"
    (event,) = events(parse(job(body)))
    assert event.lastmods == ()


def test_a_file_speaks_of_a_bounded_number_of_other_sites() -> None:
    urls = "\n".join(f"http://{name}.example/{n}" for n in range(700) for name in (f"s{n}", "www.a", f"s{n}"))
    found = parse(job(urls.encode()))
    origins = {e.origin_key for e in events(found)}
    assert len(origins) == FOREIGN_ORIGINS_MAX + 1
    assert "http://www.a.example:80" in origins
    assert facts(found).cut == 2 * 200
    assert facts(found).errors[0] == "400 entries of more than 500 origins of other sites"


MARKUP = st.sampled_from((
    b"<urlset>", b"</urlset>", b"<url>", b"</url>", b"<loc>", b"</loc>", b"http://a.example/", b"<sitemapindex>",
    b"<lastmod>2026-09-21</lastmod>", b"<sitemap>", b"</sitemap>", b"<rss>", b"<channel>", b"<item>", b"<link>", b"&",
    b"&amp;", b"<![CDATA[", b"]]>", b"<!DOCTYPE x [<!ENTITY y 'z'>]>", b"\n", b"\xff\xfe", b"\x1f\x8b\x08", b"\0", b"]]",
    b"<?xml version='1.0'?>", b"//",
))  # fmt: skip


@given(st.lists(MARKUP | st.binary(max_size=8), max_size=40).map(b"".join), st.sampled_from((NAMED, EVIDENT)))
def test_any_bytes_give_events_that_the_door_lets_in(body: bytes, listing: int) -> None:
    found = parse(job(body, listing=listing))
    for event in events(found):
        assert fault(event, 4) == ""
        assert home(event, 4) is not None
    if found.sitemap:
        said = facts(found)
        assert min(said.urls, said.children, said.cut, said.faults) >= 0
        assert len(said.errors) <= 20


# --- the pipeline ------------------------------------------------------------------------------------------------


def answer(body: bytes, kind: bytes = b"application/xml", *lines: bytes, status: bytes = b"200 OK") -> bytes:
    head = (b"HTTP/1.1 " + status, b"Content-Type: " + kind, *lines, b"Content-Length: %d" % len(body))
    return b"\r\n".join(head) + b"\r\n\r\n" + body


def fetched(script: Script, *, sitemap: bool = True, **how: Any) -> tuple[FetchResult, Rig]:
    return one(script, lambda rig: rig.page("/sitemap.xml", sitemap=sitemap), **how)


def links(rig: Rig) -> list[str]:
    return [url for event in rig.emitted.of(Discovery) for url in event.urls]


@pytest.mark.parametrize(
    "kind", [b"application/xml", b"text/html", b"application/octet-stream", b"image/png"]
)
@pytest.mark.parametrize("packed", [False, True])
def test_a_named_sitemap_is_read_whatever_it_is_served_as(kind: bytes, packed: bool) -> None:
    body = gzip.compress(urlset(3)) if packed else urlset(3)
    result, rig = fetched(always(answer(body, kind)))
    assert (result.reason, result.status) == (Reason.OK, 200)
    assert result.sitemap == SitemapFacts(kind="urlset", urls=3)
    assert len(links(rig)) == 3
    assert result.parse is None and not rig.emitted.of(Candidate), "it is no document"
    (event,) = rig.emitted.of(Discovery)
    assert event.via == (result.url,)


def test_its_record_is_in_the_archive_before_anything_is_emitted() -> None:
    files = MemoryFiles()
    body = urlset(2)

    async def use(rig: Rig) -> None:
        rig.emitted.hold = True
        task = asyncio.create_task(rig.page("/sitemap.xml", sitemap=True))
        assert await rig.emitted.step() == ["Discovery"]
        files.crash()
        rig.emitted.hold = False
        rig.emitted.durable.set()
        result = await task
        assert result.body is not None
        assert read_record(files, result.body).payload == body

    run(always(answer(body)), use, files=files)


def test_many_events_go_into_the_log_a_few_at_a_time() -> None:
    async def use(rig: Rig) -> None:
        rig.emitted.hold = True
        task = asyncio.create_task(rig.page("/sitemap.xml", sitemap=True))
        seen = [len(await rig.emitted.step()) for _ in range(10)]
        assert seen == [EVENTS_AT_ONCE * (n + 1) for n in range(10)]
        assert (await rig.emitted.step())[-1] == "FetchResult"
        rig.emitted.durable.set()
        assert (await task).reason is Reason.OK

    run(always(answer(urlset(10 * LINKS_MAX - 1))), use)


def test_one_that_had_to_wait_too_long_for_others_is_handed_back() -> None:
    async def use(rig: Rig) -> None:
        rig.emitted.hold = True
        others = [asyncio.create_task(rig.page(f"/{n}", sitemap=True)) for n in range(SITEMAPS_AT_ONCE)]
        while len(rig.emitted.events) < SITEMAPS_AT_ONCE:
            await asyncio.sleep(0.01)
        last = asyncio.create_task(rig.page("/last", sitemap=True))
        await asyncio.sleep(0.05)
        assert rig.server.connections == SITEMAPS_AT_ONCE, "it waits for its turn"
        rig.now_ms += LEASE_MS
        rig.emitted.hold = False
        rig.emitted.durable.set()
        result = await last
        assert (result.reason, result.address) == (Reason.RELEASED, ""), "no socket"
        assert {one.reason for one in await asyncio.gather(*others)} == {Reason.OK}

    run(always(answer(urlset(1))), use)


def test_one_that_is_too_long_counts_as_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("frontlog.fetch.answers.DECODED_BYTES_MAX", 10_000)
    limits = replace_limits(body_bytes_max=10_000, decoded_bytes_max=10_000)
    result, rig = fetched(always(answer(urlset(1_000))), limits=limits)
    assert (result.reason, result.truncated) == (Reason.OK, "length")
    assert result.sitemap is not None
    assert result.sitemap.urls == len(links(rig)) > 50
    assert "only 10,000 bytes came: oversize" in result.sitemap.errors[0]


def test_one_that_broke_off_gives_what_was_whole_and_is_put_off() -> None:
    body = urlset(1_000)

    async def script(line: Line) -> None:
        await line.request()
        await line.send(answer(body)[: len(body) // 2])

    result, rig = fetched(script)
    assert (result.reason, result.truncated) == (Reason.TRUNCATED, "disconnect")
    assert result.sitemap is not None
    assert result.sitemap.urls == len(links(rig)) > 300


def test_larger_ones_than_pages_are_allowed() -> None:
    limits = replace_limits(body_bytes_max=5_000, decoded_bytes_max=5_000)
    result, _ = fetched(always(answer(urlset(1_000))), limits=limits)
    assert result.sitemap == SitemapFacts(kind="urlset", urls=1_000)


def replace_limits(**changes: Any) -> Limits:
    return dataclasses.replace(LIMITS, **changes)


def test_a_page_of_html_in_its_place_lists_nothing() -> None:
    result, rig = fetched(always(page()))
    assert result.reason is Reason.OK
    assert result.sitemap is not None
    assert (result.sitemap.kind, result.sitemap.faults, links(rig)) == ("html", 1, [])
    assert not rig.emitted.of(Candidate)


@pytest.mark.parametrize("status", [b"404 Not Found", b"503 Busy"])
def test_an_error_is_not_read(status: bytes) -> None:
    result, rig = fetched(always(answer(urlset(3), status=status)))
    assert result.sitemap is None
    assert links(rig) == []


def test_a_redirect_of_a_sitemap_leads_to_a_sitemap() -> None:
    reply = answer(b"", b"text/html", b"Location: http://cdn.example/s.xml", status=b"302 Found")
    result, rig = one(
        always(reply),
        lambda rig: rig.page("/sitemap.xml", sitemap=True, via=(INDEX,), chain=("http://x.example/",)),
    )
    (event,) = rig.emitted.of(Discovery)
    assert (event.source_kind, event.urls, event.via) == (
        SourceKind.SITEMAP_FILE, ("http://cdn.example/s.xml",), (INDEX,),
    )  # fmt: skip
    assert event.chain == ("http://x.example/", result.requested)


def test_what_a_redirected_sitemap_lists_goes_by_the_name_that_was_named() -> None:
    _, rig = one(
        always(answer(urlset(1))),
        lambda rig: rig.page("/s", sitemap=True, chain=("http://A.example/x/../named.xml",)),
    )
    (event,) = rig.emitted.of(Discovery)
    assert event.via == ("http://a.example/named.xml",)


@pytest.mark.parametrize("kind", [b"application/rss+xml", b"text/xml; charset=utf-8"])
def test_a_feed_that_a_page_linked_to_is_read(kind: bytes) -> None:
    result, rig = fetched(always(answer(RSS, kind)), sitemap=False, limits=_with_lists())
    assert result.reason is Reason.OK
    assert result.sitemap is not None
    assert result.sitemap.kind == "rss"
    assert links(rig) == [f"{result.origin_key}/1"]


def test_xml_that_is_no_list_is_not_wanted() -> None:
    result, rig = fetched(always(answer(b"<svg/>", b"text/xml")), sitemap=False, limits=_with_lists())
    assert (result.reason, links(rig)) == (Reason.BAD_TYPE, [])
    assert result.sitemap is None


def _with_lists() -> Limits:
    return dataclasses.replace(LIMITS, types=(*LIMITS.types, "application/rss+xml", "text/xml"))
