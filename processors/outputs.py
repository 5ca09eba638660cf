"""The outputs for others: one `crawl.fetched` event for each stored response that content accepted (DESIGN §10), and
one `crawl.removed` event for each page that was given out and is not to be used any more.

Content's verdict comes back to the origin's partition, whose owner alone writes outputs; so a block or an opt-out
that was decided before it wins: nothing is given out for a URL that is SUPPRESSED, BLOCKED or GONE by then.
"""

from frontlog.avro.enums import Reason, State, Topic
from frontlog.avro.events import ContentVerdict, Fetched, Removed, WarcRef
from frontlog.processors import sitemap_files
from frontlog.processors.context import Context, Decided, Out
from frontlog.processors.rejects import reject
from frontlog.processors.times import rfc3339
from frontlog.state import keys
from frontlog.state.rows import UrlRow
from frontlog.state.tables import Tables

TAKEN_BACK = frozenset({
    Reason.GONE, Reason.ROBOTS_DENIED, Reason.OPERATOR_BLOCK, Reason.OUT_OF_SCOPE, Reason.SUPPRESSED,
})  # fmt: skip
"""Why a page is taken back; a gate that only keeps it from being fetched again is no reason."""
WITHHELD = frozenset({State.SUPPRESSED, State.BLOCKED, State.GONE})


def decide(view: Tables, event: ContentVerdict, ctx: Context) -> Decided:
    """Turn a verdict into an output, unless the URL may not be given out any more."""
    page = event.candidate
    row = view.urls.get(keys.url_key(keys.origin_id(page.origin_key), page.url))
    if row is None:
        return reject(ctx, page.origin_key, Reason.UNKNOWN_URL, f"{page.url} is not known here")
    if row.state in WITHHELD:
        return Decided()
    output = Fetched(
        event_id=event.event_id,
        url=page.url,
        requested_url=page.requested,
        canonical_url=page.canonical_url or page.url,
        fetched_at=rfc3339(page.fetched_ms),
        status=page.status,
        content_type=page.content_type,
        warc_ref=WarcRef(file=page.body.file, offset=page.body.offset, length=page.body.length)
        if page.body
        else None,
        content_sha256=page.text_sha256.hex(),
        simhash=f"{page.simhash & 0xFFFF_FFFF_FFFF_FFFF:016x}" if page.simhash else "",
        verdict=event.verdict,
        duplicate_of=event.duplicate_of or None,
        robots_meta=page.robots_meta,
        noindex=bool({"noindex", "none"} & set(page.robots_meta)) or 0 < page.unavailable_at_ms <= ctx.now_ms,
        links_out=page.links_out,
        title=page.title,
        language=page.language,
        rendered=page.rendered,
        soft_404=page.soft_404,
        truncated=bool(page.truncated),
        unavailable_after=rfc3339(page.unavailable_at_ms) if page.unavailable_at_ms else None,
    )
    return Decided(outputs=[Out(Topic.FETCHED, page.origin_key, output)])


def may_be_out(row: UrlRow, leases: int) -> bool:
    """Whether a page of the URL may have been given out. Content knows no fences: a page also comes of a lease that ran
    out or died with its process before its result, and of that no row tells. `leases`: that ended by now, at least."""
    return bool(row.last_success_ms) or leases > 0


def removed(
    view: Tables, ctx: Context, origin_key: str, row: UrlRow, reason: Reason, detail: str, version: int
) -> list[Out]:
    """The output that takes a page back, if the reason is one for that and the URL was ever a page; for the decision that
    `ctx` built last."""
    if reason not in TAKEN_BACK or sitemap_files.never_a_page(view, origin_key, row):
        return []
    event = Removed(
        event_id=f"{ctx.partition}-{ctx.seq}", url=row.url, removed_at=rfc3339(ctx.now_ms), reason=reason, detail=detail,
        status=row.last_status, policy_version=version,
    )  # fmt: skip
    return [Out(Topic.REMOVED, origin_key, event)]
