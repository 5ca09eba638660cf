"""Bad input and a bad past: unreadable records, clocks, partitions, damaged logs. What is said, and what is lost."""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from frontlog.avro.codec import encode
from frontlog.avro.enums import SourceKind, Topic
from frontlog.avro.errors import ConfigError, Corrupt
from frontlog.avro.events import Discovery, Reject
from frontlog.processors.sites import partition_of
from frontlog.state import head as heads
from frontlog.state.catalogue import STORE_TABLES
from frontlog.state.lmdb_store import LmdbStore
from frontlog.state.store import in_write
from frontlog.streams import shard
from frontlog.streams.clock import BEHIND_MS_MAX, SystemClock
from frontlog.streams.embedded_log import EmbeddedLog
from frontlog.streams.records import NewRecord
from frontlog.streams.summary import End
from frontlog.streams.topics import TOPIC_IDS
from support.crawls import TOLERANCE_S, crawl, events, fetched, prove
from support.site import Site, fill


def part(folder: Path, name: str) -> LmdbStore:
    return LmdbStore(folder / "log" / name, STORE_TABLES)


def append(folder: Path, name: str, topic: Topic, partition: int, value: bytes) -> int:
    """Append a record as somebody else would."""
    store = part(folder, name)
    log = EmbeddedLog(store, TOPIC_IDS)
    offset = in_write(
        store, lambda txn: log.within(txn).append(topic, partition, [NewRecord(1, b"k", value)])
    )
    store.close()
    return offset


def test_records_that_nobody_can_read_are_rejected_with_their_place_and_the_crawl_goes_on(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "c"
    with Site() as site:
        everything = fill(site, 3)
        home = partition_of(site.address(), 4)
        crawl(folder, site.url(), crawl__pages_max=1)
        event = Discovery(event_id="x", origin_key="h", source_kind=SourceKind.PAGE, urls=("http://h/",))
        bad = [b"", b"\xc3\x01unknown schema", b"plain text", encode(event)[:-3]]
        placed = [append(folder, f"frontier-{home}", Topic.DISCOVERIES, home, value) for value in bad]
        wish = append(folder, "frontier-1", Topic.CONTROL, 1, b'{"cmd": "dance"}')
        result = append(folder, f"frontier-{home}", Topic.FETCH_RESULTS, home, b"\x00" * 5_000)
        candidate = append(folder, "content-0", Topic.CANDIDATES, 0, b"?")
        summary = crawl(folder)
    assert summary.end is End.DONE and summary.rejects == 7
    assert fetched(folder) == everything
    rejects = [one for one in events(folder, Topic.REJECTS) if isinstance(one, Reject)]
    assert {(one.topic, one.partition, one.offset) for one in rejects} == {
        *((Topic.DISCOVERIES, home, offset) for offset in placed), (Topic.CONTROL, 1, wish),
        (Topic.FETCH_RESULTS, home, result), (Topic.CANDIDATES, 0, candidate),
    }  # fmt: skip
    assert all(one.detail for one in rejects)
    prove(folder)


def test_a_clock_that_is_far_behind_the_log_is_refused_with_both_times(tmp_path: Path) -> None:
    folder = tmp_path / "c"
    with Site() as site:
        everything = fill(site, 2)
        crawl(folder, site.url(), crawl__pages_max=1)
        ahead = SystemClock().now_ms() + 3_600_000
        _set_last_time(folder, "frontier-2", ahead)
        with pytest.raises(
            ConfigError, match=r"frontier-2: this machine's clock says 20\d\d-.*Z, the log's last entry is of"
        ):
            crawl(folder)
        _set_last_time(folder, "frontier-2", ahead - 3_600_000)
        assert crawl(folder).end is End.DONE
    assert fetched(folder) == everything


def _set_last_time(folder: Path, name: str, at_ms: int) -> None:
    from msgspec.structs import replace

    store = part(folder, name)
    with store.begin(write=True) as txn:
        heads.save(txn, replace(heads.load(txn), at_ms=at_ms))
        txn.commit()
    store.close()


def test_a_clock_that_is_a_little_behind_shortens_no_gap(tmp_path: Path) -> None:
    folder = tmp_path / "c"
    with Site() as site:
        everything = fill(site, 4)
        crawl(folder, site.url(), crawl__pages_max=1)
        for number in range(4):
            _set_last_time(folder, f"frontier-{number}", SystemClock().now_ms() + BEHIND_MS_MAX - 1_000)
        assert crawl(folder, politeness__gap_ms_min=200).end is End.DONE
    assert fetched(folder) == everything
    later = site.asked()[2:]
    assert all(b.began_s - a.ended_s >= 0.2 - TOLERANCE_S for a, b in pairwise(later))


@pytest.mark.parametrize("partitions", [2, 8])
def test_another_number_of_partitions_is_refused_and_leaves_nothing_behind(
    tmp_path: Path, partitions: int
) -> None:
    folder = tmp_path / "c"
    with Site() as site:
        everything = fill(site, 2)
        crawl(folder, site.url(), crawl__pages_max=1)
        before = sorted(path.name for path in (folder / "log").iterdir())
        with pytest.raises(ConfigError, match=f"log.partitions says {partitions}; set it to what it was"):
            crawl(folder, log__partitions=partitions)
        assert sorted(path.name for path in (folder / "log").iterdir()) == before
        assert crawl(folder).end is End.DONE
    assert fetched(folder) == everything


def _cut_transitions(folder: Path, home: int) -> None:
    store = part(folder, f"frontier-{home}")
    with store.begin(write=True) as txn:
        last = txn.last(
            "log", bytes([TOPIC_IDS[Topic.TRANSITIONS]]), bytes([TOPIC_IDS[Topic.TRANSITIONS] + 1])
        )
        assert last is not None
        txn.delete("log", last[0])
        txn.commit()
    store.close()


def _edit_input(folder: Path, home: int) -> None:
    append(folder, f"frontier-{home}", Topic.DISCOVERIES, home, b"x" * 300)
    store = part(folder, f"frontier-{home}")
    with store.begin(write=True) as txn:
        last = txn.last(
            "log", bytes([TOPIC_IDS[Topic.DISCOVERIES]]), bytes([TOPIC_IDS[Topic.DISCOVERIES] + 1])
        )
        assert last is not None
        data = bytearray(last[1])
        data[-3] ^= 0xFF
        txn.put("log", last[0], bytes(data))
        txn.commit()
    store.close()


def _overwrite_store(folder: Path, home: int) -> None:
    path = folder / "log" / f"frontier-{home}" / "data.mdb"
    with path.open("r+b") as file:
        file.write(b"\xaa" * 8_192)


def _damage_head(folder: Path, home: int) -> None:
    store = part(folder, f"frontier-{home}")
    with store.begin(write=True) as txn:
        txn.put("meta", heads.KEY, b"\xc1 not a head")
        txn.commit()
    store.close()


@pytest.mark.parametrize("damage", [_cut_transitions, _edit_input, _overwrite_store, _damage_head])
def test_a_damaged_log_stops_the_crawl_and_says_where(
    tmp_path: Path, damage: Callable[[Path, int], None]
) -> None:
    folder = tmp_path / "c"
    with Site() as site:
        fill(site, 3)
        crawl(folder, site.url(), crawl__pages_max=1)
        asked = len(site.asked())
        home = partition_of(site.address(), 4)
        damage(folder, home)
        for _ in range(2):  # it lets go of everything: the second start says the same
            with pytest.raises(Corrupt) as failed:
                crawl(folder)
            assert failed.value.exit_code == 4
            assert "rebuild" in str(failed.value) or "restore" in str(failed.value), str(failed.value)
        assert len(site.asked()) == asked


def test_a_failure_inside_a_shard_ends_the_run_with_its_error_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "c"
    with Site() as site:
        everything = fill(site, 4)
        real, calls = shard.Shard.step, 0

        def step(self: shard.Shard, wanted: int) -> Any:
            nonlocal calls
            calls += self.waiting() > 0
            if calls == 8:
                raise Corrupt("a row that cannot be read")
            return real(self, wanted)

        with monkeypatch.context() as patch:
            patch.setattr(shard.Shard, "step", step)
            with pytest.raises(Corrupt, match="a row that cannot be read"):
                crawl(folder, site.url())
        assert crawl(folder).end is End.DONE
    assert fetched(folder) == everything
    prove(folder)
