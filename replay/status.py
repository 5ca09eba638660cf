"""`frontlog status`: how a crawl stands, from its tables and its folder; nothing is folded, nothing is waited for.

Each shard is looked at in one snapshot, one after the other, also while a crawl runs.
"""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

from frontlog.avro.codec import decode
from frontlog.avro.enums import PolicyAct, ScopeKind, State, Topic
from frontlog.avro.events import Event, OwnershipTaken, PartitionPaused
from frontlog.replay.collisions import tallies, unlearned
from frontlog.replay.folder import OpenShard, archive_size, log_bytes, open_shard, owner_of, shards_of
from frontlog.replay.shapes import Act, PartitionStatus, Rule, SitemapStatus, Status, Tally
from frontlog.state import head as heads
from frontlog.state.catalogue import META
from frontlog.state.rows import PolicyRow, SitemapRow
from frontlog.state.store import Txn
from frontlog.state.tables import Tables
from frontlog.streams.embedded import DURABILITY_KEY
from frontlog.streams.survey import Survey, count_content, count_urls, look_at_hosts
from frontlog.streams.topics import Role, input_topics

WAITING_SHOWN = 50
SITEMAPS_SHOWN = 10
WAITING = frozenset({State.DISCOVERED, State.ELIGIBLE, State.LEASED, State.FETCHED})
SIGNALS_SHOWN = 50
WINDOW_RECORDS = 1_000
E = TypeVar("E", bound=Event)
_LASTING = {
    PolicyAct.BLOCK: PolicyAct.UNBLOCK, PolicyAct.PAUSE: PolicyAct.RESUME, PolicyAct.SLOW: PolicyAct.SLOW,
    PolicyAct.READMIT: PolicyAct.READMIT,
}  # fmt: skip
_ENDS = {end: act for act, end in _LASTING.items()}


def status(folder: Path) -> Status:
    """How the crawl in a folder stands. Raises ConfigError when there is none."""
    refs = shards_of(folder)
    owner = owner_of(folder)
    survey = Survey()
    now_ms = int(time.time() * 1_000)
    partitions: list[PartitionStatus] = []
    acts: dict[Act, None] = {}
    durabilities: set[str] = set()
    signals: list[Tally] = []
    withdrawn: list[Rule] = []
    rejects = leases = 0
    sitemaps: list[tuple[SitemapRow, str]] = []
    for ref in refs:
        with open_shard(ref) as shard, shard.store.begin() as txn:
            partitions.append(_partition(shard, txn))
            durabilities.add((txn.get(META.name, DURABILITY_KEY) or b"").decode("ascii", "replace"))
            rejects += _rejects(shard, txn)
            if ref.role is Role.CONTENT:
                count_content(txn, survey)
                continue
            count_urls(txn, survey)
            look_at_hosts(txn, survey, now_ms)
            leases += txn.count("leases")
            sitemaps += _sitemaps_of(Tables(txn))
            signals += [one for one in tallies(txn) if one.signalled_ms]
            withdrawn += unlearned(txn)
            acts |= dict.fromkeys(_acts(shard, txn))
    waiting = sorted(survey.waiting, key=lambda host: (-host.urls, host.host))
    archive_bytes, archive_files = archive_size(folder)
    return Status(
        folder=str(folder),
        at_ms=now_ms,
        running=owner is not None,
        pid=owner.pid if owner is not None else 0,
        # Every shard is opened alike; a folder that was touched by hand may say otherwise.
        durability="/".join(sorted(durabilities - {""})),
        partitions=tuple(partitions),
        counts=survey.state_counts(),
        hosts=survey.hosts,
        waiting=tuple(waiting[:WAITING_SHOWN]),
        waiting_hosts=len(waiting),
        acts=tuple(sorted(acts, key=lambda act: act.at_ms)),
        documents=survey.documents,
        sitemaps=_sitemaps(sitemaps),
        rejects=rejects,
        log_bytes=log_bytes(folder),
        archive_bytes=archive_bytes,
        archive_files=archive_files,
        leases=leases,
        signals=tuple(sorted(signals, key=lambda one: -one.signalled_ms)[:SIGNALS_SHOWN]),
        withdrawn=tuple(sorted(withdrawn, key=lambda one: -one.at_ms)[:SIGNALS_SHOWN]),
    )


def _sitemaps_of(tables: Tables) -> Iterator[tuple[SitemapRow, str]]:
    """Each sitemap and what is wrong with it: in its contents, or why it was never read."""
    for key, row in tables.sitemaps.scan():
        url = tables.urls.get(key)
        fault = row.fault or (f"{row.faults} faults" if row.faults else "")
        if not row.read_ms and url is not None and url.state not in WAITING:
            fault = f"{url.state.value}, {url.reason.value}: {url.reason.doc}"
        yield row, fault


def _sitemaps(found: list[tuple[SitemapRow, str]]) -> SitemapStatus:
    faulty = [(row.url, fault) for row, fault in found if fault]
    return SitemapStatus(
        files=len(found),
        read=sum(bool(row.read_ms) for row, _ in found),
        urls=sum(row.urls for row, _ in found),
        faulty=len(faulty),
        shown=tuple(faulty[:SITEMAPS_SHOWN]),
    )


def _partition(shard: OpenShard, txn: Txn) -> PartitionStatus:
    head = heads.load(txn)
    log = shard.log.within(txn)
    waiting = 0
    for topic in input_topics(shard.ref.role):
        first, end = log.bounds(topic, shard.partition)
        waiting += end - max(first, head.positions.get(topic, 0))
    return PartitionStatus(
        partition=shard.partition,
        seq=head.seq,
        owner_token=head.owner_token,
        owner=_owner(shard, txn),
        paused=Tables(txn, head).crawl.paused,
        inputs_waiting=waiting,
        at_ms=head.at_ms,
        shard=shard.name,
    )


def _owner(shard: OpenShard, txn: Txn) -> str:
    """The process that took the shard over last."""
    found = _newest(shard, txn, OwnershipTaken)
    return found[0].owner if found is not None else ""


def _newest(shard: OpenShard, txn: Txn, kind: type[E]) -> tuple[E, int] | None:
    """The newest decision of a kind on `ownership`, and its time."""
    log = shard.log.within(txn)
    first, end = log.bounds(Topic.OWNERSHIP, shard.partition)
    while end > first:
        start = max(first, end - WINDOW_RECORDS)
        for record in reversed(log.read(Topic.OWNERSHIP, shard.partition, start, records_max=end - start)):
            event = decode(record.value)
            if isinstance(event, kind):
                return event, record.timestamp_ms
        end = start
    return None


def _rejects(shard: OpenShard, txn: Txn) -> int:
    first, end = shard.log.within(txn).bounds(Topic.REJECTS, shard.partition)
    return end - first


def _acts(shard: OpenShard, txn: Txn) -> Iterator[Act]:
    """Operators' acts in force: of each scope the newest of its kind, unless it took another away."""
    tables = Tables(txn)
    newest: dict[tuple[bytes, PolicyAct], tuple[bytes, bytes, PolicyRow]] = {}
    for key, row in tables.policies.scan():
        if row.act in _LASTING or row.act in _ENDS:
            scope, seq = key[:-9], key[-8:]
            # A block of the partition and one of the crawl are one flag here: the later word holds.
            whole = b"crawl:" if scope.startswith(b"partition:") else scope
            slot = whole, _ENDS.get(row.act, row.act)
            if slot not in newest or newest[slot][0] < seq:
                newest[slot] = seq, scope, row
    for (_, act), (_, scope, row) in newest.items():
        empty = (act is PolicyAct.SLOW and not row.gap_ms) or (act is PolicyAct.READMIT and not row.settings)
        if row.act is act and not empty:
            kind, _, name = scope.decode().partition(":")
            yield Act(act, ScopeKind.named(kind), name, row.at_ms, row.gap_ms, row.actor, row.note)
    if tables.crawl.paused and (found := _newest(shard, txn, PartitionPaused)) is not None:
        event, at_ms = found
        name = str(shard.partition)
        yield Act(PolicyAct.PAUSE, ScopeKind.PARTITION, name, at_ms, actor=event.actor, note=event.note)
