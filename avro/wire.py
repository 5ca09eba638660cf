"""Avro bodies of events, read and written by functions made from the schemas (Avro 1.12, "Binary encoding").

A function of its own for each record costs a third of what a general reader does, since it makes no dicts and asks no
schema: 4 to 8 us an event. Source is generated and compiled once, at import, from `load_all()` alone.

    reader: (bytes, offset) -> (event, offset behind it)      writer: event -> bytes

What most records share is read at once: the bytes of a few fields that have few values (RUNS) are looked up among those that
were read before. A struct gets at most KEYWORDS_MAX fields by name at a time, since CPython makes a dict of more.

A reader raises IndexError, ValueError or UnicodeDecodeError for bytes that are none of its record; strings that end
behind the bytes show in an offset behind their end, which the caller compares.
"""

import struct
from collections.abc import Callable
from functools import lru_cache
from typing import Any, cast

import msgspec
from msgspec.structs import replace

from frontlog.avro import enums
from frontlog.avro.events import RECORDS, Event
from frontlog.avro.schemas import Json, load_all

Reader = Callable[[bytes, int], tuple[Event, int]]
Writer = Callable[[Event], bytes]
_VARINT_BITS_MAX = 63
KEYWORDS_MAX = 14
RUNS: dict[str, tuple[tuple[str, ...], ...]] = {
    "Transition": (
        ("from_state", "to_state", "reason", "detail", "cause_topic"),
        ("fence", "lease_owner", "deadline_ms", "attempts", "failures"),
        ("result", "clock", "merged"),
    ),
    "FirstSeen": (
        ("raw", "requested", "source_kind"),
        ("nofollow", "chain", "scope", "changed_at_ms", "via"),
    ),
}
"""Neighbouring fields of which most take one byte in most records; the last may be a string of few values."""
RUNS_KEPT_MAX = 4_096
"""Different bytes of one run that are remembered."""
SELDOM = {
    "Transition": (
        "detail",
        "fence",
        "lease_owner",
        "deadline_ms",
        "attempts",
        "failures",
        "result",
        "clock",
        "merged",
    )
}
"""Fields that are what they are by default in most records."""
_DOUBLE = struct.Struct("<d")
_LOW = tuple(bytes((n & 127 | 128, n >> 7 | 128)) for n in range(1 << 14))
"""The first two bytes of a varint that goes on behind them."""
_SMALL = tuple(bytes((n,)) if n < 128 else bytes((n & 127 | 128, n >> 7)) for n in range(1 << 14))
"""Varints of two bytes at most."""

_TIMES: dict[bytes, int] = {}


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


def _time(data: bytes, at: int, value: int) -> tuple[int, int]:
    """As `_tail`, for a time: those of one batch are few, and take six bytes."""
    key = data[at - 1 : at + 5]
    known = _TIMES.get(key)
    if known is not None:
        return known, at + 5
    time, end = _tail(data, at, value)
    if end == at + 5 and len(key) == 6:
        if len(_TIMES) >= RUNS_KEPT_MAX:
            _TIMES.clear()
        _TIMES[key] = time
    return time, end


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

    def __init__(self, cls: type[Event], types: dict[str, Json]) -> None:
        self.name = cls.__name__
        self.types = types
        self.enums: set[str] = set()
        self.space: dict[str, object] = {}
        self.kinds: dict[str, Json] = {field["name"]: field["type"] for field in types[self.name]["fields"]}
        self.read: list[str] = [f"def read_{self.name}(b, i):"]
        self.write: list[str] = [f"def write_{self.name}(o):"]
        self._reader(cls)
        parts = [self._writing(kind, f"o.{name}") for name, kind in self.kinds.items()]
        self.write.append(f"    return b''.join(({''.join(f'{part}, ' for part in parts)}))")

    def _reader(self, cls: type[Event]) -> None:
        """Lines that read every field, in order, and make the event; what is as usual in `SELDOM` isn't even unpacked."""
        fields = msgspec.structs.fields(cls)
        usual = {field.name: field.default for field in fields if field.name in SELDOM.get(self.name, ())}
        runs = {run[0]: run for run in RUNS.get(self.name, ())}
        names = iter(self.kinds)
        as_usual: list[str] = []
        later: list[str] = []
        for name in names:
            run = runs.get(name, (name,))
            assert run == (name, *(next(names) for _ in run[1:])), f"{self.name}: {run} are no neighbours"
            seldom = all(one in usual for one in run)
            if len(run) == 1:
                self._reading(self.kinds[name], f"f_{name}", "    ")
                as_usual += [f"f_{name} == {usual[name]!r}"] if seldom else []
                continue
            tag = f"{name}_{self.name}"
            self.space[f"z_{tag}"] = tuple(usual[one] for one in run) if seldom else None
            self._run(run, tag)
            unpacked = f"    {', '.join(f'f_{one}' for one in run)} = r"
            if seldom:
                self.read.append(f"    r_{name} = r")
                as_usual.append(f"r_{name} is z_{tag}")
                later.append(f"{unpacked}_{name}")
            else:
                self.read.append(unpacked)
                as_usual += [f"f_{one} == {usual[one]!r}" for one in run if one in usual]
        needed = sorted(
            set(self.kinds) - usual.keys(), key=[*(f.name for f in fields if f.required), *self.kinds].index
        )
        if as_usual:
            self.read.append(f"    if {' and '.join(as_usual)}: return {self._made(needed)}, i")
        self.read += [*later, f"    return {self._made([*needed, *usual])}, i"]

    def _made(self, names: list[str]) -> str:
        """The expression of an event with these fields."""
        made = ""
        for at in range(0, max(len(names), 1), KEYWORDS_MAX):
            values = ", ".join(f"{name}=f_{name}" for name in names[at : at + KEYWORDS_MAX])
            made = f"replace({made}, {values})" if made else f"cls_{self.name}({values})"
        return made

    def _run(self, run: tuple[str, ...], tag: str) -> None:
        """Lines that read neighbouring fields into a tuple `r`."""
        self.space[f"kept_{tag}"] = dict[bytes, object]()
        last = f" + (b[i + {len(run) - 1}] >> 1)" if self.kinds[run[-1]] == "string" else ""
        self.read += [
            f"    s, end = i, i + {len(run)}{last}",
            f"    k = b[i:end]; r = kept_{tag}.get(k)",
            "    if r is not None: i = end",
            "    else:",
        ]
        for one in run:
            self._reading(self.kinds[one], f"f_{one}", "        ")
        self.read += [
            f"        r = ({', '.join(f'f_{one}' for one in run)})",
            f"        if r == z_{tag}: r = z_{tag}",
            f"        if i == end and i - s == len(k) and len(kept_{tag}) < {RUNS_KEPT_MAX}: kept_{tag}[k] = r",
        ]

    def _number(self, indent: str) -> None:
        self.read += [
            f"{indent}v = b[i]; i += 1",
            f"{indent}if v > 127:",
            f"{indent}    w = b[i]",
            f"{indent}    if w < 128: v = v & 127 | w << 7; i += 1",
            f"{indent}    else: v, i = tail(b, i, v)",
        ]

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
            if to.endswith("_ms"):
                self.read += [f"{indent}v = b[i]; i += 1", f"{indent}if v > 127: v, i = time(b, i, v)"]
            else:
                self._number(indent)
            add(f"{indent}{to} = ~(v >> 1) if v & 1 else v >> 1")
        elif kind in ("string", "bytes"):
            self._length(indent)
            piece = "b[i:e].decode()" if kind == "string" else "b[i:e]"
            add(f"{indent}if v: e = i + (v >> 1); {to} = {piece}; i = e")
            add(f"{indent}else: {to} = {'' if kind == 'string' else b''!r}")
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
        """Blocks until an empty one; a negative count is followed by the block's size, which nobody needs. Arrays whose
        strings are all empty are common."""
        inner = f"{indent}        "
        self._number(indent)
        self.read += [
            f"{indent}if not v: {to} = ()",
            f"{indent}else:",
            f"{indent}    x_{to} = []; add = x_{to}.append",
            f"{indent}    while v:",
            f"{inner}n_{to} = v >> 1",
            f"{inner}if v & 1:",
            f"{inner}    n_{to} = -~(v >> 1)",
            f"{inner}    v = b[i]; i += 1",
            f"{inner}    if v > 127: v, i = tail(b, i, v)",
        ]
        if items == "string":
            self.read += [
                f"{inner}if b.count(0, i, i + n_{to}) == n_{to}:",
                f"{inner}    x_{to} += ('',) * n_{to}; i += n_{to}; n_{to} = 0",
            ]
        self.read.append(f"{inner}for _ in range(n_{to}):")
        self._reading(items, "x", f"{inner}    ")
        self.read.append(f"{inner}    add(x)")
        self._number(inner)
        self.read.append(f"{indent}    {to} = tuple(x_{to})")

    def _writing(self, kind: Json, value: str) -> str:
        """An expression for the bytes of a value; lines before it where that takes some."""
        if isinstance(kind, list):
            null = cast("list[str]", kind).index("null")
            inner = next(one for one in cast("list[str]", kind) if one != "null")
            some, none = bytes((2 - 2 * null,)), bytes((2 * null,))
            return f"({none!r} if {value} is None else {some!r} + {self._writing(inner, value)})"
        if isinstance(kind, dict):
            items = self._writing(cast("Json", kind)["items"], "x")
            return f"(long(len(a)) + b''.join([{items} for x in a]) + b'\\0' if (a := {value}) else b'\\0')"
        if kind in ("long", "int"):
            long = "time_of" if value.endswith("_ms") else "long"
            return f"(small[n << 1] if 0 <= (n := {value}) < 8192 else {long}(n))"
        if kind == "string":
            size = "(small[len(d) << 1] if len(d := t.encode()) < 8192 else long(len(d)))"
            return f"({size} + d if (t := {value}) else b'\\0')"
        if kind == "bytes":
            return f"long(len({value})) + {value}"
        if kind == "boolean":
            return f"(b'\\1' if {value} else b'\\0')"
        if kind == "double":
            return f"pack({value})"
        if self.types[kind]["type"] == "record":
            return f"write_{kind}({value})"
        self.enums.add(kind)
        return f"as_{kind}[{value}]"


def _build() -> tuple[dict[type[Event], Reader], dict[type[Event], Writer]]:
    types = load_all()
    space: dict[str, Any] = {
        "tail": _tail, "time": _time, "replace": replace, "double": _DOUBLE.unpack, "pack": _DOUBLE.pack, "small": _SMALL,
        "long": _long, "time_of": lru_cache(RUNS_KEPT_MAX)(_long),
    }  # fmt: skip
    readers: dict[type[Event], Reader] = {}
    writers: dict[type[Event], Writer] = {}
    for cls in RECORDS:
        name = cls.__name__
        made = _Maker(cls, types)
        space[f"cls_{name}"] = cls
        space.update(made.space)
        for kind in made.enums:
            members = tuple(getattr(enums, kind))
            space[f"of_{kind}"] = members
            space[f"as_{kind}"] = {member: _long(n) for n, member in enumerate(members)}
        exec("\n".join([*made.read, *made.write]), space)  # our own text, made from the schemas only
        readers[cls], writers[cls] = space[f"read_{name}"], space[f"write_{name}"]
    return readers, writers


READERS, WRITERS = _build()
