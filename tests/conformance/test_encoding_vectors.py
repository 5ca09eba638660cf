"""Encodings: the label table and html5lib's prescan cases (`../shared/vectors`). All pass; none differs."""

from base64 import b64decode

from frontlog.processors.encoding import decide
from frontlog.processors.encoding_labels import ENCODING_OF_LABEL, get_encoding
from support.vectors import load

CASES = load("encoding.jsonl")
LABELS = load("encoding_labels.jsonl")


def test_the_encoding_of_each_body() -> None:
    got = {case["id"]: decide(b64decode(case["body_b64"]), case["content_type"]).name for case in CASES}
    assert got == {case["id"]: case["encoding"] for case in CASES}


def test_every_label_and_no_other() -> None:
    wanted = {case["label"]: case["encoding"] for case in LABELS}
    assert {label: get_encoding(f"\t{label.upper()} ") for label in wanted} == wanted
    assert set(ENCODING_OF_LABEL) == set(wanted)
