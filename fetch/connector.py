"""Connections that go to the judged address and nowhere else.

aiohttp is given the address itself as the host of the URL, so there is nothing to look up; the name is
given apart, as the TLS server name: SNI and the certificate check use it (RFC 6066 §3, RFC 9110 §4.3.4).
The pool's key is then (address, port, TLS or not, name): a kept connection is never used for another name
or address. `NoResolver` makes a look-up an error, should a later aiohttp attempt one.

What is used of aiohttp beneath its documented surface, each held by `tests/fetch/test_connector.py`:
`BaseConnector.connect`, `_factory`, `_release`, `_conns`, `_acquired`, `Connection`, and `ResponseHandler` as a base class.
In return nothing of `ClientSession` is there: no redirects, cookies, proxies, repeats, added headers or rewritten URLs.
"""

import asyncio
import select
import socket
import ssl
import time
from functools import lru_cache, partial
from ipaddress import ip_address
from typing import cast

from aiohttp import ClientPayloadError, ClientTimeout, StreamReader, TCPConnector
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.client_proto import ResponseHandler
from aiohttp.client_reqrep import ClientRequest, ConnectionKey
from aiohttp.connector import Connection
from aiohttp.http import RawResponseMessage
from yarl import URL

from frontlog.fetch.exchange import Exchange

STREAM_BYTES = 2**24  # far above what one read of a socket brings, so that the stream never pauses it
NO_TIMEOUT = ClientTimeout(total=None)  # the exchange has its own alarm, with three settings


class NoResolver(AbstractResolver):
    """Refuses every look-up: addresses are resolved and judged before a fetch, as logged inputs."""

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Never called: the host of each URL that aiohttp sees is an address."""
        raise OSError(None, f"no look-up of {host!r} is allowed here")

    async def close(self) -> None:
        """Nothing to close."""


class PinnedProtocol(ResponseHandler):
    """aiohttp's protocol with the exchange before its parser and behind it.

    What the parser makes of the body is passed on at once, so its stream never fills, never pauses the
    socket, and holds nothing when it breaks: a reader that waits inside a stream of aiohttp is not always
    woken by its failure.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        """A connection that has carried nothing yet."""
        super().__init__(loop)
        self.exchange: Exchange | None = None
        self.uses = 0
        self._peer_address: str | None = None
        self._poll: select.poll | None = None
        self._body: StreamReader | None = None

    def begin(self, exchange: Exchange) -> None:
        """Expect one answer."""
        self.exchange = exchange
        self.uses += 1
        self._body = None

    def _expect(self, exchange: Exchange) -> None:
        """Have aiohttp's parser read a body: not decoded, without its time limits, trailers bounded like heads."""
        bytes_max = exchange.limits.header_bytes_max
        self.set_response_params(
            read_until_eof=True,
            auto_decompress=False,
            read_bufsize=STREAM_BYTES,
            max_line_size=bytes_max,
            max_field_size=bytes_max,
        )

    def data_received(self, data: bytes) -> None:
        """Bytes from the socket. Empty ones are aiohttp asking a paused parser to go on; ours never pauses."""
        exchange = self.exchange
        if not data:
            return
        if exchange is None:  # nobody asked: an answer before its request would be taken for the next one's
            self.abort()
            return
        if exchange.ended.done():
            self.force_close()
            return
        if exchange.head is None:
            parts = exchange.receive(data)
            if parts is None:
                exchange.more()
                return
            framing, data = parts
            if framing:
                self._expect(exchange)
                # Apart from the body: a parser that fails at surplus bytes forgets a head of the same piece.
                super().data_received(framing)
        if exchange.left is not None:
            self._count(exchange, data, exchange.left)
        else:
            if data:
                super().data_received(data)
            self._collect(exchange)
        if not exchange.ended.done():
            exchange.more()

    def _count(self, exchange: Exchange, data: bytes, left: int) -> None:
        """Bytes of a body of which so many are left; more than these spoil the connection."""
        if len(data) > left:
            data = data[:left]
            self.force_close()
        exchange.left = left - len(data)
        if data:
            exchange.take(data)
        if not exchange.left:
            exchange.finish()

    def feed_data(self, data: tuple[RawResponseMessage, StreamReader], size: int = 0) -> None:
        """What aiohttp's parser found: the first is the answer, a second one spoils the connection."""
        if self._body is None:
            self._body = data[1]
        else:
            super().feed_data(data, size)

    def set_exception(self, exc: BaseException, exc_cause: BaseException | None = None) -> None:
        """The parser or the socket failed; what of the body came before is kept, and may be all of it."""
        if exc_cause is None:
            super().set_exception(exc)
        else:
            super().set_exception(exc, exc_cause)
        if self.exchange is not None:
            self._collect(self.exchange)
            self.exchange.fail((self._body and self._body.exception()) or exc)

    def connection_lost(self, exc: BaseException | None) -> None:
        """The socket is gone; for a body without a length that is its end."""
        if self.exchange is not None and self.exchange.left:
            self.exchange.fail(
                ClientPayloadError(f"{self.exchange.left} bytes of the body did not come: {exc}")
            )
        super().connection_lost(exc)
        if self.exchange is not None:
            self._collect(self.exchange)
            self.exchange.fail(exc or ConnectionResetError("closed"))

    def _collect(self, exchange: Exchange) -> None:
        body = self._body
        if body is None:
            return
        if body.exception() is None and (data := body.read_nowait()):
            exchange.take(data)
        if body.is_eof():
            exchange.finish()

    def close(self) -> None:
        """Close at once: nothing is left to send, and a peer's TLS good-bye is not worth a socket."""
        self.abort()

    def peer_address(self) -> str | None:
        """The address that the socket is connected to, asked of the kernel; None: it is closed. Of a connected socket that
        never changes, so it is asked once."""
        transport = self.transport
        if transport is None or transport.is_closing():
            return None
        if self._peer_address is None:
            sock = transport.get_extra_info("socket")
            try:
                self._peer_address = None if sock is None else str(sock.getpeername()[0])
            except OSError:
                return None
        return self._peer_address

    def stale(self) -> bool:
        """Whether an idle connection is closed, or holds bytes that nobody asked for."""
        transport = self.transport
        if transport is None or transport.is_closing():
            return True
        if self._poll is None:
            self._poll = select.poll()
            self._poll.register(transport.get_extra_info("socket").fileno(), select.POLLIN)
        return bool(self._poll.poll(0))


class Peer:
    """What aiohttp's connector reads of a request: where to connect, and under which name."""

    proxy = None  # never: the address that was judged is the one that is connected to
    ssl = True  # verified, by the connector's context
    _is_ssl: bool

    def __init__(self, scheme: str, host: str, port: int, address: str) -> None:
        """`host` without brackets; `address` without brackets too. Raises ValueError if it is none."""
        literal = f"[{address}]" if ip_address(address).version == 6 else address
        self.url = URL(f"{scheme}://{literal}:{port}/", encoded=True)
        self.host = host
        self.port = port
        self.server_hostname = host
        self._is_ssl = scheme == "https"
        self.bad_name = ""
        try:
            host.rstrip(".").encode("idna")  # as ssl does, but there a name that fails leaks the socket
        except UnicodeError as exc:
            self.bad_name = f"{host[:80]!r} is no TLS server name: {exc}"
        self.connection_key = ConnectionKey(address, port, self._is_ssl, True, None, None, None, host)

    def is_ssl(self) -> bool:
        """Whether the connection is TLS."""
        return self._is_ssl


@lru_cache(maxsize=4096)
def peer_of(scheme: str, host: str, port: int, address: str) -> Peer:
    """The peer of a request; `host` as in its URL."""
    return Peer(scheme, host.removeprefix("[").removesuffix("]"), port, address)


class PinnedConnector(TCPConnector):
    """A pool of connections to judged addresses, bounded in use and at rest."""

    def __init__(
        self, ssl_context: ssl.SSLContext, connections_max: int, idle_max: int, idle_ms: int
    ) -> None:
        """At most `connections_max` in use and `idle_max` at rest, each for at most `idle_ms`."""
        super().__init__(  # pyright: ignore[reportUnknownMemberType]
            resolver=NoResolver(),
            use_dns_cache=False,
            ssl=ssl_context,
            limit=connections_max,
            keepalive_timeout=idle_ms / 1000,
            happy_eyeballs_delay=None,
        )
        self._factory = cast("partial[ResponseHandler]", partial(PinnedProtocol, self._loop))
        self._idle_max = idle_max
        self._idle_s = idle_ms / 1_000

    def kept(self, peer: Peer) -> tuple[Connection, PinnedProtocol] | None:
        """A kept connection that is still good, if there is one: what aiohttp does in two coroutines."""
        key = peer.connection_key
        while (resting := self._conns.get(key)) is not None:
            protocol, since_s = resting.popleft()
            if not resting:
                del self._conns[key]
            assert isinstance(protocol, PinnedProtocol)
            if time.monotonic() - since_s <= self._idle_s and not protocol.stale():
                self._acquired.add(protocol)
                return Connection(self, key, protocol, self._loop), protocol
            protocol.close()
        return None

    async def connect_to(self, peer: Peer) -> tuple[Connection, PinnedProtocol]:
        """A kept connection that is still good, or a new one. Raises what aiohttp raises."""
        if peer.bad_name and peer.is_ssl():
            raise ssl.SSLError(peer.bad_name)
        while True:
            connection = await self.connect(cast(ClientRequest, peer), [], NO_TIMEOUT)
            protocol = connection.protocol
            assert isinstance(protocol, PinnedProtocol)
            if not protocol.uses or not protocol.stale():
                return connection, protocol
            connection.close()

    @property
    def idle(self) -> int:
        """How many (address, name) pairs have a connection at rest."""
        return len(self._conns)

    def _release(self, key: ConnectionKey, protocol: ResponseHandler, *, should_close: bool = False) -> None:
        super()._release(key, protocol, should_close=should_close)
        while len(self._conns) > self._idle_max:  # the one that has rested longest goes first
            for resting, _ in self._conns.pop(next(iter(self._conns))):
                resting.close()
