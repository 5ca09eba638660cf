"""The short form of `make chaos`: every trouble once, then nothing may be wrong. FRONTLOG_CHAOS_MINUTES makes it long.

Not verified: pages that a worker had in flight when it was killed are asked for again after their lease, so a page may be
asked for twice; `verify` holds that no lease is given before the one before it ended.
"""

import os
import random
import time
from itertools import cycle
from pathlib import Path

import pytest

from frontlog.streams.kafka_places import KafkaCrawl
from frontlog.streams.kafka_topics import create
from support.broker import Broker
from support.chaos import REST_S, Chaos
from support.crawls import assert_polite, here
from support.site import Site, fill
from support.workers import prove

MINUTES = float(os.environ.get("FRONTLOG_CHAOS_MINUTES", "0"))
GAP_MS = 100
HOSTS = 6


@pytest.mark.timeout(300 + MINUTES * 120)
def test_nothing_is_wrong_after_every_trouble(kafka_to_kill: Broker, tmp_path: Path) -> None:
    crawl = KafkaCrawl(kafka_to_kill.bootstrap, "chaos")
    create(crawl, 4)
    seed = random.randrange(1 << 16)
    print(f"seed {seed}")
    with Site(hosts=HOSTS) as site:
        wanted = fill(site, int(200 + 400 * MINUTES))
        chaos = Chaos(
            kafka_to_kill, crawl, tmp_path, seed, {"politeness.gap_ms_min": GAP_MS, "scope.mode": "host"}
        )

        def done() -> bool:
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
            print(chaos.story, chaos.ends)
        prove(crawl, chaos.folders, tmp_path / "copy")
        assert_polite(site, GAP_MS)
