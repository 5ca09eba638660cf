"""The synthetic web of `../shared/bench/synthweb`: built, started, stopped, and its log read.

    web = Web(hosts=300, pages=200)
    with Server(web, folder) as server:      # free ports, ended by its pid
        server.warm()                        # so that compressing pages isn't in the figures
        log = server.rotate("crawl")
        ...
        judged = report(server.settled(log))

Its sources are read only and may lie anywhere: beside the repository, or where FRONTLOG_SYNTHWEB says. The program is
built in a temporary copy and kept in a cache outside the tree (FRONTLOG_BENCH_CACHE, else ~/.cache/frontlog-bench).

The server counts, not the crawler: what a page is, when it was asked for, how close two requests to a host were.
"""

import functools
import hashlib
import itertools
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.parse
import urllib.request
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Self

ROOT = Path(__file__).resolve().parent.parent
PORT_FIRST = 18_080
FLUSH_S = 1.2
"""The server writes its log once a second."""
WARM_AT_ONCE = 4


class Missing(Exception):
    """The synthetic web can't be had here; the text says what is missing."""


def sources() -> Path:
    """The folder of the Go sources. Raises Missing."""
    named = os.environ.get("FRONTLOG_SYNTHWEB", "")
    folder = Path(named) if named else ROOT.parent / "shared" / "bench" / "synthweb"
    if not (folder / "go.mod").is_file():
        raise Missing(
            f"no sources of the synthetic web in {folder}: put them there, or name their folder in FRONTLOG_SYNTHWEB"
        )
    return folder


def cache() -> Path:
    """Where built programs and environments of other crawlers are kept."""
    named = os.environ.get("FRONTLOG_BENCH_CACHE", "")
    base = Path(os.environ.get("XDG_CACHE_HOME", "") or Path.home() / ".cache")
    folder = Path(named) if named else base / "frontlog-bench"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@functools.cache
def binary() -> Path:
    """The built program, from the cache where its sources didn't change. Raises Missing."""
    return build_go(sources(), "synthweb")


def build_go(folder: Path, name: str) -> Path:
    """Build a Go program of read-only sources. Raises Missing, with what the compiler said."""
    go = shutil.which("go")
    if go is None:
        raise Missing(f"{name} is a Go program and `go` is not on the PATH: install Go 1.26 or newer")
    version = subprocess.run([go, "version"], capture_output=True, text=True, check=True).stdout
    digest = hashlib.sha256(version.encode())
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    built = cache() / f"{name}-{digest.hexdigest()[:16]}"
    if built.exists():
        return built
    with tempfile.TemporaryDirectory(prefix="frontlog-go-") as temporary:
        copy = Path(temporary) / name
        shutil.copytree(folder, copy, copy_function=shutil.copyfile)
        out = Path(temporary) / "program"
        command = [go, "build", "-buildvcs=false", "-o", str(out), "."]
        done = subprocess.run(command, cwd=copy, capture_output=True, text=True)
        if done.returncode != 0:
            raise Missing(f"{name} does not build with {version.strip()}:\n{done.stdout}{done.stderr}")
        part = built.with_suffix(f".{os.getpid()}")
        shutil.move(out, part)
        part.replace(built)
    return built


@dataclass(frozen=True)
class Web:
    """What determines the web. `more`: flags of `synthweb serve -h`; a host is an address of its own."""

    hosts: int = 300
    pages: int = 200
    more: tuple[str, ...] = ()
    port: int = PORT_FIRST

    def flags(self) -> list[str]:
        """The flags that every command of synthweb needs alike."""
        web = ["-hosts", str(self.hosts), "-pages", str(self.pages), "-port", str(self.port)]
        return [*web, "-authority", "ip", *self.more]

    def seeds(self) -> list[str]:
        """The home page of each host."""
        return _said("seeds", *self.flags()).split()

    def truth(self) -> list[str]:
        """The URL of every page, in the order of hosts and pages."""
        return [line.split("\t")[2] for line in _said("truth", *self.flags()).splitlines()[1:]]

    def allowed(self) -> int:
        """How many pages no robots.txt forbids."""
        return sum(line.endswith("\tfalse") for line in _said("truth", *self.flags()).splitlines()[1:])


def _said(command: str, *flags: str) -> str:
    return subprocess.run([str(binary()), command, *flags], capture_output=True, text=True, check=True).stdout


def free_port(first: int, address: str) -> int:
    """The first port from `first` on that nobody listens on, below the range of outgoing connections."""
    for port in range(first, 32_000, 2):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((address, port))
            except OSError:
                continue
            return port
    raise Missing(f"no port is free on {address} from {first} on")


class Server:
    """A running server. `web` is the one that was asked for, on the port that was free; its log lies in `folder`."""

    def __init__(self, web: Web, folder: Path, *, prefix: tuple[str, ...] = (), procs: int = 0) -> None:
        self.web = Web(web.hosts, web.pages, web.more, free_port(web.port, "127.1.0.1"))
        self.control_port = free_port(self.web.port - 1, "127.0.0.1")
        self._folder = folder
        self._control = f"http://127.0.0.1:{self.control_port}"
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        command = [*prefix, str(binary()), "serve", "-log", str(folder / "web.log"), *self.web.flags()]
        command += ["-ctl", f"127.0.0.1:{self.control_port}", *(["-procs", str(procs)] if procs else [])]
        with (folder / "web.err").open("wb") as errors:
            self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=errors)
        self.pid = self._process.pid
        self._wait(folder / "web.err")

    def _wait(self, errors: Path) -> None:
        """Until it answers."""
        end = time.monotonic() + 30
        while time.monotonic() < end:
            if self._process.poll() is not None:
                raise Missing(f"synthweb ended at once: {errors.read_text(encoding='utf-8')}")
            try:
                self.stats()
                return
            except OSError:
                time.sleep(0.05)
        self.stop()
        raise Missing("synthweb does not answer on its control port")

    def _get(self, path: str) -> bytes:
        with self._opener.open(self._control + path, timeout=30) as answer:
            data: bytes = answer.read()
        return data

    def stats(self) -> dict[str, Any]:
        """What the server counted since its log was last rotated; `cpu_s` is of its whole life."""
        found: dict[str, Any] = json.loads(self._get("/stats"))
        return found

    def rotate(self, name: str) -> Path:
        """Begin a new log and count anew; where the log lies."""
        path = (self._folder / f"{name}.log").resolve()
        self._get("/rotate?log=" + urllib.parse.quote(str(path)))
        return path

    def settled(self, log: Path) -> Path:
        """The log, once everything that was answered by now is in it."""
        time.sleep(FLUSH_S)
        return log

    def warm(self) -> None:
        """Let the server compress every page once, so that its own cost is the same for whoever crawls."""
        by_host: dict[str, list[str]] = {}
        for url in self.web.truth():
            _, _, authority, target = url.split("/", 3)
            by_host.setdefault(authority, []).append("/" + target)
        with ThreadPoolExecutor(WARM_AT_ONCE) as pool:
            list(pool.map(_heads, by_host, by_host.values()))

    def stop(self) -> None:
        """End the process."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()


def _heads(authority: str, targets: list[str], at_once: int = 32) -> None:
    """HEAD requests, pipelined: the server compresses all the same, and sends nothing. Hosts that don't compress
    are left after the first page; those that close each connection get one for each page."""
    host, _, port = authority.partition(":")
    step = 1
    at = 0
    while at < len(targets):
        with socket.create_connection((host, int(port)), 10) as connection:
            connection.settimeout(30)
            closing = False
            while at < len(targets) and not closing:
                batch = targets[at : at + step]
                ask = "".join(
                    f"HEAD {t} HTTP/1.1\r\nHost: {authority}\r\nAccept-Encoding: gzip\r\nUser-Agent: warm\r\n\r\n"
                    for t in batch
                )
                connection.sendall(ask.encode())
                said = _read_heads(connection, len(batch))
                if b"content-encoding: gzip" not in said.lower():
                    return
                closing = b"connection: close" in said.lower()
                at += len(batch)
                step = 1 if closing else at_once


def _read_heads(connection: socket.socket, count: int) -> bytes:
    said = b""
    while said.count(b"\r\n\r\n") < count:
        data = connection.recv(65_536)
        if not data:
            raise Missing("synthweb closed a connection while it was warmed up")
        said += data
    return said


class Visit(NamedTuple):
    """One request in the server's log. Times are ns since the epoch: request read, answer handed to the kernel.
    `status` 0: the server dropped the connection."""

    start_ns: int
    end_ns: int
    host: int
    status: int
    kind: str
    size_bytes: int
    target: str


def visits(log: Path) -> Iterator[Visit]:
    """The requests of a log, in the order in which they ended."""
    with log.open(encoding="utf-8") as lines:
        for line in lines:
            if not line.startswith("#"):
                p = line.rstrip("\n").split(",", 8)
                yield Visit(int(p[0]), int(p[1]), int(p[2]), int(p[4]), p[5], int(p[6]), p[8])


class Window(NamedTuple):
    """Page answers of a log: how many, and seconds from the first one's request to the last one's answer. `ends_ns`:
    when each was handed to the kernel, in order."""

    pages: int
    span_s: float
    ends_ns: list[int]


def window(log: Path) -> Window:
    """A page is one 200 answer with a full page of the synthetic web."""
    found = [(v.start_ns, v.end_ns) for v in visits(log) if v.kind == "page" and v.status == 200]
    if not found:
        return Window(0, 0.0, [])
    ends = sorted(end for _, end in found)
    return Window(len(found), (ends[-1] - min(start for start, _ in found)) / 1e9, ends)


class Courtesy(NamedTuple):
    """How a host was treated, by the server's own record. `gap_ms`: end of an answer to the next request;
    `start_ms`: between two starts; the smallest of each. `in_flight`: the most at once."""

    host: int
    requests: int
    gap_ms: float
    start_ms: float
    in_flight: int


def courtesies(found: Iterable[Visit]) -> list[Courtesy]:
    """Every host that was asked more than once, the least politely treated first."""
    by_host: dict[int, list[Visit]] = {}
    for visit in found:
        by_host.setdefault(visit.host, []).append(visit)
    several = [_courtesy(host, sorted(group)) for host, group in by_host.items() if len(group) > 1]
    return sorted(several, key=lambda c: (c.start_ms, c.host))


def _courtesy(host: int, group: list[Visit]) -> Courtesy:
    gap = start = 1 << 62
    end = group[0].end_ns
    for before, visit in itertools.pairwise(group):
        start = min(start, visit.start_ns - before.start_ns)
        gap = min(gap, max(0, visit.start_ns - end))
        end = max(end, visit.end_ns)
    edges = sorted([(v.start_ns, 1) for v in group] + [(v.end_ns, -1) for v in group])
    now = most = 0
    for _, step in edges:
        now += step
        most = max(most, now)
    return Courtesy(host, len(group), gap / 1e6, start / 1e6, most)


class Report(NamedTuple):
    """What `synthweb report` says of a log. Gaps in ms, end of an answer to the next request."""

    requests: int
    pages_distinct: int
    same_url_again: int
    robots_hosts: int
    before_robots: int
    disallowed: int
    gap_ms_min: float
    gap_ms_median: float
    overlapping_hosts: int
    text: str


_LINES = re.compile(
    r"requests (?P<requests>\d+) .*?"
    r"pages: (?P<distinct>\d+) of \d+ distinct fetched; same URL again (?P<again>\d+) times.*?"
    r"robots.txt: asked on (?P<robots>\d+) of \d+ hosts; (?P<early>\d+) requests before .*?; (?P<bad>\d+) disallowed.*?"
    r"politeness by host: .*? min (?P<gap>-?[\d.]+) ms, median (?P<median>-?[\d.]+) ms, "
    r".*?more than one in flight on (?P<over>\d+),",
    re.DOTALL,
)


def report(log: Path) -> Report:
    """Have synthweb judge a log."""
    text = _said("report", "-log", str(log))
    found = _LINES.search(text)
    if found is None:
        raise Missing(f"synthweb's report has another form than expected:\n{text}")
    n = found.groupdict()
    return Report(
        int(n["requests"]), int(n["distinct"]), int(n["again"]), int(n["robots"]), int(n["early"]), int(n["bad"]),
        float(n["gap"]), float(n["median"]), int(n["over"]), text,
    )  # fmt: skip
