"""Any sequence of discoveries, results, wishes, crashes and time keeps the rules; Hypothesis chooses the sequence.

After each rule: the log rebuilds the tables; rows, indexes, counts and digests agree (`support/invariants.py`); no lease
breaks politeness, a block, a pause or robots.txt (`support/rival.py`). When the faults stop, everything that may be
fetched is fetched (`heal`).

Not verified: content's documents (tests/processors/test_content.py), and the real fetchers.
"""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from msgspec.structs import replace

from frontlog.avro.enums import FetchKind, Reason, ScopeKind, SourceKind, State, Topic
from frontlog.avro.events import Control, Discovery, FetchResult, LeaseExtension, ParseFacts
from frontlog.processors import canonical, robots_txt
from frontlog.processors.leased import Lease
from frontlog.processors.sites import split_origin
from frontlog.state import keys
from frontlog.state.rows import UrlRow
from frontlog.streams.shard import Shard
from support.driver import Driver
from support.invariants import Twin, assert_consistent
from support.odd import (
    ADDRESSES,
    DEPTH_MAX,
    LEASE_MS,
    LOOK_UP_REASONS,
    NO_ANSWERS,
    NOT_ASKED,
    ORIGINS,
    PARTITIONS,
    PATHS,
    ROBOTS_STATUSES,
    ROUNDS_MAX,
    SCOPES,
    STATUSES,
    TEXTS,
    TIMES,
    TOKEN,
    TOTALS,
    URLS,
    WAITS,
)
from support.rival import DAY_MS, Rival

PICK = st.integers(0, 1 << 16)


class PartitionMachine(RuleBasedStateMachine):
    """Two frontier shards and one of content, a web that answers as it is told, and a rival who watches."""

    def __init__(self) -> None:
        super().__init__()
        self.crawl = Driver(partitions=PARTITIONS)
        self.rival = Rival()
        self.twins = {name: Twin(shard) for name, shard in self.crawl.shards.items()}
        self.open: list[Lease] = []
        self.robots: dict[str, tuple[bytes, int, int]] = {}
        """Of each origin that told: text in force, until when it serves while robots.txt is unreachable (0: it is
        not), and until when its Crawl-delay is believed."""
        self.told: list[tuple[Lease, FetchResult]] = []

    def frontier(self) -> list[Shard]:
        return [self.crawl.frontier(number) for number in range(PARTITIONS)]

    @property
    def now_ms(self) -> int:
        return self.crawl.clock.at_ms

    def tick(self, wanted: int) -> None:
        """One step of everything, watched."""
        gone = self.rival.expired(self.now_ms)
        self.open = [lease for lease in self.open if lease not in gone]
        found = self.crawl.step(wanted)
        self.rival.leases(found, self.now_ms)
        for lease in found:
            if lease.kind is FetchKind.PAGE:
                self.assert_allowed(lease)
        self.open += found

    def assert_allowed(self, lease: Lease) -> None:
        text, until_ms, _ = self.robots[lease.origin_key]
        assert until_ms == 0 or until_ms > self.now_ms, f"{lease.requested}: its robots.txt is unreachable"
        assert robots_txt.verdict(robots_txt.parse(text), TOKEN, lease.requested).allowed, lease.requested

    # --- rules ------------------------------------------------------------------------------------------------

    @rule(
        urls=st.lists(st.sampled_from(URLS), min_size=1, max_size=6),
        kind=st.sampled_from(list(SourceKind)),
        depth=st.sampled_from([0, 0, 1, 17]),
        priority=st.integers(0, 4),
    )
    def discover(self, urls: list[str], kind: SourceKind, depth: int, priority: int) -> None:
        self.offer_links(urls, kind, depth, priority)
        self.tick(0)

    def offer_links(self, urls: Sequence[str], kind: SourceKind, depth: int, priority: int) -> None:
        for origin_key in {split_origin(url)[0] for url in urls}:
            own = tuple(url for url in urls if split_origin(url)[0] == origin_key)
            self.crawl.pipe(
                Topic.DISCOVERIES,
                Discovery(
                    event_id=f"{self.now_ms} {own}", origin_key=origin_key, source_kind=kind, at_ms=self.now_ms,
                    depth=depth, priority=priority, parts=1, urls=own, raws=("",) * len(own), anchors=("",) * len(own),
                    rels=("nofollow",) + ("",) * (len(own) - 1),
                ),
            )  # fmt: skip

    @initialize(origins=st.sets(st.sampled_from(ORIGINS), min_size=1))
    def seed(self, origins: set[str]) -> None:
        for origin in sorted(origins):
            self.offer_links([origin + path for path in PATHS], SourceKind.SEED, 0, 1)
        self.tick(0)

    @rule(wanted=st.sampled_from([1, 2, 100]))
    def claim(self, wanted: int) -> None:
        self.tick(wanted)

    @precondition(lambda self: self.open)
    @rule(pick=PICK)
    def answer(self, pick: int) -> None:
        self.odd(self.open[pick % len(self.open)], pick)

    def odd(self, lease: Lease, pick: int) -> None:
        """End a lease in one of all the ways there are; `pick` chooses."""
        pick, links = divmod((pick + 1) * 40_503 % 65_537, len(URLS))  # small picks, too, lead everywhere
        pick, total_ms = divmod(pick, len(TOTALS))
        if pick % 3 == 0:
            reasons = LOOK_UP_REASONS if lease.kind is FetchKind.RESOLVE else NO_ANSWERS
            self.end(
                lease, self.result(lease, TOTALS[total_ms] or 1, reason=reasons[pick // 3 % len(reasons)])
            )
        elif lease.kind is FetchKind.RESOLVE:
            self.end(lease, self.looked_up(lease))
        elif lease.kind is FetchKind.ROBOTS:
            result = self.result(lease, TOTALS[total_ms], status=ROBOTS_STATUSES[pick % len(ROBOTS_STATUSES)])
            location = (f"{ORIGINS[links % len(ORIGINS)]}/robots.txt", "/robots2.txt", "")[links % 3]
            waits = sorted(WAITS)[links % len(WAITS)]
            redirects, text = result.status in (301, 302), TEXTS[links % len(TEXTS)]
            result = replace(result, retry_after=waits, location=location if redirects else "")
            self.end(lease, replace(result, robots_txt=text if result.status == 200 else b""))
        else:
            status = STATUSES[pick % len(STATUSES)]
            self.page(lease, self.result(lease, TOTALS[total_ms], status=status), links)

    def page(self, lease: Lease, result: FetchResult, pick: int) -> None:
        """The answer to a page, with its links or its redirect."""
        found = (URLS[pick % len(URLS)], URLS[pick * 7 % len(URLS)])
        if result.status in (301, 302):
            result = replace(result, location=found[0])
            self.offer_links(found[:1], SourceKind.REDIRECT, lease.depth, 1)
        elif result.status in (429, 503):
            result = replace(result, retry_after=sorted(WAITS)[pick % len(WAITS)])
        elif 200 <= result.status < 300:
            result = replace(result, etag='"1"', parse=ParseFacts(text_sha256=bytes(32)))
            self.offer_links(found, SourceKind.PAGE, lease.depth + 1, 2)
        self.end(lease, result)

    def looked_up(self, lease: Lease) -> FetchResult:
        address = ADDRESSES.get(lease.host) or self.crawl.web.address_of(lease.host)
        return replace(self.result(lease, 0), address=address, addresses=(address,), ttl_ms=600_000)

    def result(
        self, lease: Lease, total_ms: int, *, status: int = 0, reason: Reason = Reason.OK
    ) -> FetchResult:
        return FetchResult(
            event_id=f"{lease.partition} {lease.kind} {lease.fence} {lease.url}", kind=lease.kind,
            origin_key=lease.origin_key, host=lease.host, url=lease.url, requested=lease.requested, fence=lease.fence,
            asker=lease.asker, policy_version=lease.policy_version, started_ms=self.now_ms - total_ms,
            ended_ms=self.now_ms, total_ms=total_ms, address="" if reason in NOT_ASKED else lease.address, status=status,
            reason=reason, chain=lease.chain,
        )  # fmt: skip

    def end(self, lease: Lease, result: FetchResult) -> None:
        """Offer a result, and tell the rival."""
        self.open.remove(lease)
        self.told.append((lease, result))
        self.crawl.pipe(Topic.FETCH_RESULTS, result, lease.partition)
        if lease.kind is FetchKind.ROBOTS:
            self.robots_said(lease, result)
        waits = result.status in (429, 503)
        self.rival.ended(lease, result, retry_after_ms=WAITS[result.retry_after] if waits else 0)
        self.tick(0)

    def robots_said(self, lease: Lease, result: FetchResult) -> None:
        """What an answer to robots.txt makes of the asking origin (RFC 9309 §2.3.1)."""
        if result.reason in (Reason.RELEASED, Reason.ADDRESS_CHANGED):
            return
        origin, before = lease.origin_key, self.robots.get(lease.origin_key)
        target = canonical.canonicalize(result.location, base=lease.requested) if result.location else None
        visited = (*lease.chain, lease.requested)
        follow = (
            isinstance(target, canonical.Identity) and len(visited) <= 5 and target.requested not in visited
        )
        status = 404 if result.location else result.status
        if follow:
            pass  # what is in force stays
        elif 200 <= status < 500 and status != 429 and not 300 <= status < 400:
            text = result.robots_txt if status < 300 else b""
            self.robots[origin] = (text, 0, result.started_ms + DAY_MS)
        elif before is not None and before[1] == 0:
            self.robots[origin] = (before[0], self.now_ms + DAY_MS, self.now_ms + DAY_MS)
        self.delay(origin, result)

    def delay(self, origin: str, result: FetchResult) -> None:
        """A Crawl-delay holds for the whole host; a longer one at once."""
        host = keys.split_origin_key(origin)[1]
        delay_ms = 0
        for other, (text, _, believed_ms) in self.robots.items():
            if keys.split_origin_key(other)[1] == host and believed_ms > self.now_ms:
                delay_ms = max(delay_ms, robots_txt.parse(text).group(TOKEN).crawl_delay_ms or 0)
        if delay_ms > self.rival.delay_ms.get(host, 0):
            rest_ms = result.ended_ms + min(delay_ms, 3_600_000)
            self.rival.host_next_ms[host] = max(self.rival.host_next_ms.get(host, 0), rest_ms)
        self.rival.delay_ms[host] = min(delay_ms, 3_600_000)

    @precondition(lambda self: self.told)
    @rule(pick=PICK)
    def repeat_a_result(self, pick: int) -> None:
        lease, result = self.told[pick % len(self.told)]
        before = self.url_rows()
        self.crawl.pipe(Topic.FETCH_RESULTS, result, lease.partition)
        self.tick(0)
        assert {k: r for k, r in self.url_rows().items() if r.state is not State.ELIGIBLE} == {
            k: r for k, r in before.items() if self.url_rows()[k].state is not State.ELIGIBLE
        }

    def url_rows(self) -> dict[bytes, Any]:
        return dict(self.crawl.rows("urls"))

    @precondition(lambda self: any(lease.kind is FetchKind.PAGE for lease in self.open))
    @rule(pick=PICK, more_ms=st.sampled_from([1_000, 60_000, 10_000_000]))
    def extend(self, pick: int, more_ms: int) -> None:
        pages = [lease for lease in self.open if lease.kind is FetchKind.PAGE]
        lease = pages[pick % len(pages)]
        wanted = self.rival.under_way[lease.host].deadline_ms + more_ms
        wish = LeaseExtension(
            event_id="more", origin_key=lease.origin_key, url=lease.url, fence=lease.fence, deadline_ms=wanted
        )
        self.crawl.pipe(Topic.FETCH_RESULTS, wish, lease.partition)
        deadline = min(wanted, self.now_ms + LEASE_MS)
        if deadline > lease.deadline_ms:
            longer = replace(lease, deadline_ms=deadline)
            self.open[self.open.index(lease)] = longer
            self.rival.extended(longer, deadline)
        self.tick(0)

    @rule(cmd=st.sampled_from(["pause", "resume", "block", "unblock"]), scope=st.sampled_from(SCOPES))
    def control(self, cmd: str, scope: tuple[ScopeKind, str]) -> None:
        kind, target = scope
        if kind is not ScopeKind.PARTITION or cmd in ("pause", "resume"):
            self.wish(Control(cmd=cmd, target_kind=kind, target=target, actor="test"))

    @rule(host=st.sampled_from(["a.example", "d.example"]), gap_ms=st.sampled_from([0, 5_000, 7_200_000]))
    def slow(self, host: str, gap_ms: int) -> None:
        self.wish(Control(cmd="slow", target_kind=ScopeKind.HOST, target=host, gap_ms=gap_ms, actor="test"))

    @rule(url=st.sampled_from(URLS))
    def recrawl(self, url: str) -> None:
        self.wish(
            Control(cmd="recrawl", target_kind=ScopeKind.CRAWL, urls=(url,), actor="test"), everywhere=False
        )

    def wish(self, wish: Control, *, everywhere: bool = True) -> None:
        crawl_wide = everywhere and wish.target_kind is ScopeKind.CRAWL
        for number in range(PARTITIONS if crawl_wide else 1):
            self.crawl.control(wish, number)
        self.tick(0)
        self.rival.control(wish)
        if wish.cmd == "slow" and wish.gap_ms:
            later = self.now_ms + wish.gap_ms
            self.rival.host_next_ms[wish.target] = max(self.rival.host_next_ms.get(wish.target, 0), later)

    @rule(ms=st.sampled_from(TIMES))
    def pass_time(self, ms: int) -> None:
        self.crawl.clock.advance(ms)

    @rule(rounds=st.integers(1, 12), text=st.sampled_from(TEXTS[:4]), picks=st.lists(PICK, max_size=8))
    def go_on(self, rounds: int, text: bytes, picks: list[int]) -> None:
        """Some rounds of a crawl, so that faults also meet one that has come far; `picks` are answers that are odd."""
        for _ in range(rounds):
            self.round(text, picks)
            self.wait()

    def round(self, text: bytes, picks: list[int]) -> None:
        """Claim all there is, and answer it, well where `picks` is empty."""
        self.tick(100)
        for lease in list(self.open):
            if lease not in self.open:
                continue
            if picks:
                self.odd(lease, picks.pop())
            elif lease.kind is FetchKind.RESOLVE:
                self.end(lease, self.looked_up(lease))
            elif lease.kind is FetchKind.ROBOTS:
                self.end(lease, replace(self.result(lease, 20, status=200), robots_txt=text))
            else:
                facts = ParseFacts(text_sha256=bytes(32))
                self.end(lease, replace(self.result(lease, 20, status=200), parse=facts))
        self.tick(0)

    def wait(self) -> bool:
        """Until the next turn of any host; False: there is none."""
        ready = [at for shard in self.frontier() if (at := self.next_ready_ms(shard)) is not None]
        self.crawl.clock.at_ms = max(self.now_ms, min(ready, default=0))
        return bool(ready)

    @rule()
    def restart(self) -> None:
        """Kill the process: its leases are released, results that were not logged are lost."""
        self.rival.lost(self.now_ms)
        self.open.clear()
        self.crawl.restart()

    # --- invariants -------------------------------------------------------------------------------------------

    @invariant()
    def rebuilt_equals_live(self) -> None:
        for name, shard in self.crawl.shards.items():
            self.twins[name].assert_equal(shard)

    @invariant()
    def rows_agree(self) -> None:
        for shard in self.frontier():
            assert_consistent(shard)

    # --- liveness ---------------------------------------------------------------------------------------------

    def teardown(self) -> None:
        self.heal()
        for name, shard in self.crawl.shards.items():
            self.twins[name].assert_equal(shard)

    def heal(self) -> None:
        """Faults stop and holds are lifted: all that may be fetched is fetched, within bounded time and work."""
        for kind, target, cmd in sorted(self.rival.held):
            self.wish(
                Control(cmd={"pause": "resume", "block": "unblock"}[cmd], target_kind=kind, target=target)
            )
        for host in ("a.example", "d.example"):
            self.wish(Control(cmd="slow", target_kind=ScopeKind.HOST, target=host))
        for _ in range(ROUNDS_MAX):
            self.round(TEXTS[1], [])
            if not self.open and not self.wait():
                break
        else:
            raise AssertionError("the crawl doesn't come to an end")
        self.assert_all_done()

    def next_ready_ms(self, shard: Shard) -> int | None:
        with shard.store.begin() as txn:
            first = txn.first("ready")
        return int.from_bytes(first[0][:8], "big") if first else None

    def assert_all_done(self) -> None:
        for row in self.url_rows().values():
            assert row.state not in (State.ELIGIBLE, State.LEASED, State.DEFERRED, State.DISCOVERED), row
            if row.state is State.BLOCKED and row.depth <= DEPTH_MAX:
                self.assert_blocked_rightly(row)

    def assert_blocked_rightly(self, row: UrlRow) -> None:
        origin_key, host = split_origin(row.url)
        known = self.crawl.host(host)
        assert known is not None
        if row.reason is Reason.BLOCKED_NETWORK or not known.seeds:
            return
        assert origin_key in self.robots, f"{row} although its robots.txt was never told"
        text = self.robots[origin_key][0]
        assert not robots_txt.verdict(robots_txt.parse(text), TOKEN, row.requested or row.url).allowed, row


@pytest.mark.no_cover  # the tracer would take longer than the rules; single tests reach what these sequences reach
def test_any_sequence_keeps_the_rules() -> None:
    run_state_machine_as_test(
        PartitionMachine,
        settings=settings(
            max_examples=25, stateful_step_count=40, deadline=None,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
        ),
    )  # fmt: skip
