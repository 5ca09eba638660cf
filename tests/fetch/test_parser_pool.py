"""The parser pool: pages that kill, hang or exhaust their worker, workers that can't start, owners that are killed."""

import asyncio
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from frontlog.avro.enums import Reason
from frontlog.avro.errors import FrontlogError
from frontlog.fetch import parser_pool
from frontlog.fetch.parse_job import Job, Parsed, parse
from frontlog.fetch.parser_pool import QUEUE_MAX, ParserFailed, ParserPool
from support.crawls import is_alive, until
from support.processes import environment

WORKER = """
import os, signal, time
from frontlog.fetch import parse_worker as worker
real = worker.parse
def parse(job, known=None):
    if b"DIE" in job.body:
        os.kill(os.getpid(), signal.SIGKILL)
    if b"HANG" in job.body:
        time.sleep(60)
    if b"MEMORY" in job.body:
        bytearray(3 << 30)
    if b"DEEP" in job.body:
        parse(job, known)
    if b"STRANGE" in job.body:
        raise ValueError("\\ud800" + "x" * 1000)
    return real(job)
worker.parse = parse
"""
STUBBORN = ("-c", WORKER + "worker.main()")
LATE = ("-c", WORKER + "time.sleep(1.2)\nworker.main()")


def job(body: bytes, number: int = 0) -> Job:
    return Job(
        event_id=f"e{number}", identity="http://h.example/", url="http://h.example/", content_type="text/html",
        token="frontlog", depth=0, at_ms=1, partitions=4, body=body,
    )  # fmt: skip


def good(number: int) -> Job:
    return job(b"<title>%d</title><p>words of page %d" % (number, number), number)


def run(
    use: Callable[[ParserPool], Awaitable[None]],
    *,
    workers: int = 1,
    timeout_ms: int = 20_000,
    program: tuple[str, ...] = STUBBORN,
) -> None:
    """A test's coroutine with a pool that is closed afterwards, its processes gone."""

    async def main() -> None:
        pool = ParserPool(workers, timeout_ms, program=program)
        await pool.start()
        try:
            await use(pool)
        finally:
            pids = pool.pids
            await pool.close()
            assert not any(is_alive(pid) for pid in pids)

    asyncio.run(main())


async def outcomes(pool: ParserPool, jobs: list[Job]) -> list[Parsed | BaseException]:
    return await asyncio.gather(*(pool.parse(one) for one in jobs), return_exceptions=True)


def test_pages_come_back_as_parsed_here() -> None:
    async def use(pool: ParserPool) -> None:
        jobs = [good(n) for n in range(3 * QUEUE_MAX)]
        assert await outcomes(pool, jobs) == [parse(one) for one in jobs]
        assert pool.restarts == 0 and pool.load == 0

    run(use, workers=2, program=parser_pool.PROGRAM)


def test_no_worker_hoards_pages() -> None:
    async def use(pool: ParserPool) -> None:
        tasks = [asyncio.create_task(pool.parse(good(n))) for n in range(5 * QUEUE_MAX)]
        await asyncio.sleep(0)
        assert pool.load == len(tasks)
        held = [len(worker.pages) for worker in pool._workers]  # pyright: ignore[reportPrivateUsage]
        assert held == [QUEUE_MAX]
        await asyncio.gather(*tasks)

    run(use)


def test_a_page_that_kills_its_parser_twice_is_given_up_and_the_others_go_on() -> None:
    async def use(pool: ParserPool) -> None:
        jobs = [good(0), job(b"DIE"), *(good(n) for n in range(1, 2 * QUEUE_MAX))]
        found = await outcomes(pool, jobs)
        failed = found.pop(1)
        assert isinstance(failed, ParserFailed) and failed.reason is Reason.PARSER_LIMIT
        assert failed.detail == "its parser died 2 times"
        assert found == [parse(good(n)) for n in range(2 * QUEUE_MAX)]
        assert pool.restarts == 2

    run(use)


def test_pages_behind_a_killer_are_not_blamed_however_many_there_are() -> None:
    async def use(pool: ParserPool) -> None:
        jobs = [job(b"DIE", n) if n % 2 == 0 else good(n) for n in range(4)]
        found = await outcomes(pool, jobs)
        assert [isinstance(one, ParserFailed) for one in found] == [True, False] * 2

    run(use)


def test_a_page_that_takes_too_long_is_given_up_and_those_behind_it_are_not() -> None:
    async def use(pool: ParserPool) -> None:
        found = await outcomes(pool, [job(b"HANG", 1), job(b"HANG", 2), good(3)])
        assert [str(one) for one in found[:2]] == ["parser_limit: more than 0.7 s"] * 2
        assert found[2] == parse(good(3))

    run(use, timeout_ms=700)


def test_the_start_of_a_worker_is_not_counted_as_time_of_a_page() -> None:
    async def use(pool: ParserPool) -> None:
        assert await pool.parse(good(1)) == parse(good(1))
        assert pool.restarts == 0

    run(use, timeout_ms=900, program=LATE)


@pytest.mark.parametrize(
    ("body", "detail"), [(b"MEMORY", "memory"), (b"DEEP", "recursion"), (b"STRANGE", "ValueError: ?x")]
)
def test_what_a_page_does_inside_its_worker_is_an_answer(body: bytes, detail: str) -> None:
    async def use(pool: ParserPool) -> None:
        with pytest.raises(ParserFailed) as failed:
            await pool.parse(job(body))
        assert failed.value.reason is Reason.PARSER_LIMIT
        assert failed.value.detail.startswith(detail) and len(failed.value.detail) <= 512
        assert await pool.parse(good(1)) == parse(good(1))
        assert pool.restarts == 0

    run(use)


def test_workers_that_never_get_ready_end_the_crawl_and_blame_no_page(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(parser_pool, "RESTART_S", 0.01)
    monkeypatch.setattr(parser_pool, "STARTS_MAX", 3)

    async def use(pool: ParserPool) -> None:
        found = await outcomes(pool, [good(n) for n in range(3)])
        assert {type(one) for one in found} == {FrontlogError}
        assert "it ended with 7" in str(found[0]) and "raise SystemExit(7)" in str(found[0])
        with pytest.raises(FrontlogError, match="no parser process can be started"):
            await pool.parse(good(4))

    run(use, program=("-c", "raise SystemExit(7)"))


def test_a_machine_that_has_no_room_for_a_process_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parser_pool, "RESTART_S", 0.01)
    real: Callable[..., Any] = subprocess.Popen
    refusals = iter([BlockingIOError(11, "no more processes")] * 2)

    def popen(*args: Any, **kwargs: Any) -> Any:
        refusal = next(refusals, None)
        if refusal is not None:
            raise refusal
        return real(*args, **kwargs)

    monkeypatch.setattr(subprocess, "Popen", popen)

    async def use(pool: ParserPool) -> None:
        assert await pool.parse(good(1)) == parse(good(1))
        assert next(refusals, None) is None

    run(use)


def test_pages_that_wait_when_the_pool_is_closed_learn_so() -> None:
    async def main() -> None:
        pool = ParserPool(1, 20_000, program=STUBBORN)
        await pool.start()
        tasks = [asyncio.create_task(pool.parse(job(b"HANG", n))) for n in range(2 * QUEUE_MAX)]
        await asyncio.sleep(0.01)
        await pool.close()
        found = await asyncio.gather(*tasks, return_exceptions=True)
        assert [str(one) for one in found] == ["worker_lost: the parsers are stopped"] * len(tasks)
        with pytest.raises(ParserFailed, match="stopped"):
            await pool.parse(good(1))

    asyncio.run(main())


def test_a_page_nobody_waits_for_any_more_does_no_harm() -> None:
    async def use(pool: ParserPool) -> None:
        gone = [asyncio.create_task(pool.parse(good(n))) for n in range(2 * QUEUE_MAX)]
        await asyncio.sleep(0.01)
        for task in gone:
            task.cancel()
        assert await pool.parse(good(99)) == parse(good(99))

    run(use)


OWNER = """
import asyncio, sys
from frontlog.fetch.parser_pool import ParserPool
from frontlog.fetch.parse_job import Job
async def main():
    pool = ParserPool(2, 300, program=("-c", sys.argv[1]))
    await pool.start()
    job = Job("e", "http://h/", "http://h/", "text/html", "t", 0, 1, 4, b"HANG")
    asyncio.create_task(pool.parse(job))
    while not any(w.is_ready for w in pool._workers if w.pages):
        await asyncio.sleep(0.01)
    print(*pool.pids, flush=True)
    pool.timeout_s = 60
    await asyncio.sleep(60)
asyncio.run(main())
"""


def test_no_worker_outlives_an_owner_that_was_killed_not_even_one_that_hangs() -> None:
    hanging = WORKER.replace("time.sleep(60)", "time.sleep(600)") + "worker.main()"
    with subprocess.Popen(
        [sys.executable, "-c", OWNER, hanging], stdout=subprocess.PIPE, text=True, env=environment()
    ) as owner:
        assert owner.stdout is not None
        pids = [int(word) for word in owner.stdout.readline().split()]
        assert len(pids) == 2 and all(is_alive(pid) for pid in pids)
        owner.kill()
    began = time.monotonic()
    until(lambda: not any(is_alive(pid) for pid in pids), seconds=10, what="the workers' end")
    assert time.monotonic() - began < 8
