"""Reading records back: what is not there is said to be missing, and what is wrong is found."""

import gzip
import hashlib

import pytest

from frontlog.avro.errors import Corrupt
from frontlog.avro.events import BodyRef
from frontlog.fetch.files import MemoryFiles
from frontlog.fetch.records import Problem, iterate, verify_archive
from frontlog.fetch.warc import build_warcinfo, digest, record, warc_date
from support.warcs import INFO, START_MS, archive, capture, opened


def test_a_member_that_inflates_without_end_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("frontlog.fetch.records.RECORD_BYTES_MAX", 10_000)
    files = MemoryFiles()
    files.create(NAME).write(0, FIRST + record([], bytes(20_000)))
    assert [problem.what for problem in verify_archive(files)] == ["a record of more than 10000 bytes"]


def test_what_is_whole_but_no_record_is_left_to_verify() -> None:
    files = MemoryFiles()
    files.create(NAME).write(0, FIRST + gzip.compress(b"hello"))
    assert archive(files).recover() is None
    assert len(verify_archive(files)) == 1


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
