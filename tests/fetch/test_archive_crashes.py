"""The archive after a crash: whole again, nothing lost that was durable, nothing cut that may be needed.

Not verified here: disks that keep later writes and lose earlier ones of the same flush.
"""

import gzip
import signal
import subprocess
import sys
import zlib
from pathlib import Path

import pytest
from msgspec.structs import replace

from frontlog.avro.errors import Corrupt
from frontlog.avro.events import BodyRef
from frontlog.fetch.archive import Archive, Tail
from frontlog.fetch.files import MemoryFiles
from frontlog.fetch.records import iterate, verify_archive
from support.warcs import INFO, Clock, all_bytes, archive, capture, opened, uri


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
    for size in [*range(0, ends[-2], 61), *range(ends[-2], len(whole) + 1)]:
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


def test_what_a_killed_writer_did_not_sync_is_durable_before_the_next_segment_is_made() -> None:
    files = MemoryFiles()
    made = opened(files)
    made.append(capture(0))
    with pytest.MonkeyPatch.context() as killed:
        killed.setattr(files, "sync", str)  # the writer dies after its write, before its fsync
        made.flush()
    (name,) = files.names()
    written = files.size(name)
    again = archive(files)
    again.recover()
    again.append(capture(1))
    again.flush()
    files.crash()
    assert files.size(name) == written
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


@pytest.mark.parametrize("missing", [1, 3, 30])
def test_a_torn_record_whose_body_holds_gzip_members_is_cut(missing: int) -> None:
    files = MemoryFiles()
    made = opened(files)
    refs = [made.append(capture(1))]
    page = gzip.compress(b"a page that came compressed", mtime=0)
    block = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n" + page * 9
    header = b"WARC/1.1\r\nWARC-Type: response\r\nContent-Length: %d\r\n\r\n" % len(block)
    stored = zlib.compress(header + block + b"\r\n\r\n", 0, 31)  # as a compressor may do with such a body
    assert page in stored
    refs.append(made.append(replace(capture(2), data=stored, offset=0, length=len(stored))))
    made.flush()
    whole_bytes = refs[0].offset + refs[0].length
    del files.files[refs[0].file][-missing:]
    tail = archive(files).recover(refs[:1])
    assert tail is not None
    assert (tail.left, tail.whole_bytes) == (False, whole_bytes)
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
import zlib
from pathlib import Path
sys.path[:0] = sys.argv[2:]
from support.warcs import archive, capture
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
        command = [sys.executable, "-c", WRITER, str(tmp_path), str(Path(__file__).parents[1])]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
            assert writer.stdout is not None
            for line in writer.stdout:
                if line.strip():
                    name, offset, length = line.split()
                    known.append(BodyRef(file=name, offset=int(offset), length=int(length)))
                elif len(known) % 150 == 0:
                    writer.send_signal(signal.SIGKILL)
                    break
        made = archive(tmp_path)
        made.recover(known)
        assert verify_archive(tmp_path) == []
        assert all(made.read(ref).type == "response" for ref in known)
    assert len(known) == 300
