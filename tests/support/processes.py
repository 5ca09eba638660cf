"""Processes that tests start: they end with the block that uses them, however that ends, and leave what they said."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

SHOWN_CHARS = 3_000


def environment(*, traced: bool = True) -> dict[str, str]:
    """This process's import path for a process of its own.

    `traced` False: coverage measures nothing in it. Its tracer more than doubles what deciding takes, and a process that is
    killed leaves no figures; what such a process reaches must be reached by other tests, too.
    """
    kept = {name: value for name, value in os.environ.items() if traced or not name.startswith("COVERAGE_")}
    return {**kept, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}


class Process:
    """A command under way. What it says goes into files in `told`, named after its folder: no pipe fills up."""

    def __init__(
        self, argv: Sequence[str], folder: Path, *, told: Path | None = None, traced: bool = True
    ) -> None:
        self.folder = folder
        said = (told or folder.parent) / f"{folder.name}-{time.monotonic_ns()}"
        self._out, self._err = Path(f"{said}.out"), Path(f"{said}.err")
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self._process = subprocess.Popen(argv, stdout=out, stderr=err, env=environment(traced=traced))

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def code(self) -> int | None:
        """How it ended; None while it runs."""
        return self._process.poll()

    @property
    def is_running(self) -> bool:
        return self.code is None

    @property
    def output(self) -> str:
        return self._out.read_text(errors="replace")

    @property
    def errors(self) -> str:
        return self._err.read_text(errors="replace")

    def send(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def wait(self, seconds: float = 40) -> int:
        return self._process.wait(seconds)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        if self.is_running:
            self.kill()
        if error is not None:
            print(f"--- {self.folder.name}\n{self.errors[-SHOWN_CHARS:]}")
