"""What a fetcher gets once the log has the lease: everything it needs, nothing it must look up."""

import msgspec

from frontlog.avro.enums import FetchKind


class Lease(msgspec.Struct, frozen=True, kw_only=True):
    """One request that may be made, until `deadline_ms` (ms since the epoch, UTC) and with its fence.

    `url` is the identity (for errands what is requested), `requested` what is sent, `address` what the
    connection is pinned to (empty for a look-up). `asker` is the partition whose policy an errand's
    answer is; `partition` the one that gave the lease. `earlier_ms` is when the validators were received; 0: there are
    none. `sitemap`: the URL was named as a sitemap, and is read as one whatever it is served as; `via`: the indexes that
    led to it, outermost first.
    """

    kind: FetchKind
    partition: int
    origin_key: str
    host: str
    url: str
    requested: str
    address: str
    fence: int
    owner_token: int
    deadline_ms: int
    policy_version: int = 0
    depth: int = 0
    etag: str = ""
    last_modified: str = ""
    earlier_ms: int = 0
    chain: tuple[str, ...] = ()
    asker: int = 0
    token: str = ""
    sitemap: bool = False
    via: tuple[str, ...] = ()
