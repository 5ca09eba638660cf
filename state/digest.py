"""The running digest of a table: the sum, modulo 2^128, of the XXH3-128 of its rows.

A row's hash covers its key's length, its key and its value, so that no two different rows look alike.
Adding and taking away commute; so the digest of a table depends on its rows alone, not on how they
came about, and a full recount (`recount`) must equal it. It finds faults, not forgers: against those
stands the log's SHA-256 chain.
"""

from collections.abc import Iterable, Sequence

import xxhash

DIGEST_BYTES = 16
_MODULUS = 1 << 128
_hash = xxhash.xxh3_128_intdigest
_LENGTHS = tuple(bytes((n,)) for n in range(0xFF))


def row_hash(key: bytes, value: bytes) -> int:
    """The hash of one row: of the key's length, the key and the value. Keys of 255 bytes and more (a policy's
    scope may be one) write the length as FF and two bytes, big endian."""
    length = len(key)
    if length < 0xFF:
        return _hash(_LENGTHS[length] + key + value)
    return _hash(b"\xff%b%b%b" % (length.to_bytes(2, "big"), key, value))


def _sum(rows: Sequence[tuple[bytes, bytes]]) -> int:
    total = 0
    for key, value in rows:
        length = len(key)
        total += _hash(_LENGTHS[length] + key + value) if length < 0xFF else row_hash(key, value)
    return total


class Digest:
    """Sum and number of the rows of one table."""

    __slots__ = ("rows", "total")

    def __init__(self, total: int = 0, rows: int = 0) -> None:
        self.total = total
        self.rows = rows

    def add(self, key: bytes, value: bytes) -> None:
        """A row came."""
        self.total += row_hash(key, value)
        self.rows += 1

    def remove(self, key: bytes, value: bytes) -> None:
        """A row went."""
        self.total -= row_hash(key, value)
        self.rows -= 1

    def add_all(self, rows: Sequence[tuple[bytes, bytes]]) -> None:
        """Rows came."""
        self.total += _sum(rows)
        self.rows += len(rows)

    def remove_all(self, rows: Sequence[tuple[bytes, bytes]]) -> None:
        """Rows went."""
        self.total -= _sum(rows)
        self.rows -= len(rows)

    def value(self) -> bytes:
        """The digest, 16 bytes."""
        self.total %= _MODULUS
        return self.total.to_bytes(DIGEST_BYTES, "big")

    def copy(self) -> "Digest":
        """One that moves apart from this one."""
        return Digest(self.total, self.rows)


def recount(rows: Iterable[tuple[bytes, bytes]]) -> Digest:
    """The digest of rows counted one by one."""
    digest = Digest()
    for key, value in rows:
        digest.add(key, value)
    return digest
