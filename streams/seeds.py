"""Seeds on their way into the log: kept in the crawl's folder until it has them, so that no kill loses any.

    DIR/seeds.waiting    JSON: a list of URLs as they were given

They are kept before the log is made; the run forgets them once they are durable there.
"""

import contextlib
from collections.abc import Sequence
from pathlib import Path

import msgspec

from frontlog.avro.codec import encode
from frontlog.avro.enums import SourceKind
from frontlog.avro.errors import ConfigError
from frontlog.processors import canonical
from frontlog.processors.control import seed_discovery
from frontlog.processors.sites import partition_of, site_of
from frontlog.streams.small_files import write_whole

FILE = "seeds.waiting"


def keep(folder: Path, seeds: Sequence[str]) -> list[str]:
    """Keep seeds beside those that wait already; all that wait, each once. Raises OSError; ConfigError for what is no
    URL to begin with."""
    for seed in seeds:
        found = canonical.canonicalize(seed)
        if isinstance(found, canonical.Refused):
            raise ConfigError(f"seed {seed!r}: {found.reason.value}; give an absolute http or https URL")
    before = waiting(folder)
    every = list(dict.fromkeys([*before, *seeds]))
    if every != before:
        write_whole(folder / FILE, msgspec.json.encode(every).decode())
    return every


def waiting(folder: Path) -> list[str]:
    """The seeds that an earlier run may not have brought into the log. Raises ConfigError."""
    try:
        return msgspec.json.decode((folder / FILE).read_bytes(), type=list[str])
    except FileNotFoundError:
        return []
    except msgspec.MsgspecError as exc:
        raise ConfigError(f"{folder / FILE}: damaged ({exc}); remove it and give the seeds again") from exc


def inputs(seeds: Sequence[str], at_ms: int, partitions: int) -> list[tuple[int, str, bytes]]:
    """(partition, origin_key, encoded discovery) of each seed that `keep` accepted."""
    found: list[tuple[int, str, bytes]] = []
    for seed in seeds:
        known = canonical.canonicalize(seed)
        assert isinstance(known, canonical.Identity), seed
        event = seed_discovery(f"{at_ms} {known.identity}", seed, known, SourceKind.SEED, at_ms)
        found.append((partition_of(site_of(known.host), partitions), known.origin_key, encode(event)))
    return found


def forget(folder: Path) -> None:
    """The log has them."""
    with contextlib.suppress(FileNotFoundError):
        (folder / FILE).unlink()
