"""What a page says of its own use: robots meta elements and X-Robots-Tag headers, put together.

`<meta name=robots content="...">` and the header say the same things. The rules, after Google's "Robots
meta tag, data-nosnippet, and X-Robots-Tag specifications", the only ones that are published in full:

- what speaks to everyone (`name=robots`; a header without an agent, or with `*` or `robots`) and what
  speaks to our product token are added up; what speaks to another agent is not for us;
- where directives differ, the most restrictive one counts: `noindex, index` is noindex, and a rule for our
  token doesn't lift one for everyone;
- `none` is `noindex, nofollow`; `all`, `index` and `follow` change nothing; names have no case.

A header is `[agent:] directive, directive ...`. Servers and proxies join headers with commas, so an agent
may stand in the middle of a list and speaks from there on. `name:` is an agent when a directive follows,
else a directive with a value: `max-image-preview: large` addresses nobody. A date of `unavailable_after`
may hold commas and colons itself (`Saturday, 30-Jun-07 00:00:00 GMT`); of several the earliest counts.

Beyond the specification, for authors whose wish is plain: `;` and spaces separate directives, too.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import lru_cache

import msgspec
from selectolax.lexbor import SelectolaxError

from frontlog.avro.errors import ConfigError
from frontlog.processors.dates import date_ms
from frontlog.processors.encoding import HTML_TYPES, decide, media_type, parser_source
from frontlog.processors.markup import Survey, parse
from frontlog.processors.page import robots_directives
from frontlog.processors.questions import JsonObject, body_of, headers_of, text_of
from frontlog.processors.robots_check import product_token_of

DIRECTIVES_MAX = 100
DIRECTIVE_CHARACTERS_MAX = 100
VALUE_CHARACTERS_MAX = 16_384
"""What is read of one header, or of all meta elements of a page together."""
ANSWERS_KEPT_MAX = 256
DATE_PARTS_MAX = 3
"""Parts between commas that a date may span."""

NOINDEX = frozenset({"noindex", "none"})
NOFOLLOW = frozenset({"nofollow", "none"})
NOARCHIVE = frozenset({"noarchive", "nocache"})
NOSNIPPET = frozenset({"nosnippet", "max-snippet:0"})
UNAVAILABLE_AFTER = "unavailable_after"
VALUED = frozenset({UNAVAILABLE_AFTER, "max-snippet", "max-image-preview", "max-video-preview"})
PLAIN = frozenset({
    *("all", "index", "follow", "archive", "snippet", "noindex", "nofollow", "none", "noarchive", "nocache"),
    *("nosnippet", "noimageindex", "notranslate", "indexifembedded", "noodp", "noydir", "nositelinkssearchbox"),
    *("noai", "noimageai", "nopagereadaloud"),
})  # fmt: skip
EVERYONE = frozenset({"", "*", "robots"})

_AGENT = re.compile(r"[a-z0-9_./*-]{1,100}")
_TOKEN = re.compile(r"[a-z_-]+|\*")


class RobotsMeta(msgspec.Struct, frozen=True):
    """What may be done with a page, as far as it says so to us."""

    noindex: bool = False
    nofollow: bool = False
    noarchive: bool = False
    nosnippet: bool = False
    noimageindex: bool = False
    notranslate: bool = False
    unavailable_after_ms: int = 0
    """From then on as noindex, ms since the epoch, UTC; 0: no date, or none that can be read."""
    directives: tuple[str, ...] = ()
    """All that speak to us, lower case, each once, in order: `noindex`, `max-snippet:20`."""

    def noindex_at(self, now_ms: int) -> bool:
        """Whether the page may not be indexed at a time, ms since the epoch."""
        return self.noindex or 0 < self.unavailable_after_ms <= now_ms


def directives_of(page_directives: Iterable[str], headers: Iterable[str], token: str) -> RobotsMeta:
    """Put together what a page (`Page.robots_meta`) and its X-Robots-Tag values say to a product token.

    Never raises; beyond 100 directives nothing is read. Pages of a site say the same again and again: the last answers
    are kept.
    """
    # Page.robots_meta was split at commas, dates too: joined again nothing is lost.
    return _directives_of(", ".join(page_directives)[:VALUE_CHARACTERS_MAX], tuple(headers), token)


@lru_cache(maxsize=ANSWERS_KEPT_MAX)
def _directives_of(said: str, headers: tuple[str, ...], token: str) -> RobotsMeta:
    if not said and not headers:
        return RobotsMeta()
    found: dict[str, int] = {}
    values = [(said, False), *((value, True) for value in headers)]
    for value, with_agents in values:
        for directive, at_ms in _directives(value[:VALUE_CHARACTERS_MAX].lower(), token.lower(), with_agents):
            if len(found) < DIRECTIVES_MAX:
                found.setdefault(directive, at_ms)
    names = found.keys()
    return RobotsMeta(
        noindex=not NOINDEX.isdisjoint(names),
        nofollow=not NOFOLLOW.isdisjoint(names),
        noarchive=not NOARCHIVE.isdisjoint(names),
        nosnippet=not NOSNIPPET.isdisjoint(names),
        noimageindex="noimageindex" in names,
        notranslate="notranslate" in names,
        unavailable_after_ms=min(filter(None, found.values()), default=0),
        directives=tuple(names),
    )


def _directives(value: str, token: str, with_agents: bool) -> Iterator[tuple[str, int]]:
    """(directive, its date in ms or 0) of each that speaks to us."""
    parts = [part.strip() for part in value.replace(";", ",").split(",")]
    ours, at = True, 0
    while at < len(parts):
        agent = _agent(parts[at], token) if with_agents else None
        if agent is not None:
            ours = agent in EVERYONE or agent == token
            parts[at] = parts[at].partition(":")[2].strip()
            continue
        name, colon, rest = (text.strip() for text in parts[at].partition(":"))
        used, at_ms = 1, 0
        if colon and name == UNAVAILABLE_AFTER:
            used, rest, at_ms = _date([rest, *parts[at + 1 : at + DATE_PARTS_MAX]])
        if ours and name:
            yield from _named(name, f"{name}:{rest}" if colon and rest else name, at_ms)
        at += used


def _named(name: str, directive: str, at_ms: int) -> Iterator[tuple[str, int]]:
    """A directive; or several, where an author put spaces between them."""
    words = name.split()
    if directive == name and len(words) > 1 and PLAIN.issuperset(words):
        yield from ((word, 0) for word in words)
    elif name in PLAIN:
        yield name, 0  # a value that a plain directive is given (`noindex: true`) takes nothing from it
    else:
        yield directive[:DIRECTIVE_CHARACTERS_MAX], at_ms


def _agent(part: str, token: str) -> str | None:
    """The product token that a part of a header addresses, `*` or empty for everyone; None: it addresses nobody."""
    name, colon, rest = (text.strip() for text in part.partition(":"))
    if not colon or name in VALUED or name in PLAIN or not _AGENT.fullmatch(name):
        return None
    agent = _TOKEN.match(name)
    product = agent[0] if agent else name
    follows = rest.partition(":")[0].strip()
    directive = not follows or follows in VALUED or PLAIN.issuperset(follows.split()) or follows == "*"
    return product if directive or product == token else None


def _date(parts: Sequence[str]) -> tuple[int, str, int]:
    """(parts used, the date as written, ms or 0): the longest run of parts that is a date, else the first."""
    for used in range(len(parts), 0, -1):
        written = ", ".join(parts[:used])
        at_ms = date_ms(written)
        if at_ms is not None:
            return used, written, max(at_ms, 1)
    return 1, parts[0], 0


def check_meta(question: JsonObject) -> dict[str, object]:
    """Answer `frontlog check meta`: {html | html_b64, headers: [[name, value], ...], agent} -> {noindex, ...}.

    Either of page and headers may be left out. `agent` is a product token or a whole User-Agent header; a
    Content-Type among the headers says how the page is read. Raises ConfigError.
    """
    token = product_token_of(text_of(question, "agent", "the product token that is asked for"))
    headers = headers_of(question, "headers")
    given = question.get("html") is not None or question.get("html_b64") is not None
    if not given and question.get("headers") is None:
        raise ConfigError('one of "html", "html_b64" and "headers" must be given')
    directives: list[str] = []
    content_type = next((value for name, value in headers if name == "content-type"), None)
    if given and media_type(content_type) in HTML_TYPES:
        body, is_text = body_of(question, "html", "html_b64")
        source = body.decode() if is_text else parser_source(body, decide(body, content_type))[0]
        with suppress(SelectolaxError):
            directives = robots_directives(Survey(parse(source)), token)
    said = directives_of(directives, (value for name, value in headers if name == "x-robots-tag"), token)
    answer: dict[str, object] = dict(msgspec.structs.asdict(said))
    answer["directives"] = list(said.directives)
    return answer
