"""Writes `avro/events.py` from the `.avsc` files: `python -m frontlog.avro.generate`.

The schemas are the source; the classes follow. A test runs `render` and compares, so that a schema
that was edited without its class is found before it is used.
"""

import json
import re
from pathlib import Path

from frontlog.avro import enums
from frontlog.avro.schemas import Json, is_union, load_all

PRIMITIVES = {
    "string": ("str", '""'),
    "long": ("int", "0"),
    "int": ("int", "0"),
    "boolean": ("bool", "False"),
    "double": ("float", "0.0"),
    "bytes": ("bytes", 'b""'),
}
HEADER = '''"""The event classes: frozen, typed, one for each record of `avro/*.avsc`. Generated; do not edit.

Fields stand in the order of the schema; their meaning and unit are the `doc` of the schema, shown
in `docs/reference/events.md`. Times end in `_ms`: milliseconds since the epoch, UTC.
"""

import msgspec

from frontlog.avro.enums import (
ENUMS)


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """Root of all event classes and of the records nested in them."""
'''


def _type_of(schema: Json) -> tuple[str, str | None]:
    """The annotation and the default (None: required) of one Avro type."""
    if is_union(schema):
        inner, _ = _type_of(next(s for s in schema if s != "null"))
        return f"{inner} | None", "None"
    if isinstance(schema, dict):
        inner, _ = _type_of(schema["items"])
        return f"tuple[{inner}, ...]", "()"
    assert isinstance(schema, str)
    if schema in PRIMITIVES:
        return PRIMITIVES[schema]
    return schema, None


def _default_of(kind: Json, default: Json) -> str:
    """A field's default in the schema as Python: code that leaves a field out says what an old log says."""
    if isinstance(kind, str) and kind in vars(enums):
        return f"{kind}.{getattr(enums, kind).named(default).name}"
    if kind == "bytes":
        # Avro 1.12, "Records": code points 0-255 are the bytes
        escaped = "".join(f"\\x{byte:02x}" for byte in default.encode("latin-1"))
        return f'b"{escaped}"'
    if isinstance(default, list):
        assert not default, "the default of an array is the empty one"
        return "()"
    assert isinstance(default, str | int | float), f"no default of type {kind} is known"
    return json.dumps(default) if isinstance(default, str) else repr(default)


def _order(records: dict[str, Json]) -> list[str]:
    """Names of the records, each after those that it uses."""
    done: list[str] = []

    def visit(name: str) -> None:
        if name in done:
            return
        for used in re.findall(r'"(\w+)"', json.dumps([f["type"] for f in records[name]["fields"]])):
            if used in records and used != name:
                visit(used)
        done.append(name)

    for name in sorted(records):
        visit(name)
    return done


def render() -> str:
    """The text of `events.py` for the schemas on disk."""
    schemas = load_all()
    named = {n: s for n, s in schemas.items() if s["type"] == "enum"}
    records = {n: s for n, s in schemas.items() if s["type"] == "record"}
    parts = [HEADER.replace("ENUMS", "".join(f"    {name},\n" for name in sorted(named)))]
    for name in _order(records):
        lines = [
            f"\n\nclass {name}(Event, frozen=True, kw_only=True):",
            f'    """{records[name]["doc"]}"""\n',
        ]
        for field in records[name]["fields"]:
            kind, default = _type_of(field["type"])
            if field.get("default") is not None:
                default = _default_of(field["type"], field["default"])
            lines.append(f"    {field['name']}: {kind}" + (f" = {default}" if default is not None else ""))
        parts.append("\n".join(lines) + "\n")
    names = "".join(f"    {name},\n" for name in _order(records))
    parts.append(f"\n\nRECORDS: tuple[type[Event], ...] = (\n{names})\n")
    parts.append('"""Every record class, each after those that it uses."""\n')
    return "".join(parts)


def main() -> None:
    """Write the file beside the schemas."""
    (Path(__file__).resolve().parent / "events.py").write_text(render(), encoding="utf-8")


if __name__ == "__main__":
    main()
