"""Many deadlines under one timer: nobody rings early, everybody rings, who is gone doesn't."""

import asyncio
from collections.abc import Awaitable, Callable

from frontlog.fetch.deadlines import Deadlines


class One:
    """Something with a deadline so many seconds from now, which notes when it rang."""

    def __init__(self, after_s: float, again: Deadlines | None = None) -> None:
        self.due_s = asyncio.get_running_loop().time() + after_s
        self.rang_s: list[float] = []
        self._again = again

    def ring(self) -> None:
        self.rang_s.append(asyncio.get_running_loop().time())
        if self._again is not None and len(self.rang_s) < 3:
            self.due_s += 0.01
            self._again.add(self)


def run(use: Callable[[Deadlines], Awaitable[None]]) -> None:
    async def main() -> None:
        await use(Deadlines())

    asyncio.run(main())


async def until_rung(*ones: One, times: int = 1) -> None:
    async with asyncio.timeout(5):
        while any(len(one.rang_s) < times for one in ones):
            await asyncio.sleep(0.002)


def test_each_rings_once_in_its_time_in_whatever_order_they_came() -> None:
    async def use(deadlines: Deadlines) -> None:
        ones = [One(after_s) for after_s in (0.05, 0.01, 0.03, 0.01, 0.04)]
        for one in ones:
            deadlines.add(one)
        await until_rung(*ones)
        assert all(len(one.rang_s) == 1 for one in ones)
        resolution_s = 0.001
        assert all(one.rang_s[0] >= one.due_s - resolution_s for one in ones)
        assert sorted(ones, key=lambda one: one.rang_s) == sorted(ones, key=lambda one: one.due_s)

    run(use)


def test_who_was_removed_doesnt_ring_and_holds_nobody_up() -> None:
    async def use(deadlines: Deadlines) -> None:
        gone, stays = One(0.01), One(0.03)
        deadlines.add(gone)
        deadlines.add(stays)
        deadlines.remove(gone)
        deadlines.remove(gone)
        await until_rung(stays)
        assert gone.rang_s == []
        later = One(0.01)  # the timer isn't set any more
        deadlines.add(later)
        await until_rung(later)

    run(use)


def test_a_deadline_that_comes_nearer_is_met_and_one_that_moves_away_isnt_rung_early() -> None:
    async def use(deadlines: Deadlines) -> None:
        near, far = One(60), One(0.01)
        deadlines.add(near)
        deadlines.add(far)
        near.due_s = asyncio.get_running_loop().time() + 0.005
        deadlines.sooner(near.due_s)
        far.due_s += 0.03
        await until_rung(near, far)
        assert far.rang_s[0] >= far.due_s - 0.001
        assert near.rang_s < far.rang_s

    run(use)


def test_who_rings_may_wait_again() -> None:
    async def use(deadlines: Deadlines) -> None:
        one = One(0.005, again=deadlines)
        deadlines.add(one)
        await until_rung(one, times=3)

    run(use)
