"""What a parsed robots.txt holds, and the verdict on a URL (RFC 9309 §2.2). `robots_txt.py` has the rules."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, NamedTuple

from frontlog.processors.robots_pattern import RuleIndex, fold_path

TEXT_CHARS_MAX: Final = 2_048
"""Longest pattern shown to people; matching uses patterns whole."""

_TO_PATH = re.compile(r"https?://[^/?#]*(?=/)")
_TOKEN = re.compile(r"[A-Za-z_-]+")


def show(octets: bytes, characters_max: int = TEXT_CHARS_MAX) -> str:
    """Octets of the file for people: UTF-8, else Latin-1, of bounded length."""
    try:
        text = octets.decode("utf-8")
    except UnicodeDecodeError:
        text = octets.decode("latin-1")
    return text if len(text) <= characters_max else text[:characters_max] + "…"


class Note(NamedTuple):
    """Something in the file that was skipped or mended. Lines count from 1; 0 is the whole file."""

    line: int
    message: str


class Rule(NamedTuple):
    """One `allow` or `disallow` line: its number from 1, what it says, its pattern's octets as they stand."""

    line: int
    allow: bool
    pattern: bytes

    def __str__(self) -> str:
        """The rule as `Disallow: /account/`."""
        return f"{'Allow' if self.allow else 'Disallow'}: {show(self.pattern)}"


@dataclass(frozen=True)
class Group:
    """What the file says to one product token, in the order of its lines; all its groups are merged here.

    `name` is the token as the file first spells it, `*`, or empty when no group speaks to the crawler.
    """

    name: str
    blocks: tuple[tuple[Rule, ...], ...] = field(repr=False)
    crawl_delay_ms: int | None = None

    @cached_property
    def rules(self) -> tuple[Rule, ...]:
        """All rules, those of shared blocks too."""
        return self.blocks[0] if len(self.blocks) == 1 else tuple(rule for b in self.blocks for rule in b)

    @cached_property
    def _index(self) -> RuleIndex:
        # Made on the first match: a file may name hundreds of crawlers, and one of them is us.
        return RuleIndex([(rule.pattern, rule.allow) for rule in self.rules])

    def match(self, folded_path: str) -> Rule | None:
        """The rule that decides a folded path, if any matches."""
        position = self._index.best(folded_path)
        return self.rules[position] if position >= 0 else None


NO_GROUP: Final = Group("", ())


@dataclass(frozen=True)
class RobotsTxt:
    """A parsed robots.txt. `groups` is keyed by lower-case token or `*`; `encoding` tells how it was read."""

    groups: Mapping[str, Group]
    sitemaps: tuple[str, ...] = ()
    notes: tuple[Note, ...] = ()
    looks_like_html: bool = False
    was_cut: bool = False
    encoding: str = "utf-8"

    def group(self, product_token: str) -> Group:
        """The group that speaks to a crawler: its own, else `*`, else one without rules and name."""
        groups = self.groups
        return groups.get(product_token.lower()) or groups.get("*") or NO_GROUP


class RobotsVerdict(NamedTuple):
    """What robots.txt says of one URL; `rule` and `line` are None if none matches, `group` empty if none."""

    allowed: bool
    rule: str | None
    line: int | None
    group: str


def valid_product_token(text: str) -> bool:
    """Whether a crawler may call itself so in robots.txt: letters, `-` and `_` only (RFC 9309 §2.2.1)."""
    return _TOKEN.fullmatch(text) is not None


def request_target(url: str) -> str:
    """Path and query of a URL, or of a path that starts with `/`; no fragment. `/` when there is none."""
    origin = _TO_PATH.match(url)
    if origin is not None:
        url = url[origin.end() :]
    elif not url.startswith("/"):
        scheme, found, rest = url.partition("://")
        rest = rest if found and "/" not in scheme and "?" not in scheme else url
        starts = [at for at in (rest.find("/"), rest.find("?"), rest.find("#")) if at >= 0]
        url = rest[min(starts) :] if starts else ""
    url = url.partition("#")[0]
    return url if url.startswith("/") else f"/{url}"


def verdict(robots: RobotsTxt, product_token: str, url: str) -> RobotsVerdict:
    """Whether a crawler may fetch a URL (or path and query) of the origin that has the file. Never raises."""
    group = robots.group(product_token)
    path = fold_path(request_target(url))
    rule = None if path == "/robots.txt" else group.match(path)
    if rule is None:
        return RobotsVerdict(True, None, None, group.name)
    return RobotsVerdict(rule.allow, str(rule), rule.line, group.name)
