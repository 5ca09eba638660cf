from collections.abc import Iterator
from typing import BinaryIO

class StatusAndHeaders:
    headers: list[tuple[str, str]]
    statusline: str
    def get_header(self, name: str) -> str | None: ...

class DigestChecker:
    passed: bool | None
    problems: list[str]

class Stream:
    def read(self, length: int | None = None) -> bytes: ...

class ArcWarcRecord:
    rec_type: str
    rec_headers: StatusAndHeaders
    http_headers: StatusAndHeaders | None
    raw_stream: Stream
    digest_checker: DigestChecker
    def content_stream(self) -> Stream: ...

class ArchiveIterator:
    err_count: int
    def __init__(self, fileobj: BinaryIO, *, check_digests: bool = False) -> None: ...
    def __iter__(self) -> Iterator[ArcWarcRecord]: ...
    def get_record_offset(self) -> int: ...
    def get_record_length(self) -> int: ...
