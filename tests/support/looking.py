"""An honest crawl to look back at, made without a socket, and what `verify` finds in a crawl."""

from pathlib import Path

from frontlog.processors.leased import Lease
from frontlog.processors.settings import Politeness, Scope, Settings
from frontlog.replay.shapes import Advance, Report
from frontlog.replay.verify import verify
from support.driver import Driver
from support.web import Answer, Page, Robots, Script, Web

HOSTS = ("a.example", "b.example", "c.example")
SETTINGS = Settings(scope=Scope(mode="any"), politeness=Politeness(gap_ms_min=1_000, gap_factor=10.0))
PARTITIONS = 3
RULES = b"User-agent: *\nDisallow: /private/\nCrawl-delay: 2\nSitemap: /sitemap.xml\nSitemap: http://a.example/all.xml\n"
SITEMAP = b"""<sitemapindex xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"><sitemap><loc>/listed.xml</loc></sitemap>
</sitemapindex>"""
LISTED = b"""<urlset><url><loc>/listed</loc><lastmod>2026-09-20</lastmod></url><url><loc>/1</loc></url>
<url><loc>http://b.example/from-a</loc></url><url><loc>http://elsewhere.example/</loc></url></urlset>"""


def small_web() -> Web:
    """Three hosts that link to one another: a duplicate, a page that is gone, a redirect, a rest, a forbidden path."""
    web = Web()
    for n, host in enumerate(HOSTS):
        base, other = f"http://{host}", f"http://{HOSTS[(n + 1) % len(HOSTS)]}"
        web.robots[base] = Robots(RULES) if n else Robots(status=404)
        links = tuple(f"{base}/{path}" for path in ("1", "2", "3", "old", "busy", "private/x"))
        web.pages[f"{base}/"] = Page(text=f"home {n}", links=(*links, f"{other}/", "mailto:nobody"))
        web.pages[f"{base}/1"] = Page(text=f"one {n}", links=("/2", "/gone"), ms=50)
        web.pages[f"{base}/2"] = Page(text="the same everywhere")
        web.pages[f"{base}/3"] = Page(text=f"three {n}", links=(f"{other}/1",))
        web.pages[f"{base}/old"] = Page(status=301, location=f"{base}/new")
        web.pages[f"{base}/new"] = Page(text=f"new {n}")
        web.pages[f"{base}/sitemap.xml"] = Page(sitemap=SITEMAP)
        web.pages[f"{base}/listed.xml"] = web.pages[f"{base}/all.xml"] = Page(sitemap=LISTED)
        web.pages[f"{base}/listed"] = Page(text=f"listed {n}")
        web.pages[f"{base}/from-a"] = Page(text=f"from a {n}")
        web.pages[f"{base}/busy"] = Page(status=503, retry_after="7")
    web.script = _busy_once(web)
    return web


def _busy_once(web: Web) -> Script:
    """`/busy` has time for us when it is asked again."""
    asked: set[str] = set()

    def script(lease: Lease, _now_ms: int) -> Answer | None:
        again = lease.requested in asked
        asked.add(lease.requested)
        return Page(text=f"busy {lease.requested}") if again and lease.requested.endswith("/busy") else None

    return script


def crawl_small(folder: Path) -> None:
    """Crawl it, with a restart in the middle, an input that can't be read, and a block at the end."""
    with Driver(
        folder, partitions=PARTITIONS, web=small_web(), settings=SETTINGS, archive=True, leaves_out=True
    ) as crawl:
        crawl.seed(*(f"http://{host}/" for host in HOSTS))
        crawl.run(until_ms=crawl.clock.at_ms + 9_000)
        crawl.restart()
        crawl.control(b"no wish", 0)
        crawl.run(until_ms=crawl.clock.at_ms + 400_000)
        crawl.control(
            b'{"cmd":"block","target":{"host":"c.example"},"actor":"ops"}',
            crawl.partition_of("http://c.example:80"),
        )
        crawl.run(until_ms=crawl.clock.at_ms + 60_000)


def silent(_: Advance) -> None:
    """Tells nobody."""


def failed(report: Report) -> dict[str, tuple[str, ...]]:
    """What does not hold, by check, in words."""
    return {
        c.name: tuple(f"{p.where}: {p.what}" for p in c.problems) for c in report.checks if c.problems_count
    }


def found_wrong(
    folder: Path, *, deep: bool = False, skip: tuple[str, ...] = ()
) -> dict[str, tuple[str, ...]]:
    """What `verify` finds, in this process."""
    return failed(verify(folder, deep, silent, skip=skip, processes=1))
