"""Response heads: where one ends, what it says, what frames the body, and how the archive keeps it.

The web sends heads that a strict parser refuses. What a browser shows must be fetched too, so heads
are read here, leniently and by rule, and the body parser below us (aiohttp's) is given only the three
lines that frame the body. The rules, with their sections of RFC 9112 and RFC 9110:

- lines may end in LF alone (9112 §2.2); empty lines before the status line are skipped
- white space before the colon is dropped (9112 §5.1); folded values are joined with a space (9112 §5.2)
- a line without a colon, or with a name that is no token, is ignored, as browsers do
- CR and NUL inside a value become a space (9110 §5.5)
- equal Content-Lengths count once, unequal ones end the fetch (9112 §6.3 rule 5)
- Transfer-Encoding beats Content-Length, and the connection is closed after it (9112 §6.3 rule 3)
- a transfer coding that does not end in `chunked` is read to the close (9112 §6.3 rule 4)

Nothing is guessed about the status line: what does not begin with `HTTP/1.` and a three-digit status
is not HTTP for us (HTTP/0.9 and other protocols' greetings would otherwise be stored as pages).

The archive. WARC 1.1 §6.3.2 would have the chunk framing kept. Measured: warcio and FastWARC then both
report a payload digest over the payload as wrong, and FastWARC shows the framing as text unless told
otherwise. Removing the framing but keeping the header breaks more: FastWARC fails, and warcio loses
bytes of bodies that look like chunks. Removing the framing, with the header kept under another name as
Common Crawl and Wayback do, is read rightly by both readers with both digests, so that is the form
(`fetch/warc.py` applies it; `tests/fetch/test_heads.py` shows all three).
"""

import re
from functools import lru_cache

STATUS_LINE = re.compile(rb"HTTP/1\.([0-9])[ \t]+([1-9][0-9]{2})(?:[ \t](.*))?", re.DOTALL)
MEDIA_TYPE = re.compile(r"[!#$%&'*+.^_`|~0-9a-z-]+/[!#$%&'*+.^_`|~0-9a-z-]+")
TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
FRAMING_NAME = re.compile(rb"(?im)^(?=transfer-encoding[ \t]*:|content-length[ \t]*:)")
"""Where a head names a field that frames the body: the places where the archive puts its prefix."""
ARCHIVE_PREFIX = b"X-Archive-Orig-"
LENGTH_DIGITS_MAX = 18
LINES_KEPT_MAX, LINE_KEPT_CHARACTERS_MAX = 2_048, 192
"""Lines whose reading is remembered: most lines of most heads are always the same."""


class BadHead(Exception):
    """The head cannot be read as HTTP/1.x; the message says why."""


class Head:
    """A response head. `raw` is what was received, with its blank line; `headers` are as read from it.

    `version` is `HTTP/1.0` or `HTTP/1.1`. Header values are ISO-8859-1. `codings` are the transfer codings
    in the order in which they were applied, lower case, without `identity`. `media_type` is that of the
    last usable Content-Type, lower case; empty: none is usable.
    """

    __slots__ = ("by_name", "codings", "headers", "media_type", "phrase", "raw", "status", "version")

    def __init__(
        self, raw: bytes, version: str, status: int, phrase: str, headers: tuple[tuple[str, str], ...]
    ) -> None:
        """Index the headers by name."""
        self.raw = raw
        self.version = version
        self.status = status
        self.phrase = phrase
        self.headers = headers
        self.by_name: dict[str, list[str]] = {}
        for name, value in headers:
            lower = name.lower()
            if lower in self.by_name:
                self.by_name[lower].append(value)
            else:
                self.by_name[lower] = [value]
        self.codings = split_list(self.by_name.get("transfer-encoding"))
        self.media_type = media_type_of(self.by_name.get("content-type", []))

    def get(self, name: str) -> str | None:
        """The first value of a header, or None; `name` in lower case."""
        values = self.by_name.get(name)
        return values[0] if values else None

    def all(self, name: str) -> list[str]:
        """Every value of a header, in order; `name` in lower case."""
        return self.by_name.get(name, [])

    @property
    def chunked(self) -> bool:
        """Whether the body came in chunks."""
        return bool(self.codings) and self.codings[-1] == "chunked"

    @property
    def content_codings(self) -> str | None:
        """What decoding must undo: content codings, then transfer codings other than `chunked`."""
        coded = self.by_name.get("content-encoding")
        if self.codings:
            coded = [*(coded or ()), *(c for c in self.codings if c != "chunked")]
        return ", ".join(coded) if coded else None

    @property
    def location(self) -> str | None:
        """Location as ASCII, or None. Other bytes are percent-encoded as they stand, as browsers do."""
        value = self.get("location")
        if not value:
            return None
        return "".join(c if c < "\x7f" else f"%{ord(c):02X}" for c in value)


def split_list(values: list[str] | None) -> tuple[str, ...]:
    """The members of a comma-separated header, lower case, without `identity` and empty ones."""
    if not values:
        return ()
    parts = ",".join(values).lower().split(",")
    return tuple(part for p in parts if (part := p.strip()) and part != "identity")


def media_type_of(values: list[str]) -> str:
    """The media type of the last usable Content-Type, lower case, or the empty string."""
    for value in reversed(values):
        media_type = _media_type(value) if len(value) <= LINE_KEPT_CHARACTERS_MAX else _media_type_of(value)
        if media_type:
            return media_type
    return ""


def _media_type_of(value: str) -> str:
    media_type = value.partition(";")[0].strip().lower()
    return media_type if MEDIA_TYPE.fullmatch(media_type) else ""


_media_type = lru_cache(LINES_KEPT_MAX)(_media_type_of)


def head_end(data: bytes, start: int = 0) -> int:
    """Where the head ends (after its blank line), or -1; `start`: before it there is no end."""
    start = max(0, start - 3)
    crlf = data.find(b"\n\r\n", start)
    bare = data.find(b"\n\n", start, crlf + 1 if crlf >= 0 else len(data))
    return bare + 2 if bare >= 0 else crlf + 3 if crlf >= 0 else -1


def looks_like_http(data: bytes) -> bool:
    """Whether the first bytes, however few, can begin a head."""
    return data[:7] == b"HTTP/1."[: len(data)]


def read_head(raw: bytes) -> Head:
    """Read a whole head. Raises BadHead when its status line is not HTTP/1.x."""
    first, _, rest = raw.partition(b"\n")
    status = _status(first) if len(first) <= LINE_KEPT_CHARACTERS_MAX else _status_of(first)
    if status is None:
        raise BadHead(f"status line {first[:80]!r}")
    headers: list[tuple[str, str]] = []
    for text in rest.decode("latin-1").split("\n"):
        field = _field(text) if len(text) <= LINE_KEPT_CHARACTERS_MAX else _field_of(text)
        if field is not None:
            headers.append(field)
        elif text[:1] in (" ", "\t") and headers and text.strip():
            name, value = headers.pop()
            headers.append((name, f"{value} {clean(text)}".strip()))
    version, number, phrase = status
    return Head(raw, version, number, phrase, tuple(headers))


def _status_of(line: bytes) -> tuple[str, int, str] | None:
    """(version, status, phrase) of a status line; None: it is none."""
    found = STATUS_LINE.fullmatch(line.rstrip(b" \t\r"))
    if found is None:
        return None
    phrase = clean((found[3] or b"").decode("latin-1"))
    return "HTTP/1.0" if found[1] == b"0" else "HTTP/1.1", int(found[2]), phrase


def _field_of(line: str) -> tuple[str, str] | None:
    """(name, value) of a line; None: it is no field, as what begins with white space never is."""
    name, colon, value = line.partition(":")
    name = name.rstrip(" \t")
    return (name, clean(value)) if colon and TOKEN.fullmatch(name) else None


_status = lru_cache(LINES_KEPT_MAX)(_status_of)
_field = lru_cache(LINES_KEPT_MAX)(_field_of)


def clean(value: str) -> str:
    """A field value without its white space and line end, and without NUL and CR inside."""
    value = value.strip(" \t\r")
    return value.replace("\0", " ").replace("\r", " ") if "\0" in value or "\r" in value else value


def framing(head: Head) -> tuple[bytes, bool]:
    """(a head that says nothing but how the body is framed, may the connection be kept).

    Raises BadHead when the length of the body cannot be known.
    """
    length = body_length(head)
    if length is not None and head.status not in (204, 304):
        lines = f"Content-Length: {length}\r\n"
    else:
        lines = "Transfer-Encoding: chunked\r\n" if head.chunked and length is None else ""
    keep = keeps(head, length)
    connection = "keep-alive" if keep else "close"
    return f"{head.version} {head.status} -\r\n{lines}Connection: {connection}\r\n\r\n".encode(), keep


def keeps(head: Head, length: int | None) -> bool:
    """Whether the connection may be kept: nobody wants it closed, and the head says where the body ends; `length` is what
    `body_length` says."""
    said = head.by_name.get("connection")
    options = ",".join(said).lower() if said else ""
    if "close" in options if head.version == "HTTP/1.1" else "keep-alive" not in options:
        return False
    if length is not None:
        return True
    chunked = head.chunked and head.version == "HTTP/1.1" and head.get("content-length") is None
    return chunked


def body_length(head: Head) -> int | None:
    """How many bytes follow the head, where it says so; None: something else frames them. Raises BadHead."""
    if head.status in (204, 304):  # never a body, whatever the other lines say (RFC 9112 §6.3 rule 1)
        return 0
    return None if head.codings else content_length(head)


def content_length(head: Head) -> int | None:
    """The declared length, or None. Raises BadHead for an unequal or impossible one."""
    said = head.by_name.get("content-length")
    if not said:
        return None
    if len(said) == 1 and said[0].isascii() and said[0].isdigit() and len(said[0]) <= LENGTH_DIGITS_MAX:
        return int(said[0])
    values = {part.strip() for value in said for part in value.split(",")} - {""}
    if not values:
        return None
    value = values.pop()
    if values or not (value.isascii() and value.isdigit()) or len(value.lstrip("0")) > LENGTH_DIGITS_MAX:
        raise BadHead(f"Content-Length {', '.join([value, *values])[:80]!r}")
    return int(value)
