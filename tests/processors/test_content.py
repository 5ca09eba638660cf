"""Content: each verdict, the rows behind it, and that a repeat changes nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from frontlog.avro.enums import Topic, Verdict
from frontlog.avro.events import BodyRef, Candidate, ContentVerdict, Document
from frontlog.state.rows import ContentRow
from support.machine import NOW_MS, Bench, Made

V = Verdict
ONE, TWO, THREE = b"1" * 32, b"2" * 32, b"3" * 32


def page(n: int, text: bytes, url: str = "http://a.example/x") -> Candidate:
    return Candidate(
        event_id=f"e{n}", origin_key="http://a.example:80", partition=3, url=url, fetched_ms=NOW_MS + n, text_sha256=text,
        body=BodyRef(file="f", offset=n, length=5), simhash=9,
    )  # fmt: skip


def offered(bench: Bench, candidate: Candidate) -> tuple[Verdict, str]:
    made = bench.decide(candidate, Topic.CANDIDATES)
    (document,) = made.decisions
    (emission,) = made.emissions
    assert isinstance(document, Document)
    assert isinstance(emission.event, ContentVerdict)
    assert (emission.partition, emission.topic, emission.key) == (
        3,
        Topic.CONTENT_VERDICTS,
        candidate.origin_key,
    )
    assert (emission.event.candidate, emission.event.event_id) == (candidate, candidate.event_id)
    assert (emission.event.verdict, emission.event.duplicate_of) == (document.verdict, document.duplicate_of)
    return document.verdict, document.duplicate_of


def row(bench: Bench, text: bytes) -> ContentRow:
    found = bench.tables.content.get(text)
    assert found is not None
    return found


OTHER = "http://a.example/other"


@pytest.mark.parametrize(
    ("before", "last", "verdict"),
    [
        ([], page(9, ONE), (V.NEW, "")),
        ([page(1, ONE)], page(9, ONE), (V.SAME, "")),
        ([page(1, ONE)], page(9, TWO), (V.CHANGED, "")),
        ([page(1, ONE, OTHER)], page(9, ONE), (V.SEEN, OTHER)),
        ([page(1, ONE, OTHER), page(2, ONE)], page(9, ONE), (V.SAME, OTHER)),
        ([page(1, ONE, OTHER), page(2, TWO)], page(9, ONE), (V.SEEN, OTHER)),
        ([page(1, ONE), page(2, TWO)], page(9, ONE), (V.SEEN, "")),
        ([page(1, ONE), page(2, TWO)], page(9, THREE), (V.CHANGED, "")),
    ],
)
def test_verdicts(before: list[Candidate], last: Candidate, verdict: tuple[Verdict, str]) -> None:
    bench = Bench()
    for candidate in before:
        offered(bench, candidate)
    assert offered(bench, last) == verdict


def test_a_repeat_changes_nothing() -> None:
    bench = Bench()
    offered(bench, page(1, ONE))
    before = bench.tables.digest_values()
    assert bench.decide(page(1, ONE), Topic.CANDIDATES) == Made()
    assert bench.tables.digest_values() == before


def test_a_text_keeps_who_had_it_first_and_counts_who_has_it() -> None:
    bench = Bench()
    for n, (text, url) in enumerate([(ONE, "http://a.example/x"), (ONE, OTHER), (ONE, OTHER)], 1):
        offered(bench, page(n, text, url))
    found = row(bench, ONE)
    assert (found.url, found.first_seen_ms, found.last_seen_ms, found.urls) == (
        "http://a.example/x",
        NOW_MS + 1,
        NOW_MS + 3,
        2,
    )
    assert (found.body_file, found.body_offset, found.simhash) == ("f", 1, 9)
    offered(bench, page(4, TWO, OTHER))
    assert (row(bench, ONE).urls, row(bench, TWO).urls) == (1, 1)
    offered(bench, page(5, ONE, OTHER))
    assert (row(bench, ONE).urls, row(bench, TWO).urls) == (2, 0)


def test_a_url_keeps_since_when_it_has_its_text() -> None:
    bench = Bench()
    for n, text in enumerate([ONE, ONE, TWO], 1):
        offered(bench, page(n, text))
    ((_, found),) = bench.tables.url_content.scan()
    assert (found.first_seen_ms, found.last_seen_ms, found.content_hash) == (NOW_MS + 3, NOW_MS + 3, TWO)


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from([ONE, TWO, THREE])), max_size=40))
def test_counts_are_those_of_a_plain_dict(visits: list[tuple[int, bytes]]) -> None:
    bench, has = Bench(), dict[int, bytes]()
    first: dict[bytes, int] = {}
    for n, (url, text) in enumerate(visits):
        verdict, duplicate_of = offered(bench, page(n, text, f"http://a.example/{url}"))
        known, same = text in first, has.get(url) == text
        expected = V.SAME if same else V.SEEN if known else V.CHANGED if url in has else V.NEW
        first.setdefault(text, url)
        assert verdict is expected
        assert duplicate_of == ("" if first[text] == url or not known else f"http://a.example/{first[text]}")
        has[url] = text
    for text in first:
        assert row(bench, text).urls == list(has.values()).count(text)


@pytest.mark.parametrize("text", [b"", b"short", b"x" * 33])
def test_what_is_no_hash_is_a_reject(text: bytes) -> None:
    made = Bench().decide(replace(page(1, ONE), text_sha256=text), Topic.CANDIDATES)
    assert [r.value for r in made.rejects] == ["undecodable"]
