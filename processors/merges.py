"""Merges: a URL for which another identity stands, under the rules in force at its origin (DESIGN §8).

A URL's row is kept under what the standards make of it (`canonical.py`), whatever rules an origin has. Where its rules
lead to another identity, the row is BLOCKED as `merged` and names that identity and the rules; the identity has a row of
its own, and only that one is fetched. So a rule that turns out wrong is taken back by judging the rows again: each
spelling that was merged is there, with where it was found, and comes apart.
"""

from frontlog.avro.enums import RuleName, SourceKind, Topic
from frontlog.avro.events import Discovery, Event, Merge
from frontlog.processors import canonical, tallies
from frontlog.processors.context import Context, Emission
from frontlog.processors.sites import partition_of, site_of
from frontlog.state.rows import UrlRow
from frontlog.state.tables import Tables


def raised(view: Tables, ctx: Context, limit: int, origin_key: str, merge: Merge | None) -> list[Event]:
    """The signals of a merge, which stand behind its decision."""
    return tallies.signals(view, ctx, limit, origin_key, merge.rules) if merge is not None else []


def target(ctx: Context, row: UrlRow, merge: Merge | None) -> list[Emission]:
    """Makes the identity known that stands for a URL from now on; a discovery like any other."""
    hint = merge is None or merge.rules == (RuleName.CANONICAL.value,)  # then it is known already
    found = None if merge is None or hint else canonical.canonicalize(merge.into)
    if not isinstance(found, canonical.Identity):
        return []
    # A page's link: what a seed added to the scope is there already, and a wish of the past is no wish for this.
    event = Discovery(
        event_id=f"merge-{ctx.partition}-{ctx.seq}", origin_key=found.origin_key, source_kind=SourceKind.PAGE,
        source_url=row.url, at_ms=ctx.now_ms, depth=row.depth, priority=row.priority, parts=1, urls=(found.requested,),
        raws=("",), anchors=("",), rels=("",),
    )  # fmt: skip
    partition = partition_of(site_of(found.host), ctx.partitions)
    return [Emission(partition, Topic.DISCOVERIES, found.origin_key, event)]
