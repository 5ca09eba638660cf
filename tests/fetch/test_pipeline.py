"""One lease at a time: gates before sockets, emissions in an order that loses nothing, every step failing in turn."""

import asyncio
from typing import Any

import pytest

from frontlog.avro.enums import FetchKind, Reason
from frontlog.avro.errors import ConfigError, Corrupt, FrontlogError, Retriable
from frontlog.avro.events import Candidate, Discovery, Event, FetchResult, LeaseExtension
from frontlog.fetch.files import MemoryFiles
from frontlog.fetch.http_types import Limits
from frontlog.fetch.records import read_record, verify_archive
from frontlog.processors.sites import partition_of
from support.misbehaving import Line, always, answers, page
from support.pipelines import LEASE_MS, LIMITS, LINKED, NOW_MS, Rig, one, run
from support.warcs import FailingFiles

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
        assert NOW_MS + 150 < first.deadline_ms < second.deadline_ms
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
