"""Makes .venv for the Makefile: `python tools/environment.py run` to crawl, `dev` to test and check as well.

A stamp in .venv says for which pyproject.toml, Python and folder it was made; when one of them changes
the environment is made anew, so what a dependency list no longer names is gone. A lock lets two `make`
run at once: the second waits, then finds the work done. Only the standard library is used.
"""

import fcntl
import hashlib
import os
import subprocess
import sys
import time
from pathlib import Path
from venv import EnvBuilder

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
WHAT = {"run": ".", "dev": ".[dev]"}


def fingerprint() -> str:
    """What the environment depends on, as text: a moved folder or another Python needs a new one."""
    digest = hashlib.sha256((ROOT / "pyproject.toml").read_bytes()).hexdigest()
    return f"{digest} {sys.version.split()[0]} {ROOT}\n"


def is_current(kind: str) -> bool:
    stamp = VENV / f"{kind}.stamp"
    return stamp.is_file() and stamp.read_text(encoding="utf-8") == fingerprint()


def pip(*arguments: str) -> None:
    env = {**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_ROOT_USER_ACTION": "ignore"}
    command = [str(VENV / "bin" / "python"), "-m", "pip", "--no-input", "install", "--quiet", *arguments]
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True)
    if done.returncode != 0:  # its warnings about a build that went well are for packagers
        sys.exit(f"{done.stdout}{done.stderr}frontlog: pip failed; .venv is not complete")


def build(kind: str) -> None:
    """Installs what `kind` needs, on a new environment when the one that is there is another's."""
    started_s = time.monotonic()
    print(f"frontlog: preparing .venv ({kind}) with Python {sys.version.split()[0]} ...", file=sys.stderr)
    if not is_current("run"):
        EnvBuilder(clear=True, with_pip=True, symlinks=True).create(VENV)
        pip("--upgrade", "pip")  # the bundled one may be too old for an editable install of this layout
    pip("--editable", WHAT[kind])
    for name in ("run", kind):  # who may test may crawl
        (VENV / f"{name}.stamp").write_text(fingerprint(), encoding="utf-8")
    (VENV / "folder").write_text(f"{ROOT}\n", encoding="utf-8")
    print(f"frontlog: .venv is ready ({time.monotonic() - started_s:.0f} s)", file=sys.stderr)


def main(kind: str) -> None:
    with (ROOT / ".venv.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not is_current(kind):
            build(kind)
        for name in ("run", kind):  # newer than pyproject.toml, which is how make knows
            (VENV / f"{name}.stamp").touch()


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] not in WHAT:
        sys.exit("usage: environment.py run|dev")
    main(sys.argv[1])
