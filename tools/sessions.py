"""Runs the sessions that README.md shows, so that what stands there is real output.

    python tools/sessions.py --write     run them and put their output into README.md
    python tools/sessions.py --check     run them and compare; numbers and times may differ, words may not

A session is a `console` block behind a comment `<!-- session: NAME -->`. All run in one empty folder,
in the order of the page,
with `frontlog` of this environment. The demo site takes a free port: the port of the page is replaced by that of the run.
"""

import argparse
import difflib
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
BLOCK = re.compile(r"(<!-- session: [a-z-]+ -->\n```console\n)(.*?)(```\n)", re.DOTALL)
PORT = re.compile(r"http://127\.0\.0\.1:(\d+)/")
PROGRESS = re.compile(r"^crawling .*\n", re.MULTILINE)
TIMEOUT_S = 240


def run(command: str, folder: Path) -> str:
    """The output of a shell line, progress lines left out."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "COLUMNS": "120", "NO_COLOR": "1"}
    done = subprocess.run(
        command, shell=True, cwd=folder, env=environment, text=True, timeout=TIMEOUT_S, check=False,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    return PROGRESS.sub("", done.stdout)


def masked(text: str) -> str:
    """Text in which everything that differs from run to run is gone: numbers, sizes, durations, padding."""
    text = re.sub(r"\b[0-9a-f]{12,}\b", "HEX", text)
    text = re.sub(r"\d+(?:[.,:]\d+)*(?: ?(?:kB|MB|GB|ms|min|s|h)\b)*(?: \d+ s)?", "#", text)
    return re.sub(r"[ \t]+", " ", text)


def perform(page: str) -> str:
    """The page with the output of its sessions as they ran just now."""
    port: str | None = None
    with tempfile.TemporaryDirectory(prefix="frontlog-") as name:

        def block(match: re.Match[str]) -> str:
            nonlocal port
            lines: list[str] = []
            for line in match[2].splitlines():
                if not line.startswith("$ "):
                    continue
                command = line[2:]
                if port is not None:
                    command = re.sub(r"(127\.0\.0\.\d):(?:\d+|PORT)/", rf"\g<1>:{port}/", command)
                output = run(command, Path(name))
                found = PORT.search(output)
                if port is None and found is not None:
                    port = found[1]
                lines += [f"$ {command}", output.rstrip("\n")]
            return match[1] + "\n".join(lines) + "\n" + match[3]

        return BLOCK.sub(block, page)


def main() -> int:
    """Write or check; 1 when what is shown is not what happens."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--check", action="store_true")
    chosen = parser.parse_args()
    before = README.read_text(encoding="utf-8")
    after = perform(before)
    if chosen.write:
        README.write_text(after, encoding="utf-8")
        return 0
    old, new = (masked("".join(m[2] for m in BLOCK.finditer(page))) for page in (before, after))
    sys.stdout.writelines(
        difflib.unified_diff(old.splitlines(True), new.splitlines(True), "README.md", "as it ran")
    )
    print(
        "README.md shows what happens"
        if old == new
        else "README.md shows something else: python tools/sessions.py --write"
    )
    return int(old != new)


if __name__ == "__main__":
    sys.exit(main())
