"""Errands: requests of a host that are no URLs of the frontier (look-ups, robots.txt, probes), as bytes in rows.

A host has one errand under way at most, in its row. Robots hops that other origins want of a host wait in the
table `errands`, one for each asking origin, so that a second wish replaces the first.
"""

from hashlib import blake2b

import msgspec

from frontlog.avro.enums import FetchKind
from frontlog.avro.events import Errand

HOPS_MAX = 5
"""Redirects of a robots.txt that are followed (RFC 9309 §2.3.1.2)."""


def pack(errand: Errand | None) -> bytes:
    """The errand as row bytes (msgpack array in field order); empty for none."""
    if errand is None:
        return b""
    fields = msgspec.structs.astuple(errand)
    return msgspec.msgpack.encode([str(fields[0]), *fields[1:]])


def unpack(data: bytes) -> Errand | None:
    """The errand of row bytes."""
    if not data:
        return None
    kind, url, origin_key, asker, chain, fence, deadline_ms, owner = msgspec.msgpack.decode(data)
    return Errand(
        kind=_KINDS[kind], url=url, origin_key=origin_key, asker=asker, chain=tuple(chain),
        fence=fence, deadline_ms=deadline_ms, owner=owner,
    )  # fmt: skip


def wanted_key(host: bytes, origin_key: str) -> bytes:
    """Key in `errands` of what an origin wants of a host."""
    return host + blake2b(origin_key.encode(), digest_size=12).digest()


_KINDS = {kind.value: kind for kind in FetchKind}
