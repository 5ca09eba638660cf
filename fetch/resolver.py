"""From a host name to its addresses: the system's resolver, behind bounds that a hung look-up can't break.

`getaddrinfo` blocks its thread and can't be cancelled; with a dead name server it sits there for half a
minute and more. A shared pool is used up by a few such names, and then nobody resolves anything. So:

- Each look-up runs in a thread of its own, a daemon, so that a hung one delays neither others nor the exit.
- `running_max` look-ups run at a time; up to `waiting_max` more wait their turn, first come first served. One
  more than that is refused at once.
- A look-up on which a caller gave up (its time ran out, or it was cancelled) is *stuck*: its thread goes on,
  but its place is given to the next. All threads together, stuck ones included, are at most `threads_max`, so
  a resolver that hangs for good costs that many threads and no more. When a stuck thread comes back, it
  counts no longer; nothing has to be restarted.
- A host is looked up by one thread at a time: who asks for it meanwhile gets the same answer. So one bad
  name, however often it is tried, holds one thread.

Whoever asks always has an answer after `timeout_ms`. Time spent waiting for a place counts; if there was no
place in all that time the error is `refused`, which says nothing about the host.

Addresses come in one order: IPv4 first (or IPv6, by choice), each family by value. RFC 8305 would race both
families, but a claim is pinned to one address before anything connects, and servers that turn the order
around on each answer would otherwise move a host from one address budget to another by chance.

Not here: no cache (the address and its expiry are state of the host, in the log), no judgement (that is
`addresses.py`: `localhost`, single labels and names of the hosts file are looked up like all others), and no
TTL, which the system's resolver doesn't tell. The system may complete a name with its search domains; what
that finds is judged like everything else. All methods belong to the thread of one event loop: no locks.
"""

import asyncio
import socket
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from ipaddress import IPv4Address, IPv6Address, ip_address

import msgspec

from frontlog.avro.errors import ConfigError
from frontlog.fetch.addresses import canonical

TTL_DEFAULT_MS = 300_000
"""How long an address is believed, since the system's resolver doesn't tell."""


class ResolveError(StrEnum):
    """Why there are no addresses; closed."""

    NOT_FOUND = "not_found"  # the name has no address, or can't be a name
    TIMEOUT = "timeout"  # no answer in time
    TEMPORARY = "temporary"  # a name server failed; another attempt may do better
    REFUSED = "refused"  # this resolver had no place for it; says nothing about the host


class Resolution(msgspec.Struct, frozen=True):
    """What a look-up found.

    `addresses`: canonical texts without repeats, in order; empty exactly if `error`. A zone id stays, for the
    guard to refuse. `ttl_ms`: how long to believe them. `detail`: the resolver's own words about an error.
    """

    host: str
    addresses: tuple[str, ...]
    ttl_ms: int
    error: ResolveError | None
    detail: str
    took_ms: int


class ResolverLoad(msgspec.Struct, frozen=True):
    """How many look-ups run in time, run beyond their time, and wait for a place."""

    running: int
    stuck: int
    waiting: int


GetAddrInfo = Callable[[str], Sequence[str]]
"""A blocking look-up: host to addresses in any order; raises what `socket.getaddrinfo` raises."""

_Answer = tuple[tuple[str, ...], ResolveError | None, str]


def system_getaddrinfo(host: str) -> list[str]:
    """Ask the system. Raises `socket.gaierror`, or ValueError if the text can't be a name."""
    # Bytes, because for a str Python would apply IDNA 2003; hosts are ASCII by the time they come here.
    found = socket.getaddrinfo(host.encode("ascii"), None, type=socket.SOCK_STREAM)
    return [str(entry[4][0]) for entry in found]


class _Lookup:
    """One host being looked up, for everybody who asks for it meanwhile."""

    __slots__ = ("answer", "callers", "host", "is_started", "is_stuck")

    def __init__(self, host: str, answer: "asyncio.Future[_Answer]") -> None:
        self.host = host
        self.answer = answer
        self.callers = 0
        self.is_started = False
        self.is_stuck = False


class Resolver:
    """Looks hosts up within bounds; see the module's text.

    `static` (from `parse_static`) answers before the system does: host in lower case to addresses.
    `running_max`, `waiting_max` and `threads_max` count look-ups; the last one includes stuck ones and is not
    smaller than the first.
    """

    def __init__(
        self,
        static: Mapping[str, tuple[str, ...]] | None = None,
        *,
        getaddrinfo: GetAddrInfo = system_getaddrinfo,
        is_ipv6_first: bool = False,
        running_max: int = 32,
        waiting_max: int = 4_096,
        threads_max: int = 256,
    ) -> None:
        assert 1 <= running_max <= threads_max and waiting_max >= 0
        self._static = dict(static or {})
        self._getaddrinfo = getaddrinfo
        self._is_ipv6_first = is_ipv6_first
        self._running_max = running_max
        self._waiting_max = waiting_max
        self._threads_max = threads_max
        self._lookups: dict[str, _Lookup] = {}
        self._waiting: deque[_Lookup] = deque()
        self._running = 0
        self._stuck = 0

    @property
    def load(self) -> ResolverLoad:
        """What it is doing now; for metrics and tests."""
        return ResolverLoad(self._running, self._stuck, len(self._waiting))

    async def resolve(self, host: str, timeout_ms: int) -> Resolution:
        """Find the addresses of a host in at most `timeout_ms`.

        `host` is a name, or an address with or without brackets, which needs no look-up. Never
        raises for what the network does: the error is in the result.
        """
        name = host.lower()
        known = self._static.get(name) or _literal(name)
        if known:
            return self._resolution(host, (known, None, ""), 0)
        loop = asyncio.get_running_loop()
        began = loop.time()
        answer = await self._ask(name, timeout_ms)
        return self._resolution(host, answer, round((loop.time() - began) * 1000))

    async def _ask(self, name: str, timeout_ms: int) -> _Answer:
        """Wait for the answer to one name, together with whoever waits for it already."""
        lookup = self._join(name)
        if lookup is None:
            return (), ResolveError.REFUSED, "too many look-ups are waiting"
        lookup.callers += 1
        try:
            await asyncio.wait((lookup.answer,), timeout=timeout_ms / 1000)
        finally:
            lookup.callers -= 1
            if not lookup.answer.done():
                self._give_up(lookup)
        if lookup.answer.done():
            return lookup.answer.result()
        if lookup.is_started:
            return (), ResolveError.TIMEOUT, f"no answer in {timeout_ms} ms"
        return (), ResolveError.REFUSED, f"no place for the look-up in {timeout_ms} ms"

    def _join(self, name: str) -> _Lookup | None:
        """Return the look-up of a name, a new one if there is none; None if there is no room for one."""
        lookup = self._lookups.get(name)
        if lookup is None:
            if not self._has_place() and len(self._waiting) >= self._waiting_max:
                return None
            lookup = _Lookup(name, asyncio.get_running_loop().create_future())
            self._lookups[name] = lookup
            self._waiting.append(lookup)
            self._start_waiting()
        return lookup

    def _has_place(self) -> bool:
        return self._running < self._running_max and self._running + self._stuck < self._threads_max

    def _start_waiting(self) -> None:
        """Give free places to those who wait."""
        while self._waiting and self._has_place():
            lookup = self._waiting.popleft()
            lookup.is_started = True
            self._running += 1
            thread = threading.Thread(
                target=_work,
                args=(self._getaddrinfo, lookup, asyncio.get_running_loop(), self._finish),
                name=f"resolve {lookup.host}",
                daemon=True,
            )
            try:
                thread.start()
            except RuntimeError as error:  # the system has no thread to give
                self._finish(lookup, ((), ResolveError.TEMPORARY, str(error)))

    def _give_up(self, lookup: _Lookup) -> None:
        """A caller left without an answer: drop a look-up that needn't begin, or take its place away."""
        if lookup.is_started and not lookup.is_stuck:
            lookup.is_stuck = True
            self._running -= 1
            self._stuck += 1
            self._start_waiting()
        elif not lookup.is_started and not lookup.callers:
            self._waiting.remove(lookup)
            del self._lookups[lookup.host]

    def _finish(self, lookup: _Lookup, answer: _Answer) -> None:
        """Take the answer of a thread that came back, however late."""
        del self._lookups[lookup.host]
        if lookup.is_stuck:
            self._stuck -= 1
        else:
            self._running -= 1
        lookup.answer.set_result(answer)
        self._start_waiting()

    def _resolution(self, host: str, answer: _Answer, took_ms: int) -> Resolution:
        found, error, detail = answer
        addresses = _in_order(found, self._is_ipv6_first)
        return Resolution(host, addresses, TTL_DEFAULT_MS, error, detail, took_ms)


def _work(
    getaddrinfo: GetAddrInfo,
    lookup: _Lookup,
    loop: asyncio.AbstractEventLoop,
    finish: Callable[[_Lookup, _Answer], None],
) -> None:
    """The life of a look-up's thread."""
    answer = _look_up(getaddrinfo, lookup.host)
    try:
        loop.call_soon_threadsafe(finish, lookup, answer)
    except RuntimeError:
        return  # the loop was closed meanwhile; nobody waits


def _look_up(getaddrinfo: GetAddrInfo, name: str) -> _Answer:
    """Ask, and turn every failure into one of the errors."""
    try:
        found = tuple(getaddrinfo(name))
    except socket.gaierror as error:
        is_final = error.errno in _NOT_FOUND
        return (), ResolveError.NOT_FOUND if is_final else ResolveError.TEMPORARY, str(error)
    except ValueError as error:  # a NUL, a character beyond ASCII, an empty or over-long label
        return (), ResolveError.NOT_FOUND, str(error)
    except Exception as error:  # whatever it is, the place must come back
        return (), ResolveError.TEMPORARY, repr(error)
    if not found:
        return (), ResolveError.NOT_FOUND, "an answer without addresses"
    return found, None, ""


# EAI_NODATA and EAI_ADDRFAMILY are not on every system. EAI_FAIL is temporary: it stands for faults of a
# server (REFUSED, FORMERR), and the frontier's attempts are bounded anyhow.
_NOT_FOUND = frozenset(
    code
    for name in ("EAI_NONAME", "EAI_NODATA", "EAI_ADDRFAMILY")
    if (code := getattr(socket, name, None)) is not None
)


def _literal(name: str) -> tuple[str, ...]:
    """An address, with or without brackets, is its own answer; a name gives nothing."""
    text = name[1:-1] if name.startswith("[") and name.endswith("]") else name
    return () if _parse(text) is None else (text,)


def _parse(text: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(text)
    except ValueError:
        return None


def _in_order(found: Sequence[str], is_ipv6_first: bool) -> tuple[str, ...]:
    """Canonical, once each, one family before the other, each by value; what is no address comes last."""
    first = 6 if is_ipv6_first else 4
    keyed: dict[str, tuple[int, int]] = {}
    for text in found:
        value = _parse(text)
        if value is None:
            keyed[text] = (2, 0)
        else:
            keyed[canonical(value)] = (0 if value.version == first else 1, int(value))
    return tuple(sorted(keyed, key=lambda text: (keyed[text], text)))


def parse_static(texts: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Read `--resolve HOST=ADDRESS[,ADDRESS]`; a host that is given twice has all addresses given.

    Raises ConfigError.
    """
    table: dict[str, tuple[str, ...]] = {}
    for text in texts:
        host, _, given = text.partition("=")
        name = host.strip().lower()
        addresses = tuple(address.strip().strip("[]") for address in given.split(","))
        wrong = next((address for address in addresses if _parse(address) is None), None)
        if not name or wrong is not None:
            raise ConfigError(
                f"--resolve {text!r}: {wrong!r} is not an address; give HOST=ADDRESS[,ADDRESS]"
                if name
                else f"--resolve {text!r}: the host is missing; give HOST=ADDRESS[,ADDRESS]"
            )
        table[name] = table.get(name, ()) + addresses
    return table
