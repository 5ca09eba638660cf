"""Fetch slots and the budget of pages, shared by the shards of a process.

A shard reserves before a batch, keeps what it leased, and gives the rest back. A lease's slot comes back when its
result is durable. Reserving never takes more than the pages that the crawl may still fetch, so that `crawl.pages_max`
is never overshot, whatever is in flight.
"""

import threading


class Slots:
    """`total` fetches at once; `pages_max` pages in all (0: no limit), `pages` of them fetched already."""

    def __init__(self, total: int, pages_max: int = 0, pages: int = 0) -> None:
        self.total = total
        self.pages_max = pages_max
        self.pages = pages
        self.closed = False
        self._lock = threading.Lock()
        self._taken = 0

    def reserve(self, share: int) -> int:
        """Take slots for a batch, half of the free ones or `share` if that is more; how many there were."""
        with self._lock:
            if self.closed:
                return 0
            free = self.total - self._taken
            if self.pages_max:
                free = min(free, self.pages_max - self.pages - self._taken)
            taken = max(0, min(free, max(share, free // 2))) if share else 0
            self._taken += taken
            return taken

    def room(self) -> bool:
        """Whether a batch could reserve anything."""
        pages = not self.pages_max or self.pages + self._taken < self.pages_max
        return not self.closed and self._taken < self.total and pages

    def give_back(self, count: int = 1) -> None:
        """Slots are free again."""
        with self._lock:
            self._taken -= count

    def fetched(self) -> None:
        """One more page came."""
        with self._lock:
            self.pages += 1

    @property
    def in_use(self) -> int:
        """Slots that are taken."""
        return self._taken

    @property
    def spent(self) -> bool:
        """Whether the crawl has its pages."""
        return bool(self.pages_max) and self.pages >= self.pages_max
