"""Whether a URL belongs to the crawl, and what a seed adds."""

import pytest

from frontlog.avro.enums import SourceKind
from frontlog.processors import scope
from frontlog.processors.settings import Scope, ScopeMode
from frontlog.state.rows import HostRow, SiteRow

URL = "http://a.example/docs/x?q=/p/"


@pytest.mark.parametrize(
    ("mode", "seeds", "site_seeded", "reached"),
    [
        ("any", (), False, True),
        ("host", (), True, False),
        ("host", ("",), False, True),
        ("host", ("http://a.example/other/",), False, True),
        ("site", (), True, True),
        ("site", ("",), False, False),
        ("prefix", ("http://a.example/docs/",), True, True),
        ("prefix", ("http://a.example/docs/x/",), True, False),
        ("prefix", ("http://a.example/no/", "http://a.example/d"), True, True),
        ("prefix", (), True, False),
        ("prefix", ("https://a.example/docs/",), True, False),
    ],
)
def test_what_each_mode_reaches(
    mode: ScopeMode, seeds: tuple[str, ...], site_seeded: bool, reached: bool
) -> None:
    host, site = HostRow(host="a.example", seeds=seeds), SiteRow(seeded=site_seeded)
    assert (scope.outside(Scope(mode=mode), URL, 0, host, site) == "") is reached
    if mode != "any":
        assert "no seed covers it" in scope.outside(Scope(mode=mode), URL, 0, None, None)


@pytest.mark.parametrize(("depth", "inside"), [(0, True), (16, True), (17, False), (65_535, False)])
def test_depth(depth: int, inside: bool) -> None:
    assert (scope.outside(Scope(mode="any"), URL, depth, None, None) == "") is inside


@pytest.mark.parametrize(
    ("include", "exclude", "told"),
    [
        ((), (), ""),
        (("/docs/",), (), ""),
        (("/blog/",), (), "no include pattern matches"),
        (("/blog/", "x\\?"), (), ""),
        ((), ("q=",), "excluded by q="),
        (("/docs/",), ("q=",), "excluded by q="),
        ((), ("^http://b",), ""),
    ],
)
def test_patterns(include: tuple[str, ...], exclude: tuple[str, ...], told: str) -> None:
    assert scope.outside(Scope(mode="any", include=include, exclude=exclude), URL, 0, None, None) == told


@pytest.mark.parametrize("kind", list(SourceKind))
@pytest.mark.parametrize("depth", [0, 1])
def test_seeds_widen_the_scope_and_so_do_their_redirects(kind: SourceKind, depth: int) -> None:
    seed = kind in (SourceKind.SEED, SourceKind.OPERATOR) or (kind is SourceKind.REDIRECT and depth == 0)
    assert scope.seed_scope(Scope(), URL, kind, depth) == ("" if seed else None)
    prefix = "http://a.example/docs/" if seed else None
    assert scope.seed_scope(Scope(mode="prefix"), URL, kind, depth) == prefix


@pytest.mark.parametrize(
    ("url", "prefix"),
    [
        ("http://a.example/", "http://a.example/"),
        ("http://a.example/x", "http://a.example/"),
        ("http://a.example/x/", "http://a.example/x/"),
        ("http://a.example/x?a=/b/c", "http://a.example/"),
    ],
)
def test_the_prefix_of_a_seed(url: str, prefix: str) -> None:
    assert scope.seed_scope(Scope(mode="prefix"), url, SourceKind.SEED, 0) == prefix


@pytest.mark.parametrize(
    ("mode", "seeds", "site_seeded", "widening", "covered"),
    [
        ("any", (), False, "", True),
        ("site", (), True, "", True),
        ("site", ("",), False, "", False),
        ("host", (), True, "", False),
        ("host", ("http://a.example/x/",), False, "", True),
        ("prefix", ("http://a.example/x/",), False, "http://a.example/x/y/", True),
        ("prefix", ("http://a.example/x/",), False, "http://a.example/", False),
        ("prefix", ("",), False, "http://a.example/", True),
    ],
)
def test_what_a_scope_covers_already(
    mode: ScopeMode, seeds: tuple[str, ...], site_seeded: bool, widening: str, covered: bool
) -> None:
    host, site = HostRow(host="a.example", seeds=seeds), SiteRow(seeded=site_seeded)
    assert scope.covers(Scope(mode=mode), host, site, widening) is covered
