"""Virtual time and event loops that share it: every callback of every process runs here, in an order that a seed gives.

    Scheduler        one time, the callbacks that are ready, the timers that are not yet
    ProcessLoop      an asyncio loop of one simulated process: killed, it runs nothing more; frozen, nothing until thawed

Time stands still while a callback runs, unless the callback blocks (`Scheduler.block`: a slow disk), and jumps to the next
timer when nothing is ready. asyncio's own rule is that ready callbacks run in the order in which they came; `shuffled`
breaks it, since a program that needs that order between unrelated tasks has a race.

Not modelled: threads, processes, signals, sockets. A callback is never interrupted.
"""

import asyncio
import heapq
from asyncio import events
from collections.abc import Callable
from contextvars import Context
from itertools import count
from random import Random
from typing import Any, TypeVar, TypeVarTuple

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
SHUFFLED_MAX = 4
"""A ready callback overtakes at most so many others at once."""


class Crashed(BaseException):
    """The process is dead. Nothing catches it, and whatever runs on after it can change nothing."""


class Scheduler:
    """The one time of a simulation, in seconds from its start, and all that is to run."""

    def __init__(self, rng: Random, *, shuffled: bool) -> None:
        self.now = 0.0
        self.steps = 0
        self._rng = rng
        self._shuffled = shuffled
        self._ready: list[tuple[ProcessLoop, asyncio.Handle]] = []
        self._timers: list[tuple[float, int, ProcessLoop, asyncio.TimerHandle]] = []
        self._order = count()

    def soon(self, loop: "ProcessLoop", handle: asyncio.Handle) -> None:
        self._ready.append((loop, handle))

    def at(self, loop: "ProcessLoop", handle: asyncio.TimerHandle) -> None:
        heapq.heappush(self._timers, (handle.when(), next(self._order), loop, handle))

    def block(self, seconds: float) -> None:
        """The running callback takes so long; nothing else runs meanwhile, but the world's time goes on."""
        self.now += seconds

    def step(self, until: float) -> bool:
        """Run one callback; False when there is none before `until`, which is then the time."""
        while True:
            self._collect()
            if self._ready:
                loop, handle = self._ready.pop(self._pick())
                if loop.run(handle):
                    self.steps += 1
                    return True
                continue
            if not self._timers or self._timers[0][0] > until:
                self.now = max(self.now, until)
                return False
            self.now = max(self.now, self._timers[0][0])

    def _collect(self) -> None:
        """Timers whose time has come are ready."""
        while self._timers and self._timers[0][0] <= self.now:
            _, _, loop, handle = heapq.heappop(self._timers)
            self._ready.append((loop, handle))

    def _pick(self) -> int:
        if not self._shuffled or len(self._ready) == 1:
            return 0
        return self._rng.randrange(min(len(self._ready), SHUFFLED_MAX))


class ProcessLoop(asyncio.BaseEventLoop):
    """The event loop of one process. `failures` holds what no callback may raise."""

    def __init__(self, scheduler: Scheduler) -> None:
        super().__init__()
        self.scheduler = scheduler
        self.failures: list[BaseException] = []
        self._dead = False
        self._frozen: list[asyncio.Handle] | None = None

    # --- life -------------------------------------------------------------------------------------------------

    def run(self, handle: asyncio.Handle) -> bool:
        """Run a callback of this loop, unless it was cancelled or the process is not running."""
        if self._dead or handle.cancelled():
            return False
        if self._frozen is not None:
            self._frozen.append(handle)
            return False
        events._set_running_loop(self)
        try:
            handle._run()
        finally:
            events._set_running_loop(None)
        return True

    def kill(self) -> None:
        """The process is gone: nothing of it runs any more. Its coroutines end where they wait."""
        self._dead = True
        events._set_running_loop(self)
        try:
            for task in sorted(
                asyncio.all_tasks(self), key=lambda t: int(t.get_name().rpartition("-")[2] or 0)
            ):
                task._log_destroy_pending = False  # type: ignore[attr-defined]
                coro: Any = task.get_coro()
                try:
                    coro.close()
                except (
                    RuntimeError
                ) as error:  # a coroutine that waits while it is being ended is a bug of its own
                    self.failures.append(error)
        finally:
            events._set_running_loop(None)
        self.close()

    def freeze(self) -> None:
        """The process is stopped, as SIGSTOP does."""
        self._frozen = []

    def thaw(self) -> None:
        """It goes on, with all that came due meanwhile."""
        held, self._frozen = self._frozen or [], None
        for handle in held:
            self.scheduler.soon(self, handle)

    # --- what asyncio asks of a loop --------------------------------------------------------------------------

    def time(self) -> float:
        return self.scheduler.now

    def call_soon(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        if not self._dead:
            self.scheduler.soon(self, handle)
        return handle

    def call_soon_threadsafe(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        return self.call_soon(callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        if not self._dead:
            self.scheduler.at(self, handle)
        return handle

    def call_later(
        self, delay: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self.scheduler.now + delay, callback, *args, context=context)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """A callback or task raised what nobody took."""
        error = context.get("exception")
        if not self._dead and not isinstance(error, Crashed):
            self.failures.append(error if isinstance(error, BaseException) else RuntimeError(str(context)))

    def is_running(self) -> bool:
        return False

    def get_debug(self) -> bool:
        return False

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """A cancelled timer stays in the heap until its time and is then passed over."""
