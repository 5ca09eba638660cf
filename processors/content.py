"""Content: exact duplicates by the SHA-256 of the normalized text (DESIGN §10; seed 000, chapter 8).

Content has partitions, seq and token of its own. A candidate becomes a `Document` decision: `new` text, `seen` at
another URL, `changed` (this URL had another text that was not seen before), or `same` (this URL, same text). The
verdict goes to the origin's partition as an input. A URL that duplicates another stays known with its own provenance;
nothing is dropped. A repeated candidate changes nothing, nor does one that is older than the URL's last.
"""

from msgspec.structs import replace

from frontlog.avro.enums import Topic, Verdict
from frontlog.avro.events import Candidate, ContentVerdict, Document
from frontlog.processors.context import Context, Decided, Emission
from frontlog.state import keys
from frontlog.state.rows import ContentRow, UrlContentRow
from frontlog.state.tables import Tables


def decide(view: Tables, page: Candidate, ctx: Context) -> Decided:
    """Decide one candidate."""
    key = keys.url_key(keys.origin_id(page.origin_key), page.url)
    before = view.url_content.get(key)
    if before is not None and (before.event_id == page.event_id or page.fetched_ms <= before.last_seen_ms):
        return (
            Decided()
        )  # a repeat, or older than what is known: it would take the URL back to a text of the past
    known = view.content.get(page.text_sha256)
    previous = before.content_hash if before else b""
    verdict, duplicate_of = _verdict(page, known, previous)
    document = Document(
        seq=ctx.next_seq(), owner_token=ctx.owner_token, verdict=verdict, event_id=page.event_id,
        content_hash=page.text_sha256,
        url=page.url, origin_key=page.origin_key, duplicate_of=duplicate_of, previous_hash=previous, simhash=page.simhash,
        fetched_ms=page.fetched_ms, body=page.body, cause_topic=ctx.cause.topic, cause_partition=ctx.cause.partition,
        cause_offset=ctx.cause.offset,
    )  # fmt: skip
    answer = ContentVerdict(
        event_id=page.event_id, verdict=verdict, duplicate_of=duplicate_of, candidate=page
    )
    return Decided(
        decisions=[document],
        emissions=[Emission(page.partition, Topic.CONTENT_VERDICTS, page.origin_key, answer)],
    )


def _verdict(page: Candidate, known: ContentRow | None, previous: bytes) -> tuple[Verdict, str]:
    if previous == page.text_sha256:
        return Verdict.SAME, known.url if known is not None and known.url != page.url else ""
    if known is not None:
        return Verdict.SEEN, known.url if known.url != page.url else ""
    return (Verdict.CHANGED if previous else Verdict.NEW), ""


def apply(tables: Tables, event: Document) -> None:
    """Fold one document."""
    row = tables.content.get(event.content_hash)
    if row is None:
        body = event.body
        row = ContentRow(
            url=event.url, origin_key=event.origin_key, first_seen_ms=event.fetched_ms, simhash=event.simhash,
            body_file=body.file if body else "", body_offset=body.offset if body else 0,
            body_length=body.length if body else 0,
        )  # fmt: skip
    added = event.verdict is not Verdict.SAME
    tables.content.put(event.content_hash, replace(row, last_seen_ms=event.fetched_ms, urls=row.urls + added))
    left = tables.content.get(event.previous_hash) if added and event.previous_hash else None
    if left is not None:
        tables.content.put(event.previous_hash, replace(left, urls=left.urls - 1))
    key = keys.url_key(keys.origin_id(event.origin_key), event.url)
    before = tables.url_content.get(key)
    first_seen = (
        before.first_seen_ms if before and before.content_hash == event.content_hash else event.fetched_ms
    )
    new = UrlContentRow(
        first_seen_ms=first_seen,
        last_seen_ms=event.fetched_ms,
        event_id=event.event_id,
        content_hash=event.content_hash,
    )
    tables.url_content.put(key, new)
