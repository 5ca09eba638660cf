"""docker-compose.yml as `make cluster` and the tests read it: the command of a service, with this machine's places."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

FILE = Path(__file__).resolve().parents[2] / "docker-compose.yml"
# What an image sets itself, or what only holds inside a network of containers.
_PLACES = (
    "KAFKA_LISTENERS",
    "KAFKA_ADVERTISED_LISTENERS",
    "KAFKA_CONTROLLER_QUORUM_VOTERS",
    "KAFKA_LOG_DIRS",
)


@cache
def load() -> Any:
    """The file, its anchors resolved."""
    reader: Any = YAML(typ="safe", pure=True)
    return reader.load(FILE)


def moved(text: str, places: Mapping[str, str]) -> str:
    """A text of the file with names of its network replaced by places on this machine."""
    for name, place in places.items():
        text = text.replace(name, place)
    return text


def command(service: str, places: Mapping[str, str]) -> list[str]:
    """The words of a service's command. `/crawl`, a worker's folder, is a place when it is a word of its own."""
    words: list[str] = load()["services"][service]["command"]
    words = ["" if word == "${CONTACT:-}" else word for word in words]
    folder = places.get("/crawl", "/crawl")
    others = {name: place for name, place in places.items() if name != "/crawl"}
    return [folder if word == "/crawl" else moved(word, others) for word in words]


def environment(service: str, places: Mapping[str, str]) -> dict[str, str]:
    """The variables of a service."""
    given: dict[str, Any] = load()["services"][service].get("environment", {})
    return {name: moved(str(value), places) for name, value in given.items()}


def broker_settings() -> dict[str, str]:
    """Kafka's settings as the image makes them of its variables, without those that name places."""
    given = environment("kafka", {})
    return {
        name.removeprefix("KAFKA_").lower().replace("_", "."): value
        for name, value in given.items()
        if name not in _PLACES
    }


def config(name: str, places: Mapping[str, str]) -> str:
    """The content of one of the configs."""
    return moved(load()["configs"][name]["content"], places)
