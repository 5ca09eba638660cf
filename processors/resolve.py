"""Joins a link's raw spelling with its base, exactly as the WHATWG URL Standard says.

ada (https://github.com/ada-url/ada) does the parsing, through two bindings. `ada_url` is the reference,
and what every spelling must come to; a call through it costs 8 us. `can_ada` costs 1 us but wraps an
older ada, which treats international host names otherwise and leaves `^` in paths. So a spelling goes the
short way when that can't matter: it has no `^`, and its host is plain ASCII, or it has none and takes the
base's. A spelling that the parser would leave as it is, character by character, isn't parsed at all: most links are
such paths, relative or from the root, such fragments, or such hrefs, and are put behind a part of the base as they
are. A test compares the ways on the vectors of the standard and on generated spellings.

A base is parsed once a page. The query of a link on a page that isn't UTF-8 is encoded in the page's
encoding (URL Standard, "percent-encode after encoding"), its path and fragment in UTF-8 all the same.
"""

import re
from collections.abc import Iterable, Sequence

import ada_url
import can_ada

from frontlog.processors.codecs_whatwg import encode_query

# A start that leaves the host to the base whatever follows: a path, a query, a fragment. Not `//`, `/\`,
# nor `/` before a tab or newline, which the parser skips.
_KEEPS_HOST = re.compile(r"(?:/[^/\\\t\n\r]|\?|#)")
# An absolute spelling whose authority is plain: ASCII, no escapes, nothing that the parser skips.
_PLAIN_AUTHORITY = re.compile(r"https?://[A-Za-z0-9.:-]+(?:[/?#]|$)", re.IGNORECASE)
# Characters that every parser leaves alone in a path, a query and a fragment; segments that begin with a dot are seen
# apart. Two slashes would begin a host.
_LEFT_ALONE = re.compile(r"(?!//)[A-Za-z0-9_.~!$&()*+,;=:@/?#-]++")
# An origin that stays as it is, and a path: a name in lower case that has a top-level domain of letters, or an IPv4
# address, and no port or one that is no default.
_LABEL = "[a-z0-9]++(?:-[a-z0-9]++)*+"
_BYTE = "(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
_PLAIN_ORIGIN = re.compile(
    rf"https?://(?:(?:{_LABEL}\.)++[a-z]{{2,63}}+|{_BYTE}(?:\.{_BYTE}){{3}})(?::(?:[1-5][0-9]{{4}}|[1-9][0-9]{{3}}))?/"
)
# C0 controls, space, ", #, <, >, ' and all above ~: the special-query percent-encode set.
_QUERY_ESCAPED = frozenset([*range(0x21), *b"\"#<>'", *range(0x7F, 0x100)])
_WEB = ("http://", "https://")
_STRIPPED = "".join(map(chr, range(0x21)))
_SKIPPED = re.compile(r"[\t\n\r]")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


class Base:
    """A base URL, parsed once, that spellings are joined with."""

    __slots__ = ("_document", "_encoding", "_fast", "_folder", "_origin", "href")

    def __init__(self, url: str, encoding: str = "utf-8") -> None:
        """Take an absolute URL and the page's encoding (WHATWG name). Raises ValueError for a bad URL."""
        href = resolve(url)
        if href is None:
            raise ValueError(f"not an absolute URL: {url[:200]!r}")
        self.href = href
        self._encoding = "" if encoding.startswith(("utf-", "replacement")) else encoding
        # The older ada joins with plain web bases only: it gets fragments of opaque ones wrong.
        self._fast = _can_ada(href) if href.startswith(_WEB) and "xn--" not in href else None
        self._document = href.partition("#")[0]
        path = self._document.partition("?")[0]
        self._folder = path[: path.rindex("/") + 1] if href.startswith(_WEB) else ""
        self._origin = href[: href.index("/", 8)] if href.startswith(_WEB) else ""

    def join(self, raw: str) -> str | None:
        """WHATWG href of a spelling as found on the page, fragment included; None if it doesn't parse."""
        return self.join_all([raw])[0]

    def join_all(self, raws: Sequence[str]) -> list[str | None]:
        """`join` of each spelling, in their order; each different one is parsed once."""
        hrefs = self.joined(raws)[0]
        return [hrefs[raw] for raw in raws]

    def joined(self, raws: Iterable[str]) -> tuple[dict[str, str | None], list[str]]:
        """(`join` of each different spelling, the spellings that may have come to something else than http or https)."""
        origin, folder, document, parsed = self._origin, self._folder, self._document, self._parsed
        own, left_alone, plain_origin = f"{origin}/", _LEFT_ALONE.fullmatch, _PLAIN_ORIGIN.match
        hrefs: dict[str, str | None] = {}
        others: list[str] = []
        # Half of a page's links are there twice.
        for raw in dict.fromkeys(raws):
            # Most spellings of most pages end here, behind a part of the base; it stands in the loop for its speed.
            if origin and left_alone(raw) and "/." not in raw:
                first = raw[0]
                if first == "/":
                    hrefs[raw] = origin + raw
                    continue
                if first == "#":
                    hrefs[raw] = document + raw
                    continue
                if ":" not in raw:
                    if first != "." and first != "?":
                        hrefs[raw] = folder + raw
                        continue
                elif raw.startswith(own) or plain_origin(raw):
                    hrefs[raw] = raw
                    continue
            hrefs[raw] = parsed(raw)
            others.append(raw)
        return hrefs, others

    def _parsed(self, raw: str) -> str | None:
        """Href of a spelling by the quicker parser where both agree."""
        fast = self._fast
        if fast is not None and raw.isascii() and "%" not in raw and "^" not in raw:
            try:
                href = (fast + raw).href
            except ValueError:
                return self._with_care(raw)
            if "xn--" not in href:
                return href
        return self._with_care(raw)

    def _with_care(self, raw: str) -> str | None:
        """Href of a spelling with escapes or other characters than ASCII, or that the older ada refused."""
        raw = scalar_values(raw)
        if self._encoding and "?" in raw and not raw.isascii():
            raw = _with_query_encoded(raw, self._encoding, self.href)
        plain = "^" not in raw and (_KEEPS_HOST.match(raw) or _PLAIN_AUTHORITY.match(raw))
        if self._fast is not None and plain:
            try:
                href = (self._fast + raw).href
            except ValueError:
                return _long(raw, self.href)
            if "xn--" not in href:
                return href
        return _long(raw, self.href)


def resolve(raw: str, base: str | None = None) -> str | None:
    """WHATWG href of `raw`, joined with the absolute URL `base` if there is one; None if it doesn't parse."""
    if base is not None:
        return _long(scalar_values(raw), scalar_values(base))
    if _PLAIN_ORIGIN.match(raw) and _LEFT_ALONE.fullmatch(raw) and "/." not in raw:
        return raw
    if _PLAIN_AUTHORITY.match(raw) and "^" not in raw:
        fast = _can_ada(scalar_values(raw))
        if fast is not None and "xn--" not in fast.href:
            return fast.href
    return _long(scalar_values(raw), None)


def resolve_many(base: str, raws: Sequence[str], encoding: str = "utf-8") -> list[str | None]:
    """WHATWG hrefs of the spellings of a page, in their order. Raises ValueError for a bad base."""
    return Base(base, encoding).join_all(raws)


def scalar_values(text: str) -> str:
    """`text` without lone surrogates, which become U+FFFD as in a browser's strings (WebIDL USVString)."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def _can_ada(url: str) -> can_ada.URL | None:
    try:
        return can_ada.parse(url)
    except ValueError:
        return None


def _long(raw: str, base: str | None) -> str | None:
    try:
        return ada_url.URL(raw, base).href
    except ValueError:
        return None


def _with_query_encoded(raw: str, encoding: str, base: str) -> str:
    """`raw` with the non-ASCII part of its query percent-encoded in the page's encoding.

    Only http and https URLs are encoded so; the scheme is the spelling's, or the base's.
    """
    text = _SKIPPED.sub("", raw.strip(_STRIPPED))
    before, hash_sign, fragment = text.partition("#")
    front, _, query = before.partition("?")
    scheme = _SCHEME.match(front) or _SCHEME.match(base)
    if query.isascii() or scheme is None or scheme[0].lower() not in ("http:", "https:"):
        return raw
    encoded = "".join(
        f"%{byte:02X}" if byte in _QUERY_ESCAPED else chr(byte) for byte in encode_query(query, encoding)
    )
    return f"{front}?{encoded}{hash_sign}{fragment}"
