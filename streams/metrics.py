"""What a worker tells Prometheus on the page /metrics: one catalogue, and the values of this moment.

Counters begin at 0 with the process and count what was decided here; what must survive is in the log. docs/reference/
metrics.md is written from the catalogue, and nothing is exported that it lacks.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from prometheus_client import CollectorRegistry, PlatformCollector, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.registry import Collector

from frontlog.avro.events import Document, Event, HostTransition, Transition

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4
READY_MAX = 10_000
"""How many hosts of a shard are counted that could be claimed now."""


class Row(NamedTuple):
    """One metric. A counter's name ends in `_total`."""

    name: str
    doc: str
    labels: tuple[str, ...] = ()


CATALOGUE = (
    Row("frontlog_transitions_total", "Moves of URLs that were decided here.", ("to", "reason")),
    Row("frontlog_host_events_total", "Decisions about hosts: claims, back-offs, pauses, look-ups.", ("event",)),
    Row("frontlog_documents_total", "Verdicts of content: new, seen before, nearly the same.", ("verdict",)),
    Row("frontlog_decisions_total", "Decisions of all kinds.", ("shard",)),
    Row("frontlog_batches_total", "Batches, each of them one transaction of Kafka.", ("shard",)),
    Row("frontlog_rejects_total", "Inputs that could not be used; the topic `rejects` says why.", ("shard",)),
    Row("frontlog_results_total", "Fetches that ended: by the class of their status, or `failed`.", ("status",)),
    Row("frontlog_fetch_slots", "How many fetches may be under way at once."),
    Row("frontlog_fetch_slots_used", "Slots that are taken: by fetches, and by what is done with what they brought."),
    Row("frontlog_fetch_slots_closed", "1 while nothing is claimed, as when the archive has no room."),
    Row("frontlog_host_connections_max", "Most fetches at once to one host since the start; more than 1 is a fault."),
    Row("frontlog_hosts_ready", f"Hosts that could be claimed now, counted up to {READY_MAX} a shard.", ("shard",)),
    Row("frontlog_shard_owned", "1 of a shard that is owned here, 0 of one that is followed.", ("shard",)),
    Row("frontlog_shard_seq", "Newest decision that the tables here hold.", ("shard",)),
    Row("frontlog_shard_batch_age_seconds", "Since the newest batch that the tables here hold.", ("shard",)),
    Row("frontlog_input_lag", "Inputs in the topic that are not decided yet, markers included.", ("shard", "topic")),
    Row("frontlog_inputs_waiting", "Inputs that were fetched and wait for a batch.", ("shard",)),
    Row("frontlog_archive_waiting", "Answers that wait to be written into the archive."),
    Row("frontlog_archive_full", "1 while the archive can't write."),
    Row("frontlog_archive_flushes_total", "Flushes of the archive to the disk."),
    Row("frontlog_parser_load", "Documents that are parsed or wait for a parser."),
    Row("frontlog_emitted_bytes_waiting", "Bytes of results and links that the broker has not acknowledged."),
    Row("frontlog_standbys_behind", "1 while what is followed can't be read."),
)  # fmt: skip
ROWS = {row.name: row for row in CATALOGUE}

Labels = tuple[str, ...]
Values = Mapping[str, Mapping[Labels, float]]
"""Name → values of its labels → value."""


class Tally:
    """Counts what a worker decided and fetched, whichever shard it was."""

    def __init__(self) -> None:
        self.counts: dict[str, dict[Labels, float]] = {}

    def add(self, name: str, labels: Labels = (), count: float = 1) -> None:
        """Count something of the catalogue."""
        found = self.counts.setdefault(name, {})
        found[labels] = found.get(labels, 0) + count

    def most(self, name: str, value: float) -> None:
        """Keep the largest value of something."""
        self.counts[name] = {(): max(value, self.counts.get(name, {}).get((), 0))}

    def batch(self, shard: str, decisions: list[Event], rejects: int) -> None:
        """Count a batch that was committed."""
        self.add("frontlog_batches_total", (shard,))
        self.add("frontlog_decisions_total", (shard,), len(decisions))
        self.add("frontlog_rejects_total", (shard,), rejects)
        for event in decisions:
            if isinstance(event, Transition):
                self.add("frontlog_transitions_total", (event.to_state, event.reason))
            elif isinstance(event, HostTransition):
                self.add("frontlog_host_events_total", (event.event,))
            elif isinstance(event, Document):
                self.add("frontlog_documents_total", (event.verdict,))


class _Ours(Collector):
    """The catalogue's metrics with the values of the moment when they are asked for."""

    def __init__(self, values: Callable[[], Values]) -> None:
        self._values = values

    def collect(self) -> Iterator[Metric]:
        values = self._values()
        assert values.keys() <= ROWS.keys(), f"not in the catalogue: {values.keys() - ROWS.keys()}"
        for row in CATALOGUE:
            made = CounterMetricFamily if row.name.endswith("_total") else GaugeMetricFamily
            family = made(row.name, row.doc, labels=row.labels)
            for labels, value in values.get(row.name, {}).items():
                family.add_metric(labels, value)
            yield family


class Exposition:
    """The page /metrics, with Prometheus' own metrics of a process beside ours."""

    def __init__(self, values: Callable[[], Values]) -> None:
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(_Ours(values))
        ProcessCollector(registry=self._registry)
        PlatformCollector(registry=self._registry)

    def text(self) -> bytes:
        """In Prometheus' text format."""
        return generate_latest(self._registry)
