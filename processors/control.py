"""Control: operators' wishes, as Avro or as JSON made with ordinary tools (DESIGN §12).

    {"cmd": "pause", "target": {"host": "example.org"}, "actor": "ops", "reason": "complaint"}

`cmd` is pause, resume, block, unblock, slow, seed or recrawl; `target` names one of partition, origin, host, site
or url, or is left out for the whole crawl; `slow` takes `gap_ms`, `seed` and `recrawl` take `urls`. `rule_apply`,
`rule_refuse` and `rule_withdraw` take an origin, a `rule` and its `value` (`url_policy.py`). `readmit` takes `urls` that
a rule of traps refused, or a host and the `rule`s that are lifted there: their names, `all` or `none`. What can't be
followed is rejected with what is wrong and what to do. What was decided holds over restarts, since it is in the log.
"""

from collections.abc import Iterator

import msgspec
from msgspec.structs import replace

from frontlog.avro.codec import encode
from frontlog.avro.enums import HostEvent, PolicyAct, Reason, ScopeKind, SourceKind, State, Topic
from frontlog.avro.events import Control, Discovery, Event, OperatorPolicy, PartitionPaused
from frontlog.processors import canonical, jobs, merging, policy, politeness, traps, url_policy, urls
from frontlog.processors.context import Context, Decided, Emission, Out
from frontlog.processors.rejects import reject
from frontlog.processors.sites import partition_of, site_of
from frontlog.state import keys
from frontlog.state.rows import HostRow
from frontlog.state.tables import Tables

ACTS = {
    "pause": PolicyAct.PAUSE, "resume": PolicyAct.RESUME, "block": PolicyAct.BLOCK, "unblock": PolicyAct.UNBLOCK,
    "slow": PolicyAct.SLOW, "readmit": PolicyAct.READMIT,
}  # fmt: skip
COMMANDS = (*ACTS, "seed", "recrawl", *url_policy.ACTS)
TARGETS = ("partition", "origin", "host", "site", "url")
GAP_MS_MAX = 86_400_000
PARTITION_DIGITS_MAX = 9
NOT_OF_A_NAME = frozenset("/\\?#@\t\r\n")
"""What would end the host of a URL, or vanish from it."""


class BadControl(ValueError):
    """A wish that can't be followed; the text says what is wrong and what to do."""


class _Json(msgspec.Struct, forbid_unknown_fields=True):
    cmd: str
    target: dict[str, str | int] = {}
    gap_ms: int = 0
    urls: list[str] = []
    rule: str = ""
    value: str = ""
    actor: str = ""
    reason: str = ""
    at_ms: int = 0
    event_id: str = ""


def from_json(data: bytes) -> Control:
    """The wish of a JSON record; raises BadControl."""
    try:
        wish = msgspec.json.decode(data, type=_Json)
    except msgspec.MsgspecError as exc:
        raise BadControl(
            f'not a control record: {exc}; wanted {{"cmd": …, "target": {{…}}, "actor": …}}'
        ) from exc
    if len(wish.target) > 1:
        raise BadControl(f"target names {len(wish.target)} things; give one of {', '.join(TARGETS)}")
    kind, name = next(iter(wish.target.items()), ("crawl", ""))
    if kind not in (*TARGETS, "crawl"):
        raise BadControl(
            f"unknown target {kind!r}; give one of {', '.join(TARGETS)}, or none for the whole crawl"
        )
    return Control(
        event_id=wish.event_id, cmd=wish.cmd, target_kind=ScopeKind.named(kind), target=str(name), gap_ms=wish.gap_ms,
        urls=tuple(wish.urls), actor=wish.actor, note=wish.reason, at_ms=wish.at_ms, rule=wish.rule, value=wish.value,
    )  # fmt: skip


def check(wish: Control) -> Control:
    """The wish with its target in canonical form; raises BadControl."""
    if wish.cmd not in COMMANDS:
        raise BadControl(f"unknown cmd {wish.cmd!r}; one of {', '.join(COMMANDS)}")
    if wish.cmd in ("seed", "recrawl"):
        named = wish.urls or ((wish.target,) if wish.target_kind is ScopeKind.URL else ())
        if not named:
            raise BadControl(f"{wish.cmd} needs urls")
        return replace(wish, urls=named)
    if wish.cmd in url_policy.ACTS:
        if wish.target_kind is not ScopeKind.ORIGIN:
            raise BadControl(f"{wish.cmd} takes an origin: rules of identity are those of a server")
        wrong = url_policy.bad_rule(wish)
        if wrong:
            raise BadControl(wrong)
    if wish.cmd == "readmit":
        return _readmission(wish)
    if wish.cmd == "slow":
        if wish.target_kind is not ScopeKind.HOST:
            raise BadControl(
                "slow takes a host: politeness is per host, http and https and all ports together"
            )
        if not 0 <= wish.gap_ms <= GAP_MS_MAX:
            raise BadControl(f"gap_ms is {wish.gap_ms}; give 0 (take it away) to {GAP_MS_MAX}")
    if wish.target_kind is ScopeKind.URL:
        raise BadControl(f"{wish.cmd} takes a partition, origin, host or site, not a url")
    return replace(wish, target=_target(wish.target_kind, wish.target))


def _readmission(wish: Control) -> Control:
    """The wish to readmit URLs, or what a host's rules of traps refused."""
    named = wish.urls or ((wish.target,) if wish.target_kind is ScopeKind.URL else ())
    if named:
        return replace(wish, urls=named)
    if wish.target_kind is not ScopeKind.HOST:
        raise BadControl("readmit takes urls, or a host and the rules of traps that are lifted there")
    rules = set(wish.rule.replace(",", " ").split()) or {"all"}
    unknown = sorted(rules - {*traps.NAMES, "all", "none"})
    if unknown:
        raise BadControl(f"readmit lifts {', '.join(traps.NAMES)}, all or none, not {', '.join(unknown)}")
    lifted = traps.NAMES if "all" in rules else tuple(name for name in traps.NAMES if name in rules)
    return replace(wish, rule=" ".join(lifted) or "none", target=_target(wish.target_kind, wish.target))


def _target(kind: ScopeKind, target: str) -> str:
    """A target in canonical form: lower case, ASCII, an origin with its port."""
    if kind is ScopeKind.CRAWL:
        return ""
    if kind is ScopeKind.PARTITION:
        if not target.isdecimal() or len(target) > PARTITION_DIGITS_MAX:
            raise BadControl(f"partition {target[:40]!r} is not a number of a partition")
        return str(int(target))
    if kind is not ScopeKind.ORIGIN and not NOT_OF_A_NAME.isdisjoint(target):
        # Of `http://example.org/` the URL parser would make the host `http`: an act on somebody else.
        raise BadControl(f"{kind.value} {target[:80]!r} is not one; give the name alone, such as example.org")
    url = target if kind is ScopeKind.ORIGIN else f"http://{target}/"
    found = canonical.canonicalize(url)
    if isinstance(found, canonical.Refused):
        raise BadControl(f"{kind.value} {target!r} is not one ({found.reason.value})")
    if kind is ScopeKind.ORIGIN:
        return found.origin_key
    return found.host if kind is ScopeKind.HOST else site_of(found.host)


def partitions_of(wish: Control, partitions: int) -> list[int]:
    """The partitions that a checked wish concerns."""
    kind = wish.target_kind
    if kind is ScopeKind.CRAWL:
        return list(range(partitions))
    if kind is ScopeKind.PARTITION:
        number = int(wish.target)
        if number >= partitions:
            raise BadControl(f"partition {number} does not exist; there are {partitions}, from 0")
        return [number]
    host = keys.split_origin_key(wish.target)[1] if kind is ScopeKind.ORIGIN else wish.target
    return [partition_of(site_of(host), partitions)]


def decide(view: Tables, wish: Control, ctx: Context) -> Iterator[Decided]:
    """Decide one wish."""
    try:
        checked = check(wish)
        if checked.cmd == "seed":
            yield _seed(checked, ctx)
        elif checked.cmd == "recrawl" or checked.urls:
            one = _recrawl if checked.cmd == "recrawl" else _readmit
            for url in checked.urls:
                try:
                    yield one(view, ctx, checked, url)
                except BadControl as exc:  # the others are still followed
                    yield reject(ctx, "", Reason.BAD_CONTROL, str(exc), encode(wish))
        else:
            homes = partitions_of(checked, ctx.partitions)
            if ctx.partition in homes:
                rule = checked.cmd in url_policy.ACTS
                yield url_policy.decide(view, ctx, checked) if rule else _act(view, ctx, checked)
            else:  # made with a tool that chose another partition: passed on, never dropped
                yield Decided(emissions=[Emission(homes[0], Topic.CONTROL, "", checked)])
    except BadControl as exc:
        yield reject(ctx, "", Reason.BAD_CONTROL, str(exc), encode(wish))


def _act(view: Tables, ctx: Context, wish: Control) -> Decided:
    act, kind = ACTS[wish.cmd], wish.target_kind
    cause = ctx.cause
    if kind is ScopeKind.PARTITION and act in (PolicyAct.PAUSE, PolicyAct.RESUME):
        paused = PartitionPaused(
            seq=ctx.next_seq(), owner_token=ctx.owner_token, paused=act is PolicyAct.PAUSE, actor=wish.actor, note=wish.note,
            cause_topic=cause.topic, cause_partition=cause.partition, cause_offset=cause.offset,
        )  # fmt: skip
        return Decided(decisions=[paused])
    lifted = wish.rule.replace("none", "") if act is PolicyAct.READMIT else ""
    event = OperatorPolicy(
        seq=ctx.next_seq(), owner_token=ctx.owner_token, scope_kind=kind, scope=wish.target, act=act, gap_ms=wish.gap_ms,
        settings=lifted, actor=wish.actor, note=wish.note, cause_topic=cause.topic, cause_partition=cause.partition,
        cause_offset=cause.offset,
    )  # fmt: skip
    decisions: list[Event] = [event]
    if act is PolicyAct.SLOW:
        decisions.append(_slowed(view, ctx, wish))
    elif act is not PolicyAct.PAUSE:
        decisions += jobs.start(view, ctx, kind, wish.target)
    return Decided(decisions=decisions)


def _slowed(view: Tables, ctx: Context, wish: Control) -> Event:
    """The host's clock under its new gap; a larger gap holds from now on."""
    row = view.hosts.get(keys.host_id(wish.target)) or HostRow(host=wish.target)
    clock = politeness.clock_in(view, row)
    start = ctx.now_ms if clock.parked else clock.next_eligible_ms
    later = max(start, ctx.now_ms + wish.gap_ms) if wish.gap_ms else start
    after = replace(clock, operator_gap_ms=wish.gap_ms, parked=False, next_eligible_ms=later)
    return politeness.move(ctx, row, HostEvent.SLOWED, Reason.OPERATOR, after)


def _seed(wish: Control, ctx: Context) -> Decided:
    """Seeds become discoveries of their own partitions."""
    outputs: list[Out] = []
    emissions: list[Emission] = []
    for n, raw in enumerate(wish.urls):
        found = canonical.canonicalize(raw)
        if isinstance(found, canonical.Refused):
            outputs += reject(
                ctx, "", Reason.BAD_CONTROL, f"seed {raw!r}: {found.reason.value}", raw.encode()
            ).outputs
            continue
        event = seed_discovery(
            f"{ctx.cause.partition}-{ctx.cause.offset}-{n}", raw, found, SourceKind.OPERATOR, ctx.now_ms
        )
        partition = partition_of(site_of(found.host), ctx.partitions)
        emissions.append(Emission(partition, Topic.DISCOVERIES, found.origin_key, event))
    return Decided(outputs=outputs, emissions=emissions)


def seed_discovery(tag: str, raw: str, found: canonical.Identity, kind: SourceKind, at_ms: int) -> Discovery:
    """The discovery of one seed."""
    return Discovery(
        event_id=f"{kind.value}-{tag}", origin_key=found.origin_key, source_kind=kind, source_url="", at_ms=at_ms, depth=0,
        priority=1, part=0, parts=1, urls=(found.requested,), raws=(raw if raw != found.requested else "",),
        anchors=("",), rels=("",),
    )  # fmt: skip


def _recrawl(view: Tables, ctx: Context, wish: Control, raw: str) -> Decided:
    """Make a known URL eligible again, whatever it is, if the policy in force allows it."""
    found = canonical.canonicalize(raw)
    if isinstance(found, canonical.Refused):
        raise BadControl(f"recrawl {raw!r}: {found.reason.value}")
    partition = partition_of(site_of(found.host), ctx.partitions)
    if partition != ctx.partition:
        return Decided(
            emissions=[Emission(partition, Topic.CONTROL, found.origin_key, replace(wish, urls=(raw,)))]
        )
    found = merging.identity_at(view, policy.settings_of(view), found)
    row = view.urls.get(keys.url_key(keys.origin_id(found.origin_key), found.identity))
    if row is None:
        raise BadControl(f"recrawl {found.identity}: not known in this crawl; seed it first")
    if row.state in (State.ELIGIBLE, State.LEASED):
        return Decided()  # under way already
    if row.state is State.SUPPRESSED:
        raise BadControl(f"recrawl {found.identity}: suppressed; withdraw the suppression first")
    at = policy.standing(view, found.origin_key)
    verdict = policy.judge_row(view, at, row)
    if not verdict.allowed:
        raise BadControl(f"recrawl {found.identity}: {verdict.reason.value}: {verdict.detail}")
    reason = Reason.POLICY_ALLOWS if row.state is State.BLOCKED else Reason.RECRAWL_FORCED
    moved = urls.build(
        ctx, row, found.origin_key, State.ELIGIBLE, reason, policy_version=verdict.version, attempts=0, failures=0,
        clock=politeness.looked_up_anew(view, at.host, ctx.now_ms) if at.host is not None else None,
    )  # fmt: skip
    return Decided(decisions=[moved])


def _readmit(view: Tables, ctx: Context, wish: Control, raw: str) -> Decided:
    """Let a URL be fetched that a rule of traps refused; every other gate stays."""
    found = canonical.canonicalize(raw)
    if isinstance(found, canonical.Refused):
        raise BadControl(f"readmit {raw!r}: {found.reason.value}")
    partition = partition_of(site_of(found.host), ctx.partitions)
    if partition != ctx.partition:
        passed_on = replace(wish, urls=(raw,), target_kind=ScopeKind.URL, target=raw)
        return Decided(emissions=[Emission(partition, Topic.CONTROL, found.origin_key, passed_on)])
    row = view.urls.get(keys.url_key(keys.origin_id(found.origin_key), found.identity))
    if row is None or row.state is not State.BLOCKED or row.reason not in traps.REASONS:
        what = (
            "is not known in this crawl"
            if row is None
            else f"is {row.state.value} because of {row.reason.value}"
        )
        raise BadControl(
            f"readmit {found.identity}: it {what}; `frontlog traps` lists what rules of traps refused"
        )
    verdict = policy.judge(
        view, policy.standing(view, found.origin_key), row.url, row.requested or row.url, row.depth
    )
    if not verdict.allowed:
        raise BadControl(f"readmit {found.identity}: {verdict.reason.value}: {verdict.detail}")
    moved = urls.build(
        ctx, row, found.origin_key, State.ELIGIBLE, Reason.READMITTED, policy_version=verdict.version
    )
    return Decided(decisions=[moved])
