"""Which reason each exception of aiohttp, ssl and the operating system is, as one table.

The order matters: the first row whose class fits decides, and classes stand before their bases. An
exception that no row fits is a bug and is let through. What is our own fault (no descriptors, no
memory, no buffers) is no row either: it must not count against the host, so it becomes `Retriable`.
"""

import errno
import ssl

from aiohttp import (
    ClientConnectionError,
    ClientConnectorDNSError,
    ClientPayloadError,
    ClientSSLError,
    ServerDisconnectedError,
    ServerFingerprintMismatch,
)
from aiohttp.client_exceptions import ClientConnectorError
from aiohttp.http import HttpProcessingError

from frontlog.avro.enums import Reason
from frontlog.avro.errors import Retriable

DETAIL_CHARACTERS_MAX = 300
OWN_FAULTS = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS))

BY_ERRNO: dict[int, Reason] = {
    errno.ECONNREFUSED: Reason.CONNECTION_REFUSED,
    errno.ECONNRESET: Reason.CONNECTION_RESET,
    errno.ECONNABORTED: Reason.CONNECTION_RESET,
    errno.EPIPE: Reason.CONNECTION_RESET,
    errno.ESHUTDOWN: Reason.CONNECTION_RESET,
    errno.ENOTCONN: Reason.CONNECTION_RESET,
    errno.ETIMEDOUT: Reason.TIMEOUT,
    errno.ENETUNREACH: Reason.NO_ROUTE,
    errno.EHOSTUNREACH: Reason.NO_ROUTE,
    errno.ENETDOWN: Reason.NO_ROUTE,
    errno.EHOSTDOWN: Reason.NO_ROUTE,
    errno.EADDRNOTAVAIL: Reason.NO_ROUTE,
    errno.EAFNOSUPPORT: Reason.NO_ROUTE,
    errno.EINVAL: Reason.NO_ROUTE,  # connect to an address that the kernel will not route
    errno.EACCES: Reason.NO_ROUTE,  # broadcast, or a firewall of this machine
    errno.EPERM: Reason.NO_ROUTE,
}

BY_CLASS: tuple[tuple[type[BaseException], Reason], ...] = (
    (ClientConnectorDNSError, Reason.DNS_FAILED),
    (ClientSSLError, Reason.TLS_FAILED),
    (ssl.SSLError, Reason.TLS_FAILED),
    (ServerFingerprintMismatch, Reason.TLS_FAILED),
    (HttpProcessingError, Reason.PROTOCOL_ERROR),
    (ClientPayloadError, Reason.TRUNCATED),
    (TimeoutError, Reason.TIMEOUT),
    (ServerDisconnectedError, Reason.CONNECTION_RESET),
    (ConnectionRefusedError, Reason.CONNECTION_REFUSED),
    (ConnectionError, Reason.CONNECTION_RESET),
    (ClientConnectionError, Reason.CONNECTION_RESET),
    (OSError, Reason.CONNECTION_RESET),
)
EXPECTED: tuple[type[BaseException], ...] = tuple(dict.fromkeys(kind for kind, _ in BY_CLASS))


def reason_of(exc: BaseException) -> tuple[Reason, str]:
    """(reason, detail) of an exception that is in `EXPECTED`. Raises Retriable for our own faults."""
    number, cause = exc_errno(exc)
    if number in OWN_FAULTS:
        raise Retriable(f"this machine, not the host: {cause}") from exc
    detail = " ".join(f"{type(cause).__name__}: {cause}".split())[:DETAIL_CHARACTERS_MAX]
    for kind, reason in BY_CLASS:
        if isinstance(exc, kind):
            by_number = BY_ERRNO.get(number) if isinstance(exc, OSError) and number is not None else None
            if by_number is not None and reason is not Reason.TLS_FAILED:
                return by_number, detail
            return reason, detail
    raise AssertionError(f"no reason for {exc!r}") from exc


def exc_errno(exc: BaseException) -> tuple[int | None, BaseException]:
    """(errno or None, the exception that says most): aiohttp wraps the system's error in its own."""
    cause = exc.os_error if isinstance(exc, ClientConnectorError) else exc
    return (cause.errno if isinstance(cause, OSError) else None), cause
