"""`replay rebuild`: the same tables from the log alone, in a folder that can be crawled on; or where they part."""

import shutil
from pathlib import Path

import pytest
from msgspec.structs import replace

from frontlog.avro.enums import State, Topic
from frontlog.avro.errors import ConfigError, Corrupt, Incompatible
from frontlog.avro.events import Transition
from frontlog.replay.folder import ARCHIVE_FROM, open_shard, shards_of
from frontlog.replay.rebuild import rebuild
from frontlog.replay.shapes import Advance
from frontlog.state import head as heads
from frontlog.state.catalogue import DIGESTED, LOG, META, STORE_TABLES
from frontlog.state.lmdb_store import LmdbStore
from frontlog.state.store import Item
from frontlog.streams.embedded import DURABILITY_KEY
from frontlog.streams.embedded_log import EmbeddedLog
from frontlog.streams.topics import TOPIC_IDS
from support.driver import START_MS, Driver
from support.faults_forged import busy, opened
from support.forge import Forgery, forge
from support.looking import PARTITIONS, SETTINGS, found_wrong, silent, small_web


def rows(folder: Path) -> dict[tuple[str, str], list[Item]]:
    """Every row of every table that counts, the log included."""
    found: dict[tuple[str, str], list[Item]] = {}
    for ref in shards_of(folder):
        with open_shard(ref) as shard, shard.store.begin() as txn:
            found |= {(ref.name, table): list(txn.scan(table)) for table in (*DIGESTED, LOG.name, META.name)}
    return found


def test_every_row_and_every_byte_of_the_log_is_the_same(honest: Path, tmp_path: Path) -> None:
    told: list[Advance] = []
    done = rebuild(honest, tmp_path / "new", told.append)
    assert done.equal
    assert done.differences == ()
    assert rows(tmp_path / "new") == rows(honest)
    assert done.records == sum(shard.records for shard in done.shards) == told[-1].done == told[-1].total
    assert {shard.shard for shard in done.shards} == {ref.name for ref in shards_of(honest)}


def test_processes_of_their_own_come_to_the_same(honest: Path, tmp_path: Path) -> None:
    done = rebuild(honest, tmp_path / "new", silent, processes=2)
    assert done.equal
    assert rows(tmp_path / "new") == rows(honest)


def test_the_new_folder_is_a_whole_crawl(crawl: Path, tmp_path: Path) -> None:
    (crawl / "frontlog.toml").write_text("[scope]\n", "utf-8")
    (crawl / "owner.lock").write_text("pid=1\n", "utf-8")
    store = opened(crawl, busy(crawl))
    with store.begin(write=True) as txn:
        txn.put(META.name, DURABILITY_KEY, b"fsync")
        txn.commit()
    store.close()
    new = tmp_path / "new"
    assert rebuild(crawl, new, silent).equal
    assert (new / "frontlog.toml").read_text("utf-8") == "[scope]\n"
    assert not (new / "owner.lock").exists()
    later = START_MS + 7_200_000
    with Driver(
        new, partitions=PARTITIONS, web=small_web(), settings=SETTINGS, archive=True, start_ms=later
    ) as going_on:
        going_on.seed("http://a.example/later")
        going_on.web.pages["http://a.example/later"] = going_on.web.pages["http://a.example/2"]
        going_on.run(until_ms=going_on.clock.at_ms + 60_000)
        assert going_on.state("http://a.example/later") is State.FETCHED
    assert found_wrong(new, deep=True) == {}, (
        "bodies of before lie in the old archive, the others in the new one"
    )
    again = tmp_path / "again"
    assert rebuild(new, again, silent).equal
    assert (again / ARCHIVE_FROM).read_text("utf-8").split() == [str(new / "archive"), str(crawl / "archive")]


def test_a_table_that_went_astray_is_named(crawl: Path, tmp_path: Path) -> None:
    name = busy(crawl)
    store = opened(crawl, name)
    with store.begin(write=True) as txn:
        head = heads.load(txn)
        digests = {**head.digests, "hosts": (bytes(16), 7)}
        heads.save(txn, heads.Head(**{**_fields(head), "digests": digests, "at_ms": 1}))  # type: ignore[arg-type]
        txn.commit()
    store.close()
    done = rebuild(crawl, tmp_path / "new", silent)
    assert not done.equal
    assert [text.partition(":")[0] for text in done.differences] == [name, name]
    assert "at_ms" in done.differences[0]
    assert "table hosts" in done.differences[1]


def _fields(head: heads.Head) -> dict[str, object]:
    return {field: getattr(head, field) for field in head.__struct_fields__}


def test_a_broken_chain_is_named_and_what_is_before_it_is_folded(crawl: Path, tmp_path: Path) -> None:
    bad: list[int] = []

    def edit(forged: Forgery) -> None:
        forged.keep_chain = True
        for draft, n, event in forged.events(Transition):
            if event.to_state is State.FETCHED:
                draft.decisions[n] = replace(event, detail="never said")
                bad[:] = [draft.batch.first_seq, draft.batch.seq]
                return

    forge(crawl, busy(crawl), edit)
    done = rebuild(crawl, tmp_path / "new", silent)
    assert [text.partition(": ")[2] for text in done.differences] == [
        f"batch of seq {bad[1]}: the log's chain breaks here; its decisions are not those that were written"
    ]
    ref = next(one for one in shards_of(tmp_path / "new") if one.name == busy(crawl))
    with open_shard(ref) as shard:
        assert shard.head().seq == bad[0] - 1, "all before it was folded"


def test_a_row_that_folds_otherwise_is_traced_to_its_batch(crawl: Path, tmp_path: Path) -> None:
    """The digests of all later batches are those of other rows."""
    first: list[int] = []

    def edit(forged: Forgery) -> None:
        forged.keep_digests = True
        for draft, n, event in forged.events(Transition):
            if event.to_state is State.FETCHED:
                draft.decisions[n] = replace(event, priority=4)
                first.append(draft.batch.seq)
                return

    forge(crawl, busy(crawl), edit)
    done = rebuild(crawl, tmp_path / "new", silent)
    assert f"batch of seq {first[0]}: folding gives table urls" in done.differences[0]


def test_a_batch_that_is_damaged_is_named(crawl: Path, tmp_path: Path) -> None:
    store = opened(crawl, busy(crawl))
    with store.begin(write=True) as txn:
        key, value = [row for row in txn.scan(LOG.name) if row[0][0] == TOPIC_IDS[Topic.TRANSITIONS]][3]
        txn.put(LOG.name, key, value[:-1] + bytes([value[-1] ^ 1]))
        txn.commit()
    store.close()
    done = rebuild(crawl, tmp_path / "new", silent)
    assert not done.equal
    assert "the batch is damaged" in done.differences[0]


def test_tables_behind_their_log_are_compared_where_they_end(crawl: Path, tmp_path: Path) -> None:
    """As a cache may be: an older copy of the tables beside the whole log."""
    name = busy(crawl)
    older = tmp_path / "older"
    shutil.copytree(crawl, older)

    def cut(forged: Forgery) -> None:
        del forged.drafts[-4:]

    forge(older, name, cut)
    old, new = opened(older, name), opened(crawl, name)
    with old.begin() as source, new.begin(write=True) as txn:
        for table in DIGESTED:
            txn.clear(table)
            txn.put_many(table, list(source.scan(table)))
        heads.save(txn, heads.load(source))
        txn.commit()
    old.close()
    new.close()
    assert rebuild(crawl, tmp_path / "new", silent).equal


def test_a_log_that_retention_cut_is_refused(crawl: Path, tmp_path: Path) -> None:
    name = busy(crawl)
    partition = int(name.rpartition("-")[2])
    store = opened(crawl, name)
    log = EmbeddedLog(store, TOPIC_IDS)
    end = log.bounds(Topic.TRANSITIONS, partition)[1]
    assert log.cut(Topic.TRANSITIONS, partition, end // 2)
    store.close()
    with pytest.raises(Incompatible, match="retention"):
        rebuild(crawl, tmp_path / "new", silent)


def test_a_folder_with_something_in_it_is_refused(honest: Path, tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "file").touch()
    with pytest.raises(ConfigError, match="not an empty folder"):
        rebuild(honest, tmp_path / "new", silent)


def test_an_error_in_a_process_of_its_own_is_told(crawl: Path, tmp_path: Path) -> None:
    store = LmdbStore(tmp_path / "other", STORE_TABLES[:3], durability="none")
    store.close()
    name = busy(crawl)
    ref = next(one for one in shards_of(crawl) if one.name == name)
    shutil.copy(tmp_path / "other" / "data.mdb", ref.path / "data.mdb")
    with pytest.raises((Incompatible, Corrupt)):
        rebuild(crawl, tmp_path / "new", silent, processes=2)
