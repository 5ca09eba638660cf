"""The rules of identity of an origin: applied, refused or withdrawn by operators or by evidence; a policy each.

Rules. A rule is (rule, value) at an origin; each act is a `UrlRule` event, and the newest says what holds. `applied`: it
is in force. `refused`: it is not, and no evidence brings it back. `withdrawn`: it is not, evidence may bring it back.
`proposed`: evidence speaks for it, an operator may apply it. slash and scheme have one value in force; the newest wins.

A rule that comes into force or goes is a new policy version of its origin: a job judges the origin's URLs again, so that
what a rule merges is merged, and what one merged that is gone comes apart (`merges.py`).
"""

from msgspec.structs import replace

from frontlog.avro.enums import RuleAct, RuleName, ScopeKind
from frontlog.avro.events import Control, Event, UrlRule
from frontlog.processors import hosts, jobs, url_rules
from frontlog.processors.context import Context, Decided
from frontlog.state import keys
from frontlog.state.rows import OriginRow, UrlRuleRow
from frontlog.state.tables import Tables

ACTS = {
    "rule_apply": RuleAct.APPLIED, "rule_refuse": RuleAct.REFUSED, "rule_withdraw": RuleAct.WITHDRAWN,
}  # fmt: skip
"""Commands of `control`."""


def row_at(view: Tables, origin_key: str, rule: RuleName, value: str) -> UrlRuleRow | None:
    """What is known of a rule at an origin."""
    return view.url_rules.get(url_rules.key_of(keys.origin_id(origin_key), rule, value))


def bad_rule(wish: Control) -> str:
    """What is wrong with the rule that a wish names, for people; empty: nothing."""
    names = [rule.value for rule in RuleName]
    if wish.rule not in names:
        return f"{wish.cmd} takes a rule: one of {', '.join(names)}, not {wish.rule!r}"
    return url_rules.bad_value(RuleName.named(wish.rule), wish.value)


def decide(view: Tables, ctx: Context, wish: Control) -> Decided:
    """An operator's act on a rule of an origin; `wish` is checked. What holds already changes nothing."""
    rule, act = RuleName.named(wish.rule), ACTS[wish.cmd]
    row = row_at(view, wish.target, rule, wish.value)
    if row is not None and row.act is act and not row.learned:
        return Decided()
    event = UrlRule(
        seq=ctx.next_seq(), owner_token=ctx.owner_token, origin_key=wish.target, rule=rule, value=wish.value, act=act,
        agreeing=row.agreeing if row and act is not RuleAct.WITHDRAWN else 0,
        against=row.against if row and act is not RuleAct.WITHDRAWN else 0, actor=wish.actor, note=wish.note,
        cause_topic=ctx.cause.topic, cause_partition=ctx.cause.partition, cause_offset=ctx.cause.offset,
    )  # fmt: skip
    return Decided(decisions=[event, *judged_again(view, ctx, event, row)])


def judged_again(view: Tables, ctx: Context, event: UrlRule, row: UrlRuleRow | None) -> list[Event]:
    """The job over the origin, if the act changes what is in force."""
    before = row is not None and row.act is RuleAct.APPLIED
    if before is (event.act is RuleAct.APPLIED):
        return []
    return jobs.start(view, ctx, ScopeKind.ORIGIN, event.origin_key)


def apply(tables: Tables, event: UrlRule) -> None:
    """Fold an act."""
    origin_id = keys.origin_id(event.origin_key)
    _, name, _ = keys.split_origin_key(event.origin_key)
    origin = tables.origins.get(origin_id)
    if origin is None:
        origin = OriginRow(origin_key=event.origin_key)
        hosts.add_origin(tables, name, origin_id)
    tables.url_rules.put(
        url_rules.key_of(origin_id, event.rule, event.value),
        UrlRuleRow(
            origin_key=event.origin_key, rule=event.rule, value=event.value, act=event.act, learned=event.learned,
            agreeing=event.agreeing, against=event.against, seq=event.seq, at_ms=tables.head.at_ms, actor=event.actor,
            note=event.note,
        ),
    )  # fmt: skip
    if event.act is RuleAct.PROPOSED:
        tables.origins.put(origin_id, origin)
        return
    rows = [
        row
        for _, row in tables.url_rules.scan(origin_id, keys.after(origin_id))
        if row.act is RuleAct.APPLIED
    ]
    rows.sort(key=lambda row: row.seq)  # where a rule has one value, the newest act wins
    learned = {(row.rule, row.value) for row in rows if row.learned}
    own = url_rules.composed([(row.rule, row.value) for row in rows], learned)
    tables.origins.put(origin_id, replace(origin, rules=own, policy_seq=event.seq))
    tables.touched.add(keys.host_id(name))
