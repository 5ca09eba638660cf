"""Fields of the JSON questions of `frontlog check`: each reader raises ConfigError, which names the field."""

from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Mapping
from typing import cast

from frontlog.avro.errors import ConfigError

JsonObject = Mapping[str, object]


def text_of(question: JsonObject, name: str, what: str) -> str:
    """A text that must be there; `what` says what it means."""
    value = question.get(name)
    if not isinstance(value, str):
        raise ConfigError(f'"{name}" must be a string: {what}')
    return value


def text_or_none(question: JsonObject, name: str, what: str) -> str | None:
    """A text that may be left out."""
    return None if question.get(name) is None else text_of(question, name, what)


def body_of(question: JsonObject, text_name: str, b64_name: str) -> tuple[bytes, bool]:
    """(bytes, whether they were given as text, which then stands in UTF-8); exactly one of the two."""
    text, encoded = question.get(text_name), question.get(b64_name)
    if isinstance(text, str) and encoded is None:
        return text.encode("utf-8", "replace"), True
    if isinstance(encoded, str) and text is None:
        try:
            return b64decode(encoded, validate=True), False
        except (Base64Error, ValueError) as error:
            raise ConfigError(f'"{b64_name}" is not base64: {error}') from None
    raise ConfigError(
        f'one of "{text_name}" (text) and "{b64_name}" (bytes in base64) must be given, as a string'
    )


def headers_of(question: JsonObject, name: str) -> list[tuple[str, str]]:
    """(lower-case name, value) of each header, given as [[name, value], ...] or as an object."""
    value = question.get(name)
    pairs: list[object] = []
    if isinstance(value, Mapping):
        pairs = list(cast("Mapping[object, object]", value).items())
    elif isinstance(value, list):
        pairs = cast("list[object]", value)
    elif value is not None:
        raise ConfigError(f'"{name}" must be a list of [name, value], or an object')
    headers: list[tuple[str, str]] = []
    for pair in pairs:
        two = list(cast("list[object]", pair)) if isinstance(pair, list | tuple) else []
        if len(two) != 2 or not isinstance(two[0], str) or not isinstance(two[1], str):
            raise ConfigError(f'"{name}" must be a list of [name, value], each a string')
        headers.append((two[0].strip().lower(), two[1]))
    return headers
