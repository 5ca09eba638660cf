"""One pipeline with everything real but the parser processes and the shards: what it emits is kept here, in order."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

from msgspec.structs import replace

from frontlog.avro.codec import decode
from frontlog.avro.enums import FetchKind
from frontlog.avro.events import Candidate, Discovery, Event, FetchResult
from frontlog.fetch.addresses import parse_networks
from frontlog.fetch.archive_writer import ArchiveWriter
from frontlog.fetch.files import Files, MemoryFiles
from frontlog.fetch.http_types import Limits
from frontlog.fetch.parse_job import Job, Parsed, parse
from frontlog.fetch.parser_pool import ParserPool
from frontlog.fetch.pipeline import Pipeline, Rules
from frontlog.fetch.resolver import Resolver
from frontlog.fetch.transport import Transport
from frontlog.processors.leased import Lease
from support.misbehaving import Script, Server, client_tls
from support.site import ALLOW
from support.warcs import opened

E = TypeVar("E", bound=Event)
NOW_MS = 1_796_083_200_000
LEASE_MS = 90_000
LINKED = b'<title>T</title><p>some words <a href="/next">next</a> <a href="https://other.example/">other</a>'
"""A page with two links."""
LIMITS = Limits(
    connect_ms=2_000, first_byte_ms=2_000, total_ms=4_000, body_bytes_max=1_000_000, decoded_bytes_max=2_000_000,
    types=("text/html", "text/plain", "application/xhtml+xml"),
)  # fmt: skip


@dataclass
class Emitted:
    """Where the pipeline's events go. `hold` makes each call wait until it is let go; `fail` raises in a kind of call."""

    events: list[Event] = field(default_factory=list[Event])
    partitions: list[int] = field(default_factory=list[int])
    hold: bool = False
    fail: dict[type[Event], Exception] = field(default_factory=dict[type[Event], Exception])
    offered: asyncio.Event = field(default_factory=asyncio.Event)
    durable: asyncio.Event = field(default_factory=asyncio.Event)

    async def content(self, key: str, event: Candidate) -> None:
        assert key == event.text_sha256.hex()
        await self._take([event])

    async def discoveries(self, found: list[tuple[int, str, bytes]]) -> None:
        events = [cast("Discovery", decode(value)) for _, _, value in found]
        assert [key for _, key, _ in found] == [event.origin_key for event in events]
        self.partitions += [partition for partition, _, _ in found]
        await self._take(events)

    async def result(self, partition: int, key: str, event: Event) -> None:
        await self._take([event])

    async def _take(self, events: list[Discovery] | list[Candidate] | list[Event]) -> None:
        for event in events:
            error = self.fail.get(type(event))
            if error is not None:
                raise error
        self.events += events
        if events and self.hold:
            self.offered.set()
            self.durable.clear()
            await self.durable.wait()

    async def step(self) -> list[str]:
        """Let the emission that waits become durable, wait for the next one, and say which were offered by then."""
        self.durable.set()
        self.offered.clear()
        async with asyncio.timeout(5):
            await self.offered.wait()
        return self.kinds

    @property
    def kinds(self) -> list[str]:
        return [type(event).__name__ for event in self.events]

    def of(self, kind: type[E]) -> list[E]:
        return [event for event in self.events if isinstance(event, kind)]


class Parsers:
    """Parses here; `error` is raised instead, `wait` is waited for before."""

    def __init__(self) -> None:
        self.error: Exception | None = None
        self.wait: asyncio.Event | None = None
        self.jobs: list[Job] = []

    async def parse(self, job: Job) -> Parsed:
        self.jobs.append(job)
        if self.wait is not None:
            await self.wait.wait()
        if self.error is not None:
            raise self.error
        return parse(job)


class Rig:
    """What a test of the pipeline works with."""

    def __init__(
        self,
        server: Server,
        transport: Transport,
        archive: ArchiveWriter,
        files: Files,
        limits: Limits,
        allow: str,
    ) -> None:
        self.server = server
        self.files = files
        self.now_ms = NOW_MS
        self.emitted = Emitted()
        self.parsers = Parsers()
        self.transport = transport
        rules = Rules(
            "crawl",
            "Mozilla/5.0 (compatible; frontlog/1)",
            limits,
            parse_networks((allow,) if allow else ()),
            4,
        )
        self.resolver = Resolver(
            {"two.test": ("127.0.0.1", "127.0.0.2"), "mixed.test": ("127.0.0.1", "10.0.0.1")}
        )
        self.pipeline = Pipeline(
            rules,
            lambda: self.now_ms,
            transport,
            self.resolver,
            archive,
            cast("ParserPool", self.parsers),
            self.emitted,
        )

    def lease(self, path: str = "/", kind: FetchKind = FetchKind.PAGE, **changes: Any) -> Lease:
        origin = f"http://{self.server.address}:{self.server.port}"
        lease = Lease(
            kind=kind, partition=2, origin_key=origin, host=self.server.address, url=origin + path, requested=origin + path,
            address=self.server.address, fence=7, owner_token=3, deadline_ms=self.now_ms + LEASE_MS, depth=1, asker=2,
            token="frontlog",
        )  # fmt: skip
        return replace(lease, **changes)

    def robots(self, **changes: Any) -> Lease:
        return self.lease("/robots.txt", FetchKind.ROBOTS, **changes)

    async def page(self, path: str = "/", kind: FetchKind = FetchKind.PAGE, **changes: Any) -> FetchResult:
        return await self.pipeline.carry_out(self.lease(path, kind, **changes))


def run(
    script: Script,
    use: Callable[[Rig], Awaitable[None]],
    *,
    files: Files | None = None,
    limits: Limits = LIMITS,
    allow: str = ALLOW,
) -> None:
    """Run a test's coroutine with a pipeline and a server that does what the script says."""
    files = MemoryFiles() if files is None else files

    async def main() -> None:
        archive = ArchiveWriter(opened(files))
        archive.start()
        try:
            async with Server(script) as server, Transport(ssl_context=client_tls) as transport:
                await use(Rig(server, transport, archive, files, limits, allow))
        finally:
            await asyncio.to_thread(archive.close)

    asyncio.run(main())


def one(
    script: Script, lease: Callable[[Rig], Awaitable[FetchResult]] | None = None, **how: object
) -> tuple[FetchResult, Rig]:
    """The result of one lease, which is the last thing that was emitted."""
    found: list[tuple[FetchResult, Rig]] = []

    async def use(rig: Rig) -> None:
        result = await (rig.page() if lease is None else lease(rig))
        assert rig.emitted.events[-1] is result
        found.append((result, rig))

    run(script, use, **how)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    return found[0]
