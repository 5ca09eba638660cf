"""The servers of the synthetic web: what they answer, and their own record of who asked what and when.

The record is what politeness is judged by: times are the servers' own, and a request ends when its last byte was sent or
its connection was closed, whatever the crawler noted.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random

from frontlog.avro.enums import FetchKind, Reason
from frontlog.avro.events import FetchResult
from simulation.answers import Answer, lying, page_answer, retry_after_forms, troubled
from simulation.maker import html_of
from simulation.web import (
    LIMITING,
    Host,
    Kind,
    Page,
    RobotsAnswer,
    RobotsFile,
    Trouble,
    Web,
    origin_of,
    split_url,
)

HOST_FAILURES = frozenset({
    Reason.TIMEOUT, Reason.CONNECTION_REFUSED, Reason.CONNECTION_RESET, Reason.NO_ROUTE, Reason.TLS_FAILED,
})  # fmt: skip
"""Results that speak of a host (DESIGN §6)."""


@dataclass
class Served:
    """One attempt at a request as its server saw it. Seconds from the start; `ended_s` is None while it goes on."""

    attempt: str
    kind: FetchKind
    host: str
    address: str
    url: str
    process: int
    began_s: float
    sent_s: float = 0.0
    due_s: float = 0.0
    ended_s: float | None = None
    answer: Answer = field(default_factory=Answer)
    page: Page | None = None
    robots: RobotsAnswer | None = None
    text: str = ""
    ours: bool = True
    """Whether an owner asked that had not been replaced."""


class Servers:
    """All servers. `watch` is called with each attempt before anything is answered, `answered` once it is known what is."""

    def __init__(self, web: Web, rng: Random, now: Callable[[], float], happened: Counter[str]) -> None:
        self.happened = happened
        self.web = web
        self.now = now
        self.watch: Callable[[Served], None] = lambda served: None
        self.answered: Callable[[Served], None] = lambda served: None
        self.record: dict[str, Served] = {}
        self.history: dict[str, list[Served]] = defaultdict(list)
        """By host, in the order in which requests ended."""
        self.last_of_address: dict[tuple[int, str], Served] = {}
        self.open: list[Served] = []
        self.asked: Counter[str] = Counter()
        self.files: dict[bytes, RobotsFile] = {}
        """Every robots file that was ever sent, by its bytes."""
        self._rng = rng

    def begin(self, attempt: str, kind: FetchKind, url: str, host: str, address: str, process: int) -> Served:
        """Somebody connects."""
        served = Served(attempt, kind, host, address, url, process, self.now())
        served.due_s = float("inf")
        self.watch(served)
        self.record[attempt] = served
        self.open.append(served)
        served.answer = self._answer(served)
        self.answered(served)
        return served

    def end(self, served: Served) -> None:
        """The connection is closed; the request had ended when its last byte was sent, if that is earlier."""
        if served not in self.open:
            return
        self.open.remove(served)
        served.ended_s = min(self.now(), served.due_s)
        if served.ours:
            self.history[served.host].append(served)
            self.last_of_address[self.web.hosts[served.host].partition, served.address] = served

    def busy(self) -> list[Served]:
        """Attempts that have not ended yet."""
        return [s for s in self.open if s.ours and s.due_s > self.now()]

    def disown(self, process: int) -> None:
        """A process is gone or replaced: its connections are closed."""
        for served in [s for s in self.open if s.process == process]:
            self.end(served)

    def last(self, host: str) -> Served | None:
        """The last request to a host that has ended."""
        return self.history[host][-1] if self.history[host] else None

    def strikes(self, host: str, accepted: Mapping[str, FetchResult]) -> int:
        """How many answers in a row, of those that the log took in, said that a host is in trouble."""
        count = 0
        for served in reversed(self.history[host]):
            result = accepted.get(served.attempt)
            if result is not None and result.status not in (429, 503) and result.reason not in HOST_FAILURES:
                break
            count += result is not None
        return count

    def target_of(self, served: Served) -> str:
        """Where a robots file's redirect leads."""
        location = served.robots.location if served.robots is not None else ""
        return location if "://" in location else f"{split_url(served.url)[0]}{location}"

    # --- answers ----------------------------------------------------------------------------------------------

    def _answer(self, served: Served) -> Answer:
        host, now = self.web.hosts[served.host], self.now()
        names = host.names.at(now)
        moved = served.address not in names.addresses
        if moved and not (
            host.keeps_old_address and any(served.address in n.addresses for n in host.names.all())
        ):
            return Answer(trouble=Trouble.REFUSED)
        trouble = host.trouble.at(now)
        if trouble is not None and trouble not in LIMITING:
            return Answer(trouble=trouble)
        self.asked[served.url] += 1
        if served.kind is FetchKind.ROBOTS:
            return self._robots(served, host, split_url(served.url)[1], trouble)
        return self._page(served, host.page(served.url), trouble)

    def _robots(self, served: Served, host: Host, target: str, trouble: Trouble | None) -> Answer:
        said = host.alternates.get(target)
        if target == "/robots.txt":
            said = host.robots[origin_of(served.url)].at(self.now())
        if trouble is not None:
            said = RobotsAnswer(trouble=trouble)
        served.robots = said
        if said is None:
            return page_answer(404, "text/plain", b"", 10)
        if said.trouble in LIMITING:
            return self._limit(Trouble(said.trouble))
        if said.trouble is not None:
            return troubled(said.trouble, 30)
        headers = [("Cache-Control", said.cache_control)] if said.cache_control else []
        headers += [("Location", said.location)] if said.location else []
        if said.file is not None:
            self.files[said.file.body] = said.file
        body = said.file.body if said.file is not None else b"nothing"
        answer = page_answer(said.status, "text/plain", body, 10, headers)
        return answer._replace(cut=said.lie == "cut")

    def _page(self, served: Served, page: Page | None, trouble: Trouble | None) -> Answer:
        served.page = page
        if trouble is not None:
            return self._limit(trouble)
        if page is None:
            return page_answer(404, "text/html", b"no such page", 10)
        count = self.asked[served.url] - 1
        if page.kind is Kind.SICK:
            coming = page.troubles[0]
            return self._limit(coming) if coming in LIMITING else troubled(coming, page.response_ms)
        if count < len(page.troubles):
            coming = page.troubles[count]
            return self._limit(coming) if coming in LIMITING else troubled(coming, page.response_ms)
        served.text = page.text_at(self.now())
        return lying(page, html_of(page, served.text).encode(), served.text)

    def _limit(self, trouble: Trouble) -> Answer:
        """429 or 503 with one of the forms of Retry-After."""
        status = 429 if trouble is Trouble.LIMIT_429 else 503
        forms = retry_after_forms(self.now(), self._rng.choice((1, 3, 10, 45)))
        name = self._rng.choice(sorted(forms))
        self.happened[f"{status}: Retry-After is {name}"] += 1
        text, meant_ms, at_s = forms[name]
        headers = [("Retry-After", text)] if text is not None else []
        return page_answer(status, "text/html", b"not now", 10, headers)._replace(
            retry_ms=meant_ms, retry_at_s=at_s
        )
