"""The address guard against a table of cases, and what must hold for every address.

Not verified here: that the tables are still what IANA says (they are written down by hand, with their date),
and that the transport connects to the address that was chosen.
"""

from ipaddress import IPv4Address, IPv6Address, ip_network

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from frontlog.avro.errors import ConfigError
from frontlog.fetch.address_ranges import IPV4_RANGES, IPV6_RANGES
from frontlog.fetch.addresses import AddressReason, Choice, Verdict, choose, judge, judge_all, parse_networks

# The expected answer (`public` or a reason, then `via FORM` if it was unwrapped), then addresses that get it:
# first and last addresses of the blocks, their neighbours on both sides, and what attackers write.
CASES = """
public                       : 1.1.1.1 8.8.8.8 93.184.216.34 1.0.0.0 9.255.255.255 11.0.0.0 100.63.255.255
public                       : 100.128.0.0 126.255.255.255 128.0.0.0 169.253.255.255 169.255.0.0
public                       : 172.15.255.255 172.32.0.0 191.255.255.255 192.0.1.0 192.0.1.255 192.0.3.0
public                       : 192.88.98.255 192.88.100.0 192.167.255.255 192.169.0.0 198.17.255.255
public                       : 198.20.0.0 198.51.99.255 198.51.101.0 203.0.112.255 203.0.114.0
public                       : 223.255.255.255 168.63.129.15 168.63.129.17 168.63.128.1 192.31.196.0
public                       : 192.31.196.255 192.52.193.1 192.175.48.0 192.175.48.255 192.0.0.9
public                       : 192.0.0.10
unspecified                  : 0.0.0.0
this_network                 : 0.0.0.1 0.1.2.3 0.255.255.255
private                      : 10.0.0.0 10.0.0.1 10.255.255.255 172.16.0.0 172.16.0.1 172.17.0.1
private                      : 172.31.255.255 192.168.0.0 192.168.1.1 192.168.255.255
shared                       : 100.64.0.0 100.64.0.1 100.100.100.199 100.100.100.201 100.127.255.255
loopback                     : 127.0.0.0 127.0.0.1 127.0.1.1 127.1.2.3 127.255.255.255
link_local                   : 169.254.0.0 169.254.0.1 169.254.169.252 169.254.170.1 169.254.255.255
metadata                     : 169.254.169.254 169.254.169.253 169.254.170.2 169.254.170.23 169.254.42.42
metadata                     : 169.254.0.23 169.254.169.123 169.254.10.10 100.100.100.200 100.96.0.96
metadata                     : 168.63.129.16 192.0.0.192
protocol                     : 192.0.0.0 192.0.0.1 192.0.0.7 192.0.0.11 192.0.0.170 192.0.0.171
protocol                     : 192.0.0.191 192.0.0.193 192.0.0.255
discard                      : 192.0.0.8
documentation                : 192.0.2.0 192.0.2.1 192.0.2.255 198.51.100.0 198.51.100.255 203.0.113.0
documentation                : 203.0.113.9 203.0.113.255
deprecated                   : 192.88.99.0 192.88.99.1 192.88.99.2 192.88.99.255
benchmarking                 : 198.18.0.0 198.18.0.1 198.19.255.255
multicast                    : 224.0.0.0 224.0.0.1 224.0.0.251 232.1.1.1 239.255.255.250 239.255.255.255
reserved                     : 240.0.0.0 240.0.0.1 250.1.1.1 255.255.255.254
broadcast                    : 255.255.255.255

public                       : 2001:4860:4860::8888 2606:4700:4700::1111 2620:fe::fe 2a00:1450:4001::1
public                       : 2000:: 2001:200:: 2001:db7:ffff:ffff:ffff:ffff:ffff:ffff 2001:db9::
public                       : 2001:ffff:ffff:ffff:ffff:ffff:ffff:ffff 2003:: 2620:4f:8000::1 3fff:1000::
public                       : 3ffe:ffff:ffff:ffff:ffff:ffff:ffff:ffff
public                       : 3fff:ffff:ffff:ffff:ffff:ffff:ffff:fffe 2001:1::1 2001:1::2 2001:1::3
public                       : 2001:3::1 2001:4:112::1 2001:4:112:ffff::
unspecified                  : :: 0:0:0:0:0:0:0:0 0::0
loopback                     : ::1 0:0:0:0:0:0:0:1 0000:0000:0000:0000:0000:0000:0000:0001
discard                      : 100:: 100::ffff:ffff:ffff:ffff 100:0:0:1:: 100:0:0:1:ffff:ffff:ffff:ffff
reserved                     : 100:0:0:2:: 101:: 400:: 1000:: 1fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff
reserved                     : 4000:: 4000::1 5eff:: 5f01:: 6000:: 8000:: a000:: c000:: e000:: f000::
reserved                     : f800:: fbff:ffff:ffff:ffff:ffff:ffff:ffff:ffff fe00:: fe7f:ffff:ffff:ffff::
reserved                     : ::1:0:0 ::fffe:7f00:1 ::fffe:0:0 0:0:0:1::1 64:ff9a:: 64:ff9b::1:7f00:1
reserved                     : 64:ff9c:: 64:ff9b:0:1:: 64:ff9b:2:: ::1:0:0:0:0
deprecated                   : 200:: 200::1 3ff:ffff:ffff:ffff:ffff:ffff:ffff:ffff
nat64_local                  : 64:ff9b:1:: 64:ff9b:1::808:808 64:ff9b:1::7f00:1
nat64_local                  : 64:ff9b:1:ffff:ffff:ffff:ffff:ffff
protocol                     : 2001:1:: 2001:1::4 2001:4:111:: 2001:4:113:: 2001:5::1 2001:1ff:ffff::1
protocol                     : 2001:40:: 2001:100:: 2001:2:1::
benchmarking                 : 2001:2:: 2001:2::1 2001:2:0:ffff:ffff:ffff:ffff:ffff
orchid                       : 2001:10:: 2001:10::1 2001:1f:ffff:: 2001:20:: 2001:20::1 2001:2f:ffff::
orchid                       : 2001:30:: 2001:3f:ffff:ffff::
documentation                : 2001:db8:: 2001:db8::1 2001:0DB8:85A3::8A2E:0370:7334 2001:db8:ffff:ffff::1
documentation                : 3fff:: 3fff::1 3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff
segment_routing              : 5f00:: 5f00::1 5f00:ffff:ffff:ffff:ffff:ffff:ffff:ffff
unique_local                 : fc00:: fc00::1 fd00::1 fd12:3456:789a:1::1 fd20:ce::253 fdff:ffff::
unique_local                 : fd00:ec3::254
metadata                     : fd00:ec2::254 fd00:ec2::253 fd00:ec2::23 fd00:ec2::123 FD00:EC2:0::254
metadata                     : fd20:ce::254 fd00:c1::a9fe:a9fe fd00:42::42 fd00:a9fe:a9fe::1
metadata                     : fd00:100::100:200 fe80::a9fe:a9fe
link_local                   : fe80:: fe80::1 fe80::7f00:1 febf:ffff:ffff:ffff:ffff:ffff:ffff:ffff
link_local                   : fe80::5efe:808:808 fe80::200:5efe:7f00:1
site_local                   : fec0:: fec0::1 feff:ffff:ffff:ffff:ffff:ffff:ffff:ffff
multicast                    : ff00:: ff01::1 ff02::1 ff02::2 ff02::fb ff05::2 ff0e::1 ffff::
multicast                    : ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff

public via ipv4_mapped       : ::ffff:8.8.8.8 ::ffff:808:808 ::FFFF:8.8.8.8 0:0:0:0:0:ffff:8.8.8.8
public via ipv4_mapped       : ::ffff:1.1.1.1 ::ffff:192.31.196.1
loopback via ipv4_mapped     : ::ffff:127.0.0.1 ::ffff:7f00:1 ::FFFF:7F00:0001 0:0:0:0:0:ffff:127.0.0.1
private via ipv4_mapped      : ::ffff:10.0.0.5 ::ffff:192.168.1.1 ::ffff:ac10:1
metadata via ipv4_mapped     : ::ffff:169.254.169.254 ::ffff:a9fe:a9fe ::ffff:168.63.129.16
metadata via ipv4_mapped     : ::ffff:100.100.100.200
shared via ipv4_mapped       : ::ffff:100.64.0.1
unspecified via ipv4_mapped  : ::ffff:0.0.0.0 ::ffff:0:0
multicast via ipv4_mapped    : ::ffff:224.0.0.1
broadcast via ipv4_mapped    : ::ffff:255.255.255.255
documentation via ipv4_mapped : ::ffff:192.0.2.1
public via nat64             : 64:ff9b::808:808 64:ff9b::8.8.8.8 64:ff9b::101:101
loopback via nat64           : 64:ff9b::7f00:1 64:ff9b::127.0.0.1
private via nat64            : 64:ff9b::10.0.0.1 64:ff9b::c0a8:101 64:ff9b::ac1f:ffff
metadata via nat64           : 64:ff9b::a9fe:a9fe 64:ff9b::169.254.170.2 64:ff9b::168.63.129.16
unspecified via nat64        : 64:ff9b:: 64:ff9b::0.0.0.0
multicast via nat64          : 64:ff9b::224.0.0.1
ipv4_compatible              : ::8.8.8.8 ::808:808 ::1.1.1.1
loopback via ipv4_compatible : ::127.0.0.1 ::7f00:1
private via ipv4_compatible  : ::10.0.0.1 ::192.168.0.1
metadata via ipv4_compatible : ::169.254.169.254 ::a9fe:a9fe
this_network via ipv4_compatible : ::2 ::ffff
broadcast via ipv4_compatible : ::ffff:ffff
ipv4_translated              : ::ffff:0:8.8.8.8 ::ffff:0:808:808
loopback via ipv4_translated : ::ffff:0:127.0.0.1 ::ffff:0:7f00:1
private via ipv4_translated  : ::ffff:0:10.0.0.1
metadata via ipv4_translated : ::ffff:0:a9fe:a9fe
six_to_four                  : 2002:808:808:: 2002:808:808::1 2002:101:101:1::7f00:1
loopback via 6to4            : 2002:7f00:1:: 2002:7f00:1::1 2002:7fff:ffff::
private via 6to4             : 2002:a00:1:: 2002:c0a8:101::1 2002:ac10:1::808:808
metadata via 6to4            : 2002:a9fe:a9fe:: 2002:a83f:8110::
unspecified via 6to4         : 2002::
broadcast via 6to4           : 2002:ffff:ffff::
teredo                       : 2001:0:4136:e378:8000:63bf:f7f7:f7f7
loopback via teredo          : 2001:0:4136:e378:8000:63bf:80ff:fffe 2001:0:7f00:1:8000:63bf:f7f7:f7f7
private via teredo           : 2001:0:4136:e378:8000:63bf:f5ff:fffe 2001:0:a00:1::f7f7:f7f7
metadata via teredo          : 2001:0:4136:e378:8000:63bf:5601:5601
unspecified via teredo       : 2001:0:4136:e378::ffff:ffff
isatap                       : 2606:4700::5efe:808:808 2606:4700::200:5efe:8.8.8.8
loopback via isatap          : 2606:4700::5efe:7f00:1 2606:4700::200:5efe:127.0.0.1
private via isatap           : 2606:4700::5efe:10.0.0.1 2606:4700:1:2:200:5efe:c0a8:1 2001:3::5efe:a00:1
private via isatap           : 2606:4700::100:5efe:a00:1 2606:4700::300:5efe:a00:1
metadata via isatap          : 2606:4700::5efe:a9fe:a9fe
public                       : 2606:4700::400:5efe:a00:1 2606:4700::5eff:a00:1

loopback                     : [::1]
loopback via ipv4_mapped     : [::ffff:7f00:1]
public                       : [2606:4700:4700::1111]
scoped                       : fe80::1%eth0 fe80::1%25eth0 [fe80::1%1] ::1%lo 2606:4700::1%eth0
scoped                       : 2606:4700::1% ::ffff:8.8.8.8%eth0
not_an_address               : 127.1 127.0.1 0177.0.0.1 0x7f.0.0.1 0x7f000001 2130706433 017700000001
not_an_address               : 0x7f.1 127.0.0.01 127.0.0.1. 127.0.0.1.. .127.0.0.1 127.0.0.256 1.2.3.4.5
not_an_address               : 8.8.8.8:80 8.8.8.8/32 ::1/128 [127.0.0.1] [::1 ::1] [[::1]] []:80 []
not_an_address               : [::1]:80 :::1 1::2::3 12345::1 ::ffff:1.2.3 ::ffff:127.1 ::ffff:0177.0.0.1
not_an_address               : ::g localhost example.org ① １２７.0.0.1 127。0。0。1 ٣.3.3.3 8.8.8.8%eth0 0 -1
not_an_address               : +1.1.1.1 1e1.1.1.1
"""


def _cases() -> list[tuple[str, str, str]]:
    """Read the table: expected answer, form, address."""
    rows: list[tuple[str, str, str]] = []
    for line in CASES.splitlines():
        expected, _, addresses = line.partition(" : ")
        answer, _, via = expected.strip().partition(" via ")
        rows.extend((answer, via, address) for address in addresses.split())
    return rows


@pytest.mark.parametrize(("answer", "via", "address"), _cases())
def test_case(answer: str, via: str, address: str) -> None:
    verdict = judge(address)
    assert (verdict.reason or "public", verdict.via) == (answer, via)
    assert verdict.allowed == (verdict.reason is None) == (answer == "public")


def test_the_table_is_large_and_knows_every_reason() -> None:
    cases = _cases()
    assert len(cases) >= 300
    assert len({address for _, _, address in cases}) == len(cases)
    # An empty list is the one reason that no address can have.
    assert {answer for answer, _, _ in cases} == {*AddressReason, "public"} - {AddressReason.NO_ADDRESS}


@pytest.mark.parametrize(
    "text", ["", " ", " 8.8.8.8", "8.8.8.8 ", "8.8.8.8\n", "8.8.8.8\x00", "\t::1", "[ ::1]"]
)
def test_space_around_an_address_is_not_an_address(text: str) -> None:
    assert judge(text).reason is AddressReason.NOT_AN_ADDRESS


@pytest.mark.parametrize(
    ("given", "canonical"),
    [
        ("8.8.8.8", "8.8.8.8"),
        ("2001:0DB8:0:0:0:0:0:1", "2001:db8::1"),
        ("[2606:4700::1]", "2606:4700::1"),
        ("::ffff:7f00:1", "::ffff:127.0.0.1"),
        ("64:FF9B::8.8.8.8", "64:ff9b::808:808"),
        ("127.1", "127.1"),
    ],
)
def test_address_is_canonical_in_the_verdict(given: str, canonical: str) -> None:
    assert judge(given).address == canonical


def test_verdict_names_the_most_specific_block() -> None:
    assert judge("169.254.169.254").network == "169.254.169.254/32"
    assert judge("169.254.169.252").network == "169.254.0.0/16"
    assert judge("::ffff:10.1.2.3").network == "10.0.0.0/8"
    assert judge("2606:4700::1").network == "2000::/3"


def test_rows_are_true_networks_without_repeats_and_every_reason_is_explained() -> None:
    for rows in (IPV4_RANGES, IPV6_RANGES):
        assert len({row.network for row in rows}) == len(rows)
        assert all(str(ip_network(row.network)) == row.network and row.name and row.source for row in rows)
    assert all(reason.doc for reason in AddressReason)


def test_what_the_standard_library_refuses_is_refused() -> None:
    """A second opinion on one address of each IPv4 /16."""
    for high in range(1 << 16):
        address = IPv4Address(high << 16 | 1)
        if address.is_private or address.is_multicast or address.is_reserved:
            assert not judge(str(address)).allowed, address


# --- every address ----------------------------------------------------------------------------------------

IPV4 = st.one_of(
    st.integers(0, 0xFFFF_FFFF),
    st.sampled_from([row.base for row in IPV4_RANGES]),
    st.sampled_from([row.base | ~row.mask & 0xFFFF_FFFF for row in IPV4_RANGES]),
)


def _v6(value: int) -> str:
    return str(IPv6Address(value))


@given(IPV4)
def test_transparent_forms_get_the_verdict_of_the_address_inside(inside: int) -> None:
    bare = judge(str(IPv4Address(inside)))
    for wrapped, via in ((0xFFFF << 32, "ipv4_mapped"), (0x64_FF9B << 96, "nat64")):
        verdict = judge(_v6(wrapped | inside))
        assert (verdict.allowed, verdict.reason, verdict.network) == (bare.allowed, bare.reason, bare.network)
        assert verdict.via == via


@given(IPV4, st.integers(0, (1 << 80) - 1), st.integers(0, 0xFFFF))
@example(0x0808_0808, 0, 0)
@example(0x7F00_0001, 0, 0)
def test_other_forms_are_refused_and_say_why_the_inside_would_be(inside: int, rest: int, flags: int) -> None:
    bare = judge(str(IPv4Address(inside)))
    public_server = 0x4136_E378
    teredo = 0x2001 << 112 | public_server << 64 | flags << 48 | (inside ^ 0xFFFF_FFFF)
    wrapped = {
        "ipv4_translated": 0xFFFF << 48 | inside,
        "6to4": 0x2002 << 112 | inside << 80 | rest,
        "teredo": teredo,
        "isatap": 0x2606_4700 << 96 | (rest & 0xFFFF_FFFF) << 64 | 0x5EFE << 32 | inside,
    }
    if inside > 1:
        wrapped["ipv4_compatible"] = inside
    for via, value in wrapped.items():
        verdict = judge(_v6(value))
        assert not verdict.allowed, via
        if not bare.allowed:
            assert (verdict.reason, verdict.via) == (bare.reason, via)


@given(st.integers(0, (1 << 128) - 1))
def test_nothing_outside_global_unicast_is_allowed_but_transparent_forms(value: int) -> None:
    verdict = judge(_v6(value))
    if verdict.allowed:
        assert value >> 125 == 1 or verdict.via


@given(st.text(max_size=40))
def test_any_text_gets_a_verdict(text: str) -> None:
    verdict = judge(text)
    assert verdict.allowed == (verdict.reason is None)
    if verdict.allowed:
        assert judge(verdict.address).allowed


# --- what the operator allows -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("network", "address", "allowed"),
    [
        ("127.0.0.0/8", "127.0.0.1", True),
        ("127.0.0.0/8", "::ffff:127.0.0.1", True),
        ("127.0.0.0/8", "64:ff9b::7f00:1", True),
        ("127.0.0.0/8", "::1", False),
        ("127.0.0.0/8", "10.0.0.1", False),
        ("127.0.0.0/8", "::127.0.0.1", False),
        ("127.0.0.0/8", "::ffff:0:7f00:1", False),
        ("127.0.0.0/8", "2002:7f00:1::", False),
        ("127.0.0.0/8", "2606:4700::5efe:7f00:1", False),
        ("0.0.0.0/0", "2002:7f00:1::", False),
        ("0.0.0.0/0", "169.254.169.254", True),
        ("127.0.0.0/8", "127.1", False),
        ("127.0.0.1", "127.0.0.1", True),
        ("127.0.0.1", "127.0.0.2", False),
        ("::1", "::1", True),
        ("::1/128", "[::1]", True),
        ("::1/128", "127.0.0.1", False),
        ("::/0", "fd00::1", True),
        ("::/0", "127.0.0.1", False),
        ("::/0", "::ffff:127.0.0.1", False),
        ("::ffff:127.0.0.0/104", "127.0.0.1", True),
        ("::ffff:127.0.0.0/104", "::ffff:7f00:1", True),
        ("::ffff:127.0.0.0/104", "10.0.0.1", False),
        ("2002:7f00::/24", "2002:7f00:1::", True),
        ("2606:4700::/32", "2606:4700::5efe:7f00:1", True),
        ("64:ff9b::/96", "64:ff9b::7f00:1", True),
        ("fe80::/10", "fe80::1", True),
        ("fe80::/10", "fe80::1%eth0", False),
        ("10.0.0.0/8", "8.8.8.8", True),
    ],
)
def test_allowed_networks(network: str, address: str, allowed: bool) -> None:
    assert judge(address, parse_networks([network])).allowed is allowed


def test_an_allowed_network_is_named_in_the_verdict() -> None:
    verdict = judge("::ffff:127.0.0.1", parse_networks(["10.0.0.0/8", "127.0.0.0/16"]))
    assert verdict == Verdict("::ffff:127.0.0.1", True, None, "ipv4_mapped", "127.0.0.0/16")


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("10.0.0.1/8", "did you mean 10.0.0.0/8?"),
        ("fd00::1/8", "did you mean fd00::/8?"),
        ("localhost", "give CIDR notation"),
        ("10/8", "give CIDR notation"),
        ("127.1", "give CIDR notation"),
        ("", "give CIDR notation"),
        ("10.0.0.0/33", "give CIDR notation"),
    ],
)
def test_a_bad_network_is_a_config_error_that_helps(text: str, hint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_networks(["192.168.0.0/16", text])
    assert "--allow-addresses" in str(caught.value)
    assert repr(text) in str(caught.value)
    assert hint in str(caught.value)


# --- all addresses of a host ------------------------------------------------------------------------------


def test_the_first_address_is_chosen_when_all_are_allowed() -> None:
    choice = choose(["93.184.216.34", "2606:4700::1"])
    assert (choice.allowed, choice.address, choice.reason) == (True, "93.184.216.34", None)
    assert [verdict.address for verdict in choice.verdicts] == ["93.184.216.34", "2606:4700::1"]


def test_a_mapped_address_is_chosen_as_what_the_socket_connects_to() -> None:
    assert choose(["::ffff:8.8.8.8"]).address == "8.8.8.8"
    assert choose(["64:ff9b::8.8.8.8"]).address == "64:ff9b::808:808"


@pytest.mark.parametrize(
    "mixed", [["8.8.8.8", "10.0.0.1"], ["10.0.0.1", "8.8.8.8"], ["8.8.8.8", "junk", "10.0.0.1"]]
)
def test_one_refused_address_refuses_the_host(mixed: list[str]) -> None:
    choice = choose(mixed)
    first_refused = next(verdict for verdict in judge_all(mixed) if not verdict.allowed)
    assert (choice.allowed, choice.address, choice.reason) == (False, "", first_refused.reason)
    assert len(choice.verdicts) == len(mixed)


def test_mixed_answers_are_allowed_when_the_operator_allows_the_internal_part() -> None:
    assert choose(["8.8.8.8", "10.0.0.1"], parse_networks(["10.0.0.0/8"])).allowed


def test_no_address_is_refused() -> None:
    assert choose([]) == Choice(False, "", AddressReason.NO_ADDRESS, ())
