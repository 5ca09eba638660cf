"""The archive's thread: durable before it answers, full and empty again, one bad record, a folder that is lost."""

import asyncio
import errno
import threading
from collections.abc import Awaitable, Callable

import pytest

from frontlog.avro.errors import ConfigError, FrontlogError, StoreFull
from frontlog.avro.events import BodyRef
from frontlog.fetch import archive_writer
from frontlog.fetch.archive_writer import ArchiveWriter
from frontlog.fetch.files import Files, MemoryFiles
from frontlog.fetch.records import iterate, read_record, verify_archive
from frontlog.fetch.warc import Capture
from support.crawls import until
from support.warcs import FailingFiles, archive, capture, opened


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive_writer, "RETRY_S", 0.01)


def run(
    files: Files, use: Callable[[ArchiveWriter], Awaitable[None]], *, buffered_bytes_max: int = 1 << 24
) -> ArchiveWriter:
    """A test's coroutine with a writer, which is closed behind it."""
    writer = ArchiveWriter(opened(files, buffered_bytes_max=buffered_bytes_max))
    writer.start()

    async def main() -> None:
        try:
            await use(writer)
        finally:
            await asyncio.to_thread(writer.close)

    asyncio.run(main())
    return writer


async def store(writer: ArchiveWriter, numbers: range, size: int = 60) -> list[BodyRef]:
    return await asyncio.gather(*(writer.store(lambda n=n: capture(n, size)) for n in numbers))  # type: ignore[misc]


def uris(files: Files, refs: list[BodyRef]) -> list[str]:
    return [read_record(files, ref).target_uri for ref in refs]


def test_what_was_answered_survives_a_power_cut() -> None:
    files = MemoryFiles()

    async def use(writer: ArchiveWriter) -> None:
        refs = await store(writer, range(50))
        files.crash()
        assert uris(files, refs) == [f"http://site.test/{n}" for n in range(50)]
        assert writer.load == 0

    run(files, use)


def test_one_flush_serves_many() -> None:
    async def use(writer: ArchiveWriter) -> None:
        await store(writer, range(200))
        assert writer.flushes <= 20

    run(MemoryFiles(), use)


def test_without_room_everybody_waits_and_nothing_is_lost() -> None:
    files = FailingFiles(failing=range(1, 1 << 30))

    async def use(writer: ArchiveWriter) -> None:
        waiting = asyncio.ensure_future(store(writer, range(30)))
        await asyncio.to_thread(until, lambda: writer.full)
        assert "nothing is lost: free some room" in writer.full
        more = asyncio.ensure_future(store(writer, range(30, 40)))
        await asyncio.sleep(0.05)
        assert not waiting.done() and not more.done()
        files.failing = range(0)
        refs = [*await waiting, *await more]
        assert writer.full == ""
        assert uris(files, refs) == [f"http://site.test/{n}" for n in range(40)]

    writer = run(files, use)
    assert writer.failed is None and verify_archive(files) == []


def test_an_end_without_room_gives_up_what_waits_and_the_next_start_finds_whole_records() -> None:
    files = FailingFiles()

    async def use(writer: ArchiveWriter) -> None:
        kept = await store(writer, range(3))
        files.failing = range(files.done, 1 << 30)
        waiting = asyncio.ensure_future(store(writer, range(3, 6)))
        await asyncio.to_thread(until, lambda: writer.full)
        await asyncio.to_thread(writer.close)
        with pytest.raises(StoreFull):
            await waiting
        with pytest.raises(StoreFull):
            await store(writer, range(1))
        files.failing = range(0)
        assert uris(files, kept) == [f"http://site.test/{n}" for n in range(3)]

    run(files, use)
    archive(files).recover()
    assert verify_archive(files) == []
    kept = [
        record.target_uri
        for name in files.names()
        for _, record in iterate(files, name)
        if record.type == "response"
    ]
    assert kept[:3] == [f"http://site.test/{n}" for n in range(3)]


def test_more_than_may_wait_at_once_is_written_in_turns() -> None:
    files, gate = MemoryFiles(), threading.Event()

    def slow() -> Capture:
        gate.wait(10)
        return capture(0)

    async def use(writer: ArchiveWriter) -> None:
        first = asyncio.ensure_future(writer.store(slow))
        rest = asyncio.ensure_future(store(writer, range(1, 40), 30_000))
        await asyncio.sleep(0.05)
        gate.set()
        refs = [await first, *await rest]
        assert uris(files, refs) == [f"http://site.test/{n}" for n in range(40)]

    run(files, use, buffered_bytes_max=100_000)
    assert verify_archive(files) == []


def test_a_record_that_cannot_be_built_fails_alone() -> None:
    files = MemoryFiles()

    def bad() -> Capture:
        raise ValueError("a strange answer")

    async def use(writer: ArchiveWriter) -> None:
        found = await asyncio.gather(
            store(writer, range(3)), writer.store(bad), store(writer, range(3, 6)), return_exceptions=True
        )
        assert isinstance(found[1], ValueError)
        assert isinstance(found[0], list) and isinstance(found[2], list)
        assert len(uris(files, [*found[0], *found[2]])) == 6
        await store(writer, range(6, 7))

    assert run(files, use).failed is None


def test_a_folder_that_may_not_be_written_is_told_to_everybody() -> None:
    files = FailingFiles(failing=range(1 << 30), code=errno.EACCES)

    async def use(writer: ArchiveWriter) -> None:
        found = await asyncio.gather(
            *(writer.store(lambda: capture(0)) for _ in range(5)), return_exceptions=True
        )
        assert {type(one) for one in found} == {ConfigError}
        with pytest.raises(ConfigError, match="may write"):
            await writer.store(lambda: capture(1))

    assert isinstance(run(files, use).failed, FrontlogError)


def test_who_gives_up_waiting_does_no_harm_to_others() -> None:
    files = FailingFiles(failing=range(1, 1 << 30))

    async def use(writer: ArchiveWriter) -> None:
        gone = asyncio.ensure_future(store(writer, range(3)))
        staying = asyncio.ensure_future(store(writer, range(3, 6)))
        await asyncio.to_thread(until, lambda: writer.full)
        gone.cancel()
        files.failing = range(0)
        assert uris(files, await staying) == [f"http://site.test/{n}" for n in range(3, 6)]

    run(files, use)
    assert verify_archive(files) == []


def test_a_writer_that_never_started_can_be_closed() -> None:
    writer = ArchiveWriter(opened(MemoryFiles()))
    writer.close()
    assert writer.failed is None


def test_a_busy_archive_lets_records_gather(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive_writer, "REST_FACTOR", 1e9)
    monkeypatch.setattr(archive_writer, "REST_S_MAX", 0.2)

    async def use(writer: ArchiveWriter) -> None:
        await store(writer, range(1))
        assert writer.flushes == 1
        waiting: list[asyncio.Future[BodyRef]] = []
        for n in range(1, 6):
            waiting.append(asyncio.ensure_future(writer.store(lambda n=n: capture(n))))  # type: ignore[misc]
            await asyncio.sleep(0.001)
        await asyncio.gather(*waiting)
        assert writer.flushes == 2

    run(MemoryFiles(), use)


def test_who_closes_an_archive_doesnt_wait_for_its_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive_writer, "REST_FACTOR", 1e9)
    monkeypatch.setattr(archive_writer, "REST_S_MAX", 60.0)
    files = MemoryFiles()

    async def use(writer: ArchiveWriter) -> None:
        await store(writer, range(1))
        waiting = asyncio.ensure_future(store(writer, range(1, 4)))
        await asyncio.sleep(0)
        await asyncio.to_thread(writer.close)
        assert uris(files, await waiting) == [f"http://site.test/{n}" for n in range(1, 4)]

    run(files, use)
