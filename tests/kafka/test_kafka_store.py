"""A shard's store on Kafka is a cache: thrown away when it may be damaged or was folded otherwise, and only then."""

from pathlib import Path

import pytest

from frontlog.state import head as heads
from frontlog.state.head import Head
from frontlog.state.rows import FOLD_VERSION
from frontlog.state.store import Store
from frontlog.streams.kafka_shard import OPEN_FILE, close_store, open_store


def write(store: Store, head: Head) -> None:
    with store.begin(write=True) as txn:
        heads.save(txn, head)
        txn.commit()


def seq_after(folder: Path) -> int:
    store = open_store(folder)
    try:
        with store.begin() as txn:
            return heads.load(txn).seq
    finally:
        close_store(store, folder)


@pytest.mark.parametrize(
    ("fold_version", "clean", "boot", "kept"),
    [
        (FOLD_VERSION, True, "", True),
        (FOLD_VERSION, False, "", True),  # the process was killed: the system has what it wrote
        (FOLD_VERSION, False, "another", False),  # the machine went down
        (FOLD_VERSION, True, "another", True),
        (FOLD_VERSION + 1, True, "", False),
    ],
)
def test_what_may_be_damaged_is_folded_anew(
    tmp_path: Path, fold_version: int, clean: bool, boot: str, kept: bool
) -> None:
    folder = tmp_path / "frontier-0"
    store = open_store(folder)
    write(store, Head(seq=7, fold_version=fold_version))
    assert (folder / OPEN_FILE).exists()
    if clean:
        close_store(store, folder)
        assert not (folder / OPEN_FILE).exists()
    else:
        store.close()
    if boot and not clean:
        (folder / OPEN_FILE).write_text(boot)
    assert seq_after(folder) == (7 if kept else 0)
