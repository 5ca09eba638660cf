"""Wishes as operators write them: what is understood, and what the message says when it isn't."""

import pytest

from frontlog.avro.enums import ScopeKind
from frontlog.avro.events import Control
from frontlog.processors import control


@pytest.mark.parametrize(
    ("text", "kind", "target"),
    [
        ('{"cmd": "pause"}', ScopeKind.CRAWL, ""),
        ('{"cmd": "pause", "target": {}}', ScopeKind.CRAWL, ""),
        ('{"cmd": "pause", "target": {"partition": 3}}', ScopeKind.PARTITION, "3"),
        ('{"cmd": "pause", "target": {"partition": "03"}}', ScopeKind.PARTITION, "3"),
        ('{"cmd": "block", "target": {"host": "WWW.Example.ORG"}}', ScopeKind.HOST, "www.example.org"),
        ('{"cmd": "block", "target": {"host": "bücher.example"}}', ScopeKind.HOST, "xn--bcher-kva.example"),
        ('{"cmd": "block", "target": {"site": "www.example.org"}}', ScopeKind.SITE, "example.org"),
        (
            '{"cmd": "unblock", "target": {"origin": "https://example.org"}}',
            ScopeKind.ORIGIN,
            "https://example.org:443",
        ),
        ('{"cmd": "slow", "target": {"host": "example.org"}, "gap_ms": 5000}', ScopeKind.HOST, "example.org"),
    ],
)
def test_a_wish_is_understood(text: str, kind: ScopeKind, target: str) -> None:
    wish = control.check(control.from_json(text.encode()))
    assert (wish.target_kind, wish.target) == (kind, target)


def test_who_and_why_are_kept() -> None:
    text = b'{"cmd": "resume", "actor": "ops", "reason": "all quiet", "at_ms": 7}'
    wish = control.check(control.from_json(text))
    assert (wish.actor, wish.note, wish.at_ms) == ("ops", "all quiet", 7)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "not a control record"),
        ('{"target": {}}', "not a control record"),
        ('{"cmd": "pause", "colour": 1}', "colour"),
        ('{"cmd": "dance"}', "unknown cmd"),
        ('{"cmd": "pause", "target": {"planet": "x"}}', "unknown target"),
        ('{"cmd": "pause", "target": {"host": "a", "site": "b"}}', "2 things"),
        ('{"cmd": "pause", "target": {"partition": "x"}}', "not a number"),
        ('{"cmd": "slow", "target": {"partition": 1}}', "slow takes a host"),
        ('{"cmd": "block", "target": {"host": ""}}', "not one"),
        ('{"cmd": "block", "target": {"url": "http://e.org/"}}', "not a url"),
        ('{"cmd": "slow", "target": {"site": "example.org"}, "gap_ms": 1}', "slow takes a host"),
        ('{"cmd": "slow", "target": {"host": "example.org"}, "gap_ms": -1}', "gap_ms is -1"),
        ('{"cmd": "seed"}', "needs urls"),
        ('{"cmd": "recrawl", "urls": []}', "needs urls"),
    ],
)
def test_a_wish_that_cannot_be_followed_says_why(text: str, says: str) -> None:
    with pytest.raises(control.BadControl, match=says):
        control.check(control.from_json(text.encode()))


def test_a_wish_concerns_the_partition_of_its_site_or_all() -> None:
    everything = control.check(Control(cmd="pause", target_kind=ScopeKind.CRAWL))
    assert control.partitions_of(everything, 4) == [0, 1, 2, 3]
    homes = {
        tuple(control.partitions_of(control.check(Control(cmd="block", target_kind=kind, target=target)), 4))
        for kind, target in (
            (ScopeKind.SITE, "example.org"),
            (ScopeKind.HOST, "www.example.org"),
            (ScopeKind.ORIGIN, "https://example.org:8443"),
        )
    }
    assert len(homes) == 1
    with pytest.raises(control.BadControl, match="does not exist"):
        control.partitions_of(Control(cmd="pause", target_kind=ScopeKind.PARTITION, target="4"), 4)
