"""The seam between the command line and what it runs: one function a job, each imported when it is called.

Late imports keep `frontlog --help` and `frontlog check` quick (the archive, the log and the parser load no
sooner than they are needed), and tests replace a job here without touching what does it.
"""

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from frontlog.avro.events import Control
from frontlog.errors import ConfigError
from frontlog.replay.shapes import (
    Advance,
    Collision,
    Copied,
    Dropped,
    Explanation,
    Rebuilt,
    Record,
    Report,
    Rule,
    Status,
    Tally,
)
from frontlog.streams.options import Config
from frontlog.streams.stop import StopSignal
from frontlog.streams.summary import Finding, Progress, Summary

Check = Callable[[dict[str, object]], dict[str, object]]
"""A question as a JSON object in, its answer out; raises ConfigError (or ValueError) if it can't be read."""


def run_crawl(
    folder: Path,
    config: Config,
    seeds: Sequence[str],
    on_progress: Callable[[Progress], None],
    stop: StopSignal,
) -> Summary:
    """Crawl until nothing is left, or until told to stop."""
    from frontlog.fetch.memory import keep_house
    from frontlog.streams.crawl import run_crawl as job

    keep_house()
    return job(folder, config, seeds, on_progress=on_progress, stop=stop)


def status(folder: Path) -> Status:
    """How the crawl in a folder stands."""
    from frontlog.replay.status import status as job

    return job(folder)


def tail(
    folder: Path,
    topic: str,
    *,
    partition: int | None,
    start: int | None,
    origin: str,
    url: str,
    kind: str,
    limit: int,
    follow: bool,
) -> Iterator[Record]:
    """The records of a topic; `start` None: the newest `limit` ones (0: all)."""
    from frontlog.replay.tail import tail as job

    return job(
        folder,
        topic,
        partition=partition,
        start=start,
        origin=origin,
        url=url,
        kind=kind,
        limit=limit,
        follow=follow,
    )


def explain(folder: Path, url: str) -> Explanation:
    """The whole story of a URL, in order; not `known` if the crawl has no such URL."""
    from frontlog.replay.explain import explain as job

    return job(folder, url)


def collisions(folder: Path, rule: str, origin_key: str) -> tuple[Collision, ...]:
    """The identities that a rule merged; `rule` empty: those that rules of origins and profile merged."""
    from frontlog.replay.collisions import collisions as job

    return job(folder, rule, origin_key)


def rules(folder: Path, origin_key: str) -> tuple[Rule, ...]:
    """The rules of identity of origins."""
    from frontlog.replay.collisions import rules as job

    return job(folder, origin_key)


def dropped(folder: Path, rule: str, origin_key: str) -> Iterator[Dropped]:
    """The URLs that rules of traps and budgets refuse."""
    from frontlog.replay.dropped import dropped as job

    return job(folder, rule, origin_key)


def dropped_counts(folder: Path, rule: str, origin_key: str) -> tuple[Tally, ...]:
    """How many URLs rules of traps and budgets refuse, by origin."""
    from frontlog.replay.dropped import counted as job

    return job(folder, rule, origin_key)


def verify(folder: Path, deep: bool, on_progress: Callable[[Advance], None]) -> Report:
    """Hold the log of a crawl against every rule."""
    from frontlog.replay.verify import verify as job

    return job(folder, deep, on_progress)


def rebuild(folder: Path, new: Path, on_progress: Callable[[Advance], None]) -> Rebuilt:
    """Fold the log of a crawl into a new folder."""
    from frontlog.replay.rebuild import rebuild as job

    return job(folder, new, on_progress)


def checked(wish: Control) -> Control:
    """A wish with its target in canonical form, judged as a crawl will judge it. Raises ConfigError."""
    from frontlog.processors.control import BadControl, check

    try:
        return check(wish)
    except BadControl as error:
        raise ConfigError(str(error)) from error


def send(folder: Path | str, wish: Control) -> None:
    """Append a wish to the `control` topic of a crawl in a folder, running or not, or on Kafka."""
    if isinstance(folder, str):
        with _kafka():
            from frontlog.streams.kafka_control import send as on_kafka
            from frontlog.streams.kafka_places import parse
        on_kafka(parse(folder), wish)
        return
    from frontlog.streams.control import send as job

    job(folder, wish)


@contextmanager
def _kafka() -> Generator[None]:
    """Around the import of a job that needs the extra `kafka`."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"this needs the library {error.name}, which comes with the extra: pip install 'frontlog[kafka]'"
        ) from error


def topics_create(crawl: str, partitions: int, replication: int) -> list[str]:
    """Make the topics of a crawl on Kafka that are missing; their names."""
    with _kafka():
        from frontlog.streams.kafka_places import parse
        from frontlog.streams.kafka_topics import create as job

    return job(parse(crawl), partitions, replication=replication)


def register_schemas(crawl: str, url: str) -> dict[str, int]:
    """Register the schemas of a crawl's outputs at a schema registry; ids by subject."""
    with _kafka():
        from frontlog.streams.kafka_places import parse
        from frontlog.streams.schema_registry import register as job

    return job(url, parse(crawl))


def topics_check(crawl: str) -> tuple[dict[str, int], list[str]]:
    """The topics of a crawl on Kafka with their partitions, and what is wrong with them."""
    with _kafka():
        from frontlog.streams.kafka_places import parse
        from frontlog.streams.kafka_topics import check as job

    there, problems = job(parse(crawl))
    return {topic: state.partitions for topic, state in there.items()}, problems


def copy_to_kafka(
    folder: Path, crawl: str, replication: int, on_progress: Callable[[Advance], None]
) -> Copied:
    """Copy the crawl in a folder to Kafka."""
    with _kafka():
        from frontlog.replay.copy_kafka import to_kafka as job
        from frontlog.streams.kafka_places import parse

    return job(folder, parse(crawl), on_progress, replication=replication)


def copy_from_kafka(
    crawl: str, folder: Path, archives: Sequence[Path], on_progress: Callable[[Advance], None]
) -> Copied:
    """Copy a crawl on Kafka into a new folder, which notes where the archives lie."""
    with _kafka():
        from frontlog.replay.copy_kafka import from_kafka as job
        from frontlog.streams.kafka_places import parse

    return job(parse(crawl), folder, on_progress, archives=archives)


def doctor(crawl: str, folder: Path | None, dns: str) -> list[Finding]:
    """What is wrong with a crawl on Kafka, part by part."""
    with _kafka():
        from frontlog.streams.kafka_doctor import examine as job
        from frontlog.streams.kafka_places import parse

    return job(parse(crawl), folder=folder, dns=dns)


def run_worker(
    crawl: str,
    folder: Path,
    config: Config,
    *,
    told: Callable[[str], None],
    instance: str,
    standbys: int,
    web: tuple[str, int] | None,
    loglevel: str,
) -> None:
    """Be one of the workers of a crawl on Kafka until told to stop."""
    from frontlog.fetch.memory import keep_house

    with _kafka():
        from frontlog.streams.kafka_places import parse
        from frontlog.streams.worker import run_worker as job

    keep_house()
    job(
        parse(crawl), folder, config, told=told, instance=instance, standbys=standbys, web=web, loglevel=loglevel
    )  # fmt: skip


def checker(what: str, allow_addresses: Sequence[str] = ()) -> Check:
    """The function behind `frontlog check WHAT`, from the very code that a crawl uses."""
    if what == "url":
        from frontlog.processors.canonical import check_url

        return check_url
    if what == "robots":
        from frontlog.processors.robots_check import check_robots

        return check_robots
    if what == "links":
        from frontlog.processors.links import check_links

        return check_links
    if what == "sitemap":
        from frontlog.processors.sitemaps import check_sitemap

        return check_sitemap
    if what == "scope":
        import time

        from frontlog.processors.scope_check import check_scope

        return lambda question: check_scope(question, time.time_ns() // 1_000_000)
    if what == "meta":
        from frontlog.processors.robots_meta import check_meta

        return check_meta
    assert what == "address", what
    from frontlog.fetch.addresses import check_address, parse_networks

    networks = parse_networks(allow_addresses)

    def check(question: Mapping[str, object]) -> dict[str, object]:
        return check_address(question, networks)

    return check
