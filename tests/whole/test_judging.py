"""The judges of `make kills` and `make bench`, each shown what it must refuse."""

import json
import sys
from dataclasses import replace as copied
from pathlib import Path

import pytest

from bench import measure, proofs, steps
from bench.crawling import said
from bench.disk import small_disk
from bench.run import ageing
from bench.story import Lease, Story, hold
from bench.weblog import Courtesy, Visit, Window, courtesies, cut_short, visits, window
from frontlog.avro.enums import Reason, SourceKind, State
from frontlog.state.rows import UrlRow

MS = 1_000_000
URL = "http://127.1.0.1:80/a"
BASES = {0: "http://127.1.0.1:80"}
OK = Lease(10, 40, 1, "me", "ok", "fetch-results")
RELEASED = Lease(10, 500, 1, "me", "released", "start")
EXPIRED = Lease(10, 500, 1, "me", "lease_expired", "timer")
HANDED_BACK = Lease(10, 500, 1, "me", "released", "fetch-results")


def visit(start_ms: float, end_ms: float, *, host: int = 0, target: str = "/a") -> Visit:
    return Visit(int(start_ms * MS), int(end_ms * MS), host, 200, "page", 1_000, target)


def story(*leases: Lease) -> Story:
    return Story(urls={URL: list(leases)}, identities={URL: URL})


@pytest.mark.parametrize("lost", [RELEASED, EXPIRED])
def test_a_second_request_is_fine_when_the_first_lease_was_lost(lost: Lease) -> None:
    again = Lease(520, 600, 2, "you", "ok", "fetch-results")
    held = hold(story(lost, again), [visit(20, 30), visit(530, 540)], BASES, 0)
    assert [(one.url, one.fault) for one in held.again] == [(URL, "")]
    assert lost.why in held.again[0].moves
    assert not held.unleased


@pytest.mark.parametrize("kept", [OK, HANDED_BACK])
def test_a_second_request_after_an_answer_is_a_fault(kept: Lease) -> None:
    again = Lease(520, 600, 2, "you", "ok", "fetch-results")
    held = hold(story(kept, again), [visit(20, 30), visit(530, 540)], BASES, 0)
    assert kept.why in held.again[0].fault


def test_two_requests_for_one_lease_are_one_too_many() -> None:
    held = hold(story(OK), [visit(20, 30), visit(31, 33)], BASES, 0)
    assert len(held.unleased) == 1


def test_a_request_before_its_lease_is_seen() -> None:
    held = hold(story(Lease(1_000, 1_100, 1, "me", "ok", "fetch-results")), [visit(20, 30)], BASES, 0)
    assert len(held.unleased) == 1


def test_a_request_for_what_the_log_does_not_know_is_seen() -> None:
    assert len(hold(story(OK), [visit(20, 30, target="/b")], BASES, 0).unleased) == 1


def test_a_request_ends_with_the_process_that_made_it() -> None:
    asked = [visit(0, 10), visit(20, 90), visit(95, 99)]
    assert cut_short(asked, []) == asked
    assert cut_short(asked, [int(one * MS) for one in (15, 40, 97)]) == [
        visit(0, 10),
        visit(20, 40),
        visit(95, 97),
    ]


def test_courtesy_is_measured_host_by_host() -> None:
    found = courtesies([visit(0, 10), visit(60, 70), visit(100, 130), visit(120, 125), visit(5, 6, host=1)])
    assert found == [Courtesy(0, 4, 0.0, 20.0, 2)]


@pytest.mark.parametrize(
    ("one", "faults"),
    [
        (Courtesy(0, 2, 50.2, 60.0, 1), 0),
        (Courtesy(0, 2, 41.0, 60.0, 1), 0),  # the server noted the answer a little late
        (Courtesy(0, 2, 30.0, 60.0, 1), 1),
        (Courtesy(0, 2, 30.0, 40.0, 1), 1),
        (Courtesy(0, 2, 50.2, 60.0, 2), 1),
    ],
)
def test_politeness_is_judged(one: Courtesy, faults: int) -> None:
    assert len(proofs.polite([one], 50)) == faults


def test_any_difference_from_an_undisturbed_crawl_is_a_fault() -> None:
    row = UrlRow(url=URL, state=State.FETCHED, reason=Reason.OK, source_kind=SourceKind.SEED)
    whole = Story(rows={URL: row})
    assert proofs.compared(whole, copied(whole)) == []
    assert proofs.compared(Story(), whole)[0].startswith("missing: ")
    gone = UrlRow(url=URL, state=State.GONE, reason=Reason.GONE, source_kind=SourceKind.SEED)
    assert proofs.compared(Story(rows={URL: gone}), whole)[0].startswith("missing: ")
    assert len(proofs.compared(whole, Story())) == 1


def test_the_log_of_the_server_is_read(tmp_path: Path) -> None:
    log = tmp_path / "web.log"
    lines = [
        "#web,{}",
        '#ua,0,"x"',
        "100,200,0,4000,200,page,500,0,/a?b=1,2",
        "300,400,0,4000,404,gone,50,0,/c",
    ]
    log.write_text("\n".join(lines) + "\n", encoding="utf-8")
    assert [v.target for v in visits(log)] == ["/a?b=1,2", "/c"]
    assert window(log) == Window(1, 1e-7, [200])


def test_a_torn_last_line_of_a_killed_crawl_is_no_event(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.write_text('{"event":"start"}\nfrontlog: warning\n{"event":"prog', encoding="utf-8")
    found = said(out)
    assert [e["event"] for e in found.events] == ["start"]
    assert found.summary is None
    assert "warning" in found.other


def test_the_last_pages_are_compared_with_the_first() -> None:
    """A thousand pages a second for a core, then half as many."""
    ends = [n * 1_000_000 for n in range(4_000)]
    samples = [measure.Sample(0, 0.0, 0, 0, 1), measure.Sample(2_000 * MS, 2.0, 0, 0, 1)]
    samples.append(measure.Sample(4_000 * MS, 6.0, 0, 0, 1))
    found = ageing(measure.Ended(0, 4.0, 6.0, 0.0, samples, {}), Window(4_000, 4.0, ends))
    assert found["share_pages"] == 1_000
    assert found["last_to_first"] == pytest.approx(2.0, rel=0.01)
    assert found["curve_ms_page"] == pytest.approx([1.0, 1.0, 2.0], rel=0.01)


def test_a_command_is_measured_with_its_children(tmp_path: Path) -> None:
    spin = "import time\nend = time.process_time() + 0.4\nwhile time.process_time() < end: pass"
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {spin!r}])"
    ended = measure.run([sys.executable, "-c", code], cwd=tmp_path, out=tmp_path / "out", timeout_s=60)
    assert ended.code == 0
    assert ended.cpu_s > 0.35
    assert ended.peak_anonymous_mb() > 1
    assert max(sample.processes for sample in ended.samples) >= 2


def test_a_command_that_takes_too_long_is_killed(tmp_path: Path) -> None:
    ended = measure.run(["sleep", "60"], cwd=tmp_path, out=tmp_path / "out", timeout_s=0.3)
    assert ended.code == -9


def test_every_step_that_is_clocked_exists() -> None:
    assert [f"{owner.__name__}.{name}" for owner, name, _ in steps.STEPS if not hasattr(owner, name)] == []


def test_nested_steps_are_taken_off_the_one_around_them() -> None:
    class Work:
        def outer(self) -> None:
            self.inner()

        def inner(self) -> None:
            sum(range(2_000_000))

    clocks = steps.Clocks()
    clocks.wrap(Work, "outer", "outer")
    clocks.wrap(Work, "inner", "inner")
    Work().outer()
    assert clocks.spent["inner"][0] > 10 * clocks.spent["outer"][0]
    assert clocks.spent["inner"][2] == clocks.spent["outer"][2] == 1


def test_a_small_disk_can_be_filled_and_freed(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 4 << 20) as disk:
        disk.fill(8_192)
        if disk.kind == "tmpfs":
            with pytest.raises(OSError, match="No space left"):
                (tmp_path / "disk" / "file").write_bytes(bytes(65_536))
        disk.free()
        (tmp_path / "disk" / "other").write_bytes(bytes(65_536))
    json.dumps(disk.environment())
