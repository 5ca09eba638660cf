"""What an answer to `/robots.txt` means (RFC 9309 §2.3.1), how long it holds (§2.4), and when to ask again.

| answer | means | the pages |
|---|---|---|
| 2xx | `parsed` | as the file says; an empty file or a page of HTML forbids nothing |
| 304 to our own conditional request | `unchanged` | as the copy says, whose version stays |
| 3xx with a Location, up to five in a row | `follow` | wait; its answer counts for the first origin only |
| a sixth redirect, or a loop (which is one) | `unavailable` | all allowed (§2.3.1.2) |
| 4xx but 429 | `unavailable` | all allowed (§2.3.1.3) |
| 429, 5xx | `unreachable` | none for now (§2.3.1.4), or as the last good copy says |
| no answer, a broken body, a hop that a gate refused | `unreachable` | the same |
| a redirect that leads nowhere, any other status | `unreachable` | the same |

429 is a 4xx to the letter, but it says that the server has no room for us, and taking it for leave to fetch
everything is the wrong way round (DESIGN §13). The last three rows are the RFC's "server or network
errors": nothing was said about the file, so nothing may be concluded from it. The RFC's leave to treat a
file that was unreachable for 30 days as unavailable is not taken: an origin that can't serve robots.txt
rarely serves pages.

A loop has more than five redirects whoever counts them; it is only seen sooner.
"""

from collections.abc import Collection
from enum import StrEnum
from typing import Final, NamedTuple

import ada_url

from frontlog.avro.enums import Reason, RobotsState
from frontlog.processors.robots_txt import LIMIT_BYTES, RobotsTxt, RobotsVerdict, parse, verdict

REDIRECTS_MAX: Final = 5
"""Consecutive redirects that are followed (RFC 9309 §2.3.1.2)."""
CACHE_MS_MAX: Final = 86_400_000
"""RFC 9309 §2.4: not used for more than 24 hours."""
CACHE_MS_MIN: Final = 300_000
"""However short a server says: asking for robots.txt more often than every 5 minutes helps nobody."""
COPY_MS_MAX: Final = 86_400_000
"""How long beyond its end the last good copy serves while robots.txt is unreachable."""
DETAIL_CHARS_MAX: Final = 256
NOTES_SHOWN: Final = 3
RETRY_MS_MIN: Final = 60_000
RETRY_MS_MAX: Final = 3_600_000


class RobotsAccess(StrEnum):
    """The words of RFC 9309 §2.3.1, and two for answers that aren't the end."""

    PARSED = "parsed"
    UNAVAILABLE = "unavailable"
    UNREACHABLE = "unreachable"
    FOLLOW = "follow"
    UNCHANGED = "unchanged"


class RobotsOutcome(NamedTuple):
    """What one answer means.

    `robots` is the file to obey: what was parsed, or an empty one when `unavailable`. `location` is where to
    go on, for `follow`: absolute, without fragment. `detail` is for people.
    """

    kind: RobotsAccess
    reason: Reason
    robots: RobotsTxt | None = None
    location: str = ""
    detail: str = ""

    @property
    def state(self) -> RobotsState:
        """What the origin's robots state becomes; UNKNOWN when this answer does not settle it."""
        return _STATES.get(self.kind, RobotsState.UNKNOWN)

    @property
    def defer(self) -> bool:
        """Whether nothing may be fetched for now, so that robots.txt is to be asked for again soon."""
        return self.kind is RobotsAccess.UNREACHABLE


_STATES: Final = {
    RobotsAccess.PARSED: RobotsState.RULES,
    RobotsAccess.UNAVAILABLE: RobotsState.ALLOW_ALL,
    RobotsAccess.UNREACHABLE: RobotsState.UNREACHABLE,
}
ALLOW_ALL: Final = parse(b"")
_REASONS: Final = {reason.value: reason for reason in Reason}


def outcome(
    status: int | None,
    error: str | None,
    body: bytes,
    content_type: str,
    hops: int,
    *,
    url: str = "",
    location: str | None = None,
    visited: Collection[str] = (),
    truncated: str = "",
    has_copy: bool = False,
    limit_bytes: int = LIMIT_BYTES,
) -> RobotsOutcome:
    """Judge one answer to a robots.txt request. Pure, and total over what servers send.

    `error` is a reason code or other text when no usable answer came (`status` may then be None), also when
    a gate refused the hop. `hops` counts the redirects followed before this answer. `url` was asked for (it
    may be empty if `location` is absolute), `location` is the header as received, `visited` holds the URLs
    asked before this one. `truncated` is `length` when only our limit cut the body; a body cut by anything
    else is no answer. `has_copy`: the request was conditional. `content_type` is only told to people:
    servers get it wrong both ways, and the body shows what it is.
    """
    if error is not None or status is None:
        return _unreachable(error or "no answer")
    if 300 <= status < 400 and status != 304:
        return _redirect(url, location, hops, visited)
    if truncated not in ("", "length"):
        return RobotsOutcome(RobotsAccess.UNREACHABLE, Reason.TRUNCATED, detail=truncated)
    if 200 <= status < 300:
        robots = parse(body, limit_bytes=limit_bytes, cut=truncated == "length")
        detail = notes_of(robots)
        if robots.looks_like_html:
            detail = f"a page of HTML, served as {content_type or 'nothing'}: it holds no rules"
        return RobotsOutcome(RobotsAccess.PARSED, Reason.OK, robots, detail=detail)
    if status == 304 and has_copy:
        return RobotsOutcome(RobotsAccess.UNCHANGED, Reason.NOT_MODIFIED)
    detail = f"status {status}"
    if status == 429:
        return RobotsOutcome(RobotsAccess.UNREACHABLE, Reason.TOO_MANY_REQUESTS, detail=detail)
    if 400 <= status < 500:
        reason = Reason.GONE if status in (404, 410) else Reason.NOT_AVAILABLE
        return RobotsOutcome(RobotsAccess.UNAVAILABLE, reason, ALLOW_ALL, detail=detail)
    if 500 <= status < 600:
        reason = Reason.UNAVAILABLE if status == 503 else Reason.SERVER_ERROR
        return RobotsOutcome(RobotsAccess.UNREACHABLE, reason, detail=detail)
    return RobotsOutcome(RobotsAccess.UNREACHABLE, Reason.UNEXPECTED_STATUS, detail=detail)


def _unreachable(error: str) -> RobotsOutcome:
    reason = _REASONS.get(error, Reason.ROBOTS_UNREACHABLE)
    return RobotsOutcome(RobotsAccess.UNREACHABLE, reason, detail=error[:DETAIL_CHARS_MAX])


def _redirect(url: str, location: str | None, hops: int, visited: Collection[str]) -> RobotsOutcome:
    """A redirect: where it leads, or why the chain ends here."""
    if hops >= REDIRECTS_MAX:
        return RobotsOutcome(
            RobotsAccess.UNAVAILABLE, Reason.TOO_MANY_REDIRECTS, ALLOW_ALL, detail=f"{hops} hops"
        )
    if not location:
        return RobotsOutcome(RobotsAccess.UNREACHABLE, Reason.BAD_LOCATION, detail="no Location")
    target = absolute(location, url)
    if not target:
        return RobotsOutcome(
            RobotsAccess.UNREACHABLE, Reason.BAD_LOCATION, detail=location[:DETAIL_CHARS_MAX]
        )
    if not target.startswith(("http://", "https://")):
        return RobotsOutcome(RobotsAccess.UNREACHABLE, Reason.BAD_SCHEME, detail=target[:DETAIL_CHARS_MAX])
    if target == absolute(url) or target in visited:
        return RobotsOutcome(
            RobotsAccess.UNAVAILABLE, Reason.REDIRECT_LOOP, ALLOW_ALL, detail=target[:DETAIL_CHARS_MAX]
        )
    return RobotsOutcome(RobotsAccess.FOLLOW, Reason.REDIRECTED, location=target)


def absolute(reference: str, base: str = "") -> str:
    """A reference as an absolute WHATWG href without fragment; empty: not a URL."""
    try:
        href = ada_url.join_url(base, reference) if base else ada_url.URL(reference).href
    except (ValueError, UnicodeError):
        return ""
    return href.partition("#")[0]


def notes_of(robots: RobotsTxt) -> str:
    """What was skipped or mended in a file, for people; empty: nothing was."""
    first = "; ".join(
        f"line {note.line}: {note.message}" if note.line else note.message
        for note in robots.notes[:NOTES_SHOWN]
    )
    more = len(robots.notes) - NOTES_SHOWN
    return (first + (f"; {more} more" if more > 0 else ""))[:DETAIL_CHARS_MAX]


def judge(found: RobotsOutcome, product_token: str, url: str, copy: RobotsTxt | None = None) -> RobotsVerdict:
    """The verdict for a URL of the asking origin under an outcome.

    `copy` is the last good copy if it may still be used (`copy_until_ms`). Without one, what is unreachable,
    still being followed, or unchanged from nothing allows nothing.
    """
    robots = found.robots if found.robots is not None else copy
    if robots is None:
        return RobotsVerdict(False, None, None, "")
    return verdict(robots, product_token, url)


# --- time ------------------------------------------------------------------------------------------------


def lifetime_ms(
    cache_control: str | None, cache_ms_max: int = CACHE_MS_MAX, cache_ms_min: int = CACHE_MS_MIN
) -> int:
    """How long an answer holds: 24 h, or less as its Cache-Control says (RFC 9309 §2.4, RFC 9111 §4.2.1).

    `no-store` and `no-cache` give the floor. A max-age that can't be read makes an answer stale, as RFC 9111
    wants, and so gives the floor too; of several the shortest counts.
    """
    lifetime = cache_ms_max
    for directive in (cache_control or "").lower().split(","):
        name, _, value = directive.strip().partition("=")
        name = name.strip()
        if name in ("no-store", "no-cache"):
            lifetime = 0
        elif name == "max-age":
            seconds = value.strip().strip('"')
            readable = seconds.isascii() and seconds.isdigit()
            # Ten digits are centuries: more are not worth the arithmetic.
            lifetime = min(lifetime, int(seconds[:10]) * 1_000 if readable else 0)
    return min(max(lifetime, cache_ms_min), cache_ms_max)


def expires_ms(fetched_ms: int, cache_control: str | None, cache_ms_max: int = CACHE_MS_MAX) -> int:
    """When an answer fetched at `fetched_ms` is to be asked for again."""
    return fetched_ms + lifetime_ms(cache_control, cache_ms_max)


def retry_gap_ms(failures: int) -> int:
    """How long to wait after so many unreachable answers in a row: a minute, doubling to an hour."""
    doublings = min(max(failures, 1) - 1, 16)
    return min(RETRY_MS_MIN << doublings, RETRY_MS_MAX)


def copy_until_ms(expires_at_ms: int, copy_ms_max: int = COPY_MS_MAX) -> int:
    """Until when a good copy serves while robots.txt is unreachable; afterwards the origin is disallowed."""
    return expires_at_ms + copy_ms_max
