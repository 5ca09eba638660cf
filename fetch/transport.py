"""The transport: one GET to one judged address, under every limit, with everything kept that came.

It follows no redirect, keeps no cookie, uses no proxy, looks up no name and repeats nothing: each of
these is a decision of the frontier, with an event and a slot of its own. What is sent is built here, byte
for byte, from the spelling that is to be requested; what is received is kept as it came.

The order of a fetch, and what ends it:

    step            its limits                     what a breach gives
    connect         connect_ms, total_ms           FetchFailed: timeout, connection_refused, tls_failed, ...
    first byte      first_byte_ms, total_ms        FetchFailed: timeout, connection_reset
    head            header_bytes_max, total_ms     FetchFailed: header_oversize, protocol_error, timeout
    type            types (2xx answers)            FetchFailed: bad_type, with the head
    body            body_bytes_max, total_ms       FetchResponse: truncated by length, time or disconnect
    decoding        decoded_bytes_max              FetchResponse: oversize, truncated, decode_failed

A caller holds at most one fetch per host at a time; connections are kept for the next one.
"""

import asyncio
import re
import ssl
from collections.abc import Callable
from types import TracebackType
from typing import Self

from aiohttp.connector import Connection

from frontlog.avro.errors import Retriable
from frontlog.fetch.connector import Peer, PinnedConnector, PinnedProtocol, peer_of
from frontlog.fetch.deadlines import Deadlines
from frontlog.fetch.ending import Ending
from frontlog.fetch.exchange import Exchange, Phase
from frontlog.fetch.failures import EXPECTED
from frontlog.fetch.http_types import FetchRequest, FetchResponse, Limits, header_lines

AUTHORITY_AND_TARGET = re.compile(r"(https?)://([^/?#]*)([^#]*)")
TARGET = re.compile(r"[!-~]*")
DEFAULT_PORTS = {"http": 80, "https": 443}


def default_ssl_context() -> ssl.SSLContext:
    """Certificates verified against this machine's roots and the host's name; HTTP/1.1 only."""
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    return context


class Transport:
    """Fetches. Made inside a running loop, used by its tasks, closed at the end (`async with`)."""

    def __init__(
        self,
        *,
        ssl_context: Callable[[], ssl.SSLContext] = default_ssl_context,
        connections_max: int = 512,
        idle_max: int = 512,
        idle_ms: int = 15_000,
    ) -> None:
        """At most `connections_max` sockets in use, and `idle_max` kept for `idle_ms` for a next request."""
        self._closed = False
        self._deadlines = Deadlines()
        self._connector = PinnedConnector(ssl_context(), connections_max, idle_max, idle_ms)

    async def __aenter__(self) -> Self:
        """Give itself."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        await self.close()

    async def close(self) -> None:
        """Close every connection. Fetches under way raise Retriable: no host is to blame."""
        self._closed = True
        await self._connector.close()

    async def fetch(self, request: FetchRequest, limits: Limits) -> FetchResponse:
        """Fetch once. Raises FetchFailed; Retriable when this machine is at its limits, or stopping.

        ValueError: the request itself is malformed (address, target, header), which is the caller's bug.
        """
        sending = request_bytes(request)
        peer = peer_of(request.scheme, request.host, request.port, request.address)
        exchange = Exchange(asyncio.get_running_loop(), limits, request.started_ms, self._deadlines)
        ending = Ending()
        try:
            await self._ask(exchange, peer, request.address, sending, ending)
        except EXPECTED as exc:
            if self._closed:
                raise Retriable("the transport was closed") from exc
            ending.explain(exchange, exc)
        finally:
            exchange.stop()
        return ending.response(exchange, sending)

    async def _ask(
        self, exchange: Exchange, peer: Peer, address: str, sending: bytes, ending: Ending
    ) -> None:
        """Connect, send, read; the connection is given back or closed however it ends."""
        connection, protocol = self._connector.kept(peer) or await self._connected(exchange, peer)
        ending.reused = protocol.uses > 0
        exchange.connect_s = 0.0 if ending.reused else exchange.loop.time() - exchange.started_s
        keep = False
        try:
            ending.check_peer(exchange, protocol.peer_address(), address)
            transport = protocol.transport
            if transport is None or exchange.failure is not None:
                raise ConnectionResetError("closed before the request")
            protocol.begin(exchange)
            transport.write(sending)
            exchange.sent()
            await exchange.ended
            if exchange.broken is not None or exchange.head is None:
                raise exchange.broken or ConnectionResetError("no head that can be used")
            keep = exchange.keep and exchange.phase is Phase.DONE
        finally:
            protocol.exchange = None
            if keep and exchange.failure is None:
                connection.release()
            else:
                protocol.abort()
                connection.close()

    async def _connected(self, exchange: Exchange, peer: Peer) -> tuple[Connection, PinnedProtocol]:
        """A connection, or TimeoutError when the exchange rings before there is one."""
        async with asyncio.timeout(None) as exchange.alarm:
            found = await self._connector.connect_to(peer)
        exchange.alarm = None
        if exchange.rang:  # in the instant in which it was made
            found[1].abort()
            found[0].close()
            raise TimeoutError("a deadline passed")
        return found


def request_bytes(request: FetchRequest) -> bytes:
    """The request as sent: target as in the URL, byte for byte, then Host, then the caller's headers."""
    parts = AUTHORITY_AND_TARGET.match(request.url)
    host = request.host if request.port == DEFAULT_PORTS[request.scheme] else f"{request.host}:{request.port}"
    if parts is None or parts[1] != request.scheme or parts[2] != host:
        raise ValueError(f"{request.url!r} is not a URL of {request.scheme}://{host}")
    target = parts[3] if parts[3].startswith("/") else f"/{parts[3]}"
    if not TARGET.fullmatch(target):
        raise ValueError(f"{request.url!r} is not a WHATWG href")
    line = f"{request.method} {target} HTTP/1.1\r\nHost: {host}\r\n".encode("ascii")
    return line + header_lines(request.headers) + b"\r\n"
