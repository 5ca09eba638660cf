"""The tables: name, key, what each holds, whether its rows count in the digests (DESIGN §4)."""

from typing import NamedTuple

from frontlog.state.rows import (
    AddressRow,
    ContentRow,
    EvidenceRow,
    HostRow,
    OriginRow,
    PatternRow,
    PolicyRow,
    Row,
    SitemapRow,
    SiteRow,
    TallyRow,
    UrlContentRow,
    UrlRow,
    UrlRuleRow,
)


class Table(NamedTuple):
    """One table. `row` is None for an index, whose keys say everything."""

    name: str
    key: str
    holds: str
    row: type[Row] | None
    digested: bool = True


FRONTIER_TABLES = (
    Table("urls", "origin_id ‖ url_id", "every known URL and what is known of it", UrlRow),
    Table("due", "origin_id ‖ class ‖ due_ms ‖ url_id", "what an origin can fetch, best first", None),
    Table("origins", "origin_id", "robots policy, operator's flags, counts by state and class", OriginRow),
    Table("hosts", "host_id", "the clock of politeness, the address, the errand under way", HostRow),
    Table("ready", "ready_ms ‖ host_id", "the heap: when each host can next be claimed", None),
    Table("leases", "deadline_ms ‖ kind ‖ url key or host_id", "what the sweeper returns", None),
    Table("errands", "host_id ‖ BLAKE2b-96 of origin_key", "robots hops that wait for this host", None),
    Table("addresses", "address", "the budget that hosts on one address share", AddressRow),
    Table("policies", "scope ‖ seq", "robots texts, operator's acts, settings", PolicyRow),
    Table(
        "url_rules",
        "origin_id ‖ rule ‖ value",
        "rules of identity at an origin, with their evidence",
        UrlRuleRow,
    ),
    Table(
        "evidence",
        "origin_id ‖ rule ‖ BLAKE2b-128s",
        "what speaks for and against rules of identity",
        EvidenceRow,
    ),
    Table("tallies", "origin_id ‖ name", "how much each rule merged or refused at an origin", TallyRow),
    Table(
        "patterns", "origin_id ‖ BLAKE2b-96 of pattern", "how many URLs of an origin look alike", PatternRow
    ),
    Table("inlinks", "BLAKE2b-96 of site ‖ BLAKE2b-96 of source", "which sites link to which", None),
    Table("sites", "registrable domain", "operator's flags and budgets of a site", SiteRow),
    Table("sitemaps", "origin_id ‖ url_id", "every sitemap and feed, and what it listed last", SitemapRow),
    Table("marks", "name", "settings, pauses and cursors of the whole partition", None),
)
CONTENT_TABLES = (
    Table("content", "content hash", "every distinct text", ContentRow),
    Table("url_content", "origin_id ‖ url_id", "which text each URL had last", UrlContentRow),
)
META = Table("meta", "name", "seq, token, positions, log_hash, digests", None, digested=False)
LOG = Table("log", "topic ‖ partition ‖ offset", "the embedded log", None, digested=False)

DIGESTED = tuple(t.name for t in (*FRONTIER_TABLES, *CONTENT_TABLES) if t.digested)
STORE_TABLES = tuple(t.name for t in (*FRONTIER_TABLES, *CONTENT_TABLES, META, LOG))
