"""URLs: the WHATWG, IDNA and RFC 3986 cases (`../shared/vectors`), through every way that we resolve.

All pass. A case that fails is named with what came and what was wanted.
"""

from typing import Any

from frontlog.avro.enums import Reason
from frontlog.processors.canonical import Identity, canonicalize, identify
from frontlog.processors.resolve import Base, resolve, resolve_many
from support.vectors import load

WHATWG = load("urls_whatwg.jsonl")
IDNA = load("urls_idna.jsonl")
RFC3986 = load("urls_rfc3986.jsonl")

Differences = dict[str, tuple[object, object]]


def test_whatwg() -> None:
    differences: Differences = {}
    for case in WHATWG:
        raw, base, wanted = case["input"], case["base"], case.get("href")
        got = [resolve(raw, base)]
        if base is not None and resolve(base) is not None:
            got += [Base(base).join(raw), *resolve_many(base, [raw, raw])]
        if set(got) != {wanted}:
            differences[case["id"]] = (got, wanted)
    assert differences == {}


def _judged(case: dict[str, Any]) -> object:
    """What a case comes to: True for an identity that holds, else the reason of the refusal."""
    found = canonicalize(case["input"], base=case["base"])
    if not isinstance(found, Identity):
        return found.reason
    again = identify(found.identity)
    return (
        canonicalize(found.identity) == again
        and isinstance(again, Identity)
        and (again.identity, again.rules_fired) == (found.identity, ())
        and found.requested == case["href"].partition("#")[0]
    )


def _wanted(case: dict[str, Any]) -> tuple[object, ...]:
    if "href" not in case:
        return Reason.UNPARSABLE, Reason.NO_HOST
    return (Reason.USERINFO,) if "@" in case["href"].split("/")[2] else (True,)


def test_every_whatwg_case_has_one_identity_or_a_reason() -> None:
    judged = {case["id"]: (_judged(case), _wanted(case)) for case in WHATWG}
    assert {name: pair for name, pair in judged.items() if pair[0] not in pair[1]} == {}
    assert {got for got, _ in judged.values()} == {
        *(True, Reason.UNPARSABLE, Reason.NO_HOST, Reason.USERINFO)
    }


def test_idna() -> None:
    differences: Differences = {}
    for case in IDNA:
        wanted = None if case["output"] is None else f"https://{case['output']}/x"
        got = {resolve(f"https://{case['input']}/x")}
        if case["input"]:
            got.add(Base("https://example.org/a").join(f"//{case['input']}/x"))
        if got != {wanted}:
            differences[case["id"]] = (got, wanted)
    assert differences == {}


def test_rfc3986() -> None:
    got = {case["id"]: Base(case["base"]).join(case["ref"]) for case in RFC3986}
    assert got == {case["id"]: case.get("whatwg_href", case["target"]) for case in RFC3986}
