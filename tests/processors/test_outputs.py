"""The outputs: what is given out, when not, and what is taken back."""

import pytest
from msgspec.structs import replace

from frontlog.avro.enums import Reason, State, Topic, Verdict
from frontlog.avro.events import BodyRef, Candidate, ContentVerdict, Fetched, WarcRef
from frontlog.processors import outputs
from frontlog.processors.times import rfc3339
from support.machine import NOW_MS, Bench

R, S = Reason, State
URL = "http://a.example/x"
PAGE = Candidate(
    event_id="e1", origin_key="http://a.example:80", url=URL, requested="http://a.example/%78", fence=1, fetched_ms=NOW_MS,
    status=200, content_type="text/html", body=BodyRef(file="f.warc.gz", offset=7, length=9), text_sha256=b"\x01" * 32,
    simhash=-1, words=5, title="T", language="en", canonical_url="http://a.example/c", robots_meta=("noarchive",),
    links_out=3,
)  # fmt: skip


def given(
    bench: Bench, page: Candidate = PAGE, verdict: Verdict = Verdict.NEW, duplicate_of: str = ""
) -> list[Fetched]:
    event = ContentVerdict(event_id=page.event_id, verdict=verdict, duplicate_of=duplicate_of, candidate=page)
    return bench.decide(event, Topic.CONTENT_VERDICTS).out(Topic.FETCHED)


def known() -> Bench:
    bench = Bench()
    bench.seed(URL)
    return bench


def test_a_page_is_given_out_whole() -> None:
    (out,) = given(known())
    assert out == Fetched(
        event_id="e1", url=URL, requested_url="http://a.example/%78", canonical_url="http://a.example/c",
        fetched_at="2026-09-21T14:13:20.000Z", status=200, content_type="text/html",
        warc_ref=WarcRef(file="f.warc.gz", offset=7, length=9), content_sha256="01" * 32, simhash="f" * 16,
        verdict=Verdict.NEW, duplicate_of=None, robots_meta=("noarchive",), noindex=False, links_out=3,
        title="T", language="en",
    )  # fmt: skip


def test_what_is_not_there_is_left_out() -> None:
    (out,) = given(known(), replace(PAGE, body=None, simhash=0, canonical_url=""))
    assert (out.warc_ref, out.simhash, out.canonical_url) == (None, "", URL)


@pytest.mark.parametrize(
    ("directives", "noindex"),
    [((), False), (("noindex",), True), (("none",), True), (("nofollow", "noindex"), True)],
)
def test_noindex(directives: tuple[str, ...], noindex: bool) -> None:
    assert given(known(), replace(PAGE, robots_meta=directives))[0].noindex is noindex


@pytest.mark.parametrize(
    ("from_now_ms", "noindex"), [(None, False), (-1, True), (0, True), (1, False), (86_400_000, False)]
)
def test_a_page_says_from_when_on_it_is_not_to_be_indexed(from_now_ms: int | None, noindex: bool) -> None:
    bench = known()
    at_ms = 0 if from_now_ms is None else bench.now_ms + from_now_ms
    (out,) = given(bench, replace(PAGE, unavailable_at_ms=at_ms))
    assert out.noindex is noindex
    assert out.unavailable_after == (rfc3339(at_ms) if at_ms else None)


def test_a_duplicate_names_the_first() -> None:
    (out,) = given(known(), verdict=Verdict.SEEN, duplicate_of="http://a.example/first")
    assert (out.verdict, out.duplicate_of) == (Verdict.SEEN, "http://a.example/first")


@pytest.mark.parametrize("state", [s for s in S if s not in (S.NONE, S.DISCOVERED)], ids=lambda s: s.value)
def test_nothing_is_given_out_that_must_not_be_there(state: State) -> None:
    bench = known()
    bench.force(URL, state)
    assert len(given(bench)) == (state not in (S.SUPPRESSED, S.BLOCKED, S.GONE))


def test_an_unknown_url_is_a_reject() -> None:
    event = ContentVerdict(event_id="e", verdict=Verdict.NEW, candidate=PAGE)
    assert Bench().decide(event, Topic.CONTENT_VERDICTS).rejects == [R.UNKNOWN_URL]


def test_a_verdict_that_comes_twice_gives_the_same_event_id() -> None:
    bench = known()
    assert given(bench)[0].event_id == given(bench)[0].event_id == "e1"


@pytest.mark.parametrize("reason", list(Reason), ids=lambda r: r.value)
def test_only_some_reasons_take_a_page_back(reason: Reason) -> None:
    bench = known()
    context = bench.context("claim")
    context.seq = 77
    found = outputs.removed(bench.tables, context, "http://a.example:80", bench.url(URL), reason, "why", 5)
    taken_back = ["gone", "robots_denied", "operator_block", "out_of_scope", "suppressed"]
    assert len(found) == (reason.value in taken_back)
    if found:
        event = found[0].event
        assert (found[0].topic, found[0].key) == (Topic.REMOVED, "http://a.example:80")
        assert getattr(event, "event_id") == "0-77", "partition and seq of the decision"  # noqa: B009
