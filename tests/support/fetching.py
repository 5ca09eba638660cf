"""One fetch of the transport against a script of `support/misbehaving.py`."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable

import pytest

from frontlog.fetch.http_types import FetchFailed, FetchRequest, FetchResponse, Headers, Limits
from frontlog.fetch.transport import Transport
from support.misbehaving import Script, Server, client_tls

QUICK = Limits(connect_ms=2_000, first_byte_ms=2_000, total_ms=4_000, header_bytes_max=20_000)
BRIEF = Limits(connect_ms=2_000, first_byte_ms=150, total_ms=400)


def ask(
    server: Server, path: str = "/", *, host: str = "site.test", scheme: str = "http", headers: Headers = ()
) -> FetchRequest:
    assert scheme in ("http", "https")
    return FetchRequest(
        url=f"{scheme}://{host}:{server.port}{path}",
        scheme="https" if scheme == "https" else "http",
        host=host,
        port=server.port,
        address=server.address,
        headers=headers,
        started_ms=1_000_000,
    )


def run(
    script: Script, use: Callable[[Server, Transport], Awaitable[None]], tls: ssl.SSLContext | None = None
) -> None:
    """Run a coroutine with a server that follows the script and a transport that trusts its certificates."""

    async def main() -> None:
        async with Server(script, tls=tls) as server, Transport(ssl_context=client_tls) as transport:
            await use(server, transport)

    asyncio.run(main())


def get(script: Script, limits: Limits = QUICK, path: str = "/") -> FetchResponse:
    """Fetch once; raises what the fetch raises."""
    found: list[FetchResponse] = []

    async def use(server: Server, transport: Transport) -> None:
        found.append(await transport.fetch(ask(server, path), limits))

    run(script, use)
    return found[0]


def fail(script: Script, limits: Limits = QUICK) -> FetchFailed:
    with pytest.raises(FetchFailed) as failed:
        get(script, limits)
    return failed.value
