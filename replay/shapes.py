"""What looking back answers: the shapes that `status`, `tail`, `explain`, `verify` and `rebuild` return.

Times are milliseconds since the epoch, sizes are bytes. Every shape goes into JSON as it stands, so
what a person reads and what `--json` prints are the same facts.
"""

from typing import Any

import msgspec

from frontlog.avro.enums import PolicyAct, Reason, RuleAct, RuleName, ScopeKind, State
from frontlog.streams.summary import StateCount, WaitingHost


class Advance(msgspec.Struct, frozen=True):
    """How far a long look has come: `done` of `total` records (0: not known), and the rate."""

    what: str
    done: int
    total: int = 0
    records_per_s: float = 0.0


class PartitionStatus(msgspec.Struct, frozen=True):
    """One shard: the seq of its newest decision, who owned it last, inputs that wait to be decided.

    `partition` is its number among the shards of its role, `shard` its folder in the log, such as `content-0`.
    """

    partition: int
    seq: int
    owner_token: int
    owner: str = ""
    paused: bool = False
    inputs_waiting: int = 0
    at_ms: int = 0
    shard: str = ""


class Act(msgspec.Struct, frozen=True):
    """An operator's act that is in force."""

    act: PolicyAct
    scope_kind: ScopeKind
    scope: str
    at_ms: int = 0
    gap_ms: int = 0
    actor: str = ""
    note: str = ""


class SitemapStatus(msgspec.Struct, frozen=True):
    """Sitemaps and feeds: `files` named or found, `read` of them, the `urls` that they listed when read last, files that
    are `faulty` or could not be had. `shown`: (URL, what was wrong first) of some of those."""

    files: int = 0
    read: int = 0
    urls: int = 0
    faulty: int = 0
    shown: tuple[tuple[str, str], ...] = ()


class Tally(msgspec.Struct, frozen=True):
    """How many URLs of an origin a rule merged, or a reason refused; `signalled_ms`: when that was suddenly many."""

    origin_key: str
    name: str
    total: int
    signalled_ms: int = 0


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """A rule of identity at an origin, and its evidence."""

    origin_key: str
    rule: RuleName
    value: str
    act: RuleAct
    learned: bool = False
    agreeing: int = 0
    against: int = 0
    at_ms: int = 0
    actor: str = ""
    note: str = ""


class Collision(msgspec.Struct, frozen=True):
    """An identity and what was merged into it: how many spellings, by which rules; the first thousand of them."""

    identity: str
    count: int
    rules: tuple[str, ...]
    spellings: tuple[str, ...]


class Dropped(msgspec.Struct, frozen=True):
    """A URL that a rule of traps or a budget refused, and the page on which it was found first."""

    url: str
    reason: Reason
    origin_key: str
    source_url: str = ""


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """How a crawl stands. `running`: a process has the folder open for crawling (its pid in `pid`).

    `durability`: what the commits of the last owner survived (log.durability). `leases`: slots given out.
    `signals`: rules that merged or refused much of an origin within an hour, `withdrawn`: those that were learned and that
    evidence took back; the newest first.
    """

    folder: str
    at_ms: int
    running: bool = False
    pid: int = 0
    durability: str = ""
    partitions: tuple[PartitionStatus, ...] = ()
    counts: tuple[StateCount, ...] = ()
    hosts: int = 0
    waiting: tuple[WaitingHost, ...] = ()
    waiting_hosts: int = 0
    acts: tuple[Act, ...] = ()
    documents: int = 0
    sitemaps: SitemapStatus = SitemapStatus()
    rejects: int = 0
    log_bytes: int = 0
    archive_bytes: int = 0
    archive_files: int = 0
    leases: int = 0
    signals: tuple[Tally, ...] = ()
    withdrawn: tuple[Rule, ...] = ()


class Record(msgspec.Struct, frozen=True):
    """One record of a topic, decoded. `type` is the record's Avro name, or `undecodable`.

    `shard` tells records of frontier and content apart, which both have `ownership` and `rejects` of a partition 0.
    """

    topic: str
    partition: int
    offset: int
    key: str
    type: str
    event: dict[str, Any]
    at_ms: int = 0
    shard: str = ""


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """One step of a URL's story: what happened, when, why, caused by which input, under which policy.

    `record` and `cause` say where things lie, as `topic/partition/offset`, a cause without an input is `start`, `timer`
    or `claim`; `rule` is the line of robots.txt, pattern or operator's act that decided, `policy_what` the policy version
    in words.
    """

    at_ms: int
    what: str
    why: str = ""
    detail: str = ""
    record: str = ""
    seq: int = 0
    cause: str = ""
    cause_what: str = ""
    policy_version: int = 0
    rule: str = ""
    policy_what: str = ""


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """The story of a URL: what is known of it now, and how it came to that, line by line.

    `asked` is what was asked for, `url` the identity under the crawl's profile. `known` False: the crawl has no such
    URL; `near` then names some that it has. `waits_for` says what must happen before it is fetched (again); `until_ms`
    is when that is, 0: not known. `record` is where its last response lies: segment, byte, bytes. `duplicates`: URLs
    that have the same text, the first to have it first.
    """

    asked: str
    url: str
    known: bool
    lines: tuple[Line, ...] = ()
    near: tuple[str, ...] = ()
    rules_fired: tuple[str, ...] = ()
    origin_key: str = ""
    shard: str = ""
    state: State = State.NONE
    reason: Reason | None = None
    waits_for: str = ""
    until_ms: int = 0
    record: str = ""
    content: str = ""
    duplicates: tuple[str, ...] = ()
    detail: str = ""


class Problem(msgspec.Struct, frozen=True):
    """One thing that must not be: where it lies and what is wrong with it. `seq`: of the decision; 0: none."""

    where: str
    what: str
    shard: str = ""
    seq: int = 0


class Check(msgspec.Struct, frozen=True):
    """One rule that was held against the log. `problems` holds the first few, `problems_count` counts all."""

    name: str
    doc: str
    examined: int
    problems_count: int = 0
    problems: tuple[Problem, ...] = ()


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What `verify` found. `not_verified`: what it cannot see, a sentence each.

    `records` counts what was read of every topic, `decisions` those that were held against the rules, `voided` those
    of owners that had been replaced. `running`: a process was crawling meanwhile.
    """

    folder: str
    checks: tuple[Check, ...]
    records: int = 0
    elapsed_ms: int = 0
    deep: bool = False
    not_verified: tuple[str, ...] = ()
    decisions: int = 0
    voided: int = 0
    running: bool = False

    @property
    def ok(self) -> bool:
        """Whether every rule held."""
        return not any(check.problems_count for check in self.checks)


class RebuiltShard(msgspec.Struct, frozen=True, kw_only=True):
    """What `rebuild` made of one shard. `copy_ms`: the part of `elapsed_ms` that copying the log took."""

    shard: str
    records: int
    elapsed_ms: int
    cpu_ms: int = 0
    copy_ms: int = 0
    differences: tuple[str, ...] = ()


class Rebuilt(msgspec.Struct, frozen=True, kw_only=True):
    """What `rebuild` made. `equal`: the digests equal those that the log carries and those of the tables.

    `records` counts decisions; `cpu_ms` is the processor time of all processes together.
    """

    folder: str
    new: str
    records: int
    elapsed_ms: int
    equal: bool
    differences: tuple[str, ...] = ()
    cpu_ms: int = 0
    shards: tuple[RebuiltShard, ...] = ()


class Copied(msgspec.Struct, frozen=True, kw_only=True):
    """What `log copy` made. `equal`: the tables folded from the copy have the digests of the source."""

    source: str
    target: str
    records: int
    elapsed_ms: int
    equal: bool
    differences: tuple[str, ...] = ()
