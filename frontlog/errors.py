"""The exceptions that people meet, and what the command line makes of them.

    FrontlogError
    ├── ConfigError     a person mends it: a bad option, file, folder or URL      exit code 2
    ├── Retriable       try again later, whole: disk full, map full, store away   exit code 75
    │   ├── StoreFull       the disk or quota has no room
    │   └── MapFull         the LMDB map was too small and has been grown
    ├── Fenced          another owner has the partition: stop, write nothing      exit code 3
    ├── Corrupt         the log or a table is not what it must be: rebuild        exit code 4
    │   └── OffsetOutOfRange   asked for records that the log does not hold
    └── Incompatible    written by another version; the message names the command exit code 5

They are defined in `frontlog.avro.errors`, the lowest room, so that every room can raise them.
"""

import errno

from frontlog.avro.errors import (
    ConfigError,
    Corrupt,
    Fenced,
    FrontlogError,
    Incompatible,
    MapFull,
    OffsetOutOfRange,
    Retriable,
    StoreFull,
)

__all__ = [
    "EXIT_CODES",
    "ConfigError",
    "Corrupt",
    "Fenced",
    "FrontlogError",
    "Incompatible",
    "MapFull",
    "OffsetOutOfRange",
    "Retriable",
    "StoreFull",
    "from_os_error",
]

NO = 1
STOPPED_NOW = 130

EXIT_CODES: dict[int, str] = {
    0: "the command did what it was asked; a crawl that was stopped with one Ctrl-C, too",
    NO: "the command ran and the answer is no: `verify` or `rebuild` found a fault, `explain` knows nothing "
    "of the URL; or an error that no other code covers",
    ConfigError.exit_code: "an input must be mended: option, setting, file, folder, URL",
    Fenced.exit_code: "another owner took the crawl over; nothing was written after that",
    Corrupt.exit_code: "the log or a table is damaged; the message says where and which command helps",
    Incompatible.exit_code: "another version of frontlog wrote it; the message names the command that helps",
    Retriable.exit_code: "no room or a store that is away: nothing is lost, try again later",
    STOPPED_NOW: "stopped at once (Ctrl-C twice); the crawl goes on where it was",
}
"""Every code that the command line ends with, and what it means."""

_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_HINTS: dict[int, str] = {
    errno.EACCES: "give yourself the right to it, or choose another folder",
    errno.EPERM: "give yourself the right to it, or choose another folder",
    errno.EROFS: "the file system is read-only; choose a folder that can be written",
    errno.ENOENT: "check the name",
    errno.ENOTDIR: "a folder is needed there",
    errno.EISDIR: "a file is needed there",
    errno.EMFILE: "too many open files: raise the limit (ulimit -n) or lower fetch.slots",
}


def from_os_error(error: OSError) -> FrontlogError:
    """The exception to tell a person instead of one of the operating system: what, where, what to do."""
    where = f"{error.filename}: " if error.filename else ""
    what = f"{where}{error.strerror or error}"
    if error.errno in _NO_ROOM:
        return StoreFull(f"{what}; make room and run the command again, nothing is lost")
    hint = _HINTS.get(error.errno or 0)
    if hint is None:
        return FrontlogError(what)
    return ConfigError(f"{what}; {hint}")
