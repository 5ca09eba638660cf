"""How two URLs of an origin differ: in the slash at the end, in the scheme, in one parameter."""

from collections.abc import Iterator

from frontlog.avro.enums import RuleName


def form_between(url: str, other: str) -> tuple[RuleName, str] | None:
    """The rule and value by which `other` is the form of `url`; None: they differ in more, or not at all."""
    front, mark, query = url.partition("?")
    theirs, their_mark, their_query = other.partition("?")
    if (mark, query) != (their_mark, their_query):
        return None
    if theirs == f"{front}/":
        return RuleName.SLASH, "add"
    if front == f"{theirs}/":
        return RuleName.SLASH, "strip"
    scheme, _, rest = front.partition("://")
    their_scheme, _, their_rest = theirs.partition("://")
    stated = ":" in rest.partition("/")[0].rpartition("]")[2]
    return (
        (RuleName.SCHEME, their_scheme)
        if rest == their_rest and scheme != their_scheme and not stated
        else None
    )


def contradicted(url: str) -> Iterator[tuple[RuleName, str]]:
    """The rules that a page under this URL speaks against."""
    path = url[url.index("/", 8) :].partition("?")[0]
    if path.endswith("/") and len(path) > 1:
        yield RuleName.SLASH, "strip"
    elif "." not in path[path.rindex("/") :] and path != "/":
        yield RuleName.SLASH, "add"
    yield RuleName.SCHEME, "http" if url.startswith("https") else "https"


def other_forms(url: str) -> Iterator[tuple[RuleName, str, str]]:
    """(rule, value, URL) of each URL for which a rule of forms lets this one stand."""
    front, mark, query = url.partition("?")
    if front.endswith("/") and front.count("/") > 3:
        yield RuleName.SLASH, "add", front[:-1] + mark + query
    elif not front.endswith("/"):
        yield RuleName.SLASH, "strip", f"{front}/{mark}{query}"
    scheme, _, rest = url.partition("://")
    if ":" not in rest.partition("/")[0].rpartition("]")[2]:
        yield RuleName.SCHEME, scheme, f"{'http' if scheme == 'https' else 'https'}://{rest}"


def names_of(url: str) -> tuple[str, ...]:
    """Names of a URL's parameters, each once."""
    query = url.partition("?")[2]
    return tuple(dict.fromkeys(one.partition("=")[0] for one in query.split("&"))) if query else ()


def without(url: str, name: str) -> str:
    """A URL without a parameter."""
    front, _, query = url.partition("?")
    kept = "&".join(one for one in query.split("&") if one.partition("=")[0] != name)
    return f"{front}?{kept}" if kept else front


def parameter_between(url: str, other: str) -> str:
    """The only parameter in which two URLs differ; empty: they differ in more, or in something else."""
    if url.partition("?")[0] != other.partition("?")[0]:
        return ""
    ours, theirs = url.partition("?")[2].split("&"), other.partition("?")[2].split("&")
    changed = {one.partition("=")[0] for one in {*ours} ^ {*theirs}} - {""}
    name = changed.pop() if len(changed) == 1 else ""
    return name if name and without(url, name) == without(other, name) else ""
