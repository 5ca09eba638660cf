"""A crawl whose parsers leave out links to known URLs comes to the same URLs as one that logs every link, and its log says
which links it left out. With real parser processes, which look into the stores while the crawl writes them and their maps
grow."""

from pathlib import Path

from frontlog.avro.enums import Topic
from frontlog.avro.events import Discovery
from frontlog.state.keys import ORIGIN_ID_BYTES, origin_id, url_key
from frontlog.state.rows import UrlRow
from support.crawls import crawl, events, prove, results, urls
from support.site import Site, page

PAGES = 40
MAP_BYTES = 1 << 18


def test_leaving_out_known_links_changes_nothing_but_the_log(tmp_path: Path) -> None:
    with Site(hosts=3) as site:
        for host in range(site.hosts):
            others = [site.url((host + 1) % site.hosts, f"/{n}") for n in range(0, PAGES, 7)]
            site.put(host, "/", page(f"home {host}", ["/0", "/1", *others]))
            for n in range(PAGES):
                near = [f"/{(n + step) % PAGES}" for step in range(1, 12)]
                site.put(host, f"/{n}", page(f"page {n} of {host}", ["/", *near, *others]))
        seeds = [site.url(host) for host in range(site.hosts)]
        both = {links: _crawled(tmp_path / links, seeds, links) for links in ("all", "new")}
    assert both["all"].keys() == both["new"].keys()
    for url, row in both["all"].items():
        other = both["new"][url]
        assert (other.state, other.reason, other.links_out) == (row.state, row.reason, row.links_out), url
    listed = {links: _listed(tmp_path / links) for links in both}
    assert len(listed["all"]) > 3 * len(listed["new"]), "most links of most pages are known"
    assert set(listed["all"]) == {*listed["new"], *seeds}, "each URL is discovered"
    left_out = [one for result in results(tmp_path / "new") for one in _left_out(result.parse)]
    ids = {_short(url, row) for url, row in both["new"].items()}
    assert set(left_out) <= ids
    assert len(listed["new"]) + len(left_out) == len(listed["all"])


def _crawled(folder: Path, seeds: list[str], links: str) -> dict[str, UrlRow]:
    crawl(
        folder, *seeds, parsers=True, scope__mode="any", log__durability="fsync", parse__links=links,
        politeness__gap_ms_min=0, map_bytes=MAP_BYTES,
    )  # fmt: skip
    prove(folder)
    return urls(folder)


def _listed(folder: Path) -> list[str]:
    found = events(folder, Topic.DISCOVERIES)
    return [url for event in found if isinstance(event, Discovery) and event.source_url for url in event.urls]


def _left_out(facts: object) -> list[bytes]:
    known: bytes = getattr(facts, "links_known", b"")
    return [known[at : at + 8] for at in range(0, len(known), 8)]


def _short(url: str, row: UrlRow) -> bytes:
    scheme, _, rest = row.url.partition("://")
    return url_key(origin_id(f"{scheme}://{rest.partition('/')[0]}"), url)[
        ORIGIN_ID_BYTES : ORIGIN_ID_BYTES + 8
    ]
