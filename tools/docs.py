"""Writes the pages of docs/reference from the catalogues in the code; `--check` compares instead.

A page is a function that returns Markdown. What it needs is imported inside it, so that one catalogue
that can't be imported costs one page, is named, and makes the exit code 1.
"""

import argparse
import importlib
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "reference"
NOTE = "<!-- Written by `make docs` from {source}. Edit that, not this. -->"


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table; a cell's bars are escaped and its lines joined."""
    lines = [head, ["---"] * len(head), *rows]
    cells = [[" ".join(str(cell).split()).replace("|", "\\|") for cell in line] for line in lines]
    return "\n".join("| " + " | ".join(line) + " |" for line in cells) + "\n"


def code(value: object) -> str:
    return f"`{value}`"


def listed(title: str, enum: Any) -> str:
    """A vocabulary: its members with their sentences."""
    return f"# {title}\n\n{enum.__doc__}\n\n" + table(["name", "meaning"], [(code(m), m.doc) for m in enum])


def events() -> str:
    from frontlog.avro.schemas import load_all

    parts = [
        "# Events\n\nOne section a record of `avro/*.avsc`. Times are milliseconds since the epoch, UTC.\n"
    ]
    for name, schema in sorted(load_all().items()):
        if schema["type"] == "record":
            rows = [(code(f["name"]), _avro_type(f["type"]), f["doc"]) for f in schema["fields"]]
            parts.append(f"## {name}\n\n{schema['doc']}\n\n{table(['field', 'type', 'meaning'], rows)}")
    return "\n".join(parts)


def _avro_type(schema: Any) -> str:
    if isinstance(schema, str):
        return schema
    if "items" in schema:
        return f"array of {_avro_type(schema['items'])}"
    return " or ".join(_avro_type(item) for item in schema)


def topics() -> str:
    from frontlog.avro.enums import Topic

    return listed("Topics", Topic)


def states() -> str:
    from frontlog.avro.enums import State
    from frontlog.processors.urls import TABLE

    order = {state: number for number, state in enumerate(State)}
    moves = sorted(TABLE.items(), key=lambda move: (order[move[0][0]], order[move[0][1]]))
    rows = [(code(a), code(b), ", ".join(code(r) for r in sorted(reasons))) for (a, b), reasons in moves]
    intro = "Every move that a URL can make, and the reasons that may cause it. There are no others."
    found = table(["from", "to", "reasons"], rows)
    return f"{listed('States of a URL', State)}\n## Moves\n\n{intro}\n\n{found}"


def reasons() -> str:
    from frontlog.avro.enums import Reason

    return listed("Reasons", Reason)


def vocabularies() -> str:
    from frontlog.avro import enums

    own_page = (enums.Topic, enums.State, enums.Reason)
    others = [e for e in enums.Documented.__subclasses__() if e not in own_page]
    parts = [
        listed(enum.__name__, enum).replace("# ", "## ", 1)
        for enum in sorted(others, key=lambda e: e.__name__)
    ]
    return (
        "# Vocabularies\n\nThe closed vocabularies of events, besides topics, states and reasons.\n\n"
        + "\n".join(parts)
    )


def tables() -> str:
    from frontlog.state.catalogue import CONTENT_TABLES, FRONTIER_TABLES, LOG, META

    head = ["table", "key", "holds", "in the digests"]
    rows = [
        (code(t.name), t.key, t.holds, "yes" if t.digested else "no")
        for t in (*FRONTIER_TABLES, *CONTENT_TABLES, META, LOG)
    ]
    return "# Tables\n\nKeys are ordered: what is read together lies together.\n\n" + table(head, rows)


def errors() -> str:
    from frontlog.avro.errors import FrontlogError

    def walk(cls: type[FrontlogError]) -> Iterable[type[FrontlogError]]:
        if cls.__module__ == FrontlogError.__module__:  # not those of a room that another page imported
            yield cls
        for sub in cls.__subclasses__():
            yield from walk(sub)

    rows = [
        (code(c.__name__), code(c.__bases__[0].__name__), c.exit_code, c.__doc__) for c in walk(FrontlogError)
    ]
    return "# Errors\n\nWhat frontlog raises on purpose. The class says what the caller does.\n\n" + table(
        ["error", "is a", "exit code", "meaning"], rows
    )


def settings() -> str:
    catalogue = importlib.import_module("frontlog.settings_catalogue")
    parts = ["# Settings\n\nA name is `section.field`, as in `frontlog.toml`.\n"]
    parts += [f"- **{use}**: {text}." for use, text in catalogue.USES.items()]
    rows: dict[str, list[Sequence[object]]] = {}
    for s in catalogue.CATALOGUE.values():
        kind = ", ".join(map(code, s.choices)) if s.choices else f"{s.kind} ({s.unit})" if s.unit else s.kind
        bounds = "" if s.least is None else f"{s.least:,} to {s.most:,}"
        shown = code(s.default) if s.default or s.default == 0 else "empty"
        rows.setdefault(s.section, []).append((code(s.name), s.doc, kind, shown, bounds, s.use))
    head = ["setting", "meaning", "kind", "default", "bounds", "used by"]
    parts += [f"\n## {section}\n\n{table(head, found).rstrip()}" for section, found in rows.items()]
    return "\n".join(parts)


def cli() -> str:
    import click

    main = importlib.import_module("frontlog.cli").main
    parts = ["# Command line\n\nThe text of `frontlog COMMAND --help`.\n"]

    def add(command: click.Command, path: str, parent: click.Context | None) -> None:
        given: dict[str, Any] = {**command.context_settings, "terminal_width": 100}
        context = click.Context(command, info_name=path.rpartition(" ")[2], parent=parent, **given)
        parts.append(f"## {path}\n\n```text\n{command.get_help(context)}\n```\n")
        if isinstance(command, click.Group):
            for name in command.list_commands(context):
                sub = command.get_command(context, name)
                if sub is not None and not sub.hidden:
                    add(sub, f"{path} {name}", context)

    add(main, "frontlog", None)
    return "\n".join(parts)


def metrics() -> str:
    from frontlog.streams.metrics import CATALOGUE

    rows = [(code(row.name), ", ".join(map(code, row.labels)), row.doc) for row in CATALOGUE]
    intro = (
        "What `frontlog worker --web HOST:PORT` tells Prometheus on /metrics, beside the `process_` and `python_` metrics "
        "of its client. Counters begin with the process.\n"
    )
    return f"# Metrics\n\n{intro}\n{table(['metric', 'labels', 'meaning'], rows)}"


PAGES: dict[str, tuple[str, Callable[[], str]]] = {
    "cli.md": ("frontlog/cli.py", cli),
    "errors.md": ("avro/errors.py", errors),
    "events.md": ("avro/*.avsc", events),
    "metrics.md": ("streams/metrics.py", metrics),
    "reasons.md": ("avro/enums.py", reasons),
    "settings.md": ("frontlog/settings_catalogue.py", settings),
    "states.md": ("processors/urls.py", states),
    "tables.md": ("state/catalogue.py", tables),
    "topics.md": ("avro/enums.py", topics),
    "vocabularies.md": ("avro/enums.py", vocabularies),
}


def main(check: bool) -> int:
    """Writes or compares every page; the number of pages that can't be made, differ, or have no source."""
    wrong: list[str] = []
    for name, (source, page) in PAGES.items():
        path = FOLDER / name
        try:
            text = f"{NOTE.format(source=source)}\n\n{page().rstrip()}\n"
        except (ImportError, AttributeError) as error:
            wrong.append(f"{name} can't be made: {error}")
            continue
        if not check:
            FOLDER.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        elif not path.is_file() or path.read_text(encoding="utf-8") != text:
            wrong.append(f"{name} is not what {source} says: run make docs")
    wrong += [f"{path.name} is written by nobody" for path in FOLDER.glob("*.md") if path.name not in PAGES]
    for line in wrong:
        print(f"docs/reference: {line}", file=sys.stderr)
    print(f"docs/reference: {len(PAGES)} pages, {len(wrong)} wrong")
    return len(wrong)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare with what is there; write nothing")
    sys.exit(1 if main(parser.parse_args().check) else 0)
