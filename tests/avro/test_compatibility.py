"""Old logs and old readers live with every change of a schema: the rules of `avro/compat.py`, and what was released.

Not verified: readers other than fastavro.
"""

import copy
import io
import json
from pathlib import Path
from typing import Any, cast

import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from frontlog.avro import codec, release, schemas
from frontlog.avro.compat import breaks, release_breaks
from frontlog.avro.enums import Verdict
from frontlog.avro.errors import ConfigError
from frontlog.avro.events import Document, Event
from frontlog.avro.schemas import Json, fingerprint, inlined, releases
from support.examples import plain_of

RELEASES = releases()
RELEASED = [(file, name) for file, release in RELEASES.items() for name in release]


def written(schema: Json, plain: Any) -> bytes:
    """A record in single-object encoding, as the version that had this schema wrote it."""
    out = io.BytesIO()
    cast("Any", fastavro).schemaless_writer(out, fastavro.parse_schema(schema), plain)
    return codec.MARKER + fingerprint(schema) + out.getvalue()


def is_array(plain: Any) -> bool:
    return isinstance(plain, list)


def holds(value: Any, plain: Any) -> bool:
    """Whether an event says what the plain data said, as far as it still has the fields."""
    if isinstance(value, Event):
        return all(holds(getattr(value, k), v) for k, v in plain.items() if k in value.__struct_fields__)
    if is_array(plain):
        return all(holds(part, plain_part) for part, plain_part in zip(value, plain, strict=True))
    return bool(value == plain)


def test_there_is_a_release_to_be_compatible_with() -> None:
    assert min(RELEASES) == "0001.jsonl"
    assert all(
        fingerprint(s) in schemas.released() for release in RELEASES.values() for s in release.values()
    )


@pytest.mark.parametrize(("file", "name"), RELEASED)
@settings(max_examples=10, deadline=None)
@given(data=st.data())
def test_every_released_schema_is_read_by_todays_reader(file: str, name: str, data: st.DataObject) -> None:
    schema = RELEASES[file][name]
    plain = data.draw(plain_of(schema))
    event = codec.decode(written(schema, plain))
    assert type(event).__name__ == name
    assert holds(event, plain)


@pytest.mark.parametrize("file", RELEASES)
def test_todays_schemas_break_no_release(file: str) -> None:
    assert release_breaks(RELEASES[file], release.current()) == []


BASE: Json = {
    "type": "record",
    "name": "Outer",
    "namespace": "frontlog",
    "fields": [
        {"name": "number", "type": "int", "doc": "a number"},
        {"name": "extra", "type": "long", "default": 5},
        {"name": "maybe", "type": ["null", "string"], "default": None},
        {
            "name": "inner",
            "type": {
                "type": "record",
                "name": "Inner",
                "namespace": "frontlog",
                "fields": [
                    {"name": "text", "type": "string"},
                    {
                        "name": "kind",
                        "type": {
                            "type": "enum",
                            "name": "Kind",
                            "namespace": "frontlog",
                            "symbols": ["a", "b", "c"],
                        },
                    },
                ],
            },
        },
        {"name": "more", "type": {"type": "array", "items": "frontlog.Inner"}},
    ],
}
FIELDS = {field["name"]: n for n, field in enumerate(BASE["fields"])}


def changed(path: str, value: Any) -> Json:
    """BASE with another value at a path of keys and field names; DROP takes it away."""
    schema = copy.deepcopy(BASE)
    node: Any = schema
    *way, last = (int(step) if step.isdigit() else step for step in path.split("/"))
    for step in way:
        node = node[step]
    if value is DROP:
        del node[last]
    else:
        node[last] = value
    return schema


DROP = object()
INNER = f"fields/{FIELDS['inner']}/type"
NUMBER, EXTRA, MAYBE, MORE = (f"fields/{FIELDS[name]}" for name in ("number", "extra", "maybe", "more"))
KIND = f"{INNER}/fields/1/type"
NEW_FIELDS = [*BASE["fields"], {"name": "late", "type": "string"}]
BREAKING = {
    "a field without default goes": (NUMBER, DROP, "Outer.number: field removed"),
    "a nested field without default goes": (f"{INNER}/fields/0", DROP, "Outer.inner.text: field removed"),
    "a field is renamed": (f"{NUMBER}/name", "figure", "Outer.number: field removed"),
    "a field without default comes": ("fields", NEW_FIELDS, "Outer.late: field added without default"),
    "a number widens": (f"{NUMBER}/type", "long", "Outer.number: type changed from int to long"),
    "a type becomes another": (f"{INNER}/fields/0/type", "bytes", "from string to bytes"),
    "a field may be null": (f"{NUMBER}/type", ["null", "int"], "from int to null or int"),
    "a field may be null no more": (f"{MAYBE}/type", "string", "from null or string to string"),
    "a branch changes": (f"{MAYBE}/type", ["null", "bytes"], "from null or string to null or bytes"),
    "branches swap": (f"{MAYBE}/type", ["string", "null"], "to string or null"),
    "an array's items change": (f"{MORE}/type/items", "string", "Outer.more[]: type changed"),
    "an array becomes its item": (f"{MORE}/type", "frontlog.Inner", "from array to record"),
    "a record becomes an enum": (f"{INNER}/type", "enum", "Outer.inner: type changed"),
    "a symbol goes": (f"{KIND}/symbols", ["a", "b"], "Outer.inner.kind: symbol c of frontlog.Kind is gone"),
    "a symbol is renamed": (f"{KIND}/symbols", ["a", "b", "see"], "symbol c of frontlog.Kind is gone"),
    "a symbol moves": (f"{KIND}/symbols", ["a", "c", "b"], "symbol b of frontlog.Kind moved from 1 to 2"),
    "a symbol comes before": (f"{KIND}/symbols", ["z", "a", "b", "c"], "symbol a of frontlog.Kind moved"),
    "a record is renamed": ("name", "Other", "name changed from record frontlog.Outer"),
    "the namespace changes": ("namespace", "other", "name changed from record frontlog.Outer"),
    "an enum is renamed": (f"{KIND}/name", "Sort", "Outer.inner.kind: name changed from enum frontlog.Kind"),
    "a default goes": (f"{EXTRA}/default", DROP, "Outer.extra: default taken away"),
    "a default changes": (f"{EXTRA}/default", 6, "Outer.extra: default changed from 5 to 6"),
    "a default changes its type": (f"{EXTRA}/default", 5.0, "Outer.extra: default changed from 5 to 5.0"),
}


@pytest.mark.parametrize("case", BREAKING)
def test_each_breaking_change_is_found_and_named(case: str) -> None:
    path, value, wanted = BREAKING[case]
    found = breaks(BASE, changed(path, value))
    assert [sentence for sentence in found if wanted in sentence], found


HARMLESS = {
    "nothing": ("name", "Outer"),
    "a field with default comes last": ("fields", [*BASE["fields"], {**NEW_FIELDS[-1], "default": ""}]),
    "a field with default comes first": ("fields", [{**NEW_FIELDS[-1], "default": ""}, *BASE["fields"]]),
    "a field with default goes": (EXTRA, DROP),
    "a nullable field with default goes": (MAYBE, DROP),
    "a field gets a default": (f"{NUMBER}/default", 1),
    "a doc changes": (f"{NUMBER}/doc", "another doc"),
    "fields change places": ("fields", [BASE["fields"][1], BASE["fields"][0], *BASE["fields"][2:]]),
    "a symbol comes last": (f"{KIND}/symbols", ["a", "b", "c", "d"]),
}


@pytest.mark.parametrize("case", HARMLESS)
def test_a_harmless_change_is_let_through(case: str) -> None:
    assert breaks(BASE, changed(*HARMLESS[case])) == []


def test_a_record_that_holds_itself_is_compared_once() -> None:
    tree: Json = {
        "type": "record",
        "name": "Tree",
        "namespace": "frontlog",
        "fields": [{"name": "twigs", "type": {"type": "array", "items": "frontlog.Tree"}}],
    }
    assert breaks(tree, tree) == []
    assert len(breaks(tree, {**tree, "fields": []})) == 1


def test_a_record_that_is_gone_breaks_the_release() -> None:
    current = release.current()
    without = {name: schema for name, schema in current.items() if name != "Position"}
    assert release_breaks(current, without) == ["Position: the record is gone, old logs hold it"]
    assert release_breaks(without, current) == []


def test_a_log_from_before_a_field_reads_its_default(monkeypatch: pytest.MonkeyPatch) -> None:
    older = inlined("Document")
    older["fields"] = [field for field in older["fields"] if field["name"] != "body"]
    plain = {field["name"]: "x" for field in older["fields"] if field["type"] == "string"}
    plain |= {field["name"]: b"x" for field in older["fields"] if field["type"] == "bytes"}
    plain |= {field["name"]: 7 for field in older["fields"] if field["type"] in ("int", "long")}
    data = written(older, {**plain, "verdict": "near"})
    with pytest.raises(codec.Undecodable, match="unknown schema fingerprint"):
        codec.decode(data)
    monkeypatch.setattr(codec, "released", lambda: {fingerprint(older): older})
    monkeypatch.setattr(codec, "_OLDER", {})
    event = codec.decode(data)
    assert isinstance(event, Document)
    assert (event.body, event.verdict, event.seq, event.url) == (None, Verdict.NEAR, 7, "x")
    for cut in range(codec.FRAME_BYTES, len(data)):
        with pytest.raises(codec.Undecodable, match="damaged"):
            codec.decode(data[:cut])


def test_a_release_is_written_once_for_each_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "history"
    now = {"Outer": BASE}
    monkeypatch.setattr(release, "current", lambda: now)
    assert release.write(folder) == folder / "0001.jsonl"
    assert releases(folder) == {"0001.jsonl": {"Outer": BASE}}
    assert release.write(folder) is None
    now["Outer"] = changed(f"{NUMBER}/doc", "a better doc")
    assert release.write(folder) is None
    now["Outer"] = changed(f"{KIND}/symbols", ["a", "b", "c", "d"])
    assert release.write(folder) == folder / "0002.jsonl"
    now["Outer"] = BASE
    with pytest.raises(ConfigError, match=r"symbol d of frontlog\.Kind is gone"):
        release.write(folder)
    assert sorted(path.name for path in folder.iterdir()) == ["0001.jsonl", "0002.jsonl"]
    monkeypatch.setattr(release, "write", lambda: None)
    assert release.main() == 0
    assert "no schema changed" in capsys.readouterr().out


def test_a_release_holds_every_record_a_line_each_sorted() -> None:
    for file, found in RELEASES.items():
        lines = (schemas.HISTORY / file).read_text(encoding="utf-8").splitlines()
        assert [json.loads(line)["name"] for line in lines] == sorted(found)
        assert len(lines) == len(found)
