"""Keys of the tables, as bytes, ordered so that what is read together lies together.

    host_id    BLAKE2b-96 of the host name                                     12 bytes
    origin_id  host_id ‖ scheme (0 http, 1 https) ‖ port, big endian           15 bytes
    url_id     BLAKE2b-128 of the identity                                     16 bytes
    url key    origin_id ‖ url_id                                              31 bytes
    due key    origin_id ‖ class ‖ due, big endian ‖ url_id                    40 bytes
    ready key  next_eligible_at, big endian ‖ host_id                          20 bytes
    lease key  deadline, big endian ‖ kind (0 URL, 1 errand) ‖ url key or host_id

All origins of a host, and all URLs of an origin, are neighbours. Ids are hashes that nobody can make
collide on purpose; the rows hold the names, and a row under a foreign name is `Corrupt`.
"""

import struct
from functools import lru_cache
from hashlib import blake2b

HOST_ID_BYTES = 12
ORIGIN_ID_BYTES = 15
URL_ID_BYTES = 16
TIME_MAX = (1 << 63) - 1
LEASE_URL, LEASE_ERRAND = 0, 1
_DUE = struct.Struct(f">{ORIGIN_ID_BYTES}sBQ{URL_ID_BYTES}s")


@lru_cache(maxsize=65_536)
def split_origin_key(origin_key: str) -> tuple[str, str, int]:
    """(scheme, host, port) of `scheme://host:port`; the host of an IPv6 origin keeps its brackets."""
    scheme, _, rest = origin_key.partition("://")
    host, _, port = rest.rpartition(":")
    return scheme, host, int(port)


@lru_cache(maxsize=65_536)
def host_id(host: str) -> bytes:
    """Id of a host name."""
    return blake2b(host.encode(), digest_size=HOST_ID_BYTES).digest()


def origin_suffix(scheme: str, port: int) -> bytes:
    """The part of an origin_id behind its host_id, 3 bytes."""
    return (b"\x01" if scheme == "https" else b"\x00") + port.to_bytes(2, "big")


@lru_cache(maxsize=65_536)
def origin_id(origin_key: str) -> bytes:
    """Id of an origin."""
    scheme, host, port = split_origin_key(origin_key)
    return host_id(host) + origin_suffix(scheme, port)


def origin_key_of(suffix: bytes, host: str) -> str:
    """The origin_key of an origin_id's suffix and its host."""
    return f"{'https' if suffix[0] else 'http'}://{host}:{int.from_bytes(suffix[1:3], 'big')}"


def url_key(origin: bytes, identity: str) -> bytes:
    """Key of a URL in `urls`."""
    return origin + blake2b(identity.encode(), digest_size=URL_ID_BYTES).digest()


def due_key(url: bytes, priority: int, due_ms: int) -> bytes:
    """Key in `due` of a URL that waits."""
    return _DUE.pack(url, priority, due_ms, url[ORIGIN_ID_BYTES:])


def due_parts(key: bytes) -> tuple[int, int, bytes]:
    """(class, due_ms, url key) of a key in `due`."""
    at = ORIGIN_ID_BYTES
    return key[at], int.from_bytes(key[at + 1 : at + 9], "big"), key[:at] + key[at + 9 :]


def ready_key(next_ms: int, host: bytes) -> bytes:
    """Key in `ready` of a host whose turn comes at `next_ms`."""
    return next_ms.to_bytes(8, "big") + host


def lease_key(deadline_ms: int, kind: int, subject: bytes) -> bytes:
    """Key in `leases` of a URL (its url key) or an errand (its host_id)."""
    return deadline_ms.to_bytes(8, "big") + bytes((kind,)) + subject


def after(prefix: bytes) -> bytes | None:
    """The smallest key greater than every key with this prefix; None: there is none."""
    stripped = prefix.rstrip(b"\xff")
    return stripped[:-1] + bytes((stripped[-1] + 1,)) if stripped else None
