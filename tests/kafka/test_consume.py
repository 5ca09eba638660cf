"""docs/consume.md with real consumers: its Python, Kafka's console consumer, and kcat where it is installed."""

import asyncio
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from frontlog.streams.kafka_places import KafkaCrawl
from frontlog.streams.kafka_topics import create
from house.source import ROOT
from support.broker import Broker
from support.kafka_crawls import crawl_all
from support.processes import environment
from support.site import Site, fill

PAGES = 5
CONSOLE = "org.apache.kafka.tools.consumer.ConsoleConsumer"


@pytest.mark.timeout(120)
def test_what_the_page_shows_works(kafka: Broker, tmp_path: Path) -> None:
    create(KafkaCrawl(kafka.bootstrap, "news"), 2)
    with Site() as site:
        wanted = fill(site, PAGES)
        asyncio.run(crawl_all(KafkaCrawl(kafka.bootstrap, "news"), tmp_path, [site.url()], len(wanted)))
    text = (
        (ROOT / "docs" / "consume.md").read_text(encoding="utf-8").replace("127.0.0.1:9092", kafka.bootstrap)
    )
    first, second, _ = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    bounded = first.replace("while True:", f"for _ in range({len(wanted)}):").replace("poll(1.0)", "poll(30)")
    code = bounded + second.replace('"avro/', f'"{ROOT}/avro/') + "print(fetched['url'])\nconsumer.close()\n"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment(), cwd=ROOT, timeout=60, check=False
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert {line.split()[1] for line in lines[:-1]} == wanted and lines[-1] in wanted
    words = shell(text, "kafka-console-consumer.sh")[1:]
    shown = kafka.tool(CONSOLE, *words, "--max-messages", str(len(wanted)), "--timeout-ms", "30000")
    assert shown.stdout.count("type:Fetched") == len(wanted), shown.stderr
    if shutil.which("kcat"):
        argv = [word.replace("\\n", "\n") for word in shell(text, "kcat -C")]
        listed = subprocess.run(argv, capture_output=True, text=True, timeout=30, check=True)
        assert listed.stdout.count("type=Fetched") == len(wanted)


def shell(text: str, begins: str) -> list[str]:
    """A command of the page, its lines joined, as words."""
    found = re.search(rf"^    ({re.escape(begins)}.*?[^\\])$", text, re.MULTILINE | re.DOTALL)
    assert found is not None, begins
    return [
        word.strip("'") for word in found[1].replace("\\\n", " ").replace("'%k %h\\n'", "%k_%h\\n").split()
    ]
