"""What a process needs to fetch, made from its configuration: the rules of every fetch, and the archive."""

from collections.abc import Callable
from pathlib import Path

from frontlog import __version__
from frontlog.fetch.addresses import parse_networks
from frontlog.fetch.archive import Archive
from frontlog.fetch.http_types import Limits
from frontlog.fetch.pipeline import Rules
from frontlog.fetch.warc import warcinfo_fields
from frontlog.streams.clock import Clock
from frontlog.streams.options import Config


def make_archive(folder: Path, config: Config, clock: Clock, *, crawl: str) -> Archive:
    """The archive in a folder of its own; `crawl` is what its files say they are part of."""
    options = config.options
    info = warcinfo_fields(
        software=f"frontlog/{__version__}", user_agent=config.user_agent, is_part_of=crawl,
        operator=options.identity.contact,
    )  # fmt: skip
    return Archive(
        folder, info=info, clock=clock.now_ms,
        segment_bytes_max=options.archive.segment_bytes_max, segment_age_ms_max=options.archive.segment_age_ms_max,
    )  # fmt: skip


def make_rules(config: Config, *, owner: str, partitions: int, known: Callable[[], tuple[str, ...]]) -> Rules:
    """What every fetch keeps to. `owner` names the process that fetches; `known`: see `Job`."""
    options, limits = config.options, config.options.limits
    return Rules(
        crawl=owner,
        user_agent=config.user_agent,
        limits=Limits(
            connect_ms=limits.connect_ms, first_byte_ms=limits.first_byte_ms, total_ms=limits.total_ms,
            header_bytes_max=limits.header_bytes_max, body_bytes_max=limits.body_bytes_max,
            decoded_bytes_max=limits.decoded_bytes_max, types=options.fetch.types,
        ),
        allow=parse_networks(options.fetch.allow_addresses),
        partitions=partitions, known=known if options.parse.links == "new" else tuple,
        counts_sites=config.settings.scope.pages_per_site_max > 0,
    )  # fmt: skip
