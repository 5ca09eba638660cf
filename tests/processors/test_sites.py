"""Origins, sites and partitions."""

import pytest

from frontlog.processors.sites import PSL_VERSION, murmur2, partition_of, site_of, split_origin, split_port


@pytest.mark.parametrize(
    ("text", "signed"),
    [
        # From Kafka's own UtilsTest.testMurmur2 (org.apache.kafka.common.utils).
        ("21", -973932308),
        ("foobar", -790332482),
        ("a-little-bit-long-string", -985981536),
        ("a-little-bit-longer-string", -1486304829),
        ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        ("abc", 479470107),
    ],
)
def test_murmur2_is_kafkas(text: str, signed: int) -> None:
    assert murmur2(text.encode()) == signed % 2**32
    assert partition_of(text, 64) == (signed & 0x7FFFFFFF) % 64


@pytest.mark.parametrize("length", range(9))
def test_murmur2_reads_every_byte(length: int) -> None:
    whole = murmur2(bytes(range(1, length + 1)))
    for changed in range(length):
        data = bytearray(range(1, length + 1))
        data[changed] ^= 0xFF
        assert murmur2(bytes(data)) != whole


def test_partitions_are_all_used_and_in_range() -> None:
    assert {partition_of(f"site{i}.example", 4) for i in range(200)} == {0, 1, 2, 3}


@pytest.mark.parametrize(
    ("host", "site"),
    [
        ("www.example.co.uk", "example.co.uk"),
        ("example.co.uk", "example.co.uk"),
        ("co.uk", "co.uk"),
        # The private section: each user of such a service is a site of its own.
        ("alice.github.io", "alice.github.io"),
        ("www.alice.github.io", "alice.github.io"),
        ("github.io", "github.io"),
        ("localhost", "localhost"),
        ("a.b.unlisted-tld-of-tests", "b.unlisted-tld-of-tests"),
        ("www.xn--bcher-kva.example", "xn--bcher-kva.example"),
        ("192.0.2.1", "192.0.2.1"),
        ("[2001:db8::1]", "[2001:db8::1]"),
        ("4.example.org", "example.org"),
        ("", ""),
    ],
)
def test_sites(host: str, site: str) -> None:
    assert site_of(host) == site


@pytest.mark.parametrize(
    ("href", "origin_key", "host"),
    [
        ("http://example.org/a?b#c", "http://example.org:80", "example.org"),
        ("https://example.org", "https://example.org:443", "example.org"),
        ("https://example.org?x=a/b:1", "https://example.org:443", "example.org"),
        ("https://u:p@example.org:8443/@x", "https://example.org:8443", "example.org"),
        ("http://[2001:db8::1]/", "http://[2001:db8::1]:80", "[2001:db8::1]"),
        ("http://[2001:db8::1]:81/", "http://[2001:db8::1]:81", "[2001:db8::1]"),
    ],
)
def test_origins(href: str, origin_key: str, host: str) -> None:
    assert split_origin(href) == (origin_key, host)


@pytest.mark.parametrize("href", ["mailto:a@example.org", "ftp://example.org/", "http:///x", ""])
def test_what_has_no_origin(href: str) -> None:
    with pytest.raises(ValueError, match="no "):
        split_origin(href)


def test_the_port_of_an_authority() -> None:
    assert split_port("a:1") == ("a", "1")
    assert split_port("[::1]") == ("[::1]", "")


def test_the_list_has_a_version() -> None:
    name, version = PSL_VERSION.split(" ")
    assert name == "publicsuffixlist"
    assert version.count(".") == 3
