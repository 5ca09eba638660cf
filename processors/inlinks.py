"""Links between sites: the budget of a site grows with the number of other sites that link to it (seed 002, §7.6; IRLbot).

A farm of hosts under one domain links to itself as much as it likes; links from other domains cost more to make. Links are
counted once for each pair of sites, and only while `scope.pages_per_site_max` sets a limit that they could raise. When
something of the site was refused for its budget, a new link starts a job that looks at what was refused.
"""

from hashlib import blake2b

from msgspec.structs import replace

from frontlog.avro.enums import ScopeKind, SourceKind
from frontlog.avro.events import Discovery, Event, SiteLinked
from frontlog.processors import jobs, policy
from frontlog.processors.context import Context
from frontlog.processors.settings import Settings
from frontlog.processors.sites import site_of, split_origin
from frontlog.state import keys
from frontlog.state.rows import SiteRow
from frontlog.state.tables import Tables

LINKED_MAX = 65_536
"""Sites that are counted for one; a budget of so many needs no more."""
_SITE_BYTES = 12


def key_of(site: str, source: str) -> bytes:
    """Key in `inlinks`."""
    return b"".join(blake2b(name.encode(), digest_size=_SITE_BYTES).digest() for name in (site, source))


def decide(
    view: Tables, ctx: Context, settings: Settings, event: Discovery, at: policy.Standing
) -> list[Event]:
    """What the links of a page add to what is known between its site and theirs."""
    if (
        not settings.scope.pages_per_site_max
        or event.source_kind is not SourceKind.PAGE
        or not event.source_url
    ):
        return []
    try:
        source = site_of(split_origin(event.source_url)[1])
    except ValueError:
        return []  # anyone may write discoveries; what names no page is no link
    site = site_of(keys.split_origin_key(event.origin_key)[1])
    if source == site or (at.site is not None and at.site.linked >= LINKED_MAX):
        return []
    if view.inlinks.get(key_of(site, source)) is not None:
        return []
    linked = SiteLinked(
        seq=ctx.next_seq(), owner_token=ctx.owner_token, site=site, source_site=source, cause_topic=ctx.cause.topic,
        cause_partition=ctx.cause.partition, cause_offset=ctx.cause.offset,
    )  # fmt: skip
    over = at.site is not None and at.site.over
    return [linked, *(jobs.start(view, ctx, ScopeKind.SITE, site) if over else [])]


def apply(tables: Tables, event: SiteLinked) -> None:
    """Fold a link between two sites."""
    site = event.site.encode()
    row = tables.sites.get(site) or SiteRow()
    tables.sites.put(site, replace(row, linked=row.linked + 1, over=False))
    tables.inlinks.put(key_of(event.site, event.source_site))
