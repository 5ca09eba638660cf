"""The links of one source as discoveries: one or more events for each origin, numbered, within the bounds of an event."""

from collections.abc import Iterable

import msgspec
from msgspec.structs import replace

from frontlog.avro.codec import encode
from frontlog.avro.events import Discovery
from frontlog.processors.inputs import LINKS_MAX
from frontlog.processors.sites import partition_of, site_of

LINK_BYTES_MAX = 240 << 10
"""Bytes of the links' texts in one event, which stays below 256 KiB with all the rest (DESIGN §2)."""

UTF8_BYTES_MAX = 4
"""Of one character."""

Link = tuple[str, str, str, str, int]
"""href, raw spelling (empty: as the href), anchor, rel, lastmod (ms since the epoch; 0: nothing was said)."""


class Found(msgspec.Struct, frozen=True, array_like=True):
    """An encoded discovery and where it goes."""

    partition: int
    origin_key: str
    value: bytes


def size_of(link: Link) -> int:
    """The bytes that a link's texts take."""
    return sum(len(text) if text.isascii() else len(text.encode()) for text in link[:4])


def parted(base: Discovery, origin_key: str, links: Iterable[Link], partitions: int) -> list[Found]:
    """The discoveries of one origin. `base` has what all of them say; its event_id is that of the attempt."""
    host = origin_key.partition("://")[2].rpartition(":")[0]
    partition = partition_of(site_of(host), partitions)
    parts = _parts(list(links))
    return [
        Found(partition, origin_key, encode(_part(base, origin_key, part, number, len(parts))))
        for number, part in enumerate(parts)
    ]


def _parts(links: list[Link]) -> list[list[Link]]:
    """The links in as many parts as it takes."""
    if len(links) <= LINKS_MAX and sum(map(_characters, links)) * UTF8_BYTES_MAX <= LINK_BYTES_MAX:
        return [links]
    parts: list[list[Link]] = [[]]
    size = 0
    for link in links:
        cost = size_of(link)
        if parts[-1] and (len(parts[-1]) == LINKS_MAX or size + cost > LINK_BYTES_MAX):
            parts.append([])
            size = 0
        parts[-1].append(link)
        size += cost
    return parts


def _characters(link: Link) -> int:
    url, raw, anchor, rel, _ = link
    return len(url) + len(raw) + len(anchor) + len(rel)


def _part(base: Discovery, origin_key: str, links: list[Link], number: int, parts: int) -> Discovery:
    urls, raws, anchors, rels, lastmods = zip(*links, strict=True)
    return replace(
        base,
        event_id=f"{base.event_id}/{origin_key}/{number}",
        origin_key=origin_key,
        part=number,
        parts=parts,
        urls=urls,
        raws=raws,
        anchors=anchors,
        rels=rels,
        lastmods=lastmods if any(lastmods) else (),
    )
