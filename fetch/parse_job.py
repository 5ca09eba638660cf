"""What a parser worker does with a page: links, text, facts, and the events that they make. Pure.

It runs in another process, so what goes in and out is plain data (msgpack). Discoveries come out encoded, one or
more for each origin that the page links to, so that the process that fetches only passes bytes on.
"""

import hashlib

import msgspec

from frontlog.avro.codec import encode
from frontlog.avro.enums import SourceKind
from frontlog.avro.events import Discovery, ParseFacts
from frontlog.processors import canonical
from frontlog.processors.discoveries import NOFOLLOW
from frontlog.processors.links import Links
from frontlog.processors.page import parse_page
from frontlog.processors.robots_meta import directives_of
from frontlog.processors.sites import partition_of, site_of

LINKS_MAX = 500
"""Links of one discovery event (DESIGN §2)."""
LINK_BYTES_MAX = 256 << 10
PAGE_PRIORITY = 2
TITLE_CHARACTERS_MAX = 1_000
URL_CHARACTERS_MAX = 8_192
CANONICAL_CHARACTERS_MAX = 2_048
DIRECTIVE_CHARACTERS_MAX = 100
REL_CHARACTERS_MAX = 200
"""What a page says of itself in attributes is as long as it likes; what is longer than this says nothing."""


class Job(msgspec.Struct, frozen=True, array_like=True):
    """A page to parse. `url` is where it was fetched, `identity` what it is known by, `depth` its own; `nofollow`: its
    X-Robots-Tag says so."""

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


class Found(msgspec.Struct, frozen=True, array_like=True):
    """An encoded discovery and where it goes."""

    partition: int
    origin_key: str
    value: bytes


class Parsed(msgspec.Struct, frozen=True, array_like=True):
    """What came of a page. `facts` is an encoded ParseFacts."""

    facts: bytes
    discoveries: list[Found]
    body_sha256: bytes
    skipped: dict[str, int]


def parse(job: Job) -> Parsed:
    """Parse a page and make its discoveries."""
    page = parse_page(job.body, job.url, job.content_type, token=job.token)
    nofollow = job.nofollow or directives_of(page.robots_meta, (), job.token).nofollow
    groups = _by_origin(job, page.links, nofollow)
    links = sum(len(group) for group in groups.values())
    facts = ParseFacts(
        title=page.title[:TITLE_CHARACTERS_MAX],
        language=page.language,
        encoding=page.encoding,
        encoding_source=page.encoding_source,
        words=page.words,
        links_out=links,
        quality=page.quality,
        text_ratio=page.text_ratio,
        canonical_url=page.canonical if len(page.canonical) <= CANONICAL_CHARACTERS_MAX else "",
        robots_meta=tuple(one for one in page.robots_meta if len(one) <= DIRECTIVE_CHARACTERS_MAX),
        text_sha256=page.text_sha256,
    )
    found = [event for origin, group in groups.items() for event in _events(job, origin, group)]
    return Parsed(encode(facts), found, hashlib.sha256(job.body).digest(), page.links.skipped)


Link = tuple[str, str, str, str]
"""href, raw spelling (empty: as the href), anchor, rel."""


def _by_origin(job: Job, links: Links, nofollow: bool) -> dict[str, dict[str, Link]]:
    """The page's links by origin, the first of each identity; links to the page itself are left out."""
    groups: dict[str, dict[str, Link]] = {}
    for url, raw, anchor, rel in zip(links.urls, links.raws, links.anchors, links.rels, strict=True):
        if len(url) > URL_CHARACTERS_MAX:
            continue
        found = canonical.identify(url)
        if isinstance(found, canonical.Refused) or found.identity == job.identity:
            continue
        group = groups.setdefault(found.origin_key, {})
        if found.identity not in group:
            said = _rel(rel)
            if nofollow and "nofollow" not in said.split():
                said = f"{said} nofollow".strip()
            group[found.identity] = (url, "" if raw == url else raw[:URL_CHARACTERS_MAX], anchor, said)
    return groups


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


def _size(link: Link) -> int:
    return sum(len(text) if text.isascii() else len(text.encode()) for text in link)


def _events(job: Job, origin_key: str, group: dict[str, Link]) -> list[Found]:
    """The discoveries of one origin, in parts within the bounds of an event."""
    parts: list[list[Link]] = [[]]
    size = 0
    for link in group.values():
        cost = _size(link)
        if parts[-1] and (len(parts[-1]) == LINKS_MAX or size + cost > LINK_BYTES_MAX):
            parts.append([])
            size = 0
        parts[-1].append(link)
        size += cost
    host = origin_key.partition("://")[2].rpartition(":")[0]
    partition = partition_of(site_of(host), job.partitions)
    return [
        Found(partition, origin_key, encode(_discovery(job, origin_key, part, number, len(parts))))
        for number, part in enumerate(parts)
    ]


def _discovery(job: Job, origin_key: str, part: list[Link], number: int, parts: int) -> Discovery:
    urls, raws, anchors, rels = (tuple(column) for column in zip(*part, strict=True))
    return Discovery(
        event_id=f"{job.event_id}/{origin_key}/{number}",
        origin_key=origin_key,
        source_kind=SourceKind.PAGE,
        source_url=job.identity,
        at_ms=job.at_ms,
        depth=job.depth + 1,
        priority=PAGE_PRIORITY,
        part=number,
        parts=parts,
        chain=(),
        urls=urls,
        raws=raws,
        anchors=anchors,
        rels=rels,
    )
