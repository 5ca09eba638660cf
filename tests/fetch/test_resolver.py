"""The resolver with look-ups that hang, fail, lie and come back late.

Not verified here: what a real name server does; the system's resolver is asked for `localhost` only.
"""

import asyncio
import socket
import threading
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import pytest

from frontlog.avro.errors import ConfigError
from frontlog.fetch.addresses import AddressReason, choose
from frontlog.fetch.resolver import (
    TTL_DEFAULT_MS,
    Resolution,
    ResolveError,
    Resolver,
    ResolverLoad,
    parse_static,
)

IDLE = ResolverLoad(running=0, stuck=0, waiting=0)


class FakeDns:
    """A blocking look-up under a test's control: names that start with `hang` wait until it is released."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.released = threading.Event()
        self.answers: dict[str, Sequence[str] | Exception] = {}

    def __call__(self, host: str) -> Sequence[str]:
        self.asked.append(host)
        if host.startswith("hang"):
            # Bounded, so that a failing test doesn't hang.
            self.released.wait(20)
        answer = self.answers.get(host, ["93.184.216.34"])
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture
def dns() -> "FakeDns":
    return FakeDns()


def run(coroutine: Coroutine[Any, Any, None]) -> None:
    asyncio.run(coroutine)


async def until(condition: Callable[[], bool]) -> None:
    """Wait for what another thread brings about; the limit fails the test rather than hanging it."""
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.001)


def look_up(dns: FakeDns, host: str, **options: Any) -> Resolution:
    return asyncio.run(Resolver(getaddrinfo=dns, **options).resolve(host, 5_000))


# --- answers ----------------------------------------------------------------------------------------------


def test_addresses_are_canonical_once_each_and_ipv4_first(dns: FakeDns) -> None:
    dns.answers["a.test"] = ["2606:4700:0:0::1", "93.184.216.34", "1.1.1.1", "2606:4700::1", "93.184.216.34"]
    found = look_up(dns, "A.test")
    assert found.addresses == ("1.1.1.1", "93.184.216.34", "2606:4700::1")
    assert (found.host, found.error, found.detail, found.ttl_ms) == ("A.test", None, "", TTL_DEFAULT_MS)
    assert found.took_ms >= 0


def test_the_order_does_not_depend_on_the_server(dns: FakeDns) -> None:
    dns.answers["a.test"] = ["9.9.9.9", "8.8.8.8", "2606:4700::1"]
    first = look_up(dns, "a.test").addresses
    dns.answers["a.test"] = ["2606:4700::1", "8.8.8.8", "9.9.9.9"]
    assert look_up(dns, "a.test").addresses == first


def test_ipv6_can_go_first(dns: FakeDns) -> None:
    dns.answers["a.test"] = ["1.1.1.1", "2606:4700::1"]
    assert look_up(dns, "a.test", is_ipv6_first=True).addresses == ("2606:4700::1", "1.1.1.1")


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("[::1]", "::1"),
        ("::1", "::1"),
        ("[2001:DB8:0:0::1]", "2001:db8::1"),
        ("[::ffff:7f00:1]", "::ffff:127.0.0.1"),
    ],
)
def test_an_address_needs_no_look_up(dns: FakeDns, host: str, address: str) -> None:
    assert look_up(dns, host).addresses == (address,)
    assert dns.asked == []


def test_other_spellings_of_addresses_are_names(dns: FakeDns) -> None:
    dns.answers["127.1"] = ["127.0.0.1"]
    assert look_up(dns, "127.1").addresses == ("127.0.0.1",)
    assert dns.asked == ["127.1"]


def test_static_answers_come_before_the_system(dns: FakeDns) -> None:
    static = parse_static(["A.test=127.0.0.1", "b.test=[::1],127.0.0.2", "a.test=127.0.0.3"])
    assert static == {"a.test": ("127.0.0.1", "127.0.0.3"), "b.test": ("::1", "127.0.0.2")}
    assert look_up(dns, "a.TEST", static=static).addresses == ("127.0.0.1", "127.0.0.3")
    assert look_up(dns, "b.test", static=static).addresses == ("127.0.0.2", "::1")
    assert dns.asked == []
    assert look_up(dns, "c.test", static=static).addresses == ("93.184.216.34",)


@pytest.mark.parametrize(
    "text", ["a.test", "a.test=", "=127.0.0.1", "a.test=127.1", "a.test=1.1.1.1,", "a=b=1.1.1.1"]
)
def test_a_bad_static_entry_is_a_config_error_that_helps(text: str) -> None:
    with pytest.raises(ConfigError, match=r"--resolve .*HOST=ADDRESS"):
        parse_static(["ok.test=127.0.0.1", text])


def test_what_the_guard_must_see_is_kept(dns: FakeDns) -> None:
    dns.answers["a.test"] = ["93.184.216.34", "fe80::1%eth0"]
    dns.answers["b.test"] = ["93.184.216.34", "rubbish"]
    assert choose(look_up(dns, "a.test").addresses).reason is AddressReason.SCOPED
    assert choose(look_up(dns, "b.test").addresses).reason is AddressReason.NOT_AN_ADDRESS


def test_the_system_knows_localhost_and_the_guard_refuses_it() -> None:
    found = asyncio.run(Resolver().resolve("localhost", 10_000))
    assert set(found.addresses) & {"127.0.0.1", "::1"}
    assert choose(found.addresses).reason is AddressReason.LOOPBACK


# --- errors -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("failure", "error"),
    [
        (socket.gaierror(socket.EAI_NONAME, "Name or service not known"), ResolveError.NOT_FOUND),
        (socket.gaierror(socket.EAI_NODATA, "No address"), ResolveError.NOT_FOUND),
        (socket.gaierror(socket.EAI_AGAIN, "Temporary failure"), ResolveError.TEMPORARY),
        (socket.gaierror(socket.EAI_FAIL, "Non-recoverable failure"), ResolveError.TEMPORARY),
        (socket.gaierror(socket.EAI_SYSTEM, "System error"), ResolveError.TEMPORARY),
        (OSError(24, "Too many open files"), ResolveError.TEMPORARY),
        (ValueError("embedded null character"), ResolveError.NOT_FOUND),
        (UnicodeError("label too long"), ResolveError.NOT_FOUND),
        (RuntimeError("unforeseen"), ResolveError.TEMPORARY),
        ((), ResolveError.NOT_FOUND),
    ],
)
def test_failures_are_results(dns: FakeDns, failure: Exception | tuple[()], error: ResolveError) -> None:
    async def scene() -> None:
        dns.answers["a.test"] = failure
        resolver = Resolver(getaddrinfo=dns)
        found = await resolver.resolve("a.test", 5_000)
        assert (found.addresses, found.error) == ((), error)
        assert found.detail
        assert resolver.load == IDLE

    run(scene())


@pytest.mark.parametrize("host", ["", "a..b", "a" * 64 + ".test", "bü.test", "nul\x00.test"])
def test_what_cannot_be_a_name_is_not_found(host: str) -> None:
    """With the system's resolver: none of these texts leaves the machine."""
    found = asyncio.run(Resolver().resolve(host, 10_000))
    assert (found.addresses, found.error) == ((), ResolveError.NOT_FOUND)


# --- hung look-ups ----------------------------------------------------------------------------------------


def test_a_hung_look_up_times_out_and_its_thread_is_counted_until_it_comes_back(dns: FakeDns) -> None:
    async def scene() -> None:
        resolver = Resolver(getaddrinfo=dns)
        found = await resolver.resolve("hang.test", 20)
        assert (found.addresses, found.error) == ((), ResolveError.TIMEOUT)
        assert found.took_ms >= 20
        assert resolver.load == ResolverLoad(running=0, stuck=1, waiting=0)
        dns.released.set()
        await until(lambda: resolver.load == IDLE)

    run(scene())


def test_hung_look_ups_do_not_stop_others(dns: FakeDns) -> None:
    """More names hang than may run at a time, and one place is enough for all others."""

    async def scene() -> None:
        resolver = Resolver(getaddrinfo=dns, running_max=2, threads_max=50)
        hung = [asyncio.create_task(resolver.resolve(f"hang{n}.test", 30)) for n in range(20)]
        await asyncio.sleep(0)
        good = await asyncio.gather(*(resolver.resolve(f"good{n}.test", 10_000) for n in range(20)))
        assert [found.error for found in good] == [None] * 20
        errors = {found.error for found in await asyncio.gather(*hung)}
        assert errors <= {ResolveError.TIMEOUT, ResolveError.REFUSED}
        dns.released.set()
        await until(lambda: resolver.load == IDLE)

    run(scene())


def test_threads_are_bounded_and_capacity_recovers(dns: FakeDns) -> None:
    async def scene() -> None:
        resolver = Resolver(getaddrinfo=dns, running_max=2, threads_max=3)
        for n in range(3):
            assert (await resolver.resolve(f"hang{n}.test", 10)).error is ResolveError.TIMEOUT
        assert resolver.load == ResolverLoad(running=0, stuck=3, waiting=0)

        # No thread is left: this says nothing about the host, and nothing is left behind.
        found = await resolver.resolve("good.test", 10)
        assert (found.error, found.detail) == (ResolveError.REFUSED, "no place for the look-up in 10 ms")
        assert resolver.load == ResolverLoad(running=0, stuck=3, waiting=0)
        assert "good.test" not in dns.asked

        # Who still waits when the threads come back is served.
        waiting = asyncio.create_task(resolver.resolve("good.test", 10_000))
        await until(lambda: resolver.load.waiting == 1)
        dns.released.set()
        assert (await waiting).error is None
        await until(lambda: resolver.load == IDLE)

    run(scene())


def test_one_bad_name_holds_one_thread_however_often_it_is_tried(dns: FakeDns) -> None:
    async def scene() -> None:
        resolver = Resolver(getaddrinfo=dns)
        for _ in range(5):
            assert (await resolver.resolve("hang.test", 5)).error is ResolveError.TIMEOUT
        assert dns.asked == ["hang.test"]
        assert resolver.load == ResolverLoad(running=0, stuck=1, waiting=0)

        # A caller who asks while it hangs has the late answer.
        late = asyncio.create_task(resolver.resolve("hang.test", 10_000))
        await asyncio.sleep(0)
        dns.released.set()
        assert (await late).addresses == ("93.184.216.34",)
        assert resolver.load == IDLE

    run(scene())


def test_callers_of_one_name_share_a_look_up_and_the_next_one_asks_again(dns: FakeDns) -> None:
    async def scene() -> None:
        resolver = Resolver(getaddrinfo=dns)
        shared = [asyncio.create_task(resolver.resolve(host, 10_000)) for host in ("hang.test", "HANG.test")]
        await until(lambda: len(dns.asked) == 1)
        dns.released.set()
        first, second = await asyncio.gather(*shared)
        assert first.addresses == second.addresses == ("93.184.216.34",)
        assert (first.host, second.host) == ("hang.test", "HANG.test")
        assert dns.asked == ["hang.test"]
        dns.answers["hang.test"] = ["1.1.1.1"]
        assert (await resolver.resolve("hang.test", 10_000)).addresses == ("1.1.1.1",)

    run(scene())


def test_no_more_than_running_max_run_and_no_more_than_waiting_max_wait(dns: FakeDns) -> None:
    async def scene() -> None:
        resolver = Resolver(getaddrinfo=dns, running_max=2, waiting_max=3)
        tasks = [asyncio.create_task(resolver.resolve(f"hang{n}.test", 10_000)) for n in range(5)]
        await until(lambda: len(dns.asked) == 2)
        assert resolver.load == ResolverLoad(running=2, stuck=0, waiting=3)
        refused = await resolver.resolve("one-more.test", 10_000)
        assert (refused.error, refused.detail) == (ResolveError.REFUSED, "too many look-ups are waiting")
        dns.released.set()
        assert {found.error for found in await asyncio.gather(*tasks)} == {None}
        assert dns.asked[2:] == ["hang2.test", "hang3.test", "hang4.test"]
        assert resolver.load == IDLE

    run(scene())


def test_a_cancelled_caller_leaves_nothing_waiting(dns: FakeDns) -> None:
    async def scene() -> None:
        resolver = Resolver(getaddrinfo=dns, running_max=1)
        running = asyncio.create_task(resolver.resolve("hang.test", 10_000))
        waiting = asyncio.create_task(resolver.resolve("next.test", 10_000))
        await until(lambda: resolver.load == ResolverLoad(running=1, stuck=0, waiting=1))
        waiting.cancel()
        await asyncio.wait((waiting,))
        assert resolver.load == ResolverLoad(running=1, stuck=0, waiting=0)
        running.cancel()
        await asyncio.wait((running,))
        assert resolver.load == ResolverLoad(running=0, stuck=1, waiting=0)
        assert (await resolver.resolve("good.test", 10_000)).error is None
        dns.released.set()
        await until(lambda: resolver.load == IDLE)
        assert dns.asked == ["hang.test", "good.test"]

    run(scene())


def test_one_of_two_waiting_callers_may_leave(dns: FakeDns) -> None:
    async def scene() -> None:
        resolver = Resolver(getaddrinfo=dns, running_max=1)
        first = asyncio.create_task(resolver.resolve("hang.test", 10_000))
        short = asyncio.create_task(resolver.resolve("good.test", 10))
        long = asyncio.create_task(resolver.resolve("good.test", 10_000))
        assert (await short).error is ResolveError.REFUSED
        assert resolver.load.waiting == 1
        dns.released.set()
        assert (await long).error is None
        assert (await first).error is None

    run(scene())


def test_a_hung_look_up_delays_neither_the_end_of_the_loop_nor_the_exit(dns: FakeDns) -> None:
    async def scene() -> None:
        assert (await Resolver(getaddrinfo=dns).resolve("hang.test", 10)).error is ResolveError.TIMEOUT

    run(scene())
    hung = [thread for thread in threading.enumerate() if thread.name == "resolve hang.test"]
    assert len(hung) == 1
    assert hung[0].daemon
    # It comes back after the loop is closed, and must not raise (pytest makes that an error).
    dns.released.set()
    hung[0].join(10)
    assert not hung[0].is_alive()


def test_a_system_without_threads_to_give_is_a_temporary_error(
    dns: FakeDns, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    async def scene() -> None:
        resolver = Resolver(getaddrinfo=dns)
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", refuse)
            found = await resolver.resolve("a.test", 5_000)
        assert (found.error, found.detail) == (ResolveError.TEMPORARY, "can't start new thread")
        assert resolver.load == IDLE
        assert (await resolver.resolve("a.test", 5_000)).error is None

    run(scene())
