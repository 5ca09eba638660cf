"""`frontlog check`: ask the crawl's own code about one input, or about JSON lines on stdin.

    frontlog check url 'HTTP://Example.org:80/a/../b#c'
    frontlog check url '{"raw": "../b", "base": "http://example.org/a/c"}'
    frontlog check url --jsonl < questions.jsonl > answers.jsonl

With `--jsonl` every line in gives one line out, in the same order and at once; a line that can't be read or
answered gives {"error": ...} and the next ones go on, and the exit code is 0.
"""

import base64
import json
import sys
from collections.abc import Callable
from typing import Any, BinaryIO, TypeVar, cast

import click

from frontlog import machinery
from frontlog.errors import ConfigError, FrontlogError
from frontlog.machinery import Check

F = TypeVar("F", bound=Callable[..., Any])
Question = dict[str, object]


def jsonl_flag(command: F) -> F:
    """`--jsonl`: many questions instead of one."""
    return click.option(
        "--jsonl", is_flag=True, help="Read JSON objects from stdin, one a line, and answer each on a line."
    )(command)


def answer_line(check: Check, line: bytes) -> str:
    """The answer to one JSON line, as JSON; whatever is wrong with it becomes {"error": ...}."""
    try:
        return _dumps(check(_question(line)))
    except FrontlogError as error:
        return _dumps({"error": str(error)})
    except Exception as error:  # one line must not stop the rest, not even by a fault of ours
        return _dumps({"error": f"{type(error).__name__}: {error}"})


def answer_lines(check: Check, source: BinaryIO, write: Callable[[str], None]) -> None:
    """A line out for each line in, each before the next is read."""
    for line in iter(source.readline, b""):
        write(answer_line(check, line) + "\n")


def _question(line: bytes | str) -> Question:
    # Not msgspec: a lone surrogate (\ud800) is valid JSON, and the standard's own URL tests have some.
    try:
        question = json.loads(line)
    except UnicodeDecodeError as error:
        raise ConfigError(f"not UTF-8 at byte {error.start}") from error
    except ValueError as error:
        raise ConfigError(f"not JSON: {error}") from error
    except RecursionError as error:
        raise ConfigError("not JSON that can be read: nested too deeply") from error
    if not isinstance(question, dict):
        raise ConfigError('not a JSON object; write one, such as {"url": "https://example.org/"}')
    return cast("Question", question)


def _dumps(answer: dict[str, object]) -> str:
    return json.dumps(answer, separators=(",", ":"))  # ASCII: an answer may hold a lone surrogate, too


def _run(what: str, question: Question | None, jsonl: bool, allow: tuple[str, ...] = ()) -> None:
    check = machinery.checker(what, allow)
    if jsonl:
        if question is not None:
            raise click.UsageError("With --jsonl the questions come from stdin; give no other.")

        def write(text: str) -> None:
            sys.stdout.write(text)
            sys.stdout.flush()

        answer_lines(check, sys.stdin.buffer, write)
        return
    if question is None:
        raise click.UsageError("Give an input, a JSON object, or --jsonl.")
    answer = check(question)
    if set(answer) == {"error"}:
        raise ConfigError(str(answer["error"]))
    indent = 2 if sys.stdout.isatty() else None
    click.echo(json.dumps(answer, indent=indent))


def _asked(text: str | None, **fields: object) -> Question | None:
    """The question of an argument: a JSON object as it stands, or the fields that are given."""
    if text is None:
        return None
    if text.lstrip().startswith("{"):
        return _question(text)
    return {name: value for name, value in fields.items() if value is not None}


def _bytes_of(file: BinaryIO | None) -> str | None:
    """The content of a file in base64, so that no encoding is guessed here."""
    return None if file is None else base64.b64encode(file.read()).decode("ascii")


@click.group("check")
def check() -> None:
    """Ask the crawl's own code about an input.

    An input is given by arguments, or as a JSON object in place of the first one.
    """


@check.command("url")
@click.argument("raw", metavar="[URL|JSON]", required=False)
@click.option("--base", metavar="URL", help="What a relative URL is joined with.")
@click.option(
    "--rules", metavar="NAME|JSON", help="Profile (conservative, index), or rules as a JSON object."
)
@jsonl_flag
def check_url(raw: str | None, base: str | None, rules: str | None, jsonl: bool) -> None:
    """Say which identity a URL has, or why it is refused.

    {raw, base?, rules?} gives {identity, origin_key, rules_fired, ...} or {reject}.
    """
    given: object = _question(rules) if rules is not None and rules.lstrip().startswith("{") else rules
    _run("url", _asked(raw, raw=raw, base=base, rules=given), jsonl)


@check.command("robots")
@click.argument("url", metavar="[URL|JSON]", required=False)
@click.option("--robots-txt", metavar="FILE", type=click.File("rb"), help="The robots.txt; `-` is stdin.")
@click.option("--user-agent", metavar="TOKEN", default="frontlog", show_default=True, help="Who asks.")
@jsonl_flag
def check_robots(url: str | None, robots_txt: BinaryIO | None, user_agent: str, jsonl: bool) -> None:
    """Say whether a robots.txt allows a URL.

    And by which rule of which group: {robots_txt | robots_b64, user_agent, url} gives {allowed, rule, line,
    group}.
    """
    _run("robots", _asked(url, url=url, robots_b64=_bytes_of(robots_txt), user_agent=user_agent), jsonl)


@check.command("links")
@click.argument("url", metavar="[URL|JSON]", required=False)
@click.option("--html", metavar="FILE", type=click.File("rb"), help="The page; `-` is stdin.")
@click.option("--content-type", metavar="TYPE", help="The page's Content-Type header.")
@jsonl_flag
def check_links(url: str | None, html: BinaryIO | None, content_type: str | None, jsonl: bool) -> None:
    """Say which links a page has.

    As URLs before any identity rule: {html | html_b64, url, content_type?} gives {base, links: [{url, anchor,
    rel, kind}]}.
    """
    _run("links", _asked(url, url=url, html_b64=_bytes_of(html), content_type=content_type), jsonl)


@check.command("sitemap")
@click.argument("url", metavar="[URL|JSON]", required=False)
@click.option("--file", metavar="FILE", type=click.File("rb"), help="The sitemap or feed; `-` is stdin.")
@click.option("--content-type", metavar="TYPE", help="The file's Content-Type header.")
@jsonl_flag
def check_sitemap(url: str | None, file: BinaryIO | None, content_type: str | None, jsonl: bool) -> None:
    """Say which pages a sitemap or feed lists.

    XML, RSS, Atom or a text of URLs, gzip or not: {xml_b64 | text, url, content_type?} gives {kind, urls:
    [{loc, lastmod?, ...}], children, errors}.
    """
    _run("sitemap", _asked(url, url=url, xml_b64=_bytes_of(file), content_type=content_type), jsonl)


@check.command("meta")
@click.argument("html", metavar="[FILE|JSON]", required=False)
@click.option("--header", metavar="'NAME: VALUE'", multiple=True, help="A header of the page (repeatable).")
@click.option("--agent", metavar="TOKEN", default="frontlog", show_default=True, help="Who asks.")
@jsonl_flag
def check_meta(html: str | None, header: tuple[str, ...], agent: str, jsonl: bool) -> None:
    """Say what a page allows to be done with it.

    By its robots meta elements and X-Robots-Tag headers: {html | html_b64, headers: [[name, value], ...],
    agent} gives {noindex, nofollow, noarchive, ...}. A FILE of `-` is stdin.
    """
    headers = [[part.strip() for part in line.partition(":")[::2]] for line in header]
    if html is not None and html.lstrip().startswith("{"):
        question: Question | None = _question(html)
    elif html is None and not header:
        question = None
    else:
        file = None if html is None else click.File("rb").convert(html, None, click.get_current_context())
        question = {"headers": headers, "agent": agent}
        if file is not None:
            question["html_b64"] = _bytes_of(cast("BinaryIO", file))
    _run("meta", question, jsonl)


@check.command("scope")
@click.argument("url", metavar="[URL|JSON]", required=False)
@click.option(
    "--seed", metavar="URL", multiple=True, help="A seed of the crawl (repeatable). [default: the URL itself]"
)
@click.option(
    "--mode",
    type=click.Choice(["host", "site", "prefix", "any"]),
    default="host",
    show_default=True,
    help="scope.mode of the crawl.",
)
@click.option(
    "--depth", metavar="N", type=click.IntRange(0), default=1, show_default=True, help="Links from a seed."
)
@jsonl_flag
def check_scope(url: str | None, seed: tuple[str, ...], mode: str, depth: int, jsonl: bool) -> None:
    """Say whether a URL belongs to a crawl, or is a trap.

    {url, seeds?, depth?, scope?, traps?, at_ms?} gives {in_scope, reason?, detail?, identity, pattern}; scope and
    traps are fields of the settings of that name.
    """
    seeds = list(seed) if seed or url is None else [url]
    _run("scope", _asked(url, url=url, seeds=seeds, scope={"mode": mode}, depth=depth), jsonl)


@check.command("address")
@click.argument("url", metavar="[URL|JSON]", required=False)
@click.argument("resolved", metavar="[ADDRESS]...", nargs=-1)
@click.option("--allow-addresses", metavar="CIDR", multiple=True, help="Network to allow (repeatable).")
@jsonl_flag
def check_address(
    url: str | None, resolved: tuple[str, ...], allow_addresses: tuple[str, ...], jsonl: bool
) -> None:
    """Say whether a URL may be fetched from addresses.

    {url, resolved: [...]} gives {verdict: allow | refuse, reason, addresses}; `resolved` is what its host
    resolves to. Nothing is looked up.
    """
    _run("address", _asked(url, url=url, resolved=list(resolved)), jsonl, allow_addresses)
