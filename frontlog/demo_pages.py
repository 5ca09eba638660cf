"""The pages of the demo site: the table in `frontlog/site/pages.toml`, and the answers that are made of it.

Fields of a page: `at`, host letter and path; `count` makes that many pages, with {n}, {next} and {story}
filled in ({next} is 1 after the last, or after `of`); `title`, `text`, `links`, `head` and `body` make the
HTML; `status`, `location`, `retry_after`, `fails` (that many failures, then 200; 0: always), `delay_ms`,
`type`, `charset`, `gzip`, `fill_bytes` and `calendar` say how it is answered; `says` is for people. A host
`x` stands for its address in hrefs as `{x}`.
"""

import gzip
import html
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple
from urllib.parse import parse_qs

import msgspec

PAGES_FILE = Path(__file__).resolve().parent / "site" / "pages.toml"
HOSTS = ("a", "b", "c", "d")
_STORIES = (
    "The fog came in before noon and did not leave.",
    "A bottle was found, and in it a letter without an address.",
    "The harbour master counted the gulls and then counted them again.",
    "Nobody remembered who had painted the boat green.",
    "The bell rang once, although there was no wind.",
    "They sailed on a Friday, which the cook had warned against.",
    "The map showed an island where there was only water.",
)


class Page(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One page of the site; the module says what the fields mean."""

    at: str
    says: str = ""
    count: int = 0
    of: int = 0
    title: str = ""
    text: str = ""
    links: tuple[str, ...] = ()
    head: str = ""
    body: str = ""
    status: int = 200
    location: str = ""
    retry_after: str = ""
    fails: int = 0
    delay_ms: int = 0
    type: str = "text/html"
    charset: str = "utf-8"
    gzip: bool = False
    fill_bytes: int = 0
    calendar: bool = False


class Answer(NamedTuple):
    """What goes onto the wire."""

    status: int
    headers: dict[str, str]
    body: bytes


class _Table(msgspec.Struct, forbid_unknown_fields=True):
    page: list[Page]


def load_pages() -> dict[str, Page]:
    """Every page by host letter and path, series written out."""
    table = msgspec.toml.decode(PAGES_FILE.read_bytes(), type=_Table)
    pages: dict[str, Page] = {}
    for page in table.page:
        for one in _series(page):
            assert one.at not in pages, one.at
            pages[one.at] = one
    return pages


def _series(page: Page) -> list[Page]:
    if not page.count:
        return [page]
    made: list[Page] = []
    for n in range(1, page.count + 1):
        story = " ".join(_STORIES[(n * k) % len(_STORIES)] for k in (1, 2, 3))
        words = {"{n}": str(n), "{next}": str(n % (page.of or page.count) + 1), "{story}": story}
        made.append(
            msgspec.structs.replace(
                page,
                at=_fill(page.at, words),
                title=_fill(page.title, words),
                text=_fill(page.text, words),
                links=tuple(_fill(link, words) for link in page.links),
                count=0,
            )
        )
    return made


def _fill(text: str, words: Mapping[str, str]) -> str:
    for mark, word in words.items():
        text = text.replace(mark, word)
    return text


def find(pages: Mapping[str, Page], name: str, path: str) -> Page | None:
    """The page of a host for a path: with its query if that is in the table, else without."""
    return pages.get(name + path) or pages.get(name + path.partition("?")[0])


def answer(page: Page | None, path: str, nth: int, origins: Mapping[str, str]) -> Answer:
    """The answer to the nth request for a page; `origins` by host letter."""
    if page is None:
        return Answer(
            404, {"Content-Type": "text/html"}, b"<title>Not found</title><p>There is no such page."
        )
    marks = {f"{{{name}}}": origin for name, origin in origins.items()}
    failing = page.status >= 400 and (not page.fails or nth <= page.fails)
    if failing or 300 <= page.status < 400:
        headers = {"Content-Type": "text/plain"}
        if page.location:
            headers["Location"] = _fill(page.location, marks)
        if page.retry_after:
            headers["Retry-After"] = page.retry_after
        return Answer(page.status, headers, b"")
    is_image = page.type.startswith("image/")
    headers = {"Content-Type": page.type if is_image else f"{page.type}; charset={page.charset}"}
    filling = "and so on " * (page.fill_bytes // 10)
    if is_image or page.type == "text/plain":
        body = (page.text.lstrip("\n") + filling).encode(page.charset)
    else:
        body = _document(page, path, marks, filling).encode(page.charset)
    if page.gzip:
        headers["Content-Encoding"] = "gzip"
        body = gzip.compress(body, mtime=0)
    return Answer(200, headers, body)


def _document(page: Page, path: str, marks: Mapping[str, str], filling: str) -> str:
    links, words = list(page.links), dict(marks)
    if page.calendar:
        words["{month}"], following = _months(path)
        links.append(f"/calendar?month={following}")
    missing = {f"{{{name}}}" for name in HOSTS} - marks.keys()
    hrefs = [html.escape(_fill(link, marks)) for link in links if link[:3] not in missing]
    items = "".join(f'<li><a href="{href}">{href}</a></li>\n' for href in hrefs)
    title, text = html.escape(_fill(page.title, words)), html.escape(_fill(page.text, words))
    is_xhtml = page.type == "application/xhtml+xml"
    parts = (
        '<html xmlns="http://www.w3.org/1999/xhtml">\n' if is_xhtml else "<!doctype html>\n<html>\n",
        f"<head><title>{title}</title>{page.head}</head>\n<body><h1>{title}</h1>\n<p>{text}</p>\n",
        f"<p>{page.body}</p>\n" if page.body else "",
        f"<ul>\n{items}</ul>\n" if items else "",
        f"<p>{filling}</p>\n" if filling else "",
        "</body></html>\n",
    )
    return "".join(parts)


def _months(path: str) -> tuple[str, str]:
    """The month that a calendar's query names, and the one behind it."""
    text = parse_qs(path.partition("?")[2]).get("month", ["2026-01"])[0]
    year, _, month = text.partition("-")
    try:
        number = int(year) * 12 + int(month)
    except ValueError:
        number = 2026 * 12
    return text, f"{number // 12:04}-{number % 12 + 1:02}"
