"""What a change of a schema breaks: old logs for new readers, new logs for old readers.

Both must hold, since a log outlives the version that wrote it and a reader of `crawl.fetched` is updated when
its owner likes. A record is read with the schema that wrote it and resolved against the reader's (Avro 1.12,
"Schema resolution"), so the rules are these:

- a new field needs a default, which is what the logs that lack it say ever after: so the default never
  changes and is never taken away. The fields of the first release have none, but for nullable ones, and
  need none: no log lacks them;
- a field may go only if it had a default: old readers still look for it;
- a type stays as it is. Avro lets an int become a long, but only in one direction;
- names stay, of records, fields and enums: a name is the identity. Aliases are not used;
- the symbols of an enum stay where they are, since rows of tables hold their index; new ones come last. An old
  reader cannot read a record with a new symbol; it says so, and the cure is to upgrade it. Without that
  no reason could ever be added;
- docs and the order of fields are free.
"""

from frontlog.avro.schemas import NAMESPACE, Json, is_union


def breaks(old_schema: Json, new_schema: Json) -> list[str]:
    """What stops working when `new_schema` follows `old_schema`, a sentence each; both are inlined."""
    walk = _Walk(_definitions(old_schema), _definitions(new_schema))
    walk.compare(old_schema["name"], old_schema, new_schema)
    return walk.found


def release_breaks(old: dict[str, Json], new: dict[str, Json]) -> list[str]:
    """The same for all schemas of two releases, by name."""
    found = [f"{name}: the record is gone, old logs hold it" for name in sorted(old.keys() - new.keys())]
    for name in sorted(old.keys() & new.keys()):
        found += breaks(old[name], new[name])
    return found


class _Walk:
    """One comparison of two schemas, each with its named types."""

    def __init__(self, old_names: dict[str, Json], new_names: dict[str, Json]) -> None:
        self.found: list[str] = []
        self._old_names = old_names
        self._new_names = new_names
        self._seen: set[tuple[str, str]] = set()

    def compare(self, path: str, old: Json, new: Json) -> None:
        """Two types that stand at the same place."""
        old = self._old_names.get(old, old) if isinstance(old, str) else old
        new = self._new_names.get(new, new) if isinstance(new, str) else new
        if _label(old) != _label(new):
            same_kind = _is_named(old) and _is_named(new) and old["type"] == new["type"]
            what = "name" if same_kind else "type"
            self.found.append(f"{path}: {what} changed from {_label(old)} to {_label(new)}")
        elif is_union(old):
            for old_branch, new_branch in zip(old, new, strict=True):
                self.compare(path, old_branch, new_branch)
        elif _is_named(old):
            pair = (_full_name(old), _full_name(new))
            if pair not in self._seen:  # a type is compared once, also when it holds itself
                self._seen.add(pair)
                self._fields(path, old, new) if old["type"] == "record" else self._symbols(path, old, new)
        elif not isinstance(old, str):
            self.compare(f"{path}[]", old["items"], new["items"])

    def _fields(self, path: str, old: Json, new: Json) -> None:
        before = {field["name"]: field for field in old["fields"]}
        after = {field["name"]: field for field in new["fields"]}
        for name, field in before.items():
            at = f"{path}.{name}"
            if name not in after:
                if "default" not in field:
                    self.found.append(f"{at}: field removed that had no default: old readers need it")
                continue
            self.compare(at, field["type"], after[name]["type"])
            if "default" not in field:
                continue
            if "default" not in after[name]:
                self.found.append(f"{at}: default taken away: logs from before the field need it")
            elif (was := field["default"]) != (now := after[name]["default"]) or type(was) is not type(now):
                self.found.append(
                    f"{at}: default changed from {was!r} to {now!r}: old logs would say another thing"
                )
        for name in after.keys() - before.keys():
            if "default" not in after[name]:
                self.found.append(f"{path}.{name}: field added without default: old logs don't have it")

    def _symbols(self, path: str, old: Json, new: Json) -> None:
        for index, symbol in enumerate(old["symbols"]):
            if symbol not in new["symbols"]:
                self.found.append(f"{path}: symbol {symbol} of {_full_name(old)} is gone: old logs hold it")
            elif (now := new["symbols"].index(symbol)) != index:
                self.found.append(
                    f"{path}: symbol {symbol} of {_full_name(old)} moved from {index} to {now}: rows hold the index"
                )


def _is_named(node: Json) -> bool:
    return isinstance(node, dict) and node["type"] in ("record", "enum")


def _full_name(node: Json) -> str:
    return f"{node.get('namespace', NAMESPACE)}.{node['name']}"


def _label(node: Json) -> str:
    """A type in words. Equal labels are equal types, but for what `compare` looks at inside."""
    if is_union(node):
        return " or ".join(_label(branch) for branch in node)
    if isinstance(node, str):
        return node
    if _is_named(node):
        return f"{node['type']} {_full_name(node)}"
    return str(node["type"])


def _definitions(schema: Json) -> dict[str, Json]:
    """Every named type inside a schema, by full name."""
    found: dict[str, Json] = {}

    def visit(node: Json) -> None:
        if isinstance(node, str):
            return
        if is_union(node):
            for branch in node:
                visit(branch)
        elif _is_named(node):
            found[_full_name(node)] = node
            for field in node.get("fields", ()):
                visit(field["type"])
        else:
            visit(node["items"])

    visit(schema)
    return found
