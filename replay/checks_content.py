"""Checks of content and the archive: documents are what their candidates say, and bodies lie where the log points.

Not verified: the text and the prints that a page was compared by, which only parsing it again would tell; and that every
page that was fetched was offered to content.
"""

import hashlib
import re
from typing import ClassVar

from frontlog.avro.enums import Verdict
from frontlog.avro.errors import Corrupt
from frontlog.avro.events import BodyRef, Candidate, Document, FetchResult
from frontlog.fetch.decoding import decode
from frontlog.fetch.files import LocalFiles
from frontlog.fetch.records import Record, read_record, record_problems
from frontlog.replay.ledger import Decision, Input, Taken
from frontlog.replay.watch import Scene, Watch
from frontlog.streams.topics import Role

DECODED_BYTES_MAX = 1 << 28
_CODING = re.compile(rb"(?im)^content-encoding[ \t]*:[ \t]*([^\r\n]*)")
_ANSWERS = frozenset({"response", "revisit"})


class Documents(Watch):
    """What content decided."""

    name = "documents"
    doc = "each candidate became one document, whose verdict is what earlier documents make of its text"
    roles: ClassVar[tuple[Role, ...]] = (Role.CONTENT,)

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._firsts: dict[bytes, str] = {}
        self._last: dict[str, tuple[bytes, int]] = {}
        self._decided: set[int] = set()

    def opened(self, batch: Taken) -> None:
        self._decided = set()

    def document(self, decision: Decision, event: Document) -> None:
        self.examined += 1
        self._decided.add(event.cause_offset)
        cause = self.scene.inputs.get((event.cause_topic, event.cause_offset))
        page = cause.event if cause is not None else None
        said = (event.event_id, event.url, event.content_hash)
        if isinstance(page, Candidate) and said != (page.event_id, page.url, page.text_sha256):
            self.fault(decision, f"the document of {event.url} is not what its candidate says")
        before, earlier_ms = self._last.get(event.url, (b"", -1))
        if event.fetched_ms <= earlier_ms:
            self.fault(decision, f"{event.url} was decided by a page that is not newer than the one before")
        first = self._firsts.get(event.content_hash)
        wanted = Verdict.SEEN if first is not None else Verdict.CHANGED if before else Verdict.NEW
        if before == event.content_hash:
            wanted = Verdict.SAME
        other = first if first is not None and first != event.url else ""
        if (event.verdict, event.duplicate_of, event.previous_hash) != (wanted, other, before):
            self.fault(
                decision,
                f"{event.url} was found {event.verdict} {event.duplicate_of}; it is {wanted} {other}",
            )
        self._firsts.setdefault(event.content_hash, event.url)
        self._last[event.url] = (event.content_hash, event.fetched_ms)

    def closed(self, batch: Taken) -> None:
        for (topic, offset), one in self.scene.inputs.items():
            page = one.event
            known = isinstance(page, Candidate) and page.fetched_ms <= self._last.get(page.url, (b"", -1))[1]
            if offset not in self._decided and not known and (topic, offset) not in self.scene.rejects:
                url = page.url if isinstance(page, Candidate) else "what can't be decoded"
                where = f"{topic}/{self.scene.partition}/{offset}"
                self.fault(batch.place, f"nothing was decided about {url}", where=where)


class Archive(Watch):
    """The bodies."""

    name = "archive"
    doc = "each body reference leads to a whole WARC record of that request, whose digests fit its bytes"

    def opened(self, batch: Taken) -> None:
        for group in batch.inputs.values():
            for one in group:
                if isinstance(one.event, FetchResult) and one.event.body is not None:
                    self.examined += 1
                    for what in self._problems(one.event, one.event.body):
                        self.fault(None, what, where=self._at(one))

    def _at(self, one: Input) -> str:
        return f"{one.topic}/{self.scene.partition}/{one.offset}"

    def _problems(self, result: FetchResult, body: BodyRef) -> list[str]:
        at = f"{body.file} at byte {body.offset}"
        folder = next((f for f in self.scene.archive if (f / body.file).is_file()), None)
        if folder is None:
            return [f"the archive has no segment {body.file}"]
        try:
            record = read_record(LocalFiles(folder), body)
        except Corrupt as exc:
            return [str(exc)]
        problems = [f"{at}: {what}" for what in record_problems(record)]
        if record.type not in _ANSWERS or record.target_uri != result.requested:
            problems.append(f"{at}: a {record.type} of {record.target_uri}; {result.requested} was fetched")
        elif result.body_sha256 and record.type == "response" and _decoded_hash(record) != result.body_sha256:
            problems.append(f"{at}: its decoded body has another SHA-256 than the result says")
        return problems


def _decoded_hash(record: Record) -> bytes:
    coding = _CODING.search(record.http_head)
    text = coding[1].decode("latin-1").strip() if coding else None
    return hashlib.sha256(decode(record.payload, text, DECODED_BYTES_MAX).data).digest()


CHECKS: tuple[type[Watch], ...] = (Documents, Archive)
