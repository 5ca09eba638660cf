"""Events as plain data that goes into JSON: enums by name, bytes as text where they are text, else as hexadecimal."""

from enum import Enum
from typing import Any, cast

import msgspec

from frontlog.avro.codec import Undecodable, decode
from frontlog.avro.enums import Topic
from frontlog.avro.events import Event
from frontlog.processors.control import BadControl, from_json

UNDECODABLE = "undecodable"
_TEXTS = frozenset({"text", "robots_txt", "value"})
"""Fields of bytes that hold text as a server or a person wrote it."""


def plain(value: object, name: str = "") -> Any:
    """A field's value as JSON has it."""
    if isinstance(value, Event):
        return {field: plain(getattr(value, field), field) for field in value.__struct_fields__}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, bytes):
        return _text(value) if name in _TEXTS else value.hex()
    if isinstance(value, tuple):
        return [plain(item, name) for item in cast("tuple[object, ...]", value)]
    return value


def _text(value: bytes) -> str:
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return f"hex:{value.hex()}"


def read(topic: str, value: bytes) -> tuple[str, Event | None, dict[str, Any]]:
    """(type, event, fields) of a record; a wish in JSON is a Control like any other."""
    try:
        event = from_json(value) if topic == Topic.CONTROL.value and value[:1] == b"{" else decode(value)
    except (Undecodable, BadControl, msgspec.MsgspecError) as exc:
        return UNDECODABLE, None, {"error": str(exc), "value": _text(value)}
    return type(event).__name__, event, plain(event)
