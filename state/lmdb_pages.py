"""Whether the pages that a commit of LMDB reaches are there: read from the file, not from the map.

LMDB trusts its file. A page beyond the end of a file that was cut (a copy that wasn't finished, a disk that lost
writes) ends the process with SIGBUS, a page of the wrong kind with an assertion in C: neither says what is wrong, and
Python sees neither. So whoever reads a whole folder looks at its pages first.

    page   pgno u64, pad u16, flags u16, then lower u16, upper u16 or, on an overflow page, its number of pages u32
    node   lo u16, hi u16, flags u16, size of the key u16, key, data; offsets of nodes follow the page's header
    tree   pad u32, flags u16, depth u16, branch, leaf and overflow pages u64, entries u64, root u64; of a table it is the
           data of a node of the main tree
    meta   pages 0 and 1: magic u32, version u32, address u64, map size u64, tree of free pages, main tree, last page
           u64, number of the transaction u64

(LMDB 0.9, `mdb.c`.) What a reader's snapshot reaches isn't written again while the reader is open, so a crawl may run.
Not seen here: what pages hold; batches of the log have checksums, tables have digests.
"""

import os
import struct
from pathlib import Path
from typing import Any, Protocol

from frontlog.avro.errors import Corrupt

PAGE = struct.Struct("<QHHHH")
NODE = struct.Struct("<HHHH")
TREE = struct.Struct("<IHHQQQQQ")
META = struct.Struct(f"<IIQQ{TREE.size}s{TREE.size}sQQ")
MAGIC = 0xBEEFC0DE
NO_PAGE = (1 << 64) - 1
BRANCH, LEAF, OVERFLOW, KINDS = 0x01, 0x02, 0x04, 0x0F
BIG, TABLE = 0x01, 0x02
DEPTH_MAX = 32


class Broken(Exception):
    """A page isn't what it should be; the text says which and why."""


class Environment(Protocol):
    """What is needed of an `lmdb.Environment`."""

    def begin(self) -> Any: ...

    def info(self) -> Any: ...

    def stat(self) -> Any: ...


def check(env: Environment, folder: Path, *, only_if_short: bool = False) -> None:
    """Look at every page that the newest commit reaches, before LMDB does. Raises Corrupt.

    `only_if_short`: only in a file that is shorter than it says. It may be, since free pages at its end need never be
    written.
    """
    data = folder / "data.mdb"
    page_bytes: int = env.stat()["psize"]
    with env.begin() as txn:
        said_bytes = (env.info()["last_pgno"] + 1) * page_bytes
        if only_if_short and data.stat().st_size >= said_bytes:
            return
        wrong = fault(data, txn.id(), page_bytes)
    if wrong:
        raise Corrupt(f"{data}: {wrong}; restore it from a copy, since nothing can be read from it safely")


def fault(data: Path, txn_id: int, page_bytes: int) -> str:
    """What is wrong with the pages of the commit `txn_id`; empty: nothing, or the file knows no such commit. Raises
    OSError."""
    fd = os.open(data, os.O_RDONLY | os.O_CLOEXEC)
    try:
        pages = _Pages(fd, page_bytes, os.fstat(fd).st_size)
        for number in (0, 1):
            magic, _, _, _, _, main, _, commit = META.unpack_from(pages.bytes_at(number), PAGE.size)
            if magic == MAGIC and commit == txn_id:
                pages.walk(TREE.unpack(main)[-1], 0)
                return ""
        return ""
    except Broken as exc:
        return str(exc)
    finally:
        os.close(fd)


class _Pages:
    """The pages of one file."""

    def __init__(self, fd: int, page_bytes: int, file_bytes: int) -> None:
        self._fd = fd
        self._page_bytes = page_bytes
        self._file_bytes = file_bytes

    def bytes_at(self, number: int) -> bytes:
        """A page; raises Broken when it lies beyond the end."""
        self._need(number, 1)
        page = os.pread(self._fd, self._page_bytes, number * self._page_bytes)
        if len(page) < self._page_bytes:  # the file became shorter meanwhile
            raise Broken(f"page {number} is not there")
        return page

    def _need(self, number: int, count: int) -> None:
        if (number + count) * self._page_bytes > self._file_bytes:
            raise Broken(
                f"page {number + count - 1} lies beyond the end of the file at {self._file_bytes} bytes: it was cut"
            )

    def walk(self, number: int, depth: int) -> None:
        """Look at a page and at all below it."""
        if number == NO_PAGE:
            return
        page = self.bytes_at(number)
        own, _, flags, lower, _ = PAGE.unpack_from(page)
        if own != number or flags & KINDS not in (BRANCH, LEAF) or depth > DEPTH_MAX:
            raise Broken(f"page {number} is no page of a tree: number {own}, flags {flags:#x}")
        count = (lower - PAGE.size) // 2
        if lower < PAGE.size or lower > self._page_bytes:
            raise Broken(f"page {number} says that it has {count} nodes")
        for at in struct.unpack_from(f"<{count}H", page, PAGE.size):
            try:
                self._node(page, at, flags, depth)
            except struct.error:
                raise Broken(f"page {number} has a node beyond its end") from None

    def _node(self, page: bytes, at: int, flags: int, depth: int) -> None:
        low, high, kind, key_bytes = NODE.unpack_from(page, at)
        if flags & BRANCH:
            self.walk(low | high << 16 | kind << 32, depth + 1)
        elif kind & BIG:
            (number,) = struct.unpack_from("<Q", page, at + NODE.size + key_bytes)
            self._overflow(number, low | high << 16)
        elif kind & TABLE:
            self.walk(TREE.unpack_from(page, at + NODE.size + key_bytes)[-1], depth + 1)

    def _overflow(self, number: int, data_bytes: int) -> None:
        own, _, flags, *_ = PAGE.unpack_from(self.bytes_at(number))
        if own != number or not flags & OVERFLOW:
            raise Broken(f"page {number} is no overflow page: number {own}, flags {flags:#x}")
        self._need(number, -(-(data_bytes + PAGE.size) // self._page_bytes))
