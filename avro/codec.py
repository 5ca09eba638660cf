"""Events to bytes and back: Avro single-object encoding (Avro 1.12, "Single-object encoding").

    C3 01 | CRC-64-AVRO of the writer's schema, 8 bytes little endian | Avro body

`encode` and `decode` carry the frame; `body_of` cuts it off, for the log's hash chain. A reader
finds the writer's schema by its fingerprint among those on disk and those ever released, and
resolves it against its own (Avro 1.12, "Schema resolution").
"""

import io
from collections.abc import Callable
from typing import Any, cast

import fastavro
import msgspec

from frontlog.avro import enums
from frontlog.avro.errors import FrontlogError
from frontlog.avro.events import RECORDS, Event
from frontlog.avro.schemas import NAMESPACE, Json, fingerprint, inlined, load_all, released

MARKER = b"\xc3\x01"
FRAME_BYTES = 10
asdict = msgspec.structs.asdict
_write: Callable[[io.BytesIO, Any, Any], None] = cast("Any", fastavro).schemaless_writer
_read: Callable[[io.BytesIO, Any, Any], Any] = cast("Any", fastavro).schemaless_reader


class Undecodable(FrontlogError):
    """Bytes that are not an event this version can read; the message says what they look like."""


class _Kind:
    """How one record class goes to and from plain Avro data."""

    def __init__(self, cls: type[Event], kinds: dict[str, "_Kind"]) -> None:
        self.cls = cls
        self.name = cls.__name__
        fields = load_all()[self.name]["fields"]
        self.down: list[tuple[str, Callable[[Any], Any]]] = []
        self.up: list[tuple[str, Callable[[Any], Any]]] = []
        for field in fields:
            self._field(field["name"], field["type"], kinds)

    def _field(self, name: str, kind: Json, kinds: dict[str, "_Kind"]) -> None:
        if isinstance(kind, list):
            inner = str(next(k for k in cast("list[str]", kind) if k != "null"))
            if inner in kinds or inner == self.name:
                self.down.append((name, _optional_down(inner, kinds, self)))
                self.up.append((name, _optional_up(inner, kinds, self)))
        elif isinstance(kind, dict):
            items = str(cast("Json", kind["items"]))
            if items in kinds:
                nested = kinds[items]
                self.down.append((name, nested.to_plains))
                self.up.append((name, nested.from_plains))
            else:
                self.up.append((name, tuple))
        elif kind in kinds:
            nested = kinds[kind]
            self.down.append((name, nested.to_plain))
            self.up.append((name, nested.from_plain))
        elif kind not in ("string", "long", "int", "boolean", "double", "bytes"):
            members: dict[str, Any] = {member.value: member for member in getattr(enums, kind)}
            self.up.append((name, members.__getitem__))

    def to_plain(self, event: Event) -> dict[str, Any]:
        """The event as fastavro wants it."""
        plain = asdict(event)
        for name, change in self.down:
            plain[name] = change(plain[name])
        return plain

    def to_plains(self, events: tuple[Event, ...]) -> list[dict[str, Any]]:
        """An array of records as fastavro wants it."""
        return [self.to_plain(event) for event in events]

    def from_plains(self, plains: list[dict[str, Any]]) -> tuple[Event, ...]:
        """The records of an array that fastavro read."""
        return tuple(self.from_plain(plain) for plain in plains)

    def from_plain(self, plain: dict[str, Any]) -> Event:
        """The event of what fastavro read."""
        for name, change in self.up:
            plain[name] = change(plain[name])
        return self.cls(**plain)


def _optional_down(inner: str, kinds: dict[str, _Kind], own: _Kind) -> Callable[[Any], Any]:
    nested, full = kinds.get(inner, own), f"{NAMESPACE}.{inner}"
    return lambda v: None if v is None else (full, nested.to_plain(v))  # the branch named: no trial of each


def _optional_up(inner: str, kinds: dict[str, _Kind], own: _Kind) -> Callable[[Any], Any]:
    nested = kinds.get(inner, own)
    return lambda v: None if v is None else nested.from_plain(v)


def _build() -> tuple[
    dict[str, _Kind], dict[type[Event], tuple[Any, bytes, _Kind]], dict[bytes, tuple[Any, _Kind]]
]:
    kinds: dict[str, _Kind] = {}
    writers: dict[type[Event], tuple[Any, bytes, _Kind]] = {}
    readers: dict[bytes, tuple[Any, _Kind]] = {}
    for cls in RECORDS:
        kind = kinds[cls.__name__] = _Kind(cls, kinds)
        schema = inlined(cls.__name__)
        parsed, mark = fastavro.parse_schema(schema), fingerprint(schema)
        writers[cls] = (parsed, MARKER + mark, kind)
        readers[mark] = (parsed, kind)
    return kinds, writers, readers


_KINDS, _WRITERS, _READERS = _build()
_OLDER: dict[bytes, tuple[Any, Any, _Kind]] = {}


def encode(event: Event) -> bytes:
    """The event in single-object encoding."""
    schema, frame, kind = _WRITERS[type(event)]
    out = io.BytesIO()
    out.write(frame)
    _write(out, schema, kind.to_plain(event))
    return out.getvalue()


def body_of(data: bytes) -> bytes:
    """The Avro body of an encoded event, without its frame."""
    return data[FRAME_BYTES:]


def schema_fingerprint(cls: type[Event]) -> bytes:
    """The fingerprint that `encode` puts in front of events of a class, 8 bytes."""
    return _WRITERS[cls][1][2:]


def decode(data: bytes) -> Event:
    """The event of single-object encoded bytes; raises Undecodable."""
    if data[:2] != MARKER or len(data) < FRAME_BYTES:
        raise Undecodable(
            f"not an Avro single-object record: starts with {data[:2].hex() or 'nothing'}, wanted c301"
        )
    mark = data[2:FRAME_BYTES]
    found = _READERS.get(mark)
    source = io.BytesIO(data)
    source.seek(FRAME_BYTES)
    try:
        if found is not None:
            schema, kind = found
            plain = _read(source, schema, None)
        else:
            writer, schema, kind = _older(mark)
            plain = _read(source, writer, schema)
        event = kind.from_plain(cast("dict[str, Any]", plain))
    except Undecodable:
        raise
    except Exception as exc:  # fastavro raises whatever the bytes lead it into
        raise Undecodable(
            f"damaged Avro body under fingerprint {mark.hex()}: {type(exc).__name__}: {exc}"
        ) from exc
    if source.tell() != len(data):
        raise Undecodable(f"{len(data) - source.tell()} bytes left over behind a {kind.name}")
    return event


def _older(mark: bytes) -> tuple[Any, Any, _Kind]:
    """Writer's schema, reader's schema and class for a fingerprint that is not a current one."""
    found = _OLDER.get(mark)
    if found is None:
        schema = released().get(mark)
        if schema is None or schema["name"] not in _KINDS:
            raise Undecodable(
                f"unknown schema fingerprint {mark.hex()}: if a newer frontlog wrote it, upgrade"
            )
        kind = _KINDS[schema["name"]]
        found = _OLDER[mark] = (fastavro.parse_schema(schema), _WRITERS[kind.cls][0], kind)
    return found
