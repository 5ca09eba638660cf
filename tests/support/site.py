"""A small web on loopback that notes who asked for what and when, by its own clock.

    with Site(hosts=2) as site:
        site.put(0, "/", links("/a", site.url(1)))
        ...
        site.asked(0)          # requests of host 0, in order

Host `n` is the address 127.0.0.(n + 1); all have one port. A request begins when its head was read and ends right
before its answer is written: the crawler can have seen no byte of it by then, so a gap measured here is never longer
than the one that was kept, however busy the machine.
"""

import socket
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from types import TracebackType
from typing import Any, NamedTuple, Self

ALLOW = "127.0.0.0/8"


class Answer(NamedTuple):
    """What a server says. `delay_s` passes between the request and the answer."""

    body: bytes = b""
    status: int = 200
    type: str = "text/html"
    headers: tuple[tuple[str, str], ...] = ()
    delay_s: float = 0.0


@dataclass
class Asked:
    """One request; `ended_s` is 0 while it is under way. Times are monotonic."""

    host: int
    path: str
    headers: dict[str, str]
    nth: int
    began_s: float
    ended_s: float = 0.0
    status: int = 0


Script = Callable[[Asked], Answer]


def page(title: str, hrefs: Iterable[str] = (), text: str = "") -> Answer:
    """A page with links."""
    anchors = "".join(f'<p><a href="{href}">to {n}</a></p>' for n, href in enumerate(hrefs))
    body = f"<!doctype html><html lang=en><title>{title}</title><p>{text or f'This is {title}.'}</p>{anchors}"
    return Answer(body.encode())


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 64

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Crawlers that are killed hang up; whatever else is wrong shows as a missing answer."""


@dataclass
class Site:
    """The running servers. A path that is not in `pages` is a 404; `/robots.txt`, too, unless it was put."""

    hosts: int = 1
    pages: dict[tuple[int, str], Answer | Script] = field(
        default_factory=dict[tuple[int, str], Answer | Script]
    )
    requests: list[Asked] = field(default_factory=list[Asked])
    port: int = 0

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._servers: list[_Server] = []
        self._counts: dict[tuple[int, str], int] = {}

    # --- what is served ---------------------------------------------------------------------------------------

    def put(self, host: int, path: str, answer: Answer | Script) -> None:
        self.pages[host, path] = answer

    def robots(self, host: int, text: str) -> None:
        self.put(host, "/robots.txt", Answer(text.encode(), type="text/plain"))

    def origin(self, host: int = 0) -> str:
        return f"http://{self.address(host)}:{self.port}"

    def url(self, host: int = 0, path: str = "/") -> str:
        return self.origin(host) + path

    def address(self, host: int = 0) -> str:
        return f"127.0.0.{host + 1}"

    # --- what was asked ---------------------------------------------------------------------------------------

    def asked(self, host: int | None = None, path: str | None = None) -> list[Asked]:
        with self._lock:
            return [
                one for one in self.requests
                if (host is None or one.host == host) and (path is None or one.path == path)
            ]  # fmt: skip

    def paths(self, host: int | None = None) -> list[str]:
        """Paths that were asked for, robots.txt left out."""
        return [one.path for one in self.asked(host) if one.path != "/robots.txt"]

    def await_requests(self, more: int, *, seconds: float = 30) -> None:
        """Wait until so many more requests have come."""
        wanted, end = len(self.asked()) + more, time.monotonic() + seconds
        while len(self.asked()) < wanted:
            assert time.monotonic() < end, f"{more} more requests did not come in {seconds} s"
            time.sleep(0.002)

    def gaps_s(self, host: int) -> list[float]:
        """From the end of each request of a host to the beginning of the next; negative: they overlapped."""
        asked = self.asked(host)
        return [later.began_s - one.ended_s for one, later in pairwise(asked)]

    # --- life -------------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        for _ in range(20):
            try:
                self._bind()
                break
            except OSError:
                self._close()
                self.port = 0
        assert self._servers, "no port is free on all addresses"
        for server in self._servers:
            threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        for server in self._servers:
            server.shutdown()
        self._close()

    def _bind(self) -> None:
        for host in range(self.hosts):
            server = _Server((self.address(host), self.port), _handler(self, host))
            self._servers.append(server)
            self.port = int(server.server_address[1])

    def _close(self) -> None:
        for server in self._servers:
            server.server_close()
        self._servers = []

    def begin(self, host: int, path: str, headers: dict[str, str]) -> tuple[Asked, Answer]:
        with self._lock:
            nth = self._counts[host, path] = self._counts.get((host, path), 0) + 1
            asked = Asked(host, path, headers, nth, time.monotonic())
            self.requests.append(asked)
            answer = self.pages.get((host, path), Answer(b"no such page", 404))
        return asked, answer if isinstance(answer, Answer) else answer(asked)

    def end(self, asked: Asked, status: int) -> None:
        with self._lock:
            asked.status = status
            asked.ended_s = time.monotonic()


def _handler(site: Site, host: int) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 30
        wbufsize = -1

        def do_GET(self) -> None:
            asked, answer = site.begin(host, self.path, {k.lower(): v for k, v in self.headers.items()})
            if answer.delay_s:
                time.sleep(answer.delay_s)
            self.send_response(answer.status)
            for name, value in (("Content-Type", answer.type), *answer.headers):
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(answer.body)))
            self.end_headers()
            self.wfile.write(answer.body)
            site.end(asked, answer.status)
            self.wfile.flush()

        def log_message(self, format: str, *args: Any) -> None:
            """`requests` has it."""

    return Handler


class Counting:
    """A listening socket that counts who connects and says nothing: for those who must not come."""

    def __init__(self, address: str = "127.0.0.1") -> None:
        self._socket = socket.create_server((address, 0))
        self._socket.setblocking(False)
        self.port = int(self._socket.getsockname()[1])
        self._held: list[socket.socket] = []

    @property
    def connections(self) -> int:
        while True:
            try:
                self._held.append(self._socket.accept()[0])
            except BlockingIOError:
                return len(self._held)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        for one in (*self._held, self._socket):
            one.close()


def fill(site: Site, pages: int, *, hosts: Sequence[int] | None = None, fan: int = 3) -> set[str]:
    """Give each host a front page and `pages` more that link to each other, every host to the next one; the URLs of
    all pages, each of which can be reached from any front page."""
    numbers = list(hosts if hosts is not None else range(site.hosts))
    for at, host in enumerate(numbers):
        following = numbers[(at + 1) % len(numbers)]
        site.put(host, "/", page(f"home {host}", ["/1", site.url(following)]))
        for n in range(1, pages + 1):
            onward = [f"/{m}" for m in range(n * fan - fan + 2, n * fan + 2) if m <= pages]
            site.put(host, f"/{n}", page(f"page {n} of {host}", [*onward, f"/{n % pages + 1}", "/"]))
    return {
        site.url(host, path) for host in numbers for path in ("/", *(f"/{n}" for n in range(1, pages + 1)))
    }
