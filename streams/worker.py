"""`frontlog worker`: one of the processes that crawl together on Kafka, until it is told to stop.

Faust says what this process owns (`frontlog.streams.faust_host`), the host does the work (`frontlog.streams.kafka_host`).
Anything unexpected ends the process with the exit code of its error: the log decides at the next start.
"""

import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import faust
from aiokafka.errors import KafkaConnectionError

from frontlog.avro.errors import FrontlogError, Retriable
from frontlog.state.owner_lock import OwnerLock
from frontlog.streams.faust_host import make_app
from frontlog.streams.kafka_host import KafkaHost
from frontlog.streams.kafka_places import KafkaCrawl
from frontlog.streams.options import Config

EXIT_BUG = 70


def run_worker(
    crawl: KafkaCrawl,
    folder: Path,
    config: Config,
    *,
    told: Callable[[str], None],
    instance: str = "",
    standbys: int = 1,
    web: tuple[str, int] | None = None,
    loglevel: str = "warning",
) -> None:
    """Work until SIGTERM or SIGINT. `told` gets a line whenever there is news. Raises ConfigError for what a person must
    mend before it can begin, and Retriable when Kafka is away then; ends the process when something goes wrong later."""
    dying = threading.Lock()

    def failed(exc: BaseException) -> None:
        if dying.acquire(blocking=False):
            code = exc.exit_code if isinstance(exc, FrontlogError) else EXIT_BUG
            text = str(exc) if isinstance(exc, FrontlogError) else f"{type(exc).__name__}: {exc}"
            os.write(2, f"frontlog: {text}\n".encode())
            os._exit(code)

    with OwnerLock(folder, command="frontlog worker", started_ms=time.time_ns() // 1_000_000):
        host = KafkaHost(crawl, folder, config, failed=failed)
        app = make_app(crawl, host, told=told, instance=instance, standbys=standbys, web=web)
        sys.argv = [sys.argv[0]]  # Faust looks there for options of its own
        worker = faust.Worker(app, loglevel=loglevel, redirect_stdouts=False, quiet=True)
        worker.spinner = None
        try:
            worker.execute_from_commandline()
        except KafkaConnectionError as exc:
            raise Retriable(f"{crawl}: {exc}") from exc
