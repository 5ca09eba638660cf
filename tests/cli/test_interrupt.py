"""Ctrl-C once, twice, three times; with real signals."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time

from frontlog.interrupt import FIRST, SECOND, interrupts
from frontlog.streams.stop import StopSignal

LOOP = """
import sys, time
from frontlog.interrupt import interrupts
from frontlog.streams.stop import StopSignal
stop = StopSignal()
with interrupts(stop, lambda text: print(text.split(":")[0], flush=True)):
    print("ready", flush=True)
    while True:
        time.sleep(0.01)
"""


def send(number: int) -> None:
    os.kill(os.getpid(), number)
    time.sleep(0.01)


def test_the_first_finishes_the_second_stops_now() -> None:
    stop, notes = StopSignal(), list[str]()
    levels: list[int] = []
    stop.subscribe(levels.append)
    before = signal.getsignal(signal.SIGINT)
    with interrupts(stop, notes.append):
        send(signal.SIGINT)
        assert (stop.level, stop.is_set(), stop.is_now()) == (1, True, False)
        send(signal.SIGINT)
        assert (stop.level, stop.is_now()) == (2, True)
    assert notes == [FIRST, SECOND]
    assert levels == [1, 2]
    assert signal.getsignal(signal.SIGINT) is before


def test_sigterm_is_patient() -> None:
    stop, notes = StopSignal(), list[str]()
    with interrupts(stop, notes.append):
        send(signal.SIGTERM)
        send(signal.SIGTERM)
        assert stop.level == 1
        send(signal.SIGINT)
        assert stop.level == 2
    assert notes == [FIRST, SECOND]


def test_a_subscriber_can_end_and_a_late_one_is_told_at_once() -> None:
    stop, first, late = StopSignal(), list[int](), list[int]()
    unsubscribe = stop.subscribe(first.append)
    stop.request()
    unsubscribe()
    unsubscribe()
    stop.subscribe(late.append)
    assert [stop.request() for _ in range(3)] == [2, 2, 2]
    assert first == [1]
    assert late[:2] == [1, 2]


def test_a_loop_that_sleeps_is_woken() -> None:
    stop = StopSignal()

    async def wait() -> float:
        loop, woken = asyncio.get_running_loop(), asyncio.Event()

        def wake(_: int) -> None:
            loop.call_soon_threadsafe(woken.set)

        stop.subscribe(wake)
        threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT)).start()
        started_s = time.monotonic()
        await asyncio.wait_for(woken.wait(), 5)
        return time.monotonic() - started_s

    with interrupts(stop, lambda _: None):
        assert asyncio.run(wait()) < 2


def test_outside_the_main_thread_nothing_is_set() -> None:
    before, seen = signal.getsignal(signal.SIGINT), list[object]()

    def run() -> None:
        with interrupts(StopSignal(), lambda _: None):
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert seen == [before]


def test_the_third_ends_a_process_that_does_not_listen() -> None:
    with subprocess.Popen([sys.executable, "-c", LOOP], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        for said in ("Stopping\n", "Stopping at once\n"):
            process.send_signal(signal.SIGINT)
            assert process.stdout.readline() == said
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 130


def test_the_second_does_not_wait_for_ever() -> None:
    code = LOOP.replace("stop = ", "import frontlog.interrupt as i; i.GRACE_S = 0.1; stop = ")
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for said in ("ready\n", "Stopping\n"):
            assert process.stdout.readline() == said
            process.send_signal(signal.SIGINT)
        assert process.wait(10) == 130
