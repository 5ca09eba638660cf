"""Reading a configuration: a file, what a command line gave, and the catalogue that both are held against.

    default  <  frontlog.toml  <  options.toml  <  this command line

`frontlog.toml` belongs to the person. `options.toml` (`frontlog/crawl_folder.py`) remembers what earlier
command lines of the same crawl gave, so that a crawl goes on under the rules that it began with.
Nothing is guessed: an unknown name, a wrong type or a value out of bounds is a `ConfigError` that says
what, where and what to do.
"""

import difflib
import math
import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeGuard, cast

import msgspec

from frontlog import __version__
from frontlog.errors import ConfigError
from frontlog.processors.settings import Settings
from frontlog.setting_checks import is_mail
from frontlog.settings_catalogue import CATALOGUE, Setting, Use
from frontlog.streams.options import Config, Options

__all__ = ["Config", "Given", "build", "load", "parse_value", "read_file", "user_agent", "value_of"]

COMMAND_LINE = "command line"
_BOUNDED = "whole number", "number"


class Given(NamedTuple):
    """A value and where it comes from, as a person would look for it."""

    value: object
    where: str


def load(path: Path | None = None, overrides: Mapping[str, object] | None = None) -> Config:
    """The configuration of a file (none: the defaults) with `overrides` (by dotted name) on top.

    Raises ConfigError.
    """
    given = read_file(path) if path is not None else {}
    given |= {name: Given(value, COMMAND_LINE) for name, value in (overrides or {}).items()}
    return build(given, () if path is None else (str(path),))


def read_file(path: Path) -> dict[str, Given]:
    """What a TOML file sets, by dotted name, not yet checked. Raises ConfigError."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}; give a readable file with --config") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not UTF-8 at byte {error.start}; save it as UTF-8") from error
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: not TOML: {error}; see docs/reference/settings.md") from error
    given: dict[str, Given] = {}
    for section, table in tables.items():
        if not isinstance(table, dict):
            raise ConfigError(_unknown(section, _where(path, text, section)))
        for field, value in cast("dict[str, object]", table).items():
            given[f"{section}.{field}"] = Given(value, _where(path, text, f"{section}.{field}"))
    return given


def build(given: Mapping[str, Given], sources: Sequence[str] = ()) -> Config:
    """A configuration of checked values; what is not given has its default. Raises ConfigError."""
    values: dict[str, object] = {}
    for name, one in given.items():
        setting = CATALOGUE.get(name)
        if setting is None:
            raise ConfigError(_unknown(name, one.where))
        values[name] = _checked(setting, one)
    settings, options = _structs(values)
    if settings.attempts.lease_ms <= options.limits.total_ms:
        where = next((given[n].where for n in ("limits.total_ms", "attempts.lease_ms") if n in given), "")
        raise ConfigError(
            f"attempts.lease_ms = {settings.attempts.lease_ms} ({where}): must be more than limits.total_ms, "
            f"{options.limits.total_ms}, or a slow fetch loses its claim; 30000 more is a good choice"
        )
    return Config(settings, options, user_agent(settings, options), tuple(sources))


def user_agent(settings: Settings, options: Options) -> str:
    """The User-Agent header (RFC 9110 §10.1.5): who asks, in which version, and where to read about it.

    `Mozilla/5.0 (compatible; TOKEN/VERSION; +INFO_URL)`. Without an info_url the contact stands in its
    place, a mail address as `+mailto:`; without either there is no third part.
    """
    contact = options.identity.contact
    about = options.identity.info_url or (f"mailto:{contact}" if is_mail(contact) else contact)
    return (
        f"Mozilla/5.0 (compatible; {settings.identity.token}/{__version__}{f'; +{about}' if about else ''})"
    )


def value_of(config: Config, name: str) -> Any:
    """The value that a setting has in a configuration."""
    setting = CATALOGUE[name]
    root = config.settings if setting.use is Use.DECIDES else config.options
    return getattr(getattr(root, setting.section), setting.field)


def parse_value(text: str) -> object:
    """A value as it is written on a command line: TOML where it is TOML, otherwise the text itself."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _structs(values: Mapping[str, object]) -> tuple[Settings, Options]:
    deciding: dict[str, dict[str, object]] = {}
    process: dict[str, dict[str, object]] = {}
    for name, value in values.items():
        setting = CATALOGUE[name]
        root = deciding if setting.use is Use.DECIDES else process
        root.setdefault(setting.section, {})[setting.field] = value
    return msgspec.convert(deciding, Settings), msgspec.convert(process, Options)


def _checked(setting: Setting, given: Given) -> object:
    """The value in the type that the code has it; raises ConfigError."""
    try:
        value = _converted(setting, given.value)
        problem = (setting.check(value) if setting.check else "") or _out_of_bounds(setting, value)
    except TypeError as error:
        value, problem = given.value, str(error)
    if problem:
        shown = repr(given.value)
        raise ConfigError(f"{setting.name} = {shown[:200]} ({given.where}): {problem}")
    return value


def _converted(setting: Setting, value: object) -> object:
    """Raises TypeError with a sentence for people."""
    kind = setting.kind
    if kind == "whole number":
        if isinstance(value, int) and not isinstance(value, bool):
            return value
    elif kind == "number":
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
            return float(value)
    elif kind == "text":
        if isinstance(value, str):
            return value
    elif kind == "one of":
        if value in setting.choices:
            return value
        raise TypeError(f"must be one of {', '.join(setting.choices)}; the default is {setting.default}")
    elif kind == "list of texts":
        if _is_texts(value):
            return tuple(value)
    elif isinstance(value, Mapping):
        table = {
            name: (one,) if isinstance(one, str) else tuple(one) if _is_texts(one) else None
            for name, one in cast("Mapping[str, object]", value).items()
        }
        if None not in table.values():
            return table
    raise TypeError(
        f"must be a {kind}{f' of {setting.unit}' if setting.unit else ''}; the default is {setting.default!r}"
    )


def _is_texts(value: object) -> TypeGuard[Sequence[str]]:
    items = cast("Sequence[object]", value)
    return isinstance(value, list | tuple) and all(isinstance(item, str) for item in items)


def _out_of_bounds(setting: Setting, value: object) -> str:
    if setting.kind in _BOUNDED:
        number, least, most = cast("float", value), setting.least, setting.most
        assert least is not None and most is not None, setting.name
        if not least <= number <= most:
            unit = f" {setting.unit}" if setting.unit else ""
            return f"must be from {least} to {most}{unit}; the default is {setting.default}"
    elif setting.items_max and len(cast("Sequence[object]", value)) > setting.items_max:
        return f"must have at most {setting.items_max} entries"
    return ""


def _unknown(name: str, where: str) -> str:
    """Names the nearest setting: by its whole name, or by the field alone where the section is wrong."""
    fields = {setting.field: setting.name for setting in CATALOGUE.values()}
    near = difflib.get_close_matches(name, CATALOGUE, 1, 0.6)
    near = near or [fields[f] for f in difflib.get_close_matches(name.rpartition(".")[2], fields, 1, 0.7)]
    hint = f"did you mean {near[0]}?" if near else "`frontlog settings` lists them all"
    return f"{where}: there is no setting {name}; {hint}"


def _where(path: Path, text: str, name: str) -> str:
    """The file and, where it is written plainly, the line that sets `section.field`."""
    section, _, field = name.partition(".")
    current = ""
    for number, line in enumerate(text.splitlines(), 1):
        header = re.match(r"\s*\[+\s*([^\]]+?)\s*\]", line)
        key = re.match(r"\s*([A-Za-z0-9_.\"-]+)\s*=", line)
        if header is not None:
            current = header[1].replace('"', "")
            full = current
        elif key is not None:
            full = f"{current}.{key[1]}".lstrip(".").replace('"', "")
        else:
            continue
        if full == name or full.startswith(f"{name}.") or (not field and full == section):
            return f"{path}, line {number}"
    return str(path)
