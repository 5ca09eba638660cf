"""Which encoding a body is in, and its text (HTML Standard §13.2.3.2, Encoding Standard).

The order in which browsers decide, and the name of what won:

1. `bom`: a byte order mark outranks everything;
2. `header`: the charset parameter of Content-Type, when its label means an encoding;
3. `meta`: the prescan of the first 1024 bytes; or, for a page that declared nothing there, the first meta
   element of the parsed page that does ("change the encoding": a late declaration counts as long as
   nothing certain was known);
4. `guess`: valid UTF-8 that isn't plain ASCII, else statistics over the bytes;
5. `default`: windows-1252.

Decoding never fails: what is wrong becomes U+FFFD and the text counts as repaired. Single-byte encodings
are exactly the standard's; for the others Python's nearest codec stands in (gb18030 for gbk, cp949 for
euc-kr, cp932 for shift_jis, big5hkscs for big5, whose private-use rows differ).
"""

import codecs
import re
from typing import Literal

import cchardet
import msgspec
from selectolax.lexbor import LexborHTMLParser

from frontlog.processors.codecs_whatwg import CODECS, decode_bytes
from frontlog.processors.encoding_labels import get_encoding
from frontlog.processors.prescan import PRESCAN_BYTES_MAX, charset_in_content, declared, prescan

Source = Literal["bom", "header", "meta", "guess", "default"]

HTML_TYPES = ("", "text/html", "application/xhtml+xml")
"""Media types that are read as HTML; a body without a type is."""
GUESS_BYTES_MAX = 8192
"""Bytes that statistics look at, from the first one that isn't ASCII; some 4 ms of work."""

GUESS_EVIDENCE_BYTES_MIN = 24
"""Bytes beyond ASCII without which statistics say nothing: `50 °C` alone looks like Big5 to them."""

_NOT_ASCII_BYTES = bytes(range(0x80, 0x100))
_BOMS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_BE, "utf-16be"), (codecs.BOM_UTF16_LE, "utf-16le"))
_PARAMETER = re.compile(r';\s*charset\s*=\s*(?:"([^"]*)"|([^;\s,"]*))', re.IGNORECASE)
_CHARSET = re.compile(rb"charset", re.IGNORECASE)
_NOT_ASCII = re.compile(rb"[\x80-\xff]")


class Decision(msgspec.Struct, frozen=True):
    """The encoding of a body and what decided it."""

    name: str
    """Name of the encoding in lower case, as the Encoding Standard has it."""
    source: Source
    bom_bytes: int = 0
    """Bytes of the byte order mark in front of the text."""


def decide(body: bytes, content_type: str | None = None, *, html: bool = True) -> Decision:
    """Encoding of `body`, served with the header `content_type`; `html` is false for plain text."""
    for mark, name in _BOMS:
        if body.startswith(mark):
            return Decision(name, "bom", len(mark))
    if content_type and (served := header_encoding(content_type)):
        return Decision(served, "header")
    if html and (written := prescan(body) or _late_meta(body)):
        return Decision(written, "meta")
    if likely := guess(body):
        return Decision(likely, "guess")
    return Decision("windows-1252", "default")


def decode(body: bytes, decision: Decision) -> tuple[str, bool]:
    """(text without its byte order mark, whether bytes had to be replaced)."""
    return decode_bytes(body[decision.bom_bytes :] if decision.bom_bytes else body, decision.name)


def parser_source(body: bytes, decision: Decision) -> tuple[bytes | str, bool]:
    """(what to give the HTML parser, whether bytes had to be replaced): valid UTF-8 as it is, else text."""
    if decision.name == "utf-8":
        data = body[decision.bom_bytes :] if decision.bom_bytes else body
        try:
            data.decode()
        except UnicodeDecodeError:
            return data.decode("utf-8", "replace"), True
        return data, False
    return decode(body, decision)


def media_type(content_type: str | None) -> str:
    """Type and subtype of a Content-Type header, lower case; empty without one."""
    return (content_type or "").partition(";")[0].strip().lower()


def header_encoding(content_type: str) -> str | None:
    """Encoding that a Content-Type header names; None without a charset or with an unknown label."""
    match = _PARAMETER.search(content_type)
    return None if match is None else get_encoding(match[1] or match[2] or "")


def guess(body: bytes) -> str | None:
    """Encoding that undeclared bytes are most likely in; None when they are plain ASCII or nothing fits."""
    first = _NOT_ASCII.search(body)
    if first is None:
        # ISO-2022-JP is 7-bit: its escapes are the only evidence that there can be.
        return "iso-2022-jp" if b"\x1b$B" in body or b"\x1b$@" in body else None
    if _is_utf8(body):
        return "utf-8"
    start = max(0, first.start() - 64)
    sample = body[start : start + GUESS_BYTES_MAX]
    evidence = len(sample) - len(sample.translate(None, _NOT_ASCII_BYTES))
    if evidence < GUESS_EVIDENCE_BYTES_MIN:
        return None
    found = (cchardet.detect(sample)["encoding"] or "").lower()
    name = "euc-kr" if found == "uhc" else get_encoding(found)
    if name not in CODECS or name.startswith("utf-"):
        return None
    # What doesn't fit is no evidence: more than one replacement in twenty, and the guess is dropped.
    return name if decode_bytes(sample, name)[0].count("\ufffd") * 20 <= evidence else None


def _is_utf8(body: bytes) -> bool:
    """Whether a body is UTF-8 with more than ASCII, up to a character that its end may cut."""
    try:
        return not codecs.getincrementaldecoder("utf-8")().decode(body).isascii()
    except UnicodeDecodeError:
        return False


def _late_meta(body: bytes) -> str | None:
    """Encoding declared by a meta element behind the prescan's reach (HTML Standard §13.2.6.4.4, "meta")."""
    if _CHARSET.search(body, PRESCAN_BYTES_MAX - len("charset")) is None:
        return None
    for node in LexborHTMLParser(body.decode("latin-1")).css("meta"):
        attributes = node.attributes
        label = attributes.get("charset")
        if label is None and (attributes.get("http-equiv") or "").lower() == "content-type":
            label = charset_in_content(attributes.get("content") or "")
        name = declared(label) if label else None
        if name is not None:
            return name
    return None
