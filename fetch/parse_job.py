"""What a parser worker does with a page: links, text, facts, and the events that they make. Pure.

It runs in another process, so what goes in and out is plain data (msgpack). Discoveries come out encoded, one or
more for each origin that the page links to, so that the process that fetches only passes bytes on.
"""

import hashlib
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from frontlog.avro.codec import encode
from frontlog.avro.enums import SourceKind
from frontlog.avro.events import Discovery, ParseFacts
from frontlog.fetch.decoding import WHOLE, decode
from frontlog.fetch.known_links import KNOWN_LINK_BYTES, KnownLinks, short_of
from frontlog.fetch.listing import listed
from frontlog.fetch.parts import Found, Link, parted
from frontlog.processors import canonical
from frontlog.processors.discoveries import NOFOLLOW
from frontlog.processors.links import Links
from frontlog.processors.page import parse_page
from frontlog.processors.robots_meta import directives_of
from frontlog.processors.sites import partition_of, site_of, split_origin
from frontlog.state.keys import origin_id, split_origin_key, url_key

PAGE_PRIORITY = 2
NAMED, EVIDENT = 1, 2
TITLE_CHARACTERS_MAX = 1_000
URL_CHARACTERS_MAX = 8_192
CANONICAL_CHARACTERS_MAX = 2_048
DIRECTIVE_CHARACTERS_MAX = 100
REL_CHARACTERS_MAX = 200
"""What a page says of itself in attributes is as long as it likes; what is longer than this says nothing."""


class Job(msgspec.Struct, frozen=True, array_like=True):
    """A page to parse. `url` is where it was fetched, `identity` what it is known by, `depth` its own; `nofollow`: its
    X-Robots-Tag says so. `listing`: whether it is a sitemap or feed, NAMED as one or EVIDENT by its type; `via`: of such
    a one, the sitemaps that led to it, itself last. `known`: by partition, the folder of its store where links that are
    no news can be looked up, empty where it can't be; none at all: every link is news. `counts_sites`: whether links
    between sites are counted. `coding`: the body is in this content coding, and may have so many bytes without it."""

    event_id: str
    identity: str
    url: str
    content_type: str
    token: str
    depth: int
    at_ms: int
    partitions: int
    body: bytes
    nofollow: bool = False
    listing: int = 0
    via: tuple[str, ...] = ()
    known: tuple[str, ...] = ()
    counts_sites: bool = False
    coding: str = ""
    decoded_bytes_max: int = 0


class Parsed(msgspec.Struct, frozen=True, array_like=True):
    """What came of a page. `facts` is an encoded ParseFacts, `sitemap` an encoded SitemapFacts; of a page and of a listing
    one each is empty, of what was none at all both. `decoded_bytes`: of a page in a coding; -1: that can't be undone."""

    facts: bytes
    discoveries: list[Found]
    body_sha256: bytes
    skipped: dict[str, int]
    sitemap: bytes = b""
    decoded_bytes: int = -1


def parse(job: Job, known: KnownLinks | None = None) -> Parsed:
    """Parse a page, sitemap or feed and make its discoveries, without the links that `known` says are no news."""
    if job.coding:
        return _decoded(job, known)
    if job.listing:
        return _listed(job)
    groups: dict[str, _Group] = {}
    links_known = bytearray()

    def wanted(urls: list[str]) -> list[int]:
        groups.update(_by_origin(job.identity, urls))
        if known is not None and job.known:
            _leave_out(job, known, groups, links_known)
        return [at for group in groups.values() for at in group.places]

    page = parse_page(job.body, job.url, job.content_type, token=job.token, wanted=wanted)
    nofollow = job.nofollow or directives_of(page.robots_meta, (), job.token).nofollow
    facts = ParseFacts(
        title=page.title[:TITLE_CHARACTERS_MAX],
        language=page.language,
        encoding=page.encoding,
        encoding_source=page.encoding_source,
        words=page.words,
        links_out=sum(len(group.places) for group in groups.values()) + len(links_known) // KNOWN_LINK_BYTES,
        quality=page.quality,
        text_ratio=page.text_ratio,
        canonical_url=page.canonical if len(page.canonical) <= CANONICAL_CHARACTERS_MAX else "",
        robots_meta=tuple(one for one in page.robots_meta if len(one) <= DIRECTIVE_CHARACTERS_MAX),
        text_sha256=page.text_sha256,
        links_known=bytes(links_known),
    )
    base = Discovery(
        event_id=job.event_id, source_kind=SourceKind.PAGE, source_url=job.identity, at_ms=job.at_ms, depth=job.depth + 1,
        priority=PAGE_PRIORITY,
    )  # fmt: skip
    found = [
        event
        for origin, group in groups.items()
        if group.places
        for event in parted(base, origin, _links(page.links, group.places, nofollow), job.partitions)
    ]
    return Parsed(encode(facts), found, hashlib.sha256(job.body).digest(), page.links.skipped)


def _decoded(job: Job, known: KnownLinks | None) -> Parsed:
    """The parse of a page that came in a content coding; an empty one when that can't be undone."""
    decoded = decode(job.body, job.coding, job.decoded_bytes_max)
    if decoded.status not in WHOLE:
        return Parsed(b"", [], b"", {})
    parsed = parse(replace(job, body=decoded.data, coding=""), known)
    return replace(parsed, decoded_bytes=len(decoded.data))


def _listed(job: Job) -> Parsed:
    base = Discovery(
        event_id=job.event_id, source_kind=SourceKind.SITEMAP, source_url=job.identity, at_ms=job.at_ms, depth=job.depth,
        priority=PAGE_PRIORITY, via=job.via,
    )  # fmt: skip
    named = job.listing == NAMED
    facts, found = listed(base, job.body, job.url, job.content_type, named=named, partitions=job.partitions)
    said = encode(facts) if facts is not None else b""
    return Parsed(b"", found, hashlib.sha256(job.body).digest(), {}, said)


class _Group(NamedTuple):
    """The links of a page to one origin: their places among its links, and their identities."""

    places: list[int]
    identities: list[str]


def _by_origin(identity: str, urls: list[str]) -> dict[str, _Group]:
    """The page's links by origin, the first of each identity; links to the page itself are left out."""
    groups: dict[str, _Group] = {}
    spellings: set[str] = set()
    known = {identity}
    for at, url in enumerate(urls):
        if url in spellings:
            continue
        spellings.add(url)
        found = canonical.known_as(url) if len(url) <= URL_CHARACTERS_MAX else None
        if found is None or found[0] in known:
            continue
        known.add(found[0])
        group = groups.get(found[1])
        if group is None:
            group = groups[found[1]] = _Group([], [])
        group.places.append(at)
        group.identities.append(found[0])
    return groups


def _leave_out(job: Job, known: KnownLinks, groups: dict[str, _Group], left_out: bytearray) -> None:
    """Take the links that are no news out of the groups, and put down what stands for each."""
    source_site = site_of(split_origin(job.identity)[1]) if job.counts_sites else ""
    for origin_key, group in groups.items():
        partition = partition_of(site_of(split_origin_key(origin_key)[1]), job.partitions)
        folder = job.known[partition] if partition < len(job.known) else ""
        if not folder:
            continue
        origin = origin_id(origin_key)
        url_keys = [url_key(origin, identity) for identity in group.identities]
        settled = known.settled(folder, origin_key, url_keys, job.depth + 1, source_site)
        if settled:
            left_out += b"".join([short_of(key) for key in url_keys if key in settled])
            group.places[:] = [
                at for at, key in zip(group.places, url_keys, strict=True) if key not in settled
            ]


def _links(links: Links, group: list[int], nofollow: bool) -> list[Link]:
    """The links at some places, with all that is said of them."""
    found: list[Link] = []
    for at in group:
        url, raw, rel = links.urls[at], links.raws[at], links.rels[at]
        if rel or nofollow:
            rel = _rel(rel)
            if nofollow and "nofollow" not in rel.split():
                rel = f"{rel} nofollow".strip()
        found.append((url, "" if raw == url else raw[:URL_CHARACTERS_MAX], links.anchors[at], rel, 0))
    return found


def _rel(rel: str) -> str:
    """The tokens of `rel`; of very many those that a policy looks at, and others as long as there is room."""
    if len(rel) <= REL_CHARACTERS_MAX:
        return rel
    kept: list[str] = []
    room = REL_CHARACTERS_MAX
    for token in sorted(set(rel.split()), key=lambda one: (one not in NOFOLLOW, one)):
        room -= len(token) + 1
        if room < 0:
            break
        kept.append(token)
    return " ".join(kept)
