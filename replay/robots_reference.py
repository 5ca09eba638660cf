"""robots.txt a second time: Protego where it is known to be right, and a small matcher of our own where it is not.

Protego 0.7 is wrong about names that aren't cut at the first foreign character, groups closed by Crawl-delay, unknown or
junk lines, and a byte order mark; and it folds escapes otherwise than RFC 9309 §2.2.2. So it judges a file and a path only
when both are plain. All else is judged by `matches`, a table of dynamic programming over octets, which is slow and short.

Not verified: files of UTF-16, and which of two readings is right where the RFC is silent; there this file decides as the
crawler's own parser says that it does (`processors/robots_txt.py`, "Decided here").
"""

import re
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

from protego import Protego

LIMIT_BYTES = 512_000
_PLAIN_LINE = re.compile(
    rb"[ \t]*(?:(?:user-agent[ \t]*:[ \t]*(?:\*|[a-z_-]+)|(?:dis)?allow[ \t]*:[ \t]*(?:[/*][a-z0-9/*$._~?=&-]*)?"
    rb"|sitemap[ \t]*:[^#]*)[ \t]*)?(?:#.*)?",
    re.IGNORECASE,
)
_PLAIN_PATH = re.compile(r"[A-Za-z0-9/._~?=&-]*")
_TOKEN = re.compile(rb"[A-Za-z_-]+")
_HTML = re.compile(
    rb"\s*(?:<!--.*?-->\s*)*<(?:!doctype\s+html|\?xml|html|head|body|script|style|meta|title|link)",
    re.I | re.S,
)
_FIELDS = {b"user-agent": "agent", b"allow": "allow", b"disallow": "disallow", b"crawl-delay": "delay"}
_MISSPELT = {
    b"useragent": "agent", b"user agent": "agent", b"dissallow": "disallow", b"dissalow": "disallow", b"disalow": "disallow",
    b"diasllow": "disallow", b"disallaw": "disallow", b"crawldelay": "delay", b"crawl delay": "delay",
}  # fmt: skip
_SITEMAP = (b"sitemap", b"sitemaps", b"site-map")
_SITEMAP_BYTES_MAX = 2_048
_SECONDS = re.compile(rb"\d{1,18}(?:\.\d*)?|\.\d+")
_DELAY_MS_MAX = 365 * 86_400_000
_APART = b"/?"


class Group(NamedTuple):
    """What a file says to us: (allow, spellings of its pattern) of each rule, the longest Crawl-delay in ms."""

    rules: tuple[tuple[bool, tuple[bytes, ...]], ...]
    delay_ms: int


def allowed(text: bytes, token: str, url: str) -> bool:
    """Whether a file lets a product token fetch a URL of its origin."""
    target = _target(url)
    if target.partition("?")[0] == "/robots.txt" and "?" not in target:
        return True
    if _PLAIN_PATH.fullmatch(target) and (parsed := plain(text)) is not None:
        return bool(parsed.can_fetch(target, token))
    return _judge(group_of(text, token).rules, target)


def crawl_delay_ms(text: bytes, token: str) -> int:
    """The Crawl-delay that a file states for a product token, ms; 0: none."""
    return group_of(text, token).delay_ms


@lru_cache(maxsize=1_024)
def sitemaps(text: bytes) -> tuple[str, ...]:
    """The sitemaps that a file names, as they are written."""
    found: list[str] = []
    for line in _readable(text).splitlines():
        name, colon, value = line.partition(b"#")[0].partition(b":")
        words = line.partition(b"#")[0].split()
        if not colon and len(words) == 2:
            name, value = words
        said = value.strip()
        if b" ".join(name.split()).lower() in _SITEMAP and 0 < len(said) <= _SITEMAP_BYTES_MAX:
            try:
                found.append(said.decode("utf-8"))
            except UnicodeDecodeError:
                found.append(said.decode("latin-1"))
    return tuple(found)


def _target(url: str) -> str:
    """Path and query of an absolute URL."""
    rest = url.partition("://")[2] or url
    slash = min((at for at in (rest.find("/"), rest.find("?"), rest.find("#")) if at >= 0), default=len(rest))
    target = rest[slash:].partition("#")[0]
    return target if target.startswith("/") else f"/{target}"


@lru_cache(maxsize=1_024)
def plain(text: bytes) -> Protego | None:
    """The file as Protego has it, if it is one that Protego reads right. (It takes `/index.html` for `/` as well.)"""
    readable = text.isascii() and b"/index.htm" not in text.lower() and len(text) <= LIMIT_BYTES
    if not readable or not all(_PLAIN_LINE.fullmatch(line) for line in text.splitlines()):
        return None
    return Protego.parse(text.decode("ascii"))


@lru_cache(maxsize=1_024)
def group_of(text: bytes, token: str) -> Group:
    """All groups of a token as one, or those of `*` if it has none (RFC 9309 §2.2.1)."""
    groups = _groups(_readable(text))
    found = groups.get(token.lower().encode(), groups.get(b"*"))
    if found is None:
        return Group((), 0)
    return Group(tuple((allow, _spellings(pattern)) for allow, pattern in found[0]), max(found[1], default=0))


def _readable(text: bytes) -> bytes:
    cut = text[:LIMIT_BYTES]
    if len(text) > LIMIT_BYTES and text[LIMIT_BYTES : LIMIT_BYTES + 1] not in (b"\n", b"\r"):
        cut = cut[: max(cut.rfind(b"\n"), cut.rfind(b"\r")) + 1]
    if cut[:2] in (b"\xff\xfe", b"\xfe\xff"):
        cut = cut.decode("utf-16", "replace").encode()
    while cut.startswith(b"\xef\xbb\xbf"):
        cut = cut[3:]
    cut = cut.removeprefix(b"\xef\xbb").removeprefix(b"\xef").replace(b"\0", b"")
    return b"" if _HTML.match(cut[:4_096]) else cut


_Draft = tuple[list[tuple[bool, bytes]], list[int]]


def _groups(text: bytes) -> dict[bytes, _Draft]:
    """Rules and delays by token."""
    groups: dict[bytes, _Draft] = {}
    members: list[_Draft] = []
    delayed: list[_Draft] = []
    agents_open = False
    delay_said = False
    for line in text.splitlines():
        field, value = _field(line.partition(b"#")[0].strip())
        if field == "agent":
            if not agents_open:
                members, delayed, agents_open = [], [], True
            elif delay_said:
                delayed = []
            delay_said = False
            token = _TOKEN.match(value)
            star = value[:1] == b"*" and not value[1:2].strip()
            if token or star:
                draft = groups.setdefault(token[0].lower() if token else b"*", ([], []))
                members.append(draft)
                delayed.append(draft)
        elif field in ("allow", "disallow"):
            agents_open = False
            if value[:1] in (b"/", b"*"):
                for draft in members:
                    draft[0].append((field == "allow", value))
        elif field == "delay":
            delay_said = True
            if _SECONDS.fullmatch(value):
                for draft in delayed:
                    draft[1].append(_milliseconds(value))
    return groups


def _field(line: bytes) -> tuple[str, bytes]:
    """(field, value) of a line; an unknown field is empty."""
    name, colon, value = line.partition(b":")
    key = name.rstrip().lower()
    field = _FIELDS.get(key) or _MISSPELT.get(b" ".join(key.split()), "")
    words = line.split()
    if not field and not colon and len(words) == 2:
        field, value = _FIELDS.get(words[0].lower()) or _MISSPELT.get(words[0].lower(), ""), words[1]
    return field, value.strip()


def _milliseconds(value: bytes) -> int:
    whole, _, fraction = value.partition(b".")
    thousandths = int((fraction + b"000")[:3]) + bool(fraction[3:].strip(b"0"))
    return min(int(whole or b"0") * 1_000 + thousandths, _DELAY_MS_MAX)


def _judge(rules: tuple[tuple[bool, tuple[bytes, ...]], ...], target: str) -> bool:
    """The longest match wins, allow at equal length; no match allows (RFC 9309 §2.2.2)."""
    best = (-1, True)
    octets = target.encode("utf-8", "surrogatepass")
    paths = {_folded(octets, query=False), _folded(octets, query=True)}
    for allow, spellings in rules:
        for spelling in spellings:
            if (len(spelling), allow) > best and any(matches(spelling, path) for path in paths):
                best = (len(spelling), allow)
    return best[1]


def _spellings(pattern: bytes) -> tuple[bytes, ...]:
    """A pattern as octets to compare; one that isn't UTF-8 is also read as Latin-1."""
    found = [pattern]
    try:
        pattern.decode("utf-8")
    except UnicodeDecodeError:
        found.append(pattern.decode("latin-1").encode())
    return tuple(_folded(one, query=True, pattern=True) for one in found)


def _folded(octets: bytes, *, query: bool, pattern: bool = False) -> bytes:
    """One spelling for what RFC 9309 §2.2.2 calls equal: everything escaped but unreserved and reserved octets.

    An escaped `/` or `?` stays apart in a path; in a query (`query`) it is the plain octet. `*` and `$` of a path are
    escaped, since only a pattern has wildcards; in a pattern those that stand escaped stay so.
    """
    out = bytearray()
    in_query = False
    at = 0
    anchor = len(octets) - 1 if pattern and octets.endswith(b"$") else -1
    while at < len(octets):
        piece = octets[at : at + 3]
        escaped = (
            len(piece) == 3 and piece[:1] == b"%" and re.fullmatch(rb"%[0-9A-Fa-f]{2}", piece) is not None
        )
        octet = unquote_to_bytes(piece) if escaped else octets[at : at + 1]
        wild = pattern and not escaped and (octet == b"*" or at == anchor)
        apart = escaped and octet in (b"/", b"?") and not (query and in_query)
        broken = octet == b"%" and not escaped
        kept = re.fullmatch(rb"[A-Za-z0-9\-._~:\[\]@!&'()+,;=/?]", octet) is not None
        out += octet if wild or broken or (kept and not apart) else b"%%%02X" % octet[0]
        in_query = in_query or (octet == b"?" and not escaped)
        at += 3 if escaped else 1
    return bytes(out)


def matches(pattern: bytes, path: bytes) -> bool:
    """Whether a folded pattern matches a folded path, from its start; `*` any octets, a last `$` the end."""
    anchored = pattern.endswith(b"$")
    body = pattern[:-1] if anchored else pattern
    if not path.startswith(body.partition(b"*")[0]):
        return False
    if b"*" not in body:
        return len(path) == len(body) or not anchored
    row = [True] + [False] * len(path)  # row[j]: the pattern so far matches path[:j]
    for octet in body:
        if octet == 0x2A:
            reached = False
            for j in range(len(path) + 1):
                reached = reached or row[j]
                row[j] = reached
        else:
            row = [False] + [row[j] and path[j] == octet for j in range(len(path))]
    return row[len(path)] if anchored else any(row)
