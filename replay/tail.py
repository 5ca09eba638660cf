"""`frontlog tail`: the records of a topic, decoded, from any offset or the newest ones, and on as they come.

Partitions are merged by time. What can't be decoded is shown as `undecodable` with its bytes; nothing is left out.
"""

import difflib
import heapq
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from frontlog.avro.enums import Topic
from frontlog.avro.errors import ConfigError
from frontlog.avro.events import RECORDS, Discovery, Event
from frontlog.processors import canonical
from frontlog.replay.folder import OpenShard, open_shard, shards_of
from frontlog.replay.plain import UNDECODABLE, read
from frontlog.replay.shapes import Record
from frontlog.streams.records import Record as Stored
from frontlog.streams.topics import OUTBOX, Role, decision_topics, input_topics

POLL_S = 0.2
WINDOW_RECORDS = 1_000
"""Records that are read at once when looking back for the newest ones."""
_KINDS = (*(record.__name__ for record in RECORDS), UNDECODABLE)
_OF_BOTH = frozenset({Topic.REJECTS.value, Topic.OWNERSHIP.value, OUTBOX})
_OF_CONTENT = frozenset({*input_topics(Role.CONTENT), *decision_topics(Role.CONTENT)})


class Filter(NamedTuple):
    """Which records are wanted; empty: any."""

    origin: str = ""
    urls: frozenset[str] = frozenset()
    kind: str = ""

    @property
    def any(self) -> bool:
        return not (self.origin or self.urls or self.kind)

    def wants(self, kind: str, event: Event | None, key: str) -> bool:
        if self.kind and kind != self.kind:
            return False
        if self.origin and self.origin != key and (event is None or self.origin not in _origins(event)):
            return False
        return not self.urls or (event is not None and not self.urls.isdisjoint(_urls(event)))


def _parts(event: Event) -> Iterator[Event]:
    """An event and the records in it that name an origin or a URL of their own."""
    yield event
    for name in ("candidate", "errand"):
        inner = getattr(event, name, None)
        if isinstance(inner, Event):
            yield inner


def _origins(event: Event) -> set[str]:
    return {str(getattr(part, "origin_key", "")) for part in _parts(event)}


def _urls(event: Event) -> set[str]:
    found = {
        str(getattr(p, name, "")) for p in _parts(event) for name in ("url", "requested", "requested_url")
    }
    return found | set(event.urls) if isinstance(event, Discovery) else found


def tail(
    folder: Path,
    topic: str,
    *,
    partition: int | None = None,
    start: int | None = None,
    limit: int = 0,
    origin: str = "",
    url: str = "",
    kind: str = "",
    follow: bool = False,
) -> Iterator[Record]:
    """Records of a topic in the order of their times. `start`: from this offset of each partition on, None: the newest.
    `limit`: so many at most (0: all). `origin` is scheme://host[:port], `url` any spelling, `kind` a type's name. With
    `follow` it goes on as records come, until it is closed. Raises ConfigError."""
    wanted = Filter(_origin_key(origin), _spellings(url), _known(kind))
    refs = [ref for ref in shards_of(folder) if _holds(ref.role, topic)]
    with ExitStack() as stack:
        shards = [stack.enter_context(open_shard(ref)) for ref in refs]
        shards = [shard for shard in shards if partition is None or shard.partition == partition]
        if not shards:
            raise ConfigError(
                f"{topic} has no partition {partition} in {folder}; there are {len(refs)}, from 0"
            )
        yield from _Reader(shards, topic, wanted).run(start, limit, follow=follow)


def _origin_key(origin: str) -> str:
    """An origin as records name it. Raises ConfigError: one that nobody can have would match nothing, silently."""
    found = canonical.canonicalize(origin) if origin else None
    if isinstance(found, canonical.Refused):
        raise ConfigError(f"{origin!r} is no origin; give scheme://host[:port], such as https://example.org")
    return found.origin_key if found else ""


def _known(kind: str) -> str:
    """The name of a type that there is. Raises ConfigError."""
    if kind and kind not in _KINDS:
        near = difflib.get_close_matches(kind, _KINDS, 1, 0.5)
        raise ConfigError(
            f"there are no records of type {kind!r}"
            f"{f'; did you mean {near[0]}?' if near else ': docs/reference/events.md lists them'}"
        )
    return kind


def _spellings(url: str) -> frozenset[str]:
    """A URL as it was given, as it is requested and as it is known."""
    if not url:
        return frozenset()
    found = canonical.canonicalize(url)
    more = () if isinstance(found, canonical.Refused) else (found.identity, found.requested)
    return frozenset({url, *more})


def _holds(role: Role, topic: str) -> bool:
    """Whether shards of a role have a topic."""
    return topic in _OF_BOTH or (topic in _OF_CONTENT) == (role is Role.CONTENT)


class _Reader:
    """Reads one topic of several shards, each from where it stands on."""

    def __init__(self, shards: list[OpenShard], topic: str, wanted: Filter) -> None:
        self.shards = shards
        self.topic = topic
        self.wanted = wanted
        self.next = [0] * len(shards)

    def run(self, start: int | None, limit: int, *, follow: bool) -> Iterator[Record]:
        bounds = [shard.log.bounds(self.topic, shard.partition) for shard in self.shards]
        given = 0
        if start is None and limit:
            for record in self._newest(bounds, limit):
                given += 1
                yield record
            self.next = [end for _, end in bounds]
        else:
            # A partition that is shorter than the offset has nothing to show yet.
            self.next = [min(max(start or 0, first), end) for first, end in bounds]
        while True:
            for record in self._merged():
                yield record
                given += 1
                if limit and given >= limit:
                    return
            if not follow or (limit and given >= limit):
                return
            time.sleep(POLL_S)

    def _merged(self) -> Iterator[Record]:
        """What lies behind `next` by now."""
        streams = [self._stream(number) for number in range(len(self.shards))]
        yield from heapq.merge(*streams, key=_order)

    def _stream(self, number: int) -> Iterator[Record]:
        shard = self.shards[number]
        for stored in shard.log.scan(self.topic, shard.partition, self.next[number]):
            self.next[number] = stored.offset + 1
            found = self._shown(shard, stored)
            if found is not None:
                yield found

    def _newest(self, bounds: list[tuple[int, int]], limit: int) -> list[Record]:
        """The last `limit` records that are wanted."""
        found: list[Record] = []
        for shard, (first, end) in zip(self.shards, bounds, strict=True):
            found += self._newest_of(shard, first, end, limit)
        return sorted(found, key=_order)[-limit:]

    def _newest_of(self, shard: OpenShard, first: int, end: int, limit: int) -> list[Record]:
        found: list[Record] = []
        step = limit if self.wanted.any else WINDOW_RECORDS
        while end > first and len(found) < limit:
            start = max(first, end - step)
            window: list[Record] = []
            for stored in shard.log.scan(self.topic, shard.partition, start):
                if stored.offset >= end:
                    break
                shown = self._shown(shard, stored)
                if shown is not None:
                    window.append(shown)
            found, end, step = window + found, start, WINDOW_RECORDS
        return found[-limit:]

    def _shown(self, shard: OpenShard, stored: Stored) -> Record | None:
        kind, event, fields = read(self.topic, stored.value)
        key = stored.key.decode("utf-8", "replace")
        if not self.wanted.wants(kind, event, key):
            return None
        return Record(
            self.topic, shard.partition, stored.offset, key, kind, fields, stored.timestamp_ms, shard.name
        )


def _order(record: Record) -> tuple[int, int, int]:
    return record.at_ms, record.partition, record.offset
