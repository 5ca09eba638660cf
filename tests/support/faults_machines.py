"""Machines that are wrong: each mutant of the code that decides, and the check that must find it in what it wrote."""

# Mutants are made from within.
# pyright: reportPrivateUsage=false

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from frontlog.avro.enums import Reason, State
from frontlog.avro.events import (
    FetchResult,
    HostClock,
)
from frontlog.processors import (
    hosts,
    partition,
    policy,
    politeness,
    results,
    scope,
    sitemap_files,
    urls,
)
from frontlog.processors.context import Cause, Context, Decided
from frontlog.processors.results import Ending
from frontlog.processors.settings import Politeness, Scope, Settings
from frontlog.state import keys
from frontlog.state.rows import UrlRow
from frontlog.state.tables import Tables
from support.driver import Driver
from support.faults import always, fault
from support.web import Page, Robots, Web

Patch = pytest.MonkeyPatch
A, B = "http://a.example", "http://b.example"
QUICK = Settings(scope=Scope(mode="any"), politeness=Politeness(gap_ms_min=1_000, gap_factor=0.0))
BLOCK = b'{"cmd":"block","target":{"host":"a.example"},"actor":"ops"}'
PAUSE = b'{"cmd":"pause","target":{"site":"a.example"},"actor":"ops"}'
MINUTES = 5
PARTITIONS = 2


def pages(base: str, count: int, **facts: Any) -> Web:
    """One host with `count` pages, all linked from its home page."""
    web = Web()
    web.pages[f"{base}/"] = Page(text="home", links=tuple(f"{base}/{n}" for n in range(count)))
    web.pages |= {f"{base}/{n}": Page(text=f"page {n}", **facts) for n in range(count)}
    return web


def run(folder: Path, web: Web, *seeds: str, settings: Settings = QUICK) -> None:
    with Driver(folder, partitions=PARTITIONS, web=web, settings=settings) as crawl:
        crawl.seed(*seeds)
        crawl.run(until_ms=crawl.clock.at_ms + 60_000 * MINUTES)


# --- URLs --------------------------------------------------------------------------------------------------------


@fault("transitions", forged=False)
def a_pair_too_many(folder: Path, patch: Patch) -> None:
    """The table has a move that the design hasn't, and a machine makes it."""
    extra = {(State.LEASED, State.FAILED): urls.TABLE[State.LEASED, State.FAILED] | {Reason.GONE}}
    patch.setattr(urls, "TABLE", {**urls.TABLE, **extra})
    counted = results._counted

    def failing(rules: Any, end: Ending, row: UrlRow, result: FetchResult) -> Ending:
        ending = counted(rules, end, row, result)
        return ending._replace(state=State.FAILED) if ending.state is State.GONE else ending

    patch.setattr(results, "_counted", failing)
    web = pages(A, 2)
    del web.pages[f"{A}/1"]
    run(folder, web, f"{A}/")


def late(crawl: Driver, url: str, *, then: Page | None = None) -> None:
    """The lease of a page runs out, the page is claimed again, and then the first result comes. `then`: what the page
    is by the second request."""
    crawl.seed(url)
    while not (leases := [one for one in crawl.step() if one.kind.value == "page"]):
        for lease in list(crawl.leases.values()):
            crawl.serve(lease)
        crawl.clock.advance(1_100)
        crawl.land()
    first = crawl.answer(leases[0])
    if then is not None:
        crawl.web.pages[url] = then
    crawl.clock.advance(95_000)
    while not (again := [one for one in crawl.step() if one.kind.value == "page"]):
        crawl.clock.advance(1_100)
    crawl.clock.advance(100)
    crawl.write(leases[0], first)
    crawl.step(0)
    crawl.serve(again[0])
    crawl.clock.advance(1_000)
    crawl.land()
    crawl.run(until_ms=crawl.clock.at_ms + 60_000)


@fault("fences", forged=False)
def no_fence(folder: Path, patch: Patch) -> None:
    """Results count whatever fence they carry."""
    honest = results.decide

    def decide(view: Tables, result: FetchResult, ctx: Context) -> Decided:
        row = view.urls.get(keys.url_key(keys.origin_id(result.origin_key), result.url))
        return honest(view, replace(result, fence=row.fence) if row is not None else result, ctx)

    patch.setattr(results, "decide", decide)
    with Driver(folder, partitions=PARTITIONS, web=pages(A, 1), settings=QUICK) as crawl:
        late(crawl, f"{A}/0")


@fault("leases", forged=False)
def impatient_sweeper(folder: Path, patch: Patch) -> None:
    """Every lease is taken back at once."""

    def expire_all(view: Tables, ctx: Context) -> Iterator[Decided]:
        ctx.cause = Cause("timer", ctx.partition, -1)
        yield from partition._give_back(view, ctx, view.leases.scan(), Reason.LEASE_EXPIRED)

    web = pages(A, 2, ms=2_500)
    with Driver(folder, partitions=PARTITIONS, web=web, settings=QUICK) as crawl:
        crawl.seed(f"{A}/")
        crawl.run(until_ms=crawl.clock.at_ms + 3_000)
        patch.setattr(partition, "expire_all", expire_all)
        crawl.run(until_ms=crawl.clock.at_ms + 30_000)


# --- politeness --------------------------------------------------------------------------------------------------


@fault("gaps", forged=False)
def deaf_to_crawl_delay(folder: Path, patch: Patch) -> None:
    """The rest of a host forgets its Crawl-delay."""

    def gap_ms(_clock: HostClock, rules: Politeness, response_ms: int) -> int:
        return politeness.address_gap_ms(rules, response_ms)

    patch.setattr(politeness, "gap_ms", gap_ms)
    web = pages(A, 3)
    web.robots[A] = Robots(b"User-agent: *\nCrawl-delay: 5\n")
    run(folder, web, f"{A}/")


@fault("gaps", forged=False, alone=False)
def half_the_gap(folder: Path, patch: Patch) -> None:
    """The rest is half as long as it must be."""
    whole = politeness.address_gap_ms

    def half(rules: Politeness, response_ms: int) -> int:
        return whole(rules, response_ms) // 2

    patch.setattr(politeness, "address_gap_ms", half)
    run(folder, pages(A, 4), f"{A}/")


@fault("gaps", forged=False)
def deaf_to_retry_after(folder: Path, patch: Patch) -> None:
    """A host's wish for rest is not heard."""
    patch.setattr(politeness, "retry_after_ms", always(1))
    web = pages(A, 3)
    web.pages[f"{A}/1"] = Page(status=429, retry_after="30")
    run(folder, web, f"{A}/")


@fault("slots", forged=False)
def two_at_a_time(folder: Path, patch: Patch) -> None:
    """A host is claimed while a request to it is under way."""
    honest = hosts.ready_at_ms

    def ready_at_ms(tables: Tables, host: bytes, row: Any, now_ms: int) -> int | None:
        free = replace(row, in_flight=0) if not row.errand else row
        return honest(tables, host, free, now_ms)

    def resting(clock: HostClock, now_ms: int) -> bool:
        return clock.address_next_ms > now_ms

    patch.setattr(hosts, "ready_at_ms", ready_at_ms)
    patch.setattr(politeness, "address_busy", resting)
    run(folder, pages(A, 3, ms=2_000), f"{A}/")


@fault("addresses", forged=False)
def an_address_for_everyone(folder: Path, patch: Patch) -> None:
    """Hosts of one address do not wait for each other."""
    patch.setattr(politeness, "address_busy", always(False))
    web = pages(A, 3, ms=300)
    web.pages |= pages(B, 3, ms=300).pages
    web.addresses = {"a.example": "198.51.100.7", "www.a.example": "198.51.100.7"}
    web.pages |= {url.replace("//a.", "//www.a."): page for url, page in pages(A, 3, ms=300).pages.items()}
    run(folder, web, f"{A}/", "http://www.a.example/", "http://www.a.example/0", "http://www.a.example/1")


# --- policy ------------------------------------------------------------------------------------------------------


@fault("robots", forged=False)
def robots_ignored(folder: Path, patch: Patch) -> None:
    """robots.txt is fetched and not obeyed."""

    def robots_verdict(_view: Tables, at: policy.Standing, _requested: str, _token: str) -> policy.Verdict:
        return policy.Verdict(True, Reason.ADMITTED, "", at.version)

    patch.setattr(policy, "robots_verdict", robots_verdict)
    web = pages(A, 3)
    web.robots[A] = Robots(b"User-agent: *\nDisallow: /1\n")
    run(folder, web, f"{A}/")


@fault("robots", forged=False)
def robots_for_life(folder: Path, patch: Patch) -> None:
    """A robots.txt is kept for the life of the process."""
    with Driver(folder, partitions=PARTITIONS, web=pages(A, 2), settings=QUICK) as crawl:
        crawl.seed(f"{A}/")
        crawl.run()
        from frontlog.processors import claims

        patch.setattr(claims._Turn, "_robots_wanted", always(False))
        crawl.clock.advance(90_000_000)
        crawl.seed(f"{A}/new")
        crawl.run(until_ms=crawl.clock.at_ms + 60_000)


@fault("operators", forged=False)
def block_ignored(folder: Path, patch: Patch) -> None:
    """A block is logged and not heeded."""
    patch.setattr(policy, "blocked_by", always(""))
    with Driver(folder, partitions=PARTITIONS, web=pages(A, 4), settings=QUICK) as crawl:
        crawl.seed(f"{A}/")
        crawl.run(until_ms=crawl.clock.at_ms + 3_000)
        crawl.control(BLOCK, crawl.partition_of(f"{A}:80"))
        crawl.run(until_ms=crawl.clock.at_ms + 60_000)


@fault("operators", forged=False)
def pause_ignored(folder: Path, patch: Patch) -> None:
    """A pause is logged and not heeded."""
    patch.setattr(policy, "paused_by", always(False))
    with Driver(folder, partitions=PARTITIONS, web=pages(A, 4), settings=QUICK) as crawl:
        crawl.seed(f"{A}/")
        crawl.run(until_ms=crawl.clock.at_ms + 3_000)
        crawl.control(PAUSE, crawl.partition_of(f"{A}:80"))
        crawl.run(until_ms=crawl.clock.at_ms + 60_000)


@fault("scope", forged=False)
def no_scope(folder: Path, patch: Patch) -> None:
    """Links to other hosts are followed."""
    patch.setattr(scope, "outside", always(""))
    web = pages(A, 1)
    web.pages[f"{A}/0"] = Page(text="away", links=(f"{B}/",))
    settings = Settings(scope=Scope(mode="host"), politeness=QUICK.politeness)
    run(folder, web, f"{A}/", settings=settings)


@fault("versions", forged=False)
def old_versions(folder: Path, patch: Patch) -> None:
    """Verdicts name a policy version that robots.txt has overtaken."""
    honest = policy.standing

    def standing(view: Tables, origin_key: str) -> policy.Standing:
        at = honest(view, origin_key)
        return at._replace(version=view.crawl.policy_seq)

    patch.setattr(policy, "standing", standing)
    run(folder, pages(A, 2), f"{A}/")


# --- sitemaps ----------------------------------------------------------------------------------------------------


@fault("sitemaps", forged=False)
def anyones_sitemap(folder: Path, patch: Patch) -> None:
    """A sitemap lists pages of a site whose robots.txt knows nothing of it."""
    patch.setattr(sitemap_files, "refused", always(None))
    web = pages(A, 1)
    web.robots[A] = Robots(b"Sitemap: /sitemap.xml")
    web.pages[f"{A}/sitemap.xml"] = Page(sitemap=f"<urlset><url><loc>{B}/</loc></url></urlset>".encode())
    run(folder, web, f"{A}/")


@fault("sitemaps", forged=False)
def a_bottomless_index(folder: Path, patch: Patch) -> None:
    """Indexes inside indexes are followed without end."""
    patch.setattr(sitemap_files, "refused", always(None))
    web = pages(A, 1)
    web.robots[A] = Robots(b"Sitemap: /0.xml")
    for n in range(5):
        index = f"<sitemapindex><sitemap><loc>{A}/{n + 1}.xml</loc></sitemap></sitemapindex>"
        web.pages[f"{A}/{n}.xml"] = Page(sitemap=index.encode())
    run(folder, web, f"{A}/")


@fault("sitemaps", forged=False)
def a_date_of_its_own(folder: Path, patch: Patch) -> None:
    """A page is said to have changed when nobody said so."""
    patch.setattr(sitemap_files, "lastmod_of", always(1_790_000_000_000))
    web = pages(A, 2)
    run(folder, web, f"{A}/")
