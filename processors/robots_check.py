"""robots.txt by hand: one JSON object in, the crawler's own answer out (`frontlog check robots`).

Two questions: what a file says of a URL (`robots_txt` or `robots_b64`, `user_agent`, `url`), and what a
chain of answers to `/robots.txt` means for a page (`chain`, `user_agent`, `page`).

`user_agent` is a product token, as RFC 9309 §2.2.1 matches it, or a whole User-Agent header, from which the
token is taken: the name after `compatible;` if there is one, else the first product that isn't `Mozilla`.
"""

import base64
import binascii
import re
from collections.abc import Mapping
from typing import cast

import ada_url

from frontlog.avro.errors import ConfigError
from frontlog.processors.robots_http import RobotsAccess, RobotsOutcome, absolute, judge, outcome
from frontlog.processors.robots_txt import parse, verdict

JsonObject = Mapping[str, object]

_COMPATIBLE = re.compile(r"compatible;\s*([^\s/;)]+)", re.IGNORECASE)
_PRODUCT = re.compile(r"(?:^|\s)([^\s/;()]+)/")


def product_token_of(user_agent: str) -> str:
    """The product token of a User-Agent header; a text without `/` and `(` is no header but a token."""
    text = user_agent.strip()
    if "/" not in text and "(" not in text:
        return text
    named = _COMPATIBLE.search(text)
    if named is not None:
        return named[1]
    products: list[str] = _PRODUCT.findall(text)
    others = [name for name in products if name.lower() != "mozilla"]
    return (others or products or [""])[0]


def check_robots(question: JsonObject) -> dict[str, object]:
    """Answer either question. Raises ConfigError, which names the field, if it can't be read.

    A file gives {allowed, rule, line, group}, with crawl_delay_ms, sitemaps and notes (what was skipped or mended) where
    there are any; a chain {outcome, allowed, defer, reason, rule, line, group}.
    """
    token = product_token_of(_text(question, "user_agent"))
    if "chain" in question:
        return _check_chain(question, token)
    robots = parse(_body(question, "robots_txt", "robots_b64"))
    found = verdict(robots, token, _requested(_text(question, "url")))
    answer: dict[str, object] = {
        "allowed": found.allowed,
        "rule": found.rule,
        "line": found.line,
        "group": found.group,
    }
    delay_ms = robots.group(token).crawl_delay_ms
    if delay_ms is not None:
        answer["crawl_delay_ms"] = delay_ms
    if robots.sitemaps:
        answer["sitemaps"] = list(robots.sitemaps)
    if robots.notes:
        answer["notes"] = [{"line": note.line, "message": note.message} for note in robots.notes]
    return answer


def _check_chain(question: JsonObject, token: str) -> dict[str, object]:
    answers = question["chain"]
    if not isinstance(answers, list) or not answers:
        raise ConfigError("chain: a list of answers, at least one, is wanted")
    page = _text(question, "page")
    asked = [_answer(answer, at) for at, answer in enumerate(cast("list[object]", answers))]
    found = _walk(asked)
    asking, own = _origin(_text(asked[0], "url")), _origin(page)
    reason = found.reason.value
    if own and asking != own:
        # RFC 9309 §2.3.1.2: the rules count for the initial authority only; nothing is known of the page's.
        found, reason = RobotsOutcome(RobotsAccess.UNREACHABLE, found.reason), "other_origin"
    said = judge(found, token, _requested(page))
    return {
        "outcome": found.kind.value,
        "allowed": said.allowed,
        "defer": found.defer,
        "reason": reason,
        "rule": said.rule,
        "line": said.line,
        "group": said.group,
    }


def _walk(asked: list[JsonObject]) -> RobotsOutcome:
    """Follow the chain to the answer that counts; a chain that stops at a redirect has no answer."""
    visited: list[str] = []
    for hops, answer in enumerate(asked):
        url = _text(answer, "url")
        found = _judge_answer(answer, url, hops, visited)
        if found.kind is not RobotsAccess.FOLLOW:
            return found
        visited.append(absolute(url) or url)
    return outcome(None, "the chain ends with a redirect", b"", "", len(asked))


def _judge_answer(answer: JsonObject, url: str, hops: int, visited: list[str]) -> RobotsOutcome:
    error = answer.get("error")
    if error is not None:
        return outcome(None, str(error), b"", "", hops)
    status = answer.get("status")
    if not isinstance(status, int):
        raise ConfigError("chain: an answer needs a status (a number) or an error")
    headers = _headers(answer.get("headers"))
    return outcome(
        status,
        None,
        _body(answer, "body", "body_b64", needed=False),
        headers.get("content-type", ""),
        hops,
        url=url,
        location=headers.get("location"),
        visited=visited,
    )


# --- reading fields --------------------------------------------------------------------------------------


def _text(question: JsonObject, name: str) -> str:
    value = question.get(name)
    if not isinstance(value, str):
        raise ConfigError(f"{name}: a text is wanted")
    return value


def _answer(answer: object, at: int) -> JsonObject:
    if not isinstance(answer, Mapping):
        raise ConfigError(f"chain[{at}]: an object with url, and status or error, is wanted")
    return cast("JsonObject", answer)


def _body(question: JsonObject, text_name: str, b64_name: str, *, needed: bool = True) -> bytes:
    encoded = question.get(b64_name)
    if encoded is not None:
        try:
            return base64.b64decode(_text(question, b64_name), validate=True)
        except (binascii.Error, ValueError) as error:
            raise ConfigError(f"{b64_name}: not base64: {error}") from error
    if question.get(text_name) is None and not needed:
        return b""
    return _text(question, text_name).encode("utf-8", "surrogatepass")


def _headers(value: object) -> dict[str, str]:
    """Headers of an object or of [name, value] pairs, by lower-case name; the first of several stays."""
    pairs: list[object] = []
    if isinstance(value, Mapping):
        pairs = list(cast("Mapping[object, object]", value).items())
    elif isinstance(value, list):
        pairs = cast("list[object]", value)
    elif value is not None:
        raise ConfigError("headers: an object or a list of [name, value] is wanted")
    headers: dict[str, str] = {}
    for pair in pairs:
        if not isinstance(pair, list | tuple) or len(cast("list[object]", pair)) != 2:
            raise ConfigError("headers: an object or a list of [name, value] is wanted")
        name, content = cast("tuple[object, object]", pair)
        headers.setdefault(str(name).lower(), str(content))
    return headers


def _requested(url: str) -> str:
    """A URL as it would be requested (WHATWG), or the text itself when it isn't one."""
    return absolute(url) or url


def _origin(url: str) -> str:
    try:
        return ada_url.URL(url).origin
    except (ValueError, UnicodeError):
        return ""
