"""The event classes are those of the schemas."""

from pathlib import Path
from typing import Any

import pytest

from frontlog.avro import events, generate
from frontlog.avro.enums import Reason
from frontlog.avro.events import RECORDS, Event
from frontlog.avro.schemas import Json, is_union, load_all
from support.examples import example_event

RECORD_SCHEMAS = {name: schema for name, schema in load_all().items() if schema["type"] == "record"}


def test_events_py_is_what_the_generator_writes() -> None:
    text = Path(events.__file__).read_text(encoding="utf-8")
    assert text == generate.render(), "run: python -m frontlog.avro.generate"


def test_each_record_has_its_class_after_those_that_it_uses() -> None:
    names = [cls.__name__ for cls in RECORDS]
    assert sorted(names) == sorted(RECORD_SCHEMAS)
    for n, name in enumerate(names):
        used = {kind for field in RECORD_SCHEMAS[name]["fields"] for kind in names_in(field["type"])}
        assert used & RECORD_SCHEMAS.keys() <= set(names[:n])


def names_in(kind: Json) -> set[str]:
    if isinstance(kind, str):
        return {kind}
    if is_union(kind):
        return {name for branch in kind for name in names_in(branch)}
    return names_in(kind["items"])


@pytest.mark.parametrize("cls", RECORDS, ids=lambda cls: cls.__name__)
def test_a_class_has_the_fields_of_its_schema_and_cannot_be_changed(cls: type[Event]) -> None:
    fields = RECORD_SCHEMAS[cls.__name__]["fields"]
    assert cls.__struct_fields__ == tuple(field["name"] for field in fields)
    assert cls.__doc__ == RECORD_SCHEMAS[cls.__name__]["doc"]
    with pytest.raises(AttributeError):
        setattr(example_event(cls), fields[0]["name"], None)


DEFAULTS: dict[str, tuple[Json, Json, object]] = {
    "string": ("string", 'a "b"\n', 'a "b"\n'),
    "long": ("long", -1, -1),
    "boolean": ("boolean", True, True),
    "double": ("double", 0.5, 0.5),
    "bytes": ("bytes", "\u00ff\u0000", b"\xff\0"),
    "array": ({"type": "array", "items": "string"}, [], ()),
    "enum": ("Reason", "ok", Reason.OK),
    "null": (["null", "string"], None, None),
}


@pytest.mark.parametrize("case", DEFAULTS)
def test_a_default_of_the_schema_is_the_default_of_the_class(
    case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind, default, wanted = DEFAULTS[case]
    thing: Json = {
        "type": "record",
        "name": "Thing",
        "doc": "A thing.",
        "fields": [{"name": "field", "type": kind, "default": default}],
    }
    reason = load_all()["Reason"]
    monkeypatch.setattr(generate, "load_all", lambda: {"Thing": thing, "Reason": reason})
    space: dict[str, Any] = {"__name__": "made"}
    exec(generate.render(), space)
    assert space["Thing"]().field == wanted
