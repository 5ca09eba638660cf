"""Which partition a name belongs to, worked out a second time: registrable domain, then Kafka's murmur2 (DESIGN §2).

Only the public suffix list is shared with `processors/sites.py`, in the version that the log has pinned.
"""

from functools import lru_cache

import publicsuffixlist

LIST_VERSION = f"publicsuffixlist {publicsuffixlist.__version__}"
_SEED, _MULTIPLY, _WORD = 0x9747B28C, 0x5BD1E995, 0xFFFFFFFF


@lru_cache(maxsize=1)
def _list() -> publicsuffixlist.PublicSuffixList:
    return publicsuffixlist.PublicSuffixList()


@lru_cache(maxsize=65_536)
def site_of(host: str) -> str:
    """The registrable domain of a host name; an address, or a name without one, is its own site."""
    labels = host.split(".")
    address = host.startswith("[") or (len(labels) == 4 and all(label.isdecimal() for label in labels))
    return host if address or not host else _list().privatesuffix(host) or host


@lru_cache(maxsize=65_536)
def host_of(origin_key: str) -> str:
    """The host of `scheme://host:port`."""
    return origin_key[origin_key.index("://") + 3 : origin_key.rindex(":")]


@lru_cache(maxsize=65_536)
def partition_of(host: str, partitions: int) -> int:
    """The frontier partition that owns a host."""
    return (_murmur2(site_of(host).encode()) & 0x7FFFFFFF) % partitions


def _murmur2(data: bytes) -> int:
    """Kafka's hash of record keys, 32 bits."""
    value = (_SEED ^ len(data)) & _WORD
    whole = len(data) - len(data) % 4
    for at in range(0, whole, 4):
        word = int.from_bytes(data[at : at + 4], "little") * _MULTIPLY & _WORD
        word = (word ^ (word >> 24)) * _MULTIPLY & _WORD
        value = (value * _MULTIPLY & _WORD) ^ word
    rest = data[whole:]
    if rest:
        value = (value ^ int.from_bytes(rest, "little")) * _MULTIPLY & _WORD
    value = (value ^ (value >> 13)) * _MULTIPLY & _WORD
    return value ^ (value >> 15)
