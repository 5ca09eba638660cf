"""What tests of learning share: a crawl that is sure after three pieces of evidence, answers and verdicts for it."""

from typing import Any

from frontlog.avro.enums import Reason, RuleAct, RuleName, State, Topic, Verdict, Weight
from frontlog.avro.events import Candidate, ContentVerdict, ParseFacts, UrlEvidence, UrlRule
from frontlog.processors.settings import Canonical, Learning, Scope, Settings
from support.machine import ADDRESS, Bench, Made

R, S = Reason, State
A, ORIGIN = "http://a.example", "http://a.example:80"
SLASH, SCHEME, IGNORED = RuleName.SLASH, RuleName.SCHEME, RuleName.IGNORED_PARAMS


def crawl(mode: Any = "apply", confidence_min: float = 0.8, profile: Any = "conservative") -> Bench:
    """A crawl that is sure after three pieces of evidence, whose host may be asked."""
    learning_rules = Learning(mode=mode, confidence_min=confidence_min)
    bench = Bench(
        Settings(scope=Scope(mode="any"), learning=learning_rules, canonical=Canonical(profile=profile))
    )
    bench.page(bench.prepare(f"{A}/"))
    return bench


def fetch(bench: Bench, url: str, **answer: Any) -> Made:
    bench.links(url)
    lease = bench.page_lease()
    assert lease.url == url
    return bench.answer(lease, address=ADDRESS, **answer)


def redirect(bench: Bench, url: str, location: str) -> Made:
    return fetch(bench, url, status=301, location=location)


def page(bench: Bench, url: str, text: bytes = b"t" * 32, canonical: str = "", words: int = 50) -> Made:
    return fetch(bench, url, parse=ParseFacts(text_sha256=text, canonical_url=canonical, words=words))


def content(bench: Bench, url: str, text: bytes, same: str = "", words: int = 50) -> Made:
    """What content says of a page."""
    bench.links(url)
    candidate = Candidate(
        event_id=url, origin_key=f"{url.partition('://')[0]}://a.example:{443 if url[:5] == 'https' else 80}", url=url,
        requested=url, status=200, text_sha256=text, words=words, fetched_ms=bench.now_ms,
    )  # fmt: skip
    verdict = Verdict.SEEN if same else Verdict.NEW
    event = ContentVerdict(event_id=url, verdict=verdict, duplicate_of=same, candidate=candidate)
    return bench.decide(event, Topic.CONTENT_VERDICTS)


def evidence(made: Made) -> list[tuple[RuleName, str, Weight]]:
    return [(one.rule, one.value, one.weight) for one in made.decisions if isinstance(one, UrlEvidence)]


def acts(made: Made) -> list[tuple[RuleName, str, RuleAct]]:
    return [(one.rule, one.value, one.act) for one in made.decisions if isinstance(one, UrlRule)]
