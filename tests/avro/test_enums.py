"""The vocabularies of the code and of the schemas are the same, and each word has its sentence."""

import inspect
import re

import pytest

from frontlog.avro import enums
from frontlog.avro.enums import Documented, Topic
from frontlog.avro.schemas import load_all

CLASSES = {
    name: cls
    for name, cls in vars(enums).items()
    if inspect.isclass(cls) and issubclass(cls, Documented) and cls is not Documented
}
SCHEMAS = {name: schema for name, schema in load_all().items() if schema["type"] == "enum"}


def test_each_vocabulary_of_events_has_a_schema_and_each_schema_a_vocabulary() -> None:
    # Topics are names of the log, not values inside events.
    assert CLASSES.keys() - {"Topic"} == SCHEMAS.keys()


@pytest.mark.parametrize("name", SCHEMAS)
def test_symbols_are_the_same_in_the_same_order(name: str) -> None:
    assert [member.value for member in CLASSES[name]] == SCHEMAS[name]["symbols"]


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_schema_is_documented_by_its_class(name: str) -> None:
    assert SCHEMAS[name]["doc"]
    assert inspect.getdoc(CLASSES[name])


@pytest.mark.parametrize("name", CLASSES)
def test_each_word_has_a_sentence_of_its_own(name: str) -> None:
    sentences = [member.doc for member in CLASSES[name]]
    assert all(len(sentence) > 5 and sentence == sentence.strip() for sentence in sentences)
    assert len(set(sentences)) == len(sentences)


@pytest.mark.parametrize("name", CLASSES)
def test_a_word_is_found_by_its_name_on_the_wire(name: str) -> None:
    for member in CLASSES[name]:
        assert CLASSES[name].named(member.value) is member
    with pytest.raises(KeyError):
        CLASSES[name].named("no such word")


def test_topics_are_names_that_kafka_takes() -> None:
    assert all(re.fullmatch(r"[a-z.-]{1,100}", topic) for topic in Topic)
    groups = (
        *enums.INPUT_TOPICS, *enums.CONTENT_INPUT_TOPICS, *enums.DECISION_TOPICS,
        *enums.CONTENT_DECISION_TOPICS, *enums.OUTPUT_TOPICS, Topic.CENSUS,
    )  # fmt: skip
    assert set(groups) == set(Topic)
