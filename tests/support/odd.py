"""A small web, and all the ways in which it may answer, fail and keep silent: what rules tests choose from."""

from frontlog.avro.enums import Reason, ScopeKind
from support.rival import DAY_MS

PARTITIONS = 2
TOKEN = "frontlog"
ORIGINS = (
    "http://a.example", "https://a.example", "http://www.a.example", "https://c.example", "http://d.example:8080",
)  # fmt: skip
PATHS = ("/", "/1", "/2?q", "/private/x")
URLS = tuple(origin + path for origin in ORIGINS for path in PATHS)
ADDRESSES = {"a.example": "198.51.100.1", "www.a.example": "198.51.100.1"}
LEASE_MS = 90_000
DEPTH_MAX = 16
ROUNDS_MAX = 1_000
TEXTS = (
    b"", b"User-agent: *\nDisallow: /private\n", b"User-agent: *\nDisallow: /\n", b"User-agent: *\nCrawl-delay: 5\n",
    b"User-agent: *\nCrawl-delay: 7200\nDisallow: /1\n",
)  # fmt: skip
NO_ANSWERS = (
    Reason.TIMEOUT, Reason.CONNECTION_RESET, Reason.CONNECTION_REFUSED, Reason.NO_ROUTE, Reason.TLS_FAILED,
    Reason.PROTOCOL_ERROR, Reason.TRUNCATED, Reason.DECODE_FAILED, Reason.DNS_FAILED, Reason.OVERSIZE, Reason.BAD_TYPE,
    Reason.HEADER_OVERSIZE, Reason.PARSER_LIMIT, Reason.WORKER_LOST, Reason.STORE_FULL, Reason.TOO_MANY_REDIRECTS,
    Reason.BLOCKED_NETWORK, Reason.RELEASED, Reason.ADDRESS_CHANGED,
)  # fmt: skip
NOT_ASKED = (Reason.BLOCKED_NETWORK, Reason.RELEASED, Reason.ADDRESS_CHANGED)
LOOK_UP_REASONS = (Reason.DNS_FAILED, Reason.BLOCKED_NETWORK, Reason.RELEASED)
TOTALS = (0, 20, 3_000)
STATUSES = (200, 200, 200, 201, 204, 301, 302, 304, 400, 401, 403, 404, 410, 429, 500, 502, 503, 600, 101)
ROBOTS_STATUSES = (200, 200, 301, 302, 403, 404, 429, 500, 503, 600)
WAITS = {"": 0, "0": 0, "-1": 0, "soon": 0, "30": 30_000, "86401": DAY_MS}
TIMES = (0, 1, 999, 1_000, 1_001, 5_000, 20_000, 60_000, 90_001, 600_001, 3_600_001, 86_400_001)
SCOPES = (
    (ScopeKind.CRAWL, ""), (ScopeKind.SITE, "a.example"), (ScopeKind.HOST, "a.example"),
    (ScopeKind.ORIGIN, "https://a.example:443"), (ScopeKind.PARTITION, "0"), (ScopeKind.PARTITION, "1"),
    (ScopeKind.HOST, "d.example"), (ScopeKind.SITE, "c.example"),
)  # fmt: skip
