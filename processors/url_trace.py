"""Names what the WHATWG parser changed between a spelling and its href, for `rules_fired`.

It looks at the parts of the spelling beside those of the href, and so explains a result without taking
part in it; it is called only when the two differ. A change that has no name of its own is `parser`.
"""

import re

_BLANKS = "".join(map(chr, range(0x21)))
_SKIPPED = re.compile(r"[\t\n\r]")
_SPELLING = re.compile(r"(?:([A-Za-z][A-Za-z0-9+.-]*):)?([/\\]*)([^?#]*)(\?[^#]*)?", re.DOTALL)
_DOT_SEGMENT = re.compile(r"(?:^|/)(?:\.|%2e){1,2}(?=/|$)", re.IGNORECASE)
# What the path and the special-query percent-encode sets have.
_UNSAFE_IN_PATH = re.compile(r"[^!-~]|[\"<>^`{}]")
_UNSAFE_IN_QUERY = re.compile(r"[^!-~]|[\"<>']")


def parser_rules(raw: str, href: str, base: str | None = None) -> tuple[str, ...]:
    """Names of the parser's rules that fired on the way from `raw` (and `base`) to its http or https `href`."""
    text = _SKIPPED.sub("", raw.strip(_BLANKS))
    match = _SPELLING.match(text)
    assert match is not None, "every part of the pattern may be empty"
    scheme, slashes, rest, query = (part or "" for part in match.groups())
    authority, slash, path = rest.replace("\\", "/").partition("/")
    # `http:x` is relative to an http base, and stands for `http://x` without one.
    relative = base is not None and base.lower().startswith(f"{scheme.lower()}:") and slashes[:2] != "//"
    has_authority = not relative if scheme else len(slashes) > 1
    fired = {
        "whitespace": text != raw,
        "relative": relative or not scheme,
        "scheme_case": scheme != scheme.lower(),
        "slashes": has_authority and slashes != "//",
    }
    if has_authority:
        fired |= _authority_rules(authority, href.partition("://")[2].partition("/")[0])
        fired["empty_path"] = not slash
    else:
        path = authority + slash + path
    fired["backslash"] = "\\" in slashes + rest
    fired["dot_segments"] = _DOT_SEGMENT.search(path) is not None
    fired["percent_encode"] = bool(_UNSAFE_IN_PATH.search(path) or _UNSAFE_IN_QUERY.search(query))
    named = tuple(rule for rule, did in fired.items() if did)
    return named or ("parser",)


def _authority_rules(raw: str, kept: str) -> dict[str, bool]:
    """Compare host and port; user information is refused and needs no trace."""
    host, port = _host_and_port(raw.rpartition("@")[2])
    host_kept, port_kept = _host_and_port(kept)
    changed = host.lower() != host_kept
    international = not host.isascii() or "xn--" in host_kept
    return {
        "host_case": host != host_kept and not changed,
        "idna": changed and international,
        "host_form": changed and not international,
        "default_port": port != port_kept and not port_kept and len(port) > 1,
        "port_form": port != port_kept and (bool(port_kept) or port == ":"),
    }


def _host_and_port(authority: str) -> tuple[str, str]:
    """(host, `:port` or "")."""
    host, colon, port = authority.rpartition(":")
    return (host, colon + port) if colon and not port.endswith("]") else (authority, "")
