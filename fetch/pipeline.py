"""One lease, from its gates to its result (DESIGN §9; seed 000, chapter 6).

    deadline → scheme → network → (scope, robots and slot: decided with the lease) → connect, TLS, limits
    → body durable in the archive → candidate → discoveries → fetch-result

No socket is opened before the gates passed. Each emission is durable before the next is offered, so that a crash
between any two loses nothing: the lease runs out or is released, and the page is fetched again. A lease whose end
is too near to fetch within it is handed back; one whose work takes longer is extended. A failure that nobody expected is
a result, too: it costs its own URL the attempt and stops no other.
"""

import asyncio
import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Literal, Protocol, cast

from msgspec.structs import replace

from frontlog.avro.codec import decode, encode
from frontlog.avro.enums import FetchKind, Reason, SourceKind
from frontlog.avro.errors import FrontlogError, Retriable
from frontlog.avro.events import BodyRef, Candidate, Discovery, Event, FetchResult, ParseFacts, SitemapFacts
from frontlog.fetch.addresses import Network, choose, judge
from frontlog.fetch.answers import (
    ROBOTS_BYTES_MAX,
    decoded_here,
    identity_of,
    listing_of,
    robots_limits,
    sitemap_limits,
    status_decides,
    with_headers,
)
from frontlog.fetch.archive_writer import ArchiveWriter
from frontlog.fetch.deadlines import Deadlines
from frontlog.fetch.decoding import ACCEPT_ENCODING, DecodeStatus
from frontlog.fetch.extension import Extension
from frontlog.fetch.http_types import FetchFailed, FetchRequest, FetchResponse, Limits, Timings
from frontlog.fetch.parse_job import NAMED, Job, Parsed
from frontlog.fetch.parser_pool import ParserFailed, ParserPool
from frontlog.fetch.resolver import ResolveError, Resolver
from frontlog.fetch.transport import Transport
from frontlog.fetch.warc import Capture, Earlier, build_exchange
from frontlog.processors.leased import Lease
from frontlog.processors.redirects import next_hop
from frontlog.processors.results import REDIRECTS
from frontlog.processors.robots_meta import directives_of
from frontlog.processors.sites import partition_of, site_of, split_origin
from frontlog.state.keys import split_origin_key

PARSED_TYPES = frozenset({"text/html", "application/xhtml+xml", "text/plain"})
VERDICTS_KEPT_MAX = 4_096
"""Addresses whose verdict is kept: it depends on nothing else."""
SITEMAPS_AT_ONCE = 8
"""Named sitemaps that are fetched or read at once: each may be 50 MB."""
EVENTS_AT_ONCE = 1
"""Discoveries of a sitemap that wait for the log at once: 500 links, so that between them others get their turn."""
ACCEPT_SITEMAP = "application/xml,text/xml,text/plain;q=0.9,*/*;q=0.5"
ACCEPT = "text/html,application/xhtml+xml,text/plain;q=0.9,*/*;q=0.1"


class Emitter(Protocol):
    """Where events go. Each call returns once the event is durable in its shard's log."""

    async def content(self, key: str, event: Candidate) -> None: ...

    async def discoveries(self, found: list[tuple[int, str, bytes]]) -> None:
        """(partition, origin_key, encoded event) of each."""
        ...

    async def result(self, partition: int, key: str, event: Event) -> None:
        """A result, or a wish for more time, to the partition that gave the lease."""
        ...


@dataclass(frozen=True, slots=True)
class Rules:
    """What every fetch of a process keeps to. `partitions` are those of the frontier; `crawl` names the crawl. `known`,
    `counts_sites`: see `Job`."""

    crawl: str
    user_agent: str
    limits: Limits
    allow: tuple[Network, ...]
    partitions: int
    known: Callable[[], tuple[str, ...]] = tuple
    counts_sites: bool = False


class Pipeline:
    """Carries out leases. Used from one event loop."""

    def __init__(
        self, rules: Rules, clock: Callable[[], int], transport: Transport, resolver: Resolver, archive: ArchiveWriter,
        parsers: ParserPool, emitter: Emitter,
    ) -> None:  # fmt: skip
        self.rules = rules
        self._clock = clock
        self._transport = transport
        self._resolver = resolver
        self._archive = archive
        self._parsers = parsers
        self._emitter = emitter
        self._extensions = Deadlines()
        self._page_limits = dataclasses.replace(rules.limits, coded=PARSED_TYPES)
        self._sitemaps = asyncio.Semaphore(SITEMAPS_AT_ONCE)
        self._judge = lru_cache(VERDICTS_KEPT_MAX)(partial(judge, allow=rules.allow))

    async def carry_out(self, lease: Lease) -> FetchResult:
        """Do what a lease allows and emit what came of it; the result is returned once it is durable."""
        began_ms = self._clock()
        if began_ms + self.rules.limits.total_ms > lease.deadline_ms:
            result = self._result(lease, Reason.RELEASED, "its deadline is too near", Timings())
        else:
            result = await self._attempt(lease, began_ms)
        await self._emitter.result(lease.partition, lease.origin_key, result)
        return result

    async def _attempt(self, lease: Lease, began_ms: int) -> FetchResult:
        """The attempt itself. What ends the whole crawl is raised, everything else is a result."""
        try:
            if lease.kind is FetchKind.RESOLVE:
                return await self._resolve(lease)
            with Extension(lease, began_ms, self._clock, self._emitter, self._extensions):
                return await self._fetch(lease, began_ms)
        except (FrontlogError, MemoryError):
            raise
        except (
            Exception
        ) as exc:  # a bug that one page brings out must not stop all others, now and at every start
            detail = f"unexpected: {type(exc).__name__}: {exc}"
            return self._result(
                lease, Reason.UNEXPECTED_STATUS, detail, Timings(elapsed_ms=self._clock() - began_ms + 1)
            )

    async def _resolve(self, lease: Lease) -> FetchResult:
        """Look a host's addresses up and judge every one."""
        started_ms = self._clock()
        found = await self._resolver.resolve(lease.host.strip("[]"), self.rules.limits.connect_ms)
        base = replace(
            self._result(lease, Reason.OK, "", Timings()), started_ms=started_ms, addresses=found.addresses
        )
        if found.error is ResolveError.REFUSED:
            return replace(base, reason=Reason.RELEASED, detail=found.detail)
        if found.error is not None:
            return replace(base, reason=Reason.DNS_FAILED, detail=f"{found.error.value}: {found.detail}")
        choice = choose(found.addresses, self.rules.allow)
        if not choice.allowed:
            detail = ", ".join(f"{v.address} ({v.reason.value})" for v in choice.verdicts if v.reason) or str(
                choice.reason
            )
            return replace(base, reason=Reason.BLOCKED_NETWORK, detail=detail[:512])
        return replace(base, address=choice.address, ttl_ms=found.ttl_ms)

    async def _fetch(self, lease: Lease, began_ms: int) -> FetchResult:
        """Gates, request, archive, emissions."""
        refused = self._gates(lease)
        if refused is not None:
            return refused
        if lease.sitemap:
            async with self._sitemaps:
                now_ms = self._clock()
                if now_ms + self.rules.limits.total_ms > lease.deadline_ms:
                    return self._result(lease, Reason.RELEASED, "other sitemaps took too long", Timings())
                return await self._request_and_read(lease, sitemap_limits(self.rules.limits), now_ms)
        robots = lease.kind is not FetchKind.PAGE
        return await self._request_and_read(
            lease, robots_limits(self.rules.limits) if robots else self._page_limits, began_ms
        )

    async def _request_and_read(self, lease: Lease, limits: Limits, now_ms: int) -> FetchResult:
        try:
            answer = await self._transport.fetch(self._request(lease, now_ms), limits)
        except FetchFailed as exc:
            return self._failed(lease, exc)
        except Retriable as exc:  # this machine is at its limits: the host was not asked
            return self._result(lease, Reason.RELEASED, str(exc), Timings())
        if lease.kind is FetchKind.PAGE:
            return await self._page(lease, answer)
        return await self._robots(lease, answer)

    def _gates(self, lease: Lease) -> FetchResult | None:
        """Gates 1 and 2; the others were passed when the lease was decided."""
        if not lease.requested.startswith(("http://", "https://")):
            return self._result(lease, Reason.BAD_SCHEME, lease.requested[:64], Timings())
        verdict = self._judge(lease.address)
        if not verdict.allowed:
            detail = f"{verdict.address} ({verdict.reason.value if verdict.reason else ''})"
            return self._result(lease, Reason.BLOCKED_NETWORK, detail, Timings())
        return None

    def _request(self, lease: Lease, now_ms: int) -> FetchRequest:
        scheme, host, port = split_origin_key(split_origin(lease.requested)[0])
        headers = [
            ("User-Agent", self.rules.user_agent),
            ("Accept", ACCEPT_SITEMAP if lease.sitemap else ACCEPT),
            ("Accept-Encoding", ACCEPT_ENCODING),
        ]
        if lease.etag:
            headers.append(("If-None-Match", lease.etag))
        if lease.last_modified:
            headers.append(("If-Modified-Since", lease.last_modified))
        return FetchRequest(
            url=lease.requested, scheme=cast("Literal['http', 'https']", scheme), host=host, port=port,
            address=lease.address,
            headers=tuple(headers), started_ms=now_ms,
        )  # fmt: skip

    def _result(self, lease: Lease, reason: Reason, detail: str, times: Timings) -> FetchResult:
        """A result without an answer."""
        ended_ms = self._clock()
        asked = times.elapsed_ms > 0
        return FetchResult(
            event_id=attempt_id(lease), kind=lease.kind, origin_key=lease.origin_key, host=lease.host, url=lease.url,
            requested=lease.requested, fence=lease.fence, asker=lease.asker, policy_version=lease.policy_version,
            started_ms=(times.sent_ms or ended_ms - times.elapsed_ms) if asked else ended_ms, connect_ms=times.connect_ms,
            first_byte_ms=times.first_byte_ms, total_ms=times.total_ms or times.elapsed_ms, ended_ms=ended_ms,
            address=lease.address if asked else "", reason=reason, detail=detail[:512], chain=lease.chain,
        )  # fmt: skip

    def _failed(self, lease: Lease, exc: FetchFailed) -> FetchResult:
        times = exc.timings if exc.timings.elapsed_ms else Timings(elapsed_ms=1)
        result = self._result(lease, exc.reason, exc.detail, times)
        return result if exc.response is None else with_headers(result, exc.response)

    def _store(self, lease: Lease, answer: FetchResponse, event_id: str) -> "asyncio.Future[BodyRef]":
        """Make the exchange durable."""
        capture_id = f"{self.rules.crawl}/{event_id}"
        known = bool(lease.earlier_ms and (lease.etag or lease.last_modified))
        earlier = Earlier(target_uri=lease.requested, date_ms=lease.earlier_ms) if known else None

        def build() -> Capture:
            return build_exchange(
                capture_id=capture_id, target_uri=lease.requested,
                started_ms=answer.timings.sent_ms,
                ip_address=lease.address, request_head=answer.request_head, response_head=answer.head.raw, body=answer.body,
                truncated=answer.truncated.value if answer.truncated else "", earlier=earlier,
            )  # fmt: skip

        return self._archive.store(build)

    async def _robots(self, lease: Lease, answer: FetchResponse) -> FetchResult:
        """A robots.txt: the text goes into the result, whole or cut at its limit."""
        body = await self._store(lease, answer, attempt_id(lease))
        result = with_headers(self._result(lease, Reason.OK, "", answer.timings), answer)
        cut = answer.reason is Reason.OVERSIZE
        if answer.reason is not Reason.OK and not cut and not status_decides(answer):
            return replace(result, reason=answer.reason, detail=answer.detail, body=body)
        return replace(
            result,
            body=body,
            robots_txt=answer.decoded.data[: ROBOTS_BYTES_MAX + 1],
            truncated="length" if cut else "",
        )

    async def _page(self, lease: Lease, answer: FetchResponse) -> FetchResult:
        """A page: archive, parse, candidate, discoveries, in an order that loses nothing."""
        result = with_headers(self._result(lease, answer.reason, answer.detail, answer.timings), answer)
        storing = self._store(lease, answer, result.event_id)
        failed: ParserFailed | None = None
        try:
            parsed = await self._parse(lease, answer, result)
        except ParserFailed as exc:
            parsed, failed = None, exc
        except BaseException:
            storing.cancel()
            raise
        body = await storing
        if answer.decoded.status is DecodeStatus.LATER:
            if parsed is None or parsed.decoded_bytes < 0:  # what it is worth is judged here, whoever failed
                answer, parsed = decoded_here(answer, self.rules.limits), None
                result = with_headers(replace(result, reason=answer.reason, detail=answer.detail), answer)
                failed = failed if answer.reason is Reason.OK else None
            else:
                result = replace(result, decoded_bytes=parsed.decoded_bytes)
        if failed is not None:
            return replace(result, body=body, reason=failed.reason, detail=failed.detail)
        if parsed is None or not parsed.facts:
            result = replace(result, body=body, reason=Reason.OK if status_decides(answer) else result.reason)
            if answer.status in REDIRECTS and result.reason is Reason.OK:
                return await self._redirect(lease, result)
            return result if parsed is None else await self._listed(result, parsed)
        facts = cast("ParseFacts", decode(parsed.facts))
        result = replace(result, body=body, parse=facts, body_sha256=parsed.body_sha256)
        await self._emitter.content(facts.text_sha256.hex(), candidate(lease, result, facts))
        await self._emitter.discoveries([(f.partition, f.origin_key, f.value) for f in parsed.discoveries])
        return result

    async def _listed(self, result: FetchResult, parsed: Parsed) -> FetchResult:
        """A sitemap or feed: its discoveries, a few at a time, then what it is. One that is too long counts as read; of one
        that was cut by anything else what was whole is given now, and it is fetched again."""
        if not parsed.sitemap:
            detail = f"{result.content_type}: neither sitemap nor feed"
            return replace(result, reason=Reason.BAD_TYPE, detail=detail[:512])
        found = [(f.partition, f.origin_key, f.value) for f in parsed.discoveries]
        for start in range(0, len(found), EVENTS_AT_ONCE):
            await self._emitter.discoveries(found[start : start + EVENTS_AT_ONCE])
        facts = cast("SitemapFacts", decode(parsed.sitemap))
        if result.reason is not Reason.OK:
            why = f"only {result.decoded_bytes:,} bytes came: {result.reason.value} {result.detail}".rstrip()
            facts = replace(facts, faults=facts.faults + 1, errors=(why, *facts.errors))
        whole = result.reason is not Reason.OVERSIZE
        return replace(
            result, sitemap=facts, body_sha256=parsed.body_sha256, reason=result.reason if whole else Reason.OK,
            truncated=result.truncated if whole else "length",
        )  # fmt: skip

    async def _parse(self, lease: Lease, answer: FetchResponse, result: FetchResult) -> Parsed | None:
        """The parse of a whole page of a kind that is parsed, or of what there is of a sitemap; None: there is nothing."""
        listing = listing_of(lease, answer)
        whole = answer.reason is Reason.OK and (listing or answer.media_type in PARSED_TYPES)
        if not 200 <= answer.status < 300 or not (whole or (listing == NAMED and answer.decoded.data)):
            return None
        named = lease.chain[0] if lease.chain else lease.url
        later = answer.decoded.status is DecodeStatus.LATER
        return await self._parsers.parse(
            Job(
                event_id=result.event_id, identity=lease.url, url=lease.requested,
                content_type=answer.head.get("content-type") or answer.media_type,
                token=lease.token, depth=lease.depth, at_ms=result.ended_ms, partitions=self.rules.partitions,
                body=answer.body if later else answer.decoded.data,
                coding=answer.decoded.chain[0] if later else "", decoded_bytes_max=self.rules.limits.decoded_bytes_max,
                nofollow=directives_of((), answer.head.all("x-robots-tag"), lease.token).nofollow,
                listing=listing, via=(*lease.via, identity_of(named)) if listing else (),
                known=self.rules.known(), counts_sites=self.rules.counts_sites,
            )
        )  # fmt: skip

    async def _redirect(self, lease: Lease, result: FetchResult) -> FetchResult:
        """A redirect: its target is a discovery that carries the chain."""
        hop = next_hop(lease.requested, result.location, lease.chain)
        if not hop.target:
            return replace(result, reason=hop.reason, detail=hop.detail, location="")
        origin_key, host = split_origin(hop.target)
        event = Discovery(
            event_id=f"{attempt_id(lease)}/redirect", origin_key=origin_key,
            source_kind=SourceKind.SITEMAP_FILE if lease.sitemap else SourceKind.REDIRECT, source_url=lease.url,
            via=lease.via,
            at_ms=result.ended_ms, depth=lease.depth, priority=1, part=0, parts=1, chain=(*lease.chain, lease.requested),
            urls=(hop.target,), raws=("" if result.location == hop.target else result.location,), anchors=("",), rels=("",),
        )  # fmt: skip
        await self._emitter.discoveries(
            [(partition_of(site_of(host), self.rules.partitions), origin_key, encode(event))]
        )
        return replace(result, location=hop.target)


def attempt_id(lease: Lease) -> str:
    """What an attempt is known by: partition, owner's token, host or URL, and fence, which are given out once."""
    subject = lease.url if lease.kind is FetchKind.PAGE else f"{lease.kind.value} {lease.host}"
    return f"{lease.partition}-{lease.owner_token}-{lease.fence} {subject}"


def candidate(lease: Lease, result: FetchResult, facts: ParseFacts) -> Candidate:
    """A parsed page as content wants it."""
    said = directives_of(facts.robots_meta, result.x_robots_tag, lease.token)
    return Candidate(
        event_id=result.event_id, origin_key=lease.origin_key, partition=lease.partition, url=lease.url,
        requested=lease.requested,
        fence=lease.fence, fetched_ms=result.started_ms, status=result.status,
        content_type=result.content_type.partition(";")[0].strip().lower(), body=result.body, body_sha256=result.body_sha256,
        text_sha256=facts.text_sha256, simhash=0, words=facts.words, title=facts.title, language=facts.language,
        canonical_url=facts.canonical_url, robots_meta=said.directives, links_out=facts.links_out,
        truncated=result.truncated, rendered=False, soft_404=False, unavailable_at_ms=said.unavailable_after_ms,
    )  # fmt: skip
