"""Machines that are wrong about what a URL is, and the check that must find it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from frontlog.avro.enums import Reason, State
from frontlog.processors import canonical, merging, policy, tallies, traps, url_rules, weighing
from frontlog.processors.settings import Canonical, Learning, Scope, Settings
from support.driver import Driver
from support.faults import always, fault
from support.faults_machines import QUICK, A
from support.web import Page, Web

Patch = pytest.MonkeyPatch
RULE = b'{"cmd":"rule_apply","target":{"origin":"http://a.example:80"},"rule":"ignored_params","value":"sid","actor":"ops"}'
SESSIONS = 6


def sessions() -> Web:
    """Pages that are linked with session ids, and answer alike with and without."""
    web = Web()
    for base in ("", "p"):
        for n in range(SESSIONS):
            web.pages[f"{A}/{base}{n}?sid={n}"] = Page(text=f"page {base}{n}")
            web.pages[f"{A}/{base}{n}"] = Page(text=f"page {base}{n}")
    web.pages[f"{A}/"] = Page(text="home", links=tuple(f"{A}/{n}?sid={n}" for n in range(SESSIONS)))
    web.pages[f"{A}/more"] = Page(text="more", links=tuple(f"{A}/p{n}?sid={n}" for n in range(SESSIONS)))
    return web


def crawl_with_rule(folder: Path, then: Callable[[Driver], None] | None = None, **canonical: Any) -> None:
    """A crawl in whose midst an origin gets a rule; `then`: what else is done in the end."""
    settings = Settings(
        scope=Scope(mode="any"), politeness=QUICK.politeness, canonical=Canonical(**canonical)
    )
    with Driver(folder, partitions=1, web=sessions(), settings=settings) as crawl:
        crawl.seed(f"{A}/")
        crawl.run(until_ms=crawl.clock.at_ms + 4_500)
        crawl.control(RULE)
        crawl.run(until_ms=crawl.clock.at_ms + 2_000)
        crawl.seed(f"{A}/more")
        crawl.run(until_ms=crawl.clock.at_ms + 60_000)
        if then is not None:
            then(crawl)


def _as_found(_rules: url_rules.OriginRules, found: canonical.Identity) -> canonical.Identity:
    return found


@fault("identities", forged=False)
def a_rule_is_forgotten(folder: Path, patch: Patch) -> None:
    """A rule of identity is logged and not heeded."""
    patch.setattr(merging, "merge_of", always(None))
    patch.setattr(merging, "under", _as_found)
    crawl_with_rule(folder)


@fault("signals", forged=False)
def no_signal(folder: Path, patch: Patch) -> None:
    """A rule takes much at once, and nobody is told."""
    patch.setattr(tallies, "signals", always([]))
    crawl_with_rule(folder, signal_urls=3)


def _with_traps() -> Web:
    """A site that leads into a calendar, and has more pages than its budget."""
    web = Web()
    links = (*(f"{A}/{n}" for n in range(4)), f"{A}/2099/01/01")
    web.pages[f"{A}/"] = Page(text="home", links=links)
    web.pages |= {url: Page(text=url) for url in links}
    return web


def _crawl_traps(folder: Path, **limits: Any) -> None:
    settings = Settings(scope=Scope(mode="any", **limits), politeness=QUICK.politeness)
    with Driver(folder, partitions=1, web=_with_traps(), settings=settings) as crawl:
        crawl.seed(f"{A}/")
        crawl.run(until_ms=crawl.clock.at_ms + 60_000)


@fault("traps", forged=False)
def no_traps(folder: Path, patch: Patch) -> None:
    """Endless URLs are taken for any others."""
    patch.setattr(traps, "judge", always(None))
    _crawl_traps(folder)


@fault("traps", forged=False)
def everything_is_a_trap(folder: Path, patch: Patch) -> None:
    """Pages are refused as traps that are none."""
    patch.setattr(traps, "of_form", always(traps.Trap(Reason.TRAP_DEPTH, "9 segments")))
    _crawl_traps(folder)


@fault("budgets", forged=False)
def no_budget(folder: Path, patch: Patch) -> None:
    """Pages are fetched beyond the budget of their host."""
    patch.setattr(policy, "over_budget", always(None))
    _crawl_traps(folder, pages_per_host_max=2)


@fault("budgets", forged=False)
def no_site_budget(folder: Path, patch: Patch) -> None:
    """Pages are fetched beyond the budget of their site."""
    patch.setattr(policy, "over_budget", always(None))
    _crawl_traps(folder, pages_per_site_max=2)


def crawl_learning(folder: Path) -> None:
    """A site that redirects to the form with a slash, always."""
    web = Web()
    names = tuple(f"{A}/{n}" for n in range(4))
    web.pages[f"{A}/"] = Page(text="home", links=names)
    web.pages |= {url: Page(status=301, location=f"{url}/") for url in names}
    web.pages |= {f"{url}/": Page(text=url) for url in names}
    rules = Learning(confidence_min=0.8)
    settings = Settings(scope=Scope(mode="any"), politeness=QUICK.politeness, learning=rules)
    with Driver(folder, partitions=1, web=web, settings=settings) as crawl:
        crawl.seed(f"{A}/")
        crawl.run(until_ms=crawl.clock.at_ms + 60_000)


def crawl_unlearning(folder: Path) -> set[State | None]:
    """The same site, which then stops doing so: what was merged is worth fetching after all. The states that it comes to."""
    web = Web()
    redirected = tuple(f"{A}/{n}" for n in range(4))
    kept = tuple(f"{A}/w{n}" for n in range(250))
    web.pages[f"{A}/"] = Page(text="home", links=(*redirected, f"{A}/later.html"))
    web.pages[f"{A}/later.html"] = Page(text="later", links=kept)
    web.pages |= {url: Page(status=301, location=f"{url}/") for url in redirected}
    web.pages |= {f"{url}/": Page(text=url) for url in redirected}
    web.pages |= {url: Page(text=url) for url in kept} | {f"{url}/": Page(status=404) for url in kept}
    settings = Settings(
        scope=Scope(mode="any"), politeness=QUICK.politeness, learning=Learning(confidence_min=0.8)
    )
    with Driver(folder, partitions=1, web=web, settings=settings) as crawl:
        crawl.seed(f"{A}/")
        crawl.run(until_ms=crawl.clock.at_ms + 600_000)
        return {crawl.state(url) for url in kept}


@fault("learned", forged=False)
def learned_of_nothing(folder: Path, patch: Patch) -> None:
    """Rules are learned of less evidence than they state."""
    patch.setattr(weighing, "confidence", always(1.0))
    crawl_learning(folder)
