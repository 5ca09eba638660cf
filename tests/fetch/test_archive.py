"""The archive in its plain life and on disks that fail: durable when it says so, nothing lost when full.

Not verified here: that the disk keeps what fsync promised, and that the kernel reports every failure.
"""

import errno
import io
import os
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from fastwarc import ArchiveIterator as FastIterator
from msgspec.structs import replace
from warcio.archiveiterator import ArchiveIterator

from frontlog.avro.errors import ConfigError, Fenced, FrontlogError, Retriable, StoreFull
from frontlog.avro.events import BodyRef
from frontlog.fetch.archive import Archive
from frontlog.fetch.files import LocalFiles, MemoryFiles
from frontlog.fetch.records import iterate, verify_archive
from support.warcs import Clock, FailingFiles, all_bytes, archive, capture, opened, uri


def test_what_was_flushed_is_read_back_by_reference_by_us_and_by_others(tmp_path: Path) -> None:
    made = opened(tmp_path / "warc")
    refs = [made.append(capture(n)) for n in range(5)]
    assert not (tmp_path / "warc").exists()
    made.flush()
    assert made.buffered_bytes == 0
    (name,) = made.segments()
    assert name == "frontlog-20261201000000123-00000.warc.gz"
    for number, ref in enumerate(refs):
        found = made.read(ref)
        assert (found.type, found.target_uri) == ("response", f"http://site.test/{number}")
        assert found.payload.startswith(f"page {number} ".encode())
        data = (tmp_path / "warc" / ref.file).read_bytes()[ref.offset : ref.offset + ref.length]
        other = next(iter(ArchiveIterator(io.BytesIO(data), check_digests=True)))
        assert other.raw_stream.read() == found.payload
    path = tmp_path / "warc" / name
    kinds = ["warcinfo", *["request", "response"] * 5]
    with path.open("rb") as stream:
        assert [found.rec_type for found in ArchiveIterator(stream, check_digests=True)] == kinds
    assert len(list(FastIterator(str(path), verify_digests=True))) == len(kinds)
    assert [found.type for _, found in made.iterate(name)] == kinds
    assert {ref for ref, found in made.iterate(name) if found.type == "response"} == set(refs)
    assert verify_archive(tmp_path / "warc") == []


def test_a_segment_ends_when_it_is_full(tmp_path: Path) -> None:
    files = LocalFiles(tmp_path)
    made = opened(tmp_path, segment_bytes_max=3000)
    refs = [made.append(capture(n, size=900)) for n in range(9)]
    made.flush()
    names = made.segments()
    assert len(names) > 2
    assert [ref.file for ref in refs] == sorted(ref.file for ref in refs)
    assert all(files.size(name) <= 3000 for name in names)
    assert verify_archive(files) == []
    assert [uri(made, ref) for ref in refs] == [f"http://site.test/{n}" for n in range(9)]


def test_a_record_larger_than_a_segment_has_one_to_itself() -> None:
    files = MemoryFiles()
    made = opened(files, segment_bytes_max=1000)
    big = capture(2, size=300_000)
    refs = [made.append(each) for each in (capture(1), big, capture(3))]
    made.flush()
    assert len({ref.file for ref in refs}) == 3
    assert made.read(refs[1]).payload.startswith(b"page 2 ")
    assert len(made.read(refs[1]).payload) == 300_007


def test_much_is_written_in_several_pieces() -> None:
    files = FailingFiles()
    made = opened(files, segment_bytes_max=1 << 30, buffered_bytes_max=1 << 30)
    noise = os.urandom(3 << 20)
    big = replace(capture(1), data=noise)  # only the bytes matter here
    for _ in range(5):
        made.append(big)
    made.flush()
    (name,) = made.segments()
    assert files.read(name, 0, 1 << 30).endswith(noise * 5)
    assert files.log == ["create", "write", "write", "write", "sync", "sync_folder"]


def test_a_segment_ends_when_it_is_old_or_rolled() -> None:
    files, clock = MemoryFiles(), Clock()
    made = archive(files, clock=clock, segment_age_ms_max=1000)
    made.recover()
    files_of: list[str] = []
    for number, wait_ms in enumerate([0, 999, 1, 0, 5000]):
        clock.now_ms += wait_ms
        files_of.append(made.append(capture(number)).file)
        made.flush()
    made.roll()
    files_of.append(made.append(capture(9)).file)
    made.close()
    assert [sorted(set(files_of)).index(name) for name in files_of] == [0, 0, 1, 1, 2, 3]
    assert verify_archive(files) == []


def test_an_old_segment_is_closed_by_a_flush_with_nothing_to_write() -> None:
    files, clock = MemoryFiles(), Clock()
    made = archive(files, clock=clock, segment_age_ms_max=1000)
    made.recover()
    first = made.append(capture(1))
    made.flush()
    clock.now_ms += 1000
    made.flush()
    clock.now_ms -= 1000  # even a clock that went back does not open it again
    assert made.append(capture(2)).file != first.file


def test_flushing_nothing_makes_no_file(tmp_path: Path) -> None:
    made = opened(tmp_path / "warc")
    made.flush()
    made.close()
    assert not (tmp_path / "warc").exists()


def test_an_archive_must_recover_before_it_writes_and_only_once() -> None:
    made = archive(MemoryFiles())
    with pytest.raises(AssertionError, match="recover"):
        made.append(capture(1))
    made.recover()
    with pytest.raises(AssertionError, match="once"):
        made.recover()


def test_what_waits_is_bounded_and_a_refusal_keeps_nothing() -> None:
    files = MemoryFiles()
    made = opened(files, buffered_bytes_max=2000)
    refs: list[BodyRef] = []
    with pytest.raises(StoreFull, match="flush first"):
        refs.extend(made.append(capture(n)) for n in range(99))
    waiting = made.buffered_bytes
    assert 1000 < waiting <= 2000
    assert len(refs) > 1
    made.flush()
    refs.append(made.append(capture(len(refs))))
    made.flush()
    assert [uri(made, ref) for ref in refs] == [f"http://site.test/{n}" for n in range(len(refs))]


def test_appends_of_many_threads_and_flushes_meet(tmp_path: Path) -> None:
    made = opened(tmp_path, segment_bytes_max=4000)
    refs: dict[int, BodyRef] = {}

    def work(first: int) -> None:
        for number in range(first, first + 40):
            refs[number] = made.append(capture(number))

    workers = [threading.Thread(target=work, args=(n * 1000,)) for n in range(4)]
    for worker in workers:
        worker.start()
    while any(worker.is_alive() for worker in workers):
        made.flush()
        for number, ref in list(refs.items())[-3:]:
            made.flush()
            assert uri(made, ref) == f"http://site.test/{number}"
    made.close()
    assert len(refs) == 160
    assert all(uri(made, ref) == f"http://site.test/{number}" for number, ref in refs.items())
    assert verify_archive(tmp_path) == []


# --- disks that fail ----------------------------------------------------------------------------------


def life(files: FailingFiles, after_failure: Callable[[Archive, list[BodyRef]], None]) -> list[BodyRef]:
    """Appends and flushes over several segments; a failed flush is told, then tried until it works."""
    made = archive(files, segment_bytes_max=1500)
    made.recover()
    refs: list[BodyRef] = []
    durable: list[BodyRef] = []
    for number in range(8):
        refs.append(made.append(capture(number)))
        while number % 2 and made.buffered_bytes:
            try:
                made.flush()
                durable = list(refs)
            except Retriable:
                after_failure(made, durable)
    made.close()
    return refs


def no_failure(made: Archive, durable: list[BodyRef]) -> None:
    raise AssertionError("nothing was to fail")


def calls_of_a_life() -> int:
    files = FailingFiles()
    life(files, no_failure)
    return files.done


@pytest.mark.parametrize("failures", [1, 2, 5])
@pytest.mark.parametrize("first", range(calls_of_a_life()))
def test_a_full_disk_at_any_operation_loses_nothing(first: int, failures: int) -> None:
    files = FailingFiles(failing=range(first, first + failures))
    told: list[int] = []

    def check(made: Archive, durable: list[BodyRef]) -> None:
        told.append(made.buffered_bytes)
        # Killed now: what was durable is there, and the rest mends.
        copy = MemoryFiles()
        for name, data in all_bytes(files).items():
            copy.create(name).write(0, data)
        again = archive(copy)
        again.recover(durable)
        assert verify_archive(copy) == []
        assert [uri(again, ref) for ref in durable] == [f"http://site.test/{n}" for n in range(len(durable))]

    refs = life(files, check)
    assert told
    assert all(told)
    reader = archive(files)
    assert [uri(reader, ref) for ref in refs] == [f"http://site.test/{n}" for n in range(8)]
    kinds = Counter(found.type for name in files.names() for _, found in iterate(files, name))
    assert kinds == {"warcinfo": len(files.names()), "request": 8, "response": 8}
    assert verify_archive(files) == []


def test_a_failed_write_is_cut_back_at_once() -> None:
    files = FailingFiles()
    made = archive(files)
    made.recover()
    made.append(capture(1))
    made.flush()
    size = files.size(made.segments()[0])
    made.append(capture(2))
    files.failing = range(files.done, files.done + 1)
    with pytest.raises(StoreFull, match="No space left"):
        made.flush()
    assert files.size(made.segments()[0]) == size


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (errno.ENOSPC, StoreFull),
        (errno.EDQUOT, StoreFull),
        (errno.EIO, Retriable),
        (errno.EROFS, ConfigError),
        (errno.EACCES, ConfigError),
    ],
)
def test_the_error_says_what_to_do(code: int, kind: type[FrontlogError]) -> None:
    files = FailingFiles(code=code)
    made = archive(files)
    made.recover()
    ref = made.append(capture(1))
    for _ in range(2):
        files.failing = range(files.done, files.done + 1)
        with pytest.raises(kind) as caught:
            made.flush()
        assert type(caught.value) is kind
        assert os.strerror(code) in str(caught.value)
    made.flush()
    assert uri(made, ref) == "http://site.test/1"


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "warc").write_bytes(b"")
    with pytest.raises(ConfigError, match="Not a directory"):
        archive(tmp_path / "warc").recover()


def test_a_second_writer_is_fenced() -> None:
    files = MemoryFiles()
    one, two = opened(files), opened(files)
    one.append(capture(1))
    two.append(capture(2))
    one.flush()
    before = all_bytes(files)
    with pytest.raises(Fenced, match="another writer"):
        two.flush()
    assert all_bytes(files) == before
