"""`make cluster`: docker-compose.yml on this machine, until Ctrl-C, with a site on loopback to crawl.

    python -m support.cluster [FOLDER]

Each process is started with the command that docker-compose.yml gives its service, and one that ends is started again.
Kafka and the registry come from Maven's jars; Prometheus, the store and what uploads to it run where `prometheus`,
`versitygw` and `rclone` are installed. The console of Kafka is the one service that only a container has.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

from support import broker as kafka
from support import compose, registry
from support.crawls import command, options
from support.processes import environment
from support.site import Site, fill

SETTINGS: dict[str, object] = {
    "fetch.allow_addresses": ["127.0.0.0/8"],
    "politeness.gap_ms_min": 200,
    "politeness.gap_factor": 0,
}
HOSTS, PAGES = 8, 200
WORKERS = ("worker", "worker-2")
END_S_MAX = 40


class Service:
    """One process, started again when it ends; what it says goes into a file."""

    def __init__(self, name: str, argv: list[str], log: Path, more: Mapping[str, str] | None = None) -> None:
        self.name = name
        self._argv = argv
        self._log = log
        self._environment = environment(traced=False) | dict(more or {})
        self._process: subprocess.Popen[bytes] | None = None

    def tend(self) -> None:
        """Start it if it does not run."""
        if self._process is None or self._process.poll() is not None:
            if self._process is not None:
                print(f"{self.name} ended with {self._process.returncode}: {self._log}", flush=True)
            with self._log.open("ab") as log:
                self._process = subprocess.Popen(
                    self._argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self._environment,
                    start_new_session=True,
                )  # fmt: skip

    def end(self) -> None:
        """Tell it to end, and wait."""
        if self._process is not None and self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGTERM)
            try:
                self._process.wait(END_S_MAX)
            except subprocess.TimeoutExpired:
                os.killpg(self._process.pid, signal.SIGKILL)
                self._process.wait()


def services(folder: Path, bootstrap: str, registry_url: str, ports: list[int]) -> list[Service]:
    """What runs beside Kafka and the registry. `ports`: of the two workers, of Prometheus and of the store."""
    web = dict(zip(WORKERS, ports[:2], strict=True))
    places = {"kafka:9092": bootstrap, "http://registry:8080/apis/ccompat/v7": registry_url}
    found: list[Service] = []
    for name in WORKERS:
        own = places | {"/crawl": str(folder / name), "0.0.0.0:6066": f"127.0.0.1:{web[name]}"}
        argv = command(*compose.command(name, own), *options(SETTINGS))
        found.append(Service(name, argv, folder / f"{name}.log"))
    if program := shutil.which("prometheus"):
        # The longer name first: one ends with the other.
        where = {f"{name}:6066": f"127.0.0.1:{web[name]}" for name in reversed(WORKERS)}
        path = folder / "prometheus.yml"
        path.write_text(compose.config("prometheus", where), encoding="utf-8")
        own = {"/etc/prometheus/prometheus.yml": str(path), "=/prometheus": f"={folder / 'prometheus'}"}
        argv = [program, *compose.command("prometheus", own), f"--web.listen-address=127.0.0.1:{ports[2]}"]
        found.append(Service("prometheus", argv, folder / "prometheus.log"))
    store, upload = shutil.which("versitygw"), shutil.which("rclone")
    if store and upload:
        (folder / "store").mkdir(exist_ok=True)
        own = {":7070": f"127.0.0.1:{ports[3]}", "/data": str(folder / "store")}
        argv = [store, *compose.command("store", own)]
        found.append(Service("store", argv, folder / "store.log", compose.environment("store", {})))
        for number, name in enumerate(WORKERS, 1):
            script = compose.command(f"upload-{number}", {"/crawl/": f"{folder / name}/", "$$": "$"})
            more = compose.environment(f"upload-{number}", {"store:7070": f"127.0.0.1:{ports[3]}"})
            found.append(
                Service(f"upload-{number}", ["sh", "-c", *script], folder / f"upload-{number}.log", more)
            )
    return found


def run(folder: Path) -> None:
    """Start all of it, tell how to use it, and tend it."""
    with ExitStack() as ended:
        libs, app = kafka.jars(), registry.jars()
        broker = kafka.Broker(libs, folder / "kafka", settings=compose.broker_settings()).start()
        ended.callback(broker.stop)
        places = {"kafka:9092": broker.bootstrap}
        schemas = registry.Registry(app, folder, compose.environment("registry", places)).start()
        ended.callback(schemas.stop)
        site = ended.enter_context(Site(hosts=HOSTS))
        fill(site, PAGES)
        schemas.wait()
        made = compose.command("topics", places | {"http://registry:8080/apis/ccompat/v7": schemas.url})
        subprocess.run(command(*made), check=True, env=environment(traced=False))
        ports = kafka.free_ports(4)
        running = services(folder, broker.bootstrap, schemas.url, ports)
        for one in running:  # ended in the opposite order, those that need no other first
            ended.callback(one.end)
        tell(f"kafka://{broker.bootstrap}/crawl", site, schemas.url, ports, [one.name for one in running])
        print(f"Ctrl-C ends all of it; data and logs are in {folder}", flush=True)
        while True:
            for one in running:
                one.tend()
            time.sleep(0.5)


def tell(crawl: str, site: Site, registry_url: str, ports: list[int], running: list[str]) -> None:
    """What a person does next."""
    print(f"site: {HOSTS} hosts of {PAGES} pages; a seed of each:")
    print(f"  frontlog seed {' '.join(site.url(n) for n in range(HOSTS))} -C {crawl}")
    print(f"look: frontlog doctor {crawl}")
    print(
        f"  workers: {' '.join(f'http://127.0.0.1:{port}/status' for port in ports[:2])}; registry: {registry_url}"
    )
    if "prometheus" in running:
        print(f"  Prometheus: http://127.0.0.1:{ports[2]}")
    missing = [name for name in ("prometheus", "store") if name not in running]
    if missing:
        print(f"  not run, since it is not installed: {', '.join(missing)}")


def _end(_signal: int, _frame: object) -> None:
    raise KeyboardInterrupt


def main(arguments: list[str]) -> int:
    """Run until interrupted."""
    signal.signal(signal.SIGTERM, _end)
    folder = Path(arguments[0]) if arguments else Path(tempfile.mkdtemp(prefix="frontlog-cluster-"))
    folder.mkdir(parents=True, exist_ok=True)
    try:
        run(folder)
    except kafka.Unavailable as exc:
        print(f"frontlog: {exc}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 0
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
