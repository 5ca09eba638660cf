"""Origins, hosts and sites of URLs, and the partition that owns a site (DESIGN §2).

Three names for where a URL lives, from narrow to wide:

- origin_key `scheme://host:port`, the port always written: the key of every record;
- host, ASCII, IPv6 literals in brackets: the unit of politeness;
- site, the registrable domain by the public suffix list with its private section: the unit of ownership.
  An IP literal and a name without a registrable domain (`localhost`, `co.uk`) are their own site.

The partition is chosen from the site with murmur2 as Kafka's Java client computes it, so that Kafka's own
tools agree with us. The version of the list and the number of partitions are pinned in the log: changing
either moves sites, which is a migration.
"""

import re
from functools import cache, lru_cache

import publicsuffixlist

PSL_VERSION = f"publicsuffixlist {publicsuffixlist.__version__}"
"""The list that sites are cut with; another version may cut other sites."""

DEFAULT_PORTS = {"http": "80", "https": "443"}
SITES_CACHED_MAX = 65_536
_MASK = 0xFFFFFFFF
_AUTHORITY = re.compile(r"[^/?#]+")


@cache
def _suffixes() -> publicsuffixlist.PublicSuffixList:
    """The list, parsed on first use: it takes 0.1 s, which most commands don't need."""
    return publicsuffixlist.PublicSuffixList()


def split_origin(href: str) -> tuple[str, str]:
    """(origin_key, host) of an absolute WHATWG href with a host.

    User information is not part of an origin. Raises ValueError for an href without an authority, or of a
    scheme that has no default port and states none.
    """
    scheme, separator, rest = href.partition("://")
    if not separator:
        raise ValueError(f"no authority in {href[:100]!r}")
    authority = _AUTHORITY.match(rest)
    host, port = split_port(authority[0].rpartition("@")[2] if authority else "")
    port = port or DEFAULT_PORTS.get(scheme, "")
    if not host or not port:
        raise ValueError(f"no host or port in {href[:100]!r}")
    return f"{scheme}://{host}:{port}", host


def split_port(authority: str) -> tuple[str, str]:
    """(host, port or "") of `host[:port]`; the colons of an IPv6 literal stand inside its brackets."""
    host, separator, port = authority.rpartition(":")
    return (host, port) if separator and not port.endswith("]") else (authority, "")


def is_ip_literal(host: str) -> bool:
    """Whether a host of a WHATWG href is an address: IPv6 has brackets, IPv4 four decimal numbers."""
    return host[:1] == "[" or host.replace(".", "").isdecimal()


@lru_cache(maxsize=SITES_CACHED_MAX)
def site_of(host: str) -> str:
    """Registrable domain of an ASCII host name, or the host itself where there is none."""
    if not host or is_ip_literal(host):
        return host
    return _suffixes().privatesuffix(host) or host


@lru_cache(maxsize=SITES_CACHED_MAX)
def partition_of(site: str, partitions: int) -> int:
    """Partition of a site among `partitions`, numbered from 0."""
    return (murmur2(site.encode()) & 0x7FFFFFFF) % partitions


def murmur2(data: bytes) -> int:
    """Unsigned 32-bit MurmurHash2 with Kafka's seed (`Utils.murmur2` of its Java client)."""
    m = 0x5BD1E995
    h = (0x9747B28C ^ len(data)) & _MASK
    whole = len(data) & ~3
    for i in range(0, whole, 4):
        k = int.from_bytes(data[i : i + 4], "little") * m & _MASK
        h = (h * m & _MASK) ^ ((k ^ k >> 24) * m & _MASK)
    if whole < len(data):
        h = (h ^ int.from_bytes(data[whole:], "little")) * m & _MASK
    h = (h ^ h >> 13) * m & _MASK
    return h ^ h >> 15
