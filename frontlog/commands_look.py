"""Looking back: `status`, `tail`, `explain`, `verify`, `replay rebuild`, `replay verify`."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import click
import msgspec
from rich.console import Console as RichConsole
from rich.status import Status as Spinner

from frontlog import machinery
from frontlog.cli_base import (
    TOPICS,
    crawl_argument,
    format_flag,
    in_crawl,
    json_flag,
    print_json,
    print_lines,
    stdout_is_terminal,
)
from frontlog.errors import NO, ConfigError
from frontlog.replay.shapes import Advance, Explanation, Line, Rebuilt, Record, Report
from frontlog.wording import command, duration, many, moment, status_lines

Tell: TypeAlias = Callable[[Advance], None]
TAIL_LIMIT = 20


@click.command("status")
@in_crawl
@json_flag
def status(folder: Path, as_json: bool) -> None:
    """Say how a crawl stands, and which hosts wait.

    URLs by state and reason, hosts that wait until when and why, operators' acts in force, partitions, sizes.
    """
    found = machinery.status(folder)
    if as_json:
        print_json(found)
    else:
        print_lines(status_lines(found))


@click.command("tail")
@click.argument("topic", type=click.Choice(TOPICS), metavar="TOPIC")
@in_crawl
@click.option("--partition", metavar="N", type=click.IntRange(0), help="Only this partition. [default: all]")
@click.option(
    "--from",
    "start",
    metavar="OFFSET",
    type=click.IntRange(0),
    help="Begin at this offset of each partition. [default: the newest records]",
)
@click.option(
    "--limit",
    metavar="N",
    type=click.IntRange(0),
    default=None,
    help=f"Records at most (0: all). [default: {TAIL_LIMIT}; all with --from or --follow]",
)
@click.option(
    "--origin", metavar="ORIGIN", default="", help="Only records of this origin, as scheme://host[:port]."
)
@click.option("--url", metavar="URL", default="", help="Only records about this URL.")
@click.option(
    "--type", "kind", metavar="NAME", default="", help="Only records of this type, such as Transition."
)
@click.option("-f", "--follow", is_flag=True, help="Go on as records come; Ctrl-C ends it.")
@format_flag
def tail(
    topic: str,
    folder: Path,
    partition: int | None,
    start: int | None,
    limit: int | None,
    origin: str,
    url: str,
    kind: str,
    follow: bool,
    as_json: bool | None,
) -> None:
    """Print the records of a TOPIC, decoded.

    \b
    Inputs:    discoveries, fetch-results, control, candidates, content-verdicts
    Decisions: transitions, policies, ownership, documents
    Outputs:   crawl.fetched, crawl.removed, rejects
    """
    if limit is None:
        limit = 0 if follow or start is not None else TAIL_LIMIT
    show = record_line if not (as_json if as_json is not None else not stdout_is_terminal()) else _record_json
    records = machinery.tail(
        folder,
        topic,
        partition=partition,
        start=start,
        origin=origin,
        url=url,
        kind=kind,
        limit=limit,
        follow=follow,
    )
    try:
        for record in records:
            click.echo(show(record))
            if follow:
                sys.stdout.flush()
    except KeyboardInterrupt:
        if not follow:
            raise


def _record_json(record: Record) -> str:
    return msgspec.json.encode(record).decode()


def record_line(record: Record) -> str:
    """A record for a person: where it lies, what it is, its fields that say something."""
    said = {name: value for name, value in record.event.items() if value not in ("", 0, None, [], (), False)}
    time = f"{moment(record.at_ms)} " if record.at_ms else ""
    facts = msgspec.json.encode(said).decode()
    return f"{time}{record.topic}/{record.partition}/{record.offset} {record.type} {facts}"


@click.command("explain")
@click.argument("url", metavar="URL")
@in_crawl
@json_flag
def explain(url: str, folder: Path, as_json: bool) -> None:
    """Tell the whole story of a URL, with its causes.

    What happened, when, why, and caused by what. Each step names the record that says it, the input that
    caused it, the policy version in force and the line of robots.txt, pattern or operator's act that decided.
    Exit code 1: the crawl knows nothing of it.
    """
    found = machinery.explain(folder, url)
    lines = explanation_lines(found)
    if as_json:
        print_json(found)
    elif lines:
        print_lines(lines)
    if not found.known:
        near = f" Did it mean {' or '.join(found.near)}?" if found.near else ""
        click.echo(f"frontlog: {found.url}: this crawl knows nothing of it.{near}", err=True)
        raise click.exceptions.Exit(NO)


def explanation_lines(found: Explanation) -> list[str]:
    """The story of a URL for a person: what it is now, then how it came to that."""
    if not found.known and not found.lines:
        return []
    asked = f" (asked for as {found.asked})" if found.asked != found.url else ""
    lines = [f"{found.url}{asked}"]
    if found.known:
        until = f", until {moment(found.until_ms)}" if found.until_ms else ""
        lines.append(f"  {found.state} because {found.reason}; waits for {found.waits_for}{until}")
    facts = {"its last response": found.record, "its text": found.content}
    lines += [f"  {name}: {text}" for name, text in facts.items() if text]
    if found.duplicates:
        lines.append(f"  the same text: {', '.join(found.duplicates)}")
    return [*lines, *(text for line in found.lines for text in story_lines(line))]


def story_lines(line: Line) -> list[str]:
    """One step for a person: what and why, then where it is recorded and what caused it."""
    why = f" because {line.why}" if line.why else ""
    detail = f" ({line.detail})" if line.detail else ""
    texts = [f"{moment(line.at_ms)}  {line.what}{why}{detail}"]
    if line.rule:
        texts.append(f"    rule: {line.rule}")
    if line.cause:
        # A cause within the crawler is no record, so there is no place to name.
        causes = [line.cause_what, f"at {line.cause}" if "/" in line.cause or not line.cause_what else ""]
        texts.append(f"    caused by {' '.join(cause for cause in causes if cause)}")
    what = f": {line.policy_what}" if line.policy_what else ""
    policy = f", under policy version {line.policy_version}{what}" if line.policy_version else ""
    if line.record:
        texts.append(f"    recorded at {line.record}, seq {line.seq}{policy}")
    return texts


def teller(as_json: bool) -> tuple[Tell, Callable[[], None]]:
    """A function that shows how far it has come, on stderr and only to a person; and what takes it down."""
    if as_json or not sys.stderr.isatty():
        return lambda _: None, lambda: None
    spinner = Spinner("starting", console=RichConsole(stderr=True, highlight=False))
    spinner.start()

    def tell(advance: Advance) -> None:
        of = f" of {advance.total:,}" if advance.total else ""
        spinner.update(f"{advance.what}: {advance.done:,}{of} records, {advance.records_per_s:,.0f}/s")

    return tell, spinner.stop


def _verify(folder: Path, deep: bool, as_json: bool) -> None:
    tell, end = teller(as_json)
    try:
        report = machinery.verify(folder, deep, tell)
    finally:
        end()
    if as_json:
        print_json({**msgspec.to_builtins(report), "ok": report.ok})
    else:
        print_lines(report_lines(report))
    if not report.ok:
        raise click.exceptions.Exit(NO)


def report_lines(report: Report) -> list[str]:
    """A line for each rule, the problems beneath, and the verdict."""
    lines: list[str] = []
    for check in report.checks:
        mark = "FAILED" if check.problems_count else "ok"
        lines.append(f"{mark:<7} {check.name}: {check.doc}; {check.examined:,} examined")
        lines += [f"        {problem.where}: {problem.what}" for problem in check.problems]
        more = check.problems_count - len(check.problems)
        if more > 0:
            lines.append(f"        and {more:,} more")
    for text in report.not_verified:
        lines.append(f"not verified: {text}")
    wrong = sum(check.problems_count for check in report.checks)
    verdict = "all of it holds" if report.ok else f"{many(wrong, 'problem')} found"
    took = duration(report.elapsed_ms)
    lines.append(f"{report.folder}: {many(report.records, 'record')} verified in {took}: {verdict}.")
    return lines


_deep = click.option(
    "--deep", is_flag=True, help="Also recount every table instead of trusting its running digest."
)


@click.command("verify")
@crawl_argument
@_deep
@json_flag
def verify(folder: Path, deep: bool, as_json: bool) -> None:
    """Hold the log of a crawl against every rule.

    Sequence without gaps, the hash chain, every transition allowed, fences that only grow, digests at every
    batch, live equal to rebuilt, the gap between requests to a host, a verdict that allows each fetch. Exit
    code 1: something does not hold.
    """
    _verify(folder, deep, as_json)


@click.group("replay")
def replay() -> None:
    """Rebuild a crawl from its log, or verify it."""


@replay.command("rebuild")
@crawl_argument
@click.argument("new", metavar="NEW", type=click.Path(path_type=Path))
@json_flag
def rebuild(folder: Path, new: Path, as_json: bool) -> None:
    """Fold the log of DIR into a NEW folder.

    It says whether the result is equal. NEW gets the log and the tables and can be crawled on; the archive is
    not copied. Exit code 1: the digests differ from those that the log carries.
    """
    if new.exists() and (not new.is_dir() or any(new.iterdir())):
        raise ConfigError(f"{new}: not an empty folder; name a new one")
    tell, end = teller(as_json)
    try:
        rebuilt = machinery.rebuild(folder, new, tell)
    finally:
        end()
    if as_json:
        print_json(rebuilt)
    else:
        print_lines(rebuilt_lines(rebuilt))
    if not rebuilt.equal:
        raise click.exceptions.Exit(NO)


def rebuilt_lines(rebuilt: Rebuilt) -> list[str]:
    """How fast, and whether it is equal."""
    rate = rebuilt.records * 1_000 / max(1, rebuilt.elapsed_ms)
    said = "every table equals the digest in the log" if rebuilt.equal else "the result differs"
    return [
        f"{rebuilt.new}: {many(rebuilt.records, 'record')} folded in {duration(rebuilt.elapsed_ms)} "
        f"({rate:,.0f}/s): {said}.",
        *(f"  {difference}" for difference in rebuilt.differences),
        *([] if rebuilt.equal else [f"  {command('frontlog', 'verify', rebuilt.folder)} says where"]),
    ]


replay.add_command(verify, "verify")
COMMANDS = (status, explain, tail, verify, replay)
