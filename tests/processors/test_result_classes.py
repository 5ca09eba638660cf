"""What an answer makes of a URL: the table of seed 000, chapter 6, and the counts that bound attempts."""

import pytest

from frontlog.avro.enums import FetchKind, Reason, SourceKind, State
from frontlog.avro.events import FetchResult
from frontlog.processors import results
from frontlog.processors.settings import Attempts
from frontlog.state.rows import UrlRow

R, S = Reason, State


def row(**fields: object) -> UrlRow:
    base: dict[str, object] = {
        "url": "http://e.example/a",
        "state": S.LEASED,
        "reason": R.CLAIMED,
        "source_kind": SourceKind.PAGE,
    }
    return UrlRow(**(base | fields))  # type: ignore[arg-type]


def result(status: int = 0, reason: Reason = R.OK, **fields: object) -> FetchResult:
    base: dict[str, object] = {
        "kind": FetchKind.PAGE, "origin_key": "http://e.example:80", "host": "e.example", "url": "http://e.example/a",
        "status": status, "reason": reason,
    }  # fmt: skip
    return FetchResult(**(base | fields))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("status", "state", "reason"),
    [
        (200, S.FETCHED, R.OK), (201, S.FETCHED, R.OK), (204, S.FETCHED, R.OK), (206, S.FETCHED, R.OK),
        (301, S.FETCHED, R.REDIRECTED), (302, S.FETCHED, R.REDIRECTED), (303, S.FETCHED, R.REDIRECTED),
        (307, S.FETCHED, R.REDIRECTED), (308, S.FETCHED, R.REDIRECTED),
        (300, S.FAILED, R.UNEXPECTED_STATUS), (304, S.DEFERRED, R.UNEXPECTED_STATUS),
        (400, S.FAILED, R.NOT_AVAILABLE), (401, S.FAILED, R.NOT_AVAILABLE), (403, S.FAILED, R.NOT_AVAILABLE),
        (404, S.GONE, R.GONE), (410, S.GONE, R.GONE), (418, S.FAILED, R.NOT_AVAILABLE), (451, S.FAILED, R.NOT_AVAILABLE),
        (429, S.DEFERRED, R.TOO_MANY_REQUESTS), (503, S.DEFERRED, R.UNAVAILABLE),
        (500, S.DEFERRED, R.SERVER_ERROR), (502, S.DEFERRED, R.SERVER_ERROR), (504, S.DEFERRED, R.SERVER_ERROR),
        (199, S.FAILED, R.UNEXPECTED_STATUS), (600, S.FAILED, R.UNEXPECTED_STATUS),
    ],
)  # fmt: skip
def test_a_status_by_itself(status: int, state: State, reason: Reason) -> None:
    assert results.classify(result(status), row()) == (state, reason)


@pytest.mark.parametrize(
    ("reason", "state", "then"),
    [
        (R.TIMEOUT, S.DEFERRED, R.TIMEOUT), (R.CONNECTION_REFUSED, S.DEFERRED, R.CONNECTION_REFUSED),
        (R.CONNECTION_RESET, S.DEFERRED, R.CONNECTION_RESET), (R.NO_ROUTE, S.DEFERRED, R.NO_ROUTE),
        (R.TLS_FAILED, S.DEFERRED, R.TLS_FAILED), (R.PROTOCOL_ERROR, S.DEFERRED, R.PROTOCOL_ERROR),
        (R.TRUNCATED, S.DEFERRED, R.TRUNCATED), (R.DECODE_FAILED, S.DEFERRED, R.DECODE_FAILED),
        (R.WORKER_LOST, S.DEFERRED, R.WORKER_LOST), (R.STORE_FULL, S.DEFERRED, R.STORE_FULL),
        (R.OVERSIZE, S.QUARANTINED, R.OVERSIZE), (R.BAD_TYPE, S.QUARANTINED, R.BAD_TYPE),
        (R.HEADER_OVERSIZE, S.QUARANTINED, R.HEADER_OVERSIZE), (R.PARSER_LIMIT, S.QUARANTINED, R.PARSER_LIMIT),
        (R.BLOCKED_NETWORK, S.BLOCKED, R.BLOCKED_NETWORK), (R.BAD_SCHEME, S.BLOCKED, R.BAD_SCHEME),
        (R.TOO_MANY_REDIRECTS, S.FAILED, R.TOO_MANY_REDIRECTS), (R.REDIRECT_LOOP, S.FAILED, R.REDIRECT_LOOP),
        (R.BAD_LOCATION, S.FAILED, R.BAD_LOCATION), (R.RELEASED, S.ELIGIBLE, R.RELEASED),
        (R.ADDRESS_CHANGED, S.ELIGIBLE, R.ADDRESS_CHANGED), (R.PAUSED, S.DEFERRED, R.UNEXPECTED_STATUS),
    ],
)  # fmt: skip
def test_a_failure_by_itself(reason: Reason, state: State, then: Reason) -> None:
    assert results.classify(result(200, reason), row()) == (state, then)


@pytest.mark.parametrize(
    ("fields", "status", "state", "reason"),
    [
        ({"etag": '"1"'}, 304, S.FETCHED, R.NOT_MODIFIED),
        ({"last_modified": "Tue, 27 Oct 2026 08:12:00 GMT"}, 304, S.FETCHED, R.NOT_MODIFIED),
        ({"last_success_ms": 5}, 404, S.DEFERRED, R.GONE_UNCONFIRMED),
        ({"last_success_ms": 5, "last_status": 404}, 404, S.GONE, R.GONE),
        ({"last_success_ms": 5}, 410, S.GONE, R.GONE),
    ],
)
def test_a_status_by_what_was_there_before(
    fields: dict[str, object], status: int, state: State, reason: Reason
) -> None:
    assert results.classify(result(status), row(**fields)) == (state, reason)


def test_the_wait_before_a_retry_doubles_is_spread_by_a_tenth_and_is_the_same_in_every_replay() -> None:
    rules = Attempts(retry_ms_min=10_000, retry_ms_max=60_000)
    for tries, base in ((1, 10_000), (2, 20_000), (3, 40_000), (4, 60_000), (40, 60_000)):
        waits = {results.retry_delay_ms(rules, f"http://e.example/{n}", tries) for n in range(50)}
        assert all(0.9 * base <= wait <= 1.1 * base for wait in waits)
        assert len(waits) > 25
        assert waits == {results.retry_delay_ms(rules, f"http://e.example/{n}", tries) for n in range(50)}
