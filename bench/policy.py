"""What policy costs: verdicts among many rules, the links of a page, traps, a sitemap, a block.

    python -m bench.policy

Processor time of one process on one core. Memory is the largest resident size of a process of its own for each file. The
figures of docs/robots.md and docs/sitemaps.md come from here.
"""

import gzip
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from functools import partial
from itertools import chain

from frontlog.avro.codec import decode, encode
from frontlog.avro.enums import ScopeKind, SourceKind, Topic
from frontlog.avro.events import Control
from frontlog.fetch.parse_job import NAMED, Job, parse
from frontlog.processors import machine, traps
from frontlog.processors.canonical import identify
from frontlog.processors.context import Cause, Context
from frontlog.processors.resolve import Base
from frontlog.processors.robots_txt import RobotsTxt, verdict
from frontlog.processors.robots_txt import parse as parse_robots
from frontlog.processors.settings import Traps
from frontlog.processors.url_rules import PROFILES, OriginRules
from frontlog.state import keys
from frontlog.state.catalogue import STORE_TABLES
from frontlog.state.memory_store import MemoryStore
from frontlog.state.rows import OriginRow, SiteRow
from frontlog.state.tables import Tables

RULES = 10_000
ENTRIES = 50_000
ORIGINS = (1, 2_000, 200_000)
"""The first one is to have everything imported and looked up once."""
ROUNDS = 5
FILE = "http://a.example/sitemap.xml"
NOW_MS = 1_800_000_000_000
SHAPES: dict[str, tuple[str, ...]] = {
    "prefixes": ("Disallow: /dir{0}/sub{0}/",),
    "heads": ("Disallow: /dir{}/*/x",),
    "queries": ("Disallow: /*?p{}=",),
    "mixed": ("Disallow: /d{}/", "Allow: /d{}/*.html$", "Disallow: /*&s{}=*&x", "Disallow: /f{}$"),
    "one beginning, the URL's": ("Disallow: /products/*/{}",),
    "two wildcards each": ("Disallow: /*a*b*{}",),
    "two numbers each": ("Disallow: /*red*{1}*size={2}",),
}
LINKS = (
    "/wiki/Some_Page_{}", "https://www.example.org/articles/2026/11/a-slug-of-a-page-{}.html", "item.html?id={}&lang=en",
    "/search?q=lamp&page={}", "#part{}", "https://other.example:18080/x/{}", "/caf\u00e9/{}", "../up/{}/",
    "/esc/%E3%83%84{}", "/news/{}?utm_source=home&utm_medium=web",
)  # fmt: skip
"""Spellings of links, in the mix that pages have; each once for every number."""
FILES = {"7 MB": (20, False), "7 MB, gzip": (20, True), "48 MB": (830, False), "48 MB, gzip": (830, True)}


def best_s(work: Callable[[], object]) -> float:
    """Processor time of the quickest of a few rounds, s."""
    found: list[float] = []
    for _ in range(ROUNDS):
        began = time.process_time()
        work()
        found.append(time.process_time() - began)
    return min(found)


def rules(lines: tuple[str, ...]) -> RobotsTxt:
    """A file of RULES rules; the second number of a line goes to 100 while the first does."""
    numbered = (lines[n % len(lines)].format(n, n // 100, n % 100) for n in range(RULES))
    text = "\n".join(["User-agent: *", *numbered])
    return parse_robots(text.encode())


def verdicts() -> Iterable[str]:
    """What a verdict costs, for each shape of file."""
    urls = [f"https://a.example/products/lamps/large-red-{n}.html?color=red&size={n}" for n in range(300)]
    for name, lines in SHAPES.items():
        robots = rules(lines)
        took_s = best_s(partial(judge_all, robots, urls))
        yield f"a verdict among {RULES:,} rules, {name}: {took_s / len(urls) * 1e6:.1f} us"


def judge_all(robots: RobotsTxt, urls: list[str]) -> None:
    """A verdict for each URL."""
    for url in urls:
        verdict(robots, "bot", url)


def each_us(work: Callable[[], object], count: int) -> float:
    """Processor time of one of the `count` things that a call does, us."""
    return best_s(work) / count * 1e6


def identities() -> Iterable[str]:
    """What the links of a page cost: joined with its base, and their identities under both profiles."""
    raws = [form.format(n) for n in range(2_000) for form in LINKS]
    base = Base("https://www.example.org/dir/page.html?x=1")
    hrefs = [href for href in base.join_all(raws) if href is not None]
    yield f"80 links joined with their page: {80 * each_us(lambda: base.join_all(raws), len(raws)):.0f} us"
    for name, wanted in PROFILES.items():
        took_us = each_us(partial(identify_all, hrefs, wanted), len(hrefs))
        yield f"80 identities under {name}: {80 * took_us:.0f} us"


def identify_all(hrefs: list[str], wanted: OriginRules) -> None:
    """The identity of each href."""
    for href in hrefs:
        identify(href, wanted)


def trap_costs() -> Iterable[str]:
    """What it costs to see that a new URL is no trap, and to find its pattern."""
    for name, form in (("a path", LINKS[1]), ("a query", LINKS[3])):
        urls = [Base("https://www.example.org/").join(form.format(n)) or "" for n in range(10_000)]
        judged_us = each_us(partial(judge_traps, urls), len(urls))
        pattern_us = each_us(partial(patterns, urls), len(urls))
        yield f"a new URL with {name} is no trap: {judged_us:.1f} us; its pattern, once counted: {pattern_us:.1f} us"


def judge_traps(urls: list[str]) -> None:
    """Whether each URL is a trap, with an origin that has few."""
    tables = Tables(MemoryStore(STORE_TABLES).begin(write=True))
    for url in urls:
        traps.judge(tables, Traps(), None, None, url, SourceKind.PAGE, NOW_MS)


def patterns(urls: list[str]) -> None:
    """The pattern of each URL, made anew."""
    for url in urls:
        traps.pattern_of.__wrapped__(url)


def urlset(padding: int) -> bytes:
    """A sitemap of ENTRIES entries."""
    entry = "<url><loc>http://a.example/path/{0}/{1}</loc><lastmod>2026-09-{2:02}</lastmod><priority>0.5</priority></url>"
    body = "".join(entry.format(n, "x" * padding, n % 28 + 1) for n in range(ENTRIES))
    return f'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{body}</urlset>'.encode()


def read_one(name: str) -> str:
    """Read a file as a worker does, in this process."""
    padding, packed = FILES[name]
    body = urlset(padding)
    body = gzip.compress(body, 1) if packed else body
    job = Job("1-1-1 x", FILE, FILE, "text/xml", "frontlog", 0, NOW_MS, 4, body, listing=NAMED, via=(FILE,))
    began = time.process_time()
    found = parse(job)
    took_s = time.process_time() - began
    size = sum(len(one.value) for one in found.discoveries)
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1_024
    return f"{took_s:.1f} s, {len(found.discoveries)} events of {size / 1e6:.0f} MB, at most {peak_mb:.0f} MB of memory"


def sitemaps() -> Iterable[str]:
    """What reading a sitemap costs, each in a process of its own."""
    for name in FILES:
        done = subprocess.run(
            [sys.executable, "-m", "bench.policy", "--read", name], capture_output=True, text=True, check=True
        )
        yield f"a sitemap of {ENTRIES:,} URLs, {name}: {done.stdout.strip()}"


def block(origins: int) -> str:
    """What the block of a site costs, with many origins of it in the tables."""
    tables = Tables(MemoryStore(STORE_TABLES).begin(write=True))
    tables.sites.put(b"many.example", SiteRow())
    for n in range(origins):
        key = f"http://h{n}.many.example:80"
        tables.origins.put(keys.origin_id(key), OriginRow(origin_key=key))
    ctx = Context(now_ms=NOW_MS, seq=0, owner_token=1, owner="bench", partition=0, partitions=1)
    ctx.cause = Cause(Topic.CONTROL, 0, 0)
    wish = Control(cmd="block", target_kind=ScopeKind.SITE, target="many.example", actor="bench")
    began, decisions = time.process_time(), 0
    for step in machine.decide(tables, wish, ctx):
        for event in step.decisions:
            machine.apply(tables, decode(encode(event)))
            decisions += 1
    took_ms = (time.process_time() - began) * 1_000
    return f"the block of a site of {origins:,} origins: {took_ms:.1f} ms, {decisions} decisions"


def main() -> None:
    """Run it all; `--read NAME` reads one file in this process."""
    if sys.argv[1:2] == ["--read"]:
        print(read_one(sys.argv[2]))
        return
    costs = chain(verdicts(), identities(), trap_costs(), sitemaps(), (block(count) for count in ORIGINS))
    for line in costs:
        print(line, flush=True)


if __name__ == "__main__":
    main()
