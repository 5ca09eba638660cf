"""Which address blocks are not the public web: one row a block, with its source.

The rows follow the two IANA registries of special-purpose IPv4 and IPv6 addresses (RFC 6890, RFC 8190; as
of August 2026), the IPv6 address architecture (RFC 4291) and the multicast registries. The most specific row
that holds an address speaks for it, as the registries say ("unless allowed by a more specific allocation").

How a row came to its answer:
- `Globally Reachable` False, N/A or terminated in the registry: refused.
- `Globally Reachable` True: public, so it stands here only as an exception to a wider row. Two rows differ on
  purpose: ORCHIDv2 and DRIP addresses are identifiers without a place ("non-routable", RFC 7343 section 1;
  RFC 9374), so nothing that answers there can be a web site.
- IPv6 is closed by default: what no row names is reserved (RFC 4291 section 4), and only 2000::/3 is open. A
  block that IANA gives a special purpose outside 2000::/3 is refused before this file knows of it.
- Addresses on which clouds serve credentials or host agents are rows of their own, so that a refusal says so,
  and because one of them (168.63.129.16) sits among public ones.

Blocks that carry an IPv4 address inside (6to4, Teredo and others) have a row for what the block itself is;
what is inside is the business of `addresses.py`, and so are the two transparent blocks ::ffff:0:0/96 and
64:ff9b::/96, which have no row.

Not here: unassigned parts of 2000::/3 (they become public without notice), the former 6bone 3ffe::/16 (RFC
3701 gave it back for reuse), IPv4 space that a network uses as private although it belongs to somebody else,
and translation prefixes that a network chose for itself (RFC 6052 section 2.2): no table can know those.
"""

from enum import StrEnum
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import NamedTuple

Network = IPv4Network | IPv6Network


class AddressReason(StrEnum):
    """Why an address is refused; closed, and each member's `doc` says what it means.

    Not a `Documented` of `avro/enums.py`, since those are exactly the vocabularies that event fields have; in
    an event this is the detail of the reason `blocked_network`.
    """

    doc: str

    def __new__(cls, value: str, doc: str) -> "AddressReason":
        """Build a member from its wire name and its sentence."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.doc = doc
        return member

    LOOPBACK = "loopback", "the machine itself"
    PRIVATE = "private", "private use inside a network (RFC 1918)"
    SHARED = "shared", "shared address space behind a carrier's NAT (RFC 6598)"
    LINK_LOCAL = "link_local", "valid on one link only"
    UNIQUE_LOCAL = "unique_local", "IPv6 private use (RFC 4193)"
    SITE_LOCAL = "site_local", "IPv6 private use of old, deprecated (RFC 3879)"
    METADATA = "metadata", "a cloud's metadata, credential, resolver or host agent service"
    UNSPECIFIED = "unspecified", "the all-zero address, which many systems take for themselves"
    THIS_NETWORK = "this_network", "a host on this network (RFC 791 section 3.2)"
    BROADCAST = "broadcast", "limited broadcast (RFC 919)"
    MULTICAST = "multicast", "a group, not a host"
    RESERVED = "reserved", "no purpose assigned, or none that a host can have"
    PROTOCOL = "protocol", "assigned to an IETF protocol, not to a host"
    DOCUMENTATION = "documentation", "for examples in texts"
    BENCHMARKING = "benchmarking", "for tests of network equipment (RFC 2544, RFC 5180)"
    DISCARD = "discard", "what is sent there is thrown away or never sent (RFC 6666, RFC 7600, RFC 9780)"
    ORCHID = "orchid", "an identifier without a place (RFC 7343, RFC 9374)"
    SEGMENT_ROUTING = "segment_routing", "segment routing inside one domain (RFC 9602)"
    DEPRECATED = "deprecated", "its purpose was withdrawn"
    IPV4_COMPATIBLE = (
        "ipv4_compatible",
        "an IPv4 address in a deprecated IPv6 form (RFC 4291 section 2.5.5.1)",
    )
    IPV4_TRANSLATED = "ipv4_translated", "an IPv4 address in a form for stateless translators (RFC 2765)"
    SIX_TO_FOUR = "six_to_four", "a tunnel to the IPv4 address inside (RFC 3056)"
    TEREDO = "teredo", "a tunnel to the IPv4 address inside (RFC 4380)"
    ISATAP = "isatap", "a tunnel inside a site to the IPv4 address inside (RFC 5214)"
    NAT64_LOCAL = "nat64_local", "translation that a network defines for itself (RFC 8215)"
    SCOPED = "scoped", "names an interface of this machine (RFC 4007)"
    NOT_AN_ADDRESS = "not_an_address", "not the one strict spelling of an address"
    NO_ADDRESS = "no_address", "there was no address to judge"


class Range(NamedTuple):
    """A block: `reason` is None where it is public; `base` and `mask` are integers of the block's family."""

    network: str
    reason: AddressReason | None
    base: int
    mask: int
    name: str
    source: str


_Row = tuple[str, AddressReason | None, str, str]
_R = AddressReason

_IPV4_ROWS: tuple[_Row, ...] = (
    ("0.0.0.0/0", None, "unicast", "RFC 791"),
    ("0.0.0.0/8", _R.THIS_NETWORK, "this network", "RFC 791 section 3.2"),
    ("0.0.0.0/32", _R.UNSPECIFIED, "this host on this network", "RFC 1122 section 3.2.1.3"),
    ("10.0.0.0/8", _R.PRIVATE, "private use", "RFC 1918"),
    ("100.64.0.0/10", _R.SHARED, "shared address space", "RFC 6598"),
    ("127.0.0.0/8", _R.LOOPBACK, "loopback", "RFC 1122 section 3.2.1.3"),
    ("169.254.0.0/16", _R.LINK_LOCAL, "link local", "RFC 3927"),
    ("172.16.0.0/12", _R.PRIVATE, "private use", "RFC 1918"),
    ("192.0.0.0/24", _R.PROTOCOL, "IETF protocol assignments", "RFC 6890 section 2.1"),
    ("192.0.0.0/29", _R.PROTOCOL, "IPv4 service continuity prefix", "RFC 7335"),
    ("192.0.0.8/32", _R.DISCARD, "IPv4 dummy address", "RFC 7600"),
    ("192.0.0.9/32", None, "port control protocol anycast", "RFC 7723"),
    ("192.0.0.10/32", None, "TURN anycast", "RFC 8155"),
    ("192.0.0.170/32", _R.PROTOCOL, "NAT64 and DNS64 discovery", "RFC 8880, RFC 7050 section 2.2"),
    ("192.0.0.171/32", _R.PROTOCOL, "NAT64 and DNS64 discovery", "RFC 8880, RFC 7050 section 2.2"),
    ("192.0.2.0/24", _R.DOCUMENTATION, "TEST-NET-1", "RFC 5737"),
    ("192.31.196.0/24", None, "AS112-v4", "RFC 7535"),
    ("192.52.193.0/24", None, "AMT", "RFC 7450"),
    ("192.88.99.0/24", _R.DEPRECATED, "6to4 relay anycast", "RFC 7526"),
    ("192.88.99.2/32", _R.DEPRECATED, "6a44 relay anycast", "RFC 6751"),
    ("192.168.0.0/16", _R.PRIVATE, "private use", "RFC 1918"),
    ("192.175.48.0/24", None, "direct delegation AS112", "RFC 7534"),
    ("198.18.0.0/15", _R.BENCHMARKING, "benchmarking", "RFC 2544"),
    ("198.51.100.0/24", _R.DOCUMENTATION, "TEST-NET-2", "RFC 5737"),
    ("203.0.113.0/24", _R.DOCUMENTATION, "TEST-NET-3", "RFC 5737"),
    ("224.0.0.0/4", _R.MULTICAST, "multicast", "RFC 5771"),
    ("240.0.0.0/4", _R.RESERVED, "reserved", "RFC 1112 section 4"),
    ("255.255.255.255/32", _R.BROADCAST, "limited broadcast", "RFC 919 section 7"),
    # Clouds; the sources are the providers' own manuals.
    ("100.96.0.96/32", _R.METADATA, "instance metadata", "Volcano Engine"),
    ("100.100.100.200/32", _R.METADATA, "instance metadata", "Alibaba Cloud"),
    ("168.63.129.16/32", _R.METADATA, "wire server, resolver, health probes", "Azure"),
    ("169.254.0.23/32", _R.METADATA, "instance metadata", "Tencent Cloud"),
    ("169.254.10.10/32", _R.METADATA, "instance metadata", "Tencent Cloud"),
    ("169.254.42.42/32", _R.METADATA, "instance metadata", "Scaleway"),
    ("169.254.169.123/32", _R.METADATA, "time service", "AWS"),
    ("169.254.169.253/32", _R.METADATA, "resolver", "AWS"),
    (
        "169.254.169.254/32",
        _R.METADATA,
        "instance metadata",
        "AWS, Azure, Google Cloud, OpenStack and others",
    ),
    ("169.254.170.2/32", _R.METADATA, "task credentials", "AWS ECS"),
    ("169.254.170.23/32", _R.METADATA, "pod identity", "AWS EKS"),
    ("192.0.0.192/32", _R.METADATA, "instance metadata", "Oracle Cloud Classic"),
)

_IPV6_ROWS: tuple[_Row, ...] = (
    ("::/0", _R.RESERVED, "not assigned", "RFC 4291 section 4"),
    ("2000::/3", None, "global unicast", "RFC 4291 section 2.4"),
    ("::/128", _R.UNSPECIFIED, "unspecified", "RFC 4291 section 2.5.2"),
    ("::1/128", _R.LOOPBACK, "loopback", "RFC 4291 section 2.5.3"),
    ("::/96", _R.IPV4_COMPATIBLE, "IPv4-compatible", "RFC 4291 section 2.5.5.1"),
    ("::ffff:0:0:0/96", _R.IPV4_TRANSLATED, "IPv4-translated", "RFC 2765 section 2.1"),
    ("64:ff9b:1::/48", _R.NAT64_LOCAL, "local-use translation", "RFC 8215"),
    ("100::/64", _R.DISCARD, "discard only", "RFC 6666"),
    ("100:0:0:1::/64", _R.DISCARD, "dummy prefix", "RFC 9780"),
    ("200::/7", _R.DEPRECATED, "NSAP addresses", "RFC 4048"),
    ("2001::/23", _R.PROTOCOL, "IETF protocol assignments", "RFC 2928"),
    ("2001::/32", _R.TEREDO, "Teredo", "RFC 4380"),
    ("2001:1::1/128", None, "port control protocol anycast", "RFC 7723"),
    ("2001:1::2/128", None, "TURN anycast", "RFC 8155"),
    ("2001:1::3/128", None, "DNS-SD service registration anycast", "RFC 9665"),
    ("2001:2::/48", _R.BENCHMARKING, "benchmarking", "RFC 5180, erratum 1752"),
    ("2001:3::/32", None, "AMT", "RFC 7450"),
    ("2001:4:112::/48", None, "AS112-v6", "RFC 7535"),
    ("2001:10::/28", _R.ORCHID, "ORCHID, ended in 2014", "RFC 4843"),
    ("2001:20::/28", _R.ORCHID, "ORCHIDv2", "RFC 7343"),
    ("2001:30::/28", _R.ORCHID, "drone remote identity", "RFC 9374"),
    ("2001:db8::/32", _R.DOCUMENTATION, "documentation", "RFC 3849"),
    ("2002::/16", _R.SIX_TO_FOUR, "6to4", "RFC 3056"),
    ("2620:4f:8000::/48", None, "direct delegation AS112", "RFC 7534"),
    ("3fff::/20", _R.DOCUMENTATION, "documentation", "RFC 9637"),
    ("5f00::/16", _R.SEGMENT_ROUTING, "segment routing identifiers", "RFC 9602"),
    ("fc00::/7", _R.UNIQUE_LOCAL, "unique local", "RFC 4193"),
    ("fe80::/10", _R.LINK_LOCAL, "link local", "RFC 4291 section 2.5.6"),
    ("fec0::/10", _R.SITE_LOCAL, "site local", "RFC 3879"),
    ("ff00::/8", _R.MULTICAST, "multicast", "RFC 4291 section 2.7"),
    ("fd00:42::42/128", _R.METADATA, "instance metadata", "Scaleway"),
    ("fd00:100::100:200/128", _R.METADATA, "instance metadata", "Alibaba Cloud"),
    ("fd00:a9fe:a9fe::1/128", _R.METADATA, "instance metadata", "Linode"),
    ("fd00:c1::a9fe:a9fe/128", _R.METADATA, "instance metadata", "Oracle Cloud"),
    ("fd00:ec2::/32", _R.METADATA, "metadata, pod identity, resolver, time", "AWS"),
    ("fd20:ce::254/128", _R.METADATA, "instance metadata", "Google Cloud"),
    ("fe80::a9fe:a9fe/128", _R.METADATA, "instance metadata", "OpenStack"),
)


def _compile(rows: tuple[_Row, ...]) -> tuple[Range, ...]:
    """Turn rows into ranges, the most specific first, so that the first match is the answer."""
    ranges: list[Range] = []
    for text, reason, name, source in rows:
        network = ip_network(text)
        ranges.append(
            Range(text, reason, int(network.network_address), int(network.netmask), name, source),
        )
    return tuple(sorted(ranges, key=lambda row: -row.mask))


IPV4_RANGES = _compile(_IPV4_ROWS)
IPV6_RANGES = _compile(_IPV6_ROWS)


def find_range(value: int, version: int) -> Range:
    """Return the most specific block that holds an address.

    `value` is the address as an integer of its family, `version` is 4 or 6. There is always one: each table
    has a row for the whole family.
    """
    rows = IPV4_RANGES if version == 4 else IPV6_RANGES
    return next(row for row in rows if value & row.mask == row.base)
