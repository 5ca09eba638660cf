"""`verify` on crawls with nothing wrong: however rough a crawl was, every rule holds; and what the report says."""

import random
from pathlib import Path

import msgspec
import pytest

from frontlog.avro.errors import ConfigError
from frontlog.replay.shapes import Advance
from frontlog.replay.verify import CATALOGUE, NOT_VERIFIED, verify
from support.driver import Driver
from support.looking import failed, found_wrong, silent
from support.rough import SETTINGS, RoughWeb, live
from support.web import synthetic


def test_an_honest_crawl_holds_every_rule(honest: Path) -> None:
    told: list[Advance] = []
    report = verify(honest, True, told.append, processes=1)
    assert failed(report) == {}
    assert report.ok
    assert [check.name for check in report.checks] == [check.name for check in CATALOGUE]
    assert all(check.examined for check in report.checks), "a check that saw nothing proves nothing"
    assert report.not_verified == NOT_VERIFIED
    assert (report.voided, report.running, report.deep) == (0, False, True)
    assert report.decisions == told[-1].done == told[-1].total
    assert report.records > report.decisions
    assert msgspec.json.decode(msgspec.json.encode(report))["checks"][0]["name"] == "records"


def test_processes_of_their_own_find_the_same(honest: Path) -> None:
    apart, here = verify(honest, False, silent, processes=2), verify(honest, False, silent, processes=1)
    assert apart.checks == here.checks
    assert (apart.records, apart.decisions) == (here.records, here.decisions)


def test_a_check_can_be_left_out(honest: Path) -> None:
    report = verify(honest, True, silent, skip=("gaps", "rows", "answers"), processes=1)
    assert {check.name for check in CATALOGUE} - {check.name for check in report.checks} == {
        "gaps",
        "rows",
        "answers",
    }


def test_each_check_has_a_name_and_a_sentence_of_its_own() -> None:
    assert (
        len({check.name for check in CATALOGUE}) == len({check.doc for check in CATALOGUE}) == len(CATALOGUE)
    )
    assert all(check.name and check.doc and check.__doc__ for check in CATALOGUE)


@pytest.mark.parametrize("seed", range(4))
def test_a_rough_crawl_holds_every_rule(seed: int, tmp_path: Path) -> None:
    """Failures, redirects, changing robots.txt, operators, restarts, lost and repeated and broken inputs."""
    chance = random.Random(seed)
    with Driver(tmp_path, web=RoughWeb(chance, trouble=0.3), settings=SETTINGS, archive=True) as crawl:
        live(crawl, chance, rounds=40)
        assert not [text for shard in crawl.shards.values() for text in shard.poisoned]
    assert found_wrong(tmp_path, deep=True) == {}


def test_a_crawl_that_has_not_begun_holds_every_rule(tmp_path: Path) -> None:
    with Driver(tmp_path):
        pass
    assert found_wrong(tmp_path, deep=True) == {}


def test_a_folder_that_is_no_crawl_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="holds no crawl"):
        verify(tmp_path, False, silent)


def test_operators_may_spell_as_they_like_and_write_to_any_partition(tmp_path: Path) -> None:
    """A wish that came to another partition was passed on, whatever its spelling hashes to."""
    targets = (
        '{"host":"b\u00fccher.example"}', '{"site":"www.B\u00dcCHER.example"}', '{"host":"s0.example."}',
        '{"host":"127.1"}', '{"host":"s0.example:8080"}', '{"origin":"HTTP://S1.example"}', '{"partition":"02"}',
    )  # fmt: skip
    with Driver(tmp_path, web=synthetic(3, 2)) as crawl:
        crawl.seed("http://s0.example/")
        for target in targets:
            for partition in range(4):
                crawl.control(f'{{"cmd":"block","target":{target}}}'.encode(), partition)
        crawl.run(until_ms=crawl.clock.at_ms + 3_000)
    assert found_wrong(tmp_path, deep=True) == {}
