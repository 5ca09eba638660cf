"""What encoding a page declares in its own first bytes (HTML Standard §13.2.3.2).

`prescan` is the standard's "prescan a byte stream to determine its encoding": it looks at tags without
parsing them, so it is fooled exactly as browsers are. Where it finds no meta element that declares an
encoding, an XML declaration at the very start counts ("get an XML encoding").
"""

import re

from frontlog.processors.encoding_labels import get_encoding

PRESCAN_BYTES_MAX = 1024
"""Bytes of a page in which a declaration must begin and end."""

_SPACE = b"\t\n\f\r "
_TAG_START = re.compile(rb"</?[A-Za-z]")
_WORD_END = re.compile(rb"[\t\n\f\r >]")
_CHARSET = re.compile(r"charset[\t\n\f\r ]*=[\t\n\f\r ]*", re.IGNORECASE)
_PLAIN_ATTRIBUTE = rb"[\t\n\f\r ]++[a-z0-9_:.-]++(?:=(?:\"[^\"]*+\"|'[^']*+'|[^\t\n\f\r \"'>]++))?"
# Most pages, in lower case: plainly written tags up to `<meta charset=...>`, which is alone in its tag.
_PLAIN_CHARSET = re.compile(
    rb"(?:[^<]*+<(?:[!?](?!--)[^>]*+>|(?!meta[\t\n\f\r ]++charset=)/?[a-z][^\t\n\f\r >]*+(?:"
    + _PLAIN_ATTRIBUTE
    + rb")*+[\t\n\f\r ]*+/?>))*+[^<]*+<meta[\t\n\f\r ]++(charset)="
    + rb"(?:\"([^\"]*+)\"|'([^']*+)'|([^\t\n\f\r \"'>]++))[\t\n\f\r ]*+/?>"
)
_XML_ENCODING = re.compile(rb"encoding[\x00-\x20]*=[\x00-\x20]*([\"'])(.*?)\1", re.DOTALL)


class _EndOfBytesError(Exception):
    """The prescan ran out of bytes."""


def prescan(body: bytes) -> str | None:
    """Name of the encoding that the first 1024 bytes declare, or None."""
    head = body[:PRESCAN_BYTES_MAX]
    if head.startswith(b"<\x00?\x00x\x00"):
        return "utf-16le"
    if head.startswith(b"\x00<\x00?\x00x"):
        return "utf-16be"
    if plain := _plain_charset(head):
        return plain
    try:
        return _scan(head)
    except _EndOfBytesError:
        return _xml_encoding(head)


def declared(label: str) -> str | None:
    """Encoding that a label inside a page stands for.

    A page that could be read far enough to find the label is not UTF-16, whatever it says; and
    x-user-defined is an old way to say "bytes" (steps of "prescan" and "change the encoding").
    """
    name = get_encoding(label)
    if name in ("utf-16le", "utf-16be"):
        return "utf-8"
    return "windows-1252" if name == "x-user-defined" else name


def charset_in_content(content: str) -> str | None:
    """Label in `content="text/html; charset=..."` ("extracting a character encoding from a meta element")."""
    match = _CHARSET.search(content)
    if match is None or match.end() == len(content):
        return None
    rest = content[match.end() :]
    if rest[0] in "\"'":
        end = rest.find(rest[0], 1)
        return rest[1:end] if end > 0 else None
    return re.split(r"[\t\n\f\r ;]", rest, maxsplit=1)[0]


def _plain_charset(head: bytes) -> str | None:
    """What `_scan` finds where one pattern can see it: it walks byte by byte, which takes ten times as long."""
    lower = head.lower()
    match = _PLAIN_CHARSET.match(lower)
    # An earlier "charset" may stand in another meta element: `content="text/html; charset=..."`.
    if match is None or lower.find(b"charset") != match.start(1):
        return None
    return declared((match[2] or match[3] or match[4] or b"").decode("latin-1"))


def _scan(head: bytes) -> str:
    """Walk over tags and comments to the first meta element that declares an encoding."""
    at = 0
    while True:
        at = _find(head, b"<", at)
        if head.startswith(b"<!--", at):
            # The two dashes of the end may be those of the start: `<!-->` is a whole comment.
            at = _find(head, b"-->", at + 2) + 3
        elif head[at + 1 : at + 5].lower() == b"meta" and head[at + 5 : at + 6] in b"\t\n\f\r /":
            name, at = _meta(head, at + 6)
            if name is not None:
                return name
        elif _TAG_START.match(head, at):
            at = _word_end(head, at)
            attribute, _, at = _attribute(head, at)
            while attribute:
                attribute, _, at = _attribute(head, at)
            at += 1
        elif head[at + 1 : at + 2] in (b"!", b"/", b"?"):
            at = _find(head, b">", at + 1) + 1
        else:
            at += 1


def _meta(head: bytes, at: int) -> tuple[str | None, int]:
    """(encoding that the attributes of a meta element declare or None, position after them)."""
    seen: set[bytes] = set()
    got_pragma = False
    need_pragma: bool | None = None
    charset: str | None = None
    known = False
    while True:
        name, value, at = _attribute(head, at)
        if not name:
            break
        if name in seen:
            continue
        seen.add(name)
        if name == b"http-equiv" and value == b"content-type":
            got_pragma = True
        elif name == b"content" and not known:
            label = charset_in_content(value.decode("latin-1"))
            encoding = declared(label) if label is not None else None
            if encoding is not None:
                charset, known, need_pragma = encoding, True, True
        elif name == b"charset":
            charset, known, need_pragma = declared(value.decode("latin-1")), True, False
    if need_pragma is None or (need_pragma and not got_pragma):
        return None, at + 1
    return charset, at + 1


def _attribute(head: bytes, at: int) -> tuple[bytes, bytes, int]:
    """(name, value, position after it), lower case; no name at the end of a tag ("get an attribute")."""
    while _byte(head, at) in b"\t\n\f\r /":
        at += 1
    if head[at] == 0x3E:
        return b"", b"", at
    start = at
    while True:
        byte = _byte(head, at)
        if byte == b"=" and at > start:
            break
        if byte in b"\t\n\f\r ":
            end = at
            while _byte(head, at) in _SPACE:
                at += 1
            if head[at] != 0x3D:
                return head[start:end].lower(), b"", at
            return _value(head, head[start:end].lower(), at + 1)
        if byte in b"/>":
            return head[start:at].lower(), b"", at
        at += 1
    return _value(head, head[start:at].lower(), at + 1)


def _value(head: bytes, name: bytes, at: int) -> tuple[bytes, bytes, int]:
    """Read the value that stands after the equals sign of attribute `name`."""
    while _byte(head, at) in _SPACE:
        at += 1
    quote = _byte(head, at)
    if quote in b"\"'":
        end = _find(head, quote, at + 1)
        return name, head[at + 1 : end].lower(), end + 1
    end = _word_end(head, at)
    return name, head[at:end].lower(), end


def _xml_encoding(head: bytes) -> str | None:
    """Encoding of an XML declaration at the first byte ("get an XML encoding")."""
    if not head.startswith(b"<?xml") or b">" not in head:
        return None
    at = head.find(b"encoding", 0, head.index(b">"))
    match = _XML_ENCODING.match(head, at) if at > 0 else None
    if match is None or any(byte <= 0x20 for byte in match[2]):
        return None
    name = get_encoding(match[2].decode("latin-1"))
    return "utf-8" if name in ("utf-16le", "utf-16be") else name


def _byte(head: bytes, at: int) -> bytes:
    if at >= len(head):
        raise _EndOfBytesError
    return head[at : at + 1]


def _find(head: bytes, what: bytes, at: int) -> int:
    found = head.find(what, at)
    if found < 0:
        raise _EndOfBytesError
    return found


def _word_end(head: bytes, at: int) -> int:
    match = _WORD_END.search(head, at)
    if match is None:
        raise _EndOfBytesError
    return match.start()
