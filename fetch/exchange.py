"""One request and its answer on one connection, seen from below aiohttp: clocks, head, limits, body.

aiohttp's own reader strips, folds and forgets: the archive needs the very bytes of the head, politeness
needs the instant of the first byte, the header limit must hold before anything is parsed, and what came
of a body must be there when the rest does not come. So the protocol (`fetch/connector.py`) hands every
received byte to the `Exchange` first, until the head is whole. A body whose length the head says is counted
here; any other goes to aiohttp's parser behind a minimal head that frames it, and what the parser makes of it
comes back here at once.

    connect ──sent()──> first_byte ──receive()──> head ──receive()──> body ──finish()──> done
       │                    │                      │                   │
    connect_ms         first_byte_ms            total_ms            total_ms      (deadline in force)

`ended` is set once: after `finish`, at a limit, at an unwanted type, or when the connection breaks.
"""

import asyncio
import math
from enum import StrEnum

from frontlog.avro.enums import Reason
from frontlog.fetch.deadlines import Deadlines
from frontlog.fetch.heads import (
    BadHead,
    Head,
    body_length,
    framing,
    head_end,
    keeps,
    looks_like_http,
    read_head,
)
from frontlog.fetch.http_types import Limits, Timings, Truncation


class Phase(StrEnum):
    """What the exchange is waiting for; the detail of a timeout names it."""

    CONNECT = "connect"
    FIRST_BYTE = "first_byte"
    HEAD = "head"
    BODY = "body"
    DONE = "done"


class Exchange:
    """The state of one fetch. Times are of the loop's clock, in seconds; None: not reached."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, limits: Limits, started_ms: int, deadlines: Deadlines
    ) -> None:
        """Start the clocks; `stop` ends them."""
        self.loop = loop
        self.limits = limits
        self.started_ms = started_ms
        self.started_s = loop.time()
        self.connect_s = 0.0
        self.sent_s: float | None = None
        self.first_byte_s: float | None = None
        self.last_byte_s: float | None = None
        self.phase = Phase.CONNECT
        self.head: Head | None = None
        self.keep = False
        self.left: int | None = None
        """Bytes of the body that are still to come; None: the head doesn't say how many."""
        self.failure: tuple[Reason, str] | None = None
        self.truncated: Truncation | None = None
        self.chunks: list[bytes] = []
        self.body_bytes = 0
        self.broken: BaseException | None = None
        self.ended: asyncio.Future[None] = loop.create_future()
        self.alarm: asyncio.Timeout | None = None
        """What ends a connect that takes too long."""
        self.rang = False
        """Whether a deadline passed before the end."""
        self.due_s = self.deadline(self.started_s, limits.connect_ms)
        self._deadlines = deadlines
        self._received: bytes = b""
        self._interim_bytes = 0
        self._only_total = False
        deadlines.add(self)

    def deadline(self, since_s: float, limit_ms: int) -> float:
        """The end of a phase, which is never after the end of the whole."""
        return min(since_s + limit_ms / 1000, self.started_s + self.limits.total_ms / 1000)

    def sent(self) -> None:
        """The request was written: wait for the first byte."""
        self.sent_s = self.loop.time()
        self._enter(Phase.FIRST_BYTE, self.deadline(self.sent_s, self.limits.first_byte_ms))

    def more(self) -> None:
        """Bytes came, but not the last one: from the first of them on, only the total time counts."""
        if not self._only_total:
            self._only_total = True
            self._enter(self.phase, self.deadline(self.started_s, self.limits.total_ms))

    def receive(self, data: bytes) -> tuple[bytes, bytes] | None:
        """Take bytes of the head. When it is whole: (framing head, empty where `left` is known; beginning of the body).

        None: more is needed, or this was enough and `ended` is set. Interim answers (1xx, RFC 9110 §15.2)
        are passed over, but their bytes count against the limit.
        """
        if self.first_byte_s is None:
            self.first_byte_s = self.loop.time()
            self.phase = Phase.HEAD
        seen = len(self._received)
        data = self._received + data if seen else data.lstrip(b"\r\n")
        self._received = data
        while True:
            end = head_end(data, seen)
            if self._interim_bytes + (end if end > 0 else len(data)) > self.limits.header_bytes_max:
                return self._fail(Reason.HEADER_OVERSIZE, f"more than {self.limits.header_bytes_max} bytes")
            if not looks_like_http(data):
                return self._fail(Reason.PROTOCOL_ERROR, f"begins with {data[:40]!r}")
            if end < 0:
                return None
            try:
                head = read_head(data[:end])
                if head.status == 101:  # we never ask for another protocol (RFC 9110 §7.8)
                    raise BadHead("101 Switching Protocols")
                self.left = body_length(head)
                lines, self.keep = framing(head) if self.left is None else (b"", keeps(head, self.left))
            except BadHead as bad:
                return self._fail(Reason.PROTOCOL_ERROR, str(bad))
            if head.status >= 200:
                break
            self._interim_bytes += end
            data, seen = data[end:].lstrip(b"\r\n"), 0
            self._received = data
        self.head = head
        self.phase = Phase.BODY
        self._received = b""
        if 200 <= head.status < 300 and head.media_type and not self.limits.wants(head.media_type):
            self.truncated = Truncation.LENGTH
            return self._fail(Reason.BAD_TYPE, head.media_type)
        return lines, data[end:]

    def take(self, data: bytes) -> None:
        """Keep bytes of the body, up to the limit, whatever length was declared."""
        room = self.limits.body_bytes_max - self.body_bytes
        self.chunks.append(data if len(data) <= room else data[:room])
        self.body_bytes += min(len(data), room)
        if len(data) > room:
            self.truncated = Truncation.LENGTH
            self._end()

    def finish(self) -> None:
        """The last byte came."""
        if not self.ended.done():
            self.last_byte_s = self.loop.time()
            self.phase = Phase.DONE
            self._end()

    def fail(self, exc: BaseException) -> None:
        """The connection or its parser broke."""
        if not self.ended.done():
            self.broken = exc
            self._end()

    @property
    def head_bytes(self) -> int:
        """How many bytes of an unfinished head there are."""
        return self._interim_bytes + len(self._received)

    def timings(self) -> Timings:
        """What was measured until now."""
        now = self.loop.time()
        sent = self.sent_s
        last = self.last_byte_s if self.phase is Phase.DONE and self.last_byte_s is not None else now
        first = self.first_byte_s if self.first_byte_s is not None else last
        return Timings(
            sent_ms=0 if sent is None else self.started_ms + int((sent - self.started_s) * 1000),
            connect_ms=ms(self.connect_s),
            first_byte_ms=0 if sent is None or self.first_byte_s is None else ms(first - sent),
            total_ms=0 if sent is None else ms(last - sent),
            elapsed_ms=ms(now - self.started_s),
        )

    def stop(self) -> None:
        """Stop the clocks."""
        self._deadlines.remove(self)

    def ring(self) -> None:
        """The deadline in force has passed."""
        if not self.ended.done():
            self.rang = True
            if self.alarm is not None:
                self.alarm.reschedule(self.loop.time())
            else:
                self.fail(TimeoutError("a deadline passed"))

    def _enter(self, phase: Phase, due_s: float) -> None:
        self.phase = phase
        self.due_s = due_s
        self._deadlines.sooner(due_s)

    def _fail(self, reason: Reason, detail: str) -> tuple[bytes, bytes] | None:
        self.failure = reason, detail
        self._end()
        return None

    def _end(self) -> None:
        if not self.ended.done():
            self.ended.set_result(None)


def ms(seconds: float) -> int:
    """Milliseconds, rounded up: a gap computed from them is never too short."""
    return math.ceil(seconds * 1000)
