"""A real Apache Kafka for tests, `make kafka` and `make cluster`: one node in KRaft mode, started from Maven's jars.

    python -m support.broker [FOLDER]      runs until it is interrupted, and prints where it listens
    python -m support.broker --jars        brings the jars, so that no test waits for them

It needs a JDK (17 or newer) and, the first time, Maven; the jars stay in the user's cache. It listens on loopback,
on ports of its own, keeps everything in a folder of its own, and is ended by the id of its process.

The settings are small: no broker for real use.
"""

import contextlib
import fcntl
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import FrameType

from confluent_kafka.admin import AdminClient

VERSION = "4.1.1"
CACHE = Path.home() / ".cache" / f"frontlog-kafka-{VERSION}"
MAVEN_S_MAX = 300
START_S_MAX = 60
STOP_S_MAX = 30
PLACE = "broker.json"
"""Where a shared broker runs: its folder, its port, its process."""

_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>frontlog</groupId><artifactId>kafka</artifactId><version>1</version><dependencies>
{}</dependencies></project>
"""
_DEPENDENCY = (
    "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version></dependency>\n"
)
_WANTED = (
    ("org.apache.kafka", "kafka_2.13", VERSION),
    ("org.apache.kafka", "kafka-tools", VERSION),
    ("org.slf4j", "slf4j-simple", "1.7.36"),
)
# A second or less to start: no optimizing compiler, no parallel collector.
_JVM = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:-UsePerfData")
_QUIET = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"


class Unavailable(Exception):
    """There is no Kafka here; the message says what is missing."""


def jars() -> Path:
    """The folder of Kafka's jars, filled by Maven the first time. Raises Unavailable."""
    if shutil.which("java") is None:
        raise Unavailable("no `java`: install a JDK, 17 or newer, to run a broker")
    named = os.environ.get("FRONTLOG_KAFKA_LIBS")
    libs = Path(named) if named else CACHE / "libs"
    if any(libs.glob("kafka_2.13-*.jar")):
        return libs
    if named:
        raise Unavailable(f"FRONTLOG_KAFKA_LIBS={named} holds no kafka_2.13 jar")
    filled(libs, _collect, "install Maven, or name a folder of Kafka's jars in FRONTLOG_KAFKA_LIBS")
    return libs


def filled(folder: Path, collect: Callable[[Path], None], otherwise: str) -> None:
    """Let Maven fill a folder of a cache, unless it is there; of several processes one does. Raises Unavailable."""
    if shutil.which("mvn") is None:
        raise Unavailable(f"no `mvn`: {otherwise}")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            collect(folder)


def _collect(libs: Path) -> None:
    """Let Maven bring the jars, all or none."""
    (CACHE / "pom.xml").write_text(
        _POM.format("".join(_DEPENDENCY.format(*one) for one in _WANTED)), encoding="utf-8"
    )
    part = libs.with_suffix(".part")
    shutil.rmtree(part, ignore_errors=True)
    goal = ("dependency:copy-dependencies", f"-DoutputDirectory={part}")
    try:
        subprocess.run(
            ["mvn", "-q", "-B", "-f", CACHE / "pom.xml", *goal],
            check=True, timeout=MAVEN_S_MAX, capture_output=True, text=True, stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except subprocess.CalledProcessError as exc:
        raise Unavailable(f"Maven could not bring Kafka's jars: {exc.stdout}{exc.stderr}") from exc
    except subprocess.TimeoutExpired as exc:
        raise Unavailable(f"Maven did not bring Kafka's jars within {MAVEN_S_MAX} s") from exc
    part.rename(libs)


def free_ports(count: int) -> list[int]:
    """Ports of loopback that nobody listens on."""
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


class Broker:
    """One node. `bootstrap` is what clients are told; `stop` and `start` keep its data and its port.

    Its process is known by its id alone: one that a process of tests started may be ended by another.
    """

    def __init__(
        self,
        libs: Path,
        folder: Path,
        *,
        settings: Mapping[str, str] | None = None,
        port: int = 0,
        pid: int = 0,
    ) -> None:
        """`port` and `pid` are those of a broker that runs."""
        self._classpath = os.pathsep.join(sorted(map(str, libs.glob("*.jar"))))
        self.folder = folder
        self.port, controller = (port, 0) if port else free_ports(2)
        self.bootstrap = f"127.0.0.1:{self.port}"
        self.pid = pid
        self._settings = {**_settings(self.port, controller, folder), **(settings or {})}

    def _java(self, *command: str) -> list[str]:
        return ["java", "-Xmx256m", *_JVM, _QUIET, "-cp", self._classpath, *command]

    def tool(
        self, name: str, *arguments: str, given: str = "", timeout: float = 60
    ) -> subprocess.CompletedProcess[str]:
        """Run one of Kafka's own tools by the name of its class, as its shell scripts do."""
        return subprocess.run(
            self._java(name, *arguments), input=given, capture_output=True, text=True, timeout=timeout, check=False
        )  # fmt: skip

    def start(self) -> "Broker":
        """Format the folder the first time, start, and wait until it answers."""
        conf = self.folder / "server.properties"
        if not conf.exists():
            self.folder.mkdir(parents=True, exist_ok=True)
            lines = (f"{name}={value}\n" for name, value in self._settings.items())
            conf.write_text("".join(lines), encoding="utf-8")
            formatting = (
                "kafka.tools.StorageTool",
                "format",
                "-t",
                "MkU3OEVBNTcwNTJENDM2Qg",
                "-c",
                str(conf),
            )
            subprocess.run(self._java(*formatting), check=True, capture_output=True, timeout=START_S_MAX)
        argv = self._java("kafka.Kafka", str(conf))
        with (self.folder / "server.log").open("ab") as log, Path(os.devnull).open("rb") as nothing:
            wiring = [(os.POSIX_SPAWN_DUP2, file.fileno(), to) for to, file in enumerate((nothing, log, log))]
            # A group of its own: Ctrl-C in a terminal is for the tests, which end it.
            self.pid = os.posix_spawnp(argv[0], argv, os.environ, file_actions=wiring, setpgroup=0)
        try:
            self._wait(time.monotonic() + START_S_MAX)
        except BaseException:
            self.stop(signal.SIGKILL)
            raise
        return self

    def _wait(self, end_s: float) -> None:
        while not self._listens():
            if self._has_ended() or time.monotonic() > end_s:
                said = (self.folder / "server.log").read_text(encoding="utf-8", errors="replace")
                raise RuntimeError(f"Kafka did not start: {said[-3_000:]}")
            time.sleep(0.05)
        AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0}).list_topics(timeout=30)

    def _listens(self) -> bool:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 0.2):
            return True
        return False

    def _has_ended(self) -> bool:
        """Whether its process is gone; one that another process started is when it listens no more."""
        try:
            return os.waitpid(self.pid, os.WNOHANG) != (0, 0)
        except ChildProcessError:
            return not self._listens()

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        """End the process, and wait for its end."""
        if not self.pid:
            return
        end_s = time.monotonic() + STOP_S_MAX
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, how)
        while not self._has_ended():
            if time.monotonic() > end_s:
                raise RuntimeError(f"Kafka did not end; its process is {self.pid}")
            time.sleep(0.02)
        self.pid = 0

    def close(self) -> None:
        """End it and remove its folder."""
        self.stop(signal.SIGKILL)
        shutil.rmtree(self.folder, ignore_errors=True)


def shared(libs: Path, folder: Path) -> Broker:
    """The broker that all processes that name this folder have in common: the first that asks starts it."""
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        found = _running(libs, folder)
        if found is None:
            found = Broker(libs, Path(tempfile.mkdtemp(dir=folder))).start()
            (folder / PLACE).write_text(
                json.dumps([str(found.folder), found.port, found.pid]), encoding="utf-8"
            )
    return found


def end_shared(folder: Path) -> None:
    """End the broker that a folder is shared for, if it was ever asked for, and remove the folder."""
    if (found := _running(Path(), folder)) is not None:
        found.close()
    shutil.rmtree(folder, ignore_errors=True)


def _running(libs: Path, folder: Path) -> Broker | None:
    try:
        place, port, pid = json.loads((folder / PLACE).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    return Broker(libs, Path(place), port=port, pid=pid)


def _settings(port: int, controller: int, folder: Path) -> dict[str, str]:
    return {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "log.dirs": str(folder / "data"),
        "auto.create.topics.enable": "false",
        # Events of tests are of any age: nothing is deleted for its age while a test reads it.
        "log.initial.task.delay.ms": "86400000",
        "log.retention.check.interval.ms": "86400000",
        "group.initial.rebalance.delay.ms": "0",
        "group.min.session.timeout.ms": "1000",
        "offsets.topic.replication.factor": "1",
        "offsets.topic.num.partitions": "4",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "transaction.state.log.num.partitions": "4",
        # An owner that was killed holds up readers until its transaction is ended for it.
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
        # The default would take 128 MiB of heap at the start.
        "log.cleaner.dedupe.buffer.size": str(2 << 20),
        # A broker that was killed may come back at once.
        "broker.session.timeout.ms": "2000",
        "broker.heartbeat.interval.ms": "200",
    }


def _end(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def main(arguments: list[str]) -> int:
    """Run a broker until this process is interrupted."""
    signal.signal(signal.SIGTERM, _end)
    try:
        libs = jars()
    except Unavailable as exc:
        print(f"frontlog: {exc}", file=sys.stderr)
        return 2
    if arguments == ["--jars"]:
        return 0
    folder = Path(arguments[0]) if arguments else Path(tempfile.mkdtemp(prefix="frontlog-kafka-"))
    broker = Broker(libs, folder)
    began = time.monotonic()
    try:
        broker.start()
        print(
            f"Kafka {VERSION} listens on {broker.bootstrap} after {time.monotonic() - began:.1f} s",
            flush=True,
        )
        print(f"pid {broker.pid}, data in {folder}; Ctrl-C ends it", flush=True)
        signal.pause()
    except KeyboardInterrupt:
        pass
    finally:
        broker.stop()
        if not arguments:
            broker.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
