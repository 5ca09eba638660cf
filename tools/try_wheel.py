"""What a user gets: builds the wheel (through the sdist), installs it alone, and crawls from another folder.

Checked: the wheel holds every file of every room and none besides; each module imports with the core
dependencies only; the installed code, not the checkout, is what runs; the demo crawl ends well and verifies.
Not checked: the optional extras, and other platforms.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("avro", "state", "processors", "fetch", "streams", "replay")
BUILD = ROOT / "build" / "wheel"
# Modules that belong to an optional extra may miss these, and nothing else, in a core installation.
EXTRAS = {
    "aiokafka",
    "confluent_kafka",
    "datasketch",
    "faust",
    "mode",
    "numpy",
    "prometheus_client",
    "pyarrow",
}

IMPORT_ALL = """
import importlib, pathlib, pkgutil, sys
import frontlog
print(pathlib.Path(frontlog.__file__).parent)
extras = set(sys.argv[1].split(","))
for module in pkgutil.walk_packages(frontlog.__path__, "frontlog."):
    if module.name != "frontlog.__main__":
        try:
            importlib.import_module(module.name)
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] not in extras:
                raise
"""


def run(*command: str | Path, cwd: Path) -> str:
    """Runs a command and returns its standard output; its failure ends this program with all that it said."""
    env = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        shown = " ".join(map(str, command))
        sys.exit(f"try_wheel: exit code {done.returncode} from {shown}\n{done.stdout}\n{done.stderr}")
    return done.stdout


def on_disk() -> set[str]:
    """The names that the wheel must hold: each file of the seven packages, by its installed path."""
    folders = {"frontlog": ROOT / "frontlog", **{f"frontlog/{room}": ROOT / room for room in ROOMS}}
    names: set[str] = set()
    for installed, folder in folders.items():
        for path in folder.rglob("*"):  # does not follow the links in frontlog/
            inside = path.relative_to(folder)
            if path.is_file() and "__pycache__" not in inside.parts and path.suffix != ".md":
                names.add(f"{installed}/{inside.as_posix()}")
    return names


def build() -> Path:
    shutil.rmtree(BUILD, ignore_errors=True)
    run(sys.executable, "-m", "build", "--outdir", BUILD, ROOT, cwd=ROOT)
    (wheel,) = BUILD.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if ".dist-info/" not in name}
    missing, extra = sorted(on_disk() - held), sorted(held - on_disk())
    if missing or extra:
        sys.exit(f"try_wheel: not in the wheel: {missing}; in the wheel, not on disk: {extra}")
    print(f"wheel: {wheel.name}, {len(held)} files", flush=True)
    return wheel


def main() -> None:
    wheel = build()
    with tempfile.TemporaryDirectory(prefix="frontlog-wheel-") as name:
        folder = Path(name)
        run(sys.executable, "-m", "venv", folder / "empty", cwd=folder)
        binaries = folder / "empty" / "bin"
        run(binaries / "python", "-m", "pip", "install", "--quiet", wheel, cwd=folder)
        where = run(binaries / "python", "-c", IMPORT_ALL, ",".join(sorted(EXTRAS)), cwd=folder).strip()
        if not Path(where).is_relative_to(folder.resolve()):
            sys.exit(f"try_wheel: frontlog was imported from {where}, not from the wheel")
        print(run(binaries / "frontlog", "--version", cwd=folder), end="", flush=True)
        print(run(binaries / "python", "-m", "frontlog", "demo", "--out", "demo", cwd=folder), flush=True)
        print(run(binaries / "frontlog", "verify", "demo", cwd=folder), flush=True)


if __name__ == "__main__":
    main()
