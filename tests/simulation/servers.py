"""The servers of the synthetic web: what they answer, and their own record of who asked what and when.

The record is what politeness is judged by: times are the servers' own, and a request ends when its last byte was sent or
its connection was closed, whatever the crawler noted.
"""

import gzip
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple

from frontlog.avro.enums import FetchKind, Reason
from frontlog.avro.events import FetchResult
from simulation.maker import html_of
from simulation.web import (
    CONNECTING,
    LIMITING,
    START_MS,
    Host,
    Kind,
    Page,
    RobotsAnswer,
    RobotsFile,
    Trouble,
    Web,
    origin_of,
    split_url,
)

HOST_FAILURES = frozenset({
    Reason.TIMEOUT, Reason.CONNECTION_REFUSED, Reason.CONNECTION_RESET, Reason.NO_ROUTE, Reason.TLS_FAILED,
})  # fmt: skip
"""Results that speak of a host (DESIGN §6)."""
BODY_BYTES_MAX = 65_536
HEADER_BYTES_MAX = 8_192
DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


class Answer(NamedTuple):
    """What a server does with a request. `trouble` instead of, or in the middle of, an answer."""

    head: bytes = b""
    body: bytes = b""
    status: int = 0
    first_byte_ms: int = 20
    trouble: Trouble | None = None
    retry_ms: int | None = None
    """What a usable Retry-After in seconds means."""
    retry_at_s: float | None = None
    """What one that is a date means."""
    cut: bool = False


@dataclass
class Served:
    """One attempt at a request as its server saw it. Seconds from the start; `ended_s` is None while it goes on."""

    attempt: str
    kind: FetchKind
    host: str
    address: str
    url: str
    process: int
    began_s: float
    sent_s: float = 0.0
    due_s: float = 0.0
    ended_s: float | None = None
    answer: Answer = field(default_factory=Answer)
    page: Page | None = None
    robots: RobotsAnswer | None = None
    text: str = ""
    ours: bool = True
    """Whether an owner asked that had not been replaced."""


class Servers:
    """All servers. `watch` is called with each attempt before anything is answered."""

    def __init__(self, web: Web, rng: Random, now: Callable[[], float]) -> None:
        self.web = web
        self.now = now
        self.watch: Callable[[Served], None] = lambda served: None
        self.record: dict[str, Served] = {}
        self.history: dict[str, list[Served]] = defaultdict(list)
        """By host, in the order in which requests ended."""
        self.last_of_address: dict[tuple[int, str], Served] = {}
        self.open: list[Served] = []
        self.asked: Counter[str] = Counter()
        self.files: dict[bytes, RobotsFile] = {}
        """Every robots file that was ever sent, by its bytes."""
        self._rng = rng

    def begin(self, attempt: str, kind: FetchKind, url: str, host: str, address: str, process: int) -> Served:
        """Somebody connects."""
        served = Served(attempt, kind, host, address, url, process, self.now())
        served.due_s = float("inf")
        self.watch(served)
        self.record[attempt] = served
        self.open.append(served)
        served.answer = self._answer(served)
        return served

    def end(self, served: Served) -> None:
        """The connection is closed; the request had ended when its last byte was sent, if that is earlier."""
        if served not in self.open:
            return
        self.open.remove(served)
        served.ended_s = min(self.now(), served.due_s)
        if served.ours:
            self.history[served.host].append(served)
            self.last_of_address[self.web.hosts[served.host].partition, served.address] = served

    def busy(self) -> list[Served]:
        """Attempts that have not ended yet."""
        return [s for s in self.open if s.ours and s.due_s > self.now()]

    def disown(self, process: int) -> None:
        """A process is gone or replaced: its connections are closed."""
        for served in [s for s in self.open if s.process == process]:
            self.end(served)

    def last(self, host: str) -> Served | None:
        """The last request to a host that has ended."""
        return self.history[host][-1] if self.history[host] else None

    def strikes(self, host: str, accepted: Mapping[str, FetchResult]) -> int:
        """How many answers in a row, of those that the log took in, said that a host is in trouble."""
        count = 0
        for served in reversed(self.history[host]):
            result = accepted.get(served.attempt)
            if result is not None and result.status not in (429, 503) and result.reason not in HOST_FAILURES:
                break
            count += result is not None
        return count

    def target_of(self, served: Served) -> str:
        """Where a robots file's redirect leads."""
        location = served.robots.location if served.robots is not None else ""
        return location if "://" in location else f"{split_url(served.url)[0]}{location}"

    # --- answers ----------------------------------------------------------------------------------------------

    def _answer(self, served: Served) -> Answer:
        host, now = self.web.hosts[served.host], self.now()
        names = host.names.at(now)
        moved = served.address not in names.addresses
        if moved and not (
            host.keeps_old_address and any(served.address in n.addresses for n in host.names.all())
        ):
            return Answer(trouble=Trouble.REFUSED)
        trouble = host.trouble.at(now)
        if trouble is not None and trouble not in LIMITING:
            return Answer(trouble=trouble)
        self.asked[served.url] += 1
        if served.kind is FetchKind.ROBOTS:
            return self._robots(served, host, split_url(served.url)[1], trouble)
        return self._page(served, host.page(served.url), trouble)

    def _robots(self, served: Served, host: Host, target: str, trouble: Trouble | None) -> Answer:
        said = host.alternates.get(target)
        if target == "/robots.txt":
            said = host.robots[origin_of(served.url)].at(self.now())
        if trouble is not None:
            said = RobotsAnswer(trouble=trouble)
        served.robots = said
        if said is None:
            return page_answer(404, "text/plain", b"", 10)
        if said.trouble in LIMITING:
            return self._limit(said.trouble)
        if said.trouble is not None:
            return troubled(said.trouble, 30)
        headers = [("Cache-Control", said.cache_control)] if said.cache_control else []
        headers += [("Location", said.location)] if said.location else []
        if said.file is not None:
            self.files[said.file.body] = said.file
        body = said.file.body if said.file is not None else b"nothing"
        answer = page_answer(said.status, "text/plain", body, 10, headers)
        return answer._replace(cut=said.lie == "cut")

    def _page(self, served: Served, page: Page | None, trouble: Trouble | None) -> Answer:
        served.page = page
        if trouble is not None:
            return self._limit(trouble)
        if page is None:
            return page_answer(404, "text/html", b"no such page", 10)
        count = self.asked[served.url] - 1
        if page.kind is Kind.SICK:
            return troubled(page.troubles[0], page.response_ms)
        if count < len(page.troubles):
            coming = page.troubles[count]
            return self._limit(coming) if coming in LIMITING else troubled(coming, page.response_ms)
        served.text = page.text_at(self.now())
        return lying(page, html_of(page, served.text).encode(), served.text)

    def _limit(self, trouble: Trouble) -> Answer:
        """429 or 503 with one of the forms of Retry-After."""
        text, meant_ms, at_s = self._retry_after()
        headers = [("Retry-After", text)] if text is not None else []
        status = 429 if trouble is Trouble.LIMIT_429 else 503
        return page_answer(status, "text/html", b"not now", 10, headers)._replace(
            retry_ms=meant_ms, retry_at_s=at_s
        )

    def _retry_after(self) -> tuple[str | None, int | None, float | None]:
        """(header or None, what it means as a wait in ms, or as a moment; neither: nothing usable)."""
        rng = self._rng
        seconds = rng.choice((1, 3, 10, 45))
        at_s = self.now() + seconds
        date_s = START_MS / 1_000 + at_s
        forms: tuple[tuple[str | None, int | None, float | None], ...] = (
            (str(seconds), seconds * 1_000, None), (f"  {seconds} ", seconds * 1_000, None),
            (f"{seconds}.5", seconds * 1_000 + 500, None), (http_date(date_s, 0), None, at_s), (http_date(date_s, 1),
            None, at_s),
            (http_date(date_s, 2), None, at_s), (http_date(date_s - 600, 0), None, None), ("0", None, None), ("-5",
            None, None),
            ("", None, None), ("soon", None, None), (None, None, None), ("99999999999999999999", 600_000, None),
            ("700", 600_000, None), ("Sun, 31 Foo 2026 99:99:99 GMT", None, None),
        )  # fmt: skip
        return rng.choice(forms)


def http_date(at_s: float, form: int) -> str:
    """A time in one of the three forms of RFC 9110 §5.6.7, whole seconds, rounded up."""
    seconds = int(at_s) + (at_s > int(at_s))
    days, rest = divmod(seconds, 86_400)
    year, month, day = civil(days)
    clock = f"{rest // 3_600:02}:{rest // 60 % 60:02}:{rest % 60:02}"
    weekday = DAYS[(days + 3) % 7]
    if form == 0:
        return f"{weekday}, {day:02} {MONTHS[month - 1]} {year} {clock} GMT"
    if form == 1:
        return f"{weekday}day, {day:02}-{MONTHS[month - 1]}-{year % 100:02} {clock} GMT"
    return f"{weekday} {MONTHS[month - 1]} {day:2} {clock} {year}"


def civil(days: int) -> tuple[int, int, int]:
    """Year, month, day of days since 1970-01-01, by counting."""
    year = 1970
    while days >= (length := 366 if year % 4 == 0 and (year % 100 != 0 or year % 400 == 0) else 365):
        days, year = days - length, year + 1
    lengths = (31, 29 if length == 366 else 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
    month = 0
    while days >= lengths[month]:
        days, month = days - lengths[month], month + 1
    return year, month + 1, days + 1


def page_answer(
    status: int, content_type: str, body: bytes, ms: int, headers: list[tuple[str, str]] | None = None
) -> Answer:
    """An answer as bytes."""
    lines = [("Content-Type", content_type)] if content_type else []
    lines += [*(headers or []), ("Content-Length", str(len(body)))]
    text = "".join(f"{name}: {value}\r\n" for name, value in lines)
    return Answer(f"HTTP/1.1 {status} X\r\n{text}\r\n".encode("latin-1"), body, status, ms)


def troubled(trouble: Trouble, ms: int) -> Answer:
    """A failure; some begin as an answer."""
    if trouble is Trouble.ERROR_500:
        return page_answer(500, "text/html", b"sorry", ms)
    if trouble is Trouble.GARBAGE:
        return Answer(b"220 smtp ready\r\n\r\n", first_byte_ms=ms)
    if trouble in (Trouble.CUT, Trouble.STALL):
        return page_answer(200, "text/html", b"<html>" + b"x" * 500, ms)._replace(trouble=trouble)
    assert trouble in CONNECTING or trouble in (Trouble.RESET, Trouble.HANG)
    return Answer(trouble=trouble, first_byte_ms=ms)


def lying(page: Page, body: bytes, text: str) -> Answer:
    """A page with what its server claims about it."""
    ms, etag = page.response_ms, [("ETag", f'"{zlib.crc32(text.encode()):x}"')] if page.etag else []
    if page.kind is Kind.WRONG_TYPE:
        return page_answer(200, "image/png", b"\x89PNG", ms)
    if page.kind is Kind.OVERSIZE:
        return page_answer(200, "text/html", b"x" * (BODY_BYTES_MAX + 100), ms)
    if page.status != 200:
        headers = [("Location", page.location)] if page.location or page.kind is Kind.BAD_REDIRECT else []
        return page_answer(page.status, "text/html", b"elsewhere", ms, headers)
    coded = [*etag, ("Content-Encoding", "gzip")]
    packed = gzip.compress(body, mtime=0)
    if page.lie == "no_type":
        return page_answer(200, "", body, ms, etag)
    if page.lie == "plain_gzip":
        return page_answer(200, "text/html", body, ms, coded)
    if page.lie == "gzip":
        return page_answer(200, "text/html", packed, ms, coded)
    if page.lie == "gzip_cut":
        return page_answer(200, "text/html", packed[:-12], ms, coded)
    if page.lie == "bomb":
        return page_answer(200, "text/html", gzip.compress(b"x" * (4 * BODY_BYTES_MAX), mtime=0), ms, coded)
    if page.lie == "header":
        return page_answer(200, "text/html", body, ms, [("X-Long", "y" * HEADER_BYTES_MAX)])
    if page.lie == "short_length":
        return page_answer(200, "text/html", body, ms, etag)._replace(cut=True)
    if page.lie == "spaces":
        head = f"HTTP/1.1 200\nContent-Type :text/html;\n charset=utf-8\nContent-Length:{len(body)}\n\n"
        return Answer(head.encode(), body, 200, ms)
    return page_answer(200, "text/html", body, ms, etag)


def unchanged(answer: Answer, etag: str) -> Answer:
    """A 304 where the client has the answer already."""
    if etag and f"ETag: {etag}\r\n".encode() in answer.head and answer.status == 200:
        return Answer(f"HTTP/1.1 304 X\r\nETag: {etag}\r\n\r\n".encode(), b"", 304, answer.first_byte_ms)
    return answer
