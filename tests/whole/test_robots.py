"""robots.txt on a real web: redirects through other hosts to the fifth, hops that a gate refuses, what is in the archive."""

from pathlib import Path

import pytest

from frontlog.avro.enums import FetchKind, Reason, RobotsState, Topic
from frontlog.avro.events import FetchResult, RobotsPolicy
from frontlog.replay.explain import explain
from frontlog.streams.summary import End
from support.crawls import crawl, events, fetched, prove
from support.site import Answer, Site, page

RULES = Answer(b"User-agent: *\nDisallow: /no\nCrawl-delay: soon\n", type="text/plain")


def to(url: str) -> Answer:
    return Answer(b"", 301, headers=(("Location", url),))


def policies(folder: Path, origin: str) -> list[RobotsPolicy]:
    found = [one for one in events(folder, Topic.POLICIES) if isinstance(one, RobotsPolicy)]
    return [one for one in found if one.origin_key == origin and not one.renewal]


@pytest.mark.parametrize("hops", [5, 6])
def test_redirects_through_five_hosts_count_and_a_sixth_is_no_file(tmp_path: Path, hops: int) -> None:
    folder = tmp_path / "c"
    with Site(hosts=7) as site:
        for n in range(hops):
            site.put(n, "/robots.txt" if n == 0 else f"/r{n}", to(site.url(n + 1, f"/r{n + 1}")))
        site.put(hops, f"/r{hops}", RULES)
        site.put(0, "/", page("home", ["/no", "/yes"]))
        site.put(0, "/no", page("no"))
        site.put(0, "/yes", page("yes"))
        assert crawl(folder, site.url()).end is End.DONE
        denied = set[str]() if hops > 5 else {site.url(0, "/no")}
        assert fetched(folder) == {site.url(), site.url(0, "/no"), site.url(0, "/yes")} - denied
        (known,) = policies(folder, site.origin())
        assert (known.state, known.reason) == (
            (RobotsState.RULES, Reason.OK)
            if hops == 5
            else (RobotsState.ALLOW_ALL, Reason.TOO_MANY_REDIRECTS)
        )
        asked = [one for one in events(folder, Topic.FETCH_RESULTS) if isinstance(one, FetchResult)]
        hopped = {one.url: one for one in asked if one.kind is FetchKind.ROBOTS and one.fence}
        assert len(hopped) == 6
        assert all(one.body is not None for one in hopped.values()), "each has its record"
        assert [site.paths(n) for n in range(1, 6)] == [[f"/r{n}"] for n in range(1, 6)], (
            "their own pages are not asked"
        )
        if hops == 5:
            assert known.detail == "line 3: skipped: Crawl-delay is not a number of seconds"
            assert any(known.detail in line.detail for line in explain(folder, site.url()).lines)
        prove(folder)


@pytest.mark.parametrize(
    ("location", "reason"),
    [
        ("http://10.0.0.1/robots.txt", Reason.BLOCKED_NETWORK), ("http://[::ffff:10.0.0.1]/r", Reason.BLOCKED_NETWORK),
        ("http://169.254.169.254/latest", Reason.BLOCKED_NETWORK), ("ftp://127.0.0.2/robots.txt", Reason.BAD_SCHEME),
        ("http://user@127.0.0.2/r", Reason.USERINFO), ("", Reason.BAD_LOCATION), ("http://127.0.0.2/r", Reason.OK),
    ],
)  # fmt: skip
def test_a_hop_that_a_gate_refuses_disallows(tmp_path: Path, location: str, reason: Reason) -> None:
    folder = tmp_path / "c"
    with Site(hosts=2) as site:
        site.put(0, "/robots.txt", to(location.replace("127.0.0.2/r", f"127.0.0.2:{site.port}/r")))
        site.put(1, "/r", RULES)
        site.put(0, "/", page("home"))
        crawl(folder, site.url(), crawl__patience_ms=300)
        (known,) = policies(folder, site.origin())
        assert (known.state, known.reason) == (
            RobotsState.RULES if reason is Reason.OK else RobotsState.UNREACHABLE, reason,
        )  # fmt: skip
        assert fetched(folder) == ({site.url()} if reason is Reason.OK else set())
        assert not [one for one in site.asked(0) if one.path == "/"] or reason is Reason.OK
        prove(folder)
