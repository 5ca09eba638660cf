"""Reading WARC records back: the gzip members of a segment, the record in one, and what is wrong with it.

Reads what `fetch/warc.py` writes, and WARC 1.0 and 1.1 of others as long as each record is a gzip
member of its own. It does not join segmented records and does not remove chunks.
"""

import hashlib
import re
from base64 import b32decode
from binascii import Error as EncodingError
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from isal import isal_zlib

from frontlog.avro.errors import Corrupt
from frontlog.avro.events import BodyRef
from frontlog.fetch.files import Files, LocalFiles
from frontlog.fetch.warc import RECORD_BYTES_MAX

_PIECE_BYTES: Final = 64 << 10
_GZIP: Final = 31
_RECORD_START: Final = b"WARC/1."
_HEAD_END: Final = re.compile(rb"\n\r?\n")
_CONTENT_LENGTH: Final = re.compile(rb"(?im)^content-length[ \t]*:[ \t]*([0-9]{1,18})[ \t]*\r?$")
_MANDATORY: Final = ("WARC-Type", "WARC-Record-ID", "WARC-Date", "Content-Length")  # 5.1 to 5.5
_ALGORITHMS: Final = {"sha1": "sha1", "sha-1": "sha1", "sha256": "sha256", "sha-256": "sha256", "md5": "md5"}


@dataclass(frozen=True, slots=True)
class Record:
    """One record. Field names are as written; `get` ignores their case. Not HTTP: `http_head` is empty."""

    version: str
    fields: tuple[tuple[str, str], ...]
    http_head: bytes
    payload: bytes

    def get(self, name: str) -> str:
        """The first value of a named field; empty when there is none."""
        wanted = name.lower()
        return next((value for field, value in self.fields if field.lower() == wanted), "")

    @property
    def type(self) -> str:
        return self.get("WARC-Type")

    @property
    def target_uri(self) -> str:
        return self.get("WARC-Target-URI")

    @property
    def record_id(self) -> str:
        """`urn:uuid:…`, without the angle brackets."""
        return self.get("WARC-Record-ID").strip("<>")


class Members:
    """The gzip members of a file as (offset, length, inflated bytes), in order.

    When the loop has ended, `end` is the offset after the last whole member and `fault` says why that is
    not the end of the file (empty: it is). `torn` tells a file that ends inside a member from other faults.
    """

    def __init__(self, files: Files, name: str, start: int = 0) -> None:
        self._files = files
        self._name = name
        self.end = start
        self.fault = ""
        self.torn = False

    def __iter__(self) -> Iterator[tuple[int, int, bytes]]:
        position, rest = self.end, b""
        while True:
            inflater = isal_zlib.decompressobj(wbits=_GZIP)
            pieces: list[bytes] = []
            inflated_bytes = 0
            while not inflater.eof:
                if not rest:
                    rest = self._files.read(self._name, position, _PIECE_BYTES)
                    position += len(rest)
                if not rest:
                    self.torn = position > self.end
                    self.fault = "the file ends inside a record" if self.torn else ""
                    return
                try:
                    pieces.append(inflater.decompress(rest))
                except isal_zlib.error as error:
                    self.fault = f"not a whole gzip member: {error}"
                    return
                inflated_bytes += len(pieces[-1])
                if inflated_bytes > RECORD_BYTES_MAX:
                    self.fault = f"a record of more than {RECORD_BYTES_MAX} bytes"
                    return
                rest = b""
            rest = inflater.unused_data
            start, self.end = self.end, position - len(rest)
            yield start, self.end - start, b"".join(pieces)


def inflate_member(data: bytes) -> bytes:
    """The bytes of exactly one gzip member; `ValueError` when it is not one whole member."""
    inflater = isal_zlib.decompressobj(wbits=_GZIP)
    try:
        inflated = inflater.decompress(data)
    except isal_zlib.error as error:
        raise ValueError(f"not a whole gzip member: {error}") from error
    if not inflater.eof:
        raise ValueError("the gzip member is cut short")
    if inflater.unused_data:
        raise ValueError("more than one gzip member")
    return inflated


def starts_record(data: bytes) -> bool:
    """Whether these bytes begin a gzip member with a WARC record in it, as far as they go."""
    try:
        return isal_zlib.decompressobj(wbits=_GZIP).decompress(data, len(_RECORD_START)) == _RECORD_START
    except isal_zlib.error:
        return False


def parse_record(data: bytes) -> Record:
    """The record in the inflated bytes of a member; `ValueError` says what is wrong with it."""
    start = data.find(b"\r\n\r\n") + 4
    version, *lines = data[: max(0, start - 4)].decode("utf-8", "replace").split("\r\n")
    if version not in ("WARC/1.1", "WARC/1.0"):
        raise ValueError("does not start with a WARC header")
    fields: list[tuple[str, str]] = []
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not name or name != name.strip():
            raise ValueError(f"not a named field: {line[:80]!r}")
        fields.append((name, value.strip()))
    bare = Record(version, tuple(fields), b"", b"")
    stated, end = bare.get("Content-Length"), len(data) - 4
    if not (
        stated.isascii() and stated.isdigit() and int(stated) == end - start and data.endswith(b"\r\n\r\n")
    ):
        raise ValueError(
            f"Content-Length is {stated or 'missing'}, the block has {max(0, end - start)} bytes"
        )
    split = start
    if bare.get("Content-Type").startswith("application/http"):
        found = _HEAD_END.search(data, start, end)
        split = found.end() if found else end
    return Record(version, bare.fields, data[start:split], data[split:end])


def record_problems(record: Record) -> list[str]:
    """What is wrong with a parsed record: fields missing or twice, wrong digests, a wrong HTTP length."""
    problems = [f"{name} is missing" for name in _MANDATORY if not record.get(name)]
    problems += [
        f"{name} stands more than once"
        for name in {field.lower() for field, _ in record.fields} - {"warc-concurrent-to"}
        if sum(field.lower() == name for field, _ in record.fields) > 1
    ]
    problems += _digest_problem("WARC-Block-Digest", record, record.http_head, record.payload)
    if record.type != "revisit":  # a revisit's payload is in the record that it refers to
        problems += _digest_problem("WARC-Payload-Digest", record, record.payload)
    elif not record.get("WARC-Profile") or not record.get("WARC-Refers-To-Target-URI"):
        problems.append("a revisit that names no earlier capture")
    if record.type == "response" and record.payload and not record.get("WARC-Truncated"):
        for found in _CONTENT_LENGTH.finditer(record.http_head):
            if int(found[1]) != len(record.payload):
                problems.append(
                    f"the HTTP head promises {int(found[1])} bytes, the payload has {len(record.payload)}"
                )
    return problems


def _digest_problem(name: str, record: Record, *parts: bytes) -> list[str]:
    label, colon, value = record.get(name).partition(":")
    if not label:
        return []
    algorithm = _ALGORITHMS.get(label.lower())
    if not colon or algorithm is None:
        return [f"{name} has an unknown form: {record.get(name)[:80]!r}"]
    hasher = hashlib.new(algorithm, usedforsecurity=False)
    for part in parts:
        hasher.update(part)
    try:
        hexadecimal = len(value) == 2 * hasher.digest_size
        stated = bytes.fromhex(value) if hexadecimal else b32decode(value, casefold=True)
    except (ValueError, EncodingError):
        return [f"{name} has an unknown form: {record.get(name)[:80]!r}"]
    return [] if stated == hasher.digest() else [f"{name} does not fit the bytes"]


@dataclass(frozen=True, slots=True)
class Problem:
    """Something wrong in a segment, at the byte where the record starts."""

    file: str
    offset: int
    what: str


def read_record(files: Files, ref: BodyRef) -> Record:
    """The record that a reference points at; `Corrupt` when it is not there whole."""
    try:
        return parse_record(inflate_member(files.read(ref.file, ref.offset, ref.length)))
    except FileNotFoundError as error:
        raise Corrupt(f"archive segment {ref.file} is missing") from error
    except ValueError as error:
        raise Corrupt(f"archive segment {ref.file}, byte {ref.offset}: {error}") from error


def iterate(files: Files, name: str, *, live: bool = False) -> Iterator[tuple[BodyRef, Record]]:
    """The records of a segment in order, each with its reference; `Corrupt` at the first that is not whole.

    `live` is for a segment that is being written: a last record that is not all there yet ends the loop.
    """
    members = Members(files, name)
    for offset, length, data in members:
        try:
            yield BodyRef(file=name, offset=offset, length=length), parse_record(data)
        except ValueError as error:
            raise Corrupt(f"archive segment {name}, byte {offset}: {error}") from error
    if members.fault and not (live and members.torn):
        raise Corrupt(f"archive segment {name}, byte {members.end}: {members.fault}")


def verify_archive(folder: Path | Files, *, live: bool = False) -> list[Problem]:
    """Read every segment whole: members, lengths, digests, a `warcinfo` first, requests before answers.

    Does not check that revisits refer to captures that are there, nor that references in the log fit.
    `live` as in `iterate`.
    """
    files = LocalFiles(folder) if isinstance(folder, Path) else folder
    problems: list[Problem] = []
    for name in files.names():
        if name.endswith(".warc.gz"):
            problems += _segment_problems(files, name, live)
    return problems


def _segment_problems(files: Files, name: str, live: bool) -> Iterator[Problem]:
    members = Members(files, name)
    ids: set[str] = set()
    answer_to = ""  # the id that must come next: the answer to the request just read
    offset = 0
    for offset, _, data in members:
        try:
            record = parse_record(data)
        except ValueError as error:
            yield Problem(name, offset, str(error))
            continue
        for what in record_problems(record):
            yield Problem(name, offset, what)
        if (offset == 0) != (record.type == "warcinfo"):
            yield Problem(name, offset, "a warcinfo record stands first, and only there")
        if offset == 0 and record.get("WARC-Filename") != name:
            yield Problem(
                name, offset, f"the warcinfo record names {record.get('WARC-Filename') or 'no file'}"
            )
        if record.record_id in ids:
            yield Problem(name, offset, f"the record id {record.record_id} stands twice")
        ids.add(record.record_id)
        if answer_to not in ("", record.record_id):
            yield Problem(name, offset, f"the request before has no answer: {answer_to}")
        answer_to = record.get("WARC-Concurrent-To").strip("<>") if record.type == "request" else ""
    if members.fault and not (live and members.torn):
        yield Problem(name, members.end, members.fault)
    elif answer_to and not live:
        yield Problem(name, offset, f"the last request has no answer: {answer_to}")
    if members.end == 0 and not members.fault:
        yield Problem(name, 0, "an empty file")
