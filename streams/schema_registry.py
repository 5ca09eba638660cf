"""The schemas of what a crawl gives out, at a registry with Confluent's interface, and Confluent's framing of values.

    00 | id of the schema at the registry, 4 bytes big endian | Avro body

`frontlog topics create` registers them, under the subject `TOPIC-value` as Confluent's clients look for it; a worker asks
for their ids once, when it starts, and needs no registry after that. Tried with Apicurio Registry, whose interface of
this kind lies under `/apis/ccompat/v7`.

Three calls are all that is needed, so the standard library makes them: the client that comes with confluent-kafka would
bring a dozen packages along (docs/adr/0008-workers-on-kafka.md).
"""

import base64
import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from http.client import HTTPException
from typing import Any, cast
from urllib.parse import quote, unquote, urlsplit

from frontlog.avro.codec import FRAME_BYTES, MARKER, schema_fingerprint
from frontlog.avro.enums import Topic
from frontlog.avro.errors import ConfigError, FrontlogError, Retriable
from frontlog.avro.events import Event, Fetched, Removed
from frontlog.avro.schemas import inlined
from frontlog.streams.kafka_places import KafkaCrawl
from frontlog.streams.records import Record

OUTPUTS: Mapping[Topic, type[Event]] = {Topic.FETCHED: Fetched, Topic.REMOVED: Removed}
"""What others consume: topic → what its records are."""
LEVEL = "BACKWARD_TRANSITIVE"
"""What a new version of a schema must be: able to read all that was ever written. Readers are updated before writers, since
a reason that is new can't be read by an old one (`frontlog.avro.compat`)."""
CALL_S_MAX = 10.0
ANSWER_BYTES_MAX = 4 << 20
_TYPE = "application/vnd.schemaregistry.v1+json"
_MAGIC = b"\x00"
CONFLUENT_FRAME_BYTES = 5
SCHEMA_HEADER = "schema"
"""The header of an output that names its schema by our fingerprint, in hexadecimal digits."""
_REFUSED = (409, 422)
_LATER = (408, 429)


def subject(crawl: KafkaCrawl, topic: Topic) -> str:
    """What the schema of a topic's values is called at the registry."""
    return f"{crawl.prefix}{topic}-value"


def schema_text(topic: Topic) -> str:
    """The schema of a topic's values as it is registered: with the docs of its fields, every named type defined in it."""
    return json.dumps(inlined(OUTPUTS[topic].__name__), ensure_ascii=False, separators=(",", ":"))


def register(url: str, crawl: KafkaCrawl) -> dict[str, int]:
    """Register the schemas of a crawl's outputs; ids by subject. A subject that has no level of compatibility gets ours; one
    that a person has set is left. Nothing changes when all of it is there. Raises ConfigError, Retriable."""
    found: dict[str, int] = {}
    for topic in OUTPUTS:
        name = subject(crawl, topic)
        level = f"config/{quote(name, safe='')}"
        if _call(url, "GET", level, f"looking at {name}", missing={}) == {}:
            _call(url, "PUT", level, f"setting the compatibility of {name}", {"compatibility": LEVEL})
        path = f"subjects/{quote(name, safe='')}/versions"
        answer = _call(url, "POST", path, f"registering {name}", {"schema": schema_text(topic)})
        found[name] = _id_of(url, answer)
    return found


def frames(url: str, crawl: KafkaCrawl) -> dict[bytes, bytes]:
    """What stands in front of an output's body: in our encoding → in Confluent's framing. Raises ConfigError when the
    schemas are not registered, and Retriable when nobody answers."""
    found: dict[bytes, bytes] = {}
    for topic, kind in OUTPUTS.items():
        name = subject(crawl, topic)
        path = f"subjects/{quote(name, safe='')}"
        answer = _call(url, "POST", path, f"looking {name} up", {"schema": schema_text(topic)}, missing={})
        if answer == {}:
            raise ConfigError(
                f"schema registry {shown(url)}: {name} is missing there, or is not this version's; run: "
                f"frontlog topics create {crawl} --schema-registry {shown(url)}"
            )
        found[MARKER + schema_fingerprint(kind)] = _MAGIC + _id_of(url, answer).to_bytes(4, "big")
    return found


def single_object(record: Record) -> Record:
    """An output that has Confluent's framing, in our own encoding: its header `schema` has the fingerprint."""
    schema = dict(record.headers).get(SCHEMA_HEADER, b"")
    if record.value[:1] != _MAGIC or len(schema) != 2 * (FRAME_BYTES - len(MARKER)):
        return record
    value = MARKER + bytes.fromhex(schema.decode("ascii")) + record.value[CONFLUENT_FRAME_BYTES:]
    return record._replace(value=value)


def shown(url: str) -> str:
    """The address of a registry without user and password."""
    head, _, rest = url.partition("://")
    return f"{head}://{rest.rpartition('@')[2]}"


def _id_of(url: str, answer: Any) -> int:
    found: object = cast("dict[str, object]", answer).get("id") if isinstance(answer, dict) else None
    if isinstance(found, int):
        return found
    raise _no_registry(url)


def _call(
    url: str,
    method: str,
    path: str,
    doing: str,
    body: Mapping[str, str] | None = None,
    *,
    missing: Any = None,
) -> Any:
    """What the registry answers to a call; `missing` for a 404, if that may be."""
    where = f"schema registry {shown(url)}: {doing}"
    try:
        with urllib.request.urlopen(_request(url, method, path, body), timeout=CALL_S_MAX) as answer:
            return json.loads(answer.read(ANSWER_BYTES_MAX))
    except urllib.error.HTTPError as exc:
        with exc:
            said = _said(exc)
        if exc.code == 404 and missing is not None and said is not None:
            return missing
        raise _refusal(url, where, exc.code, said) from exc
    except (OSError, HTTPException) as exc:  # URLError and time-outs are OSErrors
        reason: object = getattr(exc, "reason", exc)
        raise Retriable(f"{where}: {reason}; is it running, and is schema_registry.url right?") from exc
    except ValueError as exc:
        raise _no_registry(url) from exc


def _refusal(url: str, where: str, code: int, said: str | None) -> FrontlogError:
    """What an answer that is no success means to who asked."""
    text = f"{where}: {code}{f', {said}' if said else ''}"
    if code in _REFUSED:
        return ConfigError(f"{text}. The registry refuses the schema; a subject's level is at config/SUBJECT")
    if code in (401, 403):
        return ConfigError(
            f"{text}; write user and password into schema_registry.url: https://USER:PASSWORD@HOST"
        )
    if code >= 500 or code in _LATER:
        return Retriable(text)
    return _no_registry(url) if said is None else ConfigError(text)


def _no_registry(url: str) -> ConfigError:
    return ConfigError(
        f"schema registry {shown(url)}: what answers there is no registry with Confluent's interface; Apicurio has it "
        "under /apis/ccompat/v7"
    )


def _request(url: str, method: str, path: str, body: Mapping[str, str] | None) -> urllib.request.Request:
    headers = {"Accept": f"{_TYPE}, application/json", "Content-Type": _TYPE}
    parts = urlsplit(url)
    if parts.username is not None:
        secret = f"{unquote(parts.username)}:{unquote(parts.password or '')}".encode()
        headers["Authorization"] = f"Basic {base64.b64encode(secret).decode('ascii')}"
    data = None if body is None else json.dumps(body).encode()
    return urllib.request.Request(f"{shown(url).rstrip('/')}/{path}", data, headers, method=method)


def _said(exc: urllib.error.HTTPError) -> str | None:
    """The registry's own words; None when it is no registry that answers."""
    try:
        message: object = json.loads(exc.read(ANSWER_BYTES_MAX))["message"]
        return str(message)
    except (ValueError, KeyError, TypeError, OSError, HTTPException):
        return None
