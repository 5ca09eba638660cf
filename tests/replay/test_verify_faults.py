"""Every check of `verify` finds at least one fault that no other check sees, and no planted fault goes unseen."""

import shutil
from pathlib import Path

import pytest

import support.faults_flow
import support.faults_forged
import support.faults_identity
import support.faults_machines
from frontlog.replay.verify import CATALOGUE
from support.faults import FAULTS, Fault
from support.looking import found_wrong

PLANTED = (support.faults_identity, support.faults_forged, support.faults_machines, support.faults_flow)


@pytest.mark.parametrize("one", FAULTS, ids=[one.name for one in FAULTS])
def test_a_planted_fault_is_found(
    one: Fault, honest: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "crawl"
    if one.forged:
        shutil.copytree(honest, folder)
    one.plant(folder, monkeypatch)
    wrong = found_wrong(folder, deep=one.deep)
    assert one.check in wrong
    if one.alone:
        assert set(wrong) == {one.check}, wrong
        # With this check left out the fault goes unseen: nothing else holds that rule.
        assert found_wrong(folder, deep=one.deep, skip=(one.check,)) == {}


def test_no_check_is_held_by_another() -> None:
    assert {one.check for one in FAULTS if one.alone} == {check.name for check in CATALOGUE}
