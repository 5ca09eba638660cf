"""What the transport is asked and what it answers: request, limits, timings, response, failure.

A fetch ends in one of two ways, and both are facts to be logged:

- `FetchResponse`: a whole head arrived. Its `reason` is `ok`, or says why the body is not whole or
  could not be decoded; what did arrive is kept, so that the archive shows it.
- `FetchFailed`: there is no answer to keep (`response` is None), or the answer is not wanted: `bad_type`,
  with the head in `response` and no body, unless only the body showed the type.
"""

from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Literal

import msgspec

from frontlog.avro.enums import Reason
from frontlog.fetch.decoding import Decoded
from frontlog.fetch.heads import Head

Headers = tuple[tuple[str, str], ...]
"""Pairs of name and value in order; values are ISO-8859-1, so `.encode("latin-1")` gives the bytes back."""


class Truncation(StrEnum):
    """Why a body is not whole, in the words of WARC-Truncated (WARC 1.1 §5.13)."""

    LENGTH = "length"
    TIME = "time"
    DISCONNECT = "disconnect"


@dataclass(frozen=True, slots=True)
class Limits:
    """What a fetch may take. `connect_ms` and `total_ms` count from the call, `first_byte_ms` from the send.

    `types`: wanted media types of 2xx answers (`text/html`), or prefixes of them that end in `/`
    (`image/`); empty wants all. `coded`: media types of whole 2xx answers whose body may be left in a coding of
    `decoding.LEFT`.
    """

    connect_ms: int = 10_000
    first_byte_ms: int = 20_000
    total_ms: int = 60_000
    header_bytes_max: int = 65_536
    body_bytes_max: int = 10 * 2**20
    decoded_bytes_max: int = 20 * 2**20
    types: tuple[str, ...] = ()
    coded: frozenset[str] = frozenset()

    def wants(self, media_type: str) -> bool:
        """Whether a media type (lower case, without parameters) is among the wanted ones."""
        return not self.types or _is_among(media_type, self.types)


class FetchRequest(msgspec.Struct, frozen=True):
    """One request. `url` is the WHATWG href to request, without userinfo; its fragment is not sent.

    `host` as in the URL (IPv6 in brackets); `address` is the judged IP address, without brackets, and
    the only one that a socket is opened to. `headers` follow `Host`, which comes from the URL.
    `started_ms` is the caller's clock at the call (ms since the epoch); timings are built on it.
    """

    url: str
    scheme: Literal["http", "https"]
    host: str
    port: int
    address: str
    headers: Headers = ()
    method: Literal["GET"] = "GET"
    started_ms: int = 0


class Timings(msgspec.Struct, frozen=True):
    """How long a fetch took, in ms, each rounded up. What was not reached is 0.

    `sent_ms`: when the request was sent, on the caller's clock. `connect_ms`: TCP and TLS; 0 on a kept
    connection. `first_byte_ms` and `total_ms`: from the send to the first and the last byte, or to the
    failure. `elapsed_ms`: the whole call.
    """

    sent_ms: int = 0
    connect_ms: int = 0
    first_byte_ms: int = 0
    total_ms: int = 0
    elapsed_ms: int = 0


class FetchResponse(msgspec.Struct, frozen=True):
    """One answer. `body` is as received but for the chunk framing, still content-coded.

    `truncated` is None for a whole body. `reason` is `ok`, `oversize`, `timeout`, `truncated`,
    `protocol_error` (bad chunk framing) or `decode_failed`; `detail` says more, for people. `decoded` has no data
    where `Limits.coded` left the body as it came.
    `media_type` is the declared one, or what the bytes look like when none is declared; empty: no body
    and no declaration. `request_head` and `head.raw` are the very bytes sent and received.
    """

    head: Head
    request_head: bytes
    body: bytes
    truncated: Truncation | None
    decoded: Decoded
    reason: Reason
    detail: str
    media_type: str
    timings: Timings
    peer_address: str
    reused: bool

    @property
    def status(self) -> int:
        """The status code: 200 to 999, since interim ones are passed over."""
        return self.head.status


class FetchFailed(Exception):
    """A fetch without a usable answer. `response` is there for `bad_type` only; its body is what was read."""

    def __init__(
        self, reason: Reason, detail: str, timings: Timings, response: FetchResponse | None = None
    ) -> None:
        """Keep what the result event needs."""
        super().__init__(reason, detail)
        self.reason = reason
        self.detail = detail
        self.timings = timings
        self.response = response

    def __str__(self) -> str:
        """Read as `reason: detail`."""
        return f"{self.reason}: {self.detail}"


@lru_cache(maxsize=256)
def _is_among(media_type: str, types: tuple[str, ...]) -> bool:
    return any(media_type.startswith(t) if t.endswith("/") else media_type == t for t in types)


@lru_cache(maxsize=256)
def header_lines(headers: Headers) -> bytes:
    """Header lines as sent. Raises ValueError for what would break out of a line, and for Host."""
    lines: list[str] = []
    for name, value in headers:
        if name.lower() == "host":
            raise ValueError("Host comes from the URL")
        if not name or any(c in "\r\n\0: " for c in name) or any(c in "\r\n\0" for c in value):
            raise ValueError(f"not a header line: {name!r}: {value!r}")
        lines.append(f"{name}: {value}\r\n")
    return "".join(lines).encode("latin-1")
