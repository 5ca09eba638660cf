"""What a URL is in a crawl: the rules of origins and what they merged, traps and what they refused, the acts on both."""

from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path

import click

from frontlog import machinery
from frontlog.avro.enums import RuleName, ScopeKind
from frontlog.cli_base import in_crawl, json_flag, print_json, print_lines
from frontlog.commands_control import said_by, wish
from frontlog.commands_crawl import check_seeds
from frontlog.errors import ConfigError
from frontlog.processors import canonical
from frontlog.processors.traps import NAMES as TRAPS
from frontlog.replay.shapes import Collision, Dropped, Rule, Tally
from frontlog.wording import many, moment

SPELLINGS_SHOWN = 10
NAMES = (*TRAPS, "host_budget", "site_budget")


def origin_key(origin: str) -> str:
    """An origin as it was typed, in the form of its key. Raises ConfigError."""
    if not origin:
        return ""
    found = canonical.canonicalize(origin)
    if isinstance(found, canonical.Refused):
        raise ConfigError(f"{origin!r} is no origin ({found.reason.value}); give scheme://host[:port]")
    return found.origin_key


@click.command("collisions")
@in_crawl
@click.option(
    "--rule",
    metavar="NAME",
    default="",
    help="Only what this rule merged. [default: rules of origins and profile]",
)
@click.option("--origin", metavar="ORIGIN", default="", help="Only of this origin, as scheme://host[:port].")
@click.option(
    "--limit",
    metavar="N",
    type=click.IntRange(0),
    default=50,
    show_default=True,
    help="Identities at most; 0: all.",
)
@json_flag
def collisions(folder: Path, rule: str, origin: str, limit: int, as_json: bool) -> None:
    """List the identities that a rule merged.

    Each with its spellings. For a rule of the standards, such as `fragment` or `percent_upper`, the spellings are
    read from the log, as far back as discoveries are kept there.
    """
    found = machinery.collisions(folder, rule, origin_key(origin))
    shown = found[:limit] if limit else found
    if as_json:
        for one in shown:
            print_json(one)
    else:
        print_lines(collision_lines(shown, found))


def collision_lines(shown: Sequence[Collision], found: Sequence[Collision]) -> list[str]:
    """An identity, what was merged into it, and how many there are in all."""
    lines: list[str] = []
    for one in shown:
        lines.append(f"{one.identity}  {many(one.count, 'spelling')} ({', '.join(one.rules)})")
        lines += [f"    {spelling}" for spelling in one.spellings[:SPELLINGS_SHOWN]]
        more = one.count - len(one.spellings[:SPELLINGS_SHOWN])
        lines += [f"    and {more:,} more"] if more > 0 else []
    spellings = sum(one.count for one in found)
    return [
        *lines,
        f"{many(spellings, 'spelling')} of {len(found):,} identities, {len(shown):,} of them shown.",
    ]


@click.command("rules")
@in_crawl
@click.option("--origin", metavar="ORIGIN", default="", help="Only of this origin, as scheme://host[:port].")
@json_flag
def rules(folder: Path, origin: str, as_json: bool) -> None:
    """List the rules of identity of origins, with their evidence.

    Those in force come first, then proposals that wait for more evidence or for `frontlog rule`.
    """
    found = machinery.rules(folder, origin_key(origin))
    if as_json:
        for one in found:
            print_json(one)
    else:
        print_lines([rule_line(one) for one in found] or ["No origin has a rule of its own."])


def rule_line(rule: Rule) -> str:
    """A rule, what became of it, and why."""
    named = f"{rule.rule.value}={rule.value}" if rule.value else rule.rule.value
    weight = f", {rule.agreeing:,} for, {rule.against:,} against" if rule.agreeing or rule.against else ""
    who = f", by {rule.actor}" if rule.actor else ", learned" if rule.learned else ""
    why = f": {rule.note}" if rule.note else ""
    return f"{rule.act.value} {named} at {rule.origin_key} since {moment(rule.at_ms)}{weight}{who}{why}"


@click.command("rule")
@click.argument("act", type=click.Choice(["apply", "refuse", "withdraw"]))
@click.argument("rule", metavar="RULE[=VALUE]")
@click.option("--origin", metavar="ORIGIN", required=True, help="The origin: scheme://host[:port].")
@in_crawl
@said_by
def rule(act: str, rule: str, origin: str, folder: Path, reason: str, actor: str) -> None:
    """Apply, refuse or take back a rule of identity.

    \b
    tracking_params=NAME   a parameter (or prefix*) that only tells where a visitor came from
    ignored_params=NAME    a parameter (or prefix*) that does not change the answer
    query_order            the order of parameters says nothing
    slash=strip|add        which form of /a and /a/ stands for both
    scheme=https|http      which scheme stands for both
    canonical              rel=canonical, where the text is the same

    A rule that is refused or withdrawn merges nothing more, and what it merged comes apart. One that is refused
    is never learned again.
    """
    name, _, value = rule.partition("=")
    if name not in tuple(RuleName):
        raise click.UsageError(f"No rule {name!r}; there are {', '.join(RuleName)}.")
    made = wish(f"rule_{act}", ScopeKind.ORIGIN, origin, actor=actor, reason=reason, rule=name, value=value)
    machinery.send(folder, made)
    done = {"apply": "Applied", "refuse": "Refused", "withdraw": "Withdrawn"}[act]
    click.echo(f"{done}: {rule} at {made.target}.")


@click.command("traps")
@in_crawl
@click.option("--rule", type=click.Choice(NAMES), default=None, help="Only what this rule refused.")
@click.option("--origin", metavar="ORIGIN", default="", help="Only of this origin, as scheme://host[:port].")
@click.option("--urls", "each", is_flag=True, help="The URLs, and the pages on which they were found.")
@click.option(
    "--limit",
    metavar="N",
    type=click.IntRange(0),
    default=100,
    show_default=True,
    help="Lines at most; 0: all.",
)
@json_flag
def traps(folder: Path, rule: str | None, origin: str, each: bool, limit: int, as_json: bool) -> None:
    """Count, or list, what rules of traps and budgets refuse.

    What was refused stays known: `frontlog readmit` lets it in.
    """
    origin = origin_key(origin)
    found: Iterable[Dropped | Tally] = (
        machinery.dropped_counts(folder, rule or "", origin) if not each else ()
    )
    if each:
        found = machinery.dropped(folder, rule or "", origin)
    empty = True
    for one in islice(found, limit or None):
        empty = False
        if as_json:
            print_json(one)
        else:
            click.echo(dropped_line(one))
    if empty and not as_json:
        click.echo("Nothing is refused as a trap or for a budget.")


def dropped_line(one: Dropped | Tally) -> str:
    """What was refused, or how much of it."""
    if isinstance(one, Tally):
        return f"{one.total:>9,}  {one.name}  {one.origin_key}"
    return f"{one.reason.value}  {one.url}" + (f"  found on {one.source_url}" if one.source_url else "")


@click.command("readmit")
@click.argument("urls", metavar="[URL]...", nargs=-1)
@click.option("--host", metavar="HOST", help="Lift rules of traps for this host.")
@click.option(
    "--rule",
    "rules",
    type=click.Choice([*TRAPS, "all", "none"]),
    multiple=True,
    help="With --host: a rule that is lifted there (repeatable); those that are not named hold again. [default: all]",
)
@in_crawl
@said_by
def readmit(
    urls: tuple[str, ...], host: str | None, rules: tuple[str, ...], folder: Path, reason: str, actor: str
) -> None:
    """Let in what a rule of traps refused.

    URLs, or all of a host. Every other gate stays. What is lifted for a host holds for links that are found later,
    too; `--rule none` puts all rules in force again.
    """
    if bool(urls) is (host is not None) or (urls and rules):
        raise click.UsageError("Give URLs, or --host and the rules that are lifted there.")
    if host is not None:
        made = wish("readmit", ScopeKind.HOST, host, actor=actor, reason=reason, rule=" ".join(rules))
        machinery.send(folder, made)
        click.echo(f"Lifted for {made.target}: {made.rule.replace(' ', ', ')}.")
        return
    for url in check_seeds(urls):
        machinery.send(folder, wish("readmit", ScopeKind.CRAWL, "", urls=(url,), actor=actor, reason=reason))
    click.echo(f"Readmitted {many(len(urls), 'URL')}.")


LOOK = (collisions, rules, traps)
ACTS = (rule, readmit)
