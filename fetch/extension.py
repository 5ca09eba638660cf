"""Keeps a lease alive while its page is parsed, archived and logged, which may take longer than anyone planned.

The fetch itself ends within its total limit, which is shorter than a lease. What comes behind it may have to wait: for
the archive when the disk is full or slow, for a parser, for a shard's queue. When two thirds of the lease are over, more
time is asked for, with its fence; whoever decides it gives one lease's length from then, and refuses when the fence is
not the row's any more. A wish names a time far ahead, since it may have to wait for room in the log itself.
"""

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import Protocol

from frontlog.avro.enums import FetchKind
from frontlog.avro.events import Event, LeaseExtension
from frontlog.fetch.deadlines import Deadlines
from frontlog.processors.leased import Lease

SHARE = 2 / 3
TIMES_MAX = 60
"""A page that an hour was not enough for is given back by its lease."""


class Results(Protocol):
    """Where extensions go."""

    async def result(self, partition: int, key: str, event: Event) -> None: ...


class Extension:
    """Extends the lease of a page until its block is left."""

    def __init__(
        self, lease: Lease, began_ms: int, clock: Callable[[], int], results: Results, deadlines: Deadlines
    ) -> None:
        self.due_s = 0.0
        self._lease = lease
        self._clock = clock
        self._results = results
        self._deadlines = deadlines
        self._lease_ms = max(1, lease.deadline_ms - began_ms)
        self._times = 0
        self._sending: asyncio.Task[None] | None = None

    def __enter__(self) -> None:
        if self._lease.kind is FetchKind.PAGE:
            self._arm()

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._deadlines.remove(self)
        if self._sending is not None:
            self._sending.cancel()

    def _arm(self) -> None:
        self.due_s = asyncio.get_running_loop().time() + SHARE * self._lease_ms / 1_000
        self._deadlines.add(self)

    def ring(self) -> None:
        """Ask, as its time has come."""
        if self._times < TIMES_MAX:
            self._times += 1
            self._sending = asyncio.get_running_loop().create_task(self._send())

    async def _send(self) -> None:
        lease = self._lease
        wanted = self._clock() + self._lease_ms * TIMES_MAX
        event = LeaseExtension(
            event_id=f"{lease.partition}-{lease.owner_token}-{lease.fence} until {wanted}",
            origin_key=lease.origin_key,
            url=lease.url,
            fence=lease.fence,
            deadline_ms=wanted,
        )
        try:
            await self._results.result(lease.partition, lease.origin_key, event)
        except Exception:  # its shard is ending: whoever waits for the result hears why
            return
        self._arm()
