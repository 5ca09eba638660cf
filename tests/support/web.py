"""A scripted web for tests: pages, robots files, addresses and failures, answered without a socket.

A page says what its server would; the driver (`support/driver.py`) turns it into the inputs that the real
fetcher writes: candidate, discoveries, fetch-result. Times are the driver's own.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field

from frontlog.avro.enums import FetchKind, Reason
from frontlog.processors.leased import Lease

TTL_MS = 3_600_000


@dataclass(frozen=True)
class Page:
    """One answer. `reason` other than OK: no answer came, `status` is then 0. `ms` is the response time."""

    text: str = ""
    links: tuple[str, ...] = ()
    status: int = 200
    ms: int = 20
    reason: Reason = Reason.OK
    location: str = ""
    retry_after: str = ""
    etag: str = ""
    title: str = ""
    content_type: str = "text/html"
    sitemap: bytes | None = None
    """The body of a sitemap or feed, instead of text and links."""


@dataclass(frozen=True)
class Robots:
    """A robots.txt, or what the server says instead of one."""

    text: bytes = b""
    status: int = 200
    location: str = ""
    cache_control: str = ""
    ms: int = 10


@dataclass(frozen=True)
class Request:
    """One request as the servers saw it."""

    kind: FetchKind
    host: str
    address: str
    url: str
    started_ms: int
    ended_ms: int


Answer = Page | Robots
Script = Callable[[Lease, int], Answer | None]


@dataclass
class Web:
    """What is out there. A URL that is not in `pages` is a 404; an origin not in `robots` has none.

    `script` is asked first, with the lease and the time; None leaves the answer to the tables.
    """

    pages: dict[str, Page] = field(default_factory=dict[str, Page])
    robots: dict[str, Robots] = field(default_factory=dict[str, Robots])
    addresses: dict[str, str] = field(default_factory=dict[str, str])
    script: Script | None = None
    requests: list[Request] = field(default_factory=list[Request])

    def address_of(self, host: str) -> str:
        """The address of a host; empty: the look-up fails. By default each host has one of its own."""
        known = self.addresses.get(host)
        if known is not None:
            return known
        number = int.from_bytes(hashlib.blake2b(host.encode(), digest_size=3).digest(), "big")
        return f"198.{number >> 16}.{number >> 8 & 255}.{number & 255}"

    def answer(self, lease: Lease, now_ms: int) -> Answer:
        """What the server says to a request."""
        scripted = self.script(lease, now_ms) if self.script is not None else None
        if scripted is not None:
            return scripted
        if lease.kind is FetchKind.ROBOTS:
            return self.robots.get(lease.requested.removesuffix("/robots.txt"), Robots(status=404))
        return self.pages.get(lease.requested, Page(status=404))


def synthetic(hosts: int, pages: int, links: int = 8, *, text_words: int = 5) -> Web:
    """A web of `hosts` sites with `pages` pages each; each page links to `links` others, a quarter of them on
    the next site. Its entrance is `http://s0.example/`, whose first link leads on to every site."""
    web = Web()
    for h in range(hosts):
        base = f"http://s{h}.example"
        other = f"http://s{(h + 1) % hosts}.example"
        web.robots[base] = Robots(b"User-agent: *\nDisallow: /private/\n")
        for p in range(pages):
            found = [f"{base}/{(p * links + i + 1) % pages}" for i in range(links - links // 4)]
            found += [f"{other}/{(p + i) % pages}" for i in range(links // 4)]
            found += [f"{base}/private/{p}"] if p % 10 == 0 else []
            words = " ".join(f"w{(h * pages + p * 7 + i) % 9973}" for i in range(text_words))
            page = Page(text=f"page {h} {p} {words}", links=tuple(found), title=f"Page {p} of {h}")
            web.pages[f"{base}/{p}"] = page
        root = [f"{base}/{p}" for p in range(min(pages, 5))] + [f"{other}/"]
        web.pages[f"{base}/"] = Page(text=f"home of {h}", links=tuple(root), title=f"Home {h}")
    return web
