"""The head of a shard: how far its log has been decided and folded. Row 'head' of `meta`, outside the digests.

The head follows from the log as the tables do, but it changes with every batch and holds the digests
themselves, so it is compared field by field, not by digest.
"""

import msgspec

from frontlog.avro.errors import Corrupt
from frontlog.state.catalogue import DIGESTED, META
from frontlog.state.digest import Digest
from frontlog.state.store import Txn

KEY = b"head"
GENESIS = bytes(32)


class Head(msgspec.Struct, frozen=True):
    """`seq`: last decision folded; `positions`: next offset of each input topic; `next`: next offset of each
    decision topic; `digests`: table → (16 bytes, rows)."""

    seq: int = 0
    owner_token: int = 0
    at_ms: int = 0
    log_hash: bytes = GENESIS
    fold_version: int = 1
    partitions: int = 0
    psl_version: str = ""
    positions: dict[str, int] = {}
    next: dict[str, int] = {}
    digests: dict[str, tuple[bytes, int]] = {}

    def table_digests(self) -> dict[str, Digest]:
        """A moving copy of the digests, one for every digested table."""
        found = {name: Digest() for name in DIGESTED}
        for name, (total, rows) in self.digests.items():
            found[name] = Digest(int.from_bytes(total, "big"), rows)
        return found


def load(txn: Txn) -> Head:
    """The head that a store holds; a new one for an empty store."""
    data = txn.get(META.name, KEY)
    if data is None:
        return Head()
    try:
        return msgspec.msgpack.decode(data, type=Head)
    except msgspec.MsgspecError as exc:
        raise Corrupt(
            f"the head row of the tables cannot be read ({exc}); rebuild: frontlog replay rebuild"
        ) from exc


def save(txn: Txn, head: Head) -> bytes:
    """Write the head; its bytes."""
    data = msgspec.msgpack.encode(head, order="deterministic")
    txn.put(META.name, KEY, data)
    return data
