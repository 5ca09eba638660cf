"""Redirect chains, scope, times: small pure rules as tables."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frontlog.avro.enums import Reason, SourceKind
from frontlog.processors import scope
from frontlog.processors.redirects import HOPS_MAX, next_hop
from frontlog.processors.settings import Scope, ScopeMode
from frontlog.processors.times import rfc3339
from frontlog.state.rows import HostRow, SiteRow

HERE = "http://e.example/a/b"


@pytest.mark.parametrize(
    ("location", "chain", "target", "reason"),
    [
        ("/c", (), "http://e.example/c", Reason.REDIRECTED),
        ("c", (), "http://e.example/a/c", Reason.REDIRECTED),
        ("https://other.example/x#top", (), "https://other.example/x", Reason.REDIRECTED),
        ("//other.example", (), "http://other.example/", Reason.REDIRECTED),
        ("", (), "", Reason.BAD_LOCATION),
        ("  ", (), "", Reason.BAD_LOCATION),
        ("mailto:a@e.example", (), "", Reason.BAD_LOCATION),
        ("http://", (), "", Reason.BAD_LOCATION),
        (HERE, (), "", Reason.REDIRECT_LOOP),
        (HERE + "#x", (), "", Reason.REDIRECT_LOOP),
        ("/1", ("http://e.example/1",), "", Reason.REDIRECT_LOOP),
        (
            "/c",
            tuple(f"http://e.example/{n}" for n in range(HOPS_MAX - 1)),
            "http://e.example/c",
            Reason.REDIRECTED,
        ),
        ("/c", tuple(f"http://e.example/{n}" for n in range(HOPS_MAX)), "", Reason.TOO_MANY_REDIRECTS),
    ],
)
def test_a_hop(location: str, chain: tuple[str, ...], target: str, reason: Reason) -> None:
    hop = next_hop(HERE, location, chain)
    assert (hop.target, hop.reason) == (target, reason)


SEEDED = HostRow(host="e.example", seeds=("",))
PREFIX = HostRow(host="e.example", seeds=("http://e.example/docs/",))


@pytest.mark.parametrize(
    ("rules", "url", "depth", "host", "site", "inside"),
    [
        (Scope(), "http://e.example/x", 1, SEEDED, None, True),
        (Scope(), "http://e.example/x", 1, HostRow(host="e.example"), None, False),
        (Scope(), "http://e.example/x", 1, None, SiteRow(seeded=True), False),
        (Scope(mode="site"), "http://www.e.example/x", 1, None, SiteRow(seeded=True), True),
        (Scope(mode="site"), "http://www.e.example/x", 1, SEEDED, SiteRow(), False),
        (Scope(mode="any"), "http://f.example/x", 1, None, None, True),
        (Scope(mode="prefix"), "http://e.example/docs/x", 1, PREFIX, None, True),
        (Scope(mode="prefix"), "http://e.example/doc", 1, PREFIX, None, False),
        (Scope(depth_max=2), "http://e.example/x", 2, SEEDED, None, True),
        (Scope(depth_max=2), "http://e.example/x", 3, SEEDED, None, False),
        (Scope(exclude=(r"\.pdf$",)), "http://e.example/x.pdf", 1, SEEDED, None, False),
        (Scope(include=("/docs/",)), "http://e.example/x", 1, SEEDED, None, False),
        (Scope(include=("/docs/",)), "http://e.example/docs/x", 1, SEEDED, None, True),
        (Scope(include=("/docs/",), exclude=("x$",)), "http://e.example/docs/x", 1, SEEDED, None, False),
    ],
)
def test_scope(
    rules: Scope, url: str, depth: int, host: HostRow | None, site: SiteRow | None, inside: bool
) -> None:
    assert (scope.outside(rules, url, depth, host, site) == "") is inside


@pytest.mark.parametrize(
    ("kind", "depth", "mode", "adds"),
    [
        (SourceKind.SEED, 0, "host", ""),
        (SourceKind.OPERATOR, 0, "site", ""),
        (SourceKind.SEED, 0, "prefix", "http://e.example/docs/"),
        (SourceKind.REDIRECT, 0, "host", ""),
        (SourceKind.REDIRECT, 1, "host", None),
        (SourceKind.PAGE, 1, "host", None),
        (SourceKind.SITEMAP, 1, "prefix", None),
    ],
)
def test_what_widens_the_scope(kind: SourceKind, depth: int, mode: ScopeMode, adds: str | None) -> None:
    assert scope.seed_scope(Scope(mode=mode), "http://e.example/docs/a?b=/c", kind, depth) == adds


@given(st.integers(0, 253_402_300_799_999))
def test_times_are_those_of_the_calendar(at_ms: int) -> None:
    seconds, ms = divmod(at_ms, 1_000)
    there = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S") if seconds >= 0 else ""
    assert rfc3339(at_ms) == f"{there.rjust(19, '0')}.{ms:03}Z"
