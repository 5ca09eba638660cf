"""The values of a worker's metrics at this moment: see `frontlog.streams.metrics` for what they mean.

Runs in the event loop, whose thread the stores belong to; it reads what is in memory, and of each shard the front of
its heap.
"""

from itertools import islice

from frontlog.state.keys import ready_key
from frontlog.streams.kafka_host import KafkaHost
from frontlog.streams.kafka_runner import KafkaRunner
from frontlog.streams.metrics import READY_MAX, Labels, Values
from frontlog.streams.topics import Role


def values_of(host: KafkaHost) -> Values:
    """Name → labels → value."""
    found: dict[str, dict[Labels, float]] = {name: dict(values) for name, values in host.tally.counts.items()}
    slots, archive = host.slots, host.archive
    for name, value in (
        ("frontlog_fetch_slots", slots.total),
        ("frontlog_fetch_slots_used", slots.in_use),
        ("frontlog_fetch_slots_closed", slots.closed),
        ("frontlog_archive_waiting", archive.load),
        ("frontlog_archive_full", bool(archive.full)),
        ("frontlog_archive_flushes_total", archive.flushes),
        ("frontlog_parser_load", host.parsers.load),
        ("frontlog_emitted_bytes_waiting", host.emitted_bytes()),
        ("frontlog_standbys_behind", bool(host.standbys is not None and host.standbys.behind)),
    ):
        found[name] = {(): float(value)}
    now_ms = host.clock.now_ms()
    for shard, (standby, head) in host.heads().items():
        labels = (shard,)
        found.setdefault("frontlog_shard_owned", {})[labels] = float(not standby)
        found.setdefault("frontlog_shard_seq", {})[labels] = head.seq
        if head.at_ms:
            age_s = max(0, now_ms - head.at_ms) / 1_000
            found.setdefault("frontlog_shard_batch_age_seconds", {})[labels] = age_s
    for runner in host.runners.values():
        if runner.ready.is_set():
            _of_shard(runner, now_ms, found)
    return found


def _of_shard(runner: KafkaRunner, now_ms: int, found: dict[str, dict[Labels, float]]) -> None:
    shard = runner.shard
    found.setdefault("frontlog_inputs_waiting", {})[runner.name,] = shard.inputs.count()
    for topic, lag in shard.inputs.lags(shard.head.positions).items():
        found.setdefault("frontlog_input_lag", {})[runner.name, topic] = lag
    if shard.role is Role.FRONTIER:
        with shard.store.begin() as txn:
            due = islice(txn.scan("ready", stop=ready_key(now_ms + 1, b"")), READY_MAX)
            found.setdefault("frontlog_hosts_ready", {})[runner.name,] = sum(1 for _ in due)
