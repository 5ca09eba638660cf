"""A real schema registry with Confluent's interface for tests and `make cluster`: Apicurio, started from Maven's archive.

    python -m support.registry --jars      brings the archive, so that no test waits for it

It needs a JDK (17 or newer) and, the first time, Maven; what it brought stays in the user's cache. It listens on loopback,
on ports of its own, and is ended by the id of its process.
"""

import contextlib
import os
import shutil
import subprocess
import sys
import tarfile
import time
import urllib.request
from collections.abc import Mapping
from pathlib import Path

from support.broker import MAVEN_S_MAX, START_S_MAX, Unavailable, filled, free_ports

VERSION = "3.0.9"
CACHE = Path.home() / ".cache" / f"frontlog-registry-{VERSION}"
RUNNER = f"apicurio-registry-app-{VERSION}-runner.jar"
_ARTIFACT = f"io.apicurio:apicurio-registry-app:{VERSION}:tar.gz:all"
_JVM = ("-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:-UsePerfData")


def jars() -> Path:
    """The folder of the registry's jars, filled by Maven the first time. Raises Unavailable."""
    if shutil.which("java") is None:
        raise Unavailable("no `java`: install a JDK, 17 or newer, to run a schema registry")
    folder = CACHE / "app"
    if not (folder / RUNNER).exists():
        filled(folder, _collect, "install Maven, which brings the schema registry")
    return folder


def _collect(folder: Path) -> None:
    """Let Maven bring the archive, and unpack it, whole or not at all."""
    part = folder.with_suffix(".part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir()
    argv = ["mvn", "-q", "-B", "dependency:copy", f"-Dartifact={_ARTIFACT}", f"-DoutputDirectory={part}"]
    try:
        subprocess.run(
            argv, check=True, timeout=MAVEN_S_MAX, capture_output=True, text=True, stdin=subprocess.DEVNULL, cwd=part
        )  # fmt: skip
    except subprocess.CalledProcessError as exc:
        raise Unavailable(f"Maven could not bring the schema registry: {exc.stdout}{exc.stderr}") from exc
    except subprocess.TimeoutExpired as exc:
        raise Unavailable(f"Maven did not bring the schema registry within {MAVEN_S_MAX} s") from exc
    (archive,) = part.glob("*.tar.gz")
    with tarfile.open(archive) as packed:
        packed.extractall(part, filter="data")
    archive.unlink()
    part.rename(folder)


class Registry:
    """One registry. `url` is what clients are told; `environment` says where it keeps schemas, in memory by default."""

    def __init__(self, app: Path, folder: Path, environment: Mapping[str, str] | None = None) -> None:
        self._app = app
        self._environment = dict(environment or {})
        self._log = folder / "registry.log"
        self._port, self._management = free_ports(2)
        self.url = f"http://127.0.0.1:{self._port}/apis/ccompat/v7"
        self._process: subprocess.Popen[bytes] | None = None

    def command(self) -> list[str]:
        """What starts it."""
        ports = (f"-Dquarkus.http.port={self._port}", f"-Dquarkus.management.port={self._management}")
        hosts = ("-Dquarkus.http.host=127.0.0.1", "-Dquarkus.management.host=127.0.0.1")
        return ["java", *_JVM, *hosts, *ports, "-jar", str(self._app / RUNNER)]

    def start(self) -> "Registry":
        """Start it; `wait` waits for it."""
        self._log.parent.mkdir(parents=True, exist_ok=True)
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self.command(), stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                env=os.environ | self._environment,
            )  # fmt: skip
        return self

    def wait(self) -> "Registry":
        """Wait until it answers."""
        assert self._process is not None
        end_s = time.monotonic() + START_S_MAX
        while True:
            with contextlib.suppress(OSError), urllib.request.urlopen(f"{self.url}/subjects", timeout=5):
                return self
            if self._process.poll() is not None or time.monotonic() > end_s:
                self.stop()
                said = self._log.read_text(encoding="utf-8", errors="replace")
                raise RuntimeError(f"the schema registry did not start: {said[-3_000:]}")
            time.sleep(0.1)

    def stop(self) -> None:
        """End the process, and wait for its end."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()  # it keeps nothing
            self._process.wait(30)


def main(arguments: list[str]) -> int:
    """Bring what is needed."""
    try:
        jars()
    except Unavailable as exc:
        print(f"frontlog: {exc}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
