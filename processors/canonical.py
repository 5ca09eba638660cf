"""Identity of a URL: one string for all spellings that are provably the same, and nothing more merged.

A spelling goes through two steps:

1. the WHATWG parser (`resolve.py`) gives its href. What a request is made with is this href, fragment
   aside: `requested`;
2. named rules give the identity. `rules_fired` names, for each URL, the ones that changed something, those
   of the parser included.

| rule | what it does |
|---|---|
| `whitespace`, `backslash`, `slashes` | the parser's repairs: blanks, `\\` for `/`, missing `//` |
| `scheme_case`, `host_case` | scheme and host in lower case (RFC 3986 §6.2.2.1) |
| `idna`, `host_form` | host in its ASCII form (UTS 46); IPv4 as four numbers, IPv6 in its short form |
| `default_port` | the scheme's own port left out (RFC 3986 §6.2.3) |
| `empty_path` | `/` for no path (RFC 3986 §6.2.3) |
| `dot_segments` | `.` and `..` resolved, their `%2E` forms too (RFC 3986 §6.2.2.3) |
| `percent_encode` | characters that may not stand in a URL are escaped |
| `relative` | joined with the base |
| `parser`, `port_form` | a repair without a name of its own; a port with leading zeros, or `:` with none |
| `fragment` | dropped: it never reaches the server |
| `trailing_dot_host` | `example.org.` is `example.org` |
| `percent_unreserved` | escapes of letters, digits, `-._~` decoded (RFC 3986 §6.2.2.2), never `%2F` |
| `percent_upper` | hex digits of the other escapes in upper case (RFC 3986 §6.2.2.1) |
| `tracking_params`, `ignored_params`, `query_order`, `slash`, `scheme` | policy (`url_rules.py`) |
| `empty_query` | a `?` with nothing behind it dropped |

Each rule is idempotent and so is their sequence. An escape that would complete a broken one when decoded
(`%%37e`) stays. Path case, repeated slashes, unknown parameters and http against https are kept apart.
The longest identity has 2,048 characters,
the longest host name 253. User information refuses a URL: a crawler has no business with it.
"""

import re

import msgspec

from frontlog.avro.enums import Reason
from frontlog.avro.errors import ConfigError
from frontlog.processors.resolve import resolve
from frontlog.processors.sites import DEFAULT_PORTS, site_of, split_port
from frontlog.processors.url_hosts import mixed_script
from frontlog.processors.url_rules import CONSERVATIVE, OriginRules, rules_of
from frontlog.processors.url_trace import parser_rules

IDENTITY_CHARACTERS_MAX = 2048
HOST_CHARACTERS_MAX = 253
"""No longer name can be looked up (RFC 1035 §2.3.4: 255 octets, with a length before each label and the root)."""
SPELLING_CHARACTERS_MAX = 65_536
"""A longer spelling is refused unread; a shorter one may still lose a fragment or parameters."""

_PLACES_MAX = 65_536
_NO_HOST = re.compile(r"[\x00-\x20]*https?:[/\\]*(?:[?#:]|[\x00-\x20]*$)", re.IGNORECASE)
_ESCAPE = re.compile(r"%(?:([0-9A-Fa-f]{2})|(?![0-9A-Fa-f]{2}))")
# An escape that a rule may change: of an unreserved character, in lower case, or broken.
_ESCAPE_TO_DO = re.compile(r"%(?![0189A-F][0-9A-F]|2[0-9A-CF]|3[A-F]|[46]0|5[B-E]|7[B-DF])")
_UNRESERVED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")


class Identity(msgspec.Struct, frozen=True, gc=False):
    """A URL that may be crawled."""

    identity: str
    """What it is known by; `identify(identity)` gives the same again."""
    requested: str
    """What is sent: the href as it was found, without its fragment."""
    origin_key: str
    """`scheme://host:port` of the identity."""
    host: str
    rules_fired: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    """What a person may want to look at: `mixed_script`."""


class Refused(msgspec.Struct, frozen=True):
    """A spelling that has no identity, and why."""

    reason: Reason
    detail: str = ""


class _Place(msgspec.Struct, frozen=True):
    """What the part of hrefs before their path means."""

    prefix: str
    origin_key: str
    host: str
    plain: bool
    """Whether the prefix stays as it is, without a flag."""
    flags: tuple[str, ...]


_FRAGMENT = ("fragment",)
_places: dict[str, _Place] = {}


def canonicalize(
    url: str, rules: OriginRules = CONSERVATIVE, *, base: str | None = None
) -> Identity | Refused:
    """Identity of a spelling (joined with the absolute URL `base` if there is one), or why it has none."""
    if len(url) > SPELLING_CHARACTERS_MAX:
        return Refused(Reason.TOO_LONG, f"{len(url)} characters")
    href = resolve(url, base)
    if href is None:
        return Refused(Reason.NO_HOST if _NO_HOST.match(url) else Reason.UNPARSABLE)
    found = identify(href, rules)
    if href == url or isinstance(found, Refused):
        return found
    return msgspec.structs.replace(found, rules_fired=(*parser_rules(url, href, base), *found.rules_fired))


def identify(href: str, rules: OriginRules = CONSERVATIVE) -> Identity | Refused:
    """Identity of an absolute WHATWG href, as `resolve` gives it; `rules_fired` has the second step's."""
    prefix = href[: href.find("/", 8)]
    place = _places.get(prefix)
    if place is None:
        read = _place(prefix, href)
        if isinstance(read, Refused):
            return read
        place = read
    if (
        place.plain
        and ("%" not in href or not _ESCAPE_TO_DO.search(href))
        and (rules is CONSERVATIVE or rules.trivial or (rules.queries_only and "?" not in href))
    ):
        # Most hrefs end here: nothing but a fragment may have to go.
        kept, fired = (href.partition("#")[0], _FRAGMENT) if "#" in href else (href, ())
        if kept[-1] != "?" and len(kept) <= IDENTITY_CHARACTERS_MAX:
            return Identity(kept, kept, place.origin_key, place.host, fired)
    return _rewrite(href, prefix, place, rules)


def known_as(href: str) -> tuple[str, str] | None:
    """(identity, origin_key) that `identify` gives, for half of its price; None: refused."""
    place = _places.get(href[: href.find("/", 8)])
    if place is not None and place.plain and "%" not in href:
        kept = href.partition("#")[0] if "#" in href else href
        if kept[-1] != "?" and len(kept) <= IDENTITY_CHARACTERS_MAX:
            return kept, place.origin_key
    found = identify(href)
    return None if isinstance(found, Refused) else (found.identity, found.origin_key)


def _place(prefix: str, href: str) -> _Place | Refused:
    """Read and remember the part of an href before its path."""
    scheme = href[: href.index(":")]
    if scheme not in DEFAULT_PORTS:
        return Refused(Reason.BAD_SCHEME, scheme[:100])
    authority = prefix[len(scheme) + 3 :]
    if "@" in authority:
        return Refused(Reason.USERINFO)
    host, port = split_port(authority)
    flags = ("mixed_script",) if mixed_script(host) else ()
    # One dot at the end says that the name is absolute; two are no name that DNS has.
    dotted = host.endswith(".") and not host.endswith("..") and len(host) > 1
    name = host[:-1] if dotted else host
    if len(name) > HOST_CHARACTERS_MAX:
        return Refused(Reason.TOO_LONG, f"a host name of {len(name)} characters")
    place = _Place(
        prefix=f"{scheme}://{name}{f':{port}' if port else ''}",
        origin_key=f"{scheme}://{name}:{port or DEFAULT_PORTS[scheme]}",
        host=name,
        plain=not dotted and not flags,
        flags=flags,
    )
    if len(_places) >= _PLACES_MAX:
        _places.clear()
    _places[prefix] = place
    return place


def _rewrite(href: str, prefix: str, place: _Place, rules: OriginRules) -> Identity | Refused:
    """Apply every rule, in the order of the table above."""
    fired: list[str] = []
    requested, hash_sign, _ = href.partition("#")
    if hash_sign:
        fired.append("fragment")
    if place.prefix != prefix:
        fired.append("trailing_dot_host")
    path, mark, query = requested[len(prefix) :].partition("?")
    if mark and not query:
        fired.append("empty_query")
    if "%" in path or "%" in query:
        path, query = _percent(path, fired), _percent(query, fired)
    if query and not rules.trivial:
        query = _parameters(query, rules, fired)
    if not rules.trivial:
        path = _slash(path, rules, fired)
        place = _scheme(place, rules, fired)
    identity = f"{place.prefix}{path}?{query}" if query else place.prefix + path
    if len(identity) > IDENTITY_CHARACTERS_MAX:
        return Refused(Reason.TOO_LONG, f"{len(identity)} characters")
    return Identity(
        identity, requested, place.origin_key, place.host, tuple(dict.fromkeys(fired)), place.flags
    )


def _percent(part: str, fired: list[str]) -> str:
    """Decode escapes of unreserved characters, write the others in upper case."""
    broken_before = -3

    def rewrite(match: re.Match[str]) -> str:
        nonlocal broken_before
        digits = match[1]
        if digits is None:
            broken_before = match.start()
            return "%"
        character = chr(int(digits, 16))
        # A digit right behind a broken escape would make it whole: `%%37e` must not become `%7e`.
        if character in _UNRESERVED and match.start() - broken_before > 2:
            fired.append("percent_unreserved")
            return character
        if digits != digits.upper():
            fired.append("percent_upper")
        return f"%{digits.upper()}"

    return _ESCAPE.sub(rewrite, part)


def _parameters(query: str, rules: OriginRules, fired: list[str]) -> str:
    """Drop what the origin ignores and sort, if its order says nothing."""
    parameters = query.split("&")
    for rule, drops in rules.droppers:
        kept = [p for p in parameters if not drops(p.partition("=")[0])]
        if len(kept) < len(parameters):
            fired.append(rule)
            parameters = kept
    if rules.query_order_insensitive:
        ordered = sorted(parameters, key=_name_and_value)
        if ordered != parameters:
            fired.append("query_order")
            parameters = ordered
    return "&".join(parameters)


def _name_and_value(parameter: str) -> tuple[str, str, str]:
    name, equals, value = parameter.partition("=")
    return name, value, equals


def _slash(path: str, rules: OriginRules, fired: list[str]) -> str:
    """Give a path the origin's form of slash."""
    if rules.slash == "strip" and len(path) > 1 and path.endswith("/") and not path.endswith("//"):
        fired.append("slash")
        return path[:-1]
    if rules.slash == "add" and not path.endswith("/") and "." not in path[path.rindex("/") :]:
        fired.append("slash")
        return f"{path}/"
    return path


def _scheme(place: _Place, rules: OriginRules, fired: list[str]) -> _Place:
    """Let the origin's scheme stand for both; a stated port belongs to its own scheme."""
    scheme, _, authority = place.prefix.partition("://")
    if rules.scheme in ("keep", scheme) or authority != place.host:
        return place
    fired.append("scheme")
    return msgspec.structs.replace(
        place,
        prefix=f"{rules.scheme}://{authority}",
        origin_key=f"{rules.scheme}://{authority}:{DEFAULT_PORTS[rules.scheme]}",
    )


def check_url(line: dict[str, object]) -> dict[str, object]:
    """Answer `frontlog check url`.

    {raw, base?, rules?} -> {identity, requested, origin_key, site, rules_fired, flags?}; `rules` is a
    profile's name or an object of `OriginRules` fields. A URL that is refused gives {"reject": reason}, with
    a detail where there is one. Raises ConfigError for a question that has no answer.
    """
    raw, base = line.get("raw"), line.get("base")
    if not isinstance(raw, str):
        raise ConfigError('"raw" must be a string: the URL as it was found')
    if base is not None and not isinstance(base, str):
        raise ConfigError('"base" must be a string: the URL that "raw" is joined with')
    described = line.get("rules")
    rules = CONSERVATIVE if described is None else rules_of(described)
    found = canonicalize(raw, rules, base=base)
    if isinstance(found, Refused):
        refusal: dict[str, object] = {"reject": str(found.reason)}
        return refusal | ({"detail": found.detail} if found.detail else {})
    answer: dict[str, object] = {
        "identity": found.identity,
        "requested": found.requested,
        "origin_key": found.origin_key,
        "site": site_of(found.host),
        "rules_fired": list(found.rules_fired),
    }
    return answer | ({"flags": list(found.flags)} if found.flags else {})
