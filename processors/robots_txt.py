"""robots.txt as RFC 9309 has it: bytes → groups of rules → a verdict that names its group and line.

Rules first:

- A file is any bytes and parsing never fails: what can be read is read, the rest skipped with a note
  (§2.3.1.5).
- Only `allow` and `disallow` lines end a group's list of user-agents. Crawl-delay, Sitemap, unknown and
  junk lines don't (§2.2.4), so the rules below them still belong to the agents above.
- A product token is letters, `-` and `_`, and is cut at the first other character (§2.2.1): `FooBot/1.2` is
  `FooBot`. Tokens are equal in any case; all groups of one token are one group; only if a crawler's own
  token has none does `*` speak to it. A name that isn't a product token (`AB42bot`) has no group of its
  own.
- An empty pattern is no rule. A pattern that starts with neither `/` nor `*` can't match: no rule, with a
  note.
- The verdict is that of the longest match, allow at equal length, else allowed (`robots_pattern.py`).
  `/robots.txt` itself is always allowed (§2.2.2).

Decided here, where the RFC is silent:

- Misspellings that leave no doubt (`disalow`, `useragent`, a missing colon) count, with a note: to obey
  more is the safe side, and no case of the standard's test suites contradicts.
- A byte order mark, whole, repeated or cut, is skipped; UTF-16 is decoded, with its mark or evidently; NUL
  bytes are dropped. Other encodings are matched octet by octet (and Latin-1 in UTF-8 as well).
- 500 KiB are read (§2.5); a line cut by that or by a cut transfer is dropped. Shorter lines are never cut.
- A page of HTML holds no rules, and says so in `looks_like_html`.
- Crawl-delay counts for the agents named since the one before; of several for one token the longest counts.
"""

import re
from types import MappingProxyType
from typing import Final

from frontlog.processors.robots_rules import (
    NO_GROUP,
    Group,
    Note,
    RobotsTxt,
    RobotsVerdict,
    Rule,
    request_target,
    show,
    valid_product_token,
    verdict,
)

__all__ = [
    "LIMIT_BYTES",
    "NO_GROUP",
    "Group",
    "Note",
    "RobotsTxt",
    "RobotsVerdict",
    "Rule",
    "parse",
    "request_target",
    "valid_product_token",
    "verdict",
]

LIMIT_BYTES: Final = 512_000
"""500 KiB, the smallest limit that RFC 9309 §2.5 allows."""
NOTES_MAX: Final = 64
SITEMAP_BYTES_MAX: Final = 2_048
CRAWL_DELAY_MS_MAX: Final = 365 * 86_400_000
"""Longer ones are kept as this; what is too long to honour is for politeness to say."""

_TOKEN = re.compile(rb"[A-Za-z_-]+")
_SECONDS = re.compile(rb"(\d{1,18})(?:\.(\d*))?|\.(\d+)")
_HTML = re.compile(
    rb"(?>\s*<!--.*?-->)*+\s*+<(?:!doctype\s+html|\?xml|(?:html|head|body|script|style|meta|title|link)[\s>/])",
    re.IGNORECASE | re.DOTALL,
)
_HTML_HEAD_BYTES = 4_096

_AGENT, _ALLOW, _DISALLOW, _DELAY, _SITEMAP = range(5)
_FIELDS: Final = {
    b"user-agent": _AGENT,
    b"allow": _ALLOW,
    b"disallow": _DISALLOW,
    b"crawl-delay": _DELAY,
    b"sitemap": _SITEMAP,
}
_MISSPELT: Final = {
    b"useragent": _AGENT,
    b"user agent": _AGENT,
    b"dissallow": _DISALLOW,
    b"dissalow": _DISALLOW,
    b"disalow": _DISALLOW,
    b"diasllow": _DISALLOW,
    b"disallaw": _DISALLOW,
    b"crawldelay": _DELAY,
    b"crawl delay": _DELAY,
    b"sitemaps": _SITEMAP,
    b"site-map": _SITEMAP,
}


def parse(body: bytes, *, limit_bytes: int = LIMIT_BYTES, cut: bool = False) -> RobotsTxt:
    """Read a robots.txt (decoded from its content coding). Never raises, whatever the bytes.

    Only the first `limit_bytes` are read; `cut` says that the transfer itself stopped early. In both cases an
    unfinished last line is dropped, since half a pattern forbids or allows another thing than the whole.
    """
    text, encoding, was_cut = _readable(body, limit_bytes, cut)
    parser = _Parser()
    if was_cut:
        parser.note(0, "only the beginning was read; an unfinished last line was dropped")
    if b"\0" in text:
        parser.note(0, "NUL bytes were dropped")
        text = text.replace(b"\0", b"")
    is_html = _HTML.match(text[:_HTML_HEAD_BYTES]) is not None
    if is_html:
        parser.note(0, "this is a page of HTML: it holds no rules")
    else:
        for number, line in enumerate(text.splitlines(), 1):
            parser.read(number, line)
    return parser.finish(is_html, was_cut, encoding)


# --- bytes -----------------------------------------------------------------------------------------------


def _readable(body: bytes, limit_bytes: int, cut: bool) -> tuple[bytes, str, bool]:
    """The octets to read (UTF-16 as UTF-8, no byte order mark), their encoding, and whether they were cut."""
    over = len(body) > limit_bytes
    head = body[: limit_bytes + 2] if over else body
    encoding = _utf16(head)
    unit_bytes = 2 if encoding else 1
    read_bytes = min(limit_bytes, len(head))
    read_bytes -= read_bytes % unit_bytes  # half a unit at the end says nothing
    text, after = head[:read_bytes], head[read_bytes : read_bytes + unit_bytes]
    if encoding:
        text, after = text.decode(encoding, "replace").encode(), after.decode(encoding, "replace").encode()
    while text.startswith(b"\xef\xbb\xbf"):
        text = text[3:]
    # What is left of a mark that someone cut hides the first group as surely as a whole one.
    text = text.removeprefix(b"\xef\xbb") if text.startswith(b"\xef\xbb") else text.removeprefix(b"\xef")
    if (over or cut) and after not in (b"\n", b"\r"):
        text = text[: max(text.rfind(b"\n"), text.rfind(b"\r")) + 1]
    return text, encoding or "utf-8", over or cut


def _utf16(head: bytes) -> str:
    """The UTF-16 form that the bytes are in, by byte order mark or by the zeros of ASCII; empty: none."""
    if head.startswith(b"\xff\xfe"):
        return "utf-16-le"
    if head.startswith(b"\xfe\xff"):
        return "utf-16-be"
    if b"\0" not in head[:64]:
        return ""
    sample = head[:256]
    even, odd = sample[::2].count(0), sample[1::2].count(0)
    if odd * 4 >= len(sample) and even == 0:
        return "utf-16-le"
    if even * 4 >= len(sample) and odd == 0:
        return "utf-16-be"
    return ""


def _delay_ms(value: bytes) -> int | None:
    """A Crawl-delay in milliseconds, rounded up; None: not a plain number of seconds."""
    match = _SECONDS.fullmatch(value)
    if match is None:
        return None
    fraction = match[2] or match[3] or b""
    thousandths = int((fraction + b"000")[:3]) + (1 if fraction[3:].strip(b"0") else 0)
    return min(int(match[1] or b"0") * 1_000 + thousandths, CRAWL_DELAY_MS_MAX)


# --- lines -----------------------------------------------------------------------------------------------


class _Draft:
    """A token's group while the file is read.

    Blocks and delays are shared with the agents named beside it, so a file of many agents and many rules
    costs their sum and not their product.
    """

    __slots__ = ("blocks", "delays", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self.blocks: list[int] = []
        self.delays: list[int] = []


class _Parser:
    """State between lines: the agents of the open group and what they share."""

    def __init__(self) -> None:
        self._drafts: dict[str, _Draft] = {}
        self._blocks: list[list[Rule]] = []
        self._delays: list[int | None] = []
        self._sitemaps: list[str] = []
        self._notes: list[Note] = []
        self._in_group = False
        self._has_rules = False
        self._has_delay = False

    def note(self, line: int, message: str) -> None:
        """Remember what was skipped or mended, up to a bound."""
        if len(self._notes) < NOTES_MAX:
            self._notes.append(Note(line, message))

    def read(self, number: int, line: bytes) -> None:
        """Take one line without its end."""
        line = line.partition(b"#")[0].strip()
        if not line:
            return
        key, colon, value = line.partition(b":")
        name = key.rstrip().lower()
        kind = _FIELDS.get(name)
        if kind is None:
            kind = _MISSPELT.get(b" ".join(name.split()))
            if kind is None and not colon:
                # `Disallow /x`: the colon is missing, and what is meant is plain if there are just two words.
                words = line.split()
                if len(words) == 2:
                    name, value = words[0].lower(), words[1]
                    kind = _FIELDS.get(name, _MISSPELT.get(name))
            self.note(number, "skipped: not a field that counts" if kind is None else "read as it was meant")
        value = value.strip()
        if kind in (_ALLOW, _DISALLOW):
            self._rule(number, kind == _ALLOW, value)
        elif kind == _AGENT:
            self._agent(number, value)
        elif kind == _DELAY:
            self._delay(number, value)
        elif kind == _SITEMAP and value:
            self._sitemap(number, value)

    def _agent(self, number: int, value: bytes) -> None:
        if self._has_rules or not self._in_group:
            # Also a line without a usable token ends the group before it: its rules are not for those agents.
            self._in_group, self._has_rules, self._has_delay = True, False, False
            self._blocks.append([])
            self._delays.append(None)
        elif self._has_delay:
            self._has_delay = False
            self._delays.append(None)
        token = _TOKEN.match(value)
        if token is not None:
            name = token[0].decode("ascii")
            if len(name) < len(value):
                self.note(number, f"product token cut to {show(token[0])}")
        elif value[:1] == b"*" and not value[1:2].strip():
            name = "*"
        else:
            self.note(number, "skipped: no product token")
            return
        draft = self._drafts.setdefault(name.lower(), _Draft(name))
        for shared, last in ((draft.blocks, len(self._blocks) - 1), (draft.delays, len(self._delays) - 1)):
            if not shared or shared[-1] != last:
                shared.append(last)

    def _rule(self, number: int, allow: bool, pattern: bytes) -> None:
        if not self._in_group:
            self.note(number, "skipped: a rule before the first user-agent")
            return
        self._has_rules = True
        if pattern[:1] in (b"/", b"*"):
            self._blocks[-1].append(Rule(number, allow, pattern))
        elif pattern:
            self.note(number, "skipped: a pattern starts with / or *")

    def _delay(self, number: int, value: bytes) -> None:
        if not self._in_group:
            self.note(number, "skipped: a Crawl-delay before the first user-agent")
            return
        self._has_delay = True
        delay_ms = _delay_ms(value)
        if delay_ms is None:
            self.note(number, "skipped: Crawl-delay is not a number of seconds")
        else:
            self._delays[-1] = max(delay_ms, self._delays[-1] or 0)

    def _sitemap(self, number: int, value: bytes) -> None:
        if len(value) <= SITEMAP_BYTES_MAX:
            self._sitemaps.append(show(value, SITEMAP_BYTES_MAX))
        else:
            self.note(number, "skipped: a sitemap's URL of this length")

    def finish(self, is_html: bool, was_cut: bool, encoding: str) -> RobotsTxt:
        """What was read, immutable."""
        blocks = [tuple(block) for block in self._blocks]
        groups: dict[str, Group] = {}
        for token, draft in self._drafts.items():
            said = [d for d in (self._delays[i] for i in draft.delays) if d is not None]
            groups[token] = Group(draft.name, tuple(blocks[i] for i in draft.blocks), max(said, default=None))
        return RobotsTxt(
            MappingProxyType(groups), tuple(self._sitemaps), tuple(self._notes), is_html, was_cut, encoding
        )
