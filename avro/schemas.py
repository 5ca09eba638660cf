"""The Avro schemas on disk: loading, inlining of named types, fingerprints, released versions.

`avro/NAME.avsc` holds one named type each; a type that uses another names it. A writer needs them
whole, so `inlined` puts each named type where it is first used (Avro 1.12, "Names"). `history/`
holds every schema that was ever released, one a line, so that any old log can be read.
"""

import json
from functools import cache
from pathlib import Path
from typing import Any

from fastavro.schema import fingerprint as _fingerprint
from fastavro.schema import to_parsing_canonical_form

FOLDER = Path(__file__).resolve().parent
HISTORY = FOLDER / "history"
NAMESPACE = "frontlog"
Json = Any


@cache
def load_all() -> dict[str, Json]:
    """Every named type by its name, as it stands in its file."""
    found: dict[str, Json] = {}
    for path in sorted(FOLDER.glob("*.avsc")):
        schema = json.loads(path.read_text(encoding="utf-8"))
        found[schema["name"]] = schema
    return found


def is_union(node: Json) -> bool:
    """Whether a schema is a union, which JSON writes as an array."""
    return isinstance(node, list)


def inlined(name: str) -> Json:
    """The schema of `name` with every named type defined where it is first used."""
    types, seen = load_all(), set[str]()

    def expand(node: Json) -> Json:
        if isinstance(node, str):
            if node not in types:
                return node
            if node in seen:
                return f"{NAMESPACE}.{node}"
            seen.add(node)
            whole = dict(types[node])
            if whole["type"] == "record":
                whole["fields"] = [{**field, "type": expand(field["type"])} for field in whole["fields"]]
            return whole
        if is_union(node):
            return [expand(item) for item in node]
        return {**node, "items": expand(node["items"])}

    return expand(name)


def fingerprint(schema: Json) -> bytes:
    """CRC-64-AVRO of the schema's parsing canonical form, little endian as single-object encoding has it."""
    return bytes.fromhex(_fingerprint(to_parsing_canonical_form(schema), "CRC-64-AVRO"))


def releases(folder: Path = HISTORY) -> dict[str, dict[str, Json]]:
    """File name → record name → inlined schema, oldest release first."""
    found: dict[str, dict[str, Json]] = {}
    for path in sorted(folder.glob("*.jsonl")):
        schemas = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        found[path.name] = {schema["name"]: schema for schema in schemas}
    return found


@cache
def released() -> dict[bytes, Json]:
    """Every schema ever released, by fingerprint."""
    return {fingerprint(schema): schema for release in releases().values() for schema in release.values()}
