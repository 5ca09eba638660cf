"""The golden bytes: what the example of each event and row class was encoded to when it was released.

They differ from today's bytes when a format changed. If that was by accident, the code is wrong. If it was
on purpose (a new field or symbol; for rows, a new fold version), write them again and commit the difference:

    PYTHONPATH=tests .venv/bin/python -m support.golden
"""

import json
from pathlib import Path

from frontlog.avro.codec import encode
from support.examples import EVENT_EXAMPLES, ROW_EXAMPLES

TESTS = Path(__file__).resolve().parents[1]
EVENTS_FILE = TESTS / "avro" / "golden.json"
ROWS_FILE = TESTS / "state" / "golden.json"


def read(path: Path) -> dict[str, bytes]:
    """Class name → golden bytes."""
    table: dict[str, str] = json.loads(path.read_text(encoding="utf-8"))
    return {name: bytes.fromhex(text) for name, text in table.items()}


def write(path: Path, table: dict[str, bytes]) -> None:
    """Write a table of golden bytes."""
    text = json.dumps({name: table[name].hex() for name in sorted(table)}, indent=1)
    path.write_text(text + "\n", encoding="utf-8")


def main() -> None:
    """Write both tables again."""
    write(EVENTS_FILE, {name: encode(event) for name, event in EVENT_EXAMPLES.items()})
    write(ROWS_FILE, {name: row.encode() for name, row in ROW_EXAMPLES.items()})


if __name__ == "__main__":
    main()
