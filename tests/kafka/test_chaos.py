"""The short form of `make chaos`: every trouble once, then nothing may be wrong. FRONTLOG_CHAOS_MINUTES makes it long.

A page that was asked for twice must have lost its lease first: each request of the site's own record is given the lease in
the log that allowed it (`bench.story`), and the one before must have run out, or have ended without an answer.

Not verified: several brokers.
"""

import os
import random
import signal
import time
from itertools import cycle
from pathlib import Path

import pytest

from bench.story import Again, hold, read_story
from bench.weblog import Visit
from frontlog.avro.enums import Reason
from frontlog.avro.errors import Fenced, Retriable
from frontlog.streams.kafka_places import KafkaCrawl
from frontlog.streams.kafka_topics import create
from support.broker import Broker
from support.chaos import REST_S, Chaos
from support.crawls import assert_polite, here
from support.site import Site, fill
from support.workers import prove

MINUTES = float(os.environ.get("FRONTLOG_CHAOS_MINUTES", "0"))
# In the long form a host's pages last as long as the trouble does, on whatever machine: 150 a minute, 400 ms apart.
GAP_MS = 400 if MINUTES else 100
PAGES = int(200 + 150 * MINUTES)
HOSTS = 6
UNHARMED = {-signal.SIGKILL, 137, Fenced.exit_code, Retriable.exit_code}
"""How a worker may end here: killed, crashed as it was told to, shut out, Kafka away. Nothing that a person must mend."""
FAILED_FETCH = (Reason.TIMEOUT, Reason.CONNECTION_RESET, Reason.CONNECTION_REFUSED)


@pytest.mark.timeout(300 + MINUTES * 240)
def test_nothing_is_wrong_after_every_trouble(kafka_to_kill: Broker, tmp_path: Path) -> None:
    crawl = KafkaCrawl(kafka_to_kill.bootstrap, "chaos")
    create(crawl, 4)
    seed = random.randrange(1 << 16)
    print(f"seed {seed}")
    with Site(hosts=HOSTS) as site:
        wanted = fill(site, PAGES)
        chaos = Chaos(
            kafka_to_kill, crawl, tmp_path, seed, {"politeness.gap_ms_min": GAP_MS, "scope.mode": "host"}
        )

        def done() -> bool:
            if len(site.requests) < len(wanted):
                return False
            asked = {site.url(one.host, one.path) for one in site.asked() if one.path != "/robots.txt"}
            return asked >= wanted

        try:
            chaos.start("first")
            chaos.start("second")
            given = here("seed", *(site.url(n) for n in range(HOSTS)), "-C", str(crawl))
            assert given.exit_code == 0, given.output
            troubles = [chaos.kill, chaos.poison, chaos.join, chaos.stop, chaos.crash, chaos.lose_broker]
            until = time.monotonic() + MINUTES * 60
            for number, trouble in enumerate(cycle(troubles)):
                if number >= len(troubles) and (time.monotonic() > until or done()):
                    break
                chaos.rest(REST_S)
                trouble()
            chaos.rest(120 + 60 * MINUTES, done)
            assert done(), (chaos.story, chaos.ends)
            chaos.rest(6)
            chaos.end()
        finally:
            chaos.close()
            print(*chaos.story)
            print(*chaos.ends, sep="\n")
        assert {code for _, code, _ in chaos.ends} <= UNHARMED, chaos.ends
        prove(crawl, chaos.folders, tmp_path / "copy")
        assert_polite(site, GAP_MS)
        print(asked_again(site, tmp_path / "copy"))


def asked_again(site: Site, folder: Path) -> str:
    """Hold every request against the leases of the log; what came of it, in a line."""
    epoch_s = time.time() - time.monotonic()
    visits = [
        Visit(
            int((one.began_s + epoch_s) * 1e9), int((one.ended_s + epoch_s) * 1e9), one.host, one.status, "", 0, one.path
        )
        for one in site.asked()
    ]  # fmt: skip
    held = hold(
        read_story(folder),
        visits,
        {n: site.origin(n) for n in range(site.hosts)},
        visits[0].start_ns // 1_000_000,
    )
    assert held.unleased == []
    faults = [one for one in held.again if one.fault and not unanswered(one)]
    assert faults == [], faults
    lost = sum(not one.fault for one in held.again)
    return (
        f"{held.requests} requests; {len(held.again)} URLs were asked for again: {lost} whose leases had run out, "
        f"{len(held.again) - lost} that had given no answer"
    )


def unanswered(one: Again) -> bool:
    """Whether each earlier fetch ended with a failure, after which the frontier tries again."""
    return all(
        any(f"ended with {reason.value} by fetch-results" in part for reason in FAILED_FETCH)
        for part in one.fault.split("; ")
    )
