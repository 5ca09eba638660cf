"""The command `frontlog`: the groups put together. What each command does stands in `commands_*.py`."""

import click

from frontlog import (
    __version__,
    commands_check,
    commands_control,
    commands_crawl,
    commands_identity,
    commands_kafka,
    commands_look,
    commands_site,
)
from frontlog.cli_base import CONTEXT, FrontlogGroup
from frontlog.errors import EXIT_CODES

SECTIONS: tuple[tuple[str, tuple[click.Command, ...]], ...] = (
    ("Crawl", (commands_crawl.crawl, commands_site.demo)),
    ("Look", (*commands_look.COMMANDS, *commands_identity.LOOK)),
    ("Control a crawl, running or not", (*commands_control.COMMANDS, *commands_identity.ACTS)),
    ("On Kafka", commands_kafka.COMMANDS),
    ("Try and tell", (commands_check.check, commands_site.botpage, commands_site.settings)),
)


class Root(FrontlogGroup):
    """The top: its commands are listed by what they are for, then the exit codes of all of them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names in the order of the sections."""
        return [command.name or "" for _, commands in SECTIONS for command in commands]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """A paragraph of commands for each section."""
        for title, commands in SECTIONS:
            with formatter.section(title):
                formatter.write_dl(
                    [(command.name or "", command.get_short_help_str(70)) for command in commands]
                )

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """What a script that calls a command may rely on."""
        with formatter.section("Exit codes"):
            formatter.write_dl([(str(code), meaning) for code, meaning in EXIT_CODES.items()])


@click.group("frontlog", cls=Root, context_settings=CONTEXT)
@click.version_option(__version__, prog_name="frontlog")
def main() -> None:
    """A polite web crawler whose only truth is a log: every step can be explained, proved and rebuilt.

    \b
    frontlog demo                                       a whole crawl in a minute, with no network
    frontlog crawl https://example.org/ --max-pages 500
    frontlog explain https://example.org/ -C crawls/example.org
    """


for _, _commands in SECTIONS:
    for _command in _commands:
        main.add_command(_command)
