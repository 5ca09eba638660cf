"""The folder of a crawl, as the command line sees it: which files configure it, and whether it may be used.

    DIR/frontlog.toml   the person's configuration; a file given with --config is copied here
    DIR/options.toml    what the command lines of this crawl gave, written by `frontlog crawl`
    DIR/seeds.waiting   seeds that the log doesn't have yet
    DIR/log             the log and the tables
    DIR/archive         the WARC files

Options are remembered so that a crawl that was stopped or killed goes on under the same rules, with no
need to repeat them. Giving an option again replaces what is remembered of it.
"""

import json
import re
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

import ada_url

from frontlog.config import COMMAND_LINE, Config, Given, build, read_file
from frontlog.errors import ConfigError
from frontlog.state.owner_lock import FILE as LOCK_FILE
from frontlog.state.owner_lock import holder
from frontlog.streams.seeds import FILE as SEEDS_FILE
from frontlog.streams.small_files import write_whole

CONFIG_FILE = "frontlog.toml"
OPTIONS_FILE = "options.toml"
LOG_FOLDER = "log"
DEMO_FILE = "demo.json"
"""Where the demo's site was served, so that an interrupted demo finds it again."""
_HEADER = """\
# What the command lines of this crawl gave, remembered so that it goes on under the same rules.
# `frontlog crawl` writes this file; what stands here outranks frontlog.toml. A line may be edited or removed.
"""


def is_crawl(folder: Path) -> bool:
    """Whether a crawl was begun in a folder."""
    return any((folder / name).exists() for name in (OPTIONS_FILE, LOG_FOLDER, LOCK_FILE, SEEDS_FILE))


def need_crawl(folder: Path) -> Path:
    """The folder, if it holds a crawl; raises ConfigError with what to do otherwise."""
    if is_crawl(folder):
        return folder
    if not folder.exists():
        raise ConfigError(f"{folder}: there is no such folder; name the folder of a crawl (its --out)")
    if not folder.is_dir():
        raise ConfigError(f"{folder}: not a folder; name the folder of a crawl (its --out)")
    raise ConfigError(f"{folder}: holds no crawl; name the folder that was given to `frontlog crawl --out`")


def prepare(folder: Path, has_seeds: bool) -> bool:
    """Make the folder of a new crawl, or accept that of an old one; returns whether a crawl is there already.

    Raises ConfigError when a new crawl has nothing to begin with, or the folder is in use or somebody else's.
    """
    if is_crawl(folder):
        _need_writable(folder)
        owner = holder(folder)
        if owner is not None:  # before anything is written; the lock itself is taken by the crawl
            raise ConfigError(f"{folder}: in use by {owner}; stop it first, or choose another folder")
        return True
    if not has_seeds:
        raise ConfigError(
            f"{folder}: holds no crawl that could go on; to begin one, give a URL to start from"
        )
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"{folder}: not a folder; choose another with --out")
    if folder.is_dir() and {entry.name for entry in folder.iterdir()} - {CONFIG_FILE, DEMO_FILE}:
        raise ConfigError(f"{folder}: not empty, and not a crawl; choose another folder with --out")
    folder.mkdir(parents=True, exist_ok=True)
    _need_writable(folder)
    return False


def configure(folder: Path, config_file: Path | None, given: Mapping[str, object]) -> Config:
    """The configuration that a crawl in `folder` runs with; remembers what was given. Raises ConfigError."""
    own, remembered = folder / CONFIG_FILE, folder / OPTIONS_FILE
    values: dict[str, Given] = {}
    sources: list[str] = []
    source = config_file or (own if own.is_file() else None)
    for path in (source, remembered if remembered.is_file() else None):
        if path is not None:
            values |= read_file(path)
            sources.append(str(path))
    values |= {name: Given(value, COMMAND_LINE) for name, value in given.items()}
    config = build(values, sources)
    if config_file is not None and not (own.exists() and own.samefile(config_file)):
        _keep(config_file, own)
    if given:
        old = {name: one.value for name, one in read_file(remembered).items()} if remembered.is_file() else {}
        write_whole(remembered, _HEADER + as_toml({**old, **given}))
    elif not remembered.is_file():
        write_whole(remembered, _HEADER)
    return config


def as_toml(values: Mapping[str, object]) -> str:
    """Values by dotted name as TOML, a table for each section."""
    sections: dict[str, list[str]] = {}
    for name, value in values.items():
        section, _, field = name.partition(".")
        sections.setdefault(section, []).append(f"{field} = {toml_value(value)}")
    return "".join(
        f"\n[{section}]\n" + "".join(f"{ln}\n" for ln in lines) for section, lines in sections.items()
    )


def toml_value(value: object) -> str:
    """One value as TOML writes it (TOML 1.0); JSON's strings are TOML's, but for DEL."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, Mapping):
        table = cast("Mapping[str, object]", value)
        pairs = ", ".join(f"{toml_value(name)} = {toml_value(one)}" for name, one in table.items())
        return "{ " + pairs + " }" if pairs else "{}"
    assert isinstance(value, list | tuple), type(value)
    return "[" + ", ".join(toml_value(item) for item in cast("Sequence[object]", value)) + "]"


def default_folder(url: str) -> Path:
    """Where a crawl goes when no folder is named: `crawls/HOST`, with the port if one is written."""
    name = re.sub(r"[^a-z0-9.-]+", "-", ada_url.URL(url).host).strip("-.")
    if not name:
        raise ConfigError(f"{url}: no host to name the folder after; name one with --out")
    return Path("crawls") / name


def _keep(source: Path, own: Path) -> None:
    """Copy the given configuration into the folder; one that stands there is kept under another name."""
    if own.exists():
        own.replace(own.with_name(f"{CONFIG_FILE}.old"))
    write_whole(own, source.read_text(encoding="utf-8"))


def _need_writable(folder: Path) -> None:
    """An error now is better than one after the first fetch."""
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        error.filename = str(folder)  # and not that of a file that nobody knows
        raise
