"""The address guard: is this address the public web? Pure: no sockets, no look-ups, no clock.

Rules
- Only public unicast is allowed (DESIGN section 9, gate "network"); the blocks stand in `address_ranges.py`.
- Only the one strict spelling of an address is one: `127.1`, `0177.0.0.1` and `2130706433` are refused as
  `not_an_address`. A resolver returns strict texts, and WHATWG spellings in URLs are made strict by the URL
  parser before they come here. Brackets around IPv6 are taken off; a zone id (`fe80::1%eth0`) is always
  refused, whatever is allowed, since it chooses an interface of this machine (RFC 4007 section 11).
- An IPv6 address that carries an IPv4 address is unwrapped. Two forms are transparent, because a packet that
  is sent there goes to the address inside: IPv4-mapped (the socket speaks IPv4) and the well-known NAT64
  prefix (on IPv6-only networks every IPv4 site is reached through it; RFC 6052 section 3.1 forbids non-global
  addresses in it). They get the verdict of what is inside. All other forms are refused whole, since no public
  site is reached only by them; where what is inside would be refused too, its reason is given: it says more.
- What the operator allows (`--allow-addresses`) is allowed, loopback and metadata included. A transparent
  form is allowed by a network that holds the address inside. A mapped address *is* the IPv4 address, so only
  IPv4 networks allow it: `::/0` must not open 127.0.0.1. The other forms are allowed only as they are.
- A host is refused if any one of its addresses is (`choose`). Answers that mix public and internal addresses
  are what DNS rebinding looks like; to take "the good one" would leave the choice to whoever wrote the
  answer, and a name that is half internal is not the public web.

The address that was chosen is the one to connect to: a fetch never resolves the name a second time.

What this cannot see: a public address that a network routes to itself, and a network's own NAT64 prefix.
"""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_network
from typing import NamedTuple, cast

import ada_url
import msgspec

from frontlog.avro.enums import Reason
from frontlog.avro.errors import ConfigError
from frontlog.fetch.address_ranges import AddressReason, Network, find_range

__all__ = [
    "AddressReason",
    "Choice",
    "Network",
    "Verdict",
    "canonical",
    "check_address",
    "choose",
    "judge",
    "judge_all",
    "parse_networks",
]

_LOW_32 = 0xFFFF_FFFF
_MAPPED = IPv6Network("::ffff:0:0/96")


class Verdict(msgspec.Struct, frozen=True):
    """What the guard says of one address.

    `address`: canonical text (RFC 5952; IPv4-mapped in mixed notation), or as given if it is no address.
    `reason`: None exactly if `allowed`. `via`: the form that was unwrapped to find the answer, or "".
    `network`: the block or operator's network that decided (of the address inside if unwrapped), or "".
    """

    address: str
    allowed: bool
    reason: AddressReason | None
    via: str
    network: str


class Choice(msgspec.Struct, frozen=True):
    """Which address to connect to: `address` is "" unless `allowed`, `reason` None exactly if `allowed`.

    A mapped address is chosen as the IPv4 address that it is. `verdicts` has one for each address, in order.
    """

    allowed: bool
    address: str
    reason: AddressReason | None
    verdicts: tuple[Verdict, ...]


class _Form(NamedTuple):
    """How IPv6 carries IPv4: is it this form, and which IPv4 addresses (as integers) are inside."""

    name: str
    transparent: bool
    matches: Callable[[int], bool]
    inside: Callable[[int], tuple[int, ...]]


def _within(network: str) -> Callable[[int], bool]:
    block = IPv6Network(network)
    base, mask = int(block.network_address), int(block.netmask)

    def matches(value: int) -> bool:
        return value & mask == base

    return matches


def _is_compatible(value: int) -> bool:
    """::/96, but :: and ::1 are themselves (RFC 4291 section 2.5)."""
    return 1 < value <= _LOW_32


def _is_isatap(value: int) -> bool:
    """An interface identifier 0000:5efe or 0200:5efe, whatever its u and g bits (RFC 5214 section 6.1)."""
    return (value >> 32) & 0xFCFF_FFFF == 0x0000_5EFE


def _last_bits(value: int) -> tuple[int, ...]:
    return (value & _LOW_32,)


def _six_to_four(value: int) -> tuple[int, ...]:
    """The 32 bits after 2002 (RFC 3056 section 2)."""
    return ((value >> 80) & _LOW_32,)


def _teredo(value: int) -> tuple[int, ...]:
    """The client, whose bits are inverted, then the server (RFC 4380 section 4)."""
    return (value & _LOW_32) ^ _LOW_32, (value >> 64) & _LOW_32


_FORMS: tuple[_Form, ...] = (
    _Form("ipv4_mapped", True, _within("::ffff:0:0/96"), _last_bits),
    _Form("nat64", True, _within("64:ff9b::/96"), _last_bits),
    _Form("ipv4_compatible", False, _is_compatible, _last_bits),
    _Form("ipv4_translated", False, _within("::ffff:0:0:0/96"), _last_bits),
    _Form("6to4", False, _within("2002::/16"), _six_to_four),
    _Form("teredo", False, _within("2001::/32"), _teredo),
)
# No block of its own: any prefix can carry it. Inside a refused block, that block's reason says more.
_ISATAP = _Form("isatap", False, _is_isatap, _last_bits)


def judge(address: str, allow: Sequence[Network] = ()) -> Verdict:
    """Say whether one address may be connected to. `allow` comes from `parse_networks`."""
    bracketed = address.startswith("[") and address.endswith("]")
    text = address[1:-1] if bracketed else address
    bare, percent, _ = text.partition("%")
    try:
        if bracketed or ":" in text:  # brackets are for IPv6 only (RFC 3986 section 3.2.2)
            value: IPv4Address | IPv6Address = IPv6Address(bare)
        else:
            value = IPv4Address(text)
    except ValueError:
        return Verdict(address, False, AddressReason.NOT_AN_ADDRESS, "", "")
    if percent:
        return Verdict(text, False, AddressReason.SCOPED, "", "")
    return _judge(value, allow)


def _judge(value: IPv4Address | IPv6Address, allow: Sequence[Network]) -> Verdict:
    text = canonical(value)
    is_mapped = isinstance(value, IPv6Address) and value.ipv4_mapped is not None
    for network in () if is_mapped else allow:
        if value.version == network.version and value in network:
            return Verdict(text, True, None, "", str(network))
    block = find_range(int(value), value.version)
    form = _form_of(value, block.reason)
    if form is None:
        return Verdict(text, block.reason is None, block.reason, "", block.network)
    for inside in form.inside(int(value)):
        inner = _judge(IPv4Address(inside), allow if form.transparent else ())
        if form.transparent or not inner.allowed:
            return Verdict(text, inner.allowed, inner.reason, form.name, inner.network)
    return Verdict(text, False, block.reason or AddressReason.ISATAP, "", block.network)


def _form_of(value: IPv4Address | IPv6Address, reason: AddressReason | None) -> _Form | None:
    """Which form carries IPv4 in this address; `reason` is what its block says of it."""
    if isinstance(value, IPv4Address):
        return None
    number = int(value)
    for form in _FORMS:
        if form.matches(number):
            return form
    return _ISATAP if reason is None and _ISATAP.matches(number) else None


def canonical(value: IPv4Address | IPv6Address) -> str:
    """Write an address as RFC 5952 says. Mapped ones by hand: Python prints them otherwise since 3.13."""
    if isinstance(value, IPv6Address) and value.ipv4_mapped is not None:
        return f"::ffff:{value.ipv4_mapped}"
    return str(value)


def judge_all(addresses: Sequence[str], allow: Sequence[Network] = ()) -> list[Verdict]:
    """Judge every address that a host resolved to, in the order given."""
    return [judge(address, allow) for address in addresses]


def choose(addresses: Sequence[str], allow: Sequence[Network] = ()) -> Choice:
    """Choose the first address if all are allowed; otherwise refuse with the first refusal's reason."""
    verdicts = tuple(judge_all(addresses, allow))
    if not verdicts:
        return Choice(False, "", AddressReason.NO_ADDRESS, ())
    refused = next((verdict for verdict in verdicts if not verdict.allowed), None)
    if refused is not None:
        return Choice(False, "", refused.reason, verdicts)
    first = verdicts[0]
    address = first.address.removeprefix("::ffff:") if first.via == "ipv4_mapped" else first.address
    return Choice(True, address, None, verdicts)


def parse_networks(texts: Sequence[str]) -> tuple[Network, ...]:
    """Read `--allow-addresses`: networks in CIDR notation or single addresses.

    An IPv4-mapped network is taken as the IPv4 network that it is. Raises ConfigError.
    """
    return tuple(_parse_network(text.strip()) for text in texts)


def _parse_network(text: str) -> Network:
    try:
        network = ip_network(text)
    except ValueError as error:
        hint = "give CIDR notation such as 10.0.0.0/8 or fd00::/8, or one address"
        with contextlib.suppress(ValueError):
            hint = f"did you mean {ip_network(text, strict=False)}?"
        raise ConfigError(f"--allow-addresses {text!r}: {error}; {hint}") from error
    if isinstance(network, IPv6Network) and network.subnet_of(_MAPPED):
        return IPv4Network((int(network.network_address) & _LOW_32, network.prefixlen - 96))
    return network


def check_address(request: Mapping[str, object], allow: Sequence[Network] = ()) -> dict[str, object]:
    """Answer one question of the command line: may this URL be fetched from these addresses?

    `request`: `url`, and `resolved`, the addresses that its host resolved to (may miss if the host is an
    address). Returns `verdict` ("allow" or "refuse"), `reason` (an AddressReason, "bad_scheme" or None) and
    `addresses`, each with `address`, `allowed`, `reason` and `via`; or `error` alone if the question can't be
    read. A host that is an address in any spelling of the WHATWG URL standard is judged like a resolved one.
    """
    url = request.get("url")
    if not isinstance(url, str):
        return {"error": "url: a string is needed"}
    resolved = request.get("resolved")
    if not isinstance(resolved, list | tuple | None):
        return {"error": "resolved: a list of addresses is needed"}
    given = cast("Sequence[object]", resolved or ())
    addresses = [address for address in given if isinstance(address, str)]
    if len(addresses) != len(given):
        return {"error": "resolved: each address must be a string"}
    try:
        parsed = ada_url.URL(url)
    except ValueError:
        return {"error": "url: not an absolute URL that the WHATWG parser accepts"}
    if parsed.protocol not in ("http:", "https:"):
        return {"verdict": "refuse", "reason": str(Reason.BAD_SCHEME), "addresses": []}
    choice = choose(list(_question(parsed.hostname, addresses)), allow)
    return {
        "verdict": "allow" if choice.allowed else "refuse",
        "reason": None if choice.reason is None else str(choice.reason),
        "addresses": [_answer(verdict) for verdict in choice.verdicts],
    }


def _question(host: str, resolved: Sequence[str]) -> Iterator[str]:
    """Yield what must be judged: the host if it is an address, then what it resolved to, without repeats."""
    literal = judge(host)
    is_literal = literal.reason is not AddressReason.NOT_AN_ADDRESS
    if is_literal:
        yield literal.address
    for address in resolved:
        if not (is_literal and address == literal.address):
            yield address


def _answer(verdict: Verdict) -> dict[str, object]:
    return {
        "address": verdict.address,
        "allowed": verdict.allowed,
        "reason": None if verdict.reason is None else str(verdict.reason),
        "via": verdict.via,
    }
