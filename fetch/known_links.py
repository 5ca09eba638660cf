"""Which links of a page are no news, by the tables of the shards that this machine folds (ADR 0010).

A parser looks into the stores of the frontier's shards, read only, so that links to known URLs come neither into the log nor
to the shards. What it sees is committed, and so durable in the log before anything that is made of this page; it may be
older than what the shard sees, which costs an event that changes nothing. A store that can't be read says nothing:
its links are all news.
"""

from collections.abc import Sequence
from typing import Protocol

from frontlog.avro.errors import FrontlogError
from frontlog.processors import repeats
from frontlog.state import keys
from frontlog.state.catalogue import STORE_TABLES
from frontlog.state.lmdb_store import LmdbStore
from frontlog.state.store import Store

KNOWN_LINK_BYTES = 8
"""Of what stands for a link that is no news: the first half of its url_id (`state/keys.py`)."""


class KnownLinks(Protocol):
    """Asked by a parser for each origin that a page links to."""

    def settled(
        self, folder: str, origin_key: str, url_keys: Sequence[bytes], depth: int, source_site: str
    ) -> set[bytes]:
        """The keys of the URLs that an ordinary link of this depth changes nothing about. `source_site`: the page's, where
        links between sites are counted, else empty."""
        ...


def short_of(url_key: bytes) -> bytes:
    """What stands for a link that is no news."""
    at = keys.ORIGIN_ID_BYTES
    return url_key[at : at + KNOWN_LINK_BYTES]


def settled_in(
    store: Store, origin_key: str, url_keys: Sequence[bytes], depth: int, source_site: str
) -> set[bytes]:
    """See `KnownLinks.settled`."""
    with store.begin() as txn:
        if source_site and repeats.joins_sites(txn, origin_key, source_site):
            return set()
        return repeats.settled(txn, url_keys, depth)


class Stores:
    """The stores of a process that parses, each opened once, when it is first asked."""

    def __init__(self) -> None:
        self._stores: dict[str, LmdbStore | None] = {}

    def settled(
        self, folder: str, origin_key: str, url_keys: Sequence[bytes], depth: int, source_site: str
    ) -> set[bytes]:
        """See `KnownLinks.settled`."""
        try:
            store = self._stores[folder]
        except KeyError:
            store = self._stores[folder] = _opened(folder)
        if store is None:
            return set()
        try:
            return settled_in(store, origin_key, url_keys, depth, source_site)
        except FrontlogError:
            return set()

    def close(self) -> None:
        """Close what was opened."""
        for store in self._stores.values():
            if store is not None:
                store.close()
        self._stores.clear()


def _opened(folder: str) -> LmdbStore | None:
    try:
        return LmdbStore(folder, STORE_TABLES, readonly=True, readahead=False)
    except FrontlogError:
        return None
