"""Every exception of the layers below has a reason.

Not verified: that the lists of aiohttp, ssl and errno are all that an operating system can do.
"""

import errno
import inspect
import socket
import ssl

import aiohttp
import pytest
from aiohttp import client_exceptions
from aiohttp.client_reqrep import ConnectionKey
from aiohttp.http import HttpProcessingError

from frontlog.avro.enums import Reason
from frontlog.avro.errors import Retriable
from frontlog.fetch.failures import BY_CLASS, BY_ERRNO, EXPECTED, OWN_FAULTS, reason_of

KEY = ConnectionKey("127.0.0.1", 80, False, True, None, None, None, "site.test")
NEVER_RAISED = {
    "ClientError",  # a base, never itself
    "ClientResponseError",  # raised by ClientSession, which is not used, as are all below it
    "ContentTypeError",
    "WSServerHandshakeError",
    "ClientHttpProxyError",
    "TooManyRedirects",
    "UploadAbortedError",  # nothing is uploaded
    "InvalidURL",  # the address is checked before
    "InvalidUrlClientError",
    "RedirectClientError",
    "NonHttpUrlClientError",
    "InvalidUrlRedirectClientError",
    "NonHttpUrlRedirectClientError",
}


def test_every_exception_of_aiohttp_is_accounted_for() -> None:
    classes = [
        c
        for _, c in inspect.getmembers(client_exceptions, inspect.isclass)
        if issubclass(c, aiohttp.ClientError)
    ]
    assert len(classes) > 25
    without = {c.__name__ for c in classes if not issubclass(c, EXPECTED)}
    assert without == NEVER_RAISED


def test_no_row_hides_behind_an_earlier_one() -> None:
    for at, (kind, _) in enumerate(BY_CLASS):
        assert not any(issubclass(kind, earlier) for earlier, _ in BY_CLASS[:at]), kind


@pytest.mark.parametrize(
    ("exc", "reason"),
    [
        (aiohttp.ClientConnectorDNSError(KEY, socket.gaierror(-2, "unknown")), Reason.DNS_FAILED),
        (aiohttp.ClientConnectorCertificateError(KEY, ssl.SSLCertVerificationError("x")), Reason.TLS_FAILED),
        (aiohttp.ClientConnectorSSLError(KEY, ssl.SSLError(1, "WRONG_VERSION_NUMBER")), Reason.TLS_FAILED),
        (aiohttp.ServerFingerprintMismatch(b"", b"", "h", 1), Reason.TLS_FAILED),
        (ssl.SSLError(1, "decryption failed"), Reason.TLS_FAILED),
        (HttpProcessingError(message="bad"), Reason.PROTOCOL_ERROR),
        (aiohttp.ClientPayloadError("short"), Reason.TRUNCATED),
        (aiohttp.ServerDisconnectedError(), Reason.CONNECTION_RESET),
        (aiohttp.ClientConnectionResetError("closing"), Reason.CONNECTION_RESET),
        (aiohttp.ClientConnectionError("lost"), Reason.CONNECTION_RESET),
        (aiohttp.ConnectionTimeoutError("x"), Reason.TIMEOUT),
        (aiohttp.ClientOSError(errno.ECONNRESET, "reset"), Reason.CONNECTION_RESET),
        (aiohttp.ClientOSError(errno.ETIMEDOUT, "timed out"), Reason.TIMEOUT),
        (ConnectionRefusedError("no errno"), Reason.CONNECTION_REFUSED),
        (BrokenPipeError(errno.EPIPE, "pipe"), Reason.CONNECTION_RESET),
        (TimeoutError(), Reason.TIMEOUT),
        (OSError("no errno"), Reason.CONNECTION_RESET),
    ],
)
def test_classes(exc: BaseException, reason: Reason) -> None:
    found, detail = reason_of(exc)
    assert found is reason
    assert type(exc).__name__ in detail or isinstance(exc, aiohttp.ClientConnectorError)


@pytest.mark.parametrize(("number", "reason"), BY_ERRNO.items())
def test_errnos_alone_and_wrapped(number: int, reason: Reason) -> None:
    cause = OSError(number, "why")
    assert reason_of(cause)[0] is reason
    wrapped, detail = reason_of(aiohttp.ClientConnectorError(KEY, cause))
    assert wrapped is reason
    assert "why" in detail


@pytest.mark.parametrize("number", sorted(OWN_FAULTS))
def test_our_own_faults_are_not_the_hosts(number: int) -> None:
    for exc in (OSError(number, "full"), aiohttp.ClientConnectorError(KEY, OSError(number, "full"))):
        with pytest.raises(Retriable, match="this machine"):
            reason_of(exc)


def test_details_are_one_line_and_short() -> None:
    _, detail = reason_of(aiohttp.ClientPayloadError("a\n\n  b\r\n" * 1_000))
    assert "\n" not in detail
    assert len(detail) <= 300


def test_what_no_row_fits_is_a_bug() -> None:
    with pytest.raises(AssertionError):
        reason_of(KeyError("x"))
