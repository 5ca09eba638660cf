"""`make fuzz`: the parsers of outside bytes under atheris, which lets coverage guide what it tries.

    python tools/fuzz.py [NAME ...] [--seconds N]

Each target of tests/support/fuzzed.py runs in a process of its own for N seconds. The corpus grows in build/fuzz/NAME, so a
later run goes on where this one ended; what fails is kept beside it and said with the command that repeats it. Not part of
CI: it takes as long as one lets it. atheris goes into build/fuzz/lib when it isn't installed; where it can't be had, this
says so and ends with code 3.
"""

import argparse
import importlib
import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "build" / "fuzz"
LIBRARY = FOLDER / "lib"
ATHERIS = "atheris>=3.0"
INPUT_BYTES_MAX = 1 << 16
INPUT_SECONDS_MAX = 5
MEMORY_MB_MAX = 2_048
MISSING = 3


def install() -> str:
    """Make atheris importable; what stands against it, empty: nothing."""
    sys.path.insert(0, str(LIBRARY))
    if importlib.util.find_spec("atheris") is not None:
        return ""
    print(f"fuzz: installing atheris into {LIBRARY.relative_to(ROOT)}", flush=True)
    command = [
        sys.executable,
        "-m",
        "pip",
        "--no-input",
        "install",
        "--quiet",
        "--target",
        str(LIBRARY),
        ATHERIS,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    importlib.invalidate_caches()
    if done.returncode == 0 and importlib.util.find_spec("atheris") is not None:
        return ""
    return (done.stderr.strip().splitlines() or ["pip ended without a word"])[-1]


def run_one(name: str, arguments: list[str]) -> None:
    """What the process of one target does; atheris ends it."""
    atheris: Any = importlib.import_module("atheris")

    sys.path.insert(0, str(ROOT / "tests"))
    with atheris.instrument_imports(include=["frontlog.processors"]):
        from support.fuzzed import TARGETS

    atheris.Setup([sys.argv[0], *arguments], TARGETS[name].run)
    atheris.Fuzz()


def fuzz(name: str, seeds: tuple[bytes, ...], seconds: int) -> bool:
    """Run one target; whether nothing failed."""
    corpus, failed = FOLDER / name, FOLDER / f"{name}-failed-"
    corpus.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(seeds):
        (corpus / f"seed-{number}").write_bytes(seed)
    command = [
        sys.executable, __file__, "--one", name, str(corpus), f"-max_total_time={seconds}", f"-max_len={INPUT_BYTES_MAX}",
        f"-timeout={INPUT_SECONDS_MAX}", f"-rss_limit_mb={MEMORY_MB_MAX}", f"-artifact_prefix={failed}",
        "-print_final_stats=1",
    ]  # fmt: skip
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    stats = [
        line.rpartition(":")[2].strip()
        for line in done.stderr.splitlines()
        if "number_of_executed_units" in line
    ]
    runs = int(stats[0]) if stats else 0
    kept = sum(1 for _ in corpus.iterdir())
    if done.returncode == 0:
        print(f"fuzz: {name}: {runs:,} inputs in {seconds} s, {kept:,} kept, nothing failed", flush=True)
        return True
    print("\n".join((done.stdout + done.stderr).splitlines()[-40:]))
    found = sorted(FOLDER.glob(f"{name}-failed-*"), key=lambda path: path.stat().st_mtime)
    again = f"; again: {sys.executable} {__file__} --one {name} {found[-1]}" if found else ""
    print(f"fuzz: {name}: FAILED after {runs:,} inputs{again}", flush=True)
    return False


def main() -> int:
    """Run the targets that are named, or all."""
    if sys.argv[1:2] == ["--one"]:
        sys.path.insert(0, str(LIBRARY))
        run_one(sys.argv[2], sys.argv[3:])
        return 0
    parser = argparse.ArgumentParser(prog="make fuzz", description="Fuzz the parsers of outside bytes.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="targets [all]")
    parser.add_argument("--seconds", type=int, default=60, help="for each target [60]")
    options = parser.parse_args()
    why = install()
    if why:
        print(f"fuzz: not run: atheris can't be installed here ({why})", file=sys.stderr)
        return MISSING
    sys.path.insert(0, str(ROOT / "tests"))
    from support.fuzzed import TARGETS

    unknown = sorted(set(options.names) - TARGETS.keys())
    if unknown:
        parser.error(f"no target {', '.join(unknown)}; there are {', '.join(TARGETS)}")
    names = options.names or list(TARGETS)
    failed = [name for name in names if not fuzz(name, TARGETS[name].seeds, options.seconds)]
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
