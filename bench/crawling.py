"""A crawl of the synthetic web by the real command line, in a process of its own, and what it left on the disk."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

from frontlog.avro.enums import Topic
from frontlog.config import parse_value
from frontlog.replay.folder import open_shard, shards_of
from frontlog.state.catalogue import LOG

UNLIMITED = ("politeness.gap_ms_min=0", "politeness.gap_factor=0")
"""Politeness set so that it doesn't limit; one request at a time to a host stays."""
FRONTLOG = (sys.executable, "-m", "frontlog")


def crawl_arguments(folder: Path, seeds: Path, pages: int, settings: Sequence[str]) -> list[str]:
    """The arguments of `frontlog crawl`; 0 pages: all that can be reached."""
    found = ["crawl", "--out", str(folder), "--seeds", str(seeds), "--scope", "any", "--json"]
    found += ["--allow-addresses", "127.0.0.0/8", "--contact", "bench@example.org"]
    found += ["--max-pages", str(pages)] if pages else []
    return found + [word for one in settings for word in ("--set", one)]


def deciding(settings: Sequence[str]) -> dict[str, object]:
    """What those arguments set, by name: for a folder that is made before the crawl."""
    named = dict(one.split("=", 1) for one in settings)
    return {"scope.mode": "any", **{name: parse_value(value) for name, value in named.items()}}


class Said(NamedTuple):
    """The lines that a crawl printed: JSON events, and everything else as text."""

    events: list[dict[str, Any]]
    other: str

    @property
    def summary(self) -> dict[str, Any] | None:
        """The summary, if the run came to its end."""
        return next((e for e in self.events if e.get("event") == "summary"), None)


def said(out: Path) -> Said:
    """What a crawl printed. A last line may be torn when it was killed."""
    events: list[dict[str, Any]] = []
    other: list[str] = []
    for line in out.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            event = json.loads(line)
        except ValueError:
            other.append(line)
            continue
        if isinstance(event, dict):
            events.append(cast("dict[str, Any]", event))
    return Said(events, "\n".join(other))


class Stored(NamedTuple):
    """Bytes on the disk after a crawl, and how many records each topic of its log holds. `log_bytes`: the files of the
    stores, free pages included; `log_table_bytes`: the pages of the log alone, `tables_bytes` those of the rest."""

    log_bytes: int
    log_table_bytes: int
    tables_bytes: int
    records: dict[str, int]
    urls: int


NOTHING = Stored(0, 0, 0, {}, 0)


def stored(folder: Path) -> Stored:
    """Look into a crawl's folder."""
    file_bytes = log_bytes = used_bytes = urls = 0
    records: dict[str, int] = {}
    for ref in shards_of(folder):
        with open_shard(ref) as shard:
            file_bytes += shard.store.size_bytes()
            used_bytes += shard.store.used_bytes()
            with shard.store.begin() as txn:
                log_bytes += txn.pages_bytes(LOG.name)
                urls += txn.count("urls")
            for topic in Topic:
                first, end = shard.log.bounds(topic, shard.partition)
                records[topic.value] = records.get(topic.value, 0) + end - first
    return Stored(
        file_bytes, log_bytes, used_bytes - log_bytes, {t: n for t, n in records.items() if n}, urls
    )
