"""What happens when a fault strikes, and what is put right when they stop."""

import json

from frontlog.avro.codec import decode
from frontlog.avro.enums import FetchKind, SourceKind, State, Topic
from frontlog.avro.events import Discovery, LeaseExtension
from frontlog.processors.leased import Lease
from frontlog.streams import shard_runner
from frontlog.streams.batching import Offered
from frontlog.streams.embedded_log import EmbeddedLog
from frontlog.streams.records import NewRecord
from frontlog.streams.topics import TOPIC_IDS, Role, shard_name
from simulation.disk import ARCHIVE_WRITES, CUT, STORE_WRITES
from simulation.ending import is_wronged
from simulation.ledger import ShardNote
from simulation.owner import Owner
from simulation.plan import FaultEvent
from simulation.simulation import Simulation

CALM_POLL_S = 20.0
WISHES = ("pause", "resume", "block", "unblock", "slow", "recrawl", "recrawl", "recrawl", "seed")
SETTLE_S = 30.0
ASKED_MAX = 5
"""How often what was given up is asked for again. A page fails three times at most, so it isn't given up twice."""


class Faults:
    """Does to a simulation what its plan says."""

    def __init__(self, sim: Simulation) -> None:
        self.sim = sim
        self.rng = sim.plan.rng("faults")
        self.asked = 0

    def strike(self, event: FaultEvent) -> None:
        """One fault."""
        self.rng = self.sim.plan.rng(event.name)
        getattr(self, f"_{event.kind.name.lower()}")(event.amount)

    # --- deaths -----------------------------------------------------------------------------------------------

    def _crash(self, amount: float) -> None:
        self.sim.happened["crash"] += self.sim.kill_owner(restart_s=0.05 + 5 * amount)

    def _crash_write(self, amount: float) -> None:
        """At an operation of this process, or of the next one while it starts."""
        where = self.rng.choice((*STORE_WRITES, *ARCHIVE_WRITES, CUT))
        nth = 1 + int(self.rng.random() * (40 if where.startswith("between") else 3))
        if where == CUT and self.sim.owner is not None:
            self.sim.next_dies = (1, CUT)
            self.sim.owner.damage.die(1 + int(amount * 4), ARCHIVE_WRITES[0])
        elif amount > 0.7:
            self.sim.next_dies = (1 + int(self.rng.random() * 120), "")
            self.sim.kill_owner(restart_s=0.3)
        elif self.sim.owner is not None:
            self.sim.owner.damage.die(nth, where)

    def _power(self, amount: float) -> None:
        """At once, or while the archive is written."""
        if amount > 0.3 and self.sim.owner is not None:
            self.sim.owner.damage.die(1 + int(8 * amount), self.rng.choice(ARCHIVE_WRITES), power=True)
        else:
            self.sim.happened["power: at once"] += self.sim.kill_owner(restart_s=1 + 5 * amount)
            self.sim.disk.files.lose(0)

    def _stop(self, amount: float) -> None:
        if self.sim.owner is not None:
            self.sim.owner.stopping = True
            self.sim.happened["stop"] += 1

    def _takeover(self, amount: float) -> None:
        """The owner is stopped where it is, or when it has just handed leases out; another one starts; it wakes up."""
        owner = self.sim.owner
        if owner is not None and amount > 0.4:
            owner.at_hand_out = lambda: self._replace(owner, amount)
        elif owner is not None:
            self._replace(owner, amount)

    def _replace(self, owner: Owner, amount: float) -> None:
        sim = self.sim
        owner.at_hand_out = None
        if owner is not sim.owner or sim.others or not owner.opened or owner.ended:
            return
        sim.note(f"owner {owner.number} is stopped")
        sim.happened["takeover"] += 1
        owner.loop.freeze()
        owner.replaced = True
        sim.servers.disown(owner.number)
        sim.owner = None
        sim.others.append(owner)
        sim.later(0.2, sim.start_owner)
        sim.later(0.3 + 40 * self.rng.random() ** 2, lambda: self._wake(owner.number))

    def _wake(self, number: int) -> None:
        for other in self.sim.others:
            if other.number == number:
                self.sim.note(f"owner {number} wakes up")
                self.sim.happened["takeover: the stale owner wakes up"] += 1
                other.loop.thaw()

    # --- disks and clocks -------------------------------------------------------------------------------------

    def _full_log(self, amount: float) -> None:
        if self.sim.owner is not None:
            damage = self.sim.owner.damage
            damage.full_until_s = self.sim.scheduler.now + 20 * amount
            damage.full_at_put = int(amount * 1_000) % 40
            if amount > 0.7:
                self.sim.kill_owner(restart_s=0.2)  # and there is no room to start again

    def _full_archive(self, amount: float) -> None:
        if self.sim.owner is not None:
            self.sim.owner.damage.archive_full_until_s = self.sim.scheduler.now + 60 * amount

    def _slow_store(self, amount: float) -> None:
        if self.sim.owner is not None:
            damage = self.sim.owner.damage
            damage.slow_until_s = self.sim.scheduler.now + 10
            damage.slow_s = 6 * amount**4 + 0.05

    def _clock_step(self, amount: float) -> None:
        self.sim.happened[f"clock_step: {'forward' if amount > 0.5 else 'back'}"] += (
            self.sim.owner is not None
        )
        self.sim.step_clock((amount - 0.5) * (2_000 if amount > 0.8 or amount < 0.2 else 20))

    # --- inputs -----------------------------------------------------------------------------------------------

    def _late(self, amount: float) -> None:
        self.sim.post.late_s.append(60 * amount**2)

    def _misroute(self, amount: float) -> None:
        self.sim.post.misroute += 1 + int(3 * amount)

    def _lost_parser(self, amount: float) -> None:
        if self.sim.owner is not None:
            self.sim.owner.parsers_lost += 1 + int(3 * amount)

    def _repeat(self, amount: float) -> None:
        """An input of the past comes once more, maybe at a wrong partition. (Wishes of people aren't repeated: the same
        wish again is a new wish.)"""
        sim = self.sim
        if sim.owner is None or not sim.owner.opened or sim.owner.ended:
            return
        choice = [
            (name, topic, shard.partition, end)
            for name, shard in sorted(sim.ledger.shards.items())
            for topic, end in sorted(shard.read.items())
            if end and topic in (Topic.DISCOVERIES, Topic.FETCH_RESULTS, Topic.CANDIDATES, Topic.CONTENT_VERDICTS)
        ]  # fmt: skip
        if not choice:
            return
        if amount < 0.3:
            sim.owner.at_lease = self._for_lease
            return
        name, topic, partition, end = self.rng.choice(choice)
        self._again(name, topic, partition, self.rng.randrange(end))

    def _for_lease(self, lease: Lease) -> bool:
        """A result of an earlier lease comes when the next one for the same has just been handed out; False: none did."""
        name = shard_name(Role.FRONTIER, lease.partition)
        for offset, result in self.sim.ledger.shards[name].results.items():
            same = result.url == lease.url if lease.kind is FetchKind.PAGE else result.host == lease.host
            if result.kind is lease.kind and same and result.fence != lease.fence:
                self.sim.happened["repeat: a result of an earlier lease"] += 1
                self._again(name, Topic.FETCH_RESULTS, lease.partition, offset)
                return True
        return False

    def _again(self, name: str, topic: str, partition: int, offset: int) -> None:
        """Offer the input at an offset once more."""
        sim = self.sim
        assert sim.owner is not None
        record = EmbeddedLog(sim.disk.store(name), TOPIC_IDS).read(topic, partition, offset, records_max=1)[0]
        event = decode(record.value)
        if isinstance(event, Discovery) and event.source_kind in (SourceKind.SEED, SourceKind.OPERATOR):
            return
        if isinstance(event, LeaseExtension):
            return
        runners, to_content = sim.owner.host.runners, topic == str(Topic.CANDIDATES)
        number = len(runners) - 1 if to_content else partition
        if not to_content and self.rng.random() < 0.25:
            number = self.rng.randrange(sim.plan.partitions)
        sim.note(f"{topic}@{offset} of {name} comes again, at {number}: {type(event).__name__}")
        offered = Offered(Topic.named(topic), record.key, record.value)
        sim.owner.loop.call_soon(lambda: runners[number].offer(offered, None))
        sim.happened[f"repeat: {topic}"] += 1
        sim.happened["repeat: at another partition"] += number != partition and not to_content

    # --- people -----------------------------------------------------------------------------------------------

    def _operator(self, amount: float) -> None:
        cmd = WISHES[int(amount * len(WISHES))]
        host = self.rng.choice(sorted(self.sim.web.hosts.values(), key=lambda h: h.name))
        scopes = (
            f'{{"host": "{host.name}"}}',
            f'{{"site": "{host.site}"}}',
            f'{{"origin": "{host.origins[0]}"}}',
        )
        target = self.rng.choice((*scopes, f'{{"partition": {host.partition}}}', "{}"))
        partition = host.partition
        if cmd in ("recrawl", "seed"):
            urls = self.sim.ledger.urls
            fetched = sorted(url for url, note in urls.items() if note.state is State.FETCHED)
            known = (fetched if self.rng.random() < 0.7 else []) or sorted(urls) or self.sim.web.seeds
            url = self.rng.choice(known)
            self.wish(
                self.rng.randrange(self.sim.plan.partitions),
                f'{{"cmd": "{cmd}", "urls": ["{url}"], "actor": "sim"}}',
            )
            return
        if cmd == "slow":
            gap = self.rng.choice((0, 2_500, 7_000))
            self.wish(partition, f'{{"cmd": "slow", "target": {scopes[0]}, "gap_ms": {gap}, "actor": "sim"}}')
            return
        if "partition" in target and cmd in ("block", "unblock"):
            target = scopes[0]
        for number in range(self.sim.plan.partitions) if target == "{}" else (partition,):
            self.wish(number, f'{{"cmd": "{cmd}", "target": {target}, "actor": "sim"}}')

    def wish(self, partition: int, text: str) -> None:
        """Append a control record, as another process does."""
        sim, name = self.sim, shard_name(Role.FRONTIER, partition)
        sim.note(f"control/{partition}: {text}")
        sim.happened[f"operator: {json.loads(text)['cmd']}"] += not sim.calm
        store = sim.disk.store(name)
        with store.begin(write=True) as txn:
            EmbeddedLog(store, TOPIC_IDS).within(txn).append(
                Topic.CONTROL, partition, [NewRecord(0, b"", text.encode())]
            )
            txn.commit()
        sim.judge.commit(sim.ledger.shard(name, Role.FRONTIER, partition), None)

    # --- calm -------------------------------------------------------------------------------------------------

    def stop(self) -> None:
        """From now on nothing fails that isn't so for good, and operators take back what they did."""
        sim = self.sim
        sim.calm = True
        sim.next_dies = sim.last_damage = None
        sim.note("the faults stop")
        shard_runner.POLL_S = CALM_POLL_S
        sim.post.late_s.clear()
        sim.post.misroute = 0
        for process in (sim.owner, *sim.others):
            if process is not None:
                process.tick_s = 3.0
                process.parsers_lost = process.damage.dies_in = 0
                process.at_hand_out = process.at_lease = None
                process.damage.full_until_s = process.damage.archive_full_until_s = (
                    process.damage.slow_until_s
                ) = 0.0
        for other in sim.others:
            other.loop.thaw()
        sim.later(SETTLE_S, self._take_back)

    def _take_back(self) -> None:
        """Pauses and blocks end, once the last of them are decided."""
        sim = self.sim
        for partition in range(sim.plan.partitions):
            shard = sim.ledger.shards.get(shard_name(Role.FRONTIER, partition))
            if shard is not None:
                self._resume(partition, shard)
        if any(
            shard.read.get(Topic.CONTROL, 0) != shard.positions.get(Topic.CONTROL, 0)
            for shard in sim.ledger.shards.values()
        ):
            sim.later(SETTLE_S, self._take_back)

    def _resume(self, partition: int, shard: ShardNote) -> None:
        if shard.paused:
            self.wish(
                partition, f'{{"cmd": "resume", "target": {{"partition": {partition}}}, "actor": "sim"}}'
            )
        for acts, cmd in ((shard.pauses, "resume"), (shard.blocks, "unblock")):
            for (kind, scope), act in sorted(acts.items()):
                if act in ("pause", "block"):
                    target = f'{{"{kind.value}": "{scope}"}}' if scope else "{}"
                    self.wish(partition, f'{{"cmd": "{cmd}", "target": {target}, "actor": "sim"}}')

    def ask_again(self) -> bool:
        """What was given up while things failed, and would be fetched now, is asked for by an operator. False: nothing
        was, or it was asked for often enough."""
        sim = self.sim
        whole = sim.judge.whole()
        wronged = sorted(url for url, note in sim.ledger.urls.items() if is_wronged(whole, url, note))
        self.asked += 1
        if self.asked > ASKED_MAX:
            return False
        for url in wronged:
            partition = sim.web.host_of(sim.ledger.urls[url].origin_key).partition
            self.wish(partition, f'{{"cmd": "recrawl", "urls": ["{url}"], "actor": "sim"}}')
        return bool(wronged)
