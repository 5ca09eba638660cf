"""Links that change nothing, as most links of most pages do: their target is known.

An ordinary link (of a page, not of a seed, a sitemap or an operator) to a known URL changes nothing, but where that is out
of scope and this is a shorter way to it. So it is no news, whoever looks: the owner of the target, or the process that
parses the page, in whatever older state of the tables, since no URL is ever forgotten and none becomes deeper
(ADR 0010).
"""

from collections.abc import Sequence

from frontlog.avro.enums import Reason, State
from frontlog.processors import inlinks
from frontlog.processors.sites import site_of
from frontlog.state import keys
from frontlog.state.rows import REASON_INDEX, STATE_INDEX, URL_BEGINNING_BYTES, depth_of
from frontlog.state.store import Txn

_OUT_OF_SCOPE = bytes((STATE_INDEX[State.BLOCKED], REASON_INDEX[Reason.OUT_OF_SCOPE]))
"""How the row of a URL begins that is out of scope."""


def changes_nothing(beginning: bytes, depth: int) -> bool:
    """Whether an ordinary link `depth` links from a seed changes nothing, to the URL whose row begins so."""
    return beginning[:2] != _OUT_OF_SCOPE or depth >= depth_of(beginning)


def settled(txn: Txn, url_keys: Sequence[bytes], depth: int) -> set[bytes]:
    """Those of the URLs that an ordinary link of this depth changes nothing about; any older state of `urls` will do."""
    found = txn.get_many("urls", url_keys)
    return {key for key, row in found.items() if changes_nothing(row[:URL_BEGINNING_BYTES], depth)}


def joins_sites(txn: Txn, origin_key: str, source_site: str) -> bool:
    """Whether a link from a page of `source_site` to an origin is the first between the two sites, which is counted where
    budgets depend on it (`inlinks.py`)."""
    site = site_of(keys.split_origin_key(origin_key)[1])
    return site != source_site and txn.get("inlinks", inlinks.key_of(site, source_site)) is None
