"""A crawl on Kafka: its topics, and moving a crawl there and back."""

import json
from pathlib import Path
from typing import Any

import click

from frontlog import machinery
from frontlog.cli_base import KAFKA, json_flag, print_json, print_lines
from frontlog.commands_crawl import given_settings, setting_options
from frontlog.commands_look import teller
from frontlog.config import load, value_of
from frontlog.errors import NO, ConfigError
from frontlog.replay.shapes import Copied
from frontlog.streams.summary import Finding
from frontlog.wording import duration, many

PARTITIONS = 64
REGISTRY = "schema_registry.url"
_crawl = click.argument("crawl", metavar="kafka://SERVERS/NAME")
_replication = click.option(
    "--replication", metavar="R", type=click.IntRange(1, 10), default=1, show_default=True,
    help="Copies of each partition, on as many brokers; 3 in production.",
)  # fmt: skip


@click.group("topics")
def topics() -> None:
    """Make the topics of a crawl on Kafka, or check them."""


@topics.command("create")
@_crawl
@click.option(
    "--partitions", metavar="N", type=click.IntRange(1, 1_024), default=PARTITIONS, show_default=True,
    help="Partitions of the frontier, for good: more than there will ever be workers.",
)  # fmt: skip
@_replication
@click.option(
    "--schema-registry", "registry", metavar="URL", default=None,
    help="Register the schemas of crawl.fetched and crawl.removed there; workers need schema_registry.url then.",
)  # fmt: skip
@click.option(
    "--config", "path", metavar="FILE", type=click.Path(path_type=Path), default=None,
    help="Configuration in TOML, for its schema_registry.url. [default: none]",
)  # fmt: skip
def topics_create(
    crawl: str, partitions: int, replication: int, registry: str | None, path: Path | None
) -> None:
    """Make the topics that are missing.

    Decisions are kept without limit and never compacted. Topics that exist are left as they are; when one is not
    what it must be, nothing is made. The name goes before each topic: NAME.discoveries, NAME.crawl.fetched.

    With a schema registry the schemas of what others consume are registered, each under TOPIC-value, with the
    compatibility BACKWARD_TRANSITIVE where the subject has none. Run it again after an upgrade.
    """
    config = load(path, {} if registry is None else {REGISTRY: registry})
    made = machinery.topics_create(crawl, partitions, replication)
    if made:
        click.echo(f"{crawl}: made {', '.join(made)}.")
    else:
        click.echo(f"{crawl}: all topics are there.")
    if url := value_of(config, REGISTRY):
        for subject, number in machinery.register_schemas(crawl, url).items():
            click.echo(f"schema registry: {subject} has the id {number}.")


@topics.command("check")
@_crawl
@json_flag
def topics_check(crawl: str, as_json: bool) -> None:
    """Hold the topics against what they must be.

    Existence, number of partitions, policies. Workers do the same when they start and every 30 s. Nothing is
    changed. Exit code 1: something is wrong.
    """
    there, problems = machinery.topics_check(crawl)
    if as_json:
        click.echo(json.dumps({"crawl": crawl, "topics": there, "problems": problems}))
    else:
        print_lines(
            [f"wrong: {problem}" for problem in problems]
            or [f"{crawl}: {many(len(there), 'topic')}, all as they must be."]
        )
    if problems:
        raise click.exceptions.Exit(NO)


@click.group("log")
def log() -> None:
    """Move a crawl between a folder and Kafka."""


@log.command("copy")
@click.argument("source", metavar="FROM")
@click.argument("target", metavar="TO")
@click.option(
    "--archive", "archives", metavar="DIR", multiple=True, type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Where WARC files of a crawl on Kafka lie, for the folder to note; may be given again.",
)  # fmt: skip
@_replication
@json_flag
def log_copy(source: str, target: str, archives: tuple[Path, ...], replication: int, as_json: bool) -> None:
    """Copy a crawl between a folder and kafka://SERVERS/NAME.

    Partitions, offsets and seqs stay as they are, and the tables are folded from the copy and compared. The
    source is left alone and must not be running; the archive stays where it is. Exit code 1: the digests differ.
    """
    if source.startswith(KAFKA) == target.startswith(KAFKA):
        raise ConfigError("one of FROM and TO must be a folder and the other a kafka://SERVERS/NAME")
    tell, end = teller(as_json)
    try:
        if target.startswith(KAFKA):
            copied = machinery.copy_to_kafka(Path(source), target, replication, tell)
        else:
            copied = machinery.copy_from_kafka(source, Path(target), archives, tell)
    finally:
        end()
    if as_json:
        print_json(copied)
    else:
        print_lines(copied_lines(copied))
    if not copied.equal:
        raise click.exceptions.Exit(NO)


def copied_lines(copied: Copied) -> list[str]:
    """How much, how fast, and whether it is equal."""
    said = "every table has the digest of the source" if copied.equal else "the result differs"
    return [
        f"{copied.target}: {many(copied.records, 'record')} of {copied.source} copied in "
        f"{duration(copied.elapsed_ms)}: {said}.",
        *(f"  {difference}" for difference in copied.differences),
    ]


@click.command("worker")
@_crawl
@click.option(
    "--out", "folder", metavar="DIR", required=True, type=click.Path(path_type=Path),
    help="Folder of this worker alone: its tables, which follow from the log, and the WARC files that it writes.",
)  # fmt: skip
@click.option(
    "--config", "path", metavar="FILE", type=click.Path(path_type=Path), default=None,
    help="Configuration in TOML; the same for all workers. [default: none]",
)  # fmt: skip
@setting_options
@click.option(
    "--instance", metavar="NAME", default="",
    help="A name of this worker that stays: back within 6 s, it has its partitions again and nobody else is disturbed.",
)  # fmt: skip
@click.option(
    "--standbys", metavar="N", type=click.IntRange(0, 10), default=1, show_default=True,
    help="Workers that keep a warm copy of each partition.",
)  # fmt: skip
@click.option(
    "--web", metavar="HOST:PORT", default="", help="Where Faust's web server listens. [default: nowhere]"
)
@click.option(
    "--loglevel", type=click.Choice(["debug", "info", "warning", "error"]), default="warning", show_default=True,
    help="How much Faust tells.",
)  # fmt: skip
def worker(
    crawl: str,
    folder: Path,
    path: Path | None,
    instance: str,
    standbys: int,
    web: str,
    loglevel: str,
    **given: Any,
) -> None:
    """Crawl with others on Kafka until told to stop.

    Each worker owns some partitions, keeps warm copies of others, and fetches for those that it owns. Start as
    many as you like, with the same configuration; `frontlog seed URL -C kafka://SERVERS/NAME` gives them work.
    Whatever goes wrong ends the worker, and another takes over: let a supervisor start it again.
    """
    config = load(path, given_settings(given))
    machinery.run_worker(
        crawl, folder, config, told=lambda text: click.echo(f"worker: {text}", err=True), instance=instance,
        standbys=standbys, web=_listens(web), loglevel=loglevel,
    )  # fmt: skip


@click.command("doctor")
@_crawl
@click.option(
    "--out", "folder", metavar="DIR", type=click.Path(path_type=Path), default=None, help="Also look at a worker's folder."
)  # fmt: skip
@click.option("--dns", metavar="HOST", default="", help="Also look a name up.")
@json_flag
def doctor(crawl: str, folder: Path | None, dns: str, as_json: bool) -> None:
    """Say which part of a crawl on Kafka is silent.

    Broker, topics, workers, ownership, standbys, lag, silence, clocks; the first that is bad is the one to mend
    first. Nothing is written. Exit code 1: something is bad.
    """
    found = machinery.doctor(crawl, folder, dns)
    if as_json:
        print_json(found)
    else:
        print_lines([text for one in found for text in _finding_lines(one)])
    if any(one.state == "bad" for one in found):
        raise click.exceptions.Exit(NO)


def _finding_lines(one: Finding) -> list[str]:
    lines = [f"{one.state.upper() if one.state == 'bad' else one.state:<5} {one.part:<10} {one.seen}"]
    return lines + ([f"{'':<16} do: {one.do}"] if one.do else [])


def _listens(web: str) -> tuple[str, int] | None:
    host, _, port = web.rpartition(":")
    if web and not (host and port.isdigit()):
        raise ConfigError(f"--web {web}: write HOST:PORT, such as --web 127.0.0.1:6066")
    return (host, int(port)) if web else None


COMMANDS = (topics, worker, doctor, log)
