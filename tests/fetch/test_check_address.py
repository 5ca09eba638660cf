"""The address guard asked by the command line: URLs in every spelling, with what their host resolved to."""

import pytest

from frontlog.fetch.addresses import check_address, parse_networks


@pytest.mark.parametrize(
    ("url", "resolved", "verdict", "reason"),
    [
        ("http://example.org/", ["93.184.216.34"], "allow", None),
        ("https://example.org:8443/a?b", ["93.184.216.34", "2606:4700::1"], "allow", None),
        ("http://example.org/", ["93.184.216.34", "127.0.0.1"], "refuse", "loopback"),
        ("http://example.org/", ["::ffff:10.0.0.5"], "refuse", "private"),
        ("http://example.org/", ["0177.0.0.1"], "refuse", "not_an_address"),
        ("http://example.org/", [], "refuse", "no_address"),
        ("http://example.org/", None, "refuse", "no_address"),
        ("http://localhost/", ["127.0.0.1"], "refuse", "loopback"),
        ("http://127.0.0.1/", None, "refuse", "loopback"),
        ("http://127.0.0.1/", ["8.8.8.8"], "refuse", "loopback"),
        ("http://8.8.8.8/", None, "allow", None),
        ("http://8.8.8.8/", ["10.0.0.1"], "refuse", "private"),
        ("http://2130706433/", None, "refuse", "loopback"),
        ("http://0x7f.1/", None, "refuse", "loopback"),
        ("http://0x7f000001/", None, "refuse", "loopback"),
        ("http://0177.0.0.1/", None, "refuse", "loopback"),
        ("http://017700000001/", None, "refuse", "loopback"),
        ("http://127.1/", None, "refuse", "loopback"),
        ("http://127.0.0.1./", None, "refuse", "loopback"),
        ("http://0/", None, "refuse", "unspecified"),
        ("http://%31%32%37.0.0.1/", None, "refuse", "loopback"),
        ("http://①②⑦.0.0.1/", None, "refuse", "loopback"),
        ("http://127。0。0。1/", None, "refuse", "loopback"),
        ("http://169.254.169.254/latest/meta-data/", None, "refuse", "metadata"),
        ("http://2852039166/", None, "refuse", "metadata"),
        ("http://[::1]/", None, "refuse", "loopback"),
        ("http://[::ffff:7f00:1]/", None, "refuse", "loopback"),
        ("http://[::ffff:127.0.0.1]:8080/", None, "refuse", "loopback"),
        ("http://[64:ff9b::a9fe:a9fe]/", None, "refuse", "metadata"),
        ("http://[2606:4700:4700::1111]/", None, "allow", None),
        ("http://8.8.8.8@127.0.0.1/", None, "refuse", "loopback"),
        ("http://127.0.0.1@example.org/", ["93.184.216.34"], "allow", None),
        ("http:\\\\127.0.0.1\\", None, "refuse", "loopback"),
        ("HTTP://10.0.0.1/", None, "refuse", "private"),
        (" http://10.0.0.1/ ", None, "refuse", "private"),
        ("ftp://example.org/", ["93.184.216.34"], "refuse", "bad_scheme"),
        ("file:///etc/passwd", None, "refuse", "bad_scheme"),
        ("gopher://127.0.0.1:6379/_x", None, "refuse", "bad_scheme"),
        ("javascript:alert(1)", None, "refuse", "bad_scheme"),
        ("ws://example.org/", ["93.184.216.34"], "refuse", "bad_scheme"),
    ],
)
def test_check_address(url: str, resolved: list[str] | None, verdict: str, reason: str | None) -> None:
    request: dict[str, object] = {"url": url} if resolved is None else {"url": url, "resolved": resolved}
    answer = check_address(request)
    assert (answer["verdict"], answer["reason"]) == (verdict, reason)


def test_check_address_says_what_was_judged() -> None:
    assert check_address({"url": "http://a.test/", "resolved": ["8.8.8.8", "::ffff:a9fe:a9fe"]}) == {
        "verdict": "refuse",
        "reason": "metadata",
        "addresses": [
            {"address": "8.8.8.8", "allowed": True, "reason": None, "via": ""},
            {
                "address": "::ffff:169.254.169.254",
                "allowed": False,
                "reason": "metadata",
                "via": "ipv4_mapped",
            },
        ],
    }


def test_check_address_judges_a_literal_once() -> None:
    answer = check_address({"url": "http://8.8.8.8/", "resolved": ["8.8.8.8"]})
    assert answer["addresses"] == [{"address": "8.8.8.8", "allowed": True, "reason": None, "via": ""}]


def test_check_address_takes_allowed_networks() -> None:
    allow = parse_networks(["127.0.0.0/8"])
    assert check_address({"url": "http://2130706433/"}, allow)["verdict"] == "allow"
    assert check_address({"url": "http://a.test/", "resolved": ["127.0.0.9"]}, allow)["verdict"] == "allow"


@pytest.mark.parametrize(
    "request_",
    [
        {},
        {"url": None},
        {"url": 7, "resolved": []},
        {"url": ""},
        {"url": "/relative"},
        {"url": "http://"},
        {"url": "http://a b/"},
        {"url": "http://[::1"},
        {"url": "http://[fe80::1%25eth0]/"},
        {"url": "http://256.256.256.256/"},
        {"url": "http://1.2.3.4.5/"},
        {"url": "http://a.test/", "resolved": "8.8.8.8"},
        {"url": "http://a.test/", "resolved": {"8.8.8.8": 1}},
        {"url": "http://a.test/", "resolved": [134744072]},
        {"url": "http://a.test/", "resolved": ["8.8.8.8", None]},
    ],
)
def test_check_address_says_what_it_cannot_read(request_: dict[str, object]) -> None:
    answer = check_address(request_)
    assert list(answer) == ["error"]
    assert str(answer["error"]).startswith(("url: ", "resolved: "))
