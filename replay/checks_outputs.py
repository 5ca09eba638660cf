"""Checks of outputs: given out what was accepted, withheld what must be, taken back what was given out (DESIGN §1, §10).

Not verified: the fields of an output beyond its event id and URL.
"""

from frontlog.avro.enums import Reason, Topic
from frontlog.avro.events import ContentVerdict, Event, Fetched, Removed, Transition
from frontlog.replay.ledger import Decision, Taken
from frontlog.replay.rules import WITHHELD
from frontlog.replay.watch import Output, Scene, Watch

_BEFORE = frozenset({"start", Topic.CONTROL.value, Topic.FETCH_RESULTS.value})
"""Causes of decisions that a batch makes before it looks at content's verdicts."""
_TAKEN_BACK = frozenset({
    Reason.GONE, Reason.ROBOTS_DENIED, Reason.OPERATOR_BLOCK, Reason.OUT_OF_SCOPE, Reason.SUPPRESSED,
})  # fmt: skip


class Outputs(Watch):
    """crawl.fetched."""

    name = "outputs"
    doc = (
        "each document that content accepted is given out once, in order, unless its URL was withheld by then"
    )

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._fetched = scene.fetched()
        self._verdicts: list[ContentVerdict] = []

    def opened(self, batch: Taken) -> None:
        inputs = batch.inputs.get(Topic.CONTENT_VERDICTS, ())
        self._verdicts = [one.event for one in inputs if isinstance(one.event, ContentVerdict)]

    def decided(self, decision: Decision, event: Event) -> None:
        cause = getattr(event, "cause_topic", "")
        if self._verdicts and cause and cause not in _BEFORE:
            self._give_out()

    def closed(self, batch: Taken) -> None:
        self._give_out()

    def _give_out(self) -> None:
        """Hold the batch's verdicts against what was given out, with every URL as it stands now."""
        for verdict in self._verdicts:
            self.examined += 1
            page = verdict.candidate
            url = self.book.urls.get(page.url)
            if url is None or url.state in WITHHELD:
                continue
            found = next(self._fetched, None)
            event = found.event if found is not None else None
            if not isinstance(event, Fetched) or event.event_id != verdict.event_id or event.url != page.url:
                instead = f"{event.url} ({event.event_id})" if isinstance(event, Fetched) else "nothing"
                what = f"{page.url} ({verdict.event_id}) was due, {instead} was given out"
                self.fault(None, what, where=self._at(found))
        self._verdicts = []

    def ended(self) -> None:
        for more in self._fetched:
            event = more.event
            what = f"{event.url} was given out" if isinstance(event, Fetched) else f"a {type(event).__name__}"
            self.fault(None, f"{what}, but no verdict of content stands behind it", where=self._at(more))

    def _at(self, found: Output | None) -> str:
        return f"{Topic.FETCHED.value}/{self.scene.partition}/{found.offset if found else 'end'}"


class Removals(Watch):
    """crawl.removed."""

    name = "removed"
    doc = "a page that was given out and may not be used any more is taken back, with the decision that says why"

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._fetched = scene.fetched()
        self._ahead = next(self._fetched, None)
        self._given: set[str] = set()
        self._removed = dict(scene.removed)

    def opened(self, batch: Taken) -> None:
        while self._ahead is not None and self._ahead.at_ms <= batch.batch.at_ms:
            if isinstance(self._ahead.event, Fetched):
                self._given.add(self._ahead.event.url)
            self._ahead = next(self._fetched, None)

    def moved(self, decision: Decision, event: Transition) -> None:
        if event.to_state not in WITHHELD:
            return
        self.examined += 1
        found = self._removed.pop(f"{self.scene.partition}-{event.seq}", None)
        if found is None and event.url in self._given and event.reason in _TAKEN_BACK:
            self.fault(
                decision, f"{event.url} was given out and is {event.to_state} now, but was not taken back"
            )
        elif found is not None and not (isinstance(found.event, Removed) and found.event.url == event.url):
            self.fault(decision, f"what was taken back with it is not {event.url}")
        self._given.discard(event.url)

    def ended(self) -> None:
        for event_id, found in self._removed.items():
            where = f"{Topic.REMOVED.value}/{self.scene.partition}/{found.offset}"
            self.fault(
                None, f"taken back by {event_id}, which is no decision that withholds a page", where=where
            )


CHECKS: tuple[type[Watch], ...] = (Outputs, Removals)
