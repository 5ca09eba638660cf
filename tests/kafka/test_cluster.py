"""docker-compose.yml: held against the schema of the compose specification, and run on this machine by `make cluster`.

Not verified: the images, since no container engine runs here; docs/operating.md names what never ran.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from frontlog.streams.topics import CONTENT_PARTITIONS
from house.source import ROOT
from support import compose
from support.crawls import here, until
from support.processes import environment


def test_the_file_is_one_of_the_compose_specification() -> None:
    checker = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec"]
    done = subprocess.run([*checker, compose.FILE], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_docker_compose_reads_it_where_it_is_installed() -> None:
    if shutil.which("docker") is None:
        pytest.skip("no docker client")
    there = subprocess.run(["docker", "compose", "version"], capture_output=True, timeout=60, check=False)
    if there.returncode:
        pytest.skip("the docker client has no compose plugin")
    argv = ["docker", "compose", "-f", str(compose.FILE), "config", "--quiet"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


def test_names_inside_the_file_are_those_of_its_services() -> None:
    """Hosts that a command, variable or config names are services; what a service waits for and mounts is there."""
    file = compose.load()
    services: dict[str, dict[str, Any]] = file["services"]
    for name, service in services.items():
        said = json.dumps([service.get("command", []), service.get("environment", {})])
        hosts = set(re.findall(r"(?:https?://|kafka://|@)([a-z0-9-]+):\d", said))
        assert hosts <= services.keys(), name
        assert set(service.get("depends_on", [])) <= services.keys(), name
        mounted = {volume.partition(":")[0] for volume in service.get("volumes", [])}
        assert mounted <= file["volumes"].keys(), name
    scraped = re.findall(r"([a-z0-9-]+):6066", file["configs"]["prometheus"]["content"])
    assert scraped == [name for name in services if name.startswith("worker")]


def status(port: str) -> dict[str, Any]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/status", timeout=5) as answer:
            found: dict[str, Any] = json.load(answer)
            return found
    except OSError:
        return {"pages": 0, "shards": {}}


@pytest.mark.timeout(180)
def test_make_cluster_crawls_and_ends_with_its_children(kafka_jars: Path, tmp_path: Path) -> None:
    """`kafka_jars` says whether there are any; the cluster has a broker of its own."""
    assert kafka_jars.is_dir()
    argv = [sys.executable, "-m", "support.cluster", str(tmp_path / "cluster")]
    with (tmp_path / "said").open("wb") as out:
        cluster = subprocess.Popen(
            argv, stdout=out, stderr=out, env=environment(traced=False) | {"PYTHONPATH": str(ROOT / "tests")}
        )
    try:
        until(lambda: "Ctrl-C" in said(tmp_path) or cluster.poll() is not None, seconds=90)
        seeding = re.search(r"  frontlog (seed .*)", said(tmp_path))
        ports = re.findall(r"127\.0\.0\.1:(\d+)/status", said(tmp_path))
        assert seeding is not None and len(ports) == 2, said(tmp_path)
        until(lambda: sum(len(status(port)["shards"]) for port in ports) == 2 * shards(), seconds=60)
        seeded = here(*seeding[1].split())
        assert seeded.exit_code == 0, seeded.output
        until(lambda: all(status(port)["pages"] > 5 for port in ports), seconds=60)
        assert [one for one in children(cluster.pid) if "worker-2" in one]
        cluster.send_signal(signal.SIGINT)
        began = time.monotonic()
        assert cluster.wait(60) == 0
        assert time.monotonic() - began < 30
    finally:
        if cluster.poll() is None:
            cluster.terminate()
            cluster.wait(60)
    assert mentioning(str(tmp_path)) == []


def shards() -> int:
    """Each of them is owned by one worker and followed by the other."""
    words = compose.command("topics", {})
    return int(words[words.index("--partitions") + 1]) + CONTENT_PARTITIONS


def said(folder: Path) -> str:
    return (folder / "said").read_text()


def children(pid: int) -> list[str]:
    """The command lines of a process's children."""
    found: list[str] = []
    for number in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        found.append(Path(f"/proc/{number}/cmdline").read_text().replace("\0", " "))
    return found


def mentioning(text: str) -> list[str]:
    """Command lines of processes that name a folder."""
    found: list[str] = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_text().replace("\0", " ")
        except OSError:
            continue
        if text in line and int(path.parent.name) != os.getpid():
            found.append(line)
    return found
