"""The process that parses: reads jobs from a socket, answers them in order, ends when the socket closes.

Frames both ways: u32 length, big endian, then msgpack. The first frame that it sends is empty: it is ready. An answer
is a `Parsed`, or a text that says why there is none. Memory is limited, so that a page made to exhaust it costs this
process only; and so is time, by a timer of the system that ends the process even inside a library's loop, so that it
doesn't outlive a killed owner whose socket it would never come to look at.

    python -m frontlog.fetch.parse_worker FD SECONDS
"""

import contextlib
import resource
import signal
import socket
import struct
import sys

import msgspec

from frontlog.fetch.known_links import KnownLinks, Stores
from frontlog.fetch.memory import keep_house
from frontlog.fetch.parse_job import Job, parse

MEMORY_BYTES_MAX = 2 << 30
DETAIL_CHARACTERS_MAX = 512
LENGTH = struct.Struct(">I")


def _read(source: socket.socket, size: int) -> bytes:
    """Exactly `size` bytes, or fewer at the end of the stream."""
    parts: list[bytes] = []
    while size:
        part = source.recv(min(size, 1 << 20))
        if not part:
            break
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def answer(
    data: bytes, jobs: msgspec.msgpack.Decoder[Job], answers: msgspec.msgpack.Encoder, known: KnownLinks
) -> bytes:
    """The answer to one job's bytes."""
    try:
        return answers.encode(parse(jobs.decode(data), known))
    except MemoryError:
        found = "memory"
    except RecursionError:
        found = "recursion"
    except Exception as exc:  # whatever outside bytes lead a parser into is an answer, not our end
        found = f"{type(exc).__name__}: {exc}"[:DETAIL_CHARACTERS_MAX].encode(errors="replace").decode()
    return answers.encode(found)


def serve(stream: socket.socket, limit_s: float) -> None:
    """Answer jobs until the other side closes; one that takes longer than `limit_s` ends the process."""
    jobs, answers, known = msgspec.msgpack.Decoder(Job), msgspec.msgpack.Encoder(), Stores()
    stream.sendall(LENGTH.pack(0))
    while len(head := _read(stream, LENGTH.size)) == LENGTH.size:
        size = LENGTH.unpack(head)[0]
        data = _read(stream, size)
        if len(data) < size:
            return
        signal.setitimer(signal.ITIMER_REAL, limit_s)
        reply = answer(data, jobs, answers, known)
        signal.setitimer(signal.ITIMER_REAL, 0)
        stream.sendall(LENGTH.pack(len(reply)) + reply)


def main() -> None:
    """Serve the socket that was inherited."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that owns us
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)  # what it writes to, not the files that it maps
    limit = MEMORY_BYTES_MAX if hard == resource.RLIM_INFINITY else min(MEMORY_BYTES_MAX, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))
    keep_house()
    with (
        socket.socket(fileno=int(sys.argv[1])) as stream,
        contextlib.suppress(ConnectionError),
    ):  # it was killed
        serve(stream, float(sys.argv[2]))


if __name__ == "__main__":
    main()
