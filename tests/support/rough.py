"""A rough web and a rough life, by a seed: what a crawl meets in a year, in a few thousand steps.

Servers are slow, fail, forbid, redirect, ask for rest in every form; robots.txt changes, disappears and moves; hosts share
addresses; operators pause, block and slow; the crawler is killed and comes back; inputs come twice, late, misrouted and
broken. Everything is a function of the seed.
"""

import random
from email.utils import formatdate

from frontlog.avro.enums import FetchKind, Reason, Topic
from frontlog.avro.events import Discovery
from frontlog.processors.leased import Lease
from frontlog.processors.settings import Politeness, Scope, Settings
from support.driver import Driver
from support.web import Answer, Page, Robots, Web

HOSTS = ("a.example", "www.a.example", "b.example", "c.example", "d.example", "e.example")
PAGES = 12
SETTINGS = Settings(scope=Scope(mode="site"), politeness=Politeness(gap_ms_min=200, gap_factor=2.0))
_ROBOTS = (
    b"", b"User-agent: *\nDisallow: /3\n", b"User-agent: *\nCrawl-delay: 2\nDisallow: /private\nAllow: /private/4$\n",
    b"\xef\xbb\xbfUser-agent: frontlog/2\nJunk\nDisallow: /*5\n", b"<!doctype html><p>no", b"User-agent: *\nDisallow: /\n",
    b"User-agent: other\nDisallow: /\n\nUser-agent: frontlog\nDisallow: /1\nCrawl-delay: 1.5\n",
    b"Sitemap: /sitemap.xml\nSitemap: http://a.example/3\nSitemap: http://elsewhere.example/all.txt\n",
    b"User-agent: *\nDisallow: /2\nSitemap: http://d.example/index.xml",
)  # fmt: skip
_FAILURES = (
    Reason.TIMEOUT, Reason.CONNECTION_REFUSED, Reason.CONNECTION_RESET, Reason.TLS_FAILED, Reason.OVERSIZE, Reason.BAD_TYPE,
    Reason.TRUNCATED, Reason.PROTOCOL_ERROR, Reason.RELEASED, Reason.ADDRESS_CHANGED, Reason.WORKER_LOST,
)  # fmt: skip


class RoughWeb(Web):
    """Answers by chance."""

    def __init__(self, chance: random.Random, *, trouble: float) -> None:
        super().__init__()
        self.chance = chance
        self.trouble = trouble
        self.script = self._answer
        for host in HOSTS:  # two machines serve three names each, one name moves
            self.addresses[host] = f"198.51.100.{1 + HOSTS.index(host) % 2}"

    def address_of(self, host: str) -> str:
        if self.chance.random() < self.trouble / 4:
            return ""
        if host == "e.example" and self.chance.random() < 0.5:
            return "198.51.100.9"
        return super().address_of(host)

    def _answer(self, lease: Lease, now_ms: int) -> Answer:
        ms = self.chance.choice((5, 20, 80, 700))
        if lease.kind is FetchKind.ROBOTS:
            return self._robots(ms)
        if self.chance.random() < self.trouble:
            return self._trouble(lease, now_ms, ms)
        if lease.sitemap:
            return self._sitemap(now_ms, ms)
        return self._page(ms)

    def _robots(self, ms: int) -> Robots:
        draw = self.chance.random()
        if draw < self.trouble / 2:
            return Robots(status=self.chance.choice((404, 403, 429, 500, 503)), ms=ms)
        if draw < self.trouble:
            target = self.chance.choice(HOSTS)
            return Robots(status=301, location=f"http://{target}/robots.txt", ms=ms)
        age = self.chance.choice(("max-age=300", "max-age=86400", ""))
        return Robots(self.chance.choice(_ROBOTS), cache_control=age, ms=ms)

    def _trouble(self, lease: Lease, now_ms: int, ms: int) -> Page:
        draw = self.chance.randrange(8)
        if draw == 0:
            return Page(reason=self.chance.choice(_FAILURES), ms=ms)
        if draw == 1:
            asked = ("", "3", "0", "-5", "soon", "99999999999", formatdate(now_ms / 1_000 + 5, usegmt=True))
            return Page(status=self.chance.choice((429, 503)), retry_after=self.chance.choice(asked), ms=ms)
        if draw == 2:
            target = f"http://{self.chance.choice(HOSTS)}/{self.chance.randrange(PAGES)}"
            slash = lease.requested.replace("://", "://", 1) + "#x"
            return Page(status=301, location=self.chance.choice((target, slash, "/0", "mailto:x", "")), ms=ms)
        if draw == 3:
            return Page(status=self.chance.choice((404, 410)), ms=ms)
        return Page(status=self.chance.choice((500, 403, 401, 204, 304, 418)), ms=ms)

    def _sitemap(self, now_ms: int, ms: int) -> Page:
        """A sitemap, index, list or feed; cut, broken, or a page of HTML in its place."""
        hosts = [self.chance.choice(HOSTS) for _ in range(5)]
        urls = [f"http://{host}/{self.chance.randrange(PAGES)}" for host in hosts]
        date = formatdate(now_ms / 1_000 - self.chance.choice((-90_000, 0, 9e6, 9e7)), usegmt=True)
        listed = "".join(f"<url><loc>{url}</loc><lastmod>{date}</lastmod></url>" for url in urls)
        named = "".join(
            f"<sitemap><loc>http://{host}/{n}.xml</loc></sitemap>" for n, host in enumerate(hosts)
        )
        items = "".join(f"<item><link>{url}?a=1&b=2</link><pubDate>{date}</pubDate></item>" for url in urls)
        text = self.chance.choice((
            f"<urlset>{listed}</urlset>", f"<sitemapindex>{named}</sitemapindex>", f"<rss><channel>{items}</channel></rss>",
            "\n".join(urls), "<!doctype html><p>no", f"<urlset>{listed}",
        ))  # fmt: skip
        return Page(sitemap=text.encode(), ms=ms)

    def _page(self, ms: int) -> Page:
        links = [f"http://{self.chance.choice(HOSTS)}/{self.chance.randrange(PAGES)}" for _ in range(4)]
        links += [
            f"/private/{self.chance.randrange(6)}",
            "http://[broken",
            "#top",
            "https://b.example/1?b=2&a=1",
        ]
        text = f"text {self.chance.randrange(9)}"
        return Page(text=text, links=tuple(links), ms=ms, etag=self.chance.choice(("", '"1"')), title="t")


def wish(chance: random.Random) -> bytes:
    """An operator's wish, followable or not."""
    host = chance.choice(HOSTS)
    target = chance.choice(
        (f'"host":"{host}"', f'"site":"{host}"', f'"origin":"http://{host}:80"', '"partition":"1"')
    )
    cmd = chance.choice(
        ("pause", "resume", "block", "unblock", "slow", "resume", "unblock", "recrawl", "seed")
    )
    urls = f'["http://{host}/{chance.randrange(PAGES)}","no url"]'
    gap = chance.choice((0, 500, 3_000))
    plain = f'{{"cmd":"{cmd}","target":{{{target}}},"gap_ms":{gap},"urls":{urls if cmd in ("recrawl", "seed") else "[]"},'
    return (plain + '"actor":"ops","reason":"a test"}').encode()


def live(crawl: Driver, chance: random.Random, *, rounds: int) -> None:
    """Crawl through it. The last words of operators lift every block and pause."""
    crawl.seed("http://a.example/", "http://b.example/", "https://b.example/", "http://e.example/")
    web = crawl.web
    assert isinstance(web, RoughWeb)
    for _ in range(rounds):
        crawl.run(wanted=chance.choice((1, 3, 100)), rounds_max=chance.randrange(1, 25))
        draw = chance.randrange(12)
        if draw == 0:
            crawl.restart()
        elif draw == 1:
            crawl.clock.advance(chance.choice((100, 5_000, 95_000, 3_600_000, 90_000_000)))
        elif draw in (2, 3):
            crawl.control(wish(chance), chance.randrange(4))
        elif draw == 4:
            crawl.pipe(Topic.CONTROL, b"\xc3\x01 no event", chance.randrange(4))
            crawl.pipe(Topic.FETCH_RESULTS, b"broken", chance.randrange(4))
        elif draw == 5 and crawl.last is not None:  # the same result once more, and once more much later
            crawl.pipe(Topic.FETCH_RESULTS, crawl.last[1], crawl.last[0])
        elif draw == 6:
            found = crawl.read(Topic.DISCOVERIES)
            again = chance.choice(found) if found else None
            if isinstance(again, Discovery):
                crawl.pipe(Topic.DISCOVERIES, again, chance.randrange(4))
        elif draw == 7:
            crawl.lose(chance.random())
        elif draw == 8:
            web.trouble = chance.choice((0.05, 0.3, 0.7))
    for cmd in ("resume", "unblock"):
        for partition in range(4):
            crawl.control(f'{{"cmd":"{cmd}"}}'.encode(), partition)
    web.trouble = 0.02
    crawl.run(rounds_max=60)
