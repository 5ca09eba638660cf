"""Avro bodies of events, read and written by functions made from the schemas (Avro 1.12, "Binary encoding").

A function of its own for each record costs a third of what a general reader does, since it makes no dicts and asks no
schema: 4 to 8 us an event. Source is generated and compiled once, at import, from `load_all()` alone.

    reader: (bytes, offset) -> (event, offset behind it)      writer: event -> bytes

A reader raises IndexError, ValueError or UnicodeDecodeError for bytes that are none of its record; strings that end
behind the bytes show in an offset behind their end, which the caller compares.
"""

import struct
from collections.abc import Callable
from typing import Any, cast

from frontlog.avro import enums
from frontlog.avro.events import RECORDS, Event
from frontlog.avro.schemas import Json, load_all

Reader = Callable[[bytes, int], tuple[Event, int]]
Writer = Callable[[Event], bytes]
_VARINT_BITS_MAX = 63
_DOUBLE = struct.Struct("<d")
_LOW = tuple(bytes((n & 127 | 128, n >> 7 | 128)) for n in range(1 << 14))
"""The first two bytes of a varint that goes on behind them."""
_SMALL = tuple(bytes((n,)) if n < 128 else bytes((n & 127 | 128, n >> 7)) for n in range(1 << 14))
"""Varints of two bytes at most."""


def _tail(data: bytes, at: int, value: int) -> tuple[int, int]:
    """The rest of a varint whose first byte is `value`, and where it ends."""
    value &= 127
    shift = 7
    while True:
        byte = data[at]
        at += 1
        if byte < 128:
            return value | byte << shift, at
        value |= (byte & 127) << shift
        shift += 7
        if shift > _VARINT_BITS_MAX:
            raise ValueError("a number of more than 64 bits")


def _varint(value: int) -> bytes:
    """An unsigned varint."""
    if value < 1 << 14:
        return _SMALL[value]
    if value < 1 << 28:
        return _LOW[value & 0x3FFF] + _SMALL[value >> 14]
    if value < 1 << 42:  # times, mostly
        return _LOW[value & 0x3FFF] + _LOW[value >> 14 & 0x3FFF] + _SMALL[value >> 28]
    return _LOW[value & 0x3FFF] + _varint(value >> 14)


def _long(value: int) -> bytes:
    """A number, zig-zag."""
    if not -(1 << 63) <= value < 1 << 63:
        raise ValueError(f"{value} does not fit into 64 bits")
    return _varint(value << 1 if value >= 0 else ~(value << 1))


class _Maker:
    """Makes the source of one record's reader and writer."""

    def __init__(self, name: str, fields: list[Json], types: dict[str, Json]) -> None:
        self.name = name
        self.types = types
        self.enums: set[str] = set()
        self.read: list[str] = [f"def read_{name}(b, i):"]
        self.write: list[str] = [f"def write_{name}(o):"]
        parts: list[str] = []
        for field in fields:
            self._reading(field["type"], f"f_{field['name']}", "    ")
            parts.append(self._writing(field["type"], f"o.{field['name']}"))
        values = ", ".join(f"{field['name']}=f_{field['name']}" for field in fields)
        self.read.append(f"    return cls_{name}({values}), i")
        self.write.append(f"    return b''.join(({''.join(f'{part}, ' for part in parts)}))")

    def _number(self, indent: str) -> None:
        self.read += [f"{indent}v = b[i]; i += 1", f"{indent}if v > 127: v, i = tail(b, i, v)"]

    def _length(self, indent: str) -> None:
        self._number(indent)
        self.read.append(f"{indent}if v & 1: raise ValueError('a negative length')")

    def _reading(self, kind: Json, to: str, indent: str) -> None:
        """Lines that read a value of a type into a variable."""
        add = self.read.append
        if isinstance(kind, list):
            null = cast("list[str]", kind).index("null")
            inner = next(one for one in cast("list[str]", kind) if one != "null")
            add(f"{indent}v = b[i]; i += 1")
            add(f"{indent}if v == {2 * null}: {to} = None")
            add(f"{indent}elif v == {2 - 2 * null}:")
            self._reading(inner, to, f"{indent}    ")
            add(f"{indent}else: raise ValueError('no such branch')")
        elif isinstance(kind, dict):
            self._reading_array(cast("Json", kind)["items"], to, indent)
        elif kind in ("long", "int"):
            self._number(indent)
            add(f"{indent}{to} = ~(v >> 1) if v & 1 else v >> 1")
        elif kind in ("string", "bytes"):
            self._length(indent)
            piece = "text(b[i:e], 'utf-8')" if kind == "string" else "b[i:e]"
            add(f"{indent}e = i + (v >> 1); {to} = {piece}; i = e")
        elif kind == "boolean":
            add(f"{indent}v = b[i]; i += 1")
            add(f"{indent}if v > 1: raise ValueError('a boolean of', v)")
            add(f"{indent}{to} = v == 1")
        elif kind == "double":
            add(f"{indent}{to} = double(b[i:i + 8])[0]; i += 8")
        elif self.types[kind]["type"] == "record":
            add(f"{indent}{to}, i = read_{kind}(b, i)")
        else:
            self.enums.add(kind)
            self._length(indent)
            add(f"{indent}{to} = of_{kind}[v >> 1]")

    def _reading_array(self, items: Json, to: str, indent: str) -> None:
        """Blocks until an empty one; a negative count is followed by the block's size, which nobody needs."""
        inner = f"{indent}        "
        self._number(indent)
        self.read += [
            f"{indent}if not v: {to} = ()",
            f"{indent}else:",
            f"{indent}    x_{to} = []",
            f"{indent}    while v:",
            f"{inner}n_{to} = v >> 1",
            f"{inner}if v & 1:",
            f"{inner}    n_{to} = -~(v >> 1)",
            f"{inner}    v = b[i]; i += 1",
            f"{inner}    if v > 127: v, i = tail(b, i, v)",
            f"{inner}for _ in range(n_{to}):",
        ]
        self._reading(items, "x", f"{inner}    ")
        self.read.append(f"{inner}    x_{to}.append(x)")
        self._number(inner)
        self.read.append(f"{indent}    {to} = tuple(x_{to})")

    def _writing(self, kind: Json, value: str) -> str:
        """An expression for the bytes of a value; lines before it where that takes some."""
        if isinstance(kind, list):
            null = cast("list[str]", kind).index("null")
            inner = next(one for one in cast("list[str]", kind) if one != "null")
            some, none = f"small[{2 - 2 * null}]", f"small[{2 * null}]"
            return f"({none} if {value} is None else {some} + {self._writing(inner, value)})"
        if isinstance(kind, dict):
            items = self._writing(cast("Json", kind)["items"], "x")
            return f"(long(len({value})) + b''.join([{items} for x in {value}]) + small[0] if {value} else small[0])"
        if kind in ("long", "int"):
            return f"(small[{value} << 1] if 0 <= {value} < 8192 else long({value}))"
        if kind == "string":
            return f"(sized({value}) if {value} else small[0])"
        if kind == "bytes":
            return f"long(len({value})) + {value}"
        if kind == "boolean":
            return f"(small[1] if {value} else small[0])"
        if kind == "double":
            return f"pack({value})"
        if self.types[kind]["type"] == "record":
            return f"write_{kind}({value})"
        self.enums.add(kind)
        return f"as_{kind}[{value}]"


def _sized(text: str) -> bytes:
    data = text.encode()
    size = len(data) << 1
    return (_SMALL[size] if size < 1 << 14 else _varint(size)) + data


def _build() -> tuple[dict[type[Event], Reader], dict[type[Event], Writer]]:
    types = load_all()
    space: dict[str, Any] = {
        "tail": _tail, "text": str, "double": _DOUBLE.unpack, "pack": _DOUBLE.pack, "small": _SMALL, "long": _long,
        "sized": _sized,
    }  # fmt: skip
    readers: dict[type[Event], Reader] = {}
    writers: dict[type[Event], Writer] = {}
    for cls in RECORDS:
        name = cls.__name__
        made = _Maker(name, types[name]["fields"], types)
        space[f"cls_{name}"] = cls
        for kind in made.enums:
            members = tuple(getattr(enums, kind))
            space[f"of_{kind}"] = members
            space[f"as_{kind}"] = {member: _long(n) for n, member in enumerate(members)}
        exec("\n".join([*made.read, *made.write]), space)  # our own text, made from the schemas only
        readers[cls], writers[cls] = space[f"read_{name}"], space[f"write_{name}"]
    return readers, writers


READERS, WRITERS = _build()
