"""The demo site: a small varied web on loopback, served from the table in `frontlog/site/pages.toml`.

    with DemoSite() as site:
        crawl(site.seeds)          # http://127.0.0.1:PORT/ and so on
        site.requests              # who asked for what, when

Four hosts, each on an address of its own (127.0.0.1 to .4) and all on one port, so that politeness, which
is per host, can be seen. Where only 127.0.0.1 exists (macOS), three hosts share it on three ports, and the
fourth, which is closed for an hour, is left out. A host `x` stands for an address in hrefs as `{x}`.
"""

import socket
import sys
import threading
import time
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, NamedTuple, NoReturn, Self

from frontlog.demo_pages import answer, find, load_pages
from frontlog.errors import ConfigError

ADDRESSES = {"a": "127.0.0.1", "b": "127.0.0.2", "c": "127.0.0.3", "d": "127.0.0.4"}
SHARED = ("a", "b", "c")
ALLOW = "127.0.0.0/8"
_TRIES_MAX = 20


class Request(NamedTuple):
    """One request that came: monotonic time, host letter, path with query, status answered, user agent."""

    at_s: float
    host: str
    path: str
    status: int
    user_agent: str


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True

    def handle_error(self, request: socket.socket | tuple[bytes, socket.socket], client_address: Any) -> None:
        """A crawler that hangs up is no error; anything else is shown, as the class does."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class DemoSite:
    """The running site. `origins` has `http://ADDRESS:PORT` by host letter."""

    def __init__(self, port: int = 0, *, addresses: Mapping[str, str] | None = None) -> None:
        self._pages = load_pages()
        self._wanted = dict(addresses or ADDRESSES)
        self._port = port
        self._servers: dict[str, ThreadingHTTPServer] = {}
        self._lock = threading.Lock()
        self._asked: dict[str, int] = {}
        self.origins: dict[str, str] = {}
        self.requests: list[Request] = []

    @property
    def port(self) -> int:
        """The port of the first host."""
        return int(self.origins["a"].rpartition(":")[2])

    @property
    def seeds(self) -> tuple[str, ...]:
        """The front page of each host: all of it is within the scope of the crawl."""
        return tuple(f"{origin}/" for origin in self.origins.values())

    @property
    def unreached(self) -> set[str]:
        """Pages of the table that nobody asked for, as host and path."""
        with self._lock:
            asked = {f"{request.host}{request.path}" for request in self.requests}
        return {at for at in self._pages if at not in asked and at[0] in self.origins}

    def url(self, at: str) -> str:
        """The URL of a page: `a/about` is `http://127.0.0.1:PORT/about`."""
        return self.origins[at[0]] + at[1:]

    def __enter__(self) -> Self:
        self._servers = self._bind()
        self.origins = {
            name: f"http://{server.server_address[0]!s}:{server.server_address[1]}"
            for name, server in self._servers.items()
        }
        for name, server in self._servers.items():
            threading.Thread(
                target=server.serve_forever, args=(0.05,), daemon=True, name=f"demo-{name}"
            ).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for server in self._servers.values():
            server.shutdown()
            server.server_close()
        self._servers = {}

    def _bind(self) -> dict[str, ThreadingHTTPServer]:
        """All hosts on one free port (or the one that was asked for), or three on one address."""
        port = self._port
        return (
            self._together([(name, address, 0) for name, address in self._wanted.items()], port)
            or self._together([(name, self._wanted["a"], n) for n, name in enumerate(SHARED)], port)
            or self._refuse()
        )

    def _together(self, hosts: list[tuple[str, str, int]], port: int) -> dict[str, ThreadingHTTPServer]:
        """A server for each (name, address, offset of its port), or none at all."""
        for _ in range(1 if port else _TRIES_MAX):
            servers: dict[str, ThreadingHTTPServer] = {}
            base = port
            try:
                for name, address, offset in hosts:
                    servers[name] = self._server(name, address, base + offset)
                    base = base or int(servers[name].server_address[1])
                return servers
            except (OSError, OverflowError):  # in use, no such address here, or beyond 65535
                for server in servers.values():
                    server.server_close()
        return {}

    def _refuse(self) -> NoReturn:
        where = (
            f"port {self._port} of {self._wanted['a']}" if self._port else f"any port of {self._wanted['a']}"
        )
        raise ConfigError(
            f"the demo site cannot be served on {where}; stop what uses it, or choose a new folder with --out"
        )

    def _server(self, name: str, address: str, port: int) -> ThreadingHTTPServer:
        site = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            server_version = "frontlog-demo"
            timeout = 30
            wbufsize = -1  # head and body in one write: two would wait for each other (Nagle, delayed ACK)

            def do_GET(self) -> None:
                site.answer_to(name, self)

            do_HEAD = do_GET

            def log_message(self, format: str, *args: Any) -> None:
                """Nothing on stderr: `requests` has it."""

        server = _Server((address, port), Handler, bind_and_activate=False)
        try:
            server.server_bind()
            server.server_activate()
        except OSError:
            server.server_close()
            raise
        return server

    def answer_to(self, name: str, handler: BaseHTTPRequestHandler) -> None:
        """Answer one request and note it."""
        path, agent = handler.path, handler.headers.get("User-Agent", "")
        with self._lock:
            nth = self._asked[name + path] = self._asked.get(name + path, 0) + 1
        page = find(self._pages, name, path)
        given = answer(page, path, nth, self.origins)
        with self._lock:
            self.requests.append(Request(time.monotonic(), name, path, given.status, agent))
        if page is not None and page.delay_ms:
            time.sleep(page.delay_ms / 1_000)
        try:
            handler.send_response(given.status)
            for header, value in given.headers.items():
                handler.send_header(header, value)
            handler.send_header("Content-Length", str(len(given.body)))
            handler.end_headers()
            if handler.command != "HEAD":
                handler.wfile.write(given.body)
        except ConnectionError:
            handler.close_connection = True  # a crawler may hang up on what is too large
