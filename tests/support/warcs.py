"""Archives for tests: captures that are always the same, and disks that fail when told to."""

import errno
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from frontlog.avro.events import BodyRef
from frontlog.fetch.archive import Archive
from frontlog.fetch.files import Files, MemoryFiles, MemoryOut
from frontlog.fetch.warc import (
    Capture,
    build_exchange,
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
