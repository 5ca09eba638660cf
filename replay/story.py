"""Events told in words: what a cause was, what a policy version is, what became of a URL."""

from frontlog.avro.enums import FetchKind, PolicyAct, Reason, RobotsState, SourceKind, State
from frontlog.avro.events import (
    BodyRef,
    Control,
    Discovery,
    Document,
    Event,
    Fetched,
    FetchResult,
    OperatorPolicy,
    Reject,
    Removed,
    RobotsPolicy,
    SitemapFacts,
    Transition,
)
from frontlog.processors import robots_txt
from frontlog.processors.times import rfc3339
from frontlog.state.rows import SitemapRow

_INTERNAL = {
    "start": "the start of a new owner",
    "timer": "the sweeper of the partition",
    "claim": "its host's turn",
}
_ROBOTS = {
    RobotsState.UNKNOWN: "is still on its way",
    RobotsState.RULES: "has rules",
    RobotsState.ALLOW_ALL: "allows all, as there is none",
    RobotsState.UNREACHABLE: "is unreachable",
}


def place(body: BodyRef | None) -> str:
    """Where a response lies."""
    return "" if body is None else f"archive/{body.file}, byte {body.offset}, {body.length} bytes"


def cause_words(topic: str, event: Event | None, url: str) -> str:
    """What a cause was: an input, or something of the crawler itself."""
    if topic in _INTERNAL:
        return _INTERNAL[topic]
    if isinstance(event, Discovery):
        return _found(event, url)
    if isinstance(event, FetchResult):
        return _fetched(event)
    if isinstance(event, Control):
        by = f" of {event.actor}" if event.actor else ""
        why = f" ({event.note})" if event.note else ""
        return f"the wish{by} to {event.cmd} {event.target_kind.value} {event.target}".rstrip() + why
    return "an input that can't be read" if event is None else f"a {type(event).__name__}"


def _found(event: Discovery, url: str) -> str:
    number = next((n for n, one in enumerate(event.urls) if one.partition("#")[0] == url), None)
    if event.source_kind is SourceKind.SEED:
        text = "a seed"
    elif event.source_kind is SourceKind.REDIRECT:
        text = f"a redirect of {event.source_url}"
    elif event.source_kind is SourceKind.OPERATOR:
        text = "an operator's seed"
    elif event.source_kind is SourceKind.SITEMAP_FILE:
        text = f"a sitemap that {event.source_url} names"
    elif event.source_kind in (SourceKind.SITEMAP, SourceKind.FEED):
        text = f"an entry of the {event.source_kind.value} {event.source_url}"
    else:
        text = f"a link on {event.source_url}" if event.source_url else f"a {event.source_kind.value}"
    if number is not None:
        anchor, raw = event.anchors[number], event.raws[number]
        text += f', anchor "{anchor}"' if anchor else ""
        text += f', spelled "{raw}"' if raw and raw != url else ""
        lastmod_ms = event.lastmods[number] if event.lastmods else 0
        text += f", changed {rfc3339(lastmod_ms)}" if lastmod_ms else ""
    return text


def _fetched(event: FetchResult) -> str:
    if event.kind is FetchKind.RESOLVE:
        return f"a look-up of {event.host}: {', '.join(event.addresses) or event.reason.value}"
    if not event.status:
        why = f" ({event.detail})" if event.detail else ""
        return f"a request of {event.requested} that failed: {event.reason.value}{why}"
    facts = [f"{event.status}", f"{event.total_ms} ms", f"{event.wire_bytes} bytes", f"from {event.address}"]
    asked = [f"Retry-After {event.retry_after}"] if event.retry_after else []
    lists = f"; {sitemap_words(event.sitemap)}" if event.sitemap is not None else ""
    return f"the answer to {event.requested}: {', '.join([*facts, *asked])}{lists}"


def sitemap_words(said: SitemapFacts) -> str:
    """What a sitemap or feed lists."""
    words = [_many(said.urls, "URL"), *([_many(said.children, "sitemap")] if said.children else [])]
    words += [f"{said.cut:,} more that were cut off"] if said.cut else []
    first = f" ({said.errors[0]})" if said.errors else ""
    words += [_many(said.faults, "fault") + first] if said.faults else []
    return f"{said.kind} of {', '.join(words)}"


def _many(count: int, what: str) -> str:
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


def listing_words(row: SitemapRow) -> str:
    """What a sitemap or feed listed when it was read last."""
    if not row.read_ms:
        return "a sitemap that was not read yet"
    errors = (row.fault,) if row.fault else ()
    said = SitemapFacts(
        kind=row.kind, urls=row.urls, children=row.children, cut=row.cut, faults=row.faults, errors=errors
    )
    return f"a sitemap: {sitemap_words(said)}"


def policy_words(event: RobotsPolicy | OperatorPolicy) -> str:
    """What a policy version is."""
    if isinstance(event, RobotsPolicy):
        status = f" (status {event.status})" if event.status else ""
        return f"robots.txt of {event.origin_key}, which {_ROBOTS[event.state]}{status}"
    if event.act is PolicyAct.SETTINGS:
        return f"settings of the crawl ({event.note})" if event.note else "settings of the crawl"
    by = f" by {event.actor}" if event.actor else ""
    why = f": {event.note}" if event.note else ""
    gap = f" to {event.gap_ms} ms" if event.act is PolicyAct.SLOW else ""
    return f"{event.act.value}{gap} of {event.scope_kind.value} {event.scope}".rstrip() + f"{by}{why}"


def robots_rule(text: bytes, token: str, requested: str) -> str:
    """The line and group of a robots.txt that decide about a URL."""
    said = robots_txt.verdict(robots_txt.parse(text), token, requested)
    group = f"group {said.group}" if said.group else "no group speaks to us"
    return f"line {said.line}: {said.rule} ({group})" if said.rule else f"no rule matches ({group})"


def move_words(event: Transition) -> str:
    """What a move was."""
    if event.reason is Reason.EXTENDED:
        return "its lease was extended"
    move = f"{event.from_state.value} -> {event.to_state.value}"
    facts: list[str] = []
    if event.to_state is State.LEASED:
        facts.append(f"fence {event.fence}, for {event.lease_owner}")
    if event.result is not None and event.result.status:
        facts.append(f"status {event.result.status}")
    if event.result is not None and event.result.location:
        facts.append(f"to {event.result.location}")
    return f"{move} ({'; '.join(facts)})" if facts else move


def document_words(event: Document) -> str:
    """What content decided."""
    of = f" as {event.duplicate_of}" if event.duplicate_of else ""
    return f"content: {event.verdict.value}{of}, text {event.content_hash.hex()[:16]}"


def output_words(event: Fetched | Removed | Reject) -> str:
    """What others were told."""
    if isinstance(event, Fetched):
        of = f", duplicate of {event.duplicate_of}" if event.duplicate_of else ""
        return f"given out on crawl.fetched ({event.verdict.value}{of})"
    if isinstance(event, Removed):
        return "taken back on crawl.removed"
    return f"an input was refused: {event.topic}/{event.partition}/{event.offset}"
