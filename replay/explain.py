"""`frontlog explain`: the story of a URL, in order, with causes, from the log; and what it waits for, from the tables.

The log is read from the moment at which the URL was first seen. Records are sorted out by their key and by the bytes of
the URL before they are decoded, so that 100,000 decisions take a second or two.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from frontlog.avro.codec import Undecodable, decode
from frontlog.avro.enums import RobotsState, ScopeKind, Topic
from frontlog.avro.errors import ConfigError
from frontlog.avro.events import (
    Document,
    Event,
    Fetched,
    OperatorPolicy,
    Reject,
    Removed,
    RobotsPolicy,
    Transition,
)
from frontlog.processors import canonical, merging, policy
from frontlog.processors.sites import partition_of, site_of
from frontlog.processors.times import rfc3339
from frontlog.replay import story
from frontlog.replay.folder import OpenShard, ShardRef, archives, open_shard, shards_of
from frontlog.replay.near import near
from frontlog.replay.plain import read
from frontlog.replay.shapes import Explanation, Line
from frontlog.replay.waits import waits_for
from frontlog.state import keys
from frontlog.state.rows import UrlRow
from frontlog.state.tables import Tables
from frontlog.streams.records import Record
from frontlog.streams.topics import Role

DUPLICATES_SHOWN = 20


class _At(NamedTuple):
    """A line and where it belongs: by time, then by seq, then in the order of telling."""

    at_ms: int
    seq: int
    line: Line


class _Subject(NamedTuple):
    """The URL that is explained. `row` None: it is not known."""

    asked: str
    found: canonical.Identity
    row: UrlRow | None
    token: str
    since_ms: int


def explain(folder: Path, url: str) -> Explanation:
    """Explain a URL in any spelling. Raises ConfigError for what is no URL, and for a folder that is no crawl."""
    refs = shards_of(folder)
    frontiers = [ref for ref in refs if ref.role is Role.FRONTIER]
    found = canonical.canonicalize(url)
    if isinstance(found, canonical.Refused):
        detail = f" ({found.detail})" if found.detail else ""
        raise ConfigError(
            f"{url!r} has no identity: {found.reason.doc}{detail}; give an absolute http or https URL"
        )
    with open_shard(frontiers[partition_of(site_of(found.host), len(frontiers))]) as shard:
        subject, base = _look(shard, url)
        lines = list(_Log(shard, subject).lines())
    contents = [ref for ref in refs if ref.role is Role.CONTENT]
    more, verdict, duplicates = _content(contents, subject)
    ordered = sorted([*lines, *more], key=lambda one: (one.at_ms, one.seq))
    record = _record(folder, subject.row)
    told = tuple(one.line for one in ordered)
    return replace(base, lines=told, record=record, content=verdict or base.content, duplicates=duplicates)


def _look(shard: OpenShard, url: str) -> tuple[_Subject, Explanation]:
    """What the tables say of the URL now."""
    with shard.store.begin() as txn:
        tables = Tables(txn)
        settings = policy.settings_of(tables)
        found = canonical.canonicalize(url)
        assert isinstance(found, canonical.Identity), "it was one before the folder was opened"
        row = tables.urls.get(keys.url_key(keys.origin_id(found.origin_key), found.identity))
        if row is None:  # a spelling that nobody found: what the rules of its origin would make of it
            under = merging.identity_at(tables, settings, found)
            found = (
                replace(under, rules_fired=(*found.rules_fired, *under.rules_fired))
                if under is not found
                else found
            )
            row = tables.urls.get(keys.url_key(keys.origin_id(found.origin_key), found.identity))
        since_ms = row.first_seen_ms if row is not None else 0
        subject = _Subject(url, found, row, settings.identity.token, since_ms)
        base = Explanation(
            asked=url, url=found.identity, known=row is not None, rules_fired=found.rules_fired,
            origin_key=found.origin_key, shard=shard.name,
        )  # fmt: skip
        if row is None:
            return subject, replace(base, near=tuple(near(tables, found)))
        wait = waits_for(tables, found.origin_key, row)
        listed = tables.sitemaps.get(keys.url_key(keys.origin_id(found.origin_key), found.identity))
        return subject, replace(
            base, state=row.state, reason=row.reason, waits_for=wait.what, until_ms=wait.until_ms,
            content=story.listing_words(listed) if listed is not None else "",
        )  # fmt: skip


def _record(folder: Path, row: UrlRow | None) -> str:
    """Where the last stored response lies, in whichever archive."""
    if row is None or not row.body_file:
        return ""
    homes = [path for path in archives(folder) if (path / row.body_file).is_file()]
    path = (homes[0] if homes else archives(folder)[0]) / row.body_file
    missing = "" if homes else " (not there)"
    return f"{path}, byte {row.body_offset}, {row.body_length} bytes{missing}"


class _Log:
    """What the shard's log says of a URL."""

    def __init__(self, shard: OpenShard, subject: _Subject) -> None:
        self.shard = shard
        self.subject = subject
        self.url = subject.found.identity
        self.host = subject.found.host
        self._needle = self.url.encode()
        self._key = subject.found.origin_key.encode()
        self._policies: dict[int, RobotsPolicy | OperatorPolicy] = {}
        self._robots: list[RobotsPolicy] = []

    def lines(self) -> Iterator[_At]:
        """Every line, in no order."""
        if self.subject.row is not None:
            yield from self._policy_lines()
            for record, event in self._about(Topic.TRANSITIONS, keyed=True):
                if isinstance(event, Transition) and event.url == self.url:
                    yield _At(record.timestamp_ms, event.seq, self._move(record, event))
            for topic in (Topic.FETCHED, Topic.REMOVED):
                for record, event in self._about(topic, keyed=True):
                    if isinstance(event, Fetched | Removed) and event.url == self.url:
                        yield _At(record.timestamp_ms, _LAST, self._output(topic, record, event))
        for record, event in self._about(Topic.REJECTS, keyed=False):
            if isinstance(event, Reject) and self._names_it(event):
                yield _At(record.timestamp_ms, _LAST, self._output(Topic.REJECTS, record, event))

    def _about(self, topic: str, *, keyed: bool) -> Iterator[tuple[Record, Event]]:
        """Records that hold the bytes of the URL, since it was first seen."""
        log, partition, needle = self.shard.log, self.shard.partition, self._needle
        start = log.offset_at(topic, partition, self.subject.since_ms)
        for record in log.scan(topic, partition, start):
            if needle in record.value and (not keyed or record.key == self._key):
                try:
                    yield record, decode(record.value)
                except Undecodable:
                    continue  # `frontlog verify` says so

    def _names_it(self, event: Reject) -> bool:
        """Whether a refusal speaks of this very URL, and not of one that begins with it."""
        text = f"{event.detail} {event.value.decode('utf-8', 'replace')}"
        at = text.find(self.url)
        while at >= 0:
            after = text[at + len(self.url) : at + len(self.url) + 1]
            if not after or not (after.isalnum() or after in "/?&=%-_.~"):
                return True
            at = text.find(self.url, at + 1)
        return False

    # --- policies ---------------------------------------------------------------------------------------------

    def _policy_lines(self) -> Iterator[_At]:
        """Versions that came into force for the URL, from the one it was discovered under on."""
        log, partition = self.shard.log, self.shard.partition
        first, _ = log.bounds(Topic.POLICIES, partition)
        for record in log.scan(Topic.POLICIES, partition, first):
            event = decode(record.value)
            if not isinstance(event, RobotsPolicy | OperatorPolicy) or not self._concerns(event):
                continue
            if isinstance(event, RobotsPolicy) and event.renewal:
                continue
            self._policies[event.seq] = event
            if isinstance(event, RobotsPolicy):
                self._robots.append(event)
            if record.timestamp_ms >= self.subject.since_ms:
                yield _At(record.timestamp_ms, event.seq, self._policy(record, event))

    def _concerns(self, event: RobotsPolicy | OperatorPolicy) -> bool:
        origin_key = self.subject.found.origin_key
        if isinstance(event, RobotsPolicy):
            return event.origin_key == origin_key
        names = {
            ScopeKind.CRAWL: "", ScopeKind.SITE: site_of(self.host), ScopeKind.HOST: self.host,
            ScopeKind.ORIGIN: origin_key, ScopeKind.PARTITION: str(self.shard.partition),
        }  # fmt: skip
        return names.get(event.scope_kind) == event.scope

    def _policy(self, record: Record, event: RobotsPolicy | OperatorPolicy) -> Line:
        rule = detail = ""
        if isinstance(event, RobotsPolicy):
            detail = "" if event.status and event.state is not RobotsState.RULES else event.detail
            if event.state is RobotsState.RULES:
                rule = story.robots_rule(event.text, self.subject.token, self._requested())
        return Line(
            at_ms=record.timestamp_ms,
            what=f"policy: {story.policy_words(event)}",
            detail=detail,
            record=self._where(Topic.POLICIES, record),
            seq=event.seq,
            cause=self._place(event.cause_topic, event.cause_offset),
            cause_what=self._cause(event.cause_topic, event.cause_offset),
            policy_version=event.seq,
            rule=rule,
        )

    def _requested(self) -> str:
        row = self.subject.row
        return (row.requested if row is not None else "") or self.url

    def _rule(self, event: Transition) -> str:
        """What stood behind a verdict: the rule that denied, or the robots line that allowed a claim."""
        if event.detail.startswith("line ") or event.reason.value in (
            "out_of_scope",
            "operator_block",
            "merged",
        ):
            return event.detail
        if event.reason.value not in ("claimed", "admitted", "policy_allows"):
            return ""
        known = [
            one for one in self._robots if one.seq < event.seq and one.state is not RobotsState.UNREACHABLE
        ]
        if not known or known[-1].state is not RobotsState.RULES:
            return "robots.txt allows all" if known else ""
        return story.robots_rule(known[-1].text, self.subject.token, self._requested())

    # --- lines ------------------------------------------------------------------------------------------------

    def _move(self, record: Record, event: Transition) -> Line:
        under = self._policies.get(event.policy_version)
        rule = self._rule(event)
        facts = ["" if event.detail == rule else event.detail, *self._facts(event)]
        return Line(
            at_ms=record.timestamp_ms,
            what=story.move_words(event),
            why=f"{event.reason.value}: {event.reason.doc}",
            detail="; ".join(fact for fact in facts if fact),
            record=self._where(Topic.TRANSITIONS, record),
            seq=event.seq,
            cause=self._place(event.cause_topic, event.cause_offset),
            cause_what=self._cause(event.cause_topic, event.cause_offset),
            policy_version=event.policy_version,
            policy_what=story.policy_words(under) if under is not None else "",
            rule=rule,
        )

    def _facts(self, event: Transition) -> Iterator[str]:
        """What else a move says: spelling, host's clock, due time, where the response lies."""
        if event.first is not None and event.first.requested:
            yield f"requested as {event.first.requested}"
        if event.clock is not None:
            yield f"{self.host} may be asked again at {rfc3339(event.clock.next_eligible_ms)}"
        if event.deadline_ms:
            yield f"lease ends {rfc3339(event.deadline_ms)}"
        if event.due_ms > self.subject.since_ms and event.due_ms:
            yield f"due {rfc3339(event.due_ms)}"
        if event.result is not None and event.result.body is not None:
            yield f"stored in {story.place(event.result.body)}"

    def _output(self, topic: Topic, record: Record, event: Fetched | Removed | Reject) -> Line:
        why = "" if isinstance(event, Fetched) else f"{event.reason.value}: {event.reason.doc}"
        detail = "" if isinstance(event, Fetched) else event.detail
        cause = f"{event.topic}/{event.partition}/{event.offset}" if isinstance(event, Reject) else ""
        return Line(
            at_ms=record.timestamp_ms, what=story.output_words(event), why=why, detail=detail,
            record=self._where(topic, record), cause=cause,
        )  # fmt: skip

    def _where(self, topic: Topic, record: Record) -> str:
        return f"{topic.value}/{self.shard.partition}/{record.offset}"

    def _place(self, topic: str, offset: int) -> str:
        return f"{topic}/{self.shard.partition}/{offset}" if offset >= 0 else topic

    def _cause(self, topic: str, offset: int) -> str:
        """What an input was that caused something."""
        if offset < 0:
            return story.cause_words(topic, None, self.url)
        log, partition = self.shard.log, self.shard.partition
        first, end = log.bounds(topic, partition)
        if not first <= offset < end:
            return "an input that retention has cut away"
        record = log.read(topic, partition, offset, records_max=1)[0]
        return story.cause_words(topic, read(topic, record.value)[1], self._requested())


_LAST = 1 << 62
"""Outputs have no seq: they stand behind the decisions of their batch."""


def _content(refs: list[ShardRef], subject: _Subject) -> tuple[list[_At], str, tuple[str, ...]]:
    """What content decided of the URL, what stands now, and who has the same text."""
    lines: list[_At] = []
    verdict, same = "", list[str]()
    if subject.row is None:
        return lines, verdict, ()
    url = subject.found.identity
    needle = url.encode()
    for ref in refs:
        with open_shard(ref) as shard:
            with shard.store.begin() as txn:
                tables = Tables(txn)
                key = keys.url_key(keys.origin_id(subject.found.origin_key), url)
                row = tables.url_content.get(key)
                text = tables.content.get(row.content_hash) if row is not None else None
            wanted = row.content_hash.hex().encode() if row is not None else b""
            start = shard.log.offset_at(Topic.DOCUMENTS, shard.partition, 0)
            for record in shard.log.scan(Topic.DOCUMENTS, shard.partition, start):
                if needle not in record.value and record.key != wanted:
                    continue
                event = decode(record.value)
                if isinstance(event, Document) and event.url == url:
                    lines.append(_At(record.timestamp_ms, _LAST, _document(shard, record, event)))
                    verdict = story.document_words(event)
                elif isinstance(event, Document) and record.key == wanted:
                    same.append(event.url)
            if text is not None and text.urls > 1:
                verdict += f"; {text.urls} URLs have it"
    return lines, verdict, tuple(dict.fromkeys(same))[:DUPLICATES_SHOWN]


def _document(shard: OpenShard, record: Record, event: Document) -> Line:
    return Line(
        at_ms=record.timestamp_ms, what=story.document_words(event),
        record=f"{Topic.DOCUMENTS.value}/{shard.partition}/{record.offset}", seq=event.seq,
        cause=f"{event.cause_topic}/{event.cause_partition}/{event.cause_offset}",
        cause_what="the page as it was offered to content",
    )  # fmt: skip
