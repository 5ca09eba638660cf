"""What stands behind the fetch pipeline's seams: transport, resolver, parsers and archive writer without sockets, threads
or processes. Each does what the real one promises (`fetch/transport.py` and so on); the real pipeline uses them.

Not covered here: the real ones themselves. They have tests of their own against loopback servers.
"""

import asyncio
import errno
import math
import ssl
from collections import Counter, deque
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import NamedTuple

from frontlog.avro.enums import Reason
from frontlog.avro.errors import Retriable, StoreFull
from frontlog.avro.events import BodyRef
from frontlog.fetch import known_links
from frontlog.fetch.archive import Archive
from frontlog.fetch.archive_writer import ArchiveWriter
from frontlog.fetch.decoding import Decoded, DecodeStatus, decode
from frontlog.fetch.heads import BadHead, Head, read_head
from frontlog.fetch.http_types import (
    FetchFailed,
    FetchRequest,
    FetchResponse,
    Limits,
    Timings,
    Truncation,
)
from frontlog.fetch.parse_job import Job, Parsed, parse
from frontlog.fetch.parser_pool import ParserFailed, ParserPool
from frontlog.fetch.pipeline import attempt_id
from frontlog.fetch.resolver import Resolution, ResolveError, Resolver
from frontlog.fetch.sniffing import sniff
from frontlog.fetch.transport import Transport
from frontlog.fetch.warc import Capture
from frontlog.processors.leased import Lease
from simulation.answers import Answer, unchanged
from simulation.disk import Disk
from simulation.servers import Served, Servers
from simulation.web import Trouble, is_public

LEASE: ContextVar[Lease] = ContextVar("lease")
"""The lease that a task carries out, so that a request can be laid at its door."""
FOREVER_S = 100_000.0
ARCHIVE_RETRY_S = 1.0
_DECODE_REASONS = {
    DecodeStatus.OK: Reason.OK, DecodeStatus.PLAIN_DESPITE_HEADER: Reason.OK, DecodeStatus.OVERSIZE: Reason.OVERSIZE,
    DecodeStatus.TRUNCATED: Reason.TRUNCATED, DecodeStatus.CORRUPT: Reason.DECODE_FAILED,
    DecodeStatus.UNKNOWN_ENCODING: Reason.DECODE_FAILED,
}  # fmt: skip


class _Clocks:
    """The timings of one fetch, as the real exchange takes them."""

    def __init__(self, started_ms: int) -> None:
        self.started_ms = started_ms
        self.started_s = _now()
        self.connect_s = 0.0
        self.sent_s: float | None = None
        self.first_s: float | None = None

    def timings(self) -> Timings:
        now, sent = _now(), self.sent_s
        return Timings(
            sent_ms=0 if sent is None else self.started_ms + int((sent - self.started_s) * 1_000),
            connect_ms=_ms(self.connect_s),
            first_byte_ms=0 if sent is None or self.first_s is None else _ms(self.first_s - sent),
            total_ms=0 if sent is None else _ms(now - sent),
            elapsed_ms=_ms(now - self.started_s),
        )


class SimTransport(Transport):
    """Asks the simulated servers."""

    def __init__(self, servers: Servers, process: int) -> None:
        self._servers = servers
        self._process = process

    async def close(self) -> None:
        return

    async def fetch(self, request: FetchRequest, limits: Limits) -> FetchResponse:
        lease = LEASE.get()
        served = self._servers.begin(
            attempt_id(lease), lease.kind, request.url, request.host, request.address, self._process
        )
        clocks = _Clocks(request.started_ms)
        try:
            return await self._exchange(request, limits, served, clocks)
        finally:
            self._servers.end(served)

    async def _exchange(
        self, request: FetchRequest, limits: Limits, served: Served, clocks: _Clocks
    ) -> FetchResponse:
        etag = dict(request.headers).get("If-None-Match", "")
        served.answer = answer = unchanged(served.answer, etag)
        self._servers.happened["unchanged"] += answer.status == 304
        try:
            async with asyncio.timeout_at(clocks.started_s + limits.connect_ms / 1_000):
                await self._connect(served)
            clocks.connect_s = _now() - clocks.started_s
            clocks.sent_s = served.sent_s = _now()
            end_s = clocks.started_s + limits.total_ms / 1_000
            async with asyncio.timeout_at(min(clocks.sent_s + limits.first_byte_ms / 1_000, end_s)):
                head = await self._head(served, answer, limits, clocks)
        except (OSError, ssl.SSLError) as exc:  # TimeoutError is an OSError
            raise FetchFailed(_reason(exc), str(exc), clocks.timings()) from exc
        return await self._body(served, head, answer, limits, clocks)

    async def _connect(self, served: Served) -> None:
        trouble = served.answer.trouble
        if trouble is Trouble.CONNECT_HANG:
            await asyncio.sleep(FOREVER_S)
        await asyncio.sleep(self._servers.web.hosts[served.host].connect_ms / 1_000)
        if trouble is Trouble.REFUSED:
            raise ConnectionRefusedError(errno.ECONNREFUSED, "refused")
        if trouble is Trouble.NO_ROUTE:
            raise OSError(errno.EHOSTUNREACH, "no route")
        if trouble is Trouble.TLS:
            raise ssl.SSLError("certificate verify failed")

    async def _head(self, served: Served, answer: Answer, limits: Limits, clocks: _Clocks) -> Head:
        if answer.trouble is Trouble.HANG:
            await asyncio.sleep(FOREVER_S)
        if answer.trouble is not Trouble.STALL:
            served.due_s = served.sent_s + answer.first_byte_ms / 1_000
        await asyncio.sleep(answer.first_byte_ms / 1_000)
        clocks.first_s = _now()
        if answer.trouble is Trouble.RESET:
            raise ConnectionResetError(errno.ECONNRESET, "reset")
        if len(answer.head) > limits.header_bytes_max:
            raise FetchFailed(Reason.HEADER_OVERSIZE, "head", clocks.timings())
        try:
            return read_head(answer.head)
        except BadHead as exc:
            raise FetchFailed(Reason.PROTOCOL_ERROR, str(exc), clocks.timings()) from exc

    async def _body(
        self, served: Served, head: Head, answer: Answer, limits: Limits, clocks: _Clocks
    ) -> FetchResponse:
        truncated, reason, body = None, Reason.OK, answer.body
        if answer.trouble is Trouble.STALL:
            try:
                async with asyncio.timeout_at(clocks.started_s + limits.total_ms / 1_000):
                    await asyncio.sleep(FOREVER_S)
            except TimeoutError:
                truncated, reason, body = Truncation.TIME, Reason.TIMEOUT, body[: len(body) // 2]
        elif answer.cut or answer.trouble is Trouble.CUT:
            truncated, reason, body = Truncation.DISCONNECT, Reason.TRUNCATED, body[: len(body) // 2]
        elif len(body) > limits.body_bytes_max:
            truncated, reason, body = Truncation.LENGTH, Reason.OVERSIZE, body[: limits.body_bytes_max]
        decoded = decode(body, head.content_codings, limits.decoded_bytes_max)
        media_type = head.media_type or sniff(decoded.data)
        if reason is Reason.OK:
            reason = _DECODE_REASONS[decoded.status]
        if 200 <= head.status < 300 and media_type and not limits.wants(media_type):
            nothing = Decoded(b"", DecodeStatus.OK, ())
            unwanted = _response(
                head, b"", Truncation.LENGTH, nothing, Reason.BAD_TYPE, media_type, clocks, served
            )
            raise FetchFailed(Reason.BAD_TYPE, media_type, clocks.timings(), unwanted)
        return _response(head, body, truncated, decoded, reason, media_type, clocks, served)


def _response(
    head: Head, body: bytes, truncated: Truncation | None, decoded: Decoded, reason: Reason, media_type: str,
    clocks: _Clocks,
    served: Served,
) -> FetchResponse:  # fmt: skip
    return FetchResponse(
        head=head, request_head=f"GET {served.url} HTTP/1.1\r\n\r\n".encode(), body=body, truncated=truncated,
        decoded=decoded,
        reason=reason, detail="", media_type=media_type, timings=clocks.timings(), peer_address=served.address, reused=False,
    )  # fmt: skip


def _reason(exc: OSError) -> Reason:
    if isinstance(exc, ssl.SSLError):
        return Reason.TLS_FAILED
    if isinstance(exc, TimeoutError):
        return Reason.TIMEOUT
    if isinstance(exc, ConnectionRefusedError):
        return Reason.CONNECTION_REFUSED
    return Reason.CONNECTION_RESET if isinstance(exc, ConnectionResetError) else Reason.NO_ROUTE


def _now() -> float:
    return asyncio.get_running_loop().time()


def _ms(seconds: float) -> int:
    """Rounded up, as the real exchange does; what binary fractions add is no time."""
    return math.ceil(round(seconds * 1_000, 6))


class SimResolver(Resolver):
    """Looks names up in the web's tables."""

    def __init__(self, servers: Servers) -> None:
        self._servers = servers

    async def resolve(self, host: str, timeout_ms: int) -> Resolution:
        names = self._servers.web.hosts[host].names.at(self._servers.now())
        if names.error:
            self._servers.happened[f"names: {names.error}"] += 1
        elif not all(is_public(address) for address in names.addresses):
            self._servers.happened["names: an internal address"] += 1
        if names.error == "timeout":
            await asyncio.sleep(timeout_ms / 1_000)
        await asyncio.sleep(0.02)
        error = ResolveError(names.error) if names.error else None
        return Resolution(host, () if error else names.addresses, names.ttl_ms, error, names.error, 20)


class SimKnown:
    """Looks links up in the stores of the disk, as parsers do: what is committed, by whatever process."""

    def __init__(self, disk: Disk, happened: Counter[str]) -> None:
        self._disk = disk
        self._happened = happened

    def settled(
        self, folder: str, origin_key: str, url_keys: Sequence[bytes], depth: int, source_site: str
    ) -> set[bytes]:
        store = self._disk.store(Path(folder).name)
        found = known_links.settled_in(store, origin_key, url_keys, depth, source_site)
        self._happened["known: links left out"] += len(found)
        return found


class SimParsers(ParserPool):
    """Parses in the loop. `lost` tells whether a parser dies under the page."""

    def __init__(self, lost: Callable[[], bool], known: SimKnown) -> None:
        self._lost = lost
        self._known = known

    async def start(self) -> None:
        return

    async def close(self) -> None:
        return

    async def parse(self, job: Job) -> Parsed:
        await asyncio.sleep(0.001)
        if self._lost():
            raise ParserFailed(Reason.WORKER_LOST, "its parser died")
        return parse(job, self._known)


class _Wish(NamedTuple):
    build: Callable[[], Capture]
    done: "asyncio.Future[BodyRef]"


class SimArchiveWriter(ArchiveWriter):
    """Flushes in the loop, a moment after the first record came, and again while there is no room."""

    def __init__(self, archive: Archive) -> None:
        self.archive = archive
        self.full = ""
        self.failed: BaseException | None = None
        self.flushes = 0
        self._wishes: deque[_Wish] = deque()
        self._held: list[tuple[_Wish, BodyRef]] = []
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        return

    def store(self, build: Callable[[], Capture]) -> "asyncio.Future[BodyRef]":
        wish = _Wish(build, asyncio.get_running_loop().create_future())
        if self.failed is not None:
            wish.done.set_exception(self.failed)
            return wish.done
        self._wishes.append(wish)
        self._flush_in(0.002)
        return wish.done

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self.failed is None and not self.full:
            self.archive.close()

    def _flush_in(self, seconds: float) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(seconds, self._go)

    def _go(self) -> None:
        self._timer = None
        try:
            while self._wishes:
                ref = self._append(self._wishes[0])
                self._held.append((self._wishes.popleft(), ref))
            self.archive.flush()
        except Retriable as exc:
            self.full = str(exc)
            self._flush_in(ARCHIVE_RETRY_S)
            return
        except Exception as exc:
            self.failed = exc
            for wish in (*self._wishes, *(wish for wish, _ in self._held)):
                if not wish.done.done():
                    wish.done.set_exception(exc)
            return
        self.full = ""
        self.flushes += 1
        held, self._held = self._held, []
        for wish, ref in held:
            if not wish.done.done():
                wish.done.set_result(ref)

    def _append(self, wish: _Wish) -> BodyRef:
        capture = wish.build()
        try:
            return self.archive.append(capture)
        except StoreFull:
            self.archive.flush()
            return self.archive.append(capture)
