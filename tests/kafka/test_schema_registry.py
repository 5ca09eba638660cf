"""Outputs with Confluent's framing: a whole crawl with a real registry (Apicurio), read by Confluent's own client as
docs/consume.md shows; and what a person is told when the registry is away, refuses, or is none.

Not verified: Confluent's own registry, which is not to be had from a package registry.
"""

import asyncio
import json
import os
import re
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from frontlog.avro.codec import decode, schema_fingerprint
from frontlog.avro.enums import Topic
from frontlog.avro.errors import ConfigError, Retriable
from frontlog.avro.events import Fetched
from frontlog.streams.kafka_log import KafkaLog
from frontlog.streams.kafka_places import TOPICS, KafkaCrawl
from frontlog.streams.schema_registry import frames, register, single_object
from house.source import ROOT
from support.broker import Broker, Unavailable, free_ports
from support.crawls import fetched, here
from support.kafka_crawls import PARTITIONS, crawl_all
from support.processes import environment
from support.registry import Registry, jars
from support.site import Site, fill

PAGES = 5
DOCS_URL = "http://127.0.0.1:8080/apis/ccompat/v7"
NEWS = KafkaCrawl("127.0.0.1:9092", "news")


@pytest.fixture
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    """Where none can be had the tests are skipped, but never in CI."""
    try:
        one = Registry(jars(), tmp_path_factory.mktemp("registry"))
    except Unavailable as exc:
        if os.environ.get("CI") == "true":
            pytest.fail(f"no schema registry, and CI must have one: {exc}")
        pytest.skip(f"needs a schema registry: {exc}")
    try:
        yield one.start().wait()
    finally:
        one.stop()


def ask(registry: Registry, path: str, body: dict[str, Any] | None = None, method: str = "GET") -> Any:
    data = None if body is None else json.dumps(body).encode()
    wish = urllib.request.Request(
        f"{registry.url}/{path}", data, {"Content-Type": "application/json"}, method=method
    )
    with urllib.request.urlopen(wish, timeout=30) as answer:
        return json.load(answer)


def test_a_crawl_with_a_registry_is_read_as_the_page_shows(
    kafka: Broker, registry: Registry, tmp_path: Path
) -> None:
    """One test, since a registry takes seconds to start."""
    registered_again(registry)
    refused(registry)
    crawl = KafkaCrawl(kafka.bootstrap, "registered")
    words = (
        "topics",
        "create",
        str(crawl),
        "--partitions",
        str(PARTITIONS),
        "--schema-registry",
        registry.url,
    )
    made = here(*words)
    assert made.exit_code == 0, made.output
    assert "registered.crawl.fetched-value has the id" in made.output
    with Site() as site:
        wanted = fill(site, PAGES)
        more = {"schema_registry__url": registry.url}
        asyncio.run(crawl_all(crawl, tmp_path / "worker", [site.url()], len(wanted), **more))
    code = page_code(crawl, registry).replace("while True:", f"for _ in range({len(wanted)}):")
    done = subprocess.run(
        [sys.executable, "-c", code.replace("poll(1.0)", "poll(30)") + "consumer.close()\n"],
        capture_output=True, text=True, env=environment(), timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert {line.split()[0] for line in done.stdout.splitlines()} == wanted
    framed = outputs(crawl)
    for record in framed:
        assert record.value[0] == 0
        schema = json.loads(
            ask(registry, f"schemas/ids/{int.from_bytes(record.value[1:5], 'big')}")["schema"]
        )
        assert (schema["name"], "doc" in schema["fields"][0]) == ("Fetched", True)
        assert isinstance(decode(single_object(record).value), Fetched)
    copied = here("log", "copy", "--archive", tmp_path / "worker/archive", str(crawl), tmp_path / "back")
    assert copied.exit_code == 0, copied.output
    assert fetched(tmp_path / "back") == wanted
    assert here("verify", tmp_path / "back").exit_code == 0


def page_code(crawl: KafkaCrawl, registry: Registry) -> str:
    text = (ROOT / "docs" / "consume.md").read_text(encoding="utf-8")
    text = text.replace(DOCS_URL, registry.url).replace(NEWS.servers, crawl.servers)
    code: str
    (code,) = [one for one in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if "SchemaRegistry" in one]
    return code.replace("news.crawl", f"{crawl.name}.crawl")


def outputs(crawl: KafkaCrawl) -> list[Any]:
    log = KafkaLog(crawl.servers, TOPICS, prefix=crawl.prefix)
    found = [record for number in range(PARTITIONS) for record in log.scan(Topic.FETCHED, number, 0)]
    log.close()
    return found


def registered_again(registry: Registry) -> None:
    """Nothing changes, and a level that a person set stays."""
    crawl = KafkaCrawl(NEWS.servers, "again")
    with pytest.raises(
        ConfigError, match=r"again\.crawl\.fetched-value is missing there.*frontlog topics create"
    ):
        frames(registry.url, crawl)
    first = register(registry.url, crawl)
    assert ask(registry, "config/again.crawl.removed-value") == {"compatibilityLevel": "BACKWARD_TRANSITIVE"}
    ask(registry, "config/again.crawl.removed-value", {"compatibility": "FULL"}, "PUT")
    assert register(registry.url, crawl) == first
    assert ask(registry, "config/again.crawl.removed-value") == {"compatibilityLevel": "FULL"}
    assert ask(registry, "subjects/again.crawl.fetched-value/versions") == [1]
    framed = frames(registry.url, crawl)[b"\xc3\x01" + schema_fingerprint(Fetched)]
    assert framed == b"\x00" + first["again.crawl.fetched-value"].to_bytes(4, "big")


def refused(registry: Registry) -> None:
    """A schema that does not fit is told in the registry's own words."""
    crawl = KafkaCrawl(NEWS.servers, "refused")
    other = {
        "type": "record",
        "name": "Fetched",
        "namespace": "frontlog",
        "fields": [{"name": "url", "type": "int"}],
    }
    name = "refused.crawl.fetched-value"
    ask(registry, f"config/{name}", {"compatibility": "BACKWARD"}, "PUT")
    ask(registry, f"subjects/{name}/versions", {"schema": json.dumps(other)}, "POST")
    with pytest.raises(
        ConfigError, match=r"registering refused\.crawl\.fetched-value: 409, .*[Ii]ncompatible"
    ):
        register(registry.url, crawl)


# --- what a person is told, without a registry ------------------------------------------------------------------------


@pytest.fixture
def answers() -> Iterator[tuple[str, list[tuple[int, bytes]], list[str]]]:
    """A server that gives the answers it was told to, the last one for ever, and keeps who signed in."""
    wanted: list[tuple[int, bytes]] = []
    signed: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            code, body = wanted.pop(0) if len(wanted) > 1 else wanted[0]
            signed.append(self.headers.get("Authorization", ""))
            self.send_response(code)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_PUT = do_GET

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://ops:se%40cret@127.0.0.1:{server.server_port}", wanted, signed
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("code", "body", "kind", "said"),
    [
        (200, b"<html>", ConfigError, "no registry with Confluent's interface; Apicurio has it under /apis/ccompat/v7"),
        (200, b"[]", ConfigError, "no registry"),
        (200, b'{"id":"x"}', ConfigError, "no registry"),
        (404, b"<html>", ConfigError, "no registry"),
        (401, b"", ConfigError, "looking at news.crawl.fetched-value: 401; write user and password into"),
        (503, b'{"message":"starting"}', Retriable, "503, starting"),
        (422, b'{"message":"bad schema"}', ConfigError, "422, bad schema. The registry refuses the schema"),
        (400, b'{"message":"what?"}', ConfigError, "400, what?"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told(
    answers: tuple[str, list[tuple[int, bytes]], list[str]],
    code: int,
    body: bytes,
    kind: type[Exception],
    said: str,
) -> None:
    url, wanted, signed = answers
    wanted.append((code, body))
    with pytest.raises(kind, match=re.escape(said)) as told:
        register(url, NEWS)
    assert "cret" not in str(told.value)
    assert signed[0] == "Basic b3BzOnNlQGNyZXQ="  # ops:se@cret


def test_a_registry_that_is_away_is_one_to_wait_for() -> None:
    (port,) = free_ports(1)
    with pytest.raises(Retriable, match=f"127.0.0.1:{port}.*is it running"):
        frames(f"http://127.0.0.1:{port}", NEWS)


def test_a_setting_that_is_no_address_is_refused() -> None:
    told = here("topics", "create", str(NEWS), "--schema-registry", "registry:8081")
    assert told.exit_code == 2
    assert "schema_registry.url" in told.output and "absolute http or https URL" in told.output
