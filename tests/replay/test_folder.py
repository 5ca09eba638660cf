"""Opening a crawl's folder: what is no crawl is said in words, and a crawl that runs may be looked at."""

from pathlib import Path

import pytest

from frontlog.avro.errors import ConfigError
from frontlog.replay.folder import archives, open_shard, owner_of, shards_of
from frontlog.replay.status import status
from frontlog.replay.tail import tail
from frontlog.state.owner_lock import OwnerLock
from frontlog.streams.topics import Role
from support.looking import PARTITIONS, found_wrong
from support.stores import Child, wait_until


def test_shards_are_found_frontier_first(honest: Path) -> None:
    refs = shards_of(honest)
    assert [ref.name for ref in refs] == [*(f"frontier-{n}" for n in range(PARTITIONS)), "content-0"]
    assert [ref.role for ref in refs] == [Role.FRONTIER] * PARTITIONS + [Role.CONTENT]


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (None, "there is no such folder"),
        ("file", "not a folder"),
        (".", "there is no log folder in it"),
        ("log", "holds no shard of a log"),
        ("log/frontier-0", "holds no shard of a log"),
    ],
)
def test_what_is_no_crawl_is_said_in_words(made: str | None, said: str, tmp_path: Path) -> None:
    folder = tmp_path / "crawl"
    if made == "file":
        folder.touch()
    elif made is not None:
        (folder / made).mkdir(parents=True)
    with pytest.raises(ConfigError, match=said) as caught:
        shards_of(folder)
    assert str(folder) in str(caught.value), "it says where"


def test_a_missing_shard_is_named(crawl: Path) -> None:
    (crawl / "log" / "frontier-1").rename(crawl / "frontier-1")
    with pytest.raises(ConfigError, match=r"\[0, 2\].*restore the missing"):
        shards_of(crawl)


def test_a_folder_of_stores_without_a_log_yet_is_empty(tmp_path: Path, honest: Path) -> None:
    with open_shard(shards_of(honest)[0]) as shard:
        assert shard.partition == 0
        assert shard.head().seq > 0


def test_archives_name_where_older_bodies_lie(tmp_path: Path) -> None:
    assert archives(tmp_path) == [tmp_path / "archive"]
    (tmp_path / "archive.from").write_text("/old/archive\n\n/older/archive\n", "utf-8")
    assert archives(tmp_path) == [tmp_path / "archive", Path("/old/archive"), Path("/older/archive")]


RUNNING = """
import sys
from pathlib import Path
from frontlog.avro.enums import Topic
from frontlog.state.owner_lock import OwnerLock
from support.driver import START_MS, Driver
from support.looking import PARTITIONS, SETTINGS, small_web
folder = Path(sys.argv[1])
with OwnerLock(folder, command="crawl", started_ms=1):
    with Driver(
        folder, partitions=PARTITIONS, web=small_web(), settings=SETTINGS, archive=True, start_ms=START_MS + 7_200_000
    ) as crawl:
        print("ready", flush=True)
        for n in range(100_000):
            crawl.web.pages[f"http://a.example/more{n}"] = crawl.web.pages["http://a.example/2"]
            crawl.seed(f"http://a.example/more{n}")
            crawl.run(rounds_max=5)
"""


def test_a_crawl_that_runs_may_be_looked_at(crawl: Path) -> None:
    child = Child(RUNNING, str(crawl))
    try:
        assert child.line() == "ready"
        before = status(crawl)
        assert before.running
        assert before.pid > 0
        assert found_wrong(crawl, deep=True) == {}
        assert list(tail(crawl, "transitions", limit=3))
        wait_until(
            lambda: sum(p.seq for p in status(crawl).partitions) > sum(p.seq for p in before.partitions)
        )
        assert found_wrong(crawl) == {}
    finally:
        child.kill()
    assert owner_of(crawl) is None


def test_the_owner_is_named(crawl: Path) -> None:
    with OwnerLock(crawl, command="frontlog crawl", started_ms=5):
        owner = owner_of(crawl)
        assert owner is not None
        assert owner.command == "frontlog crawl"
