"""What all commands share: how errors end a command, the options that many have, how answers are printed."""

import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import click
import msgspec

from frontlog.avro.enums import Topic
from frontlog.crawl_folder import need_crawl
from frontlog.errors import FrontlogError, from_os_error

F = TypeVar("F", bound=Callable[..., Any])
HELP_WIDTH = 100
CONTEXT: dict[str, Any] = {"help_option_names": ["-h", "--help"], "max_content_width": HELP_WIDTH}
KAFKA = "kafka://"
TOPICS = tuple(topic.value for topic in Topic)


class Seconds(click.FloatRange):
    """A number of seconds within bounds; not NaN, which click's own range lets through."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Seconds, or a usage error."""
        seconds = float(super().convert(value, param, ctx))
        if math.isnan(seconds):
            self.fail(f"{value} is no number of seconds.", param, ctx)
        return seconds


GAP = Seconds(0, 86_400)


def fail(error: FrontlogError) -> NoReturn:
    """Say an error of the tree on stderr and end with its exit code."""
    click.echo(f"frontlog: {error}", err=True)
    raise click.exceptions.Exit(error.exit_code) from error


class FrontlogGroup(click.Group):
    """A group that turns the errors of the tree, and those of the operating system, into messages."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command that was named."""
        try:
            return super().invoke(ctx)
        except FrontlogError as error:
            fail(error)
        except BrokenPipeError:
            raise  # `frontlog tail ... | head`: click ends such a command without a word
        except OSError as error:
            fail(from_os_error(error))


def _crawl(_ctx: click.Context, _param: click.Parameter, value: Path) -> Path:
    return need_crawl(value)


def in_crawl(command: F) -> F:
    """`-C DIR`: the crawl that a command looks at or talks to."""
    return click.option(
        "-C",
        "--crawl",
        "folder",
        metavar="DIR",
        required=True,
        type=click.Path(path_type=Path),
        callback=_crawl,
        help="Folder of the crawl.",
    )(command)


def _crawl_anywhere(_ctx: click.Context, _param: click.Parameter, value: str) -> Path | str:
    return value if value.startswith(KAFKA) else need_crawl(Path(value))


def of_crawl(command: F) -> F:
    """`-C DIR`, or `-C kafka://SERVERS/NAME`: the crawl that a command talks to."""
    return click.option(
        "-C",
        "--crawl",
        "folder",
        metavar="DIR",
        required=True,
        callback=_crawl_anywhere,
        help="Folder of the crawl, or kafka://SERVERS/NAME.",
    )(command)


def crawl_argument(command: F) -> F:
    """A folder of a crawl as the first argument."""
    return click.argument("folder", metavar="DIR", type=click.Path(path_type=Path), callback=_crawl)(command)


def json_flag(command: F) -> F:
    """`--json`: for programs."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON instead of words.")(command)


def format_flag(command: F) -> F:
    """`--json / --text`: which one is the default depends on stdout."""
    return click.option(
        "--json/--text",
        "as_json",
        default=None,
        help="JSON lines, or words. By default words on a terminal and JSON lines in a pipe.",
    )(command)


def print_json(value: object) -> None:
    """One JSON document on one line."""
    click.echo(msgspec.json.encode(value))


def print_lines(lines: list[str]) -> None:
    """Lines of words."""
    click.echo("\n".join(lines))


def stdout_is_terminal() -> bool:
    """Whether a person is watching."""
    return sys.stdout.isatty()
