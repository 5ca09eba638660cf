"""A raw loopback server that does to its clients what the web does: nothing it sends is checked by anybody.

    async with Server(answers(b"HTTP/1.1 200 OK\\r\\n...")) as server:
        ...  # server.port, server.requests, server.connections

A script is a coroutine function that gets the `Line` to one client; it reads requests, sends bytes, waits,
resets. When it returns, the connection is closed. What it does not do: speak HTTP.
"""

import asyncio
import os
import socket
import ssl
import struct
import tempfile
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

DATA = Path(__file__).parents[1] / "fetch" / "data"


class Line:
    """One connection, as the server's side sees it."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, requests: list[bytes]
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._requests = requests

    async def request(self) -> bytes:
        """The next request's head, or nothing when the client has gone."""
        try:
            head = await self._reader.readuntil(b"\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError):
            return b""
        self._requests.append(head)
        return head

    async def send(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def drip(self, data: bytes, gap_s: float, step_bytes: int = 1) -> None:
        """Send bit by bit."""
        for at in range(0, len(data), step_bytes):
            await self.send(data[at : at + step_bytes])
            await asyncio.sleep(gap_s)

    async def hang(self) -> None:
        """Say nothing more, until the client has had enough."""
        with suppress(ConnectionError):
            await self._reader.read()

    async def gone(self, within_s: float = 2) -> bool:
        """Whether the client closes within the time."""
        try:
            async with asyncio.timeout(within_s):
                await self.hang()
        except TimeoutError:
            return False
        return True

    def reset(self) -> None:
        """Close with a TCP reset instead of a FIN."""
        sock = self._writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()

    def end(self) -> None:
        """Send a FIN at once, by a system call, before anybody's event loop runs again."""
        with socket.socket(fileno=os.dup(self._writer.get_extra_info("socket").fileno())) as sock:
            sock.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self._writer.close()


Script = Callable[[Line], Awaitable[None]]


def answers(*replies: bytes) -> Script:
    """Each request gets the next of the replies, and the connection is closed after the last."""

    async def script(line: Line) -> None:
        for reply in replies:
            if not await line.request():
                return
            await line.send(reply)

    return script


def always(reply: bytes) -> Script:
    """Every request gets the same reply, on a connection that stays open."""

    async def script(line: Line) -> None:
        while await line.request():
            await line.send(reply)

    return script


def page(body: bytes = b"<p>hello</p>", *lines: bytes, status: bytes = b"200 OK") -> bytes:
    """A well-behaved answer."""
    head = (b"HTTP/1.1 " + status, b"Content-Type: text/html", *lines, b"Content-Length: %d" % len(body))
    return b"\r\n".join(head) + b"\r\n\r\n" + body


def chunked(body: bytes, *lines: bytes, step_bytes: int = 7) -> bytes:
    """A well-behaved answer in chunks."""
    head = (b"HTTP/1.1 200 OK", b"Content-Type: text/html", *lines, b"Transfer-Encoding: chunked")
    parts = (body[at : at + step_bytes] for at in range(0, len(body), step_bytes))
    return (
        b"\r\n".join(head)
        + b"\r\n\r\n"
        + b"".join(b"%x\r\n%s\r\n" % (len(p), p) for p in parts)
        + b"0\r\n\r\n"
    )


class Server:
    """Runs a script for every connection to a loopback address."""

    def __init__(
        self, script: Script, *, address: str = "127.0.0.1", port: int = 0, tls: ssl.SSLContext | None = None
    ) -> None:
        self.address = address
        self.port = port
        self.requests: list[bytes] = []
        self.connections = 0
        self._script = script
        self._tls = tls
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, self.address, self.port, ssl=self._tls)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.get_running_loop().create_task(self._run(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._script(Line(reader, writer, self.requests))
            writer.close()
            await writer.wait_closed()
        except (ConnectionError, ssl.SSLError):  # the client has had enough
            pass
        finally:
            writer.transport.abort()


def server_tls(name: str = "site") -> ssl.SSLContext:
    """A server's context with one of the leaves of `tests/fetch/data`."""
    label = "PRIVATE KEY"
    key = ssl.DER_cert_to_PEM_cert((DATA / f"{name}.key.der").read_bytes()).replace("CERTIFICATE", label)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:
        file.write((DATA / f"{name}.pem").read_text() + key)
        file.flush()
        context.load_cert_chain(file.name)
    return context


def client_tls() -> ssl.SSLContext:
    """A client's context that trusts the root of `tests/fetch/data` and nothing else."""
    return ssl.create_default_context(cafile=str(DATA / "ca.pem"))
