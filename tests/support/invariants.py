"""What must hold of a shard's log and tables at any moment, said a second time, without the code that is tested.

Not verified here: what a fetcher does with its leases (tests/fetch), and that decisions are the best ones; only that
tables, indexes, counts and log agree, and that the log rebuilds the tables.
"""

from collections import Counter

from frontlog.avro.enums import FetchKind, RobotsState, State
from frontlog.processors import errands, url_counts
from frontlog.state import head as heads
from frontlog.state import keys
from frontlog.state.catalogue import DIGESTED, STORE_TABLES
from frontlog.state.digest import recount
from frontlog.state.memory_store import MemoryStore
from frontlog.state.rows import CLASSES, HostRow, OriginRow, UrlRow
from frontlog.state.store import Txn
from frontlog.state.tables import Tables
from frontlog.streams import fold
from frontlog.streams.playback import Playback
from frontlog.streams.shard import Shard

WAITING = (State.ELIGIBLE, State.DEFERRED)


class Twin:
    """A second set of tables that is folded from a shard's log alone, batch by batch as they come."""

    def __init__(self, shard: Shard) -> None:
        self.store = MemoryStore(STORE_TABLES)
        self.role, self.partition = shard.role, shard.partition

    def follow(self, shard: Shard) -> None:
        """Fold what was appended since; `fold_batch` checks chain and digests of each batch."""
        with self.store.begin(write=True) as txn:
            head = heads.load(txn)
            playback = Playback(
                shard.log, self.role, self.partition, seq=head.seq, token=head.owner_token, starts=head.next
            )
            for found in playback.batches():
                tables = Tables(txn, head)
                decisions = [(one.event, one.record.value) for one in found.decisions]
                head = fold.fold_batch(tables, decisions, found.batch, found.written)
            heads.save(txn, head)
            txn.commit()

    def assert_equal(self, shard: Shard) -> None:
        """Every table's rows, and the head, are those of the shard."""
        self.follow(shard)
        with self.store.begin() as ours, shard.store.begin() as theirs:
            for table in DIGESTED:
                rebuilt, live = dict(ours.scan(table)), dict(theirs.scan(table))
                assert rebuilt == live, f"{shard.name}: {table} differs: {_difference(rebuilt, live)}"
            assert heads.load(ours) == heads.load(theirs)


def _difference(rebuilt: dict[bytes, bytes], live: dict[bytes, bytes]) -> str:
    wrong = [key for key in {*rebuilt, *live} if rebuilt.get(key) != live.get(key)]
    return "; ".join(
        f"{k.hex()}: {rebuilt.get(k)!r} rebuilt, {live.get(k)!r} live" for k in sorted(wrong)[:3]
    )


def assert_consistent(shard: Shard) -> None:
    """Rows, indexes, counts and digests of a frontier shard agree with one another."""
    with shard.store.begin() as txn:
        head = heads.load(txn)
        for table, (total, rows) in head.digests.items():
            counted = recount(txn.scan(table))
            assert (counted.value(), counted.rows) == (total, rows), f"digest of {table}"
        tables = Tables(txn)
        origins = dict(tables.origins.scan())
        hosts = dict(tables.hosts.scan())
        known = dict(tables.urls.scan())
        _assert_counts(origins, hosts, known)
        _assert_indexes(txn, hosts, known)
        _assert_flights(tables, hosts, known)
        for host, row in hosts.items():
            _assert_ready(txn, host, row, origins, head.at_ms)


def _assert_counts(
    origins: dict[bytes, OriginRow], hosts: dict[bytes, HostRow], rows: dict[bytes, UrlRow]
) -> None:
    states, classes = Counter[tuple[bytes, State]](), Counter[tuple[bytes, int]]()
    for key, row in rows.items():
        origin = key[: keys.ORIGIN_ID_BYTES]
        states[origin, row.state] += 1
        classes[origin, row.priority] += url_counts.waits(row.state, row.due_ms)
    for origin, origin_row in origins.items():
        assert keys.origin_id(origin_row.origin_key) == origin
        assert url_counts.by_state(origin_row) == {state: states[origin, state] for state in State}
        assert url_counts.by_class(origin_row) == tuple(classes[origin, c] for c in range(CLASSES))
        host = hosts[origin[: keys.HOST_ID_BYTES]]
        suffixes = [host.origins[i : i + 3] for i in range(0, len(host.origins), 3)]
        assert origin[keys.HOST_ID_BYTES :] in suffixes
        assert suffixes == sorted(set(suffixes))
    assert {key[: keys.ORIGIN_ID_BYTES] for key in rows} <= set(origins)


def _assert_indexes(txn: Txn, hosts: dict[bytes, HostRow], rows: dict[bytes, UrlRow]) -> None:
    due = {
        keys.due_key(k, r.priority, r.due_ms) for k, r in rows.items() if url_counts.waits(r.state, r.due_ms)
    }
    assert {key for key, _ in txn.scan("due")} == due
    leases = {keys.lease_key(r.deadline_ms, 0, k) for k, r in rows.items() if r.state is State.LEASED}
    for host, row in hosts.items():
        errand = errands.unpack(row.errand)
        if errand is not None:
            leases.add(keys.lease_key(errand.deadline_ms, 1, host))
    assert {key for key, _ in txn.scan("leases")} == leases
    wanted = Counter(key[: keys.HOST_ID_BYTES] for key, _ in txn.scan("errands"))
    assert wanted == Counter({host: row.errands_wanted for host, row in hosts.items() if row.errands_wanted})
    ready = {keys.ready_key(row.ready_ms, host) for host, row in hosts.items() if row.ready_ms >= 0}
    assert {key for key, _ in txn.scan("ready")} == ready


def _assert_flights(tables: Tables, hosts: dict[bytes, HostRow], rows: dict[bytes, UrlRow]) -> None:
    leased = Counter(key[: keys.HOST_ID_BYTES] for key, row in rows.items() if row.state is State.LEASED)
    connected = Counter[str]()
    for host, row in hosts.items():
        errand = errands.unpack(row.errand)
        flights = leased[host] + (errand is not None)
        assert flights <= 1, f"{row.host}: {flights} requests at once"
        assert row.in_flight == flights, f"{row.host}: in_flight {row.in_flight}, {flights} under way"
        if leased[host] or (errand is not None and errand.kind is not FetchKind.RESOLVE):
            connected[row.address] += 1
    for address, budget in tables.addresses.scan():
        flights = connected[address.decode()]
        assert flights <= 1, f"{address!r}: {flights} requests at once"
        assert budget.in_flight == flights, f"{address!r}: in_flight {budget.in_flight}, {flights} under way"


def _assert_ready(txn: Txn, host: bytes, row: HostRow, origins: dict[bytes, OriginRow], now_ms: int) -> None:
    """A host with something to do has a turn, not before it may and not later than it must."""
    waits: list[int] = [0] if row.errands_wanted else []
    for origin, origin_row in origins.items():
        if origin[: keys.HOST_ID_BYTES] == host and not origin_row.paused:
            dues = [keys.due_parts(key)[1] for key, _ in txn.scan("due", origin, keys.after(origin))]
            waits += [max(min(dues), 0)] if dues else []
    if row.paused or row.in_flight or not waits:
        assert row.ready_ms == -1, f"{row.host} stands in `ready` with nothing to claim"
        return
    assert row.ready_ms >= row.next_eligible_ms, f"{row.host} has its turn before it may be asked"
    own = [o for k, o in origins.items() if k[: keys.HOST_ID_BYTES] == host]
    held = [
        o.robots_expires_ms for o in own if o.robots_state in (RobotsState.UNREACHABLE, RobotsState.UNKNOWN)
    ]
    latest = max(row.next_eligible_ms, min(waits), *held, now_ms)
    assert row.ready_ms <= latest, f"{row.host} has its turn at {row.ready_ms}, {latest} was enough"
