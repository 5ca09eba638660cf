"""Operators' acts: each command is one record (or a few) on `control`, in force within a second.

pause, resume, block, unblock    a partition, origin, host, site, or everything
slow                             a host
seed, recrawl                    URLs
"""

import getpass
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from frontlog import machinery
from frontlog.avro.enums import ScopeKind
from frontlog.avro.events import Control
from frontlog.cli_base import GAP, of_crawl
from frontlog.commands_crawl import check_seeds

F = TypeVar("F", bound=Callable[..., Any])
URLS_PER_RECORD_MAX = 500
_KINDS = {
    "partition": ScopeKind.PARTITION,
    "origin": ScopeKind.ORIGIN,
    "host": ScopeKind.HOST,
    "site": ScopeKind.SITE,
    "all": ScopeKind.CRAWL,
}


def said_by(command: F) -> F:
    """`--reason` and `--actor`: they go into the record, and `explain` and `status` show them."""
    command = click.option("--actor", metavar="WHO", default="", help="Who asks. [default: the user's name]")(
        command
    )
    return click.option("--reason", metavar="TEXT", default="", help="Why, for those who look at it later.")(
        command
    )


def targets(command: F) -> F:
    """Exactly one of these says what an act is about."""
    options = (
        click.option("--partition", metavar="N", help="A partition, by its number."),
        click.option("--origin", metavar="ORIGIN", help="An origin: scheme://host[:port]."),
        click.option("--host", metavar="HOST", help="A host: all its schemes and ports."),
        click.option("--site", metavar="DOMAIN", help="A registrable domain: all its hosts."),
        click.option("--all", "everything", is_flag=True, help="The whole crawl."),
    )
    for option in reversed(options):
        command = option(command)
    return command


def wish(
    cmd: str,
    kind: ScopeKind,
    target: str,
    *,
    gap_ms: int = 0,
    urls: tuple[str, ...] = (),
    actor: str = "",
    reason: str = "",
    rule: str = "",
    value: str = "",
) -> Control:
    """The record of an act, checked as the crawl will check it. Raises ConfigError."""
    made = Control(
        event_id=f"cli-{uuid.uuid4()}",
        cmd=cmd,
        target_kind=kind,
        target=target,
        gap_ms=gap_ms,
        urls=urls,
        actor=actor or _user(),
        note=reason,
        at_ms=time.time_ns() // 1_000_000,
        rule=rule,
        value=value,
    )
    return machinery.checked(made)


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container may run under a number without a name
        return "unknown"


def _target(
    partition: str | None, origin: str | None, host: str | None, site: str | None, everything: bool
) -> tuple[ScopeKind, str]:
    given = {
        "partition": partition,
        "origin": origin,
        "host": host,
        "site": site,
        "all": "" if everything else None,
    }
    named = [(_KINDS[name], value) for name, value in given.items() if value is not None]
    if len(named) != 1:
        raise click.UsageError("Name what it is about: one of --partition, --origin, --host, --site, --all.")
    return named[0]


def _act(cmd: str, text: str, done: str) -> click.Command:
    """A command for one of the acts that take a target."""

    @click.command(cmd, help=text)
    @targets
    @of_crawl
    @said_by
    def act(folder: Path | str, reason: str, actor: str, everything: bool, **named: str | None) -> None:
        kind, target = _target(named["partition"], named["origin"], named["host"], named["site"], everything)
        made = wish(cmd, kind, target, actor=actor, reason=reason)
        machinery.send(folder, made)
        click.echo(f"{done} {kind.value} {made.target}".rstrip() + ".")

    return act


pause = _act(
    "pause",
    "Fetch nothing of it for now; `resume` ends it.\n\n"
    "No URL changes its state, and what is in flight is finished.",
    "Paused",
)
resume = _act("resume", "End a pause.", "Resumed")
block = _act(
    "block",
    "Fetch nothing of it any more; `unblock` ends it.\n\nIts URLs become BLOCKED.",
    "Blocked",
)
unblock = _act("unblock", "End a block: its URLs are judged again.", "Unblocked")


@click.command("slow")
@click.argument("host", metavar="HOST")
@click.option(
    "--gap",
    metavar="S",
    type=GAP,
    required=True,
    help="Smallest gap between two requests, in seconds; 0 takes it away again.",
)
@of_crawl
@said_by
def slow(host: str, gap: float, folder: Path | str, reason: str, actor: str) -> None:
    """Leave a larger gap between requests to a HOST.

    It holds for all schemes and ports of the host, together.
    """
    made = wish("slow", ScopeKind.HOST, host, gap_ms=round(gap * 1_000), actor=actor, reason=reason)
    machinery.send(folder, made)
    click.echo(
        f"At least {gap:g} s between requests to {made.target}."
        if gap
        else f"No gap of its own for {made.target}."
    )


@click.command("seed")
@click.argument("urls", metavar="URL...", nargs=-1, required=True)
@of_crawl
@said_by
def seed(urls: tuple[str, ...], folder: Path | str, reason: str, actor: str) -> None:
    """Give a crawl more URLs to start from.

    They widen its scope as its first seeds did.
    """
    seeds = check_seeds(urls)
    for at in range(0, len(seeds), URLS_PER_RECORD_MAX):
        part = tuple(seeds[at : at + URLS_PER_RECORD_MAX])
        machinery.send(folder, wish("seed", ScopeKind.CRAWL, "", urls=part, actor=actor, reason=reason))
    click.echo(f"Seeded {len(seeds)} URL{'' if len(seeds) == 1 else 's'}.")


@click.command("recrawl")
@click.argument("urls", metavar="URL...", nargs=-1, required=True)
@of_crawl
@said_by
def recrawl(urls: tuple[str, ...], folder: Path | str, reason: str, actor: str) -> None:
    """Fetch known URLs again, whatever became of them.

    That is done as soon as politeness and policy allow. One that the crawl does not know, or that its policy
    forbids, is rejected; `tail rejects` says why.
    """
    for url in check_seeds(urls):  # a record each, so that one that is refused does not stop the others
        machinery.send(folder, wish("recrawl", ScopeKind.CRAWL, "", urls=(url,), actor=actor, reason=reason))
    click.echo(f"Asked for {len(urls)} URL{'' if len(urls) == 1 else 's'} again.")


COMMANDS = (pause, resume, block, unblock, slow, seed, recrawl)
