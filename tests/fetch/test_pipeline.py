"""One lease at a time: gates before sockets, emissions in an order that loses nothing, every step failing in turn."""

import asyncio
import gzip
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from frontlog.avro.enums import FetchKind, Reason, SourceKind
from frontlog.avro.errors import ConfigError, Corrupt, FrontlogError, Retriable
from frontlog.avro.events import Candidate, Discovery, Event, FetchResult, LeaseExtension
from frontlog.fetch.files import MemoryFiles
from frontlog.fetch.http_types import Limits
from frontlog.fetch.parser_pool import ParserFailed
from frontlog.fetch.pipeline import LOCATION_CHARACTERS_MAX, ROBOTS_BYTES_MAX
from frontlog.fetch.records import read_record, verify_archive
from frontlog.processors.sites import partition_of
from support.misbehaving import Line, Script, always, answers, page
from support.pipelines import LEASE_MS, LIMITS, NOW_MS, Rig, run
from support.warcs import FailingFiles

LINKED = b'<title>T</title><p>some words <a href="/next">next</a> <a href="https://other.example/">other</a>'


def one(
    script: Script, lease: Callable[[Rig], Awaitable[FetchResult]] | None = None, **how: object
) -> tuple[FetchResult, Rig]:
    """The result of one lease, which is the last thing that was emitted."""
    found: list[tuple[FetchResult, Rig]] = []

    async def use(rig: Rig) -> None:
        result = await (rig.page() if lease is None else lease(rig))
        assert rig.emitted.events[-1] is result
        found.append((result, rig))

    run(script, use, **how)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    return found[0]


def redirect(location: bytes, status: bytes = b"302 Found") -> bytes:
    return page(b"moved", b"Location: " + location, status=status)


# --- gates ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "allow", "reason"),
    [
        ({"requested": "ftp://127.0.0.1/"}, "127.0.0.0/8", Reason.BAD_SCHEME),
        ({"requested": "javascript:alert(1)"}, "127.0.0.0/8", Reason.BAD_SCHEME),
        ({}, "", Reason.BLOCKED_NETWORK),
        ({}, "10.0.0.0/8", Reason.BLOCKED_NETWORK),
        ({"address": "::ffff:127.0.0.1"}, "", Reason.BLOCKED_NETWORK),
        ({"address": ""}, "127.0.0.0/8", Reason.BLOCKED_NETWORK),
        ({"deadline_ms": NOW_MS + LIMITS.total_ms - 1}, "127.0.0.0/8", Reason.RELEASED),
    ],
)
@pytest.mark.parametrize("kind", [FetchKind.PAGE, FetchKind.ROBOTS])
def test_a_gate_that_refuses_opens_no_socket(
    changes: dict[str, Any], allow: str, reason: Reason, kind: FetchKind
) -> None:
    result, rig = one(always(page()), lambda rig: rig.page(kind=kind, **changes), allow=allow)
    assert (result.reason, result.kind) == (reason, kind)
    assert result.address == "" and result.status == 0 and result.body is None
    assert rig.server.connections == 0
    assert rig.emitted.kinds == ["FetchResult"]


@pytest.mark.parametrize(
    ("host", "allow", "reason", "address"),
    [
        ("two.test", "127.0.0.0/8", Reason.OK, "127.0.0.1"),
        ("mixed.test", "127.0.0.0/8", Reason.BLOCKED_NETWORK, ""),
        ("two.test", "", Reason.BLOCKED_NETWORK, ""),
        ("[::1]", "127.0.0.0/8", Reason.BLOCKED_NETWORK, ""),
        ("127.0.0.5", "127.0.0.0/8", Reason.OK, "127.0.0.5"),
    ],
)
def test_a_look_up_judges_every_address_and_connects_to_none(
    host: str, allow: str, reason: Reason, address: str
) -> None:
    result, rig = one(
        always(page()), lambda rig: rig.page(kind=FetchKind.RESOLVE, host=host, address=""), allow=allow
    )
    assert (result.reason, result.address) == (reason, address)
    assert result.addresses
    assert rig.server.connections == 0


# --- emissions -----------------------------------------------------------------------------------------------


def test_each_emission_is_durable_before_the_next_is_offered() -> None:
    files = MemoryFiles()

    async def use(rig: Rig) -> None:
        rig.emitted.hold = True
        task = asyncio.create_task(rig.page())
        assert await rig.emitted.step() == ["Candidate"]
        body = rig.emitted.of(Candidate)[0].body
        assert body is not None
        files.crash()  # the power goes: what the candidate points at is there
        assert read_record(files, body).payload == LINKED
        await asyncio.sleep(0.02)
        assert rig.emitted.kinds == ["Candidate"]
        assert await rig.emitted.step() == ["Candidate", "Discovery", "Discovery"]
        await asyncio.sleep(0.02)
        assert len(rig.emitted.events) == 3
        assert (await rig.emitted.step())[3:] == ["FetchResult"]
        assert not task.done()
        rig.emitted.durable.set()
        assert (await task).reason is Reason.OK

    run(always(page(LINKED)), use, files=files)


def test_what_a_page_gives() -> None:
    result, rig = one(
        answers(
            page(
                LINKED, b'ETag: "e"', b"Last-Modified: yesterday", b"X-Robots-Tag: noarchive, other: noindex"
            )
        )
    )
    (candidate,) = rig.emitted.of(Candidate)
    here, other = rig.emitted.of(Discovery)
    assert (result.status, result.etag, result.last_modified) == (200, '"e"', "yesterday")
    assert (result.wire_bytes, result.decoded_bytes, result.fence) == (len(LINKED), len(LINKED), 7)
    assert result.parse is not None and result.parse.title == "T" and result.parse.links_out == 2
    assert candidate.event_id == result.event_id and candidate.body == result.body
    assert candidate.robots_meta == ("noarchive",)
    assert here.urls == (f"{result.origin_key}/next",) and here.depth == 2 and here.source_url == result.url
    assert other.urls == ("https://other.example/",)
    assert rig.emitted.partitions == [partition_of("127.0.0.1", 4), partition_of("other.example", 4)]
    assert result.started_ms >= NOW_MS and result.address == "127.0.0.1"


@pytest.mark.parametrize("failing", [Candidate, Discovery, FetchResult])
def test_an_emission_that_fails_is_the_last_one(failing: type[Event]) -> None:
    order: list[type[Event]] = [Candidate, Discovery, FetchResult]

    async def use(rig: Rig) -> None:
        rig.emitted.fail[failing] = Corrupt("the shard is gone")
        with pytest.raises(Corrupt, match="the shard is gone"):
            await rig.page()
        assert {type(event) for event in rig.emitted.events} == set(order[: order.index(failing)])

    run(always(page(LINKED)), use)


def test_without_a_durable_body_nothing_is_emitted() -> None:
    async def use(rig: Rig) -> None:
        with pytest.raises(ConfigError):
            await rig.page()
        assert rig.emitted.events == []

    run(always(page(LINKED)), use, files=FailingFiles(failing=range(1 << 30), code=13))


@pytest.mark.parametrize("kind", [FetchKind.PAGE, FetchKind.ROBOTS])
def test_a_bug_that_one_answer_brings_out_is_the_result_of_that_attempt(
    kind: FetchKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(**_: object) -> None:
        raise KeyError("nobody thought of this")

    monkeypatch.setattr("frontlog.fetch.pipeline.build_exchange", broken)
    result, _ = one(always(page(LINKED)), lambda rig: rig.page(kind=kind))
    assert result.reason is Reason.UNEXPECTED_STATUS
    assert result.detail == "unexpected: KeyError: 'nobody thought of this'"
    assert result.address == "127.0.0.1", "a request was made, so the host's gap counts"


def test_a_machine_at_its_limits_hands_the_lease_back(monkeypatch: pytest.MonkeyPatch) -> None:
    async def use(rig: Rig) -> None:
        async def full(*_: object) -> None:
            raise Retriable("too many open files")

        monkeypatch.setattr(rig.transport, "fetch", full)
        result = await rig.page()
        assert (result.reason, result.detail, result.address) == (Reason.RELEASED, "too many open files", "")

    run(always(page()), use)


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
        (page(gzip.compress(b"x" * 2_000_001), b"Content-Encoding: gzip"), Reason.OVERSIZE),
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
    assert rig.emitted.kinds == ["FetchResult"] and rig.parsers.jobs == []


# --- time ----------------------------------------------------------------------------------------------------


async def hang(line: Line) -> None:
    await line.request()
    await line.hang()


def test_a_cancelled_fetch_emits_nothing_and_lets_go_of_its_connection() -> None:
    closed = asyncio.Event()

    async def script(line: Line) -> None:
        await line.request()
        await line.hang()
        closed.set()

    async def use(rig: Rig) -> None:
        task = asyncio.create_task(rig.page())
        while not rig.server.requests:
            await asyncio.sleep(0.005)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        async with asyncio.timeout(2):
            await closed.wait()
        assert rig.emitted.events == []

    run(script, use)


def test_a_fetch_that_is_cancelled_between_its_emissions_stops_there() -> None:
    files = MemoryFiles()

    async def use(rig: Rig) -> None:
        rig.emitted.hold = True
        task = asyncio.create_task(rig.page())
        assert await rig.emitted.step() == ["Candidate"]
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert rig.emitted.kinds == ["Candidate"]

    run(always(page(LINKED)), use, files=files)
    assert verify_archive(files) == []


def test_a_lease_is_extended_while_its_page_waits_for_a_parser() -> None:
    limits = Limits(connect_ms=100, first_byte_ms=100, total_ms=100)

    async def use(rig: Rig) -> None:
        rig.parsers.wait = asyncio.Event()
        task = asyncio.create_task(rig.page(deadline_ms=rig.now_ms + 150))
        while len(rig.emitted.of(LeaseExtension)) < 2:
            await asyncio.sleep(0.01)
            rig.now_ms += 10
        assert not task.done()
        rig.parsers.wait.set()
        await task
        first, second = rig.emitted.of(LeaseExtension)[:2]
        assert NOW_MS + 150 < first.deadline_ms < second.deadline_ms <= rig.now_ms + 150
        assert (first.fence, first.url, first.origin_key) == (7, rig.lease().url, rig.lease().origin_key)
        assert first.event_id != second.event_id
        count = len(rig.emitted.events)
        await asyncio.sleep(0.3)
        assert len(rig.emitted.events) == count, "no more time is asked for when it is done"

    run(always(page(LINKED)), use, limits=limits)


def test_a_quick_fetch_asks_for_no_more_time() -> None:
    _, rig = one(always(page(LINKED)), lambda rig: rig.page(deadline_ms=NOW_MS + LEASE_MS))
    assert rig.emitted.of(LeaseExtension) == []


def test_errors_of_an_extension_are_no_errors_of_the_fetch() -> None:
    limits = Limits(connect_ms=100, first_byte_ms=100, total_ms=100)

    async def use(rig: Rig) -> None:
        rig.emitted.fail[LeaseExtension] = FrontlogError("the shard is ending")
        rig.parsers.wait = asyncio.Event()
        task = asyncio.create_task(rig.page(deadline_ms=rig.now_ms + 110))
        await asyncio.sleep(0.2)
        rig.parsers.wait.set()
        assert (await task).reason is Reason.OK

    run(always(page(LINKED)), use, limits=limits)


def test_a_slow_server_is_a_timeout_with_the_time_it_took() -> None:
    limits = Limits(connect_ms=500, first_byte_ms=80, total_ms=500)
    result, _ = one(hang, limits=limits)
    assert (result.reason, result.detail) == (Reason.TIMEOUT, "first_byte")
    assert result.total_ms >= 80 and result.address == "127.0.0.1"
