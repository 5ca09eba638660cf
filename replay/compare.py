"""How two heads, or two sets of tables, differ: in words, the first difference of each table named."""

from collections.abc import Iterator, Mapping

from frontlog.state.head import Head

Digests = Mapping[str, tuple[bytes, int]]


def head_differences(found: Head, live: Head) -> Iterator[str]:
    """How a head that was folded from the log differs from the one that the tables have."""
    if found.seq < live.seq:
        yield f"the log ends at seq {found.seq}, the tables were folded up to {live.seq}: its end is missing"
        return
    if found.seq > live.seq:
        return  # what follows from later decisions can't be compared
    for name in ("owner_token", "at_ms", "partitions", "psl_version", "fold_version"):
        ours, theirs = getattr(found, name), getattr(live, name)
        if ours != theirs:
            yield f"{name} is {ours} when folded, {theirs} in the tables"
    if found.log_hash != live.log_hash:
        yield f"log_hash is {found.log_hash.hex()} when folded, {live.log_hash.hex()} in the tables"
    for name in ("positions", "next"):
        yield from _offset_differences(name, getattr(found, name), getattr(live, name))
    yield from digest_differences(found.digests, live.digests)


def _offset_differences(name: str, found: Mapping[str, int], live: Mapping[str, int]) -> Iterator[str]:
    for topic in sorted({*found, *live}):
        ours, theirs = found.get(topic, 0), live.get(topic, 0)
        if ours != theirs:
            yield f"{name} of {topic} is {ours} when folded, {theirs} in the tables"


def digest_differences(found: Digests, live: Digests) -> Iterator[str]:
    """How running digests differ, table by table; a table that is not listed is empty."""
    empty = (bytes(16), 0)
    for table in sorted({*found, *live}):
        ours, theirs = found.get(table, empty), live.get(table, empty)
        if ours != theirs:
            yield f"table {table} has {ours[1]} rows when folded and {theirs[1]} in the source, and another digest"
