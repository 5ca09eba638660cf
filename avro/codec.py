"""Events to bytes and back: Avro single-object encoding (Avro 1.12, "Single-object encoding").

    C3 01 | CRC-64-AVRO of the writer's schema, 8 bytes little endian | Avro body

`encode` and `decode` carry the frame; `body_of` cuts it off, for the log's hash chain. Bodies of the
current schemas are read and written by `wire.py`. Others are found by their fingerprint among those
ever released, and fastavro resolves them against ours (Avro 1.12, "Schema resolution").
"""

import io
from collections.abc import Callable
from typing import Any, cast

import fastavro
import msgspec

from frontlog.avro import enums, wire
from frontlog.avro.errors import FrontlogError
from frontlog.avro.events import RECORDS, Event
from frontlog.avro.schemas import Json, fingerprint, inlined, load_all, released

MARKER = b"\xc3\x01"
FRAME_BYTES = 10
asdict = msgspec.structs.asdict
_read: Callable[[io.BytesIO, Any, Any], Any] = cast("Any", fastavro).schemaless_reader


class Undecodable(FrontlogError):
    """Bytes that are not an event this version can read; the message says what they look like."""


class UnknownSchema(Undecodable):
    """An event under a schema that this version doesn't know: a newer one wrote it, or bytes that are none."""


class _Kind:
    """How what fastavro read of an older writer's record becomes an event of ours."""

    def __init__(self, cls: type[Event], kinds: dict[str, "_Kind"]) -> None:
        self.cls = cls
        self.name = cls.__name__
        self.up: list[tuple[str, Callable[[Any], Any]]] = []
        for field in load_all()[self.name]["fields"]:
            self._field(field["name"], field["type"], kinds)

    def _field(self, name: str, kind: Json, kinds: dict[str, "_Kind"]) -> None:
        if isinstance(kind, list):
            inner = str(next(k for k in cast("list[str]", kind) if k != "null"))
            if inner in kinds or inner == self.name:
                self.up.append((name, _optional_up(inner, kinds, self)))
        elif isinstance(kind, dict):
            items = str(cast("Json", kind["items"]))
            self.up.append((name, kinds[items].from_plains if items in kinds else tuple))
        elif kind in kinds:
            self.up.append((name, kinds[kind].from_plain))
        elif kind not in ("string", "long", "int", "boolean", "double", "bytes"):
            members: dict[str, Any] = {member.value: member for member in getattr(enums, kind)}
            self.up.append((name, members.__getitem__))

    def from_plains(self, plains: list[dict[str, Any]]) -> tuple[Event, ...]:
        """The records of an array that fastavro read."""
        return tuple(self.from_plain(plain) for plain in plains)

    def from_plain(self, plain: dict[str, Any]) -> Event:
        """The event of what fastavro read."""
        for name, change in self.up:
            plain[name] = change(plain[name])
        return self.cls(**plain)


def _optional_up(inner: str, kinds: dict[str, _Kind], own: _Kind) -> Callable[[Any], Any]:
    nested = kinds.get(inner, own)
    return lambda v: None if v is None else nested.from_plain(v)


def _build() -> tuple[dict[str, _Kind], dict[type[Event], bytes], dict[bytes, type[Event]]]:
    kinds: dict[str, _Kind] = {}
    frames: dict[type[Event], bytes] = {}
    classes: dict[bytes, type[Event]] = {}
    for cls in RECORDS:
        kinds[cls.__name__] = _Kind(cls, kinds)
        mark = fingerprint(inlined(cls.__name__))
        frames[cls] = MARKER + mark
        classes[mark] = cls
    return kinds, frames, classes


_KINDS, _FRAMES, _CLASSES = _build()
_READERS = {frame: wire.READERS[cls] for cls, frame in _FRAMES.items()}
_OLDER: dict[bytes, tuple[Any, Any, _Kind]] = {}


def encode(event: Event) -> bytes:
    """The event in single-object encoding."""
    cls = type(event)
    return _FRAMES[cls] + wire.WRITERS[cls](event)


def body_of(data: bytes) -> bytes:
    """The Avro body of an encoded event, without its frame."""
    return data[FRAME_BYTES:]


def schema_fingerprint(cls: type[Event]) -> bytes:
    """The fingerprint that `encode` puts in front of events of a class, 8 bytes."""
    return _FRAMES[cls][2:]


def decode(data: bytes) -> Event:
    """The event of single-object encoded bytes; raises Undecodable."""
    reader = _READERS.get(data[:FRAME_BYTES])
    if reader is not None:
        try:
            event, end = reader(data, FRAME_BYTES)
            if end == len(data):
                return event
        except Exception:  # damaged bytes lead a reader anywhere; what is wrong with them is said below
            return _looked_at(data)
    return _looked_at(data)


def _looked_at(data: bytes) -> Event:
    """The event of bytes of an older writer; raises Undecodable for what can't be read."""
    if data[:2] != MARKER or len(data) < FRAME_BYTES:
        raise Undecodable(
            f"not an Avro single-object record: starts with {data[:2].hex() or 'nothing'}, wanted c301"
        )
    mark = data[2:FRAME_BYTES]
    cls = _CLASSES.get(mark)
    try:
        event, end = wire.READERS[cls](data, FRAME_BYTES) if cls is not None else _resolved(data, mark)
    except Undecodable:
        raise
    except Exception as exc:  # damaged bytes lead a reader anywhere
        raise Undecodable(
            f"damaged Avro body under fingerprint {mark.hex()}: {type(exc).__name__}: {exc}"
        ) from exc
    if end > len(data):
        what = f"{end - len(data)} bytes are missing"
        raise Undecodable(f"damaged Avro body under fingerprint {mark.hex()}: {what}")
    if end < len(data):
        raise Undecodable(f"{len(data) - end} bytes left over behind a {type(event).__name__}")
    return event


def _resolved(data: bytes, mark: bytes) -> tuple[Event, int]:
    """The event of an older writer's bytes, and the offset behind it."""
    writer, reader, kind = _older(mark)
    source = io.BytesIO(data)
    source.seek(FRAME_BYTES)
    event = kind.from_plain(cast("dict[str, Any]", _read(source, writer, reader)))
    return event, source.tell()


def _older(mark: bytes) -> tuple[Any, Any, _Kind]:
    """Writer's schema, reader's schema and class for a fingerprint that is not a current one."""
    found = _OLDER.get(mark)
    if found is None:
        schema = released().get(mark)
        if schema is None or schema["name"] not in _KINDS:
            raise UnknownSchema(
                f"unknown schema fingerprint {mark.hex()}: if a newer frontlog wrote it, upgrade"
            )
        kind = _KINDS[schema["name"]]
        parse = fastavro.parse_schema
        found = _OLDER[mark] = (parse(schema), parse(inlined(kind.name)), kind)
    return found
