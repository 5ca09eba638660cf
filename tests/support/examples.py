"""Events and rows of every class: one fixed example each, and Hypothesis strategies for any.

They are made from the schemas and the annotations, so that a new field is covered on the day it comes.
"""

from typing import Any, cast, get_type_hints

from hypothesis import strategies as st

from frontlog.avro import enums, events
from frontlog.avro.enums import Documented
from frontlog.avro.events import RECORDS, Event
from frontlog.avro.schemas import Json, is_union, load_all
from frontlog.state.rows import ROWS, Row

Strategy = st.SearchStrategy[Any]

PRIMITIVES: dict[str, Strategy] = {
    "string": st.text(max_size=12),
    "bytes": st.binary(max_size=12),
    "int": st.integers(-(1 << 31), (1 << 31) - 1),
    "long": st.integers(-(1 << 63), (1 << 63) - 1),
    "boolean": st.booleans(),
    "double": st.floats(allow_nan=False),
}
# struct codes of the integers of a row: (least, greatest)
WIDTHS = {
    "B": (0, (1 << 8) - 1),
    "H": (0, (1 << 16) - 1),
    "I": (0, (1 << 32) - 1),
    "q": (-(1 << 63), (1 << 63) - 1),
}


def members(name: str) -> list[Any]:
    """The members of the enum with this name."""
    return list(getattr(enums, name))


def _schema_value(kind: Json) -> Strategy:
    """Values of a field of an event class."""
    if is_union(kind):
        inner = next(branch for branch in kind if branch != "null")
        return st.none() | _schema_value(inner)
    if not isinstance(kind, str):
        return st.lists(_schema_value(kind["items"]), max_size=3).map(tuple)
    if kind in PRIMITIVES:
        return PRIMITIVES[kind]
    if load_all()[kind]["type"] == "enum":
        return st.sampled_from(members(kind))
    return events_of(getattr(events, kind))


def events_of(cls: type[Event]) -> st.SearchStrategy[Event]:
    """Any event of a class."""
    fields = load_all()[cls.__name__]["fields"]
    return st.builds(cls, **{field["name"]: _schema_value(field["type"]) for field in fields})


def plain_of(schema: Json) -> Strategy:
    """Plain data of an inlined schema, as fastavro writes it."""
    names: dict[str, Json] = {}

    def value(node: Json) -> Strategy:
        if is_union(node):
            return st.one_of([value(branch) for branch in node])
        if isinstance(node, str):
            if node == "null":
                return st.none()
            return PRIMITIVES[node] if node in PRIMITIVES else value(names[node])
        if node["type"] == "array":
            return st.lists(value(node["items"]), max_size=3)
        names[f"{node['namespace']}.{node['name']}"] = node
        if node["type"] == "enum":
            return st.sampled_from(node["symbols"])
        return st.fixed_dictionaries({field["name"]: value(field["type"]) for field in node["fields"]})

    return value(schema)


def _example_value(kind: Json, name: str, n: int) -> Any:
    if is_union(kind):
        return _example_value(next(b for b in kind if b != "null"), name, n)
    if not isinstance(kind, str):
        items = kind["items"]
        return (_example_value(items, name, n), _example_value(items, name, n + 1))
    simple = {
        "string": f"{name} é{n}",
        "bytes": bytes((0, n, 255)),
        "int": n * 1000 * (-1) ** n,
        "long": n * 10**12 * (-1) ** n,
        "boolean": n % 2 == 1,
        "double": n / 8,
    }
    if kind in simple:
        return simple[kind]
    if load_all()[kind]["type"] == "enum":
        return members(kind)[n % 3]
    return example_event(getattr(events, kind))


def example_event(cls: type[Event]) -> Event:
    """The fixed example of an event class: every field is set, no two alike where the type allows it."""
    fields = load_all()[cls.__name__]["fields"]
    return cls(**{f["name"]: _example_value(f["type"], f["name"], n) for n, f in enumerate(fields, 1)})


def row_fields(cls: type[Row]) -> dict[str, Any]:
    """Field → annotation, in the order of the struct."""
    hints = get_type_hints(cls)
    return {name: hints[name] for name in cls.__struct_fields__}


def _row_value(cls: type[Row], name: str, kind: Any) -> Strategy:
    if kind is int:
        return st.integers(*WIDTHS[cls.WIDTHS.get(name, "q")])
    if isinstance(kind, type) and issubclass(kind, Documented):
        return st.sampled_from(list(cast("Any", kind)))
    if kind in (bool, str, bytes):
        return {bool: st.booleans(), str: st.text(max_size=12), bytes: st.binary(max_size=12)}[kind]
    # A line feed ends a string of a tuple; URLs and scopes hold none.
    line = st.text(st.characters(codec="utf-8", exclude_characters="\n"), max_size=6)
    return st.lists(line, max_size=3).map(tuple)


def rows_of(cls: type[Row]) -> st.SearchStrategy[Row]:
    """Any row of a class."""
    return st.builds(cls, **{name: _row_value(cls, name, kind) for name, kind in row_fields(cls).items()})


def example_row(cls: type[Row]) -> Row:
    """The fixed example of a row class: every field is set."""
    values: dict[str, Any] = {}
    for n, (name, kind) in enumerate(row_fields(cls).items(), 1):
        if kind is bool:
            values[name] = n % 2 == 1
        elif kind is int:
            values[name] = n if cls.WIDTHS.get(name) else n * 10**12 * (-1) ** n
        elif kind in (str, bytes):
            values[name] = f"{name} é{n}" if kind is str else bytes((0, n, 255))
        elif isinstance(kind, type):
            values[name] = list(cast("Any", kind))[n % 3]
        else:
            values[name] = ("", f"{name} é{n}", "")
    return cls(**values)


EVENT_EXAMPLES = {cls.__name__: example_event(cls) for cls in RECORDS}
ROW_EXAMPLES = {cls.__name__: example_row(cls) for cls in ROWS}
