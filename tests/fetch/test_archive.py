"""The archive: durable when it says so, whole after any crash, nothing lost on a full disk.

Not verified here: that the disk keeps what fsync promised, and that the kernel reports every failure.
"""

import errno
import gzip
import hashlib
import io
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pytest
from fastwarc import ArchiveIterator as FastIterator
from warcio.archiveiterator import ArchiveIterator

from frontlog.avro.errors import ConfigError, Corrupt, Fenced, FrontlogError, Retriable, StoreFull
from frontlog.avro.events import BodyRef
from frontlog.fetch.archive import Archive, Tail
from frontlog.fetch.files import Files, LocalFiles, MemoryFiles, MemoryOut
from frontlog.fetch.records import Problem, iterate, verify_archive
from frontlog.fetch.warc import (
    Capture,
    build_exchange,
    build_warcinfo,
    digest,
    record,
    warc_date,
    warcinfo_fields,
)

START_MS = 1_796_083_200_123
INFO = warcinfo_fields(software="frontlog/test", user_agent="T", is_part_of="crawl-1")


class Clock:
    now_ms = START_MS

    def __call__(self) -> int:
        return self.now_ms


@cache
def capture(number: int, size: int = 60) -> Capture:
    body = f"page {number} ".encode() + bytes((number * 7 + k * k) % 251 for k in range(size))
    return build_exchange(
        capture_id=f"c/{number}",
        target_uri=f"http://site.test/{number}",
        started_ms=START_MS + number,
        ip_address="192.0.2.1",
        request_head=b"GET /%d HTTP/1.1\r\nHost: site.test\r\n\r\n" % number,
        response_head=b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body),
        body=body,
    )


def archive(
    files: Files | Path,
    *,
    clock: Callable[[], int] | None = None,
    segment_bytes_max: int = 1 << 20,
    segment_age_ms_max: int = 1 << 40,
    buffered_bytes_max: int = 1 << 24,
) -> Archive:
    return Archive(
        files,
        info=INFO,
        clock=clock or Clock(),
        segment_bytes_max=segment_bytes_max,
        segment_age_ms_max=segment_age_ms_max,
        buffered_bytes_max=buffered_bytes_max,
    )


def opened(
    files: Files | Path, *, segment_bytes_max: int = 1 << 20, buffered_bytes_max: int = 1 << 24
) -> Archive:
    made = archive(files, segment_bytes_max=segment_bytes_max, buffered_bytes_max=buffered_bytes_max)
    assert made.recover() is None
    return made


def all_bytes(files: Files) -> dict[str, bytes]:
    return {name: files.read(name, 0, files.size(name)) for name in files.names()}


def uri(made: Archive, ref: BodyRef) -> str:
    return made.read(ref).target_uri


# --- the plain life of an archive ---------------------------------------------------------------------


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


# --- crashes ------------------------------------------------------------------------------------------


def test_a_restart_goes_on_with_the_next_serial_and_never_writes_an_old_segment() -> None:
    files = MemoryFiles()
    first = opened(files)
    ref = first.append(capture(1))
    first.flush()
    before = all_bytes(files)
    second = opened(files)
    later = second.append(capture(2))
    second.flush()
    assert later.file.endswith("-00001.warc.gz")
    assert files.read(ref.file, 0, 1 << 20) == before[ref.file]
    assert uri(second, ref) == "http://site.test/1"
    assert verify_archive(files) == []


def test_writers_with_other_prefixes_are_left_alone() -> None:
    files = MemoryFiles()
    mine, other = opened(files), Archive(files, info=INFO, clock=Clock(), prefix="frontlog-2")
    other.recover()
    ref = other.append(capture(1))
    other.flush()
    del files.files[ref.file][-5:]
    torn = all_bytes(files)
    again = opened(files)
    assert all_bytes(files) == torn
    assert again.append(capture(2)).file.endswith("-00000.warc.gz")
    assert mine.segments() == []


def test_cut_at_any_byte_the_archive_is_whole_after_recovery() -> None:
    files = MemoryFiles()
    made = opened(files)
    refs = [made.append(capture(n)) for n in range(3)]
    made.flush()
    (name,) = made.segments()
    whole = all_bytes(files)[name]
    starts = [ref.offset for ref, found in iterate(files, name) if found.type != "response"]
    ends = [*starts[1:], len(whole)]  # of the warcinfo and of each exchange
    for size in [*range(0, ends[-2], 23), *range(ends[-2], len(whole) + 1)]:
        torn = MemoryFiles()
        out = torn.create(name)
        out.write(0, whole[:size])
        kept = max([end for end in ends if end <= size], default=0)
        again = archive(torn)
        tail = again.recover([ref for ref in refs if ref.offset + ref.length <= size])
        assert (tail is None) == (size == kept > 0)
        if tail:
            assert tail.fault
            assert tail == Tail(name, kept, size - kept, tail.fault)
        assert all_bytes(torn) == ({name: whole[:kept]} if kept else {})
        assert verify_archive(torn) == []
        ref = again.append(capture(7))
        again.flush()
        assert ref.file.endswith("-00001.warc.gz")
        assert uri(again, ref) == "http://site.test/7"


@pytest.mark.parametrize("torn", [0, 1, 100, 700, 10_000])
def test_after_power_loss_all_that_was_flushed_is_there(torn: int) -> None:
    files = MemoryFiles()
    made = opened(files, segment_bytes_max=1500)
    flushed: list[BodyRef] = []
    for number in range(6):
        flushed.append(made.append(capture(number)))
        if number % 2:
            made.flush()
    made.append(capture(6))
    made.append(capture(7))
    flushed = flushed[:6]
    files.crash(torn)
    again = archive(files)
    again.recover(flushed)
    assert [uri(again, ref) for ref in flushed] == [f"http://site.test/{n}" for n in range(6)]
    assert verify_archive(files) == []


def test_junk_and_zeros_at_the_end_are_cut() -> None:
    for junk in b"\0" * 5000, b"junk", b"\x1f\x8b\x08\0\0\0", b"\x1f\x8b\x08" * 2000:
        files = MemoryFiles()
        made = opened(files)
        ref = made.append(capture(1))
        made.flush()
        size = files.size(ref.file)
        files.files[ref.file] += junk
        tail = archive(files).recover([ref])
        assert tail is not None
        assert (tail.whole_bytes, tail.cut_bytes, tail.left) == (size, len(junk), False)
        assert verify_archive(files) == []


def test_damage_before_whole_records_is_left_and_told() -> None:
    files = MemoryFiles()
    made = opened(files)
    refs = [made.append(capture(n)) for n in range(3)]
    made.flush()
    name = refs[0].file
    files.files[name][refs[1].offset + refs[1].length // 2] ^= 0xFF
    before = all_bytes(files)
    again = archive(files)
    tail = again.recover()
    assert isinstance(tail, Tail)
    assert (tail.left, tail.cut_bytes) == (True, 0)
    assert all_bytes(files) == before
    assert uri(again, refs[2]) == "http://site.test/2"
    assert [problem.offset for problem in verify_archive(files)] == [refs[1].offset]
    assert again.append(capture(3)).file != name


def test_nothing_is_cut_that_the_log_points_at() -> None:
    files = MemoryFiles()
    made = opened(files)
    refs = [made.append(capture(n)) for n in range(2)]
    made.flush()
    del files.files[refs[0].file][-1:]
    before = all_bytes(files)
    with pytest.raises(Corrupt, match="cut short"):
        archive(files).recover(refs)
    assert all_bytes(files) == before
    assert archive(files).recover(refs[:1]) is not None


WRITER = """
import sys
from pathlib import Path
sys.path[:0] = sys.argv[2:]
from test_archive import archive, capture
made = archive(Path(sys.argv[1]), segment_bytes_max=200_000)
made.recover()
for number in range(1_000_000):
    refs = [made.append(capture(number * 10 + k, size=2000)) for k in range(10)]
    made.flush()
    for ref in refs:
        print(ref.file, ref.offset, ref.length)
    print("", flush=True)
"""


def test_killed_writers_lose_nothing_that_they_reported(tmp_path: Path) -> None:
    known: list[BodyRef] = []
    for _ in range(2):
        command = [sys.executable, "-c", WRITER, str(tmp_path), str(Path(__file__).parent)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
            assert writer.stdout is not None
            for line in writer.stdout:
                if line.strip():
                    name, offset, length = line.split()
                    known.append(BodyRef(file=name, offset=int(offset), length=int(length)))
                elif len(known) % 300 == 0:
                    writer.send_signal(signal.SIGKILL)
                    break
        made = archive(tmp_path)
        made.recover(known)
        assert verify_archive(tmp_path) == []
        assert all(made.read(ref).type == "response" for ref in known)
    assert len(known) == 600


# --- disks that fail ----------------------------------------------------------------------------------


@dataclass
class FailingFiles(MemoryFiles):
    """Fails the operations whose numbers are in `failing`, writes after half of their bytes."""

    failing: range = range(0)
    code: int = errno.ENOSPC
    done: int = 0
    log: list[str] = field(default_factory=list[str])

    def __post_init__(self) -> None:
        super().__init__()

    def step(self, what: str) -> None:
        self.log.append(what)
        self.done += 1
        if self.done - 1 in self.failing:
            raise OSError(self.code, os.strerror(self.code))

    def create(self, name: str) -> "FailingOut":
        self.step("create")
        super().create(name)
        return FailingOut(self, name)

    def sync_folder(self) -> None:
        self.step("sync_folder")
        super().sync_folder()


class FailingOut(MemoryOut):
    def __init__(self, files: FailingFiles, name: str) -> None:
        super().__init__(files, name)
        self.disk = files

    def write(self, offset: int, data: bytes) -> None:
        super().write(offset, data[: len(data) // 2])
        self.disk.step("write")
        super().write(offset, data)

    def sync(self) -> None:
        self.disk.step("sync")
        super().sync()

    def truncate(self, size: int) -> None:
        self.disk.step("truncate")
        super().truncate(size)


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


# --- reading what is not there, and finding what is wrong ---------------------------------------------


def test_references_that_fit_nothing_are_corrupt() -> None:
    files = MemoryFiles()
    made = opened(files)
    ref = made.append(capture(1))
    with pytest.raises(Corrupt, match="missing"):
        made.read(ref)
    made.flush()
    wrong = {
        "cut short": BodyRef(file=ref.file, offset=ref.offset, length=ref.length - 1),
        "gzip member": BodyRef(file=ref.file, offset=ref.offset + 1, length=ref.length - 1),
        "more than one": BodyRef(file=ref.file, offset=0, length=ref.offset + ref.length),
        "missing": BodyRef(file="../" + ref.file, offset=0, length=1),
    }
    for message, bad in wrong.items():
        with pytest.raises(Corrupt, match=message):
            made.read(bad)


def test_a_segment_that_is_being_written_ends_at_its_last_whole_record() -> None:
    files = MemoryFiles()
    made = opened(files)
    ref = made.append(capture(1))
    made.flush()
    del files.files[ref.file][-1:]
    assert [found.type for _, found in made.iterate(ref.file)] == ["warcinfo", "request"]
    assert verify_archive(files, live=True) == []
    with pytest.raises(Corrupt, match="ends inside a record"):
        list(iterate(files, ref.file))


NAME = "frontlog-20261201000000123-00000.warc.gz"
FIRST = build_warcinfo(filename=NAME, at_ms=START_MS, info=INFO)
PAGE = capture(1)


def plain(kind: str, *more: tuple[str, str], block: bytes = b"x") -> bytes:
    own = "<urn:uuid:00000000-0000-5000-8000-000000000000>"
    fields = [("WARC-Type", kind), ("WARC-Record-ID", own), ("WARC-Date", warc_date(0)), *more]
    return record(fields, block)


HTTP = ("Content-Type", "application/http; msgtype=response")
DIGEST = "sha1:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
FAULTS: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", "an empty file"),
    "torn": (FIRST + PAGE.data[:-1], "ends inside a record"),
    "junk after": (FIRST + PAGE.data + b"junk" * 9, "not a whole gzip member"),
    "not gzip": (b"WARC/1.1\r\n" * 9, "not a whole gzip member"),
    "no warcinfo": (PAGE.data, "warcinfo record stands first"),
    "warcinfo twice": (FIRST + PAGE.data + FIRST, "stands twice"),
    "another's warcinfo": (build_warcinfo(filename="a", at_ms=0, info=INFO), "the warcinfo record names a"),
    "request alone": (FIRST + PAGE.data[: PAGE.offset], "last request has no answer"),
    "request before another": (
        FIRST + PAGE.data[: PAGE.offset] + plain("metadata"),
        "request before has no answer",
    ),
    "same record twice": (FIRST + PAGE.data * 2, "stands twice"),
    "block digest": (
        FIRST + plain("metadata", ("WARC-Block-Digest", DIGEST)),
        "WARC-Block-Digest does not fit",
    ),
    "payload digest": (
        FIRST + plain("response", HTTP, ("WARC-Payload-Digest", DIGEST)),
        "Payload-Digest does not",
    ),
    "unknown digest": (FIRST + plain("metadata", ("WARC-Block-Digest", "crc:1")), "unknown form"),
    "undecodable digest": (FIRST + plain("metadata", ("WARC-Block-Digest", "sha1:0")), "unknown form"),
    "no id": (
        FIRST + record([("WARC-Type", "metadata"), ("WARC-Date", "x")], b""),
        "WARC-Record-ID is missing",
    ),
    "field twice": (FIRST + plain("metadata", ("WARC-Date", "x")), "warc-date stands more than once"),
    "revisit of nothing": (FIRST + plain("revisit", HTTP), "names no earlier capture"),
    "wrong length": (
        FIRST + plain("metadata", ("Content-Length", "9")),
        "Content-Length is 9, the block has 1",
    ),
    "no header": (FIRST + gzip.compress(b"hello\r\n\r\n"), "does not start with a WARC header"),
    "no field": (FIRST + plain("metadata", ("bad name ", "x")), "not a named field"),
    "HTTP length": (
        FIRST + plain("response", HTTP, block=b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc"),
        "promises 5 bytes, the payload has 3",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_verify_finds(fault: str) -> None:
    data, message = FAULTS[fault]
    files = MemoryFiles()
    files.create(NAME).write(0, data)
    files.create("notes.txt").write(0, b"not a segment")
    problems = verify_archive(files)
    assert any(message in problem.what for problem in problems), problems
    assert all(isinstance(problem, Problem) and problem.file == NAME for problem in problems)


def test_verify_accepts_digests_in_other_forms() -> None:
    others = {
        "lower case": digest(b"x").replace("sha1", "SHA-1").lower(),
        "hexadecimal": "sha1:" + hashlib.sha1(b"x").hexdigest(),
        "sha256": "sha256:" + hashlib.sha256(b"x").hexdigest(),
        "md5": "md5:" + hashlib.md5(b"x").hexdigest(),
    }
    for labelled in others.values():
        files = MemoryFiles()
        files.create(NAME).write(0, FIRST + plain("resource", ("WARC-Block-Digest", labelled)))
        assert verify_archive(files) == []
