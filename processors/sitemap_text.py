"""From the bytes of a sitemap or feed to text that a strict XML parser may read, in chunks.

    bytes → gzip undone (by its magic bytes, whatever the name or type says) → at most 50 MB → decoded
          → prolog taken off (declaration, DOCTYPE) → [bare ampersands mended]

Nothing of a document type is ever read: no DTD, no entity, not one from the file itself. The DOCTYPE is
taken off before the parser sees the text, so neither a billion laughs nor `SYSTEM "file:///etc/passwd"`
has anything to work with; a reference to what it declared is then an error of its entry.

Lines keep their numbers through all of it.
"""

import codecs
import re
import zlib
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import NamedTuple

from frontlog.processors.codecs_whatwg import CODECS
from frontlog.processors.encoding import header_encoding
from frontlog.processors.encoding_labels import get_encoding

DECODED_BYTES_MAX = 52_428_800
"""50 MB, what sitemaps.org allows; the rest is not read."""
GZIP_LAYERS_MAX = 2
"""A `.gz` file that is served with `Content-Encoding: gzip` by mistake was once compressed twice."""
MEMBERS_MAX = 4_096
SLICE_BYTES = 65_536
PROLOG_CHARACTERS_MAX = 1 << 20

_GZIP = b"\x1f\x8b\x08"
_BOMS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_BE, "utf-16be"), (codecs.BOM_UTF16_LE, "utf-16le"))
_BARE_UTF16 = ((b"\0<", "utf-16be"), (b"<\0", "utf-16le"))
_DECLARED = re.compile(rb"""\s*<\?xml\s[^>]{0,200}?encoding\s*=\s*["']([A-Za-z0-9._:-]{1,40})["']""")
_SPACE = re.compile(r"[\s\ufeff]*")
_ROOT = re.compile(r"<([^\s/><!?]+)")
_DOCTYPE = re.compile(r"<!DOCTYPE", re.IGNORECASE)
_DOCTYPE_TOKEN = re.compile(r"""["'\[>]""")
_SUBSET_TOKEN = re.compile(r"""<!--|<\?|["'\]]""")
_CLOSERS = {"<!--": "-->", "<?": "?>", "<![CDATA[": "]]>"}
_ENTITY = re.compile(r"""<!ENTITY\s+(?:%\s+)?([^\s"'<>&;]+)""")
# An ampersand that begins no reference to a character that XML has; and what ampersands may stand in as they are.
_TOKEN = re.compile(
    r"<!\[CDATA\[|<!--|<\?|&(?!(?:amp|lt|gt|quot|apos"
    r"|#(?!0*(?:[0-8]|1[124-9]|2[0-9]|3[01]);)[0-9]{1,7}|#x(?!0*(?:[0-8bBcCeEfF]|1[0-9a-fA-F]);)[0-9a-fA-F]{1,6});)"
)
TOKENS_MAX = 1_000_000
"""What is mended of a text: more only costs time."""
_TOKEN_CHARACTERS_MAX = 10
_OPENING = re.compile(r"[<&]")
_ILLEGAL = re.compile("[\0-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")


class SitemapText:
    """The text of a body, read once or more often. `faults` says what was wrong with the bytes last time."""

    def __init__(self, body: bytes, content_type: str | None, encoding: str = "") -> None:
        """`encoding`, a name of `CODECS`, outranks all that the body and its header say."""
        self._body = body
        self.faults: list[str] = []
        self.gzip = body.startswith(_GZIP)
        head = next(self._bytes(), b"")
        # The type of a compressed file, and so its charset, is not that of what it holds.
        served = None if self.gzip else content_type
        self.encoding, self._bom_bytes = _encoding_of(head, served, encoding)

    def chunks(self) -> Iterator[str]:
        """The text without its byte order mark; what is no text becomes U+FFFD."""
        decoder = codecs.getincrementaldecoder(CODECS.get(self.encoding, "utf-8"))("replace")
        skip = self._bom_bytes
        for part in self._bytes():
            text = decoder.decode(part[skip:] if skip else part)
            skip = 0
            if text:
                yield text
        text = decoder.decode(b"", final=True)
        if text:
            yield text

    def _bytes(self) -> Iterator[bytes]:
        self.faults = []
        source = (self._body[at : at + SLICE_BYTES] for at in range(0, len(self._body), SLICE_BYTES))
        parts: Iterator[bytes] = source
        for _ in range(GZIP_LAYERS_MAX):
            head = next(parts, b"")
            parts = chain((head,), parts) if head else parts
            if not head.startswith(_GZIP):
                break
            parts = filter(None, _gunzip(parts, self.faults))
        return _capped(parts, self.faults)


def _gunzip(source: Iterable[bytes], faults: list[str]) -> Iterator[bytes]:
    """Undo gzip (RFC 1952) member by member, never more than a slice at once; junk after the last is left."""
    stream, members = zlib.decompressobj(31), 1
    for part in source:
        while part:
            if stream.eof:
                part = part.lstrip(b"\0")
                if not part:
                    break
                if part[0] != _GZIP[0] or members == MEMBERS_MAX:
                    return
                stream, members = zlib.decompressobj(31), members + 1
            try:
                yield stream.decompress(part, SLICE_BYTES)
            except zlib.error as error:
                faults.append(f"gzip: {error}")
                return
            part = stream.unused_data if stream.eof else stream.unconsumed_tail
    if not stream.eof:
        faults.append("gzip: cut before its end")


def _capped(parts: Iterable[bytes], faults: list[str]) -> Iterator[bytes]:
    """What sitemaps.org allows of it."""
    left = DECODED_BYTES_MAX
    for part in parts:
        if len(part) > left:
            faults.append(f"more than {DECODED_BYTES_MAX:,} bytes: the rest is not read")
            yield part[:left]
            return
        left -= len(part)
        yield part


def _encoding_of(head: bytes, content_type: str | None, given: str) -> tuple[str, int]:
    """(name, bytes of the mark): byte order mark, header, XML declaration (RFC 7303 §3.2), else UTF-8."""
    for mark, name in _BOMS:
        if head.startswith(mark):
            return name, len(mark)
    served = given or (header_encoding(content_type or "") or "")
    if served in CODECS:
        return served, 0
    for start, name in _BARE_UTF16:
        if head.startswith(start):
            return name, 0
    match = _DECLARED.match(head)
    declared = (get_encoding(match[1].decode("ascii")) if match else None) or ""
    # A declaration that could be read as ASCII is not UTF-16, whatever it says.
    return (declared if declared in CODECS and not declared.startswith("utf-16") else "utf-8"), 0


class Opening(NamedTuple):
    """How a text begins. `root` is the name of its first element, empty for what isn't markup."""

    root: str
    html: bool
    doctype: bool
    entities: frozenset[str]
    """Names that the DOCTYPE declares; none of them has a value."""
    chunks: Iterator[str]
    """The text from its root element on, with the lines that stood before it left blank."""


def opening(chunks: Iterator[str]) -> Opening:
    """Look at the start of a text and take its prolog off."""
    text, found = "", None
    for chunk in chunks:
        text += chunk
        found = _prolog(text, final=False)
        if found is not None or len(text) > PROLOG_CHARACTERS_MAX:
            break
    at, doctype = found or _prolog(text, final=True) or (len(text), "")
    root = _ROOT.match(text, at)
    blank = "\n" * text.count("\n", 0, at)
    return Opening(
        root=root[1] if root else "",
        html=re.match(r"<!doctype\s+html\b", doctype, re.IGNORECASE) is not None,
        doctype=bool(doctype),
        entities=frozenset(_ENTITY.findall(doctype)),
        chunks=chain((blank + text[at:],), chunks),
    )


def _prolog(text: str, *, final: bool) -> tuple[int, str] | None:
    """(where the root element or other text begins, the DOCTYPE); None when more must be read to know."""
    at, doctype = 0, ""
    while True:
        at = _SPACE.match(text, at).end()  # type: ignore[union-attr]  # it matches nothing, too
        if len(text) - at < 2 * _TOKEN_CHARACTERS_MAX and not final:
            return None
        if text.startswith(("<?", "<!--"), at):
            closer = "?>" if text[at + 1] == "?" else "-->"
            end = text.find(closer, at + 2)
            end = end + len(closer) if end >= 0 else -1
        elif _DOCTYPE.match(text, at):
            end = _doctype_end(text, at)
            doctype = doctype or text[at : max(end, at)]
        else:
            root = _ROOT.match(text, at)
            return (at, doctype) if final or root is None or root.end() < len(text) else None
        if end < 0:
            return None
        at = end


def _doctype_end(text: str, at: int) -> int:
    """Where a DOCTYPE ends, quotes and internal subset minded; -1 when it doesn't."""
    token, at = _DOCTYPE_TOKEN, at + 1
    while (match := token.search(text, at)) is not None:
        at, found = match.end(), match[0]
        if found == ">":
            return at
        if found in "[]":
            token = _SUBSET_TOKEN if found == "[" else _DOCTYPE_TOKEN
            continue
        closer = _CLOSERS.get(found, found)
        end = text.find(closer, at)
        if end < 0:
            return -1
        at = end + len(closer)
    return -1


class Mended:
    """A text with what no XML may hold made harmless; counts what was changed.

    An `&` that begins no reference stands for itself and becomes `&amp;`: `?a=1&b=2` keeps its second
    parameter. So does one before the name of an entity that XML doesn't know. A character that XML
    forbids becomes U+FFFD, a reference to one (`&#0;`) stands as it is written. CDATA, comments and
    processing instructions keep their ampersands.
    """

    def __init__(self, chunks: Iterable[str]) -> None:
        self._chunks = chunks
        self.ampersands = 0
        self.characters = 0
        self._tokens = 0

    def chunks(self) -> Iterator[str]:
        """The mended text. What may be half a token at the end of a chunk waits for the next one."""
        rest, closer = "", ""
        for chunk in chain(filter(None, self._chunks), ("",)):
            clean, count = _ILLEGAL.subn("\ufffd", chunk)
            self.characters += count
            text, final = rest + clean, not chunk
            out, at, closer = self._chunk(text, closer, final=final)
            rest = text[at:]
            if out:
                yield out

    def _chunk(self, text: str, closer: str, *, final: bool) -> tuple[str, int, str]:
        """(mended part, where the rest begins, what closes the section that the rest is in)."""
        waits = None if final else _OPENING.search(text, max(0, len(text) - _TOKEN_CHARACTERS_MAX))
        limit, out, at = waits.start() if waits else len(text), list[str](), 0
        while at < limit:
            if closer:
                end = text.find(closer, at)
                stop = (
                    end + len(closer)
                    if end >= 0
                    else len(text)
                    if final
                    else max(at, len(text) + 1 - len(closer))
                )
                out.append(text[at:stop])
                at = stop
                if end < 0:
                    break
                closer = ""
                continue
            match = _TOKEN.search(text, at) if self._tokens < TOKENS_MAX else None
            if match is None or match.start() >= limit:
                out.append(text[at:limit])
                at = limit
                break
            self._tokens += 1
            self.ampersands += match[0] == "&"
            out += (text[at : match.start()], "&amp;" if match[0] == "&" else match[0])
            at, closer = match.end(), _CLOSERS.get(match[0], "")
        return "".join(out), at, closer
