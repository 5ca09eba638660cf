"""Checks of single settings that a type and two bounds cannot express. Each returns what is wrong, or "".

Patterns are Python's `re`, searched anywhere in the identity of a URL, upper and lower case told
apart. An identity has at most 2,048 characters, so a pattern costs little unless repetition is nested
in repetition, as in `(a+)+`, where the time grows exponentially: such patterns are refused, and so are
back references. `[/a-z]+` says the same as `(/[a-z]*)+` for most purposes.
"""

import ipaddress
import re
from collections.abc import Mapping

import ada_url

from frontlog.avro.errors import ConfigError
from frontlog.fetch.addresses import parse_networks

PATTERN_CHARS_MAX = 500
_TOKEN = re.compile(r"[A-Za-z_-]{1,64}")
_MAIL = re.compile(r"[^@\s\"<>,;:()\\]+@[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)*")
_DOMAIN = re.compile(r"([a-z0-9]([a-z0-9-]*[a-z0-9])?\.)+[a-z0-9-]*[a-z0-9]")
_MEDIA_TYPE = re.compile(r"[a-z0-9!#$&^_.+-]+/[a-z0-9!#$&^_.+-]*")
_CLASS = re.compile(r"\[\^?\]?(?:\\.|[^\]\\])*\]")
_REPEAT = re.compile(r"[*+]|\{\d*,\d*\}")


def is_mail(text: str) -> bool:
    """Whether a contact is a mail address, as a site owner would use it."""
    return _MAIL.fullmatch(text) is not None


def is_web_url(text: str) -> bool:
    """Whether a text is an absolute http or https URL that may stand in a header: ASCII, no spaces."""
    if not re.fullmatch(r"[!-~]+", text):
        return False
    try:
        url = ada_url.URL(text)
    except ValueError:
        return False
    return url.protocol in ("http:", "https:") and text.lower().startswith(url.protocol + "//")


def check_token(value: str) -> str:
    """RFC 9309 §2.2.1: a product token has letters, `_` and `-` only."""
    if _TOKEN.fullmatch(value):
        return ""
    return "a product token has only letters, _ and - (RFC 9309 §2.2.1), at most 64; no version, no spaces"


def check_info_url(value: str) -> str:
    """It stands in the User-Agent header, inside a comment: no parentheses."""
    if not value or (is_web_url(value) and not set("();") & set(value)):
        return ""
    return "give an absolute http or https URL without spaces, parentheses and semicolons"


def check_registry_url(value: str) -> str:
    """Where a schema registry answers; a user and a password may stand in it."""
    if not value or (is_web_url(value) and not set("?#") & set(value)):
        return ""
    return "give an absolute http or https URL without a query"


def check_contact(value: str) -> str:
    """A mail address or a page with one."""
    if not value or is_mail(value) or not check_info_url(value):
        return ""
    return "give a mail address such as crawler@example.org, or the URL of a page where you can be reached"


def check_domain(value: str) -> str:
    """A domain as reverse DNS names end in it."""
    if not value or _DOMAIN.fullmatch(value):
        return ""
    return "give a domain in lower case, such as crawl.example.org"


def check_patterns(values: tuple[str, ...]) -> str:
    """Every pattern must compile, be of bounded length and not nest repetition."""
    for pattern in values:
        problem = _check_pattern(pattern)
        if problem:
            return f"pattern {pattern[:80]!r}: {problem}"
    return ""


def _check_pattern(pattern: str) -> str:
    if len(pattern) > PATTERN_CHARS_MAX:
        return f"{len(pattern)} characters; at most {PATTERN_CHARS_MAX}"
    try:
        compiled = re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        return f"not a regular expression: {error}"
    bare = _CLASS.sub("x", re.sub(r"\\[^0-9]", "x", pattern))
    if re.search(r"\\[1-9]|\(\?P=", bare) or "(?(" in bare:
        return "back references and conditions are not allowed, since their time has no bound"
    if compiled.groups > 50:
        return "more than 50 groups"
    if _nests_repetition(bare):
        return "repetition inside a repeated group is not allowed, since its time grows exponentially"
    return ""


def _nests_repetition(bare: str) -> bool:
    """Whether a group that holds `*`, `+` or `{n,m}` is itself repeated; classes and escapes are gone."""
    open_groups: list[bool] = [False]
    at = 0
    while at < len(bare):
        repeat = _REPEAT.match(bare, at)
        if repeat is not None:
            open_groups[-1] = True
        elif bare[at] == "(":
            open_groups.append(False)
        elif bare[at] == ")":
            inside = open_groups.pop()
            if inside and _REPEAT.match(bare, at + 1):
                return True
            open_groups[-1] |= inside
        at = repeat.end() if repeat is not None else at + 1
    return False


def check_media_types(values: tuple[str, ...]) -> str:
    """`text/html`, or `image/` for all of a kind."""
    for value in values:
        if not _MEDIA_TYPE.fullmatch(value):
            return f"{value!r} is no media type; write text/html in lower case, or image/ for all images"
    return ""


def check_networks(values: tuple[str, ...]) -> str:
    """What the address guard takes for a network."""
    try:
        parse_networks(values)
    except ConfigError as error:
        return str(error).removeprefix("--allow-addresses ")
    return ""


def check_resolve(value: Mapping[str, tuple[str, ...]]) -> str:
    """Host names on the left, addresses on the right."""
    for host, addresses in value.items():
        if not host or host != host.strip() or "/" in host or not addresses:
            return f"{host!r}: write a host name and its addresses, such as example.org = ['192.0.2.1']"
        for address in addresses:
            try:
                ipaddress.ip_address(address)
            except ValueError:
                return f"{host}: {address!r} is no IP address"
    return ""
