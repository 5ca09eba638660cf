"""Where a page's redirect leads, and when a chain ends."""

import pytest

from frontlog.avro.enums import Reason
from frontlog.processors.redirects import HOPS_MAX, Hop, next_hop

R = Reason
HERE = "http://a.example/dir/page?q=1"


@pytest.mark.parametrize(
    ("location", "target"),
    [
        ("http://b.example/", "http://b.example/"),
        ("HTTP://B.example", "http://b.example/"),
        ("//b.example/x", "http://b.example/x"),
        ("/x", "http://a.example/x"),
        ("x", "http://a.example/dir/x"),
        ("../x", "http://a.example/x"),
        ("?q=2", "http://a.example/dir/page?q=2"),
        ("/x#top", "http://a.example/x"),
        ("  /x  ", "http://a.example/x"),
        ("/a b", "http://a.example/a%20b"),
        ("https://a.example/dir/page?q=1", "https://a.example/dir/page?q=1"),
        ("/dir/%70age?q=1", "http://a.example/dir/%70age?q=1"),
    ],
)
def test_where_it_leads(location: str, target: str) -> None:
    assert next_hop(HERE, location, ()) == Hop(target, R.REDIRECTED, "")


@pytest.mark.parametrize(
    "location", ["", "   ", "\t", "http://", "http://[::1", "ftp://a.example/", "javascript:1", "mailto:x@y"]
)
def test_what_leads_nowhere(location: str) -> None:
    assert next_hop(HERE, location, ()).reason is R.BAD_LOCATION


@pytest.mark.parametrize(
    ("location", "chain"),
    [
        (HERE, ()), ("?q=1", ()), ("#x", ()), ("page?q=1#other", ()),
        ("http://b.example/", ("http://b.example/",)),
        ("http://b.example/#x", ("http://c.example/", "http://b.example/")),
    ],
)  # fmt: skip
def test_a_spelling_that_comes_a_second_time_ends_the_chain(location: str, chain: tuple[str, ...]) -> None:
    assert next_hop(HERE, location, chain).reason is R.REDIRECT_LOOP


def test_another_spelling_of_the_same_page_is_no_loop() -> None:
    """What is repeated is what was requested, not what it is known by."""
    assert next_hop("http://a.example/%7e", "http://a.example/~", ()).reason is R.REDIRECTED


@pytest.mark.parametrize(
    ("hops", "reason"),
    [(0, R.REDIRECTED), (4, R.REDIRECTED), (5, R.TOO_MANY_REDIRECTS), (9, R.TOO_MANY_REDIRECTS)],
)
def test_more_than_five_hops_end_the_chain(hops: int, reason: Reason) -> None:
    chain = tuple(f"http://a.example/{n}" for n in range(hops))
    found = next_hop(HERE, "/next", chain)
    assert found.reason is reason
    assert HOPS_MAX == 5
    if reason is R.TOO_MANY_REDIRECTS:
        assert found.detail == f"{hops + 1} hops; the next is http://a.example/next"
