"""The exception tree. A class says what the caller does about it, not where it came from.

    FrontlogError
    ├── ConfigError     a person mends it: a bad option, file, folder or URL      exit code 2
    ├── Retriable       try again later, whole: disk full, map full, store away   exit code 75
    │   ├── StoreFull       the disk or quota has no room
    │   └── MapFull         the LMDB map was too small and has been grown
    ├── Fenced          another owner has the partition: stop, write nothing      exit code 3
    ├── Corrupt         the log or a table is not what it must be: rebuild        exit code 4
    │   └── OffsetOutOfRange   asked for records that the log does not hold
    └── Incompatible    written by another version; the message names the command exit code 5

Outcomes of crawling are events and programmer errors are assertions; neither is in this tree.
It stands in the lowest room so that every room can raise it; people import `frontlog.errors`.
"""


class FrontlogError(Exception):
    """Root of what frontlog raises on purpose. `exit_code` is what the command line ends with."""

    exit_code = 1


class ConfigError(FrontlogError):
    """A person must mend an input: the message says what is wrong, where, and what to do."""

    exit_code = 2


class Retriable(FrontlogError):
    """Nothing was written; the same work can be tried again whole, later."""

    exit_code = 75


class StoreFull(Retriable):
    """The disk (or a quota) has no room for the write; nothing of it was kept."""


class MapFull(Retriable):
    """The LMDB map was too small; it has been grown, and the transaction must be repeated."""


class Fenced(FrontlogError):
    """Another owner took the partition over: stop at once and write nothing more."""

    exit_code = 3


class Corrupt(FrontlogError):
    """Bytes that a log or table cannot hold when all is well: stop, then rebuild from the log."""

    exit_code = 4


class OffsetOutOfRange(Corrupt):
    """A read below the first or above the next offset of a topic's partition."""


class Incompatible(FrontlogError):
    """Written by a version that this one cannot fold; the message names the command that helps."""

    exit_code = 5
