"""What the scripted fetcher makes of a lease: the inputs that the real one writes, made of what a web says.

The order of an `Answered` is that of the real pipeline: the body is in the archive, then come candidate, discoveries and
the fetch-result.
"""

import hashlib
from collections.abc import Sequence
from typing import NamedTuple, cast

from msgspec.structs import replace

from frontlog.avro.codec import decode
from frontlog.avro.enums import FetchKind, Reason, SourceKind
from frontlog.avro.events import BodyRef, Candidate, Discovery, FetchResult, ParseFacts
from frontlog.fetch.answers import identity_of
from frontlog.fetch.archive import Archive
from frontlog.fetch.listing import listed
from frontlog.fetch.warc import build_exchange
from frontlog.processors import canonical
from frontlog.processors.leased import Lease
from support.web import TTL_MS, Page, Request, Robots, Web

TEXT = "text/plain"


class Answered(NamedTuple):
    """What came of one lease: inputs in the order in which they are written, the result last."""

    candidate: Candidate | None
    discoveries: list[Discovery]
    result: FetchResult


def answer(web: Web, lease: Lease, now_ms: int, archive: Archive | None) -> Answered:
    """What a web says to a lease at a time; `archive` None: bodies are not kept."""
    base = FetchResult(
        event_id=f"{lease.partition}-{lease.kind.value}-{lease.fence}-{lease.url}", kind=lease.kind,
        origin_key=lease.origin_key, host=lease.host, url=lease.url, requested=lease.requested, fence=lease.fence,
        asker=lease.asker, policy_version=lease.policy_version, started_ms=now_ms, ended_ms=now_ms,
        address=lease.address, reason=Reason.OK, chain=lease.chain,
    )  # fmt: skip
    if lease.kind is FetchKind.RESOLVE:
        return Answered(None, [], _looked_up(web, base, lease))
    said = web.answer(lease, now_ms)
    ended_ms = now_ms + said.ms
    web.requests.append(Request(lease.kind, lease.host, lease.address, lease.requested, now_ms, ended_ms))
    timed = replace(
        base,
        first_byte_ms=said.ms,
        total_ms=said.ms,
        ended_ms=ended_ms,
        status=said.status,
        location=said.location,
    )
    if isinstance(said, Robots):
        text = said.text if 200 <= said.status < 300 else b""
        body = _archived(archive, timed, said.status, TEXT, said.text)
        return Answered(
            None, [], replace(timed, robots_txt=text, cache_control=said.cache_control, body=body)
        )
    return _page(archive, replace(timed, retry_after=said.retry_after, etag=said.etag), said, lease)


def _looked_up(web: Web, base: FetchResult, lease: Lease) -> FetchResult:
    address = web.address_of(lease.host)
    if not address:
        return replace(base, reason=Reason.DNS_FAILED, detail="no such name")
    return replace(base, address=address, addresses=(address,), ttl_ms=TTL_MS)


def _page(archive: Archive | None, result: FetchResult, said: Page, lease: Lease) -> Answered:
    if said.reason is not Reason.OK:
        return Answered(None, [], replace(result, status=0, reason=said.reason))
    body = said.text.encode() if said.sitemap is None else said.sitemap
    result = replace(
        result,
        content_type=said.content_type,
        body=_archived(archive, result, said.status, said.content_type, body),
    )
    if said.location:
        chain = (*lease.chain, lease.requested)
        kind = SourceKind.SITEMAP_FILE if lease.sitemap else SourceKind.REDIRECT
        found = _links(result, (said.location,), lease.depth, kind, chain)
        return Answered(None, [replace(one, via=lease.via) for one in found], result)
    if said.status != 200:
        return Answered(None, [], result)
    if said.sitemap is not None:
        return _listed(result, said.sitemap, lease)
    text_hash = hashlib.sha256(" ".join(said.text.split()).encode()).digest()
    parse = ParseFacts(
        title=said.title,
        words=len(said.text.split()),
        links_out=len(said.links),
        quality="clean",
        text_sha256=text_hash,
    )
    body_hash = hashlib.sha256(body).digest()
    candidate = Candidate(
        event_id=result.event_id, origin_key=lease.origin_key, partition=lease.partition, url=lease.url,
        requested=lease.requested, fence=lease.fence, fetched_ms=result.started_ms, status=result.status,
        content_type=said.content_type, body=result.body, body_sha256=body_hash, text_sha256=text_hash,
        words=parse.words, title=said.title, links_out=parse.links_out,
    )  # fmt: skip
    counted = replace(
        result, wire_bytes=len(body), decoded_bytes=len(body), body_sha256=body_hash, parse=parse
    )
    return Answered(candidate, _links(result, said.links, lease.depth + 1, SourceKind.PAGE, ()), counted)


def _listed(result: FetchResult, body: bytes, lease: Lease) -> Answered:
    """A sitemap or feed, read by the parser of the crawl."""
    named = identity_of(lease.chain[0] if lease.chain else lease.url)
    base = Discovery(
        event_id=result.event_id, source_kind=SourceKind.SITEMAP, source_url=lease.url, at_ms=result.ended_ms,
        depth=lease.depth, via=(*lease.via, named),
    )  # fmt: skip
    facts, found = listed(base, body, lease.requested, "", named=lease.sitemap, partitions=1)
    if facts is None:
        return Answered(None, [], replace(result, reason=Reason.BAD_TYPE))
    events = [cast("Discovery", decode(one.value)) for one in found]
    counted = replace(
        result,
        wire_bytes=len(body),
        decoded_bytes=len(body),
        body_sha256=hashlib.sha256(body).digest(),
        sitemap=facts,
    )
    return Answered(None, events, counted)


def _archived(
    archive: Archive | None, result: FetchResult, status: int, kind: str, body: bytes
) -> BodyRef | None:
    if archive is None:
        return None
    host = result.requested.split("/")[2]
    capture = build_exchange(
        capture_id=f"driver {result.event_id} {result.started_ms}", target_uri=result.requested,
        started_ms=result.started_ms, ip_address=result.address,
        request_head=f"GET / HTTP/1.1\r\nHost: {host}\r\n\r\n".encode(),
        response_head=f"HTTP/1.1 {status} X\r\nContent-Type: {kind}\r\n\r\n".encode(), body=body,
    )  # fmt: skip
    return archive.append(capture)


def _links(
    result: FetchResult, links: Sequence[str], depth: int, kind: SourceKind, chain: tuple[str, ...]
) -> list[Discovery]:
    """The links of a page, one event for each origin."""
    groups: dict[str, list[tuple[str, str]]] = {}
    for link in links:
        found = canonical.canonicalize(link, base=result.requested)
        if isinstance(found, canonical.Identity):
            groups.setdefault(found.origin_key, []).append((found.requested, link))
    return [
        Discovery(
            event_id=f"links {result.event_id} {origin_key}", origin_key=origin_key, source_kind=kind,
            source_url=result.url, at_ms=result.ended_ms, depth=depth, priority=2, parts=1, chain=chain,
            urls=tuple(url for url, _ in group), raws=tuple("" if raw == url else raw for url, raw in group),
            anchors=tuple(f"to {n}" for n in range(len(group))), rels=("",) * len(group),
        )
        for origin_key, group in groups.items()
    ]  # fmt: skip
