"""The encodings of the Encoding Standard as Python codecs, for decoding bodies and encoding URL queries.

Python's codecs for single-byte encodings leave bytes undefined that the standard maps to C1 controls, and
three of them map a few characters otherwise; the tables here are the standard's. For multi-byte encodings
Python's nearest codec is used.
"""

import codecs
from functools import cache

CODECS = {
    "utf-8": "utf-8",
    "utf-16be": "utf-16-be",
    "utf-16le": "utf-16-le",
    "gbk": "gb18030",
    "gb18030": "gb18030",
    "big5": "big5hkscs",
    "euc-jp": "euc_jp",
    "iso-2022-jp": "iso2022_jp_ext",
    "shift_jis": "cp932",
    "euc-kr": "cp949",
}
"""Encodings that a codec of Python decodes -> its name. The single-byte ones are added below."""

_SINGLE_BYTE = {
    "ibm866": "cp866",
    **{f"iso-8859-{part}": f"iso8859_{part}" for part in (2, 3, 4, 5, 6, 7, 8, 10, 13, 14, 15, 16)},
    "iso-8859-8-i": "iso8859_8",
    "koi8-r": "koi8_r",
    "koi8-u": "koi8_u",
    "macintosh": "mac_roman",
    "windows-874": "cp874",
    **{f"windows-{page}": f"cp{page}" for page in range(1250, 1259)},
    "x-mac-cyrillic": "mac_cyrillic",
}
CODECS.update(_SINGLE_BYTE)

# Where the standard's index differs from Python's table.
_PATCHES = {"windows-1255": {0xCA: "\u05ba"}, "koi8-u": {0xAE: "\u045e", 0xBE: "\u040e"}}
_UNDEFINED = "\ufffe"
# The standard encodes into less than it decodes.
_QUERY_CODECS = {"gbk": "gbk", "iso-2022-jp": "iso2022_jp"}

# JIS X 0208 characters that Python's euc_jp maps as Unicode's old table did, the standard as Microsoft did.
_JIS_AS_MICROSOFT = str.maketrans("\u301c\u2016\u2212\xa2\xa3\xac", "\uff5e\u2225\uff0d\uffe0\uffe1\uffe2")


def decode_bytes(data: bytes, encoding: str) -> tuple[str, bool]:
    """(text, whether bytes were replaced by U+FFFD) of `data` without a byte order mark."""
    if encoding in _SINGLE_BYTE:
        # A table in a string is the fast form of a charmap; typeshed knows only the slow ones.
        text = codecs.charmap_decode(data, "replace", _table(encoding))[0]  # pyright: ignore[reportArgumentType]
        return text, "\ufffd" in text
    if encoding == "x-user-defined":
        return data.decode("latin-1").translate(_user_defined()), False
    if encoding == "replacement":
        # The standard refuses these encodings: attacks hide markup in their escapes.
        return "\ufffd" if data else "", bool(data)
    codec = CODECS[encoding]
    try:
        text, repaired = data.decode(codec), False
    except UnicodeDecodeError:
        text = data.decode(codec, "frontlog.jis" if encoding == "euc-jp" else "replace")
        repaired = "\ufffd" in text
    return (text.translate(_JIS_AS_MICROSOFT) if encoding == "euc-jp" else text), repaired


def encode_query(text: str, encoding: str) -> bytes:
    """Bytes of a URL query in the page's encoding; what it can't express becomes `%26%23N%3B`.

    URL Standard, "percent-encode after encoding" before its last step; the caller percent-encodes.
    """
    if encoding in _SINGLE_BYTE:
        return codecs.charmap_encode(text, "frontlog.query", _encoding_map(encoding))[0]
    codec = _QUERY_CODECS.get(encoding) or CODECS.get(encoding, "utf-8")
    return text.encode("utf-8" if codec.startswith("utf-") else codec, "frontlog.query")


@cache
def _table(encoding: str) -> str:
    """The 256 characters of a single-byte encoding; U+FFFE where it has none."""
    patches = _PATCHES.get(encoding, {})
    return "".join(patches.get(b) or _character(b, _SINGLE_BYTE[encoding]) for b in range(256))


def _character(byte: int, codec: str) -> str:
    try:
        return bytes([byte]).decode(codec)
    except UnicodeDecodeError:
        return chr(byte) if 0x80 <= byte < 0xA0 else _UNDEFINED


@cache
def _encoding_map(encoding: str) -> dict[int, int]:
    return {ord(c): byte for byte, c in enumerate(_table(encoding)) if c != _UNDEFINED}


@cache
def _user_defined() -> dict[int, int]:
    return {byte: 0xF700 + byte for byte in range(0x80, 0x100)}


def _jis_or_replacement(error: UnicodeError) -> tuple[str | bytes, int]:
    """Decode two bytes that Python's euc_jp lacks (NEC and IBM rows) by way of shift_jis."""
    assert isinstance(error, UnicodeDecodeError)
    lead, trail = error.object[error.start], error.object[error.start + 1 : error.start + 2]
    if 0xA1 <= lead <= 0xFE and trail and 0xA1 <= trail[0] <= 0xFE:
        row, column = lead - 0xA1, trail[0] - 0xA1
        first = row // 2 + (0x81 if row < 62 else 0xC1)
        second = column + 0x9F if row % 2 else column + (0x40 if column < 63 else 0x41)
        return bytes([first, second]).decode("cp932", "replace")[:1], error.start + 2
    return "\ufffd", error.start + 1


def _character_reference(error: UnicodeError) -> tuple[str | bytes, int]:
    """Write what an encoding lacks as a percent-encoded decimal character reference."""
    assert isinstance(error, UnicodeEncodeError)
    missing = error.object[error.start]
    if missing == "\u20ac" and error.encoding == "gbk":
        return b"\x80", error.start + 1
    return f"%26%23{ord(missing)}%3B", error.start + 1


codecs.register_error("frontlog.jis", _jis_or_replacement)
codecs.register_error("frontlog.query", _character_reference)
