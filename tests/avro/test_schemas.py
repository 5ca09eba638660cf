"""Every schema is documented, its times and sizes carry their unit, and inlining loses nothing."""

import re

import fastavro
import pytest

from frontlog.avro.schemas import FOLDER, NAMESPACE, Json, inlined, is_union, load_all

RECORDS = {name: schema for name, schema in load_all().items() if schema["type"] == "record"}
EPOCH = "(ms since the epoch"
POINT = re.compile(r"(^|_)(at|started|ended|fetched|expires|until|deadline|due|eligible|next|tail)_ms$")
SPAN = re.compile(r"(^|_)(gap|delay|backoff|response|ttl|total|connect|byte)_ms$")
# Their units are those of the archive's own vocabulary (WARC: offset and length of a record), in bytes.
ARCHIVE = {"BodyRef.offset", "BodyRef.length", "WarcRef.offset", "WarcRef.length"}


def test_a_file_holds_the_type_that_it_is_named_after() -> None:
    for path in FOLDER.glob("*.avsc"):
        name = "".join(part.capitalize() for part in path.stem.split("_"))
        assert load_all()[name]["namespace"] == NAMESPACE


@pytest.mark.parametrize("name", load_all())
def test_every_type_has_a_doc(name: str) -> None:
    assert re.fullmatch(r"[A-Z].*\.", load_all()[name]["doc"])


@pytest.mark.parametrize("name", RECORDS)
def test_every_field_has_a_doc_and_its_unit(name: str) -> None:
    for field in RECORDS[name]["fields"]:
        at, doc, unit = f"{name}.{field['name']}", field["doc"], field["name"].rpartition("_")[2]
        assert doc and doc == doc.strip(), at
        assert (re.search(r"\bms\b", doc) is not None) == (unit == "ms"), f"{at}: the unit of a time is ms"
        assert unit not in ("s", "sec", "seconds", "time", "size", "kb", "mb"), at
        if unit == "bytes":
            assert "bytes" in doc, at
        if unit in ("ms", "bytes"):
            assert field["type"] == "long", at
        elif field["type"] in ("long", "int"):
            assert not re.search(r"\bbytes?\b", doc) or at in ARCHIVE, f"{at}: a size ends in _bytes"


@pytest.mark.parametrize("name", RECORDS)
def test_a_point_in_time_says_that_it_counts_from_the_epoch(name: str) -> None:
    for field in RECORDS[name]["fields"]:
        if POINT.search(field["name"]):
            assert EPOCH in field["doc"], field["name"]
        elif field["name"].endswith("_ms"):
            assert SPAN.search(field["name"]), f"{field['name']}: a point in time or a span?"
            assert EPOCH not in field["doc"], field["name"]


@pytest.mark.parametrize("name", RECORDS)
def test_null_is_the_default_of_what_may_be_missing(name: str) -> None:
    for field in RECORDS[name]["fields"]:
        if is_union(field["type"]):
            assert field["type"][0] == "null", field["name"]
            assert field.get("default", "none") is None, field["name"]


@pytest.mark.parametrize("name", RECORDS)
def test_an_inlined_schema_stands_alone_and_defines_each_type_once(name: str) -> None:
    fastavro.parse_schema(inlined(name), named_schemas={})
    defined: list[str] = []

    def visit(node: Json) -> None:
        if is_union(node):
            for branch in node:
                visit(branch)
        elif not isinstance(node, str):
            if "name" in node:
                defined.append(node["name"])
            for field in node.get("fields", ()):
                visit(field["type"])
            visit(node.get("items", "null"))

    visit(inlined(name))
    assert len(defined) == len(set(defined))
    assert defined[0] == name
