"""Links that are no news are left out where a page is parsed, by what is committed in the shards' tables: no link that
could change something, whatever those tables hold, and none at all where they can't be read.

Not verified here: that nothing is lost when the process is killed in between. The simulation and `make kills` do that.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import cast

import pytest

from frontlog.avro.codec import decode
from frontlog.avro.enums import Reason as R
from frontlog.avro.enums import SourceKind
from frontlog.avro.enums import State as S
from frontlog.avro.events import Discovery, ParseFacts
from frontlog.fetch.known_links import KnownLinks, Stores
from frontlog.fetch.parse_job import Job, Parsed, parse
from frontlog.processors import inlinks
from frontlog.state import keys
from frontlog.state.catalogue import STORE_TABLES
from frontlog.state.lmdb_store import LmdbStore
from frontlog.state.rows import UrlRow

PAGE = "http://e.example/dir/page"
HTML = '<a href=/a>A</a><a href=/b#part>B</a><a href="https://other.example/x">X</a><a href=/a>again</a><a href=page>me</a>'
A, B, X = "http://e.example/a", "http://e.example/b", "https://other.example/x"
DEPTH = 3


class Recorded:
    """Stores of this process, which notes what was left out by which."""

    def __init__(self, stores: dict[str, LmdbStore]) -> None:
        self.inner = Stores()
        self.inner._stores.update(stores)  # pyright: ignore[reportPrivateUsage]
        self.settled = self.inner.settled


def key_of(url: str, origin_key: str) -> bytes:
    return keys.url_key(keys.origin_id(origin_key), url)


def origin_of(url: str) -> str:
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{rest.partition('/')[0]}:{443 if scheme == 'https' else 80}"


def job(folders: Sequence[str], *, counts_sites: bool = False) -> Job:
    return Job(
        "1-1-1 x", PAGE, PAGE, "text/html", "frontlog", DEPTH, 5_000, 1, HTML.encode(), known=tuple(folders),
        counts_sites=counts_sites,
    )  # fmt: skip


def links(found: Parsed) -> set[str]:
    return {url for one in found.discoveries for url in cast("Discovery", decode(one.value)).urls}


def facts(found: Parsed) -> ParseFacts:
    return cast("ParseFacts", decode(found.facts))


@pytest.fixture
def store(tmp_path: Path) -> LmdbStore:
    return LmdbStore(tmp_path / "frontier-0", STORE_TABLES, durability="none")


def put(store: LmdbStore, url: str, state: S, reason: R, *, depth: int = DEPTH + 1) -> None:
    row = UrlRow(url, state, reason, SourceKind.PAGE, depth=depth)
    with store.begin(write=True) as txn:
        txn.put("urls", key_of(url, origin_of(url)), row.encode())
        txn.commit()


def parsed(store: LmdbStore, *, counts_sites: bool = False) -> Parsed:
    known: KnownLinks = Recorded({"here": store})
    return parse(job(["here"], counts_sites=counts_sites), known)


def test_a_link_to_a_known_url_is_left_out_and_stands_in_the_facts(store: LmdbStore) -> None:
    put(store, A, S.FETCHED, R.OK)
    put(store, X, S.BLOCKED, R.ROBOTS_DENIED)
    found = parsed(store)
    assert links(found) == {"http://e.example/b#part"}
    assert facts(found).links_out == 3
    short = b"".join(key_of(url, origin_of(url))[15:23] for url in (A, X))
    assert facts(found).links_known == short, "8 bytes of the url_id of each, by origin, in the page's order"


def test_what_is_not_known_is_news(store: LmdbStore) -> None:
    found = parsed(store)
    assert links(found) == {A, "http://e.example/b#part", X}
    assert (facts(found).links_out, facts(found).links_known) == (3, b"")
    assert found == parse(job([]), None), "as without tables to look into"


@pytest.mark.parametrize(("depth", "news"), [(DEPTH + 2, True), (DEPTH + 1, False), (DEPTH, False)])
def test_a_shorter_way_to_what_is_out_of_scope_is_news(store: LmdbStore, depth: int, news: bool) -> None:
    put(store, A, S.BLOCKED, R.OUT_OF_SCOPE, depth=depth)
    assert (A in links(parsed(store))) is news


@pytest.mark.parametrize("depth", [0, 300, 65_535])
def test_a_shorter_way_to_what_is_in_scope_is_no_news(store: LmdbStore, depth: int) -> None:
    put(store, A, S.ELIGIBLE, R.ADMITTED, depth=depth)
    assert A not in links(parsed(store))


def test_the_first_link_between_two_sites_is_news_where_they_are_counted(store: LmdbStore) -> None:
    for url in (A, B, X):
        put(store, url, S.FETCHED, R.OK)
    assert links(parsed(store)) == set()
    assert links(parsed(store, counts_sites=True)) == {X}
    with store.begin(write=True) as txn:
        txn.put("inlinks", inlinks.key_of("other.example", "e.example"), b"")
        txn.commit()
    assert links(parsed(store, counts_sites=True)) == set()


def test_what_is_not_committed_is_not_known(store: LmdbStore) -> None:
    with store.begin(write=True) as txn:
        txn.put("urls", key_of(A, origin_of(A)), UrlRow(A, S.FETCHED, R.OK, SourceKind.PAGE).encode())
        assert A in links(parsed(store))
        txn.abort()


def test_a_store_that_cannot_be_read_leaves_nothing_out(tmp_path: Path) -> None:
    stores = Stores()
    torn = tmp_path / "torn"
    torn.mkdir()
    (torn / "data.mdb").write_bytes(b"\0" * 8_192)
    for folder in (str(tmp_path / "none"), str(torn), ""):
        assert links(parse(job([folder]), stores)) == {A, "http://e.example/b#part", X}
    assert not (tmp_path / "none").exists(), "a parser makes no store"


def test_a_parser_looks_into_the_store_that_another_process_writes(tmp_path: Path, store: LmdbStore) -> None:
    """Its map grows with the file, and it sees each commit."""
    with store.begin(write=True) as txn:
        txn.commit()
    store.close()
    stores, folder = Stores(), str(tmp_path / "frontier-0")
    assert A in links(parse(job([folder]), stores))
    stores.close()
    again = LmdbStore(folder, STORE_TABLES, durability="none")
    put(again, A, S.GONE, R.GONE)
    again.close()
    assert A not in links(parse(job([folder]), stores))
    stores.close()
