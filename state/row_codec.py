"""Builds the encoder and decoder of a row class from its fields.

Source is generated and compiled once per class, since a fold encodes and decodes tens of thousands of
rows a second and a loop over fields costs three times as much.
"""

import struct
from collections.abc import Callable, Sequence
from typing import Any, cast, get_type_hints

from frontlog.avro.enums import Documented

Codec = tuple[Callable[[Any], bytes], Callable[[bytes], Any]]
_EMPTY: dict[Any, object] = {str: "", bytes: b""}
_VARIABLE: dict[Any, tuple[str, str]] = {
    str: ("t.encode() if (t := {0}) else b''", "data[at:end].decode()"),
    bytes: ("{0}", "data[at:end]"),
}
"""How a variable field is written and read; most are empty most of the time."""
_JOINED = (
    "''.join([x + '\\n' for x in t]).encode() if (t := {0}) else b''",
    "tuple(data[at:end].decode().split('\\n')[:-1])",
)


def build(cls: type[Any], widths: dict[str, str]) -> Codec:
    """(encode, decode) for a row class; `widths` gives struct codes of integers that need fewer than 8 bytes."""
    maker = _Maker(cls, widths)
    return maker.encoder(), maker.decoder()


def build_of(cls: type[Any], widths: dict[str, str], given: Sequence[str]) -> Callable[..., bytes]:
    """What encodes the row that has the given fields, as arguments in this order, and defaults elsewhere. Those must be
    zero or empty."""
    return _Maker(cls, widths).encoder_of(given)


class _Maker:
    """What the functions of one row class are made of: its fixed numbers with their struct codes, its variable fields."""

    def __init__(self, cls: type[Any], widths: dict[str, str]) -> None:
        self.cls = cls
        hints = get_type_hints(cls)
        self.kinds: dict[str, Any] = {name: hints[name] for name in cls.__struct_fields__}
        self.space: dict[str, Any] = {"cls": cls}
        self.codes: dict[str, str] = {}
        self.variable: list[str] = []
        for name, kind in self.kinds.items():
            if isinstance(kind, type) and issubclass(kind, Documented):
                members: list[Any] = list(cast("Any", kind))
                self.space[f"ix_{name}"] = {member: i for i, member in enumerate(members)}
                self.space[f"at_{name}"] = members
                self.codes[name] = "B"
            elif kind is bool:
                self.codes[name] = "?"
            elif kind is int:
                self.codes[name] = widths.get(name, "q")
            else:
                self.variable.append(name)

    def encoder(self) -> Callable[[Any], bytes]:
        """From a row."""
        return cast(
            "Callable[[Any], bytes]", self._encoder("row", {name: f"row.{name}" for name in self.kinds})
        )

    def encoder_of(self, given: Sequence[str]) -> Callable[..., bytes]:
        """From some fields; the bytes of the others are zero."""
        encode = self._encoder(", ".join(given), {name: name for name in given})
        first: dict[str, Any] = {name: next(iter(self._values(name))) for name in given}
        others = (name for name in self.kinds if name not in given)
        assert all(getattr(self.cls(**first), name) in (0, "", b"", ()) for name in others)
        return encode

    def _values(self, name: str) -> list[Any]:
        return self.space.get(f"at_{name}") or [self.kinds[name]()]

    def _encoder(self, arguments: str, of: dict[str, str]) -> Callable[..., bytes]:
        """`of`: the expression of each field's value; a field without one is zero or empty."""
        lines = [f"def encode({arguments}):"]
        fixed: list[str] = []
        layout = ">"
        for name, code in self.codes.items():
            if name in of:
                fixed.append(f"ix_{name}[{of[name]}]" if f"ix_{name}" in self.space else of[name])
            layout += code if name in of else f"{struct.calcsize('>' + code)}x"
        variable = [name for name in self.variable if name in of]
        for name in variable:
            lines.append(f"    {name} = {_VARIABLE.get(self.kinds[name], _JOINED)[0].format(of[name])}")
        layout += "".join("I" if name in of else "4x" for name in self.variable)
        self.space["pack"] = struct.Struct(layout).pack
        packed = ", ".join([*fixed, *(f"len({name})" for name in variable)])
        lines.append(f"    return b''.join((pack({packed}), {', '.join(variable)}))")
        return self._made(lines, "encode")

    def decoder(self) -> Callable[[bytes], Any]:
        """To a row."""
        layout = struct.Struct(">" + "".join(self.codes.values()) + "I" * len(self.variable))
        self.space.update(unpack=layout.unpack_from, size=layout.size)
        names = [*self.codes, *(f"n_{name}" for name in self.variable)]
        lines = [
            "def decode(data):",
            "    " + "".join(f"{name}, " for name in names) + "= unpack(data)",
            "    at = size",
        ]
        for name in self.variable:
            kind = self.kinds[name]
            lines += [
                f"    if n_{name}:",
                f"        end = at + n_{name}; {name} = {_VARIABLE.get(kind, _JOINED)[1]}; at = end",
                f"    else: {name} = {_EMPTY.get(kind, ())!r}",
            ]
        lines += [
            "    if at != len(data):",
            "        raise ValueError('row has %d bytes, wanted %d' % (len(data), at))",
        ]
        lines.append(
            "    return cls("
            + ", ".join(f"at_{n}[{n}]" if f"at_{n}" in self.space else n for n in self.kinds)
            + ")"
        )
        return self._made(lines, "decode")

    def _made(self, lines: list[str], name: str) -> Callable[..., Any]:
        space = dict(self.space)
        exec("\n".join(lines), space)  # our own text, made from field names only
        return cast("Callable[..., Any]", space[name])
