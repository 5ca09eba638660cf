"""`frontlog crawl`: begin a crawl, or go on with one. Thin: it reads options, runs, shows."""

import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TextIO, TypeVar

import ada_url
import click

from frontlog import machinery
from frontlog.cli_base import GAP, format_flag
from frontlog.config import Config, parse_value
from frontlog.console import Display, choose
from frontlog.crawl_folder import configure, default_folder, prepare
from frontlog.errors import STOPPED_NOW, ConfigError
from frontlog.interrupt import interrupts
from frontlog.settings_catalogue import CATALOGUE
from frontlog.streams.seeds import keep
from frontlog.streams.stop import StopSignal
from frontlog.streams.summary import End, Summary

F = TypeVar("F", bound=Callable[..., Any])
URL_CHARS_MAX = 2_048
NO_CONTACT = (
    "frontlog: warning: no contact is set. A site owner whom this crawl troubles can then only block it; "
    "with an address they can ask you first. Give one: --contact you@example.org, or identity.contact in "
    "frontlog.toml."
)

# (option, setting, metavar, help); the type and the bounds are the setting's own.
_OPTIONS: tuple[tuple[str, str, str, str], ...] = (
    ("--max-pages", "crawl.pages_max", "N", "End when the crawl has this many pages (0: no limit)."),
    ("--scope", "scope.mode", "", "Links to follow: on the hosts, sites or folders of the seeds, or any."),
    ("--include", "scope.include", "REGEX", "Only URLs that match (repeatable)."),
    ("--exclude", "scope.exclude", "REGEX", "No URLs that match (repeatable)."),
    ("--depth", "scope.depth_max", "N", "Links followed from a seed at most."),
    ("--gap", "politeness.gap_ms_min", "S", "Smallest gap between two requests to a host, in seconds."),
    ("--contact", "identity.contact", "MAIL", "Where a site owner reaches you: a mail address, or a URL."),
    ("--info-url", "identity.info_url", "URL", "Page about this crawler, for the user agent (see botpage)."),
    ("--token", "identity.token", "NAME", "Product token: the name that robots.txt is matched with."),
    ("--allow-addresses", "fetch.allow_addresses", "CIDR", "Non-public network to fetch from (repeatable)."),
    ("--resolve", "fetch.resolve", "HOST=ADDR", "Address of a host, instead of looking it up (repeatable)."),
    ("--durability", "log.durability", "", "What a power cut may take (`frontlog settings`)."),
)  # fmt: skip
_REPEATABLE = ("list of texts", "table of lists")


def setting_options(command: F) -> F:
    """The options that are settings, and `--set` for all the others."""
    for option, name, metavar, text in reversed(_OPTIONS):
        setting = CATALOGUE[name]
        kind: Any = {"whole number": int, "number": float}.get(setting.kind, str)
        if setting.choices:
            kind = click.Choice(setting.choices)
        elif option == "--gap":
            kind = GAP
        shown = f"{text} [default: {_default(option, setting.default)}]"
        multiple = setting.kind in _REPEATABLE
        command = click.option(
            option,
            name.replace(".", "__"),
            metavar=metavar or None,
            type=kind,
            multiple=multiple,
            default=None,
            help=text if multiple or setting.default == "" else shown,
        )(command)
    return click.option(
        "--set",
        "more",
        metavar="NAME=VALUE",
        multiple=True,
        help="Any other setting by its name in frontlog.toml (repeatable); `frontlog settings` lists them.",
    )(command)


def _default(option: str, value: object) -> object:
    return f"{int(str(value)) / 1_000:g}" if option == "--gap" else value


def given_settings(options: dict[str, Any]) -> dict[str, object]:
    """Settings by dotted name from what click parsed; only those that were given. Raises ConfigError."""
    given: dict[str, object] = {}
    for text in options.pop("more", ()):
        name, separator, value = str(text).partition("=")
        if not separator:
            raise ConfigError(f"--set {text}: write NAME=VALUE, such as --set politeness.gap_factor=5")
        given[name.strip()] = parse_value(value.strip())
    for key, value in options.items():
        name = key.replace("__", ".")
        if value is None or value == ():
            continue
        if name == "politeness.gap_ms_min":
            given[name] = round(float(value) * 1_000)
        elif name == "fetch.resolve":
            given[name] = _resolve_table(value)
        else:
            given[name] = value
    return given


def _resolve_table(pairs: Sequence[str]) -> dict[str, list[str]]:
    table: dict[str, list[str]] = {}
    for pair in pairs:
        host, separator, address = pair.partition("=")
        if not separator or not host or not address:
            raise ConfigError(
                f"--resolve {pair}: write HOST=ADDRESS, such as --resolve example.org=192.0.2.1"
            )
        table.setdefault(host.lower(), []).append(address)
    return table


def check_seeds(urls: Iterable[str]) -> list[str]:
    """Seeds as they were given, each one an absolute http or https URL. Raises ConfigError."""
    return [_check_seed(url.strip()) for url in urls]


def _is_url(text: str) -> bool:
    try:
        return bool(ada_url.URL(text).hostname)
    except ValueError:
        return False


def _check_seed(url: str) -> str:
    if len(url) > URL_CHARS_MAX:
        raise ConfigError(f"{url[:80]}...: {len(url)} characters; a URL has at most {URL_CHARS_MAX}")
    try:
        parsed = ada_url.URL(url)
    except ValueError:
        guess = f"https://{url}"
        hint = f"did you mean {guess}?" if _is_url(guess) and "://" not in url else "give an absolute one"
        raise ConfigError(f"{url!r}: not a URL such as https://example.org/; {hint}") from None
    if parsed.protocol not in ("http:", "https:"):
        hint = f"; did you mean https://{url}?" if "://" not in url else ""
        raise ConfigError(f"{url!r}: only http and https can be crawled{hint}")
    if parsed.username or parsed.password:
        raise ConfigError(f"{url!r}: a URL with a user name or password is not crawled; leave it out")
    return url


@click.command("crawl")
@click.argument("urls", metavar="[URL]...", nargs=-1)
@click.option(
    "-o",
    "--out",
    "--output",
    "folder",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Folder of the crawl: log, archive, configuration. [default: crawls/HOST]",
)
@click.option(
    "--seeds",
    "seeds_file",
    metavar="FILE",
    type=click.File("r", encoding="utf-8-sig"),
    help="File of URLs to start from, one a line; `-` is stdin, lines that begin with # are skipped.",
)
@click.option(
    "--config",
    "config_file",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Configuration to use and to copy into the folder. [default: DIR/frontlog.toml]",
)
@setting_options
@click.option("-q", "--quiet", is_flag=True, help="No progress, only the summary.")
@format_flag
def crawl(
    urls: tuple[str, ...],
    folder: Path | None,
    seeds_file: Any,
    config_file: Path | None,
    quiet: bool,
    as_json: bool | None,
    **options: Any,
) -> None:
    """Crawl politely from URLs, or go on with a crawl.

    The folder gets everything: the log that all else can be rebuilt from, and the responses as WARC files.
    Run it again on the same folder to go on, with no URL or with more of them; a crawl that was stopped, or
    killed, goes on where it was, under the options that it was given before. Ctrl-C finishes what is in
    flight and stops; a second one stops at once.

    \b
    frontlog crawl https://example.org/ --out crawls/example --max-pages 500 --contact you@example.org
    frontlog crawl --out crawls/example
    """
    seeds = [*check_seeds(urls), *_seeds_of(seeds_file)]
    if folder is None:
        if not seeds:
            raise click.UsageError(
                "Give a URL to start from, or --out with the folder of a crawl to go on with."
            )
        folder = default_folder(seeds[0])
    given = given_settings(options)
    display = choose(as_json=as_json, quiet=quiet, out=sys.stdout)
    summary = run(folder, seeds, given, display, config_file=config_file)
    if summary.end is End.STOPPED_NOW:
        raise click.exceptions.Exit(STOPPED_NOW)


def run(
    folder: Path,
    seeds: Sequence[str],
    given: dict[str, object],
    display: Display,
    *,
    config_file: Path | None = None,
    warn: bool = True,
) -> Summary:
    """Prepare the folder, crawl, and show all of it. Raises what frontlog.errors has."""
    resumed = prepare(folder, has_seeds=bool(seeds))
    config = configure(folder, config_file, given)
    keep(folder, seeds)
    if warn:
        _warn(config)
    stop = StopSignal()
    with display:
        display.start(folder, config, resumed=resumed)
        with interrupts(stop, display.note):
            summary = machinery.run_crawl(folder, config, seeds, display.progress, stop)
        display.summary(summary, folder)
    return summary


def _warn(config: Config) -> None:
    if not config.options.identity.contact:
        click.echo(NO_CONTACT, err=True)
    if config.options.log.durability != "fsync":
        click.echo(
            f"frontlog: warning: durability is {config.options.log.durability}: a power cut may lose "
            f"{'the folder' if config.options.log.durability == 'none' else 'the last commits'}.",
            err=True,
        )


def _seeds_of(file: TextIO | None) -> list[str]:
    """The seeds of a file, each checked; what is wrong is said with its line."""
    seeds: list[str] = []
    name = getattr(file, "name", "")
    try:
        lines = [line.strip() for line in file or ()]
    except UnicodeDecodeError as error:
        raise ConfigError(f"{name}: not UTF-8 at byte {error.start}; save it as UTF-8") from error
    for number, line in enumerate(lines, 1):
        if line and not line.startswith("#"):
            try:
                seeds.append(_check_seed(line))
            except ConfigError as error:
                raise ConfigError(f"{name}, line {number}: {error}") from error
    return seeds
