"""Invariants of the whole, when the faults have stopped and all is quiet: liveness, leaks, archive, rebuilt = live.

What must have become of each URL is worked out from the web itself: where seeds lead through pages and redirects, under the
scope and under the robots files that are believed, and what each page is for good. What the crawler gave up while things
failed was asked for again by an operator before this; so nothing healthy may be missing.

Not checked: pages of origins whose robots.txt is out of reach for good; their URLs only have to be known.
"""

from collections.abc import Iterator
from typing import NamedTuple

from frontlog.avro.enums import Reason, RobotsState, State, Topic
from frontlog.avro.errors import FrontlogError
from frontlog.fetch.records import read_record, verify_archive
from frontlog.processors.settings import Settings
from frontlog.state import head as heads
from frontlog.state.catalogue import DIGESTED, STORE_TABLES
from frontlog.state.digest import recount
from frontlog.state.memory_store import MemoryStore
from frontlog.state.store import Store
from frontlog.state.tables import Tables
from frontlog.streams.embedded_log import EmbeddedLog
from frontlog.streams.fold import fold_batch
from frontlog.streams.playback import Playback
from frontlog.streams.topics import OUTBOX, TOPIC_IDS
from simulation.disk import Disk
from simulation.ledger import Ledger, ShardNote, UrlNote
from simulation.servers import Servers
from simulation.web import (
    Kind,
    Page,
    RobotsAnswer,
    Web,
    base_of,
    is_public,
    origin_of,
    split_origin,
    split_url,
)

R, S = Reason, State
HIDDEN = frozenset({"gzip_cut", "short_length"})
PARKED = frozenset({"bomb", "header"})
WITHHELD = frozenset({S.BLOCKED, S.GONE, S.SUPPRESSED})
TAKEN_BACK = frozenset({R.GONE, R.ROBOTS_DENIED, R.OPERATOR_BLOCK, R.OUT_OF_SCOPE, R.SUPPRESSED})
WAITS = frozenset({S.DISCOVERED, S.ELIGIBLE, S.LEASED, S.DEFERRED})
NOT_ALLOWED = frozenset({S.BLOCKED, S.FAILED, S.QUARANTINED, S.GONE})
"""Where a URL may be that must not be fetched; what was given up before it was forbidden stays so."""
HOPS_MAX = 5


class Whole(NamedTuple):
    """Everything, at the end."""

    ledger: Ledger
    servers: Servers
    web: Web
    settings: Settings
    disk: Disk


def judge(at: Whole) -> tuple[str, int, str] | None:
    """(invariant, its number, what is wrong), or nothing."""
    for name, number, check in ENDS:
        wrong = next(check(at), None)
        if wrong is not None:
            return name, number, wrong
    return None


# --- what must have become of a URL -----------------------------------------------------------------------------


def is_doomed(web: Web, origin_key: str) -> bool:
    """Whether an origin's robots.txt is out of reach for good."""
    host = web.host_of(origin_key)
    if any(answer.error for answer in [host.names.last()]):
        return False
    answer, url = host.robots[origin_key].last(), f"{base_of(origin_key)}/robots.txt"
    for hop in range(HOPS_MAX + 1):
        if not answer.healthy or answer.lie == "cut":
            return True
        if not answer.location:
            return False
        if hop == HOPS_MAX:
            return False
        base, _ = split_url(url)
        url = answer.location if "://" in answer.location else f"{base}{answer.location}"
        at_host = web.hosts[split_origin(origin_of(url))[1]]
        if _unreachable(at_host.names.last().addresses, at_host.names.last().error):
            return True
        answer = at_host.alternates.get(split_url(url)[1]) or RobotsAnswer(status=404)
    return False


def _unreachable(addresses: tuple[str, ...], error: str) -> bool:
    return bool(error) or not all(map(is_public, addresses))


def expected(at: Whole, url: str, note: UrlNote) -> tuple[frozenset[State], str]:
    """The states that a URL may be in, and why those."""
    origin, host = note.origin_key, at.web.host_of(note.origin_key)
    shard = at.ledger.shards[f"frontier-{host.partition}"]
    mode, rules = at.settings.scope.mode, at.settings.scope
    sites = {at.web.hosts[name].site for name in at.ledger.seeded_hosts}
    inside = mode == "any" or (host.site in sites if mode == "site" else host.name in at.ledger.seeded_hosts)
    if at.ledger.blocked(shard, origin, host.site):
        return NOT_ALLOWED, "an operator blocked it"
    if not inside or note.depth > rules.depth_max:
        return NOT_ALLOWED, f"out of scope (depth {note.depth})"
    belief = at.ledger.beliefs[origin]
    file = at.servers.files.get(belief.text) if belief.text is not None else None
    if file is not None and not file.allows(split_url(note.requested or url)[1]):
        return NOT_ALLOWED, "robots.txt denies it"
    names = host.names.last()
    if names.error:
        return frozenset({S.FAILED, S.DEFERRED}), "its host has no address"
    if _unreachable(names.addresses, ""):
        return frozenset({S.BLOCKED}), "its host has an internal address"
    if belief.state in (RobotsState.UNREACHABLE, RobotsState.UNKNOWN) and is_doomed(at.web, origin):
        return frozenset(S), "its robots.txt is out of reach"
    return _by_page(at.web.page(note.requested or url) or Page(Kind.MISSING))


def _by_page(page: Page) -> tuple[frozenset[State], str]:
    by_kind: dict[Kind, frozenset[State]] = {
        Kind.REDIRECT: frozenset({S.FETCHED, S.FAILED}), Kind.BAD_REDIRECT: frozenset({S.FAILED}),
        Kind.MISSING: frozenset({S.GONE}), Kind.GONE: frozenset({S.GONE}), Kind.FORBIDDEN: frozenset({S.FAILED}),
        Kind.WRONG_TYPE: frozenset({S.QUARANTINED}), Kind.OVERSIZE: frozenset({S.QUARANTINED}),
        Kind.SICK: frozenset({S.QUARANTINED, S.FAILED}),
    }  # fmt: skip
    if page.lie in HIDDEN:
        return frozenset({S.QUARANTINED, S.FAILED}), "it never comes whole"
    if page.lie in PARKED:
        return frozenset({S.QUARANTINED}), "it breaks a limit"
    return by_kind.get(page.kind, frozenset({S.FETCHED})), f"it is a {page.kind.value}"


def is_settled(at: Whole, url: str, note: UrlNote) -> bool:
    """Whether nothing more is to happen to a URL."""
    return note.state not in WAITS or note.state in expected(at, url, note)[0]


def is_wronged(at: Whole, url: str, note: UrlNote) -> bool:
    """Whether a URL was given up that would be fetched now, so that an operator would ask for it again."""
    given_up = note.state in (S.FAILED, S.QUARANTINED, S.GONE)
    return given_up and note.state not in expected(at, url, note)[0]


def everything_reachable_is_fetched(at: Whole) -> Iterator[str]:
    """Whatever seeds lead to has become what it must."""
    seen, todo = set(at.web.seeds), sorted(at.web.seeds, reverse=True)
    while todo:
        url = todo.pop()
        note = at.ledger.urls.get(url)
        if note is None:
            yield f"{url} is lost: it was never heard of"
            continue
        states, why = expected(at, url, note)
        if note.state not in states:
            wanted = ", ".join(sorted(states))
            yield f"{url} is {note.state} ({note.reason}: {note.detail}); {why}: {wanted} is due"
        page = at.web.page(note.requested or url)
        leads = page is not None and note.state is S.FETCHED and page.kind in (Kind.PAGE, Kind.REDIRECT)
        for link in page.links if page is not None and leads else ():
            if link.identity not in seen:
                seen.add(link.identity)
                todo.append(link.identity)


def nothing_discovered_is_forgotten(at: Whole) -> Iterator[str]:
    """Every link that reached `discoveries` is a row."""
    for url in at.ledger.discovered:
        if url not in at.ledger.urls:
            yield f"{url} is on discoveries, but has no row"


def nothing_leaks(at: Whole) -> Iterator[str]:
    """No lease, slot, errand, undecided input or undelivered emission is left."""
    for attempt in at.ledger.leases:
        yield f"the lease {attempt} never ended"
    for name, shard in at.ledger.shards.items():
        with at.disk.store(name).begin() as txn:
            tables = Tables(txn)
            if txn.count("leases"):
                yield f"{name}: {txn.count('leases')} rows are left in leases"
            for _, host in tables.hosts.scan():
                if host.errands_wanted and host.ready_ms < 0:
                    yield f"{name}: an errand waits for {host.host}, whose turn never comes"
                if host.in_flight or host.errand:
                    yield f"{name}: {host.host} still has a request in flight"
            for key, address in tables.addresses.scan():
                if address.in_flight:
                    yield f"{name}: {key.decode()} still has {address.in_flight} requests in flight"
            log = EmbeddedLog(at.disk.store(name), TOPIC_IDS).within(txn)
            for topic in (
                Topic.FETCH_RESULTS,
                Topic.DISCOVERIES,
                Topic.CONTROL,
                Topic.CONTENT_VERDICTS,
                Topic.CANDIDATES,
            ):
                if log.bounds(topic, shard.partition)[1] != shard.positions.get(topic, 0):
                    yield f"{name}: {topic} is not decided to its end"
            first, end = log.bounds(OUTBOX, shard.partition)
            if first != end and int.from_bytes(txn.get("meta", b"outbox") or b"", "big") != end:
                yield f"{name}: the outbox holds what was not delivered"


def an_output_for_each_document(at: Whole) -> Iterator[str]:
    """A document was given out, or its URL may not be."""
    for event_id in sorted(at.ledger.documents - at.ledger.fetched - at.ledger.withheld):
        yield f"document {event_id} was never given out"


def archive_is_whole(at: Whole) -> Iterator[str]:
    """Segments are whole; what results point at is there, and is what the server sent."""
    for problem in verify_archive(at.disk.files):
        yield f"archive: {problem}"
    for attempt, result in at.ledger.accepted.items():
        if result.body is None:
            continue
        try:
            record = read_record(at.disk.files, result.body)
        except FrontlogError as error:
            yield f"{attempt}: {error}"
            continue
        served = at.servers.record[attempt]
        whole = record.type == "response" and not result.truncated
        if record.target_uri != served.url or (whole and record.payload != served.answer.body):
            yield f"{attempt}: the archive holds {record.payload[:40]!r}, {served.answer.body[:40]!r} was sent"


def rebuilt_equals_live(at: Whole) -> Iterator[str]:
    """Folding a shard's log into empty tables gives its tables and head, row by row."""
    for name, shard in at.ledger.shards.items():
        yield from differences(shard, at.disk.store(name))


def differences(shard: ShardNote, live: Store) -> Iterator[str]:
    """How the tables of a shard differ from what its log says."""
    rebuilt = MemoryStore(STORE_TABLES)
    try:
        with rebuilt.begin(write=True) as txn:
            tables = Tables(txn)
            for logged in Playback(EmbeddedLog(live, TOPIC_IDS), shard.role, shard.partition).batches():
                decisions = [(d.event, d.record.value) for d in logged.decisions]
                tables = Tables(txn, fold_batch(tables, decisions, logged.batch, logged.written))
            heads.save(txn, tables.head)
            txn.commit()
    except FrontlogError as error:
        yield f"{shard.name}: {error}"
        return
    with rebuilt.begin() as ours, live.begin() as theirs:
        for table in DIGESTED:
            rows, wanted = list(ours.scan(table)), list(theirs.scan(table))
            if rows != wanted:
                yield f"{shard.name}: {table} rebuilt has {len(rows)} rows, live {len(wanted)}, or they differ"
        head = heads.load(theirs)
        if heads.load(ours) != head:
            yield f"{shard.name}: the head rebuilt is {heads.load(ours)}, live {head}"
        for table, (value, count) in head.digests.items():
            again = recount(theirs.scan(table))
            if (again.value(), again.rows) != (value, count):
                yield f"{shard.name}: the digest of {table} is not that of its rows"


def what_was_given_out_stands(at: Whole) -> Iterator[str]:
    """The last that others were told of a page is true: it is there, or it was taken back."""
    for url, is_there in at.ledger.given_out.items():
        note = at.ledger.urls[url]
        if is_there and note.state in WITHHELD and note.reason in TAKEN_BACK:
            yield f"{url} is {note.state} ({note.reason}), but was never taken back"
        if not is_there and note.state is S.FETCHED and note.reason in (R.OK, R.NOT_MODIFIED):
            yield f"{url} was taken back and is FETCHED ({note.reason}) again, but nobody was told"


ENDS = (
    ("nothing_discovered_is_forgotten", 0, nothing_discovered_is_forgotten),
    ("everything_reachable_is_fetched", 0, everything_reachable_is_fetched),
    ("nothing_leaks", 0, nothing_leaks),
    ("an_output_for_each_document", 9, an_output_for_each_document),
    ("archive_is_whole", 9, archive_is_whole),
    ("rebuilt_equals_live", 0, rebuilt_equals_live),
    ("what_was_given_out_stands", 12, what_was_given_out_stands),
)
