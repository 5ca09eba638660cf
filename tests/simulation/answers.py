"""What servers send, byte for byte: answers, lies, failures, and every form of Retry-After."""

import gzip
import zlib
from typing import NamedTuple

from simulation.web import CONNECTING, START_MS, Kind, Page, Trouble

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


RetryAfter = tuple[str | None, int | None, float | None]
"""Header or None, what it means as a wait in ms, or as a moment (seconds); neither: nothing usable."""


def retry_after_forms(now_s: float, seconds: int) -> dict[str, RetryAfter]:
    """Every form in which a server asks for `seconds` of rest, or says nothing that means anything."""
    at_s = now_s + seconds
    date_s = START_MS / 1_000 + at_s
    return {
        "seconds": (str(seconds), seconds * 1_000, None),
        "seconds between spaces": (f"  {seconds} ", seconds * 1_000, None),
        "a fraction": (f"{seconds}.5", seconds * 1_000 + 500, None),
        "a date": (http_date(date_s, 0), None, at_s),
        "a date of RFC 850": (http_date(date_s, 1), None, at_s),
        "a date of asctime": (http_date(date_s, 2), None, at_s),
        "a date that has passed": (http_date(date_s - 600, 0), None, None),
        "a date that is none": ("Sun, 31 Foo 2026 99:99:99 GMT", None, None),
        "zero": ("0", None, None),
        "negative": ("-5", None, None),
        "empty": ("", None, None),
        "a word": ("soon", None, None),
        "nothing": (None, None, None),
        "absurd": ("99999999999999999999", 600_000, None),
        "more than the most": ("700", 600_000, None),
    }


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
