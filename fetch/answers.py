"""What an answer's head and kind say: limits of a fetch, how a body is read, which headers go into the result."""

from collections.abc import Mapping

from msgspec.structs import replace

from frontlog.avro.enums import Reason
from frontlog.avro.events import FetchResult
from frontlog.fetch.decoding import decode
from frontlog.fetch.ending import answer_reason
from frontlog.fetch.http_types import FetchResponse, Limits
from frontlog.fetch.parse_job import EVIDENT, NAMED
from frontlog.processors import canonical
from frontlog.processors.leased import Lease
from frontlog.processors.sitemap_text import DECODED_BYTES_MAX

ROBOTS_BYTES_MAX = 512_000
HEADER_CHARACTERS_MAX = 4_096
LOCATION_CHARACTERS_MAX = 8_192
BODY_FAULTS = frozenset({Reason.OVERSIZE, Reason.TRUNCATED, Reason.DECODE_FAILED, Reason.PROTOCOL_ERROR})
"""What may be wrong with a body alone: of an answer whose status says it all, a redirect or a 404, it changes nothing."""
LIST_TYPES = frozenset({
    "application/rss+xml", "application/atom+xml", "application/rdf+xml", "application/xml", "text/xml",
})  # fmt: skip
"""What may be a feed, or a sitemap that nobody named as one."""


def robots_limits(limits: Limits) -> Limits:
    """The limits of a robots.txt: any type, 500 KiB (RFC 9309 §2.5), and a little more to see that it was cut."""
    return Limits(
        connect_ms=limits.connect_ms, first_byte_ms=limits.first_byte_ms, total_ms=limits.total_ms,
        header_bytes_max=limits.header_bytes_max, body_bytes_max=ROBOTS_BYTES_MAX + 1,
        decoded_bytes_max=ROBOTS_BYTES_MAX + 1,
    )  # fmt: skip


def sitemap_limits(limits: Limits) -> Limits:
    """The limits of a named sitemap: any type, and 50 MB as sitemaps.org allows."""
    size = max(DECODED_BYTES_MAX, limits.body_bytes_max)
    return Limits(
        connect_ms=limits.connect_ms, first_byte_ms=limits.first_byte_ms, total_ms=limits.total_ms,
        header_bytes_max=limits.header_bytes_max, body_bytes_max=size,
        decoded_bytes_max=max(DECODED_BYTES_MAX, limits.decoded_bytes_max),
    )  # fmt: skip


def listing_of(lease: Lease, answer: FetchResponse) -> int:
    """How an answer is read: NAMED, EVIDENT, or 0 for a page."""
    return NAMED if lease.sitemap else EVIDENT if answer.media_type in LIST_TYPES else 0


def identity_of(url: str) -> str:
    """What a URL is known by under the conservative rules; the URL itself when it has no identity."""
    found = canonical.canonicalize(url)
    return url if isinstance(found, canonical.Refused) else found.identity


def status_decides(answer: FetchResponse) -> bool:
    """Whether the status alone says what came of a request, so that a fault of the body doesn't matter."""
    return not 200 <= answer.status < 300 and answer.reason in BODY_FAULTS


def decoded_here(answer: FetchResponse, limits: Limits) -> FetchResponse:
    """A whole answer that was left coded, decoded and judged as the transport does it."""
    decoded = decode(answer.body, answer.head.content_codings, limits.decoded_bytes_max)
    reason, detail = answer_reason(answer.truncated, decoded)
    return replace(answer, decoded=decoded, reason=reason, detail=detail)


def _header(values: Mapping[str, list[str]], name: str) -> str:
    found = values.get(name)
    return found[0][:HEADER_CHARACTERS_MAX] if found else ""


def _whole_header(
    values: Mapping[str, list[str]], name: str, characters_max: int = HEADER_CHARACTERS_MAX
) -> str:
    """The first value of a header that is worth nothing when it is cut."""
    found = values.get(name)
    return found[0] if found and len(found[0]) <= characters_max else ""


def location_of(values: Mapping[str, list[str]]) -> str:
    """The Location with bytes beyond ASCII escaped one by one: what the server wrote, byte for byte, is requested. As text
    they would be escaped a second time, in UTF-8 (browsers do as we do)."""
    value = _whole_header(values, "location", LOCATION_CHARACTERS_MAX)
    return value if value.isascii() else "".join(c if c.isascii() else f"%{ord(c):02X}" for c in value)


def with_headers(result: FetchResult, answer: FetchResponse) -> FetchResult:
    """The result with what the answer's head says."""
    headers = answer.head.by_name
    cache_control, robots = headers.get("cache-control"), headers.get("x-robots-tag")
    return replace(
        result,
        status=answer.status,
        content_type=_header(headers, "content-type") or answer.media_type,
        etag=_whole_header(headers, "etag"),
        last_modified=_whole_header(headers, "last-modified"),
        cache_control=", ".join(cache_control)[:HEADER_CHARACTERS_MAX] if cache_control else "",
        retry_after=_header(headers, "retry-after"),
        location=location_of(headers),
        x_robots_tag=tuple([v[:HEADER_CHARACTERS_MAX] for v in robots[:32]]) if robots else (),
        wire_bytes=len(answer.body),
        decoded_bytes=len(answer.decoded.data),
        truncated=answer.truncated.value if answer.truncated else "",
    )
