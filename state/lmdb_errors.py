"""What an error of LMDB or of the disk means for the caller: one table, by error class and by errno.

LMDB's classes are known here by name, so that only `lmdb_store` has to import the library. What is
in neither table is `Corrupt`: to stop is the safe answer to what nobody has thought of.

A disk that runs full in the middle of a commit is a short write to LMDB, which it reports as EIO,
the same as a broken disk. `is_full` tells the two apart.
"""

import contextlib
import errno
import os
import resource
from pathlib import Path

from frontlog.avro.errors import (
    ConfigError,
    Corrupt,
    FrontlogError,
    Incompatible,
    MapFull,
    Retriable,
    StoreFull,
)

PROBE_FILE = "room.probe"
PROBE_BYTES = 1 << 20

ERRNOS: dict[int, type[FrontlogError]] = {
    errno.ENOSPC: StoreFull,
    errno.EDQUOT: StoreFull,
    errno.EFBIG: StoreFull,
    errno.EIO: Retriable,
    errno.EAGAIN: Retriable,
    errno.EINTR: Retriable,
    errno.EMFILE: Retriable,
    errno.ENFILE: Retriable,
    errno.ENOMEM: Retriable,
    errno.EACCES: ConfigError,
    errno.EPERM: ConfigError,
    errno.EROFS: ConfigError,
    errno.ENOENT: ConfigError,
    errno.ENOTDIR: ConfigError,
    errno.EISDIR: ConfigError,
    errno.EEXIST: ConfigError,
    errno.ENAMETOOLONG: ConfigError,
}

# AssertionError: a rule of `frontlog.state.store` was broken, a bug of ours.
CLASSES: dict[str, type[FrontlogError] | type[AssertionError]] = {
    "MapFullError": MapFull,
    "DiskError": StoreFull,
    "CorruptedError": Corrupt,
    "PageNotFoundError": Corrupt,
    "InvalidError": Corrupt,
    "BadChecksumError": Corrupt,
    "ProblemError": Corrupt,
    "VersionMismatchError": Incompatible,
    "EnvEncryptionError": Incompatible,
    "CryptoFailError": Incompatible,
    "ReadersFullError": Retriable,
    "TlsFullError": Retriable,
    "MapResizedError": Retriable,
    "LockError": Retriable,
    "MemoryError": Retriable,
    # A meta page could not be written: nothing is lost, but only a new environment works again.
    "PanicError": Retriable,
    "BadTxnError": AssertionError,
    "BadDbiError": AssertionError,
    "BadRslotError": AssertionError,
    "BadValsizeError": AssertionError,
    "CursorFullError": AssertionError,
    "DbsFullError": AssertionError,
    "IncompatibleError": AssertionError,
    "InvalidParameterError": AssertionError,
    "KeyExistsError": AssertionError,
    "NotFoundError": AssertionError,
    "PageFullError": AssertionError,
    "ReadonlyError": AssertionError,
    "TxnFullError": AssertionError,
}

ADVICE: dict[type[FrontlogError], str] = {
    StoreFull: "nothing of it was kept; make room on the disk",
    MapFull: "nothing of it was kept; the map grows, repeat the transaction",
    Retriable: "nothing of it was kept; repeat it, and if that fails again restart the process",
    Corrupt: "stop, and rebuild the folder from the log or from a copy",
    Incompatible: "the file was made by another version of LMDB, which can copy it",
    ConfigError: "make the folder readable and writable for this user, or choose another folder",
}


def of_lmdb(exc: Exception, what: str, folder: Path) -> FrontlogError | AssertionError:
    """The error of ours for an `lmdb.Error` in a transaction; `what` failed."""
    code = int(getattr(exc, "code", 0))
    kind = CLASSES.get(type(exc).__name__)
    if kind is None:
        # The binding's own refusals (an object that was closed …) carry no code.
        kind = ERRNOS.get(code, Corrupt) if code else AssertionError
    if code == errno.EIO and is_full(folder):
        kind = StoreFull
    if issubclass(kind, AssertionError):
        return AssertionError(f"{what} in {folder}: {exc}")
    return kind(f"{what} in {folder}: {exc}; {ADVICE[kind]}")


def of_opening(exc: Exception, folder: Path) -> FrontlogError | AssertionError:
    """The same while a folder is opened, where "permission denied" is no bug of ours."""
    if type(exc).__name__ == "ReadonlyError":
        return ConfigError(f"cannot open {folder}: {exc}; {ADVICE[ConfigError]}")
    return of_lmdb(exc, "open", folder)


def of_os(exc: OSError, folder: Path) -> FrontlogError:
    """The error of ours for a refusal of the operating system."""
    kind = ERRNOS.get(exc.errno or 0, Retriable)
    return kind(f"cannot use {folder}: {exc.strerror} ({exc.filename}); {ADVICE[kind]}")


def is_full(folder: Path) -> bool:
    """Whether a folder has no room, by writing PROBE_BYTES into a file of their own beside the data.

    The data file is left alone: another process may be writing it by now.
    """
    probe = folder / PROBE_FILE
    try:
        limit, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
        if limit != resource.RLIM_INFINITY and (folder / "data.mdb").stat().st_size + PROBE_BYTES > limit:
            return True
        fd = os.open(probe, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            return os.write(fd, bytes(PROBE_BYTES)) < PROBE_BYTES
        finally:
            os.close(fd)
    except OSError as exc:
        return ERRNOS.get(exc.errno or 0) is StoreFull
    finally:
        with contextlib.suppress(OSError):
            probe.unlink()
