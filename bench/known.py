"""A frontier that knows many URLs already, made by the real shards out of discoveries.

    fill_folder(folder, 1_000_000, settings)     a crawl's folder whose partitions know so many URLs; their sites are paused,
                                                 so that a crawl in it carries them along and fetches none

The discoveries are what a page's links make: up to 500 of one host, with paths of some 60 characters and anchors.
"""

from collections.abc import Iterator
from pathlib import Path

from frontlog.avro.codec import encode
from frontlog.avro.enums import ScopeKind, SourceKind, Topic
from frontlog.avro.events import Control, Discovery
from frontlog.config import load
from frontlog.processors.sites import partition_of, site_of
from frontlog.streams.batching import Offered
from frontlog.streams.clock import SystemClock
from frontlog.streams.embedded import EmbeddedHost
from frontlog.streams.shard import Shard

LINKS = 500
SITES = 64
HOSTS_A_SITE = 16
AT_ONCE = 8
"""Discoveries in one batch."""


def site(number: int) -> str:
    """The name of a site; its hosts are `h0.` to `h15.` of it."""
    return f"known-{number}.test"


def discovery(number: int, urls: int = LINKS) -> Discovery:
    """The `number`th discovery: new URLs of one host, hosts in turn, none of them given before."""
    name = f"h{number // SITES % HOSTS_A_SITE}.{site(number % SITES)}"
    base = f"http://{name}/articles/2026/11/some-slug-of-a-page-that-is-known-{number}-"
    return Discovery(
        event_id=f"known {number}", origin_key=f"http://{name}:80", source_kind=SourceKind.PAGE, source_url=f"{base}x",
        at_ms=0, depth=1, priority=2, part=0, parts=1, chain=(), urls=tuple(f"{base}{n}.html" for n in range(urls)),
        raws=("",) * urls, anchors=("the text of an anchor",) * urls, rels=("",) * urls,
    )  # fmt: skip


def pause(number: int) -> Control:
    """The operator's act that keeps a crawl from a site's URLs."""
    return Control(
        event_id=f"pause {number}", cmd="pause", target_kind=ScopeKind.SITE, target=site(number), at_ms=1
    )


def offers(shard: Shard, known: int, partitions: int) -> Iterator[Offered]:
    """What makes a shard know its part of `known` URLs."""
    for number in range(-(-known // LINKS)):
        event = discovery(number)
        if partition_of(site_of(site(number % SITES)), partitions) == shard.partition:
            yield Offered(Topic.DISCOVERIES, event.origin_key.encode(), encode(event), event)


def fill_shard(shard: Shard, known: int, partitions: int = 1) -> None:
    """Let a shard that was opened know its part of `known` URLs, and pause their sites."""
    for number in range(SITES):
        if partition_of(site_of(site(number)), partitions) == shard.partition:
            act = pause(number)
            shard.offer(Offered(Topic.CONTROL, act.target.encode(), encode(act), act))
    for count, offered in enumerate(offers(shard, known, partitions), 1):
        shard.offer(offered)
        if count % AT_ONCE == 0:
            drain(shard)
    drain(shard)


def drain(shard: Shard) -> int:
    """Decide all that waits; how many decisions that were."""
    made = 0
    while True:
        done = shard.step(0)
        made += len(done.decisions)
        if not done.more:
            return made


def fill_folder(folder: Path, known: int, settings: dict[str, object]) -> None:
    """Make a crawl's folder. `settings` are those of the crawl that goes on in it: with others, it judges all anew."""
    host = EmbeddedHost(folder, load(None, {**settings, "log.durability": "none"}), SystemClock())
    host.open()
    try:
        for shard in host.frontier():
            fill_shard(shard, known, host.partitions)
    finally:
        for shard in host.shards:
            shard.close()
