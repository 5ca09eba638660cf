"""The bytes of one example of each event class are those that were committed (tests/support/golden.py says what to
do when they are not).
"""

import pytest

from frontlog.avro.codec import decode, encode
from support import golden
from support.examples import EVENT_EXAMPLES

GOLDEN = golden.read(golden.EVENTS_FILE)


def test_every_event_class_has_golden_bytes() -> None:
    assert GOLDEN.keys() == EVENT_EXAMPLES.keys()


@pytest.mark.parametrize("name", GOLDEN)
def test_the_example_is_encoded_to_its_golden_bytes(name: str) -> None:
    assert encode(EVENT_EXAMPLES[name]).hex() == GOLDEN[name].hex(), golden.__doc__


@pytest.mark.parametrize("name", GOLDEN)
def test_the_golden_bytes_are_read_as_the_example(name: str) -> None:
    assert decode(GOLDEN[name]) == EVENT_EXAMPLES[name]
