"""How a run stands: progress while it goes on, the summary when it ends.

Counting URLs reads a snapshot of each shard; how often that is done depends on how long it takes, so that a large
frontier is not counted all the time.
"""

import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

from frontlog.avro.enums import Reason, State
from frontlog.fetch.archive_writer import ArchiveWriter
from frontlog.state.rows import STATES, UrlRow
from frontlog.streams.clock import Clock
from frontlog.streams.embedded import ARCHIVE_FOLDER, EmbeddedHost
from frontlog.streams.summary import End, Phase, Progress, Summary, WaitingHost
from frontlog.streams.survey import Survey, count_content, count_urls, look_at_hosts
from frontlog.streams.topics import Role

PROGRESS_EVERY_S = 0.5
COUNT_SHARE = 50
"""Counting takes at most one part in so many of the time."""
RATE_S = 10.0
WAITING_SHOWN = 10


class Watch:
    """Looks at a host and an archive, and tells."""

    def __init__(
        self,
        host: EmbeddedHost,
        archive: ArchiveWriter,
        folder: Path,
        clock: Clock,
        on_progress: Callable[[Progress], None],
    ) -> None:
        self._host = host
        self._archive = archive
        self._folder = folder
        self._clock = clock
        self._tell = on_progress
        self._started_ms = clock.now_ms()
        self._began = time.monotonic()
        self._pages = 0
        self._wire_bytes = 0
        self._recent: deque[tuple[float, int]] = deque()
        self._survey = Survey()
        self._count_at = 0.0
        self._tell_at = 0.0
        self._example = ""
        self._final_log_bytes = 0

    def fetched(self, wire_bytes: int) -> None:
        """A page was answered."""
        self._pages += 1
        self._wire_bytes += wire_bytes

    def tick(self, in_flight: int, *, finishing: bool) -> None:
        """Tell, if it is time to."""
        now = time.monotonic()
        if now < self._tell_at:
            return
        self._tell_at = now + PROGRESS_EVERY_S
        if now >= self._count_at:
            self.look()
            self._count_at = now + max(PROGRESS_EVERY_S, COUNT_SHARE * (time.monotonic() - now))
        self._recent.append((now, self._pages))
        while len(self._recent) > 2 and now - self._recent[0][0] > RATE_S:
            self._recent.popleft()
        spent = now - self._recent[0][0]
        full = self._archive.full or self._host.full()
        phase = Phase.STORE_FULL if full else Phase.FINISHING if finishing else Phase.CRAWLING
        self._tell(
            Progress(
                at_ms=self._clock.now_ms(), elapsed_ms=int((now - self._began) * 1_000), phase=phase,
                counts=self._survey.state_counts(), pages_run=self._pages,
                pages_per_s=(self._pages - self._recent[0][1]) / spent if spent else 0.0, in_flight=in_flight,
                hosts=self._survey.hosts, waiting=self._waiting(), waiting_hosts=len(self._survey.waiting),
                wire_bytes_run=self._wire_bytes, log_bytes=self._log_bytes(), archive_bytes=self._archive_bytes()[0],
                rejects=self._host.rejects(), detail=full,
            )
        )  # fmt: skip

    def _waiting(self) -> tuple[WaitingHost, ...]:
        return tuple(sorted(self._survey.waiting, key=lambda w: -w.urls)[:WAITING_SHOWN])

    def look(self) -> None:
        """Count what the shards hold."""
        survey = Survey()
        now_ms = self._clock.now_ms()
        for shard in self._host.shards:
            with shard.store.begin() as txn:
                if shard.role is Role.FRONTIER:
                    count_urls(txn, survey)
                    look_at_hosts(txn, survey, now_ms)
                else:
                    count_content(txn, survey)
        self._survey = survey

    def last_look(self) -> None:
        """Count a last time, while the stores are open."""
        self.look()
        self._example = self._find_example()
        self._final_log_bytes = self._log_bytes()

    def _find_example(self) -> str:
        """A URL worth asking about: a blocked one, or else any."""
        found = ""
        blocked = bytes((STATES.index(State.BLOCKED),))
        for shard in self._host.frontier():
            with shard.store.begin() as txn:
                for n, (_, value) in enumerate(txn.scan("urls")):
                    if value[:1] == blocked:
                        return UrlRow.decode(value).url
                    found = found or UrlRow.decode(value).url
                    if n > 20_000:
                        break
        return found

    def anything_paused(self) -> bool:
        """Whether an operator's pause holds something back; by the last look."""
        return any(w.reason is Reason.PAUSED for w in self._survey.waiting)

    def all_paused(self) -> bool:
        """Whether every host that waits is paused by an operator; by the last look."""
        return bool(self._survey.waiting) and all(w.reason is Reason.PAUSED for w in self._survey.waiting)

    def _log_bytes(self) -> int:
        return sum(shard.store.size_bytes() for shard in self._host.shards)

    def _archive_bytes(self) -> tuple[int, int]:
        files = list((self._folder / ARCHIVE_FOLDER).glob("*.warc.gz"))
        return sum(f.stat().st_size for f in files), len(files)

    def summary(self, end: End) -> Summary:
        """How it ended; after `last_look`."""
        archive_bytes, files = self._archive_bytes()
        survey = self._survey
        return Summary(
            end=end, folder=str(self._folder), started_ms=self._started_ms, ended_ms=self._clock.now_ms(),
            counts=survey.state_counts(), pages_run=self._pages, wire_bytes_run=self._wire_bytes, hosts=survey.hosts,
            documents=survey.documents, duplicates=max(0, survey.urls_with_text - survey.documents), waiting=self._waiting(),
            waiting_hosts=len(survey.waiting), log_bytes=self._final_log_bytes, archive_bytes=archive_bytes,
            archive_files=files,
            rejects=self._host.rejects(), example_url=self._example,
            batches_run=sum(t.batches for t in self._host.runners), flushes_run=self._archive.flushes,
            durability=self._host.config.options.log.durability,
        )  # fmt: skip
