"""The synthetic web of `../shared/bench/synthweb`: built, started, stopped.

    web = Web(hosts=300, pages=200)
    with Server(web, folder) as server:      # free ports, ended by its pid
        server.warm()                        # so that compressing pages isn't in the figures
        log = server.rotate("crawl")
        ...
        judged = weblog.report(server.settled(log))

Its sources are read only and may lie anywhere: beside the repository, or where FRONTLOG_SYNTHWEB says. The program is
built in a temporary copy and kept in a cache outside the tree (FRONTLOG_BENCH_CACHE, else ~/.cache/frontlog-bench).

Its log is read in `bench/weblog.py`.
"""

import contextlib
import fcntl
import functools
import hashlib
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.parse
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Self

ROOT = Path(__file__).resolve().parent.parent
PORT_FIRST = 18_080
PORT_LAST = 32_000
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
        return said("seeds", *self.flags()).split()

    def truth(self) -> list[str]:
        """The URL of every page, in the order of hosts and pages."""
        return [line.split("\t")[2] for line in said("truth", *self.flags()).splitlines()[1:]]

    def allowed(self) -> int:
        """How many pages no robots.txt forbids."""
        return sum(line.endswith("\tfalse") for line in said("truth", *self.flags()).splitlines()[1:])


def said(command: str, *flags: str) -> str:
    """What a command of synthweb prints."""
    return subprocess.run([str(binary()), command, *flags], capture_output=True, text=True, check=True).stdout


def free_port(first: int) -> tuple[int, IO[bytes]]:
    """The first port from `first` on that nobody has on the web's first address, with the one below it free for the
    control; below the range of outgoing connections. The open file keeps other users of this module away from both."""
    for port in range(first, PORT_LAST, 2):
        lock = (cache() / f"port-{port}.lock").open("wb")
        with contextlib.suppress(OSError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _probe("127.1.0.1", port)
            _probe("127.0.0.1", port - 1)
            return port, lock
        lock.close()
    raise Missing(f"no port is free from {first} on")


def _probe(address: str, port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind((address, port))


class Server:
    """A running server. `web` is the one that was asked for, on the port that was free; its log lies in `folder`."""

    def __init__(self, web: Web, folder: Path, *, prefix: tuple[str, ...] = (), procs: int = 0) -> None:
        self._folder = folder
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        port, self._lock = free_port(web.port)
        self.web = Web(web.hosts, web.pages, web.more, port)
        self._control = f"127.0.0.1:{port - 1}"
        self._process = self._start(prefix, procs)
        try:
            self._wait()
        except BaseException:
            self.stop()
            raise

    def _start(self, prefix: tuple[str, ...], procs: int) -> subprocess.Popen[bytes]:
        command = [*prefix, str(binary()), "serve", "-log", str(self._folder / "web.log"), *self.web.flags()]
        command += ["-ctl", self._control, *(["-procs", str(procs)] if procs else [])]
        with (self._folder / "web.err").open("wb") as errors:
            return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=errors)

    def _wait(self) -> None:
        """Until it answers. Raises Missing."""
        end = time.monotonic() + 30
        while time.monotonic() < end:
            if self._process.poll() is not None:
                said = (self._folder / "web.err").read_text(encoding="utf-8")
                raise Missing(f"synthweb ended at once: {said}")
            with contextlib.suppress(OSError):
                self.stats()
                return
            time.sleep(0.05)
        raise Missing("synthweb does not answer on its control port")

    def _get(self, path: str) -> bytes:
        with self._opener.open(f"http://{self._control}{path}", timeout=30) as answer:
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
        self._lock.close()

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
