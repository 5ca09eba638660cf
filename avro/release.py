"""Writes the schemas that are to be released into `avro/history/`: `python -m frontlog.avro.release`.

A file holds every record, inlined, one a line, sorted by name; the next number is taken. Nothing is written
when no schema changed but for its docs, or when a change would break old logs or old readers. A released file
is never edited or deleted: it is what old logs are read with.
"""

import json
import sys
from pathlib import Path
from typing import cast

from frontlog.avro.compat import release_breaks
from frontlog.avro.errors import ConfigError
from frontlog.avro.schemas import HISTORY, Json, inlined, is_union, load_all, releases


def current() -> dict[str, Json]:
    """The schemas on disk as a release has them."""
    return {name: inlined(name) for name, schema in sorted(load_all().items()) if schema["type"] == "record"}


def write(folder: Path = HISTORY) -> Path | None:
    """The file that was written; None when nothing changed. ConfigError names every breaking change."""
    new, older = current(), list(releases(folder).items())
    if older and _without_docs(older[-1][1]) == _without_docs(new):
        return None
    found = {sentence: None for _, release in older for sentence in release_breaks(release, new)}
    if found:
        raise ConfigError(
            "not released: what is in avro/history can no longer be read, see avro/compat.py\n  "
            + "\n  ".join(found)
        )
    number = int(older[-1][0].partition(".")[0]) + 1 if older else 1
    path = folder / f"{number:04}.jsonl"
    folder.mkdir(exist_ok=True)
    lines = [json.dumps(schema, ensure_ascii=False, separators=(",", ":")) for schema in new.values()]
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return path


def _without_docs(node: Json) -> Json:
    if is_union(node):
        return [_without_docs(item) for item in node]
    if isinstance(node, dict):
        items = cast("dict[str, Json]", node).items()
        return {key: _without_docs(value) for key, value in items if key != "doc"}
    return node


def main() -> int:
    """Write the release and say so; the exit code."""
    try:
        path = write()
    except ConfigError as exc:
        print(exc, file=sys.stderr)
        return exc.exit_code
    print("no schema changed since the last release" if path is None else f"wrote {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
