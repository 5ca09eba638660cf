"""What a pipeline makes of answers: redirects, robots.txt, conditional requests, pages that are no pages."""

import gzip
import hashlib

import pytest

from frontlog.avro.enums import FetchKind, Reason, SourceKind
from frontlog.avro.events import Discovery, FetchResult
from frontlog.fetch.answers import LOCATION_CHARACTERS_MAX, ROBOTS_BYTES_MAX
from frontlog.fetch.decoding import decode
from frontlog.fetch.parser_pool import ParserFailed
from frontlog.fetch.records import read_record
from frontlog.processors.sites import partition_of
from support.misbehaving import Script, always, answers, page
from support.pipelines import LINKED, Rig, one, run


def redirect(location: bytes, status: bytes = b"302 Found") -> bytes:
    return page(b"moved", b"Location: " + location, status=status)


# --- redirects -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [b"301 M", b"302 F", b"303 S", b"307 T", b"308 P"])
def test_a_redirect_is_a_discovery_with_its_chain(status: bytes) -> None:
    result, rig = one(
        always(redirect(b"../b?q#f", status)), lambda rig: rig.page(path="/a/x", chain=("http://first/",))
    )
    (found,) = rig.emitted.of(Discovery)
    assert rig.emitted.kinds == ["Discovery", "FetchResult"]
    assert (result.reason, result.location) == (Reason.OK, f"{result.origin_key}/b?q")
    assert found.urls == (result.location,) and found.raws == ("../b?q#f",)
    assert found.source_kind is SourceKind.REDIRECT and found.depth == 1
    assert found.chain == ("http://first/", result.requested)
    assert result.body is not None


def test_a_redirect_to_another_site_goes_to_its_partition() -> None:
    result, rig = one(always(redirect(b"https://www.other.example/")))
    assert rig.emitted.partitions == [partition_of("other.example", 4)]
    assert rig.emitted.of(Discovery)[0].origin_key == "https://www.other.example:443"
    assert result.location == "https://www.other.example/"


@pytest.mark.parametrize(
    ("location", "chain", "reason"),
    [
        (b"/", (), Reason.REDIRECT_LOOP),
        (b"/#fragment", (), Reason.REDIRECT_LOOP),
        (b"http://h/3", tuple(f"http://h/{n}" for n in range(4)), Reason.REDIRECT_LOOP),
        (b"http://h/9", tuple(f"http://h/{n}" for n in range(5)), Reason.TOO_MANY_REDIRECTS),
        (b"", (), Reason.BAD_LOCATION),
        (b"mailto:x@example.org", (), Reason.BAD_LOCATION),
        (b"http://[half", (), Reason.BAD_LOCATION),
        (b"/" + b"x" * LOCATION_CHARACTERS_MAX, (), Reason.BAD_LOCATION),
    ],
)
def test_a_chain_that_ends(location: bytes, chain: tuple[str, ...], reason: Reason) -> None:
    result, rig = one(always(redirect(location)), lambda rig: rig.page(chain=chain))
    assert (result.reason, result.location, result.status) == (reason, "", 302)
    assert rig.emitted.kinds == ["FetchResult"]


def test_five_hops_are_followed() -> None:
    result, rig = one(
        always(redirect(b"http://h/9")), lambda rig: rig.page(chain=tuple(f"http://h/{n}" for n in range(4)))
    )
    assert result.reason is Reason.OK and len(rig.emitted.of(Discovery)[0].chain) == 5


@pytest.mark.parametrize(
    ("location", "target"),
    [
        ("/caf\u00e9".encode(), "/caf%C3%A9"),
        ("/caf\u00e9".encode("latin-1"), "/caf%E9"),
        (b"/a%20b'c", "/a%20b'c"),
        (b"/a b", "/a%20b"),
    ],
)
def test_the_bytes_of_a_location_are_requested_as_they_came(location: bytes, target: str) -> None:
    result, rig = one(always(redirect(location)))
    assert rig.emitted.of(Discovery)[0].urls == (result.origin_key + target,)


@pytest.mark.parametrize(
    "reply",
    [
        b"HTTP/1.1 302 F\r\nLocation: /b\r\nContent-Length: 99\r\n\r\nshort",
        b"HTTP/1.1 302 F\r\nLocation: /b\r\nContent-Encoding: gzip\r\nContent-Length: 13\r\n\r\n\x1f\x8b\x08not gzip..",
        b"HTTP/1.1 302 F\r\nLocation: /b\r\nContent-Length: 1000100\r\n\r\n" + b"x" * 1_000_100,
    ],
)
def test_a_redirect_counts_whatever_becomes_of_its_body(reply: bytes) -> None:
    result, rig = one(answers(reply))
    assert (result.reason, result.location) == (Reason.OK, f"{result.origin_key}/b")
    assert rig.emitted.kinds == ["Discovery", "FetchResult"]


def test_a_page_that_is_gone_is_gone_whatever_becomes_of_its_body() -> None:
    result, _ = one(answers(b"HTTP/1.1 410 Gone\r\nContent-Length: 99\r\n\r\nshort"))
    assert (result.status, result.reason, result.truncated) == (410, Reason.OK, "disconnect")


def test_a_page_that_is_cut_short_is_kept_and_not_parsed() -> None:
    result, rig = one(
        answers(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 99\r\n\r\n<p>short")
    )
    assert (result.status, result.reason, result.truncated) == (200, Reason.TRUNCATED, "disconnect")
    assert rig.emitted.kinds == ["FetchResult"] and rig.parsers.jobs == []
    assert result.body is not None
    assert read_record(rig.files, result.body).get("WARC-Truncated") == "disconnect"


# --- robots.txt ----------------------------------------------------------------------------------------------


def robots(script: Script) -> FetchResult:
    result, rig = one(script, lambda rig: rig.pipeline.carry_out(rig.robots()))
    assert rig.emitted.kinds == ["FetchResult"]
    return result


def test_a_robots_txt_is_in_its_result_and_in_the_archive() -> None:
    text = b"\xef\xbb\xbfUser-agent: *\nDisallow: /x\n"
    result = robots(always(page(text, b"Cache-Control: max-age=60", b"Cache-Control: private")))
    assert (result.kind, result.reason, result.status) == (FetchKind.ROBOTS, Reason.OK, 200)
    assert result.robots_txt == text and result.truncated == ""
    assert result.cache_control == "max-age=60, private"
    assert result.body is not None


@pytest.mark.parametrize("coding", ["identity", "gzip"])
def test_a_long_robots_txt_is_cut_and_says_so(coding: str) -> None:
    text = b"Disallow: /x\n" * 80_000
    body = gzip.compress(text) if coding == "gzip" else text
    result = robots(always(page(body, b"Content-Encoding: " + coding.encode())))
    assert (result.reason, result.truncated) == (Reason.OK, "length")
    assert len(result.robots_txt) == ROBOTS_BYTES_MAX + 1 and text.startswith(result.robots_txt)


def test_a_robots_txt_of_just_the_limit_is_whole() -> None:
    result = robots(always(page(b"#" * ROBOTS_BYTES_MAX)))
    assert (len(result.robots_txt), result.truncated) == (ROBOTS_BYTES_MAX, "")


@pytest.mark.parametrize(
    "reply",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nUser-agent: *",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nUser-",
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 6\r\n\r\n\x1f\x8b\x08\x00\x00\x00",
    ],
)
def test_a_robots_txt_that_is_not_whole_says_nothing(reply: bytes) -> None:
    result = robots(answers(reply))
    assert result.reason in (Reason.TRUNCATED, Reason.DECODE_FAILED) and result.robots_txt == b""


def test_a_missing_robots_txt_is_missing_whatever_becomes_of_its_body() -> None:
    result = robots(answers(b"HTTP/1.1 404 Not Found\r\nContent-Length: 99\r\n\r\nshort"))
    assert (result.status, result.reason) == (404, Reason.OK)


def test_a_redirected_robots_txt_is_not_followed_here() -> None:
    result = robots(always(redirect("http://other.example/r\u00e9.txt".encode("latin-1"), b"301 M")))
    assert (result.status, result.location) == (301, "http://other.example/r%E9.txt")


# --- other answers -------------------------------------------------------------------------------------------


def test_what_is_known_of_a_page_is_asked_for_conditionally() -> None:
    result, rig = one(
        answers(b'HTTP/1.1 304 Not Modified\r\nETag: W/"2"\r\n\r\n'),
        lambda rig: rig.page(etag='W/"1"', last_modified="Thu, 01 Jan 2026 00:00:00 GMT"),
    )
    head = rig.server.requests[0].decode()
    assert 'If-None-Match: W/"1"\r\n' in head
    assert "If-Modified-Since: Thu, 01 Jan 2026 00:00:00 GMT\r\n" in head
    assert "User-Agent: Mozilla/5.0 (compatible; frontlog/1)\r\n" in head
    assert (result.status, result.reason, result.etag) == (304, Reason.OK, 'W/"2"')
    assert rig.emitted.kinds == ["FetchResult"]


def test_a_first_request_is_not_conditional() -> None:
    _, rig = one(always(page()))
    assert b"If-" not in rig.server.requests[0]


def test_validators_that_are_too_long_are_not_cut_but_dropped() -> None:
    result, _ = one(always(page(LINKED, b'ETag: "' + b"e" * 5_000 + b'"', b"Last-Modified: " + b"d" * 5_000)))
    assert (result.etag, result.last_modified) == ("", "")


@pytest.mark.parametrize("reason", [Reason.PARSER_LIMIT, Reason.WORKER_LOST])
def test_a_page_without_a_parse_is_archived_all_the_same(reason: Reason) -> None:
    async def use(rig: Rig) -> None:
        rig.parsers.error = ParserFailed(reason, "more than 1 s")
        result = await rig.page()
        assert (result.reason, result.detail, result.status) == (reason, "more than 1 s", 200)
        assert result.body is not None and read_record(rig.files, result.body).payload == LINKED
        assert rig.emitted.kinds == ["FetchResult"]

    run(always(page(LINKED)), use)


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (page(b"x", status=b"500 E"), Reason.OK),
        (page(b"x" * 1_000_001), Reason.OVERSIZE),
        (page(gzip.compress(b"x" * 2_000_001, mtime=0), b"Content-Encoding: gzip"), Reason.OVERSIZE),
        (
            page(b"\x89PNG", b"Content-Type: image/png").replace(b"Content-Type: text/html\r\n", b""),
            Reason.BAD_TYPE,
        ),
        (b"HTTP/1.1 204 No Content\r\n\r\n", Reason.OK),
        (b"SSH-2.0-x\r\n", Reason.PROTOCOL_ERROR),
        (b"", Reason.CONNECTION_RESET),
    ],
)
def test_what_is_no_page_gives_a_result_alone(reply: bytes, reason: Reason) -> None:
    result, rig = one(answers(reply))
    assert result.reason is reason
    assert result.address == "127.0.0.1"
    assert rig.emitted.kinds == ["FetchResult"] and [job for job in rig.parsers.jobs if not job.coding] == []


# --- pages in a content coding, which is undone where they are parsed ----------------------------------------------


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize(
    ("coded", "reason", "decoded_bytes"),
    [
        (gzip.compress(LINKED, mtime=0), Reason.OK, len(LINKED)),
        (LINKED, Reason.OK, len(LINKED)),  # plain in spite of what its head says
        (gzip.compress(LINKED, mtime=0)[:-9], Reason.TRUNCATED, None),
        (gzip.compress(LINKED, mtime=0)[:20] + b"x" * 30, Reason.DECODE_FAILED, None),
        (gzip.compress(LINKED * 40_000, mtime=0), Reason.OVERSIZE, 2_000_000),
    ],
)
def test_a_coded_page_is_worth_what_it_is_decoded(
    coded: bytes, reason: Reason, decoded_bytes: int | None, fails: bool
) -> None:
    async def use(rig: Rig) -> None:
        if fails:
            rig.parsers.error = ParserFailed(Reason.PARSER_LIMIT, "more than 1 s")
        result = await rig.page()
        assert [(job.coding, job.body) for job in rig.parsers.jobs] == [("gzip", coded)]
        assert result.reason is (Reason.PARSER_LIMIT if fails and reason is Reason.OK else reason)
        assert result.wire_bytes == len(coded)
        assert result.decoded_bytes == len(decode(coded, "gzip", 2_000_000).data)
        assert decoded_bytes in (None, result.decoded_bytes)
        assert result.body is not None and read_record(rig.files, result.body).payload == coded
        assert (result.parse is not None) == (reason is Reason.OK and not fails)
        assert result.body_sha256 == (hashlib.sha256(LINKED).digest() if result.parse else b"")
        parsed = ["Candidate", "Discovery", "Discovery"] if result.parse else []
        assert rig.emitted.kinds == [*parsed, "FetchResult"]

    run(always(page(coded, b"Content-Encoding: gzip")), use)


def test_only_whole_pages_of_a_usual_coding_are_left_coded() -> None:
    body = gzip.compress(LINKED, mtime=0)
    twice = gzip.compress(body, mtime=0)
    for reply in (
        page(twice, b"Content-Encoding: gzip, gzip"),
        page(LINKED, b"Content-Encoding: identity"),
        page(body, b"Content-Encoding: gzip", b"Content-Type: nothing").replace(
            b"Content-Type: text/html\r\n", b""
        ),
    ):
        result, rig = one(answers(reply))
        assert (result.reason, result.decoded_bytes) == (Reason.OK, len(LINKED))
        assert [(job.coding, job.body) for job in rig.parsers.jobs] == [("", LINKED)]
