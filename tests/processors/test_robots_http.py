"""What answers to /robots.txt mean, how long they hold, and the same asked by hand."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frontlog.avro.enums import Reason, RobotsState
from frontlog.avro.errors import ConfigError
from frontlog.processors.robots_check import check_robots, product_token_of
from frontlog.processors.robots_http import (
    CACHE_MS_MAX,
    CACHE_MS_MIN,
    COPY_MS_MAX,
    REDIRECTS_MAX,
    RETRY_MS_MAX,
    RETRY_MS_MIN,
    RobotsOutcome,
    copy_until_ms,
    expires_ms,
    judge,
    lifetime_ms,
    outcome,
    retry_gap_ms,
)
from frontlog.processors.robots_txt import parse

FILE = b"User-agent: *\nDisallow: /x\n"
URL = "https://a.example/robots.txt"


def answer(status: int | None, body: bytes = b"", error: str | None = None) -> RobotsOutcome:
    """An answer without redirects."""
    return outcome(status, error, body, "text/plain", 0, url=URL)


# --- the table -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "kind", "reason", "state"),
    [
        (200, "parsed", Reason.OK, RobotsState.RULES),
        (206, "parsed", Reason.OK, RobotsState.RULES),
        (400, "unavailable", Reason.NOT_AVAILABLE, RobotsState.ALLOW_ALL),
        (401, "unavailable", Reason.NOT_AVAILABLE, RobotsState.ALLOW_ALL),
        (403, "unavailable", Reason.NOT_AVAILABLE, RobotsState.ALLOW_ALL),
        (404, "unavailable", Reason.GONE, RobotsState.ALLOW_ALL),
        (410, "unavailable", Reason.GONE, RobotsState.ALLOW_ALL),
        (499, "unavailable", Reason.NOT_AVAILABLE, RobotsState.ALLOW_ALL),
        (429, "unreachable", Reason.TOO_MANY_REQUESTS, RobotsState.UNREACHABLE),
        (500, "unreachable", Reason.SERVER_ERROR, RobotsState.UNREACHABLE),
        (503, "unreachable", Reason.UNAVAILABLE, RobotsState.UNREACHABLE),
        (599, "unreachable", Reason.SERVER_ERROR, RobotsState.UNREACHABLE),
        (100, "unreachable", Reason.UNEXPECTED_STATUS, RobotsState.UNREACHABLE),
        (304, "unreachable", Reason.UNEXPECTED_STATUS, RobotsState.UNREACHABLE),
        (999, "unreachable", Reason.UNEXPECTED_STATUS, RobotsState.UNREACHABLE),
        (0, "unreachable", Reason.UNEXPECTED_STATUS, RobotsState.UNREACHABLE),
        (301, "unreachable", Reason.BAD_LOCATION, RobotsState.UNREACHABLE),
    ],
)
def test_statuses(status: int, kind: str, reason: Reason, state: RobotsState) -> None:
    found = answer(status, FILE)
    assert (found.kind, found.reason, found.state) == (kind, reason, state)
    assert found.defer is (kind == "unreachable")
    assert judge(found, "bot", "/y").allowed is (kind != "unreachable")
    assert judge(found, "bot", "/x").allowed is (kind == "unavailable")


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        ("timeout", Reason.TIMEOUT),
        ("dns_failed", Reason.DNS_FAILED),
        ("tls_failed", Reason.TLS_FAILED),
        ("blocked_network", Reason.BLOCKED_NETWORK),
        ("something else", Reason.ROBOTS_UNREACHABLE),
    ],
)
@pytest.mark.parametrize("status", [None, 200, 404])
@pytest.mark.parametrize("hops", [0, 3, REDIRECTS_MAX, 9])
def test_an_error_or_a_refused_hop_disallows(
    error: str, reason: Reason, status: int | None, hops: int
) -> None:
    found = outcome(status, error, FILE, "", hops, url=URL)
    assert (found.kind, found.reason, found.detail) == ("unreachable", reason, error)
    assert not judge(found, "bot", "/y").allowed


def test_no_status_and_no_error_is_no_answer() -> None:
    assert answer(None).kind == "unreachable"


@pytest.mark.parametrize("body", [b"", b" \n", b"<!doctype html><title>Oops</title>", b"\xff\xfe", b"\0"])
@pytest.mark.parametrize("status", [200, 204])
def test_an_empty_file_or_a_page_forbids_nothing(status: int, body: bytes) -> None:
    found = answer(status, body)
    assert found.kind == "parsed"
    assert judge(found, "bot", "/y").allowed
    assert found.robots is not None
    assert found.robots.looks_like_html is body.startswith(b"<!")


def test_what_was_skipped_is_told() -> None:
    body = b"junk\nUser-agent: *\nCrawl-delay: -1\nCrawl-delay: 1e9\nNo-such: x\nDisallow: x\n"
    found = outcome(200, None, body, "text/plain", 0)
    first = (
        "line 1: skipped: not a field that counts; line 3: skipped: Crawl-delay is not a number of seconds; "
    )
    assert found.detail == first + "line 4: skipped: Crawl-delay is not a number of seconds; 2 more"
    assert found.robots is not None and found.robots.group("bot").crawl_delay_ms is None
    assert outcome(200, None, b"User-agent: *\n", "text/plain", 0).detail == ""


def test_a_body_that_broke_is_no_answer_and_one_that_we_cut_is() -> None:
    body = b"User-agent: *\nDisallow: /x\nAllow: /x/y"
    assert outcome(200, None, body, "", 0, truncated="disconnect").reason is Reason.TRUNCATED
    assert outcome(200, None, body, "", 0, truncated="time").defer
    cut = outcome(200, None, body, "", 0, truncated="length")
    assert not judge(cut, "bot", "/x/y").allowed


def test_304_keeps_the_copy_that_it_was_asked_about() -> None:
    found = outcome(304, None, b"", "", 0, has_copy=True)
    assert (found.kind, found.state, found.defer) == ("unchanged", RobotsState.UNKNOWN, False)
    copy = parse(FILE)
    assert not judge(found, "bot", "/x", copy).allowed
    assert judge(found, "bot", "/y", copy).allowed
    assert not judge(found, "bot", "/y").allowed


def test_the_last_good_copy_speaks_while_unreachable() -> None:
    found = answer(503)
    assert judge(found, "bot", "/y", parse(FILE)) == (True, None, None, "*")
    assert judge(found, "bot", "/x", parse(FILE)).line == 2
    assert judge(found, "bot", "/y") == (False, None, None, "")


# --- redirects -------------------------------------------------------------------------------------------


def redirect(
    location: str | None, hops: int = 0, visited: tuple[str, ...] = (), url: str = URL
) -> RobotsOutcome:
    """A 302."""
    return outcome(302, None, b"", "", hops, url=url, location=location, visited=visited)


@pytest.mark.parametrize("status", [300, 301, 302, 303, 307, 308])
def test_redirects_are_followed(status: int) -> None:
    found = outcome(status, None, b"", "", 0, url=URL, location="//b.example/r?x#f")
    assert (found.kind, found.location, found.state) == (
        "follow",
        "https://b.example/r?x",
        RobotsState.UNKNOWN,
    )
    assert not judge(found, "bot", "/y").allowed


def test_five_redirects_are_followed_and_a_sixth_makes_the_file_unavailable() -> None:
    assert [redirect("/r", hops).kind for hops in range(7)] == ["follow"] * 5 + ["unavailable"] * 2
    assert redirect("/r", 5).reason is Reason.TOO_MANY_REDIRECTS


def test_a_loop_is_more_than_five_redirects_seen_early() -> None:
    for found in (redirect("/robots.txt#x"), redirect("https://b.example/", 1, ("https://b.example/",))):
        assert (found.kind, found.reason) == ("unavailable", Reason.REDIRECT_LOOP)


@pytest.mark.parametrize("location", [None, "", "http://", "https://[::1", "http://a b/"])
def test_a_redirect_that_leads_nowhere_disallows(location: str | None) -> None:
    assert (redirect(location).kind, redirect(location).reason) == ("unreachable", Reason.BAD_LOCATION)


@pytest.mark.parametrize(
    "location", ["ftp://a.example/robots.txt", "javascript:1", "data:,x", "file:///etc/passwd"]
)
def test_a_redirect_to_another_scheme_disallows(location: str) -> None:
    assert (redirect(location).kind, redirect(location).reason) == ("unreachable", Reason.BAD_SCHEME)


def test_an_absolute_location_needs_no_base() -> None:
    assert redirect("https://b.example", url="").location == "https://b.example/"


@given(
    st.one_of(st.none(), st.integers(-1, 1_000)),
    st.one_of(st.none(), st.text(max_size=20)),
    st.binary(max_size=60),
    st.integers(0, 9),
    st.one_of(st.none(), st.text(max_size=40)),
)
def test_every_answer_has_an_outcome(
    status: int | None, error: str | None, body: bytes, hops: int, location: str | None
) -> None:
    found = outcome(status, error, body, "", hops, url=URL, location=location)
    assert (found.robots is not None) is (found.kind in ("parsed", "unavailable"))
    assert bool(found.location) is (found.kind == "follow")
    if error is not None or status is None or status == 429 or status >= 500:
        assert found.defer


# --- time ------------------------------------------------------------------------------------------------

HOUR_MS = 3_600_000


@pytest.mark.parametrize(
    ("cache_control", "lifetime"),
    [
        (None, CACHE_MS_MAX),
        ("", CACHE_MS_MAX),
        ("public, must-revalidate", CACHE_MS_MAX),
        ("max-age=3600", HOUR_MS),
        ("Public, MAX-AGE = 3600", HOUR_MS),
        ('max-age="7200"', 2 * HOUR_MS),
        ("max-age=7200, max-age=3600", HOUR_MS),
        ("s-maxage=60, max-age=3600", HOUR_MS),
        ("max-age=31536000", CACHE_MS_MAX),
        ("max-age=" + "9" * 5_000, CACHE_MS_MAX),
        ("max-age=0", CACHE_MS_MIN),
        ("max-age=-1", CACHE_MS_MIN),
        ("max-age=soon", CACHE_MS_MIN),
        ("max-age", CACHE_MS_MIN),
        ("max-age=३६००", CACHE_MS_MIN),
        ("no-store", CACHE_MS_MIN),
        ("No-Cache, max-age=3600", CACHE_MS_MIN),
    ],
)
def test_lifetimes(cache_control: str | None, lifetime: int) -> None:
    assert lifetime_ms(cache_control) == lifetime
    assert expires_ms(1_000, cache_control) == 1_000 + lifetime


def test_the_operators_bound_outranks_server_and_floor() -> None:
    assert lifetime_ms("max-age=3600", HOUR_MS // 2) == HOUR_MS // 2
    assert lifetime_ms("no-store", 1_000) == 1_000


@given(st.text(max_size=60), st.integers(0, 2 * CACHE_MS_MAX))
def test_no_cache_control_escapes_the_bounds(cache_control: str, cache_ms_max: int) -> None:
    assert min(CACHE_MS_MIN, cache_ms_max) <= lifetime_ms(cache_control, cache_ms_max) <= cache_ms_max


def test_retry_gaps_grow_from_a_minute_to_an_hour() -> None:
    gaps = [retry_gap_ms(failures) for failures in range(12)]
    assert gaps[:3] == [RETRY_MS_MIN, RETRY_MS_MIN, 2 * RETRY_MS_MIN]
    assert gaps == sorted(gaps)
    assert gaps[-1] == retry_gap_ms(10**6) == RETRY_MS_MAX


def test_a_copy_serves_a_bounded_time() -> None:
    assert copy_until_ms(5) == 5 + COPY_MS_MAX


# --- by hand ---------------------------------------------------------------------------------------------


def ask(**question: object) -> dict[str, object]:
    """A question with the usual agent."""
    return check_robots({"user_agent": "bot", **question})


def test_a_file_by_hand() -> None:
    text = "User-agent: Bot\nDisallow: /x/\n"
    denied = {"allowed": False, "rule": "Disallow: /x/", "line": 2, "group": "Bot"}
    assert ask(robots_txt=text, url="https://a.example/x/y") == denied
    assert ask(robots_b64=base64.b64encode(text.encode()).decode(), url="https://a.example/x/y") == denied
    assert ask(robots_txt=text, url="/") == {"allowed": True, "rule": None, "line": None, "group": "Bot"}
    said = ask(robots_txt="User-agent: *\nCrawl-delay: 2.5\nCrawl-delay: soon\nSitemap: /s.xml", url="/")
    assert (said["crawl_delay_ms"], said["sitemaps"]) == (2_500, ["/s.xml"])
    assert said["notes"] == [{"line": 3, "message": "skipped: Crawl-delay is not a number of seconds"}]
    assert ask(robots_txt="", url="") == {"allowed": True, "rule": None, "line": None, "group": ""}


@pytest.mark.parametrize(
    "url", ["HTTP://a.example/y/../x/z", "http://a.example\\x\\z", "http://a.example/%2e/x/"]
)
def test_a_url_by_hand_is_judged_as_it_would_be_requested(url: str) -> None:
    assert ask(robots_txt="User-agent: *\nDisallow: /x/\n", url=url)["allowed"] is False


@pytest.mark.parametrize(
    ("user_agent", "token"),
    [
        ("FooBot", "FooBot"),
        (" FooBot ", "FooBot"),
        ("FooBot/1.0", "FooBot"),
        ("FooBot/1.0 (+https://a.example/bot)", "FooBot"),
        ("Mozilla/5.0 (compatible; FooBot/1.0; +https://a.example/bot)", "FooBot"),
        ("Mozilla/5.0 (X11; compatible; Foo-Bot; a) Chrome/1 Safari/2", "Foo-Bot"),
        ("Mozilla/5.0 (X11; Linux) FooBot/1.0", "FooBot"),
        ("Mozilla/5.0 (X11; Linux)", "Mozilla"),
        ("(x)", ""),
        ("Foo Bar", "Foo Bar"),
        ("*", "*"),
        ("", ""),
    ],
)
def test_product_token_of(user_agent: str, token: str) -> None:
    assert product_token_of(user_agent) == token


def test_a_whole_user_agent_gets_its_tokens_group() -> None:
    text = "User-agent: FooBot\nDisallow: /\n"
    agent = "Mozilla/5.0 (compatible; FooBot/1.0; +https://a.example/bot)"
    assert check_robots({"robots_txt": text, "user_agent": agent, "url": "/x"})["allowed"] is False


PAGE = "https://a.example/x"
A = {"url": "https://a.example/robots.txt", "status": 301, "headers": {"Location": "https://b.example/r"}}
B = {"url": "https://b.example/r"}
BACK = {**B, "status": 302, "headers": [["LOCATION", "/r"]]}
OK = {"status": 200, "body": FILE.decode()}
HOPS = [
    {"url": f"https://a.example/{i}", "status": 302, "headers": {"location": f"/{i + 1}"}} for i in range(9)
]


@pytest.mark.parametrize(
    ("chain", "expected"),
    [
        ([{"url": URL, **OK}], ("parsed", False, False, "ok")),
        ([{"url": URL, "status": 404}], ("unavailable", True, False, "gone")),
        ([{"url": URL, "status": 429}], ("unreachable", False, True, "too_many_requests")),
        ([{"url": URL, "error": "timeout"}], ("unreachable", False, True, "timeout")),
        ([{"url": URL, "status": 302}], ("unreachable", False, True, "bad_location")),
        ([A, {**B, **OK}], ("parsed", False, False, "ok")),
        ([A, {**B, "status": 404}], ("unavailable", True, False, "gone")),
        ([A, {**B, "error": "blocked_network"}], ("unreachable", False, True, "blocked_network")),
        ([A], ("unreachable", False, True, "robots_unreachable")),
        ([A, BACK], ("unavailable", True, False, "redirect_loop")),
        ([*HOPS[:5], {"url": "https://a.example/5", **OK}], ("parsed", False, False, "ok")),
        (HOPS, ("unavailable", True, False, "too_many_redirects")),
    ],
)
def test_a_chain_by_hand(chain: list[object], expected: tuple[str, bool, bool, str]) -> None:
    found = ask(chain=chain, page=PAGE)
    assert (found["outcome"], found["allowed"], found["defer"], found["reason"]) == expected


def test_an_answer_counts_for_the_asking_origin_only() -> None:
    chain = [A, {"url": "https://b.example/r", "status": 404}]
    for page in ("https://b.example/x", "http://a.example/x", "https://a.example:444/x"):
        found = ask(chain=chain, page=page)
        assert (found["allowed"], found["defer"], found["reason"]) == (False, True, "other_origin")
    assert ask(chain=chain, page="https://a.example:443/x")["allowed"] is True
    assert ask(chain=chain, page="/x")["allowed"] is True


@pytest.mark.parametrize(
    ("question", "field"),
    [
        ({"robots_txt": "", "url": "/"}, "user_agent"),
        ({"robots_txt": "", "user_agent": 1, "url": "/"}, "user_agent"),
        ({"user_agent": "bot", "url": "/"}, "robots_txt"),
        ({"robots_txt": "", "user_agent": "bot"}, "url"),
        ({"robots_b64": "!", "user_agent": "bot", "url": "/"}, "robots_b64"),
        ({"robots_b64": "é", "user_agent": "bot", "url": "/"}, "robots_b64"),
        ({"chain": [], "user_agent": "bot", "page": "/"}, "chain"),
        ({"chain": {}, "user_agent": "bot", "page": "/"}, "chain"),
        ({"chain": [1], "user_agent": "bot", "page": "/"}, "chain"),
        ({"chain": [{"url": URL}], "user_agent": "bot", "page": "/"}, "status"),
        ({"chain": [{"url": URL, "status": "200"}], "user_agent": "bot", "page": "/"}, "status"),
        ({"chain": [{"status": 200}], "user_agent": "bot", "page": "/"}, "url"),
        ({"chain": [{"url": URL, "status": 200, "headers": 1}], "user_agent": "bot", "page": "/"}, "headers"),
        (
            {"chain": [{"url": URL, "status": 200, "headers": ["x"]}], "user_agent": "bot", "page": "/"},
            "headers",
        ),
        ({"chain": [{"url": URL, "status": 200}], "user_agent": "bot"}, "page"),
    ],
)
def test_bad_questions_name_the_field(question: dict[str, object], field: str) -> None:
    with pytest.raises(ConfigError, match=field):
        check_robots(question)


json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=12)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=6), inner, max_size=3)
    ),
    max_leaves=8,
)
fields = st.sampled_from(["robots_txt", "robots_b64", "user_agent", "url", "chain", "page"])


@given(
    st.dictionaries(fields, json_values),
    st.dictionaries(st.sampled_from(["url", "status", "headers"]), json_values),
)
def test_a_question_is_answered_or_refused(question: dict[str, object], one: dict[str, object]) -> None:
    for asked in (question, {**question, "chain": [one], "user_agent": "bot", "page": "/x"}):
        try:
            found = check_robots(asked)
        except ConfigError:
            continue
        assert isinstance(found["allowed"], bool)
