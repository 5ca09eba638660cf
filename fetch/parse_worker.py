"""The process that parses: reads jobs from a socket, answers them in order, ends when the socket closes.

Frames both ways: u32 length, big endian, then msgpack. An answer is a `Parsed`, or a text that says why there is
none. Memory is limited, so that a page made to exhaust it costs this process only.

    python -m frontlog.fetch.parse_worker FD
"""

import resource
import signal
import socket
import struct
import sys

import msgspec

from frontlog.fetch.parse_job import Job, Parsed, parse

MEMORY_BYTES_MAX = 2 << 30
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


def answer(data: bytes, jobs: msgspec.msgpack.Decoder[Job], answers: msgspec.msgpack.Encoder) -> bytes:
    """The answer to one job's bytes."""
    try:
        found: Parsed | str = parse(jobs.decode(data))
    except MemoryError:
        found = "memory"
    except RecursionError:
        found = "recursion"
    except Exception as exc:  # whatever outside bytes lead a parser into is an answer, not our end
        found = f"{type(exc).__name__}: {exc}"[:512]
    return answers.encode(found)


def main() -> None:
    """Serve until the other side closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that owns us
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    limit = MEMORY_BYTES_MAX if hard == resource.RLIM_INFINITY else min(MEMORY_BYTES_MAX, hard)
    resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
    jobs, answers = msgspec.msgpack.Decoder(Job), msgspec.msgpack.Encoder()
    with socket.socket(fileno=int(sys.argv[1])) as stream:
        while len(head := _read(stream, LENGTH.size)) == LENGTH.size:
            size = LENGTH.unpack(head)[0]
            data = _read(stream, size)
            if len(data) < size:
                return
            reply = answer(data, jobs, answers)
            stream.sendall(LENGTH.pack(len(reply)) + reply)


if __name__ == "__main__":
    main()
