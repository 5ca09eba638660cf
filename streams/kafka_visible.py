"""Waiting until what was committed can be read.

Kafka answers a commit when the coordinator has it; the markers that let readers pass follow. And a reader of committed
records stops before the first transaction that is still open, be it of a writer that died: until its time-out.
"""

import time
from collections.abc import Mapping

from frontlog.avro.errors import Retriable
from frontlog.streams.kafka_reader import Readers

CLEANUP_S_MAX = 15.0
"""The broker looks for transactions that are overdue every 10 s by default."""
_PAUSE_S_MIN, _PAUSE_S_MAX = 0.001, 0.05


def await_visible(readers: Readers, ends: Mapping[tuple[str, int], int], timeout_ms: int) -> None:
    """Wait until readers of each (topic, partition) get up to its end. Raises Retriable when another's open transaction
    holds them up for longer than its time-out allows."""
    until = time.monotonic() + timeout_ms / 1_000 + CLEANUP_S_MAX
    pause_s = _PAUSE_S_MIN
    with readers.one() as reader:
        for (topic, partition), end in ends.items():
            while reader.bounds(topic, partition)[1] < end:
                if time.monotonic() > until:
                    raise Retriable(
                        f"{topic}/{partition}: committed, but readers are held up by an open transaction of another writer; "
                        "see with: kafka-transactions.sh find-hanging"
                    )
                time.sleep(pause_s)
                pause_s = min(2 * pause_s, _PAUSE_S_MAX)
