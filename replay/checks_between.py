"""Checks of what passes between shards, worked out when all of them were read.

Not verified: that a link was known when it was left out, since shards have no order among each other; only that its target
is known in the end, so that no URL was lost.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from hashlib import blake2b

from frontlog.avro.enums import Topic
from frontlog.avro.events import ContentVerdict, Document, Event, FetchResult
from frontlog.replay.ledger import Taken
from frontlog.replay.shapes import Check, Problem
from frontlog.replay.watch import KEPT_MAX, Watch

_SHORT_BYTES = 8
_URL_ID_BYTES = 16


class Answers(Watch):
    """Between content and the frontier."""

    name = "answers"
    doc = "each document's verdict reached the partition of its page, and each verdict there has its document"


class LeftOut(Watch):
    """Between parsers and the frontier."""

    name = "left_out"
    doc = "each link that no discovery repeats, since its target was known, leads to a known URL"


CHECKS: tuple[type[Watch], ...] = (Answers, LeftOut)


@dataclass
class Notes:
    """What one shard has for the others, or wants of them."""

    documents: dict[str, str] = field(default_factory=dict[str, str])
    """Event id → verdict of what content decided."""
    answers: dict[str, str] = field(default_factory=dict[str, str])
    """The same of what the frontier was told."""
    known: bytes = b""
    """The first 8 bytes of the url_id of each known URL."""
    left_out: dict[bytes, str] = field(default_factory=dict[bytes, str])
    """Such 8 bytes of a link that was left out → the first page that it was on."""
    links: int = 0
    """Links that were left out, here and of the others."""

    def take(self, batch: Taken) -> None:
        """Note what a batch decided, and what it decided by."""
        for decision in batch.decisions:
            if isinstance(decision.event, Document):
                self.documents[decision.event.event_id] = decision.event.verdict.value
        for topic in (Topic.CONTENT_VERDICTS, Topic.FETCH_RESULTS):
            for one in batch.inputs.get(topic, ()):
                self.input(one.event)

    def input(self, event: Event | None) -> None:
        """Note an input."""
        if isinstance(event, ContentVerdict):
            self.answers[event.event_id] = event.verdict.value
        elif isinstance(event, FetchResult) and event.parse is not None:
            known = event.parse.links_known
            for at in range(0, len(known), _SHORT_BYTES):
                self.left_out.setdefault(known[at : at + _SHORT_BYTES], event.url)
                self.links += 1

    def end(self, urls: Iterable[str]) -> None:
        """Settle what this shard's own URLs settle."""
        ids = [blake2b(url.encode(), digest_size=_URL_ID_BYTES).digest()[:_SHORT_BYTES] for url in urls]
        for short in ids:
            self.left_out.pop(short, None)
        self.known = b"".join(ids)


def answered(found: list[Notes]) -> Check:
    """Hold what content decided against what the frontier was told."""
    documents = {event_id: verdict for notes in found for event_id, verdict in notes.documents.items()}
    answers = {event_id: verdict for notes in found for event_id, verdict in notes.answers.items()}
    wrong = [
        f"document {event_id} ({verdict}) was answered with {answers.get(event_id, 'nothing')}"
        for event_id, verdict in documents.items()
        if answers.get(event_id) != verdict
    ]
    wrong += [f"verdict {event_id} has no document" for event_id in answers if event_id not in documents]
    problems = tuple(Problem(Topic.CONTENT_VERDICTS.value, what) for what in wrong[:KEPT_MAX])
    return Check(Answers.name, Answers.doc, len(documents), len(wrong), problems)


def left_out(found: list[Notes]) -> Check:
    """Hold the links that were left out against the URLs that are known."""
    wanted = {short: url for notes in found for short, url in notes.left_out.items()}
    for notes in found:
        for at in range(0, len(notes.known) if wanted else 0, _SHORT_BYTES):
            wanted.pop(notes.known[at : at + _SHORT_BYTES], None)
    problems = tuple(
        Problem(
            Topic.FETCH_RESULTS.value, f"{url} left a link out ({short.hex()}) that leads to no known URL"
        )
        for short, url in list(wanted.items())[:KEPT_MAX]
    )
    return Check(LeftOut.name, LeftOut.doc, sum(notes.links for notes in found), len(wanted), problems)
