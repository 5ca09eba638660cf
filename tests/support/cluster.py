"""`make cluster`: a broker, two workers and the demo's site on this machine, until Ctrl-C.

    python -m support.cluster [FOLDER]

Each process is started with the command that docker-compose.yml gives its service; a worker that ends is started again.
"""

import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from support.broker import Broker, Unavailable, jars
from support.crawls import command, options
from support.processes import environment
from support.site import Site, fill

SETTINGS: dict[str, object] = {
    "fetch.allow_addresses": ["127.0.0.0/8"],
    "politeness.gap_ms_min": 200,
    "politeness.gap_factor": 0,
}
HOSTS, PAGES, PARTITIONS = 8, 200, 4


def run(folder: Path) -> None:
    """Start all of it, tell how to use it, and tend the workers."""
    broker = Broker(jars(), folder / "kafka").start()
    crawl = f"kafka://{broker.bootstrap}/demo"
    workers: dict[str, subprocess.Popen[bytes]] = {}
    try:
        with Site(hosts=HOSTS) as site:
            fill(site, PAGES)
            made = command("topics", "create", crawl, "--partitions", str(PARTITIONS))
            subprocess.run(made, check=True, env=environment())
            print(f"site: {HOSTS} hosts of {PAGES} pages; a seed of each:")
            print(f"  frontlog seed {' '.join(site.url(n) for n in range(HOSTS))} -C {crawl}")
            print(
                f"look: frontlog doctor {crawl}        Ctrl-C ends all of it; the data are in {folder}",
                flush=True,
            )
            while True:
                for name in ("worker-1", "worker-2"):
                    if name not in workers or workers[name].poll() is not None:
                        argv = command(
                            "worker", crawl, "--out", folder / name, "--instance", name, *options(SETTINGS)
                        )
                        workers[name] = subprocess.Popen(argv, env=environment(), start_new_session=True)
                time.sleep(0.5)
    finally:
        for worker in workers.values():
            worker.send_signal(signal.SIGTERM)
        for worker in workers.values():
            worker.wait(40)
        broker.stop()


def _end(_signal: int, _frame: object) -> None:
    raise KeyboardInterrupt


def main(arguments: list[str]) -> int:
    """Run until interrupted."""
    signal.signal(signal.SIGTERM, _end)
    folder = Path(arguments[0]) if arguments else Path(tempfile.mkdtemp(prefix="frontlog-cluster-"))
    try:
        run(folder)
    except Unavailable as exc:
        print(f"frontlog: {exc}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 0
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
