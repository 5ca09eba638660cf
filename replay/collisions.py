"""`frontlog collisions` and `frontlog rules`: which URLs a rule made one of, and which rules an origin has.

Rules of an origin or profile: read from the tables, where each URL that was merged has its row and names the identity
that stands for it. Rules of the standards (`fragment`, `percent_upper` …): worked out again from the spellings in
`discoveries`, so as far back as that topic is kept.
"""

from collections.abc import Iterator
from pathlib import Path

from frontlog.avro.codec import Undecodable, decode
from frontlog.avro.enums import Reason, RuleAct, State, Topic
from frontlog.avro.events import Discovery
from frontlog.processors import canonical
from frontlog.processors.url_rules import MERGING
from frontlog.replay.folder import OpenShard, open_shard, shards_of
from frontlog.replay.shapes import Collision, Rule, Tally
from frontlog.state import keys
from frontlog.state.rows import REASON_INDEX, STATE_INDEX, UrlRow, UrlRuleRow
from frontlog.state.store import Txn
from frontlog.state.tables import Tables
from frontlog.streams.topics import Role

SPELLINGS_MAX = 1_000
"""Spellings kept of one identity; the rest is counted."""
_MERGED = bytes((STATE_INDEX[State.BLOCKED], REASON_INDEX[Reason.MERGED]))


class _Group:
    """The spellings of one identity. `kept`: spelling → rules."""

    def __init__(self) -> None:
        self.kept: dict[str, tuple[str, ...]] = {}
        self.count = 0

    def add(self, spelling: str, rules: tuple[str, ...]) -> None:
        if spelling in self.kept:
            return
        self.count += 1
        if len(self.kept) < SPELLINGS_MAX:
            self.kept[spelling] = rules


def collisions(folder: Path, rule: str = "", origin_key: str = "") -> tuple[Collision, ...]:
    """The identities that a rule merged, most spellings first; `rule` empty: those of origins and profile. Raises
    ConfigError."""
    groups: dict[str, _Group] = {}
    for ref in shards_of(folder):
        if ref.role is Role.FRONTIER:
            with open_shard(ref) as shard:
                found = (
                    _merged(shard, rule, origin_key)
                    if rule in MERGING or not rule
                    else _spelled(shard, rule, origin_key)
                )
                for into, spelling, rules in found:
                    groups.setdefault(into, _Group()).add(spelling, rules)
    made = [
        Collision(
            url,
            group.count,
            tuple(sorted({name for rules in group.kept.values() for name in rules})),
            tuple(sorted(group.kept)),
        )
        for url, group in groups.items()
        # One spelling of an identity that was found under no other collides with nothing.
        if group.count > 1 or rule in MERGING or not rule
    ]
    return tuple(sorted(made, key=lambda one: (-one.count, one.identity)))


def _merged(shard: OpenShard, rule: str, origin_key: str) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """(identity, URL, rules) of each URL that is merged now."""
    with shard.store.begin() as txn:
        prefix = keys.origin_id(origin_key) if origin_key else b""
        for _, data in txn.scan("urls", prefix, keys.after(prefix) if prefix else None):
            if data.startswith(_MERGED):
                row = UrlRow.decode(data)
                into, rules = row.merged[0], row.merged[1:]
                if not rule or rule in rules:
                    yield into, row.url, rules


def _spelled(shard: OpenShard, rule: str, origin_key: str) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """(identity, spelling, rules) of each spelling that was found; the plain one too, which the others collide with."""
    first, _ = shard.log.bounds(Topic.DISCOVERIES, shard.partition)
    plain: dict[str, str] = {}
    touched = set[str]()
    for record in shard.log.scan(Topic.DISCOVERIES, shard.partition, first):
        try:
            event = decode(record.value)
        except Undecodable:
            continue
        if not isinstance(event, Discovery) or (origin_key and event.origin_key != origin_key):
            continue
        for url, raw in zip(event.urls, event.raws, strict=True):
            found = canonical.canonicalize(raw or url, base=event.source_url or None)
            if isinstance(found, canonical.Refused):
                continue
            if rule in found.rules_fired:
                touched.add(found.identity)
                yield found.identity, raw or url, found.rules_fired
            else:
                plain.setdefault(found.identity, raw or url)
    yield from ((identity, plain[identity], ()) for identity in touched & plain.keys())


def rules(folder: Path, origin_key: str = "") -> tuple[Rule, ...]:
    """The rules of origins, those in force first. Raises ConfigError."""
    found: list[Rule] = []
    for _, txn in _frontiers(folder):
        prefix = keys.origin_id(origin_key) if origin_key else b""
        tables = Tables(txn)
        scan = tables.url_rules.scan(prefix, keys.after(prefix) if prefix else None)
        found += [_rule(row) for _, row in scan]
    order = {
        act: n
        for n, act in enumerate((RuleAct.APPLIED, RuleAct.PROPOSED, RuleAct.REFUSED, RuleAct.WITHDRAWN))
    }
    return tuple(sorted(found, key=lambda one: (order[one.act], one.origin_key, one.rule, one.value)))


def _rule(row: UrlRuleRow) -> Rule:
    return Rule(
        origin_key=row.origin_key, rule=row.rule, value=row.value, act=row.act, learned=row.learned, agreeing=row.agreeing,
        against=row.against, at_ms=row.at_ms, actor=row.actor, note=row.note,
    )  # fmt: skip


def unlearned(txn: Txn) -> Iterator[Rule]:
    """The rules that were in force by learning and that evidence has withdrawn."""
    for _, row in Tables(txn).url_rules.scan():
        if row.learned and row.act is RuleAct.WITHDRAWN:
            yield _rule(row)


def tallies(txn: Txn) -> Iterator[Tally]:
    """What each rule merged and each trap rule refused, by origin."""
    for _, row in Tables(txn).tallies.scan():
        yield Tally(row.origin_key, row.name, row.total, row.signalled_ms)


def _frontiers(folder: Path) -> Iterator[tuple[OpenShard, Txn]]:
    for ref in shards_of(folder):
        if ref.role is Role.FRONTIER:
            with open_shard(ref) as shard, shard.store.begin() as txn:
                yield shard, txn
