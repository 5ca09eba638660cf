"""Every parser of bytes from outside, as a function of bytes that must come back: for Hypothesis and for `make fuzz`.

A target asserts what its result must be whatever came in; the bound on its time is the caller's. Seeds are inputs that
reach far into a parser, tokens what it treats apart, for growing and mixing.
"""

from collections.abc import Callable
from typing import NamedTuple

from frontlog.processors import (
    canonical,
    dates,
    retry_after,
    robots_meta,
    robots_rules,
    robots_txt,
    sitemaps,
    traps,
)
from frontlog.processors.page import parse_page
from frontlog.processors.resolve import Base
from frontlog.processors.robots_http import expires_ms, outcome
from frontlog.processors.settings import Traps
from frontlog.processors.sitemap_entries import ENTRIES_MAX
from frontlog.processors.url_rules import CONSERVATIVE, INDEX, OriginRules

NOW_MS = 1_790_000_000_000
URL = "https://example.org/a/b?c"
RULES = OriginRules(ignored_params=("sid", "s*"), slash="strip", scheme="https", query_order_insensitive=True)


class Target(NamedTuple):
    """A parser with inputs to begin with."""

    run: Callable[[bytes], None]
    seeds: tuple[bytes, ...]
    tokens: tuple[bytes, ...]
    grown_bytes: int = 1 << 17
    """Size up to which its time is bounded."""


def text_of(data: bytes) -> str:
    """Bytes as a text that may hold anything, lone surrogates too."""
    return data.decode("utf-8", "surrogateescape")


def _url(data: bytes) -> None:
    raw = text_of(data)
    for base in (None, URL):
        for rules in (CONSERVATIVE, INDEX, RULES):
            found = canonical.canonicalize(raw, rules, base=base)
            if isinstance(found, canonical.Identity):
                again = canonical.canonicalize(found.identity, rules)
                assert isinstance(again, canonical.Identity)
                assert again.identity == found.identity
                traps.of_form(Traps(), found.identity, NOW_MS)
                traps.pattern_of(found.identity)


def _links(data: bytes) -> None:
    Base(URL, "windows-1252").join_all(text_of(data).split("\n")[:100])


def _robots(data: bytes) -> None:
    body, _, path = data.partition(b"\0\0")
    robots = robots_txt.parse(body)
    robots_rules.verdict(robots, "frontlog", f"https://example.org/{text_of(path)}")
    outcome(200, None, body, "text/plain", 0, url=URL, truncated="length")
    outcome(301, None, b"", "", 0, url=URL, location=text_of(data))


def _sitemap(data: bytes) -> None:
    found = sitemaps.parse_sitemap(data, URL, "application/xml", now_ms=NOW_MS)
    assert len(found.entries) <= ENTRIES_MAX


def _page(data: bytes) -> None:
    page = parse_page(data, URL, "text/html")
    robots_meta.directives_of(page.robots_meta, (), "frontlog")


def _meta(data: bytes) -> None:
    values = text_of(data).split("\n")
    robots_meta.directives_of(values, values, "frontlog")


def _retry_after(data: bytes) -> None:
    found = retry_after.retry_after_ms(text_of(data), NOW_MS)
    assert found is None or 0 <= found <= retry_after.DAY_MS


def _dates(data: bytes) -> None:
    for read in (dates.w3c_ms, dates.mail_ms, dates.date_ms):
        found = read(text_of(data))
        assert found is None or isinstance(found, int)


def _cache_control(data: bytes) -> None:
    assert expires_ms(NOW_MS, text_of(data)) >= NOW_MS


TARGETS: dict[str, Target] = {
    "url": Target(
        _url,
        (
            b"HTTP://User@b\xc3\xbccher.EXAMPLE:80/%7ea/../b?utm_x=1&sid=2&a#c",
            b"//[::1]:8080/a;b?c=%2f",
            b"..\\x y?%zz",
        ),
        (
            *(b"/", b"../", b"%25", b"%2e", b"&a=1", b"?", b"#", b"xn--", b"a."),
            *(b"\xe3\x80\x82", b"@", b":", b"sid=1&", b"20310101"),
        ),
    ),
    "links": Target(
        _links,
        (b"a\n/b?\xc3\xa9\n//c\nmailto:x", b"?\xe2\x82\xac#x"),
        (b"\n", b"/", b"?\xe2\x82\xac", b"..", b"%"),
    ),
    "robots": Target(
        _robots,
        (
            b"User-agent: *\nDisallow: /a*b$\nAllow: /\nCrawl-delay: 1.5\nSitemap: /s\0\0a/b",
            b"\xff\xfeU\0s\0e\0r\0",
        ),
        (
            *(b"User-agent: *\n", b"Disallow: /a*", b"*", b"$", b"\n", b"\r", b"Crawl-delay: 9"),
            *(b"#", b"%2F", b"\0", b"a*a*"),
        ),
    ),
    "sitemap": Target(
        _sitemap,
        (
            b"<urlset xmlns='http://www.sitemaps.org/schemas/sitemap/0.9'><url><loc>/a?b&c</loc>"
            b"<lastmod>2026-01-01</lastmod></url></urlset>",
            b"<rss><channel><item><link>/x</link><pubDate>Mon, 21 Sep 2026 14:30:00 GMT</pubDate></item>"
            b"</channel></rss>",
            b"<feed xmlns='http://www.w3.org/2005/Atom'><entry><link href='/y'/>"
            b"<updated>2026-09-21T14:30:00Z</updated></entry></feed>",
            b"<?xml version='1.0' encoding='utf-16'?><!DOCTYPE a [<!ENTITY b 'c'>]>"
            b"<sitemapindex><sitemap><loc>&b;</loc></sitemap></sitemapindex>",
            b"http://example.org/a\nhttp://example.org/b\r\n",
            b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\xff\xcb\xc8\xe4\x02\x00",
        ),
        (
            *(b"<url>", b"<loc>", b"</loc>", b"<a>", b"&", b"&amp;", b"<!--", b"<![CDATA[", b"\n", b"]]>"),
            *(b"<!DOCTYPE a [", b"&b;"),
        ),
    ),
    "page": Target(
        _page,
        (
            b"<meta name=robots content='noindex, unavailable_after: 25 Jun 2030'><base href=//x/>"
            b"<a href='?\xe9'>b</a><link rel=canonical href=/c>",
        ),
        (
            *(b"<a href=x>", b"<div>", b"<meta name=robots content=none>", b"</", b"<table>", b"<!--"),
            *(b"\0", b"<b>", b"&#0;"),
        ),
        # The HTML parser looks through all open elements: twice as deep takes four times as long. Whoever goes
        # deeper than this is stopped by the limit on the time of a parser process.
        1 << 15,
    ),
    "robots_meta": Target(
        _meta,
        (
            b"frontlog: noindex, nofollow\nunavailable_after: 25 Jun 2030 15:00:00 PST\nmax-snippet:20",
            b"otherbot: none,all",
        ),
        (b",", b":", b"noindex", b"unavailable_after: ", b" ", b"frontlog:", b"\n"),
        1 << 16,  # as much as the headers of a response may hold
    ),
    "retry_after": Target(
        _retry_after,
        (b"120", b"Mon, 21 Sep 2026 14:30:00 GMT", b"Monday, 21-Sep-26 14:30:00 GMT"),
        (b"9", b" ", b",", b"Sep", b"-", b":"),
    ),
    "dates": Target(
        _dates,
        (b"2026-09-21T14:30:00.5+02:00", b"Mon, 21 Sep 2026 14:30 EST", b"Sep 21 14:30:00 GMT 2026"),
        (b"0", b" ", b"T", b"a", b",", b"."),
    ),
    "cache_control": Target(
        _cache_control,
        (b"max-age=60, no-store", b'private="x, max-age=1", MAX-AGE = "5"'),
        (b",", b'"', b"max-age=", b"9", b"\\", b" "),
    ),
}
