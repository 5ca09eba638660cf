"""What the synthetic web is made of: hosts, their addresses and robots files over time, pages and how they answer.

Everything here is a function of the seed and of time; only the servers (`servers.py`) remember who asked what. A link's
target is known to the maker of the page, not found by parsing it, and the rules of a robots file are known as rules, not
read from its text: so the oracles that use them share no code with the crawler.
"""

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")
START_MS = 1_790_000_000_000
"""The true time at which a simulation begins, ms since the epoch."""
TRAP = "/trap/"


class Timeline(Generic[T]):
    """A value that changes at known moments (seconds from the start); the first holds from the beginning."""

    def __init__(self, first: T) -> None:
        self._from = [0.0]
        self._values = [first]

    def then(self, at_s: float, value: T) -> None:
        """From a later moment on, another value."""
        self._from.append(at_s)
        self._values.append(value)

    def at(self, now_s: float) -> T:
        return self._values[bisect_right(self._from, now_s) - 1]

    def last(self) -> T:
        """What it is for good."""
        return self._values[-1]

    def all(self) -> Sequence[T]:
        return self._values


class Kind(StrEnum):
    """What a page is for good."""

    PAGE = "page"
    REDIRECT = "redirect"
    BAD_REDIRECT = "bad_redirect"
    MISSING = "missing"
    GONE = "gone"
    FORBIDDEN = "forbidden"
    WRONG_TYPE = "wrong_type"
    OVERSIZE = "oversize"
    SICK = "sick"


class Trouble(StrEnum):
    """What may go wrong instead of an answer."""

    ERROR_500 = "500"
    RESET = "reset"
    CUT = "cut"
    GARBAGE = "garbage"
    HANG = "hang"
    STALL = "stall"
    REFUSED = "refused"
    NO_ROUTE = "no_route"
    CONNECT_HANG = "connect_hang"
    TLS = "tls"
    LIMIT_429 = "429"
    LIMIT_503 = "503"


CONNECTING = frozenset({Trouble.REFUSED, Trouble.NO_ROUTE, Trouble.CONNECT_HANG, Trouble.TLS})
LIMITING = frozenset({Trouble.LIMIT_429, Trouble.LIMIT_503})


class Link(NamedTuple):
    """A link as the page spells it, what a request for it asks for, and the identity of that (both absolute)."""

    raw: str
    requested: str
    identity: str


@dataclass(frozen=True)
class Page:
    """One page. `links`: of a page its own, of a redirect its target alone. `troubles`: its first answers."""

    kind: Kind
    links: tuple[Link, ...] = ()
    text: str = ""
    status: int = 200
    location: str = ""
    troubles: tuple[Trouble, ...] = ()
    lie: str = ""
    etag: bool = False
    changes_every_s: float = 0.0
    response_ms: int = 20

    def text_at(self, now_s: float) -> str:
        """What it says; some pages change."""
        version = int(now_s / self.changes_every_s) if self.changes_every_s else 0
        return f"{self.text} v{version}" if version else self.text


class Rule(NamedTuple):
    """One line of a robots group, as its maker meant it. `pattern` may have `*`, and `$` at its end."""

    allow: bool
    pattern: str


@lru_cache(maxsize=4_096)
def _pattern(pattern: str) -> re.Pattern[str]:
    ends = pattern.endswith("$")
    parts = (pattern[:-1] if ends else pattern).split("*")
    return re.compile(".*".join(map(re.escape, parts)) + ("$" if ends else ""), re.DOTALL)


@dataclass(frozen=True)
class RobotsFile:
    """A robots.txt: what its maker meant for us, and the bytes. `delay_ms` 0: no Crawl-delay."""

    rules: tuple[Rule, ...]
    body: bytes
    delay_ms: int = 0

    def allows(self, target: str) -> bool:
        """RFC 9309 §2.2.2: the longest match decides, allow where two are equal; nothing matches: allowed."""
        best, allowed = -1, True
        for rule in self.rules:
            if rule.pattern and _pattern(rule.pattern).match(target):
                length = len(rule.pattern)
                if length > best or (length == best and rule.allow):
                    best, allowed = length, rule.allow
        return allowed


@dataclass(frozen=True)
class RobotsAnswer:
    """What a request for a robots file gets: a file, a status, a redirect, or trouble."""

    file: RobotsFile | None = None
    status: int = 200
    location: str = ""
    trouble: Trouble | None = None
    cache_control: str = ""
    lie: str = ""

    @property
    def healthy(self) -> bool:
        """Whether it settles something, be it after a redirect."""
        return self.trouble is None and self.status < 500 and self.status != 429


class Names(NamedTuple):
    """What a look-up gives: addresses, or an error in the resolver's words."""

    addresses: tuple[str, ...] = ()
    error: str = ""
    ttl_ms: int = 300_000


@dataclass
class Host:
    """A host name with all that it serves. `pages`: absolute URL → page; `robots`: origin_key → answers."""

    name: str
    site: str
    partition: int
    origins: tuple[str, ...]
    names: Timeline[Names]
    robots: dict[str, Timeline[RobotsAnswer]] = field(default_factory=dict[str, Timeline[RobotsAnswer]])
    pages: dict[str, Page] = field(default_factory=dict[str, Page])
    alternates: dict[str, RobotsAnswer] = field(default_factory=dict[str, RobotsAnswer])
    trouble: Timeline[Trouble | None] = field(default_factory=lambda: Timeline[Trouble | None](None))
    connect_ms: int = 5
    keeps_old_address: bool = True

    def page(self, url: str) -> Page | None:
        """The page at a URL; a trap has as many as are asked for."""
        base, target = split_url(url)
        if target.startswith(TRAP) and url not in self.pages and f"{base}{TRAP}0" in self.pages:
            return trap_page(base, target)
        return self.pages.get(url)


def trap_page(base: str, target: str) -> Page:
    """A page of an endless space: each leads to one that is deeper."""
    number = int(target.removeprefix(TRAP).partition("?")[0] or 0) + 1
    url = f"{base}{TRAP}{number}"
    return Page(Kind.PAGE, (Link(f"{TRAP}{number}", url, url),), f"trap {number} of {base}")


@dataclass
class Web:
    """All of it. `seeds` are where a crawl begins; `published`: every spelling that some page, redirect or seed gives."""

    hosts: dict[str, Host] = field(default_factory=dict[str, Host])
    seeds: list[str] = field(default_factory=list[str])
    calm_s: float = 0.0
    """From this moment on nothing changes and nothing fails that isn't so for good."""
    published: set[str] = field(default_factory=set[str])

    def host_of(self, origin_key: str) -> Host:
        return self.hosts[split_origin(origin_key)[1]]

    def page(self, url: str) -> Page | None:
        """The page at an absolute URL, if there is one."""
        host = self.hosts.get(split_origin(origin_of(url))[1])
        return host.page(url) if host is not None else None

    def knows(self, url: str) -> bool:
        """Whether anything in this web leads to a spelling."""
        return url in self.published or TRAP in url


def split_url(url: str) -> tuple[str, str]:
    """(`scheme://authority`, path and query) of an absolute URL."""
    at = url.find("/", url.index("://") + 3)
    return (url[:at], url[at:]) if at >= 0 else (url, "/")


def origin_of(url: str) -> str:
    """`scheme://host:port` of an absolute URL."""
    base, _ = split_url(url)
    scheme, _, authority = base.partition("://")
    return base if ":" in authority else f"{base}:{443 if scheme == 'https' else 80}"


def split_origin(origin_key: str) -> tuple[str, str, int]:
    """(scheme, host, port)."""
    scheme, _, rest = origin_key.partition("://")
    host, _, port = rest.rpartition(":")
    return scheme, host, int(port)


def base_of(origin_key: str) -> str:
    """`scheme://authority` of an origin, a default port left out."""
    scheme, host, port = split_origin(origin_key)
    return f"{scheme}://{host}" if port == (443 if scheme == "https" else 80) else f"{scheme}://{host}:{port}"


def is_public(address: str) -> bool:
    """Whether an address is one that this web gives to its servers."""
    return address.startswith(("20.1.", "2600:1f00::"))
