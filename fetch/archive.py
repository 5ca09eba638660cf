"""The archive: WARC segments that only grow, durable before any event points into them.

`append` hands out a reference at once and keeps the bytes; `flush` writes and fsyncs all that waits, one
fsync for many records. When `flush` returns, every reference handed out before it was called is
durable, the name of its file included.

A segment has its final name from the start and is never written again by another process. It is whole
and durable before the next one is created, so after a crash only the newest can be torn:

    killed, or power lost              what lies there                  what `recover` does
    ---------------------------------  -------------------------------  ------------------------------
    before a segment's first flush     nothing, an empty file, or the   removes a file without a whole
    ended                              start of its first record        record
    while flush wrote                  whole records, part of one       cuts the part
    between a request and its answer   a request without its answer     cuts the request
    after the write, before fsync      whole records nobody points at   makes them durable
    after fsync, before the events     whole records nobody points at   keeps them; a repeat is harmless
    while the disk was full            whole records, part of one       cuts the part
    (durable bytes were damaged)       bad bytes before whole records   leaves all, and says so

Cutting is safe because no event points at what was not fsynced. Where the log says otherwise (`known`),
nothing is cut and `Corrupt` is raised.

`append` may be called from any thread and never waits for the disk; flushes run one at a time.
"""

import contextlib
import errno
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from frontlog.avro.errors import ConfigError, Fenced, FrontlogError, Retriable, StoreFull
from frontlog.avro.events import BodyRef
from frontlog.fetch.files import Files, LocalFiles, Out
from frontlog.fetch.records import Members, Record, iterate, parse_record, read_record, starts_record
from frontlog.fetch.warc import Capture, build_warcinfo, warc_date

SEGMENT_BYTES_MAX: Final = 64 << 20
SEGMENT_AGE_MS_MAX: Final = 3_600_000
BUFFERED_BYTES_MAX: Final = 256 << 20

_WRITE_BYTES: Final = 4 << 20  # records are gathered into writes of about this size
_SEARCH_BYTES: Final = 1 << 20
_PEEK_BYTES: Final = 1 << 10
_MAGIC: Final = b"\x1f\x8b\x08"
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
_FORBIDDEN: Final = frozenset({errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOENT, errno.ENOTDIR})


@dataclass(frozen=True, slots=True)
class Tail:
    """What `recover` found at the end of the newest segment that was not whole.

    `whole_bytes` remain and `cut_bytes` were cut; when none remain, the file was removed. When whole records
    follow the fault, the file was `left` as it is, so that references to them hold.
    """

    file: str
    whole_bytes: int
    cut_bytes: int
    fault: str
    left: bool = False


@dataclass(slots=True)
class _Segment:
    """A segment that is being written. Bytes up to `durable_bytes` are fsynced, `waiting` comes next."""

    name: str
    opened_ms: int
    size_bytes: int = 0
    durable_bytes: int = 0
    waiting: list[bytes] = field(default_factory=list[bytes])
    sealed: bool = False
    named: bool = False
    out: Out | None = None

    def add(self, data: bytes) -> None:
        self.waiting.append(data)
        self.size_bytes += len(data)


class Archive:
    """The segments of one writer in a folder; other writers there have other prefixes. `recover` comes first.

    `info` is what each segment's `warcinfo` says (`warc.warcinfo_fields`); `clock` gives milliseconds
    since the epoch. A segment ends when it would grow over `segment_bytes_max` or is
    `segment_age_ms_max` old; `append` refuses when more than `buffered_bytes_max` would wait.
    """

    def __init__(
        self,
        folder: Path | Files,
        *,
        info: Mapping[str, str],
        clock: Callable[[], int],
        prefix: str = "frontlog",
        segment_bytes_max: int = SEGMENT_BYTES_MAX,
        segment_age_ms_max: int = SEGMENT_AGE_MS_MAX,
        buffered_bytes_max: int = BUFFERED_BYTES_MAX,
    ) -> None:
        assert re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]*", prefix), prefix
        self._files = LocalFiles(folder) if isinstance(folder, Path) else folder
        self._where = str(folder) if isinstance(folder, Path) else "the archive"
        self._info = dict(info)
        self._clock = clock
        self._prefix = prefix
        self._segment_bytes_max = segment_bytes_max
        self._segment_age_ms_max = segment_age_ms_max
        self._buffered_bytes_max = buffered_bytes_max
        self._own_name = re.compile(rf"{re.escape(prefix)}-[0-9]{{17}}-([0-9]{{5,}})\.warc\.gz")
        self._serial = -1  # of the next segment; known after recover
        self._segments: list[_Segment] = []  # oldest first; only the last is not sealed
        self._buffered_bytes = 0
        self._lock = threading.Lock()  # guards the fields above; never held during I/O
        self._flushing = threading.Lock()

    # --- after a start ------------------------------------------------------------------------------------

    def recover(self, known: Iterable[BodyRef] = ()) -> Tail | None:
        """Make the newest segment whole and find the next serial; None when there was nothing to mend.

        `known` are references that the log holds. Those in the newest segment must be whole, else `Corrupt`.
        """
        with self._flushing:
            assert self._serial < 0, "recover comes once, before the first append"
            try:
                serials = {
                    int(m[1]): name for name in self._files.names() if (m := self._own_name.fullmatch(name))
                }
                tail = self._mend(serials[max(serials)], known) if serials else None
            except OSError as error:
                raise _failed(error, f"recovering {self._where}") from error
            self._serial = max(serials, default=-1) + 1
            return tail

    def _mend(self, name: str, known: Iterable[BodyRef]) -> Tail | None:
        members = Members(self._files, name)
        whole_bytes, last = 0, b""
        for offset, _, data in members:
            whole_bytes, last = offset, data
        fault = members.fault
        if last and _is_request(last):
            fault = fault or "the last request has no answer"
        else:
            whole_bytes = members.end
        size_bytes = self._files.size(name)
        if not fault and whole_bytes:
            self._keep(name, size_bytes)
            return None
        for ref in known:
            if ref.file == name and ref.offset + ref.length > whole_bytes:
                read_record(self._files, ref)
        if self._whole_record_after(name, members.end, size_bytes):
            return Tail(name, whole_bytes, 0, fault, left=True)
        if whole_bytes:
            self._keep(name, whole_bytes)
        else:
            self._files.remove(name)
            self._files.sync_folder()
        return Tail(name, whole_bytes, size_bytes - whole_bytes, fault or "an empty file")

    def _keep(self, name: str, size_bytes: int) -> None:
        """Make a segment durable up to its whole end, its name too, before the next is created: its writer may have died
        before it synced what it wrote, and a power cut would tear a segment that no start looks at again."""
        self._files.cut(name, size_bytes)
        self._files.sync_folder()

    def _whole_record_after(self, name: str, offset: int, size_bytes: int) -> bool:
        """Whether a whole record lies somewhere behind the fault at `offset`: then this is no torn end."""
        for start in range(offset + 1, size_bytes, _SEARCH_BYTES):
            piece = self._files.read(name, start, _SEARCH_BYTES + _PEEK_BYTES)
            found = piece.find(_MAGIC, 0, _SEARCH_BYTES + len(_MAGIC) - 1)
            while found >= 0:
                # Bodies that came compressed are stored as they are: a gzip member alone says nothing.
                if starts_record(piece[found : found + _PEEK_BYTES]):
                    for _ in Members(self._files, name, start + found):
                        return True
                found = piece.find(_MAGIC, found + 1, _SEARCH_BYTES + len(_MAGIC) - 1)
        return False

    # --- writing ------------------------------------------------------------------------------------------

    def append(self, capture: Capture) -> BodyRef:
        """Keep the records for the next flush and say where the main one will lie. Does no I/O.

        `StoreFull` when as much waits as may: flush (or wait until that works) and append again.
        """
        with self._lock:
            assert self._serial >= 0, "recover comes before the first append"
            added = len(capture.data)
            if self._buffered_bytes and self._buffered_bytes + added > self._buffered_bytes_max:
                raise StoreFull(
                    f"{self._buffered_bytes} bytes wait to be written to {self._where}; flush first"
                )
            segment = self._segment_for(added)
            offset = segment.size_bytes + capture.offset
            segment.add(capture.data)
            self._buffered_bytes += added
            return BodyRef(file=segment.name, offset=offset, length=capture.length)

    def flush(self) -> None:
        """Write and fsync what was appended before the call, and close segments that are full or old.

        On failure nothing is lost: the file is cut back to its durable end, all stays buffered, and the next
        flush writes it at the same offsets. Raises `Retriable` (`StoreFull`: no room), `ConfigError` when
        the folder may not be written, `Fenced` when another writer uses the same prefix.
        """
        with self._flushing:
            with self._lock:
                self._seal_if_old(self._clock())
                work = [(segment, len(segment.waiting)) for segment in self._segments]
            # In order, each durable before the next is created: recover leans on that.
            for segment, count in work:
                if count:
                    self._write(segment, count)
                if segment.sealed:
                    self._drop_if_done(segment)

    def roll(self) -> None:
        """End the current segment; the next record starts a new one."""
        with self._lock:
            for segment in self._segments:
                segment.sealed = True

    def close(self) -> None:
        """Flush and end the current segment."""
        self.roll()
        self.flush()

    @property
    def buffered_bytes(self) -> int:
        """Bytes handed out but not yet durable."""
        return self._buffered_bytes

    # --- reading ------------------------------------------------------------------------------------------

    def read(self, ref: BodyRef) -> Record:
        """The record at a reference that was flushed; `Corrupt` when it is not there whole."""
        return read_record(self._files, ref)

    def iterate(self, name: str) -> Iterator[tuple[BodyRef, Record]]:
        """The records of one segment, finished or not, in order."""
        return iterate(self._files, name, live=True)

    def segments(self) -> list[str]:
        """The names of this writer's segments, oldest first."""
        return [name for name in self._files.names() if self._own_name.fullmatch(name)]

    # --- within -------------------------------------------------------------------------------------------

    def _segment_for(self, added: int) -> _Segment:
        now_ms = self._clock()
        self._seal_if_old(now_ms)
        current = self._segments[-1] if self._segments else None
        if current and not current.sealed and current.size_bytes + added <= self._segment_bytes_max:
            return current
        if current:
            current.sealed = True
        stamp = re.sub(r"[^0-9]", "", warc_date(now_ms))
        segment = _Segment(f"{self._prefix}-{stamp}-{self._serial:05d}.warc.gz", now_ms)
        self._serial += 1
        warcinfo = build_warcinfo(filename=segment.name, at_ms=now_ms, info=self._info)
        segment.add(warcinfo)
        self._buffered_bytes += len(warcinfo)
        self._segments.append(segment)
        return segment

    def _seal_if_old(self, now_ms: int) -> None:
        if self._segments and self._segments[-1].opened_ms + self._segment_age_ms_max <= now_ms:
            self._segments[-1].sealed = True

    def _write(self, segment: _Segment, count: int) -> None:
        """Make the first `count` waiting records of a segment durable, or leave everything as it was."""
        offset = segment.durable_bytes
        try:
            if segment.out is None:
                segment.out = self._files.create(segment.name)
            for piece in _gather(segment.waiting[:count]):
                segment.out.write(offset, piece)
                offset += len(piece)
            segment.out.sync()
            if not segment.named:
                self._files.sync_folder()
                segment.named = True
        except FileExistsError as error:
            raise Fenced(f"archive segment {segment.name} exists: another writer uses this prefix") from error
        except OSError as error:
            # After a failed fsync the kernel may take lost pages for clean ones: the next try writes all.
            with contextlib.suppress(OSError):
                if segment.out is not None:
                    segment.out.truncate(segment.durable_bytes)
            raise _failed(error, f"writing {segment.name} in {self._where}") from error
        with self._lock:
            self._buffered_bytes -= offset - segment.durable_bytes
            segment.durable_bytes = offset
            del segment.waiting[:count]

    def _drop_if_done(self, segment: _Segment) -> None:
        with self._lock:
            if segment.waiting:
                return  # appended to before it was sealed, during this flush: the next flush ends it
            self._segments.remove(segment)
        if segment.out is not None:
            with contextlib.suppress(OSError):  # it is fsynced: nothing more can be lost by closing
                segment.out.close()


def _gather(records: Sequence[bytes]) -> Iterator[bytes]:
    """The records joined into writes of about `_WRITE_BYTES`."""
    batch: list[bytes] = []
    gathered_bytes = 0
    for data in records:
        batch.append(data)
        gathered_bytes += len(data)
        if gathered_bytes >= _WRITE_BYTES:
            yield b"".join(batch)
            batch, gathered_bytes = [], 0
    if batch:
        yield b"".join(batch)


def _is_request(data: bytes) -> bool:
    """Whether the inflated bytes of a member are a request record."""
    try:
        return parse_record(data).type == "request"
    except ValueError:
        return False  # whole but foreign: `verify_archive` says so


def _failed(error: OSError, doing: str) -> FrontlogError:
    """What a caller does about a failed file operation."""
    what = f"{doing}: {error.strerror or error}"
    if error.errno in _FULL:
        return StoreFull(f"{what}; nothing is lost: free some room and it goes on")
    if error.errno in _FORBIDDEN:
        return ConfigError(f"{what}; the archive needs a folder that this user may write")
    return Retriable(what)
