"""Makes a synthetic web from a plan: a pure function of the seed and of the kinds of weather that are on."""

import html
from random import Random

from frontlog.processors.sites import partition_of, site_of
from simulation.plan import TOKEN, Plan, Weather
from simulation.web import (
    TRAP,
    Host,
    Kind,
    Link,
    Names,
    Page,
    RobotsAnswer,
    RobotsFile,
    Rule,
    Timeline,
    Trouble,
    Web,
    base_of,
    split_origin,
)

PATHS = (
    "/p1", "/P1", "/p2", "/a/b", "/a%2Fb", "/q?id=7", "/q?id=8", "/q?a=1&b=2", "/q?b=2&a=1", "/q?", "/d", "/d/",
    "/x~y", "/x~y/",
    "/private/1", "/private/open/2", "/open/3", "/open/3.bin", "/4.bin", "/a;b", "/a//b", "/utm?utm_source=x", "/utm",
)  # fmt: skip
"""Paths and queries that look alike and are not, and some that robots files speak of."""
PATTERNS = (
    "/private",
    "/private/open",
    "/p",
    "/P1",
    "/open/",
    "/*.bin$",
    "/*.bin",
    "/d$",
    "/q?id=7",
    "/a",
    "/x",
    "/",
    "/*?",
    "/private/open/",
)
FAILING = (Trouble.ERROR_500, Trouble.RESET, Trouble.CUT, Trouble.GARBAGE, Trouble.HANG, Trouble.STALL)
OUTAGES = (
    Trouble.REFUSED,
    Trouble.NO_ROUTE,
    Trouble.CONNECT_HANG,
    Trouble.TLS,
    Trouble.RESET,
    Trouble.HANG,
    Trouble.ERROR_500,
)
LIES = ("no_type", "plain_gzip", "short_length", "gzip", "gzip_cut", "bomb", "header", "spaces")
INTERNAL = (
    ("10.0.0.5",), ("127.0.0.1",), ("169.254.169.254",), ("::1",), ("::ffff:10.0.0.5",), ("20.1.2.3", "192.168.0.1"),
    ("0.0.0.0",),
    ("64:ff9b::a00:5",), ("fe80::1",),
)  # fmt: skip


def make_web(plan: Plan) -> Web:
    """The web of a plan."""
    return _Maker(plan).make()


class _Maker:
    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.web = Web(calm_s=plan.chaos_s)
        self.rng = plan.rng("web")
        self.urls: list[str] = []

    def on(self, kind: Weather, chance: float = 1.0) -> bool:
        return kind in self.plan.weather and self.rng.random() < chance

    def _while(self, rng: Random) -> float:
        """How long something stays as it is, seconds."""
        return self.plan.chaos_s * rng.uniform(0.05, 0.6)

    def make(self) -> Web:
        for number in range(self.plan.sites):
            for name in self._names(number):
                self._host(name)
        for host in self.web.hosts.values():
            self._paths(host)
        for host in self.web.hosts.values():
            self._fill(host)
        for host in self.web.hosts.values():
            self._robots(host)
            self._addresses(host)
            self._outages(host)
        self._seeds()
        return self.web

    # --- hosts and addresses ----------------------------------------------------------------------------------

    def _names(self, number: int) -> list[str]:
        site = f"s{number}-{self.rng.randrange(1_000)}.example"
        extra = [f"{label}.{site}" for label in ("www", "cdn") if self.rng.random() < 0.35]
        return [site, *extra]

    def _host(self, name: str) -> None:
        origins = [f"http://{name}:80"]
        origins += [f"https://{name}:443"] if self.rng.random() < 0.3 else []
        origins += [f"http://{name}:8080"] if self.rng.random() < 0.1 else []
        site = site_of(name)
        self.web.hosts[name] = Host(
            name, site, partition_of(site, self.plan.partitions), tuple(origins), Timeline(Names()),
            connect_ms=self.rng.randint(1, 40), keeps_old_address=self.rng.random() < 0.5,
        )  # fmt: skip

    def _addresses(self, host: Host) -> None:
        rng = self.plan.rng(f"addresses {host.name}")
        ttl_ms = rng.choice((30_000, 60_000, 300_000))
        host.names = Timeline(Names((self._address(rng),), ttl_ms=ttl_ms))
        if self.on(Weather.INTERNAL, 0.3):
            host.names = Timeline(Names(rng.choice(INTERNAL), ttl_ms=ttl_ms))
            return
        at = 0.0
        while self.on(Weather.ADDRESSES, 0.6) and (at := at + self._while(rng)) < self.web.calm_s:
            host.names.then(at, Names((self._address(rng),), ttl_ms=ttl_ms))
        if self.on(Weather.DNS, 0.5):
            self._dns(host, rng)

    def _dns(self, host: Host, rng: Random) -> None:
        """Look-ups that fail for a while, or for good."""
        healthy = host.names.last()
        error = Names(error=rng.choice(("not_found", "timeout", "temporary", "refused")))
        if rng.random() < 0.2 and error.error != "refused":
            host.names = Timeline(error)
            return
        at = rng.uniform(0, self.web.calm_s * 0.7)
        if rng.random() < 0.5:
            host.names, at = Timeline(error), 0.0
        else:
            host.names.then(at, error)
        host.names.then(min(self.web.calm_s, at + self._while(rng)), healthy)

    def _address(self, rng: Random) -> str:
        number = rng.randint(1, 3) if Weather.SHARED in self.plan.weather else rng.randint(4, 60_000)
        return f"2600:1f00::{number:x}" if rng.random() < 0.2 else f"20.1.{number >> 8}.{number & 255}"

    def _outages(self, host: Host) -> None:
        rng, at = self.plan.rng(f"outages {host.name}"), 0.0
        kinds = [*OUTAGES] if Weather.FAILING in self.plan.weather else []
        kinds += [Trouble.LIMIT_429, Trouble.LIMIT_503] * 3 if Weather.LIMITS in self.plan.weather else []
        while kinds and rng.random() < 0.5 and (at := at + self._while(rng)) < self.web.calm_s:
            host.trouble.then(at, rng.choice(kinds))
            at = min(at + self._while(rng), self.web.calm_s)
            host.trouble.then(at, None)

    # --- pages ------------------------------------------------------------------------------------------------

    def _paths(self, host: Host) -> None:
        """Which URLs there are; what they are comes when all are known."""
        for origin in host.origins:
            base = base_of(origin)
            chosen = self.rng.sample(PATHS, min(self.plan.pages, len(PATHS)))
            chosen += [f"{TRAP}0"] if self.on(Weather.TRAPS, 0.4) else []
            self.urls += [f"{base}/", *(base + path for path in chosen)]

    def _fill(self, host: Host) -> None:
        for origin in host.origins:
            base = base_of(origin)
            own = [url for url in self.urls if url.startswith(f"{base}/")]
            for url in own:
                page = self._page(url, url[len(base) :], own)
                for spelling in (url, url.replace("~", "%7E"), url.removesuffix("?")):
                    host.pages.setdefault(spelling, page)

    def _page(self, url: str, target: str, own: list[str]) -> Page:
        rng = self.rng
        slow = rng.randint(1_200, 3_500) if self.on(Weather.SLOW, 0.3) else rng.randint(5, 80)
        if target == f"{TRAP}0":
            return Page(Kind.PAGE, (self._link(url, url.replace(f"{TRAP}0", f"{TRAP}1")),), f"trap of {url}")
        if target != "/" and self.on(Weather.REDIRECTS, 0.35):
            return self._redirect(url, own)
        if target != "/" and rng.random() < 0.12:
            return self._gone()
        troubles = (
            tuple(rng.choice(FAILING) for _ in range(rng.randint(1, 3)))
            if self.on(Weather.FAILING, 0.3)
            else ()
        )
        if self.on(Weather.LIMITS, 0.25):
            troubles = tuple(
                rng.choice((Trouble.LIMIT_429, Trouble.LIMIT_503)) for _ in range(rng.randint(1, 3))
            )
        if target != "/" and self.on(Weather.LYING, 0.15):
            return Page(
                rng.choice((Kind.WRONG_TYPE, Kind.OVERSIZE)), lie=rng.choice(LIES[:2]), response_ms=slow
            )
        few = self.plan.settings().attempts.attempts_max <= 6
        if target != "/" and few and self.on(Weather.LIMITS, 0.1):
            return Page(Kind.SICK, troubles=(rng.choice((Trouble.LIMIT_429, Trouble.LIMIT_503)),))
        if target != "/" and self.on(Weather.FAILING, 0.08):
            return Page(Kind.SICK, troubles=(rng.choice(FAILING),), response_ms=slow)
        return Page(
            Kind.PAGE, self._links(url, target, own), text=self._text(url), troubles=troubles, response_ms=slow,
            lie=rng.choice(LIES) if self.on(Weather.LYING, 0.4) else "", etag=rng.random() < 0.8,
            changes_every_s=rng.choice((0.0, 0.0, 20.0)),
        )  # fmt: skip

    def _gone(self) -> Page:
        kind = self.rng.choice((Kind.MISSING, Kind.GONE, Kind.FORBIDDEN))
        return Page(
            kind, status={Kind.MISSING: 404, Kind.GONE: 410}.get(kind, self.rng.choice((401, 403, 451)))
        )

    def _text(self, url: str) -> str:
        """Most texts are their own; some are those of other pages."""
        return f"shared text {self.rng.randint(1, 2)}" if self.rng.random() < 0.2 else f"text of {url}"

    def _redirect(self, url: str, own: list[str]) -> Page:
        rng = self.rng
        status = rng.choice((301, 302, 303, 307, 308))
        if rng.random() < 0.1:
            return Page(
                Kind.BAD_REDIRECT,
                status=status,
                location=rng.choice(("", "http://", "mailto:a@b", "http://[x")),
            )
        targets = own if rng.random() < 0.5 else self.urls
        link = self._link(url, rng.choice(targets))
        return Page(Kind.REDIRECT, (link,), status=status, location=link.raw)

    def _links(self, url: str, target: str, own: list[str]) -> tuple[Link, ...]:
        chosen = [u for u in own if target == "/" and self.rng.random() < 0.8]
        chosen += self.rng.choices(self.urls, k=self.rng.randint(0, 4))
        return tuple(self._link(url, to) for to in chosen if to != url)

    def _link(self, source: str, to: str) -> Link:
        """One of the ways to spell a link."""
        rng = self.rng
        requested = to.replace("~", "%7E") if rng.random() < 0.5 else to
        identity = to.removesuffix("?")
        scheme, _, rest = requested.partition("://")
        authority, _, path = rest.partition("/")
        forms = [requested, f"{requested}#top", f"{scheme.upper()}://{authority.upper()}/{path}"]
        if source.startswith(f"{scheme}://{authority}/"):
            forms += [f"/{path}"] * 3 if not path.startswith("/") else []
        elif source.startswith(f"{scheme}://"):
            forms.append(f"//{authority}/{path}")
        self.web.published.add(requested)
        return Link(rng.choice(forms), requested, identity)

    def _seeds(self) -> None:
        bases = [base_of(host.origins[0]) for host in self.web.hosts.values()]
        count = self.rng.randint(1, len(bases))
        self.web.seeds = [f"{base}/" for base in self.rng.sample(bases, count)]
        self.web.published.update(self.web.seeds)

    # --- robots -----------------------------------------------------------------------------------------------

    def _robots(self, host: Host) -> None:
        for origin in host.origins:
            rng = self.plan.rng(f"robots {origin}")
            timeline = Timeline(self._answer(rng, host, origin))
            at = 0.0
            while Weather.ROBOTS in self.plan.weather and (at := at + self._while(rng)) < self.web.calm_s:
                timeline.then(
                    at, self._trouble(rng) if rng.random() < 0.4 else self._answer(rng, host, origin)
                )
            if not timeline.last().healthy and rng.random() < 0.9:
                timeline.then(self.web.calm_s, self._answer(rng, host, origin))
            host.robots[origin] = timeline

    def _answer(self, rng: Random, host: Host, origin: str) -> RobotsAnswer:
        cache = rng.choice(
            ("", "max-age=60", "max-age=400", "no-cache", 'public, max-age="300"', "max-age=soon")
        )
        if Weather.ROBOTS_REDIRECT in self.plan.weather and rng.random() < 0.5:
            return self._elsewhere(rng, host, origin, cache)
        if rng.random() < 0.25:
            return RobotsAnswer(status=rng.choice((404, 403, 410, 401)), cache_control=cache)
        return RobotsAnswer(make_robots(rng, delay=Weather.ROBOTS in self.plan.weather), cache_control=cache)

    def _trouble(self, rng: Random) -> RobotsAnswer:
        if rng.random() < 0.2:
            return RobotsAnswer(make_robots(rng, delay=False), lie="cut")
        return RobotsAnswer(trouble=rng.choice((*FAILING, *CONNECTS, Trouble.LIMIT_429, Trouble.LIMIT_503)))

    def _elsewhere(self, rng: Random, host: Host, origin: str, cache: str) -> RobotsAnswer:
        """A robots file behind one to six redirects; some go round in a circle."""
        end: RobotsAnswer = (
            RobotsAnswer(make_robots(rng, delay=True), cache_control=cache)
            if rng.random() < 0.8
            else RobotsAnswer(status=404)
        )
        hops, name = rng.choice((1, 1, 1, 2, 2, 3, 5, 6)), host.name
        where = ""
        for hop in range(hops):
            other = host if rng.random() < 0.3 else self.web.hosts[rng.choice(sorted(self.web.hosts))]
            path = f"/robots-{name}-{split_origin(origin)[0]}-{rng.randrange(10_000)}.txt"
            other.alternates[path] = end
            where = f"{base_of(other.origins[0])}{path}"
            end = RobotsAnswer(status=301, location=where)
            if hop == 0 and rng.random() < 0.1:
                other.alternates[path] = RobotsAnswer(status=302, location=path)
        return RobotsAnswer(status=rng.choice((301, 302, 307)), location=where)


CONNECTS = (Trouble.REFUSED, Trouble.NO_ROUTE, Trouble.CONNECT_HANG, Trouble.TLS)


def make_robots(rng: Random, *, delay: bool) -> RobotsFile:
    """A file whose meaning is known: our group, or `*` where there is none for us, among other things."""
    rules = tuple(Rule(rng.random() < 0.35, rng.choice(PATTERNS)) for _ in range(rng.randint(0, 4)))
    rules = tuple(rule for rule in rules if rule.allow or rule.pattern != "/" or rng.random() < 0.1)
    delay_ms = rng.choice((0, 0, 1_000, 3_000, 5_000)) if delay else 0
    lines = ["# for robots", "User-agent: otherbot", "Disallow: /", ""]
    named = rng.random() < 0.5
    if named:
        lines += ["User-agent: *", "Disallow: /", ""]
    lines.append(
        f"User-agent: {rng.choice((TOKEN, TOKEN.upper(), TOKEN + '/2.0'))}" if named else "user-agent : *"
    )
    lines += [f"{'Allow' if rule.allow else 'Disallow'}: {rule.pattern}" for rule in rules]
    lines += [f"Crawl-delay: {delay_ms / 1_000:g}"] if delay_ms else []
    lines += ["Disallow:"] if not rules else []
    text = rng.choice(("\n", "\r\n", "\r")).join(lines)
    mark = b"\xef\xbb\xbf" if rng.random() < 0.2 else b""
    return RobotsFile(rules, mark + text.encode() + b"\n", delay_ms)


def html_of(page: Page, text: str) -> str:
    """A page as its server writes it."""
    said = html.escape(text)
    anchors = "".join(f'<a href="{html.escape(link.raw)}">to</a>\n' for link in page.links)
    return (
        f"<!doctype html><html><head><title>{said}</title></head><body><p>{said}</p>{anchors}</body></html>"
    )
