"""`frontlog traps`: what rules of traps and budgets refused, from the tables: counted by rule and origin, and URL by URL."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from frontlog.avro.enums import Reason, State
from frontlog.processors import traps
from frontlog.replay.folder import open_shard, shards_of
from frontlog.replay.shapes import Dropped, Tally
from frontlog.state import keys
from frontlog.state.rows import REASON_INDEX, STATE_INDEX, UrlRow
from frontlog.streams.topics import Role

REASONS = (*traps.REASONS, Reason.HOST_BUDGET, Reason.SITE_BUDGET)
NAMES = tuple(reason.value for reason in REASONS)
_BEGINS = {bytes((STATE_INDEX[State.BLOCKED], REASON_INDEX[reason])): reason for reason in REASONS}


def dropped(folder: Path, rule: str = "", origin_key: str = "") -> Iterator[Dropped]:
    """Each URL that is refused now as a trap or for a budget. Raises ConfigError."""
    prefix = keys.origin_id(origin_key) if origin_key else b""
    stop = keys.after(prefix) if prefix else None
    for ref in shards_of(folder):
        if ref.role is not Role.FRONTIER:
            continue
        with open_shard(ref) as shard, shard.store.begin() as txn:
            for key, data in txn.scan("urls", prefix, stop):
                reason = _BEGINS.get(bytes(data[:2]))
                if reason is None or (rule and rule != reason.value):
                    continue
                row = UrlRow.decode(data)
                origin = keys.origin_key_of(key[keys.HOST_ID_BYTES : keys.ORIGIN_ID_BYTES], _host(row.url))
                yield Dropped(row.url, reason, origin, row.source_url)


def counted(folder: Path, rule: str = "", origin_key: str = "") -> tuple[Tally, ...]:
    """How many URLs each rule refuses now at each origin, most first. Raises ConfigError."""
    counts = Counter((one.origin_key, one.reason.value) for one in dropped(folder, rule, origin_key))
    return tuple(Tally(origin, name, number) for (origin, name), number in counts.most_common())


def _host(url: str) -> str:
    authority = url.partition("://")[2].partition("/")[0]
    return authority if authority.endswith("]") or ":" not in authority else authority.rpartition(":")[0]
