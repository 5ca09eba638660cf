"""The pool beneath the transport, and what of aiohttp it stands on.

The names of aiohttp that are not documented are each used here on purpose: a release that moves one fails
in this file first.
"""

import asyncio
import socket

import pytest
from aiohttp import TCPConnector
from aiohttp.client_proto import ResponseHandler

from frontlog.fetch.connector import NoResolver, PinnedConnector, PinnedProtocol, peer_of
from support.misbehaving import Line, Server, client_tls


async def idle(line: Line) -> None:
    await line.hang()


@pytest.mark.parametrize("name", ["connect", "_release", "_create_connection"])
def test_the_connector_has_what_is_used(name: str) -> None:
    assert callable(getattr(TCPConnector, name))


@pytest.mark.parametrize(
    "name",
    [
        "data_received",
        "connection_lost",
        "set_exception",
        "set_response_params",
        "feed_data",
        "force_close",
        "read",
        "abort",
        "close",
    ],
)
def test_the_protocol_has_what_is_used(name: str) -> None:
    assert callable(getattr(ResponseHandler, name))


@pytest.mark.parametrize(
    ("host", "address", "url"),
    [
        ("site.test", "192.0.2.1", "https://192.0.2.1:8443/"),
        ("site.test", "2001:db8::1", "https://[2001:db8::1]:8443/"),
        ("[2001:db8::1]", "2001:db8::1", "https://[2001:db8::1]:8443/"),
    ],
)
def test_peers_carry_the_address_and_the_name_apart(host: str, address: str, url: str) -> None:
    peer = peer_of("https", host, 8443, address)
    assert str(peer.url) == url
    assert peer.server_hostname == host.strip("[]")
    assert peer.connection_key.host == address
    assert peer.connection_key.server_hostname == peer.server_hostname
    assert peer.is_ssl()
    assert not peer_of("http", host, 8443, address).is_ssl()


@pytest.mark.parametrize(
    "address", ["site.test", "127.1", "2130706433", "0x7f.0.0.1", "127.0.0.1:80", "", "[::1]"]
)
def test_only_addresses_are_connected_to(address: str) -> None:
    with pytest.raises(ValueError, match="address"):
        peer_of("http", "site.test", 80, address)


def test_a_look_up_is_an_error() -> None:
    with pytest.raises(OSError, match="no look-up"):
        asyncio.run(NoResolver().resolve("site.test", 80, socket.AF_INET))


def test_connections_are_ours_and_the_pool_lets_the_oldest_go() -> None:
    async def main() -> None:
        async with Server(idle) as server:
            connector = PinnedConnector(client_tls(), connections_max=9, idle_max=2, idle_ms=1_000)
            protocols: list[PinnedProtocol] = []
            for host in ("a.test", "b.test", "c.test", "a.test"):
                peer = peer_of("http", host, server.port, "127.0.0.1")
                connection, protocol = await connector.connect_to(peer)
                assert protocol.peer_address() == "127.0.0.1"
                assert not protocol.stale()
                assert protocol not in protocols
                protocols.append(protocol)
                connection.release()
            assert connector.idle == 2
            assert [p.is_connected() for p in protocols] == [False, False, True, True]
            assert [p.peer_address() for p in protocols] == [None, None, "127.0.0.1", "127.0.0.1"]
            assert protocols[0].stale()
            await connector.close()
            assert not any(p.is_connected() for p in protocols)

    asyncio.run(main())


def test_nothing_is_kept_when_nothing_may_be() -> None:
    async def main() -> None:
        async with Server(idle) as server:
            connector = PinnedConnector(client_tls(), connections_max=9, idle_max=0, idle_ms=1_000)
            connection, protocol = await connector.connect_to(
                peer_of("http", "a.test", server.port, "127.0.0.1")
            )
            connection.release()
            assert (connector.idle, protocol.is_connected()) == (0, False)
            await connector.close()

    asyncio.run(main())
