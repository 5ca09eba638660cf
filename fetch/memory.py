"""How a process that handles pages keeps house with its memory.

A page's tree takes some 400 KB in a few large pieces. Where these lie at the end of the heap, glibc gives them back to the
system as soon as a page is done, and the next page faults them in again, a hundred times 4 KB: as much work as parsing. And
Python's search for cycles starts after 700 new objects, which is each page's elements or ten of its decisions; they make
no cycles.
"""

import ctypes
import gc
from contextlib import suppress
from typing import Final

KEPT_BYTES: Final = 32 << 20
"""Freed memory that the process keeps for what comes next."""
PIECE_BYTES: Final = 8 << 20
"""Pieces from this size on are taken from the system and given back alone: a sitemap of 50 MB isn't kept."""
OBJECTS_BETWEEN_SEARCHES: Final = 50_000
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # malloc.h


def keep_freed_memory() -> None:
    """Let malloc keep what was freed, up to `KEPT_BYTES`. Does nothing where the C library isn't glibc."""
    with suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_M_TRIM_THRESHOLD, KEPT_BYTES)
        mallopt(_M_MMAP_THRESHOLD, PIECE_BYTES)


def search_cycles_seldom() -> None:
    """Leave what was made until now out of searches for cycles, and search after many more objects than Python would."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(OBJECTS_BETWEEN_SEARCHES)


def keep_house() -> None:
    """Both of these, for a process that makes many short-lived objects and few cycles: a parser, a crawler, a worker."""
    keep_freed_memory()
    search_cycles_seldom()
