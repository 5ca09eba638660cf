"""Builds the encoder and decoder of a row class from its fields.

Source is generated and compiled once per class, since a fold encodes and decodes tens of thousands of
rows a second and a loop over fields costs three times as much.
"""

import struct
from collections.abc import Callable
from typing import Any, cast, get_type_hints

from frontlog.avro.enums import Documented

Codec = tuple[Callable[[Any], bytes], Callable[[bytes], Any]]
_VARIABLE = {str: ("{0}.encode()", "{0}.decode()"), bytes: ("{0}", "{0}")}
_JOINED = ('"".join([x + "\\n" for x in {0}]).encode()', 'tuple({0}.decode().split("\\n")[:-1])')


def build(cls: type[Any], widths: dict[str, str]) -> Codec:
    """(encode, decode) for a row class; `widths` gives struct codes of integers that need fewer than 8 bytes."""
    hints: dict[str, Any] = {n: t for n, t in get_type_hints(cls).items() if n in cls.__struct_fields__}
    space: dict[str, Any] = {"cls": cls}
    codes, down, names_fixed, variable = "", list[str](), list[str](), list[str]()
    read: dict[str, str] = {}
    for name, kind in hints.items():
        if isinstance(kind, type) and issubclass(kind, Documented):
            members: list[Any] = list(cast("Any", kind))
            space[f"ix_{name}"] = {member: i for i, member in enumerate(members)}
            space[f"at_{name}"] = members
            codes, read[name] = codes + "B", f"at_{name}[{name}]"
            down.append(f"ix_{name}[row.{name}]")
        elif kind is bool:
            codes, read[name] = codes + "?", name
            down.append(f"row.{name}")
        elif kind is int:
            codes, read[name] = codes + widths.get(name, "q"), name
            down.append(f"row.{name}")
        else:
            variable.append(name)
            read[name] = _VARIABLE.get(hints[name], _JOINED)[1].format(name)
            continue
        names_fixed.append(name)
    layout = struct.Struct(">" + codes + "I" * len(variable))
    space.update(pack=layout.pack, unpack=layout.unpack_from, size=layout.size)
    lines = ["def encode(row):"]
    lines += [f"    {n} = {_VARIABLE.get(hints[n], _JOINED)[0].format(f'row.{n}')}" for n in variable]
    packed = ", ".join([*down, *(f"len({n})" for n in variable)])
    lines.append("    return " + " + ".join([f"pack({packed})", *variable]))
    lines.append("def decode(data):")
    lines.append(
        "    " + "".join(f"{n}, " for n in [*names_fixed, *(f"n_{v}" for v in variable)]) + "= unpack(data)"
    )
    lines.append("    at = size")
    for name in variable:
        lines += [f"    end = at + n_{name}", f"    {name} = data[at:end]", "    at = end"]
    lines += [
        "    if at != len(data):",
        "        raise ValueError('row has %d bytes, wanted %d' % (len(data), at))",
    ]
    lines.append("    return cls(" + ", ".join(read[n] for n in hints) + ")")
    exec("\n".join(lines), space)  # our own text, made from field names only
    return space["encode"], space["decode"]
