"""`frontlog demo`, `frontlog botpage`, `frontlog settings`: trying it, telling others, looking up."""

import json
import sys
import textwrap
from pathlib import Path
from typing import Any, cast

import click

from frontlog import botpage as page
from frontlog.cli_base import format_flag, print_json
from frontlog.commands_crawl import given_settings, run
from frontlog.config import Config, Given, build, load, read_file, value_of
from frontlog.console import choose
from frontlog.crawl_folder import (
    CONFIG_FILE,
    DEMO_FILE,
    OPTIONS_FILE,
    is_crawl,
    need_crawl,
    prepare,
    toml_value,
)
from frontlog.demo_site import ALLOW, DemoSite
from frontlog.errors import STOPPED_NOW, ConfigError
from frontlog.settings_catalogue import CATALOGUE, Setting
from frontlog.streams.small_files import write_whole
from frontlog.streams.summary import End

DEMO_SETTINGS: dict[str, object] = {
    "fetch.allow_addresses": [ALLOW],
    "politeness.gap_ms_min": 100,
    "scope.depth_max": 8,
    "limits.body_bytes_max": 256_000,
    "limits.decoded_bytes_max": 512_000,
    "attempts.retry_ms_min": 1_000,
    "crawl.patience_ms": 30_000,
}
"""Small limits and gaps: every rule shows, and the whole takes less than a minute."""


@click.command("demo")
@click.option(
    "-o",
    "--out",
    "--output",
    "folder",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Folder of the crawl. [default: crawls/demo, or crawls/demo-2 and so on]",
)
@click.option("-q", "--quiet", is_flag=True, help="No progress, only the summary.")
@format_flag
def demo(folder: Path | None, quiet: bool, as_json: bool | None) -> None:
    """Crawl a small site that comes with frontlog.

    A whole crawl in less than a minute, with no network: the site is served on loopback. It has what a
    crawler meets on the web: rules in robots.txt, redirects and a loop of them, pages that are gone, slow,
    busy, too large, compressed, in other encodings, doubled, and a calendar without an end. On the folder of
    a demo that was interrupted it goes on.
    """
    folder = folder or _free_folder()
    prepare(folder, has_seeds=True)
    with DemoSite(_port_of(folder)) as site:
        write_whole(folder / DEMO_FILE, json.dumps({"port": site.port}) + "\n")
        click.echo(f"frontlog: serving the demo site at {' '.join(site.seeds)}", err=True)
        display = choose(as_json=as_json, quiet=quiet, out=sys.stdout)
        display.again = "demo"  # without its site, the crawl would find nobody at home
        summary = run(folder, site.seeds, dict(DEMO_SETTINGS), display, warn=False)
    if summary.end is End.STOPPED_NOW:
        raise click.exceptions.Exit(STOPPED_NOW)


def _free_folder() -> Path:
    first = Path("crawls") / "demo"
    return next(
        path
        for path in (first if n == 1 else first.with_name(f"demo-{n}") for n in range(1, 1_000_000))
        if not path.exists()
    )


def _port_of(folder: Path) -> int:
    """The port that the demo of this folder was served on; 0 for a new one."""
    noted = folder / DEMO_FILE
    if noted.is_file():
        try:
            facts = cast("dict[str, Any]", json.loads(noted.read_text(encoding="utf-8")))
            return int(facts["port"])
        except (ValueError, KeyError, TypeError) as error:
            raise ConfigError(f"{noted}: damaged ({error}); remove the folder, or choose another") from error
    if is_crawl(folder):
        raise ConfigError(f"{folder}: holds another crawl; choose another folder with --out")
    return 0


def _configuration(folder: Path | None, config_file: Path | None, given: dict[str, object]) -> Config:
    """What a crawl in `folder` would run with; nothing is written."""
    values: dict[str, Given] = {}
    files = [
        config_file or (folder / CONFIG_FILE if folder else None),
        folder / OPTIONS_FILE if folder else None,
    ]
    for path in files:
        if path is not None and (path is config_file or path.is_file()):
            values |= read_file(path)
    return build(values | {name: Given(value, "command line") for name, value in given.items()})


_folder = click.option(
    "-C", "--crawl", "folder", metavar="DIR", type=click.Path(path_type=Path), help="Folder of a crawl."
)
_config = click.option(
    "--config", "config_file", metavar="FILE", type=click.Path(path_type=Path), help="Configuration."
)
_set = click.option("--set", "more", metavar="NAME=VALUE", multiple=True, help="A setting (repeatable).")


@click.command("botpage")
@_folder
@_config
@_set
@click.option(
    "-o",
    "--out",
    "--output",
    "out",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="[default: stdout]",
)
def botpage(folder: Path | None, config_file: Path | None, more: tuple[str, ...], out: Path | None) -> None:
    """Write a page for the owners of the sites you crawl.

    It says who you are, what the crawl is for, how to slow or stop it in robots.txt, where it comes from and
    how to verify that by reverse DNS. Put it on the web and name its address in identity.info_url.
    """
    config = _configuration(
        need_crawl(folder) if folder else None, config_file, given_settings({"more": more})
    )
    text = page.render(config)
    missing = page.gaps(config)
    if missing:
        click.echo(f"frontlog: warning: the page has gaps, marked in it: set {', '.join(missing)}", err=True)
    if out is None:
        click.echo(text, nl=False)
    else:
        write_whole(out, text)


@click.command("settings")
@_folder
@_config
@_set
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of TOML.")
def settings(folder: Path | None, config_file: Path | None, more: tuple[str, ...], as_json: bool) -> None:
    """List every setting, as a frontlog.toml.

    Each with its meaning, its bounds and its value; what has its default is commented out. With -C the values
    are those that the crawl would go on with.
    """
    config = _configuration(
        need_crawl(folder) if folder else None, config_file, given_settings({"more": more})
    )
    if as_json:
        print_json({name: value_of(config, name) for name in CATALOGUE})
    else:
        click.echo(settings_toml(config), nl=False)


def settings_toml(config: Config) -> str:
    """A frontlog.toml with everything; what has its default is commented out."""
    default, lines, section = (
        load(),
        ["# Settings of frontlog. What is commented out has its default."],
        "",
    )
    for setting in sorted(CATALOGUE.values(), key=lambda one: list(_order()).index(one.section)):
        if setting.section != section:
            section = setting.section
            lines += ["", f"[{section}]"]
        value = value_of(config, setting.name)
        lines += [f"# {line}" for line in textwrap.wrap(described(setting), 98)]
        mark = "# " if value == value_of(default, setting.name) else ""
        lines.append(f"{mark}{setting.field} = {toml_value(value)}")
    return "\n".join(lines) + "\n"


def _order() -> dict[str, None]:
    """Sections in the order of the catalogue."""
    return dict.fromkeys(setting.section for setting in CATALOGUE.values())


def described(setting: Setting) -> str:
    """The sentence of a setting with its choices or bounds."""
    if setting.choices:
        return f"{setting.doc} One of: {', '.join(setting.choices)}."
    if setting.least is None or setting.most is None:
        return setting.doc
    unit = f" {setting.unit}" if setting.unit else ""
    return f"{setting.doc} From {setting.least:.15g} to {setting.most:.15g}{unit}."
