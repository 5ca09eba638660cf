"""Redirects: where a page's redirect leads, and when a chain ends (DESIGN §5; RFC 9110 §15.4).

A redirect is never followed inside a fetch. Its target is a discovery of its own that carries the chain: every
requested spelling so far. More than five hops, or a requested spelling that comes a second time, end the chain.
"""

from typing import NamedTuple

from frontlog.avro.enums import Reason
from frontlog.processors.resolve import resolve

HOPS_MAX = 5


class Hop(NamedTuple):
    """The resolved target (WHATWG href, without fragment), or why there is none."""

    target: str
    reason: Reason
    detail: str


def next_hop(requested: str, location: str, chain: tuple[str, ...]) -> Hop:
    """Judge a Location header; `chain` holds the requested spellings before this one, oldest first."""
    if not location.strip():
        return Hop("", Reason.BAD_LOCATION, "no Location")
    target = resolve(location, requested)
    if target is None or not target.startswith(("http://", "https://")):
        return Hop("", Reason.BAD_LOCATION, location[:256])
    target = target.partition("#")[0]
    if target == requested or target in chain:
        return Hop("", Reason.REDIRECT_LOOP, target)
    if len(chain) >= HOPS_MAX:
        return Hop("", Reason.TOO_MANY_REDIRECTS, f"{len(chain) + 1} hops; the next is {target}")
    return Hop(target, Reason.REDIRECTED, "")
